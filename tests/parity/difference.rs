//! How a run ended, and the comparison of two.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use crate::support::cli::Project;

/// How a run ended, and the files that there are after it.
pub struct Ending {
    pub output: Output,
    pub files: BTreeMap<String, Vec<u8>>,
}

/// Every file below the folder with its content, without caches of interpreters.
pub fn files_in(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = walkdir::WalkDir::new(folder).sort_by_file_name().into_iter().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().is_file());
    let content = |path: &Path| std::fs::read(path).unwrap_or_default();
    let named = files.map(|file| {
        let name = file.path().strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
        (name, content(file.path()))
    });
    named.filter(|(name, _)| !name.contains("__pycache__")).collect()
}

/// Compares a direct run with one in the sandbox. Their projects lie in different folders, so the names of those count as equal. What
/// metier reports after the output of the script is its own.
pub fn assert_same(about: &str, direct: (&Ending, &Project), sandboxed: (&Ending, &Project)) {
    let (expected, mut found) = (ending_text(direct), ending_text(sandboxed));
    let end = without_notes(&found[2]).len();
    found[2].truncate(end);
    assert_eq!(found, expected, "{about}");
}

/// The error output without the warnings and the help at its end.
fn without_notes(stderr: &str) -> &str {
    let mut rest = stderr;
    loop {
        let start = rest.trim_end_matches('\n').rfind('\n').map_or(0, |at| at + 1);
        if !["warning: ", "help: "].iter().any(|note| rest[start..].starts_with(note)) {
            return rest;
        }
        rest = &rest[..start];
    }
}

fn ending_text((ending, project): (&Ending, &Project)) -> [String; 4] {
    let root = project.root().to_str().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(root, "PROJECT");
    let files: Vec<String> =
        ending.files.iter().map(|(name, content)| format!("{name}: {}", text(content))).collect();
    let output = &ending.output;
    [format!("{}", output.status), text(&output.stdout), text(&output.stderr), files.join("\n")]
}
