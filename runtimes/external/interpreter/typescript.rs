//! Whether a Node can run TypeScript: it leaves out the types of a script since 22.18 and 23.6.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::error::{ErrorKind, Result, SkillError};

/// The file extensions of scripts that Node runs since those versions.
const EXTENSIONS: [&str; 3] = ["ts", "mts", "cts"];

/// The first version of each line that does. Later lines do from their first version on.
const FIRST_VERSIONS: [(u32, u32); 2] = [(22, 18), (23, 6)];

/// The version of a program, as of its last change: to ask a program takes as long as to start a script.
struct CachedVersion {
    program: PathBuf,
    changed: SystemTime,
    version: String,
}

/// How many versions are cached.
const MAX_CACHED: usize = 8;

static CACHED_VERSIONS: Mutex<Vec<CachedVersion>> = Mutex::new(Vec::new());

/// Whether a script is TypeScript that Node is to run, which not every version of it does.
pub(crate) fn depends_on_version(script: &str, program: &Path) -> bool {
    is_typescript(script) && program.file_name().is_some_and(|name| name == "node" || name == "nodejs")
}

/// `unavailable` if the Node does not run TypeScript, by the version that `query` finds out. It is cached unless an untrusted party
/// may change the program.
pub(crate) fn check_version(
    script: &str,
    program: &Path,
    is_trusted: bool,
    query: impl FnOnce() -> Option<String>,
) -> Result<()> {
    let changed = program.metadata().and_then(|about| about.modified()).ok().filter(|_| is_trusted);
    let version = changed.and_then(|changed| cached_version(program, changed)).or_else(|| {
        let version = query()?;
        if let Some(changed) = changed {
            cache_version(program, changed, version.clone());
        }
        Some(version)
    });
    require_new_enough(script, program, version.as_deref())
}

fn cached_version(program: &Path, changed: SystemTime) -> Option<String> {
    let cached = CACHED_VERSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = cached.iter().find(|cached| cached.program == program && cached.changed == changed);
    found.map(|cached| cached.version.clone())
}

fn cache_version(program: &Path, changed: SystemTime, version: String) {
    let mut cached = CACHED_VERSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    cached.retain(|cached| cached.program != program);
    if cached.len() >= MAX_CACHED {
        cached.remove(0);
    }
    cached.push(CachedVersion { program: program.to_owned(), changed, version });
}

/// A program that does not say its version may run it.
fn require_new_enough(script: &str, program: &Path, version: Option<&str>) -> Result<()> {
    let Some(version) = version.filter(|version| version_number(version).is_some_and(is_too_old)) else {
        return Ok(());
    };
    let sentence = format!(
        "{script} is TypeScript, which Node runs from version 22.18 on, and {} is {}",
        program.display(),
        version.escape_debug()
    );
    Err(SkillError::new(ErrorKind::Unavailable, sentence)
        .with_help("install Node 22.18 or later, deno, bun or tsx, and put its folder first on PATH"))
}

fn is_too_old(version: (u32, u32)) -> bool {
    let of_line = FIRST_VERSIONS.into_iter().find(|(line, _)| *line == version.0);
    version < of_line.unwrap_or(FIRST_VERSIONS[0])
}

/// The first two numbers of `v22.18.0`.
fn version_number(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix('v')?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn is_typescript(script: &str) -> bool {
    script
        .rsplit_once('.')
        .is_some_and(|(_, extension)| EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(script: &str, program: &str, version: Option<&str>) -> Result<()> {
        check_version(script, Path::new(program), false, || version.map(str::to_owned))
    }

    #[test]
    fn a_node_that_does_not_run_typescript_is_refused_with_its_version() {
        for old in ["v20.20.2", "v22.17.1", "v23.5.0", "v4.0.0"] {
            let error = checked("scripts/a.mts", "/usr/bin/node", Some(old)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.message().ends_with(&format!("and /usr/bin/node is {old}")), "{error}");
            assert!(error.help().unwrap().contains("22.18"));
        }
        for new in ["v22.18.0", "v23.6.0", "v24.0.0", "v100.1.2", "strange", "v", ""] {
            checked("scripts/a.ts", "/usr/bin/node", Some(new)).unwrap();
        }
        checked("scripts/a.ts", "/usr/bin/node", None).unwrap();
    }

    #[test]
    fn only_typescript_in_node_depends_on_the_version() {
        let depends = |script, program| depends_on_version(script, Path::new(program));
        assert!(depends("scripts/a.ts", "/usr/bin/node") && depends("a.CTS", "nodejs"));
        assert!(!depends("a.js", "/usr/bin/node") && !depends("a.ts", "/usr/bin/deno"));
        assert!(!depends("ts", "/usr/bin/node") && !depends("a.tsx", "/usr/bin/node"));
    }

    #[test]
    fn a_version_is_asked_for_once_until_the_program_changes() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("node");
        std::fs::write(&program, "").unwrap();
        let asked = |answer: &str| {
            let mut count = 0;
            let query = || {
                count += 1;
                Some(answer.to_owned())
            };
            let is_refused = check_version("a.ts", &program, true, query).is_err();
            (count, is_refused)
        };
        assert_eq!(asked("v20.1.0"), (1, true));
        assert_eq!(asked("v22.18.0"), (0, true));
        let later = SystemTime::now() + std::time::Duration::from_secs(5);
        std::fs::File::options().write(true).open(&program).unwrap().set_modified(later).unwrap();
        assert_eq!(asked("v22.18.0"), (1, false));
    }
}
