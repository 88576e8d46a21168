//! Why a link in the folder of a skill is not read: its target is no file of the skill.
//!
//! What a skill is trusted for are the files of its folder. A file elsewhere can change without the skill's digest, and may be one that is
//! protected, so a link to it is never followed; a whole folder may be a link.

use std::path::Path;

use crate::error::{ErrorKind, SkillError};
use crate::excerpt::shorten;

const MAX_TARGET_CHARS: usize = 200;

/// The error of a link of this name that leads out of the folder or to nothing that can be read; `None` for everything else.
pub fn outward_link_error(folder: &Path, name: &str) -> Option<SkillError> {
    let path = folder.join(name);
    let target = std::fs::read_link(&path).ok()?;
    let shown = shorten(&target.to_string_lossy().escape_debug().to_string(), MAX_TARGET_CHARS);
    let Ok(found) = path.metadata() else {
        let sentence = format!("{name} is a link to {shown}, which is not there or cannot be reached");
        return Some(SkillError::new(ErrorKind::Io, sentence).with_help("put the file in its place"));
    };
    if !found.is_file() {
        let sentence = format!("{name} is a link to {shown}, which is not a regular file");
        return Some(SkillError::new(ErrorKind::Io, sentence).with_help("put the file in its place"));
    }
    let is_inside = path.canonicalize().ok()?.starts_with(folder.canonicalize().ok()?);
    let (sentence, help) = match (is_inside, target.is_absolute()) {
        (true, false) => return None,
        (true, true) => (format!("{name} is a link to the absolute path {shown}"), "make it a relative link"),
        (false, _) => (
            format!("{name} is a link to {shown}, outside of the skill's folder"),
            "copy the file into the folder, or make the whole folder of the skill a link",
        ),
    };
    Some(SkillError::new(ErrorKind::Io, sentence).with_help(help))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_that_is_not_followed_is_named_with_its_target() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("skill");
        fs::create_dir_all(folder.join("docs")).unwrap();
        fs::write(parent.path().join("shared.md"), "text").unwrap();
        fs::write(folder.join("docs/real.md"), "text").unwrap();
        let at = |target: &str| {
            drop(fs::remove_file(folder.join("SKILL.md")));
            symlink(target, folder.join("SKILL.md")).unwrap();
            outward_link_error(&folder, "SKILL.md").map(|error| error.message().to_owned())
        };
        let is = |target: &str, end: &str| Some(format!("SKILL.md is a link to {target}, {end}"));
        assert_eq!(at("../shared.md"), is("../shared.md", "outside of the skill's folder"));
        let absolute = folder.join("docs/real.md").display().to_string();
        assert_eq!(at(&absolute), Some(format!("SKILL.md is a link to the absolute path {absolute}")));
        assert_eq!(at("nowhere"), is("nowhere", "which is not there or cannot be reached"));
        assert_eq!(at("../skill"), is("../skill", "which is not a regular file"));
        assert_eq!(at("/dev/null"), is("/dev/null", "which is not a regular file"));
        assert_eq!(at("a\nb"), is("a\\nb", "which is not there or cannot be reached"));
        assert_eq!(at("docs/real.md"), None);
        assert!(outward_link_error(&folder, "docs").is_none());
        assert!(outward_link_error(&folder, "none").is_none());
    }
}
