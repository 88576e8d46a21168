//! Editors that panic, block, take long or change files meanwhile.

use super::*;

/// An editor that answers in one bad way.
#[derive(Clone)]
struct Bad {
    how: How,
    calls: Arc<AtomicUsize>,
    release: Arc<AtomicBool>,
}

#[derive(Clone, Copy, PartialEq)]
enum How {
    Block,
    Panic,
    Gigabyte,
    ManyPaths,
}

impl Bad {
    fn new(how: How) -> Self {
        Self { how, calls: Arc::default(), release: Arc::default() }
    }

    fn misbehave(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        assert!(self.how != How::Panic, "on purpose");
        while self.how == How::Block && !self.release.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl FileProvider for Bad {
    fn unsaved(&self, _: &SkillContext, _: &str) -> Result<Option<Vec<u8>>> {
        self.misbehave();
        Ok((self.how == How::Gigabyte).then(|| vec![0; 1 << 30]))
    }

    fn unsaved_paths(&self, _: &SkillContext) -> Result<Vec<String>> {
        self.misbehave();
        Ok(if self.how == How::ManyPaths {
            (0..1_000_000).map(|at| at.to_string()).collect()
        } else {
            Vec::new()
        })
    }

    fn before_change(&self, _: &SkillContext, _: &FileChange) -> Result<ChangeDecision> {
        self.misbehave();
        Ok(ChangeDecision::Proceed)
    }

    fn changed(&self, _: &SkillContext, _: &FileChange) {
        assert!(self.how != How::Gigabyte, "on purpose, after the change");
    }

    fn time_limit(&self) -> Duration {
        Duration::from_millis(50)
    }
}

#[test]
fn an_editor_that_panics_blocks_or_floods_fails_the_call_and_nothing_is_changed() {
    both_ways(|project| {
        project.file("a.txt", "a");
        let panics = run_with(project, Bad::new(How::Panic));
        fails(
            &panics,
            "read_file",
            json!(["a.txt"]),
            Unavailable,
            "the provider of files panicked: on purpose",
        );
        fails(&panics, "glob", json!(["*"]), Unavailable, "panicked");
        fails(&panics, "write", json!(["a.txt", "x"]), Denied, "the provider of files panicked: on purpose");
        let gigabyte = run_with(project, Bad::new(How::Gigabyte));
        fails(&gigabyte, "read_file", json!(["a.txt"]), Memory, "1073741824 bytes");
        let many = run_with(project, Bad::new(How::ManyPaths));
        for (name, args) in
            [("grep", json!(["a"])), ("glob", json!(["*"])), ("list_dir", json!([])), ("tree", json!([]))]
        {
            fails(
                &many,
                name,
                args,
                Unavailable,
                "the editor lists 1000000 unsaved files; the maximum is 10000",
            );
        }
        let blocks = Bad::new(How::Block);
        let ctx = run_with(project, blocks.clone());
        fails(&ctx, "write", json!(["a.txt", "x"]), Denied, "nobody decided about the change within 50ms");
        fails(&ctx, "remove", json!(["a.txt"]), Denied, "nobody decided about an earlier change in time");
        assert_eq!(blocks.calls.load(Ordering::SeqCst), 1, "nobody is asked again");
        assert_eq!(fs::read_to_string(project.path("a.txt")).unwrap(), "a");
        blocks.release.store(true, Ordering::SeqCst);
        call(&gigabyte, "write", json!(["a.txt", "b"])).unwrap();
        assert_eq!(
            fs::read_to_string(project.path("a.txt")).unwrap(),
            "b",
            "a panic after the change changes nothing"
        );
    });
}

#[test]
fn an_editor_that_blocks_delays_no_run_that_is_stopped() {
    both_ways(|project| {
        project.file("a.txt", "a");
        for (name, args) in [("read_file", json!(["a.txt"])), ("grep", json!(["a"])), ("list_dir", json!([]))]
        {
            let (blocks, watchdog, token) = (Bad::new(How::Block), Watchdog::new(), CancelToken::new());
            let ctx = run_until(project, blocks.clone(), token.clone(), Limits::default());
            let started = Instant::now();
            let _armed = watchdog.arm(started + Duration::from_millis(100), &token);
            fails(&ctx, name, args, Timeout, "");
            assert!(started.elapsed() < Duration::from_secs(5));
            blocks.release.store(true, Ordering::SeqCst);
        }
        let blocks = Bad::new(How::Block);
        let token = CancelToken::new();
        let slow = Slow { inner: blocks.clone() };
        let ctx = run_until(project, slow, token.clone(), Limits::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while blocks.calls.load(Ordering::SeqCst) == 0 {
                    std::thread::sleep(Duration::from_millis(5));
                }
                token.cancel();
            });
            fails(&ctx, "write", json!(["a.txt", "x"]), Cancelled, "");
        });
        blocks.release.store(true, Ordering::SeqCst);
        assert_eq!(fs::read_to_string(project.path("a.txt")).unwrap(), "a");
    });
}

/// The same with the usual time limit.
struct Slow {
    inner: Bad,
}

