//! The hint for a script that looked for a file elsewhere than where it is: in its own home, which is not that of the user, or in the
//! project, where the file lies beside the script.

use std::path::{Component, Path, PathBuf};

use crate::host::SkillContext;
use crate::runtimes::external::error_line::error_line;
use crate::runtimes::external::hints::denied_file::missing_file;
use crate::runtimes::external::hints::file_change::{is_for_person, normalize_lexically, shown_path};
use crate::runtimes::external::hints::permission_hint::Help;

/// What says, in lower case, that a file is not there.
const ABSENCE_WORDS: [&str; 10] = [
    "can't find",
    "cannot find",
    "could not find",
    "does not exist",
    "doesn't exist",
    "enoent",
    "missing",
    "no such file",
    "not found",
    "unable to find",
];

/// The hint for a file that the script looked for in its home, and that is in the home of the user. What is there is only for the
/// person who runs the script: no model is told, and no script that called this one.
pub(crate) fn user_home_hint(ctx: &SkillContext, home: Option<&Path>, text: &str) -> Option<Help> {
    if !is_for_person(ctx) {
        return None;
    }
    let user_home = std::env::home_dir()?.canonicalize().ok()?;
    let home = home?;
    let is_of_user = |rest: &PathBuf| {
        let is_new = home.join(rest).symlink_metadata().is_err();
        is_new && user_home.join(rest).canonicalize().is_ok_and(|real| real.starts_with(&user_home))
    };
    // A remark before the error is not its reason.
    let lines = error_line(text).into_iter();
    let is_about_absence = |line: &&str| {
        let small = line.to_lowercase();
        ABSENCE_WORDS.iter().any(|words| small.contains(words))
    };
    let rest = lines.filter(is_about_absence).filter_map(|line| path_below(line, home)).find(is_of_user)?;
    let shown = shown_path(&format!("~/{}", rest.to_string_lossy()));
    let text = format!(
        "{shown} is in your home folder, and a script has a home of its own in the sandbox; copy what it needs into the project, or \
         pass the path of the copy"
    );
    Some((text, None))
}

/// The path below a home that a line names, as a path or with `~`.
fn path_below(line: &str, home: &Path) -> Option<PathBuf> {
    let written = format!("{}/", home.to_str()?);
    let rest = [written.as_str(), "~/"].iter().find_map(|start| line.split_once(start))?.1;
    let is_end = |c: char| c.is_whitespace() || ['\'', '"', '`', '’', ':', ',', ')', ';'].contains(&c);
    let path = rest[..rest.find(is_end).unwrap_or(rest.len())].trim_end_matches(['.', '/']);
    let is_plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    (is_plain && !path.is_empty()).then(|| path.into())
}

/// The hint for a file that is missing in the project, where scripts run, and lies in the folder of the skill.
pub(crate) fn skill_file_hint(ctx: &SkillContext, project: &Path, text: &str) -> Option<Help> {
    let written = missing_file(error_line(text)?)?;
    let path = normalize_lexically(&project.join(written));
    let inside = path.strip_prefix(project).ok().filter(|inside| !inside.as_os_str().is_empty())?;
    let (files, inside) = (ctx.skill_files().ok()?, inside.to_str()?);
    // A name alone, such as package.json, is more likely that of the project. What lies behind a link is not looked at.
    let is_beside_script = inside.contains('/') && files.file_id(Path::new(inside)).is_ok();
    if path.symlink_metadata().is_ok() || files.root() == project || !is_beside_script {
        return None;
    }
    let shown = shown_path(written);
    let text = format!(
        "scripts run in the project, which has no {shown}; it is in the folder of the skill, whose path the script finds in \
         METIER_SKILL_DIR"
    );
    Some((text, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_below_the_home_is_found_in_a_line() {
        let home = Path::new("/tmp/metier-0/home");
        for (line, path) in [
            (
                "FileNotFoundError: [Errno 2] No such file or directory: '/tmp/metier-0/home/.a/b.json'",
                ".a/b.json",
            ),
            ("ERROR: /tmp/metier-0/home/.a/b.json not found — nothing", ".a/b.json"),
            ("Error: ENOENT: no such file or directory, open '/tmp/metier-0/home/.a/b.json'", ".a/b.json"),
            ("No config at ~/.a/b.json.", ".a/b.json"),
            ("cat: /tmp/metier-0/home/.a: No such file or directory", ".a"),
        ] {
            assert_eq!(path_below(line, home), Some(path.into()), "{line}");
        }
        for line in ["", "see ~/", "~/../x is missing", "/home/me/.a is missing", "~ is missing"] {
            assert_eq!(path_below(line, home), None, "{line}");
        }
    }
}
