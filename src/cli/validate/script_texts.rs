//! Finds scripts of shells that a shell misreads: with line ends of Windows, or with a byte order mark.

use cap_std::fs::Dir;
use metier::skill::Diagnostic;
use metier_external::{MisreadText, misread_shell_text};

use super::skill_file;
use crate::cli::validate::lints;

/// The most scripts that are looked at, how deep they lie, and how much of each is read.
const MAX_SCRIPTS: usize = 256;
const MAX_DEPTH: usize = 4;
const MAX_BYTES: usize = 256 << 10;
/// The most entries of one folder.
const MAX_ENTRIES: usize = 4096;

/// A warning for each such script in `scripts/` or beside the file that defines the skill.
pub fn misread_scripts(dir: &Dir) -> Vec<Diagnostic> {
    let mut paths = Vec::new();
    collect_files(dir, "", 1, &mut paths);
    if let Ok(scripts) = dir.open_dir("scripts") {
        collect_files(&scripts, "scripts/", MAX_DEPTH, &mut paths);
    }
    paths.sort();
    paths.iter().take(MAX_SCRIPTS).filter_map(|path| misread_file(dir, path)).collect()
}

fn misread_file(dir: &Dir, path: &str) -> Option<Diagnostic> {
    // A file of another name is no script that somebody starts by its name.
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.contains('.') && !metier_external::looks_like_script(path, || None) {
        return None;
    }
    misread_script(path, &skill_file::read_up_to(dir, path, MAX_BYTES).ok()?.bytes)
}

/// The warning for one script with this content.
pub fn misread_script(path: &str, source: &[u8]) -> Option<Diagnostic> {
    let MisreadText { reason, help } = misread_shell_text(path, source)?;
    let found = Diagnostic::new(&lints::SCRIPT_MISREAD, "", &(0..0), format!("`{path}`: {reason}"));
    Some(found.with_help(help))
}

fn collect_files(dir: &Dir, above: &str, depth: usize, paths: &mut Vec<String>) {
    for entry in dir.entries().into_iter().flatten().take(MAX_ENTRIES).flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Ok(kind) = entry.file_type() else { continue };
        if name.starts_with('.') || paths.len() >= MAX_ENTRIES {
            continue;
        }
        let path = format!("{above}{name}");
        if kind.is_file() {
            paths.push(path);
        } else if kind.is_dir()
            && depth > 1
            && let Ok(below) = entry.open_dir()
        {
            collect_files(&below, &format!("{path}/"), depth - 1, paths);
        }
    }
}
