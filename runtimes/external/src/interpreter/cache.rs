//! Caches for a moment which interpreter is installed, what it reads, and which folders have programs.
//!
//! This changes when the user installs something, and runs may follow each other within milliseconds. An answer that a script can
//! change is not cached: one that depends on anything in the project or the skill, such as a symlink through one of them or a file
//! that does not exist there yet.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::interpreter::detect::{Interpreter, InterpreterCommand, VersionQuery};
use crate::interpreter::path::{is_executable_file, search_path};
use crate::interpreter::path_dir::PathDir;
use crate::interpreter::prefix::{COMMON_INTERPRETERS, VERSION_MANAGER_DIRS, readable_paths};
use crate::interpreter::version_manager::{ShimCache, precede_shims};
use crate::system_paths::{is_outside_system, readable_system_paths, real_path};
use metier_core::error::Result;
use metier_core::host::untrusted::{SymlinkReader, UntrustedDirs};

/// Short enough for a user who has just installed something, and long enough for hundreds of runs.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Maximum number of cached answers: one for each language and skill that a project uses at a time.
const MAX_ENTRIES: usize = 8;

/// The cached answers of one engine, the newest last.
#[derive(Default)]
pub(crate) struct InterpreterCache(Mutex<VecDeque<CacheEntry>>);

struct CacheEntry {
    query: InterpreterQuery,
    installation: Arc<Installation>,
    /// When the disk was read.
    looked_up_at: Instant,
}

/// Everything that an answer depends on besides the disk.
pub(crate) struct InterpreterQuery {
    interpreter: Interpreter,
    path_dirs: Vec<PathBuf>,
    home_dir: Option<OsString>,
    untrusted_dirs: UntrustedDirs,
    /// The projects whose programs are not used, if any, and the folders in them whose programs are.
    refused: Option<(UntrustedDirs, Vec<PathBuf>)>,
}

/// An installed interpreter and what a script needs to run with it.
pub(crate) struct Installation {
    pub(crate) command: InterpreterCommand,
    /// What the interpreter reads outside of the system.
    pub(crate) prefix_paths: Vec<PathBuf>,
    /// The paths of the system that every script may read.
    pub(crate) system_paths: Vec<PathBuf>,
    pub(crate) path_dirs: Vec<PathDir>,
}

impl PartialEq for InterpreterQuery {
    /// Compares the folders of `PATH` as they are written: taking paths apart takes ten times as long, at each run.
    fn eq(&self, other: &Self) -> bool {
        let Self { interpreter, path_dirs, home_dir, untrusted_dirs, refused } = other;
        self.interpreter == *interpreter
            && self.refused == *refused
            && self.home_dir == *home_dir
            && self.untrusted_dirs == *untrusted_dirs
            && self
                .path_dirs
                .iter()
                .map(|folder| folder.as_os_str())
                .eq(path_dirs.iter().map(|folder| folder.as_os_str()))
    }
}

impl InterpreterQuery {
    /// For a script that runs in this directory.
    pub(crate) fn new(
        interpreter: &Interpreter,
        working_dir: &Path,
        untrusted_dirs: UntrustedDirs,
        shims: &ShimCache,
    ) -> Self {
        let path_dirs = precede_shims(search_path(), working_dir, &untrusted_dirs, shims);
        let home_dir = std::env::var_os("HOME");
        Self { interpreter: interpreter.clone(), path_dirs, home_dir, untrusted_dirs, refused: None }
    }

    /// The same without programs that lie in these projects, or behind a link in one. Folders that are searched before those of `PATH`
    /// are added later.
    pub(crate) fn without_programs_of(self, projects: &[PathBuf]) -> Self {
        let refused = || (UntrustedDirs::from_canonical(projects.iter().cloned()), Vec::new());
        Self { refused: (!projects.is_empty()).then(refused), ..self }
    }

    /// The same with folders that are searched before those of `PATH`.
    pub(crate) fn with_dirs_before_path(mut self, folders: Vec<PathBuf>) -> Self {
        if let Some((_, kept)) = &mut self.refused {
            kept.extend(folders.iter().cloned());
        }
        self.path_dirs.splice(0..0, folders);
        self
    }
}

impl InterpreterCache {
    /// What is installed, from the cache or from the disk; `unavailable`, with the name of the script, if nothing that fits is.
    pub(crate) fn installation(
        &self,
        query: InterpreterQuery,
        script: &str,
        versions: VersionQuery<'_>,
    ) -> Result<Arc<Installation>> {
        self.installation_at(Instant::now(), query, script, versions)
    }

