//! The hint for a script that wanted to create what the host had created for it: the folder of a permission.

use std::path::Path;

use crate::error_line::error_line;
use crate::hints::permission_hint::Help;
use crate::hints::shown_path::shown_path;
use crate::hints::words::matches_any;
use crate::policy::names_folder;
use metier_core::host::SkillContext;
use metier_core::policy::Access;

/// What says that a name is taken, in lower case.
const TAKEN_TEXTS: [&[&str]; 6] = [
    &["file exists"],
    &["already exists"],
    &["fileexistserror"],
    &["eexist"],
    &["is a directory"],
    &["eisdir"],
];

/// The hint for an empty folder that a permission of the script names, and whose name the script found taken.
pub(crate) fn created_folder_hint(ctx: &SkillContext, project: &Path, text: &str) -> Option<Help> {
    let line = error_line(text)?;
    if !matches_any(&line.to_lowercase(), &TAKEN_TEXTS) {
        return None;
    }
    let writable = ctx.permissions().writable_paths();
    let path = writable.iter().find(|path| {
        names_folder(path) && names_path(line, path) && is_empty_folder(&project.join(path.as_str()))
    })?;
    let text = format!(
        "metier creates the folder {} before the run, since {} opens only what exists; make it with `mkdir -p`, or create the file \
         before the run if it is to be one",
        shown_path(path),
        Access::write(path)
    );
    Some((text, None))
}

/// Whether a line has this path or its last name, not as a part of another name.
fn names_path(line: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_part = |c: char| c.is_alphanumeric() || "._-".contains(c);
    line.match_indices(name).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        !before.ends_with(is_part) && !after.starts_with(|c: char| is_part(c) || c == '/')
    })
}

/// What a symlink leads to is not looked at.
fn is_empty_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|about| about.is_dir())
        && path.read_dir().is_ok_and(|mut entries| entries.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_as_a_name_of_its_own() {
        for line in [
            "mkdir: cannot create directory ‘out’: File exists",
            "/p/out: Is a directory",
            "'out'",
            "EEXIST, mkdir out",
        ] {
            assert!(names_path(line, "out") && names_path(line, "reports/out"), "{line}");
        }
        for line in ["", "layout: File exists", "out.md: File exists", "out/a: File exists", "my-out"] {
            assert!(!names_path(line, "out"), "{line}");
        }
    }
}
