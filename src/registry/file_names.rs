//! The names by which files make a skill.

/// The accepted names of a `SKILL.md`; the first that exists counts.
pub(super) const SKILL_FILE_NAMES: [&str; 3] = ["SKILL.md", "skill.md", "Skill.md"];

/// Extensions of scripts that are skills by themselves; also those by which a file beside a missing `SKILL.md` is taken for a
/// skill's script.
pub(super) const SCRIPT_EXTENSIONS: [&str; 19] = [
    "lua", "luau", "rhai", "wasm", "wat", "py", "sh", "bash", "js", "mjs", "cjs", "ts", "mts", "rb", "pl",
    "php", "zsh", "ksh", "fish",
];

/// The name of the skill that a file in a root is, if it is one: its own without the extension.
pub(super) fn drop_in_name(file_name: &str) -> Option<&str> {
    let (stem, extension) = file_name.rsplit_once('.')?;
    let is_skill =
        !stem.is_empty() && !stem.starts_with(['.', '_']) && SCRIPT_EXTENSIONS.contains(&extension);
    is_skill.then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_skill_by_its_name() {
        for (file, skill) in [
            ("hello.lua", Some("hello")),
            ("a.b.py", Some("a.b")),
            ("_helper.py", None),
            (".hidden.py", None),
            (".py", None),
            ("hello", None),
            ("hello.md", None),
            ("hello.PY", None),
        ] {
            assert_eq!(drop_in_name(file), skill, "{file}");
        }
    }
}
