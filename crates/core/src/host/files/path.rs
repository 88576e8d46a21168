//! Paths as scripts write them, made relative to the root before anything is opened.

use std::path::Path;

use crate::error::{ErrorKind, Result, SkillError};

/// Maximum bytes of a path; Linux's `PATH_MAX`.
const MAX_PATH_BYTES: usize = 4096;
/// Maximum bytes of a name; the limit of the common file systems.
const MAX_NAME_BYTES: usize = 255;

/// The path below the project's root, `/`-separated, with `.` and `..` resolved in the text only; the root itself is the empty
/// string.
///
/// Absolute paths are accepted only below `root`. A path that leads out is `outside-project`; an empty path, one with NUL, and one that no
/// file system accepts (more than 4096 bytes, a name of more than 255) are `invalid-argument`.
pub fn relative_path(path: &str, root: Option<&Path>) -> Result<String> {
    path_below(path, root, "the project")
}

/// As [`relative_path`], below any root; `label` is what errors call it.
pub fn path_below(path: &str, root: Option<&Path>, label: &str) -> Result<String> {
    if let Some(fault) = path_fault(path) {
        return Err(SkillError::new(ErrorKind::InvalidArgument, fault));
    }
    let outside = || SkillError::new(ErrorKind::OutsideProject, format!("{path} is outside {label}"));
    let below = if path.starts_with('/') { below_root(path, root).ok_or_else(outside)? } else { path };
    if is_normalized(below) {
        return Ok(below.to_owned());
    }
    let mut parts = Vec::new();
    for part in below.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop().ok_or_else(outside)?),
            name if name.len() > MAX_NAME_BYTES => {
                let fault =
                    format!("a name in the path has {} bytes; the maximum is {MAX_NAME_BYTES}", name.len());
                return Err(SkillError::new(ErrorKind::InvalidArgument, fault));
            }
            name if cfg!(windows) && is_reserved_on_windows(name) => return Err(outside()),
            name => parts.push(name),
        }
    }
    Ok(parts.join("/"))
}

fn path_fault(path: &str) -> Option<String> {
    if path.len() > MAX_PATH_BYTES {
        return Some(format!("the path has {} bytes; the maximum is {MAX_PATH_BYTES}", path.len()));
    }
    (path.is_empty() || path.contains('\0'))
        .then(|| format!("invalid path {path:?}: it is empty or has a NUL byte"))
}

/// Whether the path needs no resolution, as almost every path.
fn is_normalized(path: &str) -> bool {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= MAX_NAME_BYTES;
    !cfg!(windows) && path.split('/').all(is_plain)
}

/// The text of an absolute path after the root.
fn below_root<'a>(path: &'a str, root: Option<&Path>) -> Option<&'a str> {
    let root = root?.to_str()?.trim_end_matches('/');
    path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Names with a special meaning on Windows: drives, streams, other separators, devices, and endings that it trims.
fn is_reserved_on_windows(name: &str) -> bool {
    const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];
    let stem = name.split('.').next().unwrap_or(name).trim_end().to_ascii_lowercase();
    let is_port = |prefix| stem.strip_prefix(prefix).is_some_and(|digit: &str| digit.chars().count() == 1);
    name.contains(['\\', ':'])
        || name.ends_with(['.', ' '])
        || DEVICES.contains(&stem.as_str())
        || is_port("com")
        || is_port("lpt")
}

/// The path of a name in a folder.
pub(super) fn join_path(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        return name.to_owned();
    }
    let mut path = String::with_capacity(folder.len() + 1 + name.len());
    path.push_str(folder);
    path.push('/');
    path.push_str(name);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(path: &str) -> ErrorKind {
        relative_path(path, Some(Path::new("/home/p"))).unwrap_err().kind()
    }

    #[test]
    fn paths_are_resolved_in_the_text() {
        let cases = [
            ("a/./b//c/", "a/b/c"),
            ("a/../b", "b"),
            (".", ""),
            ("/home/p/x", "x"),
            ("/home/p", ""),
            ("...", "..."),
        ];
        for (given, expected) in cases {
            assert_eq!(relative_path(given, Some(Path::new("/home/p"))).unwrap(), expected, "{given}");
        }
        assert_eq!(relative_path("/etc/x", Some(Path::new("/"))).unwrap(), "etc/x");
    }

    #[test]
    fn paths_that_lead_out_are_outside_and_nonsense_is_no_argument() {
        for path in
            ["../x", "a/../../x", "../../../../../../etc", "/etc/passwd", "//etc/passwd", "/home/pp/x"]
        {
            assert_eq!(kind(path), ErrorKind::OutsideProject, "{path}");
        }
        let long = "a/".repeat(3000);
        for path in ["", "a\0b", &"n".repeat(256), &long] {
            assert_eq!(kind(path), ErrorKind::InvalidArgument);
        }
    }

    #[test]
    fn windows_names_that_are_no_files_are_known() {
        for name in ["C:", "NUL", "con.txt", "COM1", "a:stream", "\\\\?\\x", "dot.", "space ", "..\\x"] {
            assert!(is_reserved_on_windows(name), "{name}");
        }
        for name in ["console", "com", "comet", "a.b", "null"] {
            assert!(!is_reserved_on_windows(name), "{name}");
        }
    }
}
