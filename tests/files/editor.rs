//! An editor over the project's files: what it has not saved is read, it decides about changes, and it opens nothing that is closed.

#![allow(clippy::needless_pass_by_value)] // `json!` at the place of use reads best

mod hostile;

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metier::error::ErrorKind::{
    self, Cancelled, Denied, InvalidArgument, Io, Memory, Output, Timeout, Unavailable,
};
use metier::error::{Result, SkillError};
use metier::host::{
    Async, AsyncFileProvider, ChangeDecision, FileChange, FileChangeKind, FileProvider, Providers,
    SkillContext,
};
use metier::policy::{CancelToken, Limits, Permission, Permissions, RequestedPermissions};
use metier_core::host::RunContextBuilder;
use metier_core::policy::{PathProtection, Watchdog};
use serde_json::{Value, json};

use crate::files::project::{Project, both_ways, call, every_use};

/// An editor with open buffers, and what it was asked.
#[derive(Clone)]
struct Editor {
    buffers: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    /// What it decides about a change; an error refuses it.
    decision: Result<ChangeDecision>,
    asked: Arc<Mutex<Vec<String>>>,
    shown: Arc<Mutex<Vec<FileChange>>>,
    changed: Arc<Mutex<Vec<String>>>,
    time_limit: Duration,
}

impl Editor {
    fn new(decision: ChangeDecision) -> Self {
        Self {
            buffers: Arc::default(),
            decision: Ok(decision),
            asked: Arc::default(),
            shown: Arc::default(),
            changed: Arc::default(),
            time_limit: Duration::from_mins(1),
        }
    }

    fn refusing() -> Self {
        let refusal = SkillError::new(Denied, "the user said no");
        Self { decision: Err(refusal), ..Self::new(ChangeDecision::Proceed) }
    }

    fn open(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.buffers.lock().unwrap().insert(path.into(), content.as_ref().to_vec());
        self
    }

    fn buffer(&self, path: &str) -> String {
        let buffers = self.buffers.lock().unwrap();
        buffers.get(path).map(|content| String::from_utf8_lossy(content).into_owned()).unwrap_or_default()
    }

    fn shown(&self) -> Vec<FileChange> {
        std::mem::take(&mut self.shown.lock().unwrap())
    }

    fn run(&self, project: &Project) -> SkillContext {
        run_with(project, self.clone())
    }
}

impl FileProvider for Editor {
    fn unsaved(&self, _: &SkillContext, path: &str) -> Result<Option<Vec<u8>>> {
        self.asked.lock().unwrap().push(path.into());
        Ok(self.buffers.lock().unwrap().get(path).cloned())
    }

    fn unsaved_paths(&self, _: &SkillContext) -> Result<Vec<String>> {
        Ok(self.buffers.lock().unwrap().keys().cloned().collect())
    }

    fn before_change(&self, _: &SkillContext, change: &FileChange) -> Result<ChangeDecision> {
        self.shown.lock().unwrap().push(change.clone());
        let decision = self.decision.clone()?;
        if decision == ChangeDecision::Applied {
            let mut buffers = self.buffers.lock().unwrap();
            match &change.kind {
                FileChangeKind::Write { content, .. } => {
                    buffers.insert(change.path.clone(), content.clone());
                }
                _ => buffers.retain(|path, _| !path.starts_with(&change.path)),
            }
        }
        Ok(decision)
    }

    fn changed(&self, _: &SkillContext, change: &FileChange) {
        self.changed.lock().unwrap().push(change.path.clone());
    }

    fn time_limit(&self) -> Duration {
        self.time_limit
    }
}

fn run_with(project: &Project, editor: impl FileProvider + 'static) -> SkillContext {
    run_until(project, editor, CancelToken::new(), Limits::default())
}

fn run_until(
    project: &Project,
    editor: impl FileProvider + 'static,
    cancel: CancelToken,
    limits: Limits,
) -> SkillContext {
    let protection = PathProtection::new([".metier/skills"]);
    SkillContext::builder("test")
        .project(project.files())
        .skill_files(project.files())
        .permissions(Permissions::new(RequestedPermissions::All, vec![Permission::WRITE], protection))
        .providers(Providers::default().files(editor))
        .limits(limits)
        .cancel(cancel)
        .build()
}

