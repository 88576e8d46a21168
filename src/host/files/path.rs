//! Paths as scripts write them, made relative to the root before anything is opened.

use std::path::Path;

use crate::error::{ErrorKind, Result, SkillError};

/// The path below the root, `/`-separated, with `.` and `..` resolved in the text; the root itself is the empty string.
///
/// Absolute paths are taken only below `root`. What leads out is `denied`; an empty path or one with NUL is `invalid-argument`.
pub fn relative(path: &str, root: Option<&Path>) -> Result<String> {
    if path.is_empty() || path.contains('\0') {
        return Err(SkillError::new(ErrorKind::InvalidArgument, format!("{path:?} is not a path")));
    }
    let outside = || SkillError::new(ErrorKind::Denied, format!("{path} is outside the project"));
    let below = match root.and_then(Path::to_str) {
        Some(root) if path.starts_with('/') => path
            .strip_prefix(root)
            .filter(|rest| rest.is_empty() || rest.starts_with('/'))
            .ok_or_else(outside)?,
        _ if path.starts_with('/') => return Err(outside()),
        _ => path,
    };
    let mut parts = Vec::new();
    for part in below.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop().ok_or_else(outside)?),
            name => parts.push(name),
        }
    }
    Ok(parts.join("/"))
}
