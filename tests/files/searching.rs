//! Searching: what is skipped, what is found, and that it ends.

use std::fs;
use std::time::{Duration, Instant};

use metier::error::ErrorKind::{Cancelled, Denied, InvalidArgument, Io, Memory, OutsideProject};
use metier::policy::CancelToken;
use serde_json::{Value, json};

use crate::files::project::{both_ways, call};
use crate::support::many_names::create_names;
use metier_core::host::RunMessages;

fn searches() -> [(&'static str, Value); 4] {
    [("grep", json!(["x"])), ("glob", json!(["**"])), ("find", json!([".", ""])), ("tree", json!([".", 999]))]
}

#[test]
fn gitignore_holds_from_the_root_down_with_or_without_a_repository() {
    both_ways(|project| {
        fs::write(project.root().join("../.gitignore"), "*.txt\n").unwrap();
        project
            .file(".gitignore", "\u{feff}target/\n*.log\n!keep.log\n/only-here\nnot[a-pattern\n")
            .file("sub/.gitignore", "private\n!loud.log\n")
            .file("target/x", "")
            .file("a.log", "")
            .file("keep.log", "")
            .file("sub/private/x", "")
            .file("sub/loud.log", "")
            .file("sub/only-here", "")
            .file("only-here", "")
            .file("private", "")
            .file("a.txt", "");
        let expected = json!(["a.txt", "keep.log", "private", "sub", "sub/loud.log", "sub/only-here"]);
        project.answers("glob", json!(["**"]), expected);
        project.answers("find", json!(["sub", "l"]), json!(["sub/loud.log", "sub/only-here"]));
        project.answers("glob", json!(["**/*.log"]), json!(["keep.log", "sub/loud.log"]));
        project.answers("find", json!(["target", "x"]), json!(["target/x"]));
        project.link("linked/.gitignore", "../.gitignore").file("linked/b.log", "");
        project.file("linked/keep.txt", "");
        project.answers("find", json!(["linked", ""]), json!(["linked/keep.txt"]));
    });
}

#[test]
fn hidden_names_are_passed_over_unless_asked_for_and_git_is_never_entered() {
    both_ways(|project| {
        project
            .file(".hidden/x.txt", "x")
            .file(".env", "x")
            .file(".git/config", "x")
            .file("sub/.git/config", "x")
            .file("key.pem", "x")
            .file("a.txt", "x");
        project.answers("grep", json!(["x"]), json!([{"file": "a.txt", "line": 1, "content": "x"}]));
        project.answers("glob", json!(["**"]), json!(["a.txt", "key.pem", "sub"]));
        let hidden =
            json!([".env", ".git", ".hidden", ".hidden/x.txt", "a.txt", "key.pem", "sub", "sub/.git"]);
        project.answers("glob", json!(["**", {"hidden": true}]), hidden);
        let files = |answer: Value| -> Vec<String> {
            answer.as_array().unwrap().iter().map(|row| row["file"].as_str().unwrap().to_owned()).collect()
        };
        let rows = project.call("grep", json!(["x", ".", {"hidden": true}])).unwrap();
        assert_eq!(files(rows), [".hidden/x.txt", "a.txt"]);
        for path in [".env", "key.pem", ".git"] {
            project.refuses(Denied, "grep", json!(["x", path]), "grant read:");
        }
        let granted = project.run(&["read:.env", "read:.git"]);
        let rows = call(&granted, "grep", json!(["x", ".", {"hidden": true}])).unwrap();
        assert_eq!(files(rows), [".env", ".git/config", ".hidden/x.txt", "a.txt"]);
    });
}

#[test]
fn grep_is_literal_until_asked_and_says_where() {
    both_ways(|project| {
        project
            .file("a.txt", "one a.b\ntwo aXb\r\nthree A.B\nfour\na.b at the end")
            .file("bin", b"a.b\n\0\n")
            .file("latin", b"a.b \xe9\n")
            .file("sub/b.txt", "a.b");
        let lines = |args: Value| -> Vec<String> {
            let rows = project.call("grep", args).unwrap();
            let line = |row: &Value| format!("{}:{}", row["file"].as_str().unwrap(), row["line"]);
            rows.as_array().unwrap().iter().map(line).collect()
        };
        assert_eq!(lines(json!(["a.b"])), ["a.txt:1", "a.txt:5", "latin:1", "sub/b.txt:1"]);
        assert_eq!(lines(json!(["a.b", "a.txt", {"regex": true}])), ["a.txt:1", "a.txt:2", "a.txt:5"]);
        assert_eq!(lines(json!(["A.b", ".", {"ignore_case": true, "max": 2}])), ["a.txt:1", "a.txt:3"]);
        assert_eq!(lines(json!(["a.b", "sub"])), ["sub/b.txt:1"]);
        assert_eq!(lines(json!(["a.b", ".", {"max": 0}])), Vec::<String>::new());
        project.answers("grep", json!(["aXb"]), json!([{"file": "a.txt", "line": 2, "content": "two aXb"}]));
        project.refuses(InvalidArgument, "grep", json!(["(", ".", {"regex": true}]), "invalid pattern");
        project.refuses(InvalidArgument, "grep", json!(["a\nb"]), "invalid pattern");
        project.refuses(
            InvalidArgument,
            "grep",
            json!(["(a{1000}){1000}", ".", {"regex": true}]),
            "exceeds size limit",
        );
        project.refuses(InvalidArgument, "grep", json!(["a", ".", {"max": -1}]), "whole number");
        project.refuses(Io, "grep", json!(["a", "none"]), "failed to search none: No such file");
    });
}

#[test]
fn grep_shows_what_surrounds_a_line() {
    both_ways(|project| {
        project.file("a.txt", "1\nx2\nx3\n4\n5\n6\n7\nx8\n");
        let row = |line: u32, content: &str, before: Value, after: Value| json!({"file": "a.txt", "line": line, "content": content, "before": before, "after": after});
        let expected = json!([
            row(2, "x2", json!(["1"]), json!(["x3"])),
            row(3, "x3", json!(["x2"]), json!(["4"])),
            row(8, "x8", json!(["7"]), json!([])),
        ]);
        project.answers("grep", json!(["x", ".", {"context": 1}]), expected);
        project.answers(
            "grep",
            json!(["x3", ".", {"context": 9, "max": 1}]),
            json!([row(3, "x3", json!(["1", "x2"]), json!(["4", "5", "6", "7", "x8"]))]),
        );
        project.refuses(InvalidArgument, "grep", json!(["x", ".", {"context": 101}]), "at most 100");
    });
}

#[test]
fn grep_answers_are_bounded() {
    both_ways(|project| {
        project.file("wide", "w".repeat(1 << 20)).file("long", "l\n".repeat(20_001));
        let wide = project.call("grep", json!(["w"])).unwrap();
        assert_eq!(wide[0]["content"].as_str().unwrap().chars().count(), 2001);
        project.refuses(Io, "grep", json!(["l"]), "give {max: N}");
        assert_eq!(
            project.call("grep", json!(["l", ".", {"max": 20_000}])).unwrap().as_array().unwrap().len(),
            20_000
        );
    });
}

#[test]
fn the_first_rows_are_the_same_however_many_threads_search() {
    both_ways(|project| {
        for file in 0..500 {
            project.file(&format!("{file:03}"), "x\nx\n");
        }
        for max in [1, 3, 700] {
            let rows = project.call("grep", json!(["x", ".", {"max": max}])).unwrap();
            let rows = rows.as_array().unwrap();
            assert_eq!(rows.len(), max);
            for (number, row) in rows.iter().enumerate() {
                assert_eq!(row["file"], format!("{:03}", number / 2));
                assert_eq!(row["line"], number % 2 + 1);
            }
        }
    });
}

#[test]
fn glob_stays_within_names_and_within_the_project() {
    both_ways(|project| {
        project.file("a.rs", "").file("src/b.rs", "").file("src/deep/c.rs", "").file("src/d.toml", "");
        for (pattern, expected) in [
            ("*.rs", json!(["a.rs"])),
            ("./*.rs", json!(["a.rs"])),
            ("*/*.rs", json!(["src/b.rs"])),
            ("**/*.rs", json!(["a.rs", "src/b.rs", "src/deep/c.rs"])),
            ("src/*", json!(["src/b.rs", "src/d.toml", "src/deep"])),
            ("src/**", json!(["src/b.rs", "src/d.toml", "src/deep", "src/deep/c.rs"])),
            ("{a.rs,src/d.*}", json!(["a.rs", "src/d.toml"])),
            ("src/[bd].*", json!(["src/b.rs", "src/d.toml"])),
            ("none", json!([])),
        ] {
            project.answers("glob", json!([pattern]), expected);
        }
        for pattern in ["../*", "/etc/*", "src/../../*"] {
            project.refuses(OutsideProject, "glob", json!([pattern]), "outside the project");
        }
        project.refuses(InvalidArgument, "glob", json!(["a{"]), "invalid pattern");
    });
}

#[test]
fn tree_starts_with_itself_and_goes_as_deep_as_asked() {
    both_ways(|project| {
        project.file("a/b/c/d/e", "").file("f", "");
        let paths = |args: Value| -> Vec<String> {
            let rows = project.call("tree", args).unwrap();
            rows.as_array().unwrap().iter().map(|row| row["path"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(paths(json!([])), [".", "a", "a/b", "a/b/c", "f"]);
        assert_eq!(paths(json!(["a", 1])), ["a", "a/b"]);
        assert_eq!(paths(json!([".", 0])), ["."]);
    });
}

#[test]
fn f28_links_are_not_followed_so_cycles_end() {
    both_ways(|project| {
        project.file("a/x.txt", "x").link("a/up", "..").link("a/self", ".").link("out", project.outside(""));
        project.answers("glob", json!(["**/**/**"]), json!(["a", "a/self", "a/up", "a/x.txt", "out"]));
        project.answers("grep", json!(["x"]), json!([{"file": "a/x.txt", "line": 1, "content": "x"}]));
        project.answers("find", json!(["a", "secret"]), json!([]));
        project.answers("find", json!(["a/self", "x"]), json!(["a/x.txt"]));
    });
}

#[test]
fn f27_a_tree_of_ten_thousand_folders_is_an_error_and_no_overflow() {
    both_ways(|project| {
        let mut here = fs::File::open(project.root()).unwrap();
        for _ in 0..10_000 {
            rustix::fs::mkdirat(&here, "d", rustix::fs::Mode::RWXU).unwrap();
            let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
            here = rustix::fs::openat(&here, "d", flags, rustix::fs::Mode::empty()).unwrap().into();
        }
        for (name, args) in searches() {
            project.refuses(Io, name, args, "more than 256 deep");
        }
        project.refuses(Io, "remove", json!(["d", {"recursive": true}]), "more than 256 deep");
        project.answers(
            "tree",
            json!([".", 1]),
            json!([{"path": ".", "is_dir": true}, {"path": "d", "is_dir": true}]),
        );
        // The standard library's own removal is not made for this.
        std::process::Command::new("rm").arg("-rf").arg(project.path("d")).status().unwrap();
    });
}

#[test]
fn f28_more_results_than_an_answer_holds_are_an_error() {
    both_ways(|project| {
        create_names((0..=100_000).map(|file| project.path(&format!("{file}"))));
        for (name, args) in [("glob", json!(["**"])), ("find", json!([".", ""]))] {
            project.refuses(Io, name, args, "narrow the search");
        }
        // A record takes more than a path, and so many more than the memory of a run.
        project.refuses(Memory, "tree", json!([]), "bytes of memory");
        project.refuses(Io, "list_dir", json!([]), "more than 100000");
        project.answers("glob", json!(["7777"]), json!(["7777"]));
    });
}

#[test]
fn f28_a_search_stops_when_the_run_does() {
    both_ways(|project| {
        let big = fs::File::create(project.path("big")).unwrap();
        big.set_len(1 << 40).unwrap();
        // No NUL at the start, so that the search goes on to the end of a line it never finds.
        std::os::unix::fs::FileExt::write_all_at(&big, &vec![b'a'; 1 << 20], 0).unwrap();
        for number in 0..3000 {
            project.file(&format!("{}/{number}", number % 50), "x\n");
        }
        let cancel = CancelToken::new();
        let run = project.run_until(&[], cancel.clone());
        let started = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                cancel.cancel();
            });
            loop {
                if let Err(error) = call(&run, "grep", json!(["nowhere"])) {
                    assert_eq!(error.kind(), Cancelled, "{error}");
                    break;
                }
            }
        });
        assert!(started.elapsed() < Duration::from_secs(10));
        for (name, args) in searches() {
            assert_eq!(call(&run, name, args).unwrap_err().kind(), Cancelled);
        }
    });
}

#[test]
fn f33_what_cannot_be_read_is_logged_and_the_rest_is_answered() {
    both_ways(|project| {
        project.file("a.txt", "x").file("sub/.gitignore", "#".repeat(70_000)).file("sub/b.txt", "x");
        // A folder whose path is too long to be opened.
        let mut here = fs::File::open(project.root()).unwrap();
        for _ in 0..20 {
            let name = "n".repeat(255);
            rustix::fs::mkdirat(&here, &name, rustix::fs::Mode::RWXU).unwrap();
            let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
            here = rustix::fs::openat(&here, &name, flags, rustix::fs::Mode::empty()).unwrap().into();
        }
        let run = project.run(&[]);
        let found = call(&run, "find", json!([".", "txt"])).unwrap();
        assert_eq!(found, json!(["a.txt", "sub/b.txt"]));
        let log = run.take_log();
        assert!(log.iter().any(|line| line.message.contains("sub/.gitignore: it has more than")), "{log:?}");
        let is_too_long = log.iter().any(|line| line.message.contains("File name too long"));
        assert!(is_too_long || project.is_portable, "{log:?}");
        std::process::Command::new("rm").arg("-rf").arg(project.root()).status().unwrap();
    });
}