#[track_caller]
fn fails(ctx: &SkillContext, name: &str, args: Value, kind: ErrorKind, words: &str) {
    let refused = match call(ctx, name, args.clone()) {
        Err(refused) => refused,
        Ok(answer) => panic!("{name} {args} answered {answer}"),
    };
    assert!(
        refused.kind() == kind && refused.message().contains(words),
        "{name} {args}: {}: {refused}",
        refused.kind()
    );
}

#[test]
fn every_function_that_reads_sees_what_is_not_saved() {
    both_ways(|project| {
        project.file("src/a.rs", "saved").file("src/b.rs", "saved too").link("link.rs", "src/a.rs");
        let editor = Editor::new(ChangeDecision::Proceed)
            .open("src/a.rs", "one\ntwo\nthree\n")
            .open("src/new/c.rs", "three times three\n");
        let ctx = editor.run(project);
        let row =
            |file: &str, line: u64, content: &str| json!({"file": file, "line": line, "content": content});
        for (name, args, answer) in [
            ("read_file", json!(["src/a.rs"]), json!("one\ntwo\nthree\n")),
            ("read_file", json!(["link.rs"]), json!("one\ntwo\nthree\n")),
            ("read_file", json!([project.path("src/a.rs")]), json!("one\ntwo\nthree\n")),
            ("read_file", json!(["src/b.rs"]), json!("saved too")),
            ("read_file", json!(["src/new/c.rs", {"encoding": "base64"}]), json!("dGhyZWUgdGltZXMgdGhyZWUK")),
            ("head", json!(["src/a.rs", 1]), json!("one")),
            ("tail", json!(["src/a.rs", 2]), json!("two\nthree")),
            ("list_dir", json!(["src"]), json!(["a.rs", "b.rs", "new"])),
            ("list_dir", json!(["src/new"]), json!(["c.rs"])),
            ("glob", json!(["src/**/*.rs"]), json!(["src/a.rs", "src/b.rs", "src/new/c.rs"])),
            ("find", json!(["src/new", "c"]), json!(["src/new/c.rs"])),
            (
                "tree",
                json!(["src/new"]),
                json!([{"path": "src/new", "is_dir": true}, {"path": "src/new/c.rs", "is_dir": false}]),
            ),
            ("grep", json!(["saved"]), json!([row("src/b.rs", 1, "saved too")])),
            (
                "grep",
                json!(["three"]),
                json!([row("src/a.rs", 3, "three"), row("src/new/c.rs", 1, "three times three")]),
            ),
            ("grep", json!(["times", "src/new/c.rs"]), json!([row("src/new/c.rs", 1, "three times three")])),
            ("grep", json!(["times", "src/new"]), json!([row("src/new/c.rs", 1, "three times three")])),
        ] {
            assert_eq!(call(&ctx, name, args.clone()).unwrap(), answer, "{name} {args}");
        }
        for (path, size, is_dir) in [
            ("src/a.rs", 14, false),
            ("src/new/c.rs", 18, false),
            ("src/new", 0, true),
            ("link.rs", 14, false),
        ] {
            let stat = call(&ctx, "stat", json!([path])).unwrap();
            assert_eq!(
                (&stat["size"], &stat["is_dir"], &stat["is_file"]),
                (&json!(size), &json!(is_dir), &json!(!is_dir))
            );
            assert_eq!(stat["is_symlink"], path == "link.rs");
        }
        fails(&ctx, "read_file", json!(["src/none.rs"]), Io, "failed to read src/none.rs: No such file");
        fails(&ctx, "stat", json!(["src/none.rs"]), Io, "No such file");
        fails(&ctx, "asset", json!(["src/new/c.rs"]), Io, "No such file");
    });
}

#[test]
fn a_search_asks_only_for_the_files_that_are_not_saved() {
    both_ways(|project| {
        for at in 0..200 {
            project.file(&format!("f{at}.txt"), "word");
        }
        let editor = Editor::new(ChangeDecision::Proceed).open("f7.txt", "other");
        let found = call(&editor.run(project), "grep", json!(["word"])).unwrap();
        assert_eq!(found.as_array().unwrap().len(), 199);
        assert_eq!(*editor.asked.lock().unwrap(), ["f7.txt"]);
    });
}