    fn installation_at(
        &self,
        now: Instant,
        query: InterpreterQuery,
        script: &str,
        versions: VersionQuery<'_>,
    ) -> Result<Arc<Installation>> {
        let cached = self.cached(now, &query);
        // The program may have been removed since.
        if let Some(cached) = cached.filter(|cached| is_executable_file(&cached.command.program)) {
            return Ok(cached);
        }
        let (installation, is_cacheable) = query.look_up(script, versions)?;
        let installation = Arc::new(installation);
        let mut entries = self.entries();
        entries.retain(|entry| entry.query != query);
        if is_cacheable {
            let installation = Arc::clone(&installation);
            entries.push_back(CacheEntry { query, installation, looked_up_at: now });
        }
        if entries.len() > MAX_ENTRIES {
            entries.pop_front();
        }
        Ok(installation)
    }

    fn cached(&self, now: Instant, query: &InterpreterQuery) -> Option<Arc<Installation>> {
        let entries = self.entries();
        let entry = entries.iter().find(|entry| entry.query == *query)?;
        (now.saturating_duration_since(entry.looked_up_at) < MAX_AGE).then(|| Arc::clone(&entry.installation))
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<CacheEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InterpreterQuery {
    /// Reads the disk. Returns the answer, and whether it may be cached.
    fn look_up(&self, script: &str, versions: VersionQuery<'_>) -> Result<(Installation, bool)> {
        let command = self.locate(script, versions)?;
        let mut prefix_paths = readable_paths(&command.program, &self.path_dirs, &self.untrusted_dirs);
        let is_cacheable = !self.depends_on_untrusted(&command.program, &prefix_paths);
        prefix_paths.retain(|path| {
            (is_cacheable || !self.untrusted_dirs.may_control(path)) && is_outside_system(path)
        });
        let prefixes: Vec<(&Path, Option<PathBuf>)> =
            prefix_paths.iter().map(|path| (path.as_path(), real_path(path))).collect();
        let is_used = |folder: &&PathBuf| {
            let refused = self.refused.as_ref();
            refused.is_none_or(|(project, kept)| kept.contains(folder) || !project.may_control(folder))
        };
        let path_dirs = self.path_dirs.iter().filter(is_used);
        let path_dirs = path_dirs.map(|folder| PathDir::new(folder, &prefixes)).collect();
        let installation = Installation {
            command,
            prefix_paths: prefix_paths.into_iter().collect(),
            system_paths: readable_system_paths(),
            path_dirs,
        };
        Ok((installation, is_cacheable))
    }

    /// Whether the same program is found for another query, on a disk that has not changed.
    pub(crate) fn locates_as(&self, other: &Self) -> bool {
        self.interpreter == other.interpreter
            && self.refused == other.refused
            && self.path_dirs == other.path_dirs
    }

    /// The interpreter alone: what a run would find, without what it reads.
    pub(crate) fn locate(&self, script: &str, versions: VersionQuery<'_>) -> Result<InterpreterCommand> {
        let Some((project, kept)) = &self.refused else {
            return self.interpreter.locate(script, &self.path_dirs, versions);
        };
        // Who set an interpreter by its path named it.
        let is_named =
            |program: &Path| self.interpreter.program_names().any(|name| Path::new(name) == program);
        let is_refused = |program: &Path| {
            project.may_control(program)
                && !is_named(program)
                && !kept.iter().any(|folder| program.starts_with(folder))
        };
        let reason = "comes from the project, whose programs run no skill for a model";
        self.interpreter.locate_allowed(script, &self.path_dirs, is_refused, reason, versions)
    }

    /// Whether an untrusted party may change a path that was read, or create one that did not exist.
    fn depends_on_untrusted(&self, program: &Path, prefix_paths: &BTreeSet<PathBuf>) -> bool {
        let links = SymlinkReader::default();
        let may_change = |path: &Path| self.untrusted_dirs.may_change_by(path, &links);
        // In a folder that only the user can change, an untrusted party can only be behind a symlink.
        let is_untrusted_link = |folder: &Path, name: &str| {
            let path = folder.join(name);
            links.read(&path).is_some() && may_change(&path)
        };
        let names: BTreeSet<&str> = self.interpreter.program_names().chain(COMMON_INTERPRETERS).collect();
        let may_change_dir =
            |folder: &PathBuf| may_change(folder) || names.iter().any(|name| is_untrusted_link(folder, name));
        let may_change_prefix = |path: &PathBuf| {
            // The folder of a version manager, or that of a program in it.
            let mut roots = [Some(path.as_path()), path.ancestors().nth(2)].into_iter().flatten();
            may_change(path)
                || roots.any(|root| VERSION_MANAGER_DIRS.iter().any(|part| is_untrusted_link(root, part)))
        };
        self.home_dir.as_deref().is_some_and(|home| may_change(Path::new(home)))
            || self.path_dirs.iter().any(may_change_dir)
            || may_change(program)
            || prefix_paths.iter().any(may_change_prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_core::error::ErrorKind;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tempfile::TempDir;

    /// A machine with an interpreter of the user's, and a project that scripts write to.
    struct Fixture {
        folder: TempDir,
        cache: InterpreterCache,
        now: Instant,
    }

    impl Fixture {
        fn new() -> Self {
            let stage = Self {
                folder: tempfile::tempdir().unwrap(),
                cache: InterpreterCache::default(),
                now: Instant::now(),
            };
            for folder in ["project", "skill", "first", "late/bin"] {
                fs::create_dir_all(stage.at(folder)).unwrap();
            }
            stage.program("mine/bin/ruby");
            stage
        }

        fn at(&self, path: &str) -> PathBuf {
            fs::canonicalize(self.folder.path()).unwrap().join(path)
        }

        fn program(&self, path: &str) {
            let path = self.at(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }

        fn link(&self, to: &str, path: &str) {
            fs::remove_file(self.at(path)).ok();
            fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
            symlink(self.at(to), self.at(path)).unwrap();
        }

        fn question(&self, path: &[&str]) -> InterpreterQuery {
            let interpreter = Interpreter::detect("main.rb", b"").unwrap();
            let path = path.iter().map(|folder| self.at(folder)).collect();
            let strangers = UntrustedDirs::from_canonical([self.at("project"), self.at("skill")]);
            InterpreterQuery {
                interpreter,
                path_dirs: path,
                home_dir: None,
                untrusted_dirs: strangers,
                refused: None,
            }
        }

        fn asked(&self, question: InterpreterQuery) -> Arc<Installation> {
            self.cache.installation_at(self.now, question, "main.rb", &|_| None).unwrap()
        }

        /// Where the interpreter lies, from the stage.
        fn found(&self, path: &[&str]) -> String {
            let found = self.asked(self.question(path));
            found.command.program.strip_prefix(self.at("")).unwrap().to_str().unwrap().to_owned()
        }

        fn keeps(&self, question: impl Fn() -> InterpreterQuery) -> bool {
            Arc::ptr_eq(&self.asked(question()), &self.asked(question()))
        }
    }

    #[test]
    fn what_the_user_has_installed_is_looked_up_again_after_a_moment() {
        let mut stage = Fixture::new();
        let path = ["first", "mine/bin"];
        assert!(stage.keeps(|| stage.question(&path)));
        stage.program("first/ruby");
        assert_eq!(stage.found(&path), "mine/bin/ruby");
        stage.now += MAX_AGE;
        assert_eq!(stage.found(&path), "first/ruby");
    }

    #[test]
    fn a_program_that_has_vanished_is_missed_at_once() {
        let stage = Fixture::new();
        stage.program("late/bin/ruby");
        let path = ["late/bin", "mine/bin"];
        assert_eq!(stage.found(&path), "late/bin/ruby");
        fs::remove_file(stage.at("late/bin/ruby")).unwrap();
        assert_eq!(stage.found(&path), "mine/bin/ruby");
        fs::set_permissions(stage.at("mine/bin/ruby"), fs::Permissions::from_mode(0o644)).unwrap();
        let question = stage.question(&path);
        let missing = stage.cache.installation_at(stage.now, question, "main.rb", &|_| None).err().unwrap();
        assert_eq!(missing.kind(), ErrorKind::Unavailable);
        assert_eq!(missing.message(), "main.rb needs ruby, which is not on PATH");
    }

    #[test]
    fn an_answer_is_for_the_same_question_alone() {
        let stage = Fixture::new();
        let path = ["mine/bin", "first"];
        let first = stage.asked(stage.question(&path));
        let others = [
            InterpreterQuery {
                untrusted_dirs: UntrustedDirs::from_canonical([stage.at("mine")]),
                ..stage.question(&path)
            },
            InterpreterQuery { home_dir: Some(stage.at("first").into()), ..stage.question(&path) },
            InterpreterQuery {
                interpreter: Interpreter::detect("x", b"#!/usr/bin/ruby -w\n").unwrap(),
                ..stage.question(&path)
            },
            stage.question(&["mine/bin"]),
        ];
        for question in others {
            assert!(!Arc::ptr_eq(&first, &stage.asked(question)));
        }
        assert!(Arc::ptr_eq(&first, &stage.asked(stage.question(&path))));
    }

    #[test]
    fn no_more_answers_are_kept_than_a_few() {
        let stage = Fixture::new();
        let question = |number: usize| InterpreterQuery {
            home_dir: Some(stage.at(&format!("home-{number}")).into()),
            ..stage.question(&["mine/bin"])
        };
        let first = stage.asked(question(0));
        for number in 1..=MAX_ENTRIES * 2 {
            stage.asked(question(number));
        }
        assert_eq!(stage.cache.entries().len(), MAX_ENTRIES);
        assert!(!Arc::ptr_eq(&first, &stage.asked(question(0))));
    }

    #[test]
    fn an_interpreter_that_a_script_brings_or_takes_away_is_seen_at_once() {
        let stage = Fixture::new();
        // An environment in the project, a folder for programs that is empty yet, one that is not even there.
        for path in [["project/.venv/bin", "mine/bin"], ["skill/bin", "mine/bin"]] {
            assert_eq!(stage.found(&path), "mine/bin/ruby");
            stage.program(&format!("{}/ruby", path[0]));
            assert_eq!(stage.found(&path), format!("{}/ruby", path[0]));
            fs::remove_file(stage.at(&format!("{}/ruby", path[0]))).unwrap();
            assert_eq!(stage.found(&path), "mine/bin/ruby");
        }
    }

    #[test]
    fn a_link_into_the_project_is_followed_anew_every_time() {
        let stage = Fixture::new();
        // A folder on PATH that leads there, a program that does, one that leads nowhere yet, one that leads out again.
        stage.link("project/tools", "linked");
        stage.link("project/bin/ruby", "first/ruby");
        for path in [["linked", "mine/bin"], ["first", "mine/bin"]] {
            assert!(!stage.keeps(|| stage.question(&path)), "{path:?}");
            assert_eq!(stage.found(&path), "mine/bin/ruby");
        }
        stage.program("project/tools/ruby");
        assert_eq!(stage.found(&["linked", "mine/bin"]), "linked/ruby");
        stage.link("mine/bin/ruby", "project/bin/ruby");
        assert!(!stage.keeps(|| stage.question(&["first"])));
        // What comes after the first that is found counts too: its home is read.
        assert!(!stage.keeps(|| stage.question(&["mine/bin", "first"])));
        stage.link("project/bin/python3", "late/bin/python3");
        assert!(!stage.keeps(|| stage.question(&["mine/bin", "late/bin"])));
    }

    #[test]
    fn a_home_that_leads_into_the_project_is_looked_at_every_time() {
        let stage = Fixture::new();
        let path = ["mine/bin"];
        stage.link("project/lib", "mine/lib");
        assert!(!stage.keeps(|| stage.question(&path)));
        // As long as the project has nothing there it is not a home, and when it has, it is untrusted.
        fs::create_dir_all(stage.at("project/lib")).unwrap();
        assert!(!stage.asked(stage.question(&path)).prefix_paths.contains(&stage.at("mine/lib")));
        fs::remove_file(stage.at("mine/lib")).unwrap();
        assert!(stage.keeps(|| stage.question(&path)));

        stage.program("manager/shims/ruby");
        stage.link("project/versions", "manager/versions");
        assert!(!stage.keeps(|| stage.question(&["manager/shims"])));
    }

    #[test]
    fn a_home_of_the_user_that_the_project_leads_to_is_looked_at_every_time() {
        let stage = Fixture::new();
        stage.link("mine", "project/home");
        let question = |home: &str| InterpreterQuery {
            home_dir: Some(stage.at(home).into()),
            ..stage.question(&["mine/bin"])
        };
        assert!(!stage.keeps(|| question("project/home")));
        assert!(stage.keeps(|| question("mine")));
    }

    #[test]
    fn nothing_in_a_project_that_holds_the_users_home_is_kept() {
        let stage = Fixture::new();
        let question = || InterpreterQuery {
            untrusted_dirs: UntrustedDirs::from_canonical([PathBuf::from("/")]),
            ..stage.question(&["mine/bin"])
        };
        assert!(!stage.keeps(question));
    }
}