impl FileProvider for Slow {
    fn unsaved(&self, _: &SkillContext, _: &str) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn unsaved_paths(&self, _: &SkillContext) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn before_change(&self, ctx: &SkillContext, change: &FileChange) -> Result<ChangeDecision> {
        self.inner.before_change(ctx, change)
    }
}

#[test]
fn the_deadline_stands_still_while_somebody_decides() {
    both_ways(|project| {
        let (watchdog, token) = (Watchdog::new(), CancelToken::new());
        let blocks = Bad::new(How::Block);
        let ctx = run_until(project, Slow { inner: blocks.clone() }, token.clone(), Limits::default());
        let _armed = watchdog.arm(Instant::now() + Duration::from_millis(100), &token);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(400));
                blocks.release.store(true, Ordering::SeqCst);
            });
            call(&ctx, "write", json!(["a.txt", "x"])).unwrap();
        });
        assert_eq!(fs::read_to_string(project.path("a.txt")).unwrap(), "x");
    });
}

/// An editor that takes some time for each decision.
struct Thinker {
    thinks: Duration,
    time_limit: Duration,
}

impl FileProvider for Thinker {
    fn unsaved(&self, _: &SkillContext, _: &str) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn unsaved_paths(&self, _: &SkillContext) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn before_change(&self, _: &SkillContext, _: &FileChange) -> Result<ChangeDecision> {
        std::thread::sleep(self.thinks);
        Ok(ChangeDecision::Proceed)
    }

    fn time_limit(&self) -> Duration {
        self.time_limit
    }
}

#[test]
fn many_changes_do_not_put_off_the_deadline() {
    both_ways(|project| {
        let ms = Duration::from_millis;
        for (thinks, time_limit, deadline, least, most) in
            [(ms(10), Duration::from_mins(1), ms(500), 10, 130), (ms(100), ms(250), ms(300), 3, 8)]
        {
            let (watchdog, token) = (Watchdog::new(), CancelToken::new());
            let ctx = run_until(project, Thinker { thinks, time_limit }, token.clone(), Limits::default());
            let _armed = watchdog.arm(Instant::now() + deadline, &token);
            let write = |_: &usize| call(&ctx, "write", json!(["a.txt", "x"])).is_ok();
            let made = (0..200).take_while(write).count();
            assert!((least..=most).contains(&made), "{made} changes of {thinks:?} each");
            fails(&ctx, "write", json!(["a.txt", "x"]), Timeout, "");
        }
    });
}

/// Changes the project while a change is shown.
struct Meddler {
    project: std::path::PathBuf,
    meddle: fn(&std::path::Path),
}

impl FileProvider for Meddler {
    fn unsaved(&self, _: &SkillContext, _: &str) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn unsaved_paths(&self, _: &SkillContext) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn before_change(&self, _: &SkillContext, _: &FileChange) -> Result<ChangeDecision> {
        (self.meddle)(&self.project);
        Ok(ChangeDecision::Proceed)
    }
}

#[test]
fn only_what_was_shown_is_changed_whatever_happens_meanwhile() {
    both_ways(|project| {
        let run = |meddle| run_with(project, Meddler { project: project.root(), meddle });
        let swap: fn(&std::path::Path) = |root| {
            fs::remove_file(root.join("a.txt")).unwrap();
            std::os::unix::fs::symlink("b.txt", root.join("a.txt")).unwrap();
        };
        let save: fn(&std::path::Path) = |root| fs::write(root.join("a.txt"), "saved meanwhile").unwrap();
        project.file("a.txt", "a").file("b.txt", "b");
        fails(
            &run(swap),
            "write",
            json!(["a.txt", "x"]),
            Io,
            "it leads to another file than the one that was shown",
        );
        assert_eq!(fs::read_to_string(project.path("b.txt")).unwrap(), "b");
        fs::remove_file(project.path("a.txt")).unwrap();
        for (name, args) in [("edit", json!(["a.txt", "a", "x"])), ("append", json!(["a.txt", "x"]))] {
            project.file("a.txt", "a");
            fails(&run(save), name, args, Io, "it was changed by somebody else after the change was shown");
            assert_eq!(fs::read_to_string(project.path("a.txt")).unwrap(), "saved meanwhile");
        }
        fs::remove_file(project.path("a.txt")).unwrap();
        let words = "it was changed by somebody else after the change was shown";
        fails(&run(save), "append", json!(["a.txt", "x"]), Io, words);
        assert_eq!(fs::read_to_string(project.path("a.txt")).unwrap(), "saved meanwhile");

        let relink: fn(&std::path::Path) = |root| {
            fs::remove_file(root.join("link")).unwrap();
            std::os::unix::fs::symlink("two", root.join("link")).unwrap();
        };
        project.file("one/sub/f", "1").file("two/sub/f", "2").link("link", "one");
        let words = "it leads to another file than the one that was shown";
        fails(&run(relink), "remove", json!(["link/sub", {"recursive": true}]), Io, words);
        for (path, content) in [("one/sub/f", "1"), ("two/sub/f", "2")] {
            assert_eq!(fs::read_to_string(project.path(path)).unwrap(), content, "{path}");
        }
    });
}