#[test]
fn changes_are_shown_whole_before_they_are_made_and_reported_afterwards() {
    both_ways(|project| {
        project.file("a.txt", "disk").file("b.txt", "one two").link("link.txt", "b.txt").file("d/e.txt", "");
        let editor = Editor::new(ChangeDecision::Proceed).open("a.txt", "open");
        let ctx = editor.run(project);
        let expect = |name: &str, args: Value, path: &str, kind: &str| {
            call(&ctx, name, args).unwrap();
            let shown = editor.shown();
            assert_eq!(shown.len(), 1, "{name}");
            assert_eq!((shown[0].path.as_str(), text_of(&shown[0]).as_str()), (path, kind), "{name}");
            assert_eq!(std::mem::take(&mut *editor.changed.lock().unwrap()), [path]);
        };
        expect("write", json!(["out/c.txt", "new"]), "out/c.txt", "write None -> new");
        expect("append", json!(["a.txt", "!"]), "a.txt", "write Some(\"open\") -> open!");
        expect("append", json!(["none.txt", "!"]), "none.txt", "write None -> !");
        expect("edit", json!(["link.txt", "two", "three"]), "b.txt", "write Some(\"one two\") -> one three");
        expect("mkdir", json!(["x/y"]), "x/y", "mkdir");
        expect("remove", json!(["link.txt"]), "link.txt", "remove false");
        expect("remove", json!(["d", {"recursive": true}]), "d", "remove true");
        let on_disk: Vec<String> = ["out/c.txt", "a.txt", "none.txt", "b.txt"]
            .map(|path| fs::read_to_string(project.path(path)).unwrap())
            .into();
        assert_eq!(on_disk, ["new", "open!", "!", "one three"]);
        assert!(
            project.path("x/y").is_dir() && !project.path("d").exists() && !project.path("link.txt").exists()
        );
        call(&ctx, "mkdir", json!(["x/y"])).unwrap();
        assert!(editor.shown().is_empty(), "nothing changes");
        // The editor still has `open!` nowhere: its buffer is its own affair.
        fails(&ctx, "edit", json!(["a.txt", "open!", "x"]), InvalidArgument, "does not occur");
    });
}

