//! Where a `SKILL.md` lies, as far as the rules of the specification depend on it.

/// The folder and the file name of a `SKILL.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkillLocation<'a> {
    /// The name of the skill's folder. A caller that has only `.` resolves it first.
    pub directory: &'a str,
    /// The name of the file, usually `SKILL.md`.
    pub file_name: &'a str,
}
