//! Why a script in a cage may have failed: what its errors show, held against what the cage kept shut.
//!
//! The system says `Operation not permitted` and no more. What is said here is what the cage does for certain, and which grant
//! would change it; whether that is what the script stumbled over, only its author can know.

use std::path::{Component, Path, PathBuf};

use super::reach;
use crate::host::SkillContext;
use crate::policy::Need;

/// What errors show when something was shut.
struct Sign {
    /// In small letters; any row of them, all of the row.
    shows: &'static [&'static [&'static str]],
    /// What would have opened it.
    need: fn() -> Need,
    /// What the cage does.
    says: &'static str,
}

/// The first that fits counts.
const SIGNS: [Sign; 3] = [
    Sign {
        shows: &[&["/dev/shm"], &["semlock"], &["shm_open"], &["shared_memory"]],
        need: Need::shm,
        says: "the cage has no memory that programs share by name (/dev/shm)",
    },
    Sign {
        shows: &[
            &["docker daemon"],
            &["docker.sock"],
            &["d-bus", "bus"],
            &["connection to server on socket"],
            &["unix:///"],
            &["/run/", ".sock"],
        ],
        need: Need::unsandboxed,
        says: "the cage reaches no service of this machine through a local socket, with or without the network",
    },
    Sign {
        shows: &[
            &["could not resolve host"],
            &["couldn't resolve host"],
            &["couldn't connect to server"],
            &["name resolution"],
            &["name or service not known"],
            &["gaierror"],
            &["eai_again"],
            &["enotfound"],
            &["failed to establish a new connection"],
            &["urlopen error"],
            &["/dev/tcp/"],
            &["/dev/udp/"],
            &["connect eperm"],
            &["listen eperm"],
            &["bind eperm"],
            &["operation not permitted", "socket"],
            &["operation not permitted", "connect"],
            &["operation not permitted", "dial tcp"],
        ],
        need: Need::network,
        says: "the cage allows no network",
    },
];

/// How systems and languages say that a file was refused.
const REFUSED_FILE: [&str; 4] = ["permission denied", "eacces", "read-only file system", "erofs"];

/// How much of the end of the errors is looked at, in bytes.
const LOOKED_AT: usize = 64 << 10;

/// What the cage has to say to a script that failed with these errors, which hold no secret; nothing where it kept nothing shut that they show.
pub(super) fn explained(ctx: &SkillContext, project: &Path, stderr: &str) -> Option<String> {
    let start = stderr.len().saturating_sub(LOOKED_AT);
    let start = (start..stderr.len()).find(|at| stderr.is_char_boundary(*at)).unwrap_or(stderr.len());
    let text = &stderr[start..];
    by_sign(ctx, &text.to_lowercase()).or_else(|| by_file(ctx, project, text))
}

fn by_sign(ctx: &SkillContext, text: &str) -> Option<String> {
    let fits = |sign: &&Sign| sign.shows.iter().any(|row| row.iter().all(|part| text.contains(part)));
    let sign = SIGNS.iter().filter(fits).find(|sign| !ctx.permissions().allows(&(sign.need)()))?;
    Some(format!("{}; if the script needs it, {}", sign.says, way_out(ctx, &(sign.need)())?))
}

/// The last file that was refused, and whether the cage could be why.
fn by_file(ctx: &SkillContext, project: &Path, text: &str) -> Option<String> {
    let written = text.lines().rev().find_map(refused_file)?;
    let path = lexical(&project.join(written));
    let real = nearest_real(&path);
    let shown = written.escape_debug();
    let Ok(inside) = real.strip_prefix(project) else {
        let is_system = reach::is_system(&path);
        let reach = if is_system { "change nothing of the system" } else { "reach nothing there" };
        let advice = if is_system {
            "write to the project, or to $HOME"
        } else {
            "copy what it needs into the project"
        };
        let is_own = path.starts_with(std::env::temp_dir()) && path.to_string_lossy().contains("/metier-");
        return (!is_own).then(|| {
            format!("{shown} lies outside of the project, and scripts in a cage {reach}; {advice}")
        });
    };
    let need = Need::write(inside.to_str()?);
    if let Some(secret) = secret(ctx, inside.to_str()?) {
        return Some(format!(
            "the cage keeps {shown}, where secrets may be, from this script; if it should read it, {secret}"
        ));
    }
    match way_out(ctx, &need) {
        Some(way_out) => Some(format!(
            "the cage lets this script read the project, not change {shown}; if it should, {way_out}"
        )),
        // Granted, and refused all the same.
        None => Some(format!(
            "to change {shown} is granted, but a cage opens what exists when the run begins; make its folder before, or see \
             whose it is"
        )),
    }
}

/// What would show a script a secret of the project's; nothing where the path is none or is shown. History is none.
fn secret(ctx: &SkillContext, path: &str) -> Option<String> {
    let is_history = path.split('/').any(|part| part.eq_ignore_ascii_case(".git"));
    let is_secret = ctx.permissions().protection().guards_read(path) && !is_history;
    if is_secret { way_out(ctx, &Need::read(path)) } else { None }
}

/// The file a line complains about: in quotes, or the last word before the complaint.
fn refused_file(line: &str) -> Option<&str> {
    // Letters keep their places: the complaints are ASCII.
    let small = line.to_ascii_lowercase();
    let at = REFUSED_FILE.iter().find_map(|complaint| small.find(complaint))?;
    let quoted = |(open, close): (char, char)| {
        let (_, rest) = line.split_once(open)?;
        rest.split_once(close).map(|(inner, _)| inner)
    };
    let quoted = [('\'', '\''), ('‘', '’'), ('"', '"'), ('`', '`')].into_iter().find_map(quoted);
    let before = || line[..at].trim_end().trim_end_matches(':').rsplit([' ', '\t']).next();
    quoted.or_else(before).filter(|path| !path.is_empty() && !path.contains('\0'))
}

/// What would allow it; nothing where it is allowed.
fn way_out(ctx: &SkillContext, need: &Need) -> Option<String> {
    let refusal = ctx.permissions().require(need, "").err()?;
    refusal.help().map(str::to_owned)
}

/// Without `.` and `..`, whatever the disk holds.
fn lexical(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            part => path.push(part),
        }
        path
    })
}

/// Where a path leads whose end may not exist.
fn nearest_real(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
    existing.map_or_else(
        || path.to_owned(),
        |(above, real)| path.strip_prefix(above).map_or_else(|_| path.to_owned(), |rest| real.join(rest)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refused_file_is_found_in_the_words_of_many_tools() {
        for (line, file) in [
            ("PermissionError: [Errno 13] Permission denied: 'out/a.txt'", "out/a.txt"),
            ("Error: EACCES: permission denied, open 'a b.txt'", "a b.txt"),
            ("scripts/run.bash: line 3: out.txt: Permission denied", "out.txt"),
            ("touch: cannot touch 'x': Read-only file system", "x"),
            ("mkdir: cannot create directory ‘deep’: Permission denied", "deep"),
            ("sh: 1: cannot create out: Permission denied", "out"),
            ("fatal: cannot mkdir .git: Permission denied", ".git"),
            ("error: could not lock config file .git/config: Permission denied", ".git/config"),
        ] {
            assert_eq!(refused_file(line), Some(file), "{line}");
        }
        for line in ["all went well", "Permission denied", ": Permission denied", ""] {
            assert_eq!(refused_file(line), None, "{line}");
        }
    }
}
