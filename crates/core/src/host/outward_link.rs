//! Links that lead out of the folder of a skill: which one is followed, and why no other is.
//!
//! What a skill is trusted for are the files of its folder. A file elsewhere can change without the skill's digest, and may be one that is
//! protected. So only a `SKILL.md` may be such a link, and only to another file of that name in the same project: the digest has its
//! content, and it shows nobody more than the text of a skill. A whole folder may be a link.

use std::fs::File;
use std::path::{Path, PathBuf};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};

use crate::error::{ErrorKind, SkillError};
use crate::excerpt::shorten;

const MAX_TARGET_CHARS: usize = 200;

const SKILL_FILE: &str = "SKILL.md";

/// Opens the file behind a `SKILL.md` that is a link to another one in the same project; `None` for everything else.
pub fn open_linked_skill_file(folder: &Path, name: &str) -> Option<File> {
    if !name.eq_ignore_ascii_case(SKILL_FILE) || !folder.join(name).is_symlink() {
        return None;
    }
    let folder = folder.canonicalize().ok()?;
    let project = project_of_skill(&folder)?;
    let target = folder.join(name).canonicalize().ok()?;
    let within = target.strip_prefix(&project).ok()?;
    if !within.file_name()?.eq_ignore_ascii_case(SKILL_FILE) {
        return None;
    }
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true).follow(FollowSymlinks::No);
    let project = Dir::open_ambient_dir(project, ambient_authority()).ok()?;
    let file = project.open_with(within, &options).ok()?.into_std();
    file.metadata().ok()?.is_file().then_some(file)
}

/// The folder around `.NAME/skills`, if the skill's folder lies there.
fn project_of_skill(folder: &Path) -> Option<PathBuf> {
    let is_hidden =
        |folder: &Path| folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let is_root = |folder: &&Path| folder.ends_with("skills") && folder.parent().is_some_and(is_hidden);
    Some(folder.ancestors().skip(1).find(is_root)?.parent()?.parent()?.to_owned())
}

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
    fn a_skill_md_of_the_same_project_is_followed_and_nothing_else() {
        use std::io::Read;

        let parent = tempfile::tempdir().unwrap();
        let project = parent.path().join("project");
        let folder = project.join(".agents/skills/a");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(project.join("src/a/docs/SKILL.md")).unwrap();
        fs::create_dir_all(parent.path().join("other/.agents/skills/b")).unwrap();
        for file in ["project/src/a/SKILL.md", "project/.env", "SKILL.md", "other/.agents/skills/b/SKILL.md"]
        {
            fs::write(parent.path().join(file), file).unwrap();
        }
        symlink("a/SKILL.md", project.join("src/SKILL.md")).unwrap();
        symlink("../.env", project.join("src/skill.md")).unwrap();
        symlink("../..", project.join("up")).unwrap();
        let absolute = project.join("src/a/SKILL.md").display().to_string();
        let at = |name: &str, target: &str| {
            drop(fs::remove_file(folder.join(name)));
            symlink(target, folder.join(name)).unwrap();
            let mut text = String::new();
            open_linked_skill_file(&folder, name)?.read_to_string(&mut text).unwrap();
            Some(text)
        };
        for target in ["../../../src/a/SKILL.md", "../../../src/SKILL.md", absolute.as_str()] {
            assert_eq!(at("SKILL.md", target).as_deref(), Some("project/src/a/SKILL.md"), "{target}");
        }
        for target in [
            "../../../.env",
            "../../../src/skill.md",
            "../../../../SKILL.md",
            "../../../up/SKILL.md",
            "../../../../other/.agents/skills/b/SKILL.md",
            "../../../src/a/docs/SKILL.md",
            "SKILL.md",
            "none",
        ] {
            assert_eq!(at("SKILL.md", target), None, "{target}");
        }
        assert_eq!(at("skill.yaml", "../../../src/a/SKILL.md"), None);
        let folder = project.join("src/b");
        fs::create_dir(&folder).unwrap();
        symlink("../a/SKILL.md", folder.join("SKILL.md")).unwrap();
        assert!(
            open_linked_skill_file(&folder, "SKILL.md").is_none(),
            "a folder that is in no `.NAME/skills`"
        );
    }

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
