//! The programs that a script and its children looked for along `PATH` and did not find.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::audience::is_for_person;
use crate::interpreter::path::{find_on_path, is_executable_file, search_path};
use crate::observation::run_files::RunFiles;
use metier_core::host::{RefusedAccess, RefusedTarget, SkillContext, refused_with_reason};
use metier_sandbox::{AccessKind, ObservedAccess};

/// How many programs are reported.
const MAX_PROGRAMS: usize = 32;

/// The longest name of a program.
const MAX_NAME_BYTES: usize = 64;

/// All searches of a run, by the name of the program.
#[derive(Default)]
pub(super) struct ProgramSearches(BTreeMap<String, ProgramSearch>);

#[derive(Default)]
struct ProgramSearch {
    paths: BTreeSet<PathBuf>,
    count: u64,
}

impl ProgramSearches {
    /// Whether this access is a part of such a search.
    pub(super) fn add(&mut self, run: &RunFiles, access: &ObservedAccess) -> bool {
        let path = Path::new(&access.path);
        let is_search = matches!(access.kind, AccessKind::Execute | AccessKind::LookUp)
            && path.parent().is_some_and(|folder| run.path_dirs.iter().any(|known| known == folder));
        if let Some(name) =
            path.file_name().and_then(|name| name.to_str()).filter(|name| is_search && is_name(name))
        {
            let search = self.0.entry(name.to_owned()).or_default();
            search.paths.insert(path.to_owned());
            search.count = search.count.max(access.count);
        }
        is_search
    }

    /// Those that found nothing.
    pub(super) fn into_refused_accesses(
        self,
        ctx: &SkillContext,
        run: &RunFiles,
    ) -> impl Iterator<Item = RefusedAccess> {
        // What is looked for in one folder only is no program: interpreters look for their settings beside themselves.
        let min_folders = run.path_dirs.iter().collect::<BTreeSet<_>>().len().min(2);
        let is_found = |path: &PathBuf| is_executable_file(path) && run.may_read(path);
        let failed = self.0.into_iter().filter(move |(_, search)| {
            search.paths.len() >= min_folders && !search.paths.iter().any(is_found)
        });
        let refused: Vec<RefusedAccess> = failed
            .take(MAX_PROGRAMS)
            .map(|(name, search)| {
                let reason = reason(ctx, &name);
                refused_with_reason(reason, RefusedTarget::Name(name), search.count)
            })
            .collect();
        refused.into_iter()
    }
}

/// Why the program was not found. What lies outside of the sandbox is only for the person who runs the script.
fn reason(ctx: &SkillContext, name: &str) -> String {
    let is_for_person = is_for_person(ctx);
    match find_on_path(name, &search_path()).filter(|_| is_for_person) {
        Some(path) => format!(
            "{} is outside of the system's folders, where a script in a sandbox finds its programs; install it for the whole system",
            path.display()
        ),
        None if is_for_person => "it is not installed".into(),
        None => "there is no such program in the sandbox".into(),
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "._+-".contains(letter);
    name.len() <= MAX_NAME_BYTES && name.chars().all(is_part) && !name.starts_with('.')
}
