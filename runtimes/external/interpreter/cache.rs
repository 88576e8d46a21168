//! What the user has installed: an interpreter, what it reads, the folders of programs. Looked up once, and kept for a moment.
//!
//! It changes when the user installs something, and runs may follow each other in milliseconds. What a script may change by itself
//! is not kept: an answer that depends on anything in the project or the skill, be it a link that leads through one of them or a
//! name that is still free there, is looked up every time.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::host::untrusted::UntrustedDirs;
use crate::runtimes::external::interpreter::detect::{
    Interpreter, InterpreterCommand, is_executable_file, search_path,
};
use crate::runtimes::external::interpreter::prefix::{
    COMMON_INTERPRETERS, VERSION_MANAGER_DIRS, readable_paths,
};
use crate::runtimes::external::policy;

/// As long as nobody notices who has just installed something, and hundreds of runs in a row.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Answers that are kept: one for each language and skill that a project is at work with.
const MAX_ENTRIES: usize = 8;

/// The answers of one engine, the newest last.
#[derive(Default)]
pub(in crate::runtimes) struct InterpreterCache(Mutex<VecDeque<CacheEntry>>);

struct CacheEntry {
    query: InterpreterQuery,
    installation: Arc<Installation>,
    /// When the disk was looked at.
    looked_up_at: Instant,
}

/// All that an answer depends on but the disk.
#[derive(PartialEq)]
pub(in crate::runtimes::external) struct InterpreterQuery {
    interpreter: Interpreter,
    path_dirs: Vec<PathBuf>,
    home_dir: Option<OsString>,
    untrusted_dirs: UntrustedDirs,
}

/// What a script is run by.
pub(in crate::runtimes::external) struct Installation {
    pub(in crate::runtimes::external) command: InterpreterCommand,
    /// What is to be read for it, beyond the system.
    pub(in crate::runtimes::external) prefix_paths: Vec<PathBuf>,
    /// What is to be read of the system, for it and for whatever it calls.
    pub(in crate::runtimes::external) system_paths: Vec<PathBuf>,
    pub(in crate::runtimes::external) path_dirs: Vec<PathDir>,
}

/// A folder of `PATH`.
pub(in crate::runtimes::external) struct PathDir {
    pub(in crate::runtimes::external) path: PathBuf,
    /// Without links, where there is one.
    pub(in crate::runtimes::external) real_path: Option<PathBuf>,
    /// Whether every script that is run by this finds programs in it.
    pub(in crate::runtimes::external) is_readable: bool,
}

impl InterpreterQuery {
    /// What runs scripts of this kind, for a run with these strangers.
    pub(in crate::runtimes::external) fn new(interpreter: &Interpreter, strangers: UntrustedDirs) -> Self {
        let home = std::env::var_os("HOME");
        Self {
            interpreter: interpreter.clone(),
            path_dirs: search_path(),
            home_dir: home,
            untrusted_dirs: strangers,
        }
    }
}

impl InterpreterCache {
    /// What is installed, by what is known of it or by looking; `unavailable`, with the name of the script, when nothing is.
    pub(in crate::runtimes::external) fn installation(
        &self,
        question: InterpreterQuery,
        script: &str,
    ) -> Result<Arc<Installation>> {
        self.installation_at(Instant::now(), question, script)
    }

    fn installation_at(
        &self,
        now: Instant,
        question: InterpreterQuery,
        script: &str,
    ) -> Result<Arc<Installation>> {
        let known = self.cached(now, &question);
        // It may be gone since, and then another one may be next.
        if let Some(known) = known.filter(|known| is_executable_file(&known.command.program)) {
            return Ok(known);
        }
        let (answer, is_theirs) = question.look_up(script)?;
        let answer = Arc::new(answer);
        let mut all = self.entries();
        all.retain(|kept| kept.query != question);
        if !is_theirs {
            all.push_back(CacheEntry {
                query: question,
                installation: Arc::clone(&answer),
                looked_up_at: now,
            });
        }
        if all.len() > MAX_ENTRIES {
            all.pop_front();
        }
        Ok(answer)
    }

    fn cached(&self, now: Instant, question: &InterpreterQuery) -> Option<Arc<Installation>> {
        let all = self.entries();
        let kept = all.iter().find(|kept| kept.query == *question)?;
        (now.saturating_duration_since(kept.looked_up_at) < MAX_AGE).then(|| Arc::clone(&kept.installation))
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<CacheEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InterpreterQuery {
    /// What the disk says, and whether a stranger may have had a say in it, or may have one in a moment.
    fn look_up(&self, script: &str) -> Result<(Installation, bool)> {
        let interpreter = self.interpreter.locate(script, &self.path_dirs)?;
        let mut homes = readable_paths(&interpreter.program, &self.path_dirs, &self.untrusted_dirs);
        let is_theirs = self.depends_on_untrusted(&interpreter.program, &homes);
        if is_theirs {
            homes.retain(|home| !self.untrusted_dirs.may_control(home));
        }
        let homes: Vec<PathBuf> = homes.into_iter().filter(|home| policy::is_outside_system(home)).collect();
        let folders = policy::path_dirs(&self.path_dirs, &homes);
        Ok((
            Installation {
                command: interpreter,
                prefix_paths: homes,
                system_paths: policy::system_paths(),
                path_dirs: folders,
            },
            is_theirs,
        ))
    }

    /// Whether anything that was looked at is a stranger's: what is there, and what is not.
    fn depends_on_untrusted(&self, program: &Path, homes: &BTreeSet<PathBuf>) -> bool {
        let may_change = |path: &Path| self.untrusted_dirs.may_change(path);
        // Of a folder that is nobody else's, only links can be.
        let is_theirs_in = |folder: &Path, name: &str| {
            let path = folder.join(name);
            fs::read_link(&path).is_ok() && may_change(&path)
        };
        let names: BTreeSet<&str> = self.interpreter.program_names().chain(COMMON_INTERPRETERS).collect();
        let is_path =
            |folder: &PathBuf| may_change(folder) || names.iter().any(|name| is_theirs_in(folder, name));
        let is_home = |home: &PathBuf| {
            // The folder of a version manager, or a program in one whose other parts are not there.
            let mut roots = [Some(home.as_path()), home.ancestors().nth(2)].into_iter().flatten();
            may_change(home)
                || roots.any(|root| VERSION_MANAGER_DIRS.iter().any(|part| is_theirs_in(root, part)))
        };
        self.home_dir.as_deref().is_some_and(|home| may_change(Path::new(home)))
            || self.path_dirs.iter().any(is_path)
            || may_change(program)
            || homes.iter().any(is_home)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
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
            InterpreterQuery { interpreter, path_dirs: path, home_dir: None, untrusted_dirs: strangers }
        }

        fn asked(&self, question: InterpreterQuery) -> Arc<Installation> {
            self.cache.installation_at(self.now, question, "main.rb").unwrap()
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
        let missing = stage.cache.installation_at(stage.now, stage.question(&path), "main.rb").err().unwrap();
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
        // As long as the project has nothing there it is no home, and when it has it is a stranger's.
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