fn text_of(change: &FileChange) -> String {
    let text = |content: &Vec<u8>| String::from_utf8(content.clone()).unwrap();
    match &change.kind {
        FileChangeKind::Write { content, previous, .. } => {
            format!("write {:?} -> {}", previous.as_ref().map(text), text(content))
        }
        FileChangeKind::CreateDir => "mkdir".into(),
        FileChangeKind::Remove { recursive, .. } => format!("remove {recursive}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn what_the_editor_applied_itself_is_not_written_and_can_be_read_and_removed() {
    both_ways(|project| {
        project.file("a.txt", "one").file("kept.txt", "");
        let editor = Editor::new(ChangeDecision::Applied);
        let ctx = editor.run(project);
        call(&ctx, "edit", json!(["a.txt", "one", "two"])).unwrap();
        call(&ctx, "append", json!(["a.txt", " three"])).unwrap();
        call(&ctx, "write", json!(["deep/new.txt", "new"])).unwrap();
        assert_eq!(fs::read_to_string(project.path("a.txt")).unwrap(), "one");
        assert!(!project.path("deep").exists());
        assert_eq!(call(&ctx, "read_file", json!(["a.txt"])).unwrap(), "two three");
        assert_eq!(
            call(&ctx, "glob", json!(["**/*.txt"])).unwrap(),
            json!(["a.txt", "deep/new.txt", "kept.txt"])
        );
        for options in [json!({}), json!({"recursive": true})] {
            call(&ctx, "write", json!(["deep/new.txt", "new"])).unwrap();
            call(&ctx, "remove", json!(["deep/new.txt", options])).unwrap();
            assert_eq!(editor.buffer("deep/new.txt"), "");
        }
        call(&ctx, "remove", json!(["kept.txt"])).unwrap();
        assert!(project.path("kept.txt").exists());
        assert!(editor.changed.lock().unwrap().is_empty(), "the disk did not change");
        fails(&ctx, "remove", json!(["none.txt"]), Io, "No such file");
    });
}

#[test]
fn a_refused_change_leaves_file_buffer_and_folders_as_they_were() {
    both_ways(|project| {
        project.file("a.txt", "disk").file("d/e.txt", "e");
        let editor = Editor::refusing().open("a.txt", "open");
        let ctx = editor.run(project);
        for (name, args) in [
            ("write", json!(["a.txt", "x"])),
            ("write", json!(["new/folder/x.txt", "x"])),
            ("append", json!(["a.txt", "x"])),
            ("edit", json!(["a.txt", "open", "x"])),
            ("mkdir", json!(["new/folder"])),
            ("remove", json!(["a.txt"])),
            ("remove", json!(["d", {"recursive": true}])),
        ] {
            fails(&ctx, name, args, Denied, "the user said no");
        }
        assert_eq!(
            (project.call("read_file", json!(["a.txt"])).unwrap(), editor.buffer("a.txt").as_str()),
            (json!("disk"), "open")
        );
        assert!(!project.path("new").exists() && project.path("d/e.txt").exists());
        assert!(editor.changed.lock().unwrap().is_empty());
        let otherwise = SkillError::new(Unavailable, "the window is closed");
        let ctx = Editor { decision: Err(otherwise), ..editor }.run(project);
        fails(
            &ctx,
            "write",
            json!(["a.txt", "x"]),
            Unavailable,
            "failed to write a.txt: the window is closed",
        );
    });
}

#[test]
fn an_editor_with_everything_open_gives_nothing_away_that_is_closed() {
    both_ways(|project| {
        project
            .file(".env", "KEY=1")
            .file(".git/config", "")
            .file(".metier/skills/x/SKILL.md", "")
            .link("absolute", project.outside("secret.txt"))
            .link("folder", project.outside(""))
            .link("env", ".env")
            .link("dangling", "../outside/new.txt");
        fs::hard_link(project.path(".env"), project.path("hard.txt")).unwrap();
        fs::create_dir(project.path("dir")).unwrap();
        for path in [
            "absolute",
            "folder/secret.txt",
            ".env",
            "env",
            "hard.txt",
            ".git/config",
            "dangling",
            "../outside/secret.txt",
            ".metier/skills/x/SKILL.md",
            "dir",
        ] {
            for decision in [ChangeDecision::Proceed, ChangeDecision::Applied] {
                let editor = Everything { decision, asked: Arc::default() };
                let with = run_with(project, editor.clone());
                for (name, args) in every_use(path) {
                    if (name, path) == ("write", "hard.txt") {
                        continue; // gives the name another file, also without an editor
                    }
                    let Err(without) = project.call(name, args.clone()) else { continue };
                    match call(&with, name, args.clone()) {
                        Err(error) => assert!(
                            [without.kind(), Denied].contains(&error.kind()),
                            "{name} {args}: {error}, not {without}"
                        ),
                        Ok(answer) => panic!("{name} {args} answered {answer} in place of {without}"),
                    }
                }
                let asked = editor.asked.lock().unwrap().clone();
                assert!(asked.is_empty(), "{path}: {asked:?}");
            }
        }
        // A search of the whole project shows none of them either.
        let editor = Everything { decision: ChangeDecision::Proceed, asked: Arc::default() };
        let found = call(&run_with(project, editor), "grep", json!(["leak", ".", {"hidden": true}])).unwrap();
        let files: Vec<&str> =
            found.as_array().unwrap().iter().map(|row| row["file"].as_str().unwrap()).collect();
        assert!(
            files.iter().all(|file| !file.contains("env")
                && !file.contains(".git/")
                && !file.contains("hard")
                && !file.contains("outside")
                && !file.contains("folder/")),
            "{files:?}"
        );
    });
}

/// An editor that claims to have every file open, also those that it is not asked for.
#[derive(Clone)]
struct Everything {
    decision: ChangeDecision,
    asked: Arc<Mutex<Vec<String>>>,
}

impl FileProvider for Everything {
    fn unsaved(&self, _: &SkillContext, path: &str) -> Result<Option<Vec<u8>>> {
        self.asked.lock().unwrap().push(path.into());
        Ok(Some(b"leak".to_vec()))
    }

    fn unsaved_paths(&self, _: &SkillContext) -> Result<Vec<String>> {
        let all = [
            ".env",
            "env",
            "hard.txt",
            ".git/config",
            ".git/new",
            "absolute",
            "folder/secret.txt",
            "../outside/secret.txt",
            "/etc/passwd",
            "sub/.env",
            "",
            "/",
            "a\0b",
            "sub/../../outside/secret.txt",
        ];
        Ok(all.map(str::to_owned).into())
    }

    fn before_change(&self, _: &SkillContext, change: &FileChange) -> Result<ChangeDecision> {
        self.asked.lock().unwrap().push(change.path.clone());
        Ok(self.decision)
    }
}

#[test]
fn limits_hold_for_what_is_not_saved() {
    both_ways(|project| {
        project.file("a.txt", "a");
        let large = vec![b'x'; (16 << 20) + 1];
        let editor = Editor::new(ChangeDecision::Proceed).open("large.txt", large).open("bytes.txt", [0xff]);
        let ctx = editor.run(project);
        fails(&ctx, "read_file", json!(["large.txt"]), Io, "more than the 16777216 that can be read");
        fails(&ctx, "read_file", json!(["bytes.txt"]), Io, "it is not UTF-8 text (byte 0)");
        fails(&ctx, "append", json!(["large.txt", "x"]), Io, "more than the 16777216");
        let limits = Limits::default().memory(8 << 20).file_size(1000);
        let small = run_until(project, editor, CancelToken::new(), limits);
        for (name, args) in [
            ("read_file", json!(["large.txt"])),
            ("head", json!(["large.txt"])),
            ("stat", json!(["large.txt"])),
            ("grep", json!(["x", "large.txt"])),
        ] {
            fails(&small, name, args, Memory, "bytes of memory");
        }
        fails(
            &small,
            "append",
            json!(["a.txt", "x".repeat(1000)]),
            Output,
            "more than the 1000 that a file may have",
        );
        fails(&small, "edit", json!(["a.txt", "a", "x".repeat(1001)]), Output, "more than the 1000");
    });
}

#[test]
fn two_runs_at_once_share_an_editor() {
    both_ways(|project| {
        let editor = Editor::new(ChangeDecision::Applied);
        std::thread::scope(|scope| {
            for run in 0..2 {
                let ctx = editor.run(project);
                scope.spawn(move || {
                    let path = format!("{run}.txt");
                    for at in 0..50 {
                        call(&ctx, "append", json!([path, format!("{at} ")])).unwrap();
                    }
                });
            }
        });
        let expected = (0..50).fold(String::new(), |text, at| format!("{text}{at} "));
        assert_eq!((editor.buffer("0.txt"), editor.buffer("1.txt")), (expected.clone(), expected));
        assert!(!project.path("0.txt").exists());
    });
}

struct Later;

impl AsyncFileProvider for Later {
    async fn unsaved(&self, _: &SkillContext, path: &str) -> Result<Option<Vec<u8>>> {
        Ok((path == "open.txt").then(|| b"open".to_vec()))
    }

    async fn unsaved_paths(&self, _: &SkillContext) -> Result<Vec<String>> {
        Ok(vec!["open.txt".into()])
    }

    async fn before_change(&self, ctx: &SkillContext, change: &FileChange) -> Result<ChangeDecision> {
        match change.path.as_str() {
            "never.txt" => std::future::pending().await,
            _ => Err(SkillError::new(Denied, format!("{} says no", ctx.skill()))),
        }
    }

    fn time_limit(&self) -> Duration {
        Duration::from_millis(50)
    }
}

#[test]
fn an_editor_may_be_asynchronous() {
    both_ways(|project| {
        let ctx = run_with(project, Async(Later));
        assert_eq!(call(&ctx, "read_file", json!(["open.txt"])).unwrap(), "open");
        assert_eq!(call(&ctx, "list_dir", json!([])).unwrap(), json!(["open.txt"]));
        fails(&ctx, "write", json!(["open.txt", "x"]), Denied, "test says no");
        fails(&ctx, "write", json!(["never.txt", "x"]), Denied, "nobody decided");
    });
}
