//! What a script leaves in its home and in `/tmp`: reported alike, and copied into the project with `--keep`.

use std::fs;
use std::os::unix::fs::symlink;

use crate::state::{LEVELS, metier_at};
use crate::support::cli::{Project, write};

#[test]
fn what_is_left_in_the_home_and_in_tmp_is_one_line_and_data() {
    let script = "echo one > \"$HOME/list\"; echo four > \"$TMPDIR/chart.svg\"; mkdir -p \"$HOME/.cache\" ~/.bun; \
                  echo x > \"$HOME/.cache/y\"; echo x > \"$HOME/.bun/z\"; mktemp >&2; mkdir \"$TMPDIR/empty\"";
    for level in LEVELS {
        let project = Project::new().shell("leave", script);
        let answer = metier_at(&project, level, &["run", "leave", "--json"]).json();
        let expected = serde_json::json!([
            {"place": "home", "path": "list", "bytes": 4},
            {"place": "tmp", "path": "chart.svg", "bytes": 5},
        ]);
        assert_eq!(answer["process"]["left"], expected, "{level} {answer}");
        let answer = metier_at(&project, level, &["run", "leave"]);
        let line = "left files in its home folder and in /tmp, which were thrown away: list, /tmp/chart.svg; to keep them, run with --allow state\n";
        assert!(answer.stderr.contains(line), "{level} {answer:?}");
        // With the state the home is kept, and `/tmp` is not.
        let answer = metier_at(&project, level, &["run", "leave", "--allow", "state"]);
        let line = "left files in /tmp, which were thrown away: /tmp/chart.svg; run with --keep tmp:chart.svg to have a copy of it in the project\n";
        assert!(answer.stderr.contains(line), "{level} {answer:?}");
        let quiet = Project::new().shell("quiet", "true");
        let answer = metier_at(&quiet, level, &["run", "quiet", "--json"]).json();
        assert!(answer["process"].get("left").is_none(), "{level} {answer}");
    }
}

#[test]
fn what_a_script_leaves_is_copied_into_the_project() {
    let script = "echo chart > \"$TMPDIR/chart.svg\"; mkdir -p \"$HOME/out/deep\"; echo a > \"$HOME/out/a\"; \
                  echo b > \"$HOME/out/deep/b\"; ln -s /etc/passwd \"$HOME/out/link\"; mkfifo \"$HOME/out/pipe\"; exit $1";
    let keep = ["--keep", "tmp:chart.svg", "--keep", "home:out"];
    for level in LEVELS {
        for code in ["0", "3"] {
            let project = Project::new().shell("draw", script);
            let answer = metier_at(&project, level, &[&["run", "draw"], &keep[..], &["--", code]].concat());
            assert_eq!(answer.code == 0, code == "0", "{level} {answer:?}");
            assert!(answer.stderr.contains("copied to chart.svg (6 bytes)\n"), "{level} {answer:?}");
            assert!(answer.stderr.contains("copied to out (4 bytes)\n"), "{level} {answer:?}");
            assert!(!answer.stderr.contains("thrown away"), "{level} {answer:?}");
            assert_eq!(project.read("chart.svg"), "chart\n");
            assert_eq!((project.read("out/a"), project.read("out/deep/b")), ("a\n".into(), "b\n".into()));
            for path in ["out/link", "out/pipe"] {
                assert!(project.path(path).symlink_metadata().is_err(), "{path}");
            }
        }
        // Also of a home that is kept.
        let project = Project::new().shell("draw", script);
        let args = ["run", "draw", "--allow", "state", "--keep", "home:out/a", "--json", "--", "0"];
        let answer = metier_at(&project, level, &args).json();
        assert_eq!(answer["process"]["left"][0]["copied_to"], "a", "{level} {answer}");
        assert_eq!(project.read("a"), "a\n");
    }
}

#[test]
fn a_copy_overwrites_nothing_and_follows_no_link() {
    let script = "cd \"$TMPDIR\"; echo new > file; ln -s /etc/passwd link; mkdir inner; ln -s /etc outer; echo x > inner/x; mkfifo pipe; \
                  mkdir -p work/.git/hooks hidden; echo x > work/.git/hooks/pre-commit; echo x > .envrc; echo x > CLAUDE.md; echo done";
    for level in LEVELS {
        for (path, reason) in [
            ("tmp:file", "the project has something of this name"),
            ("tmp:link", "a link is on the path"),
            ("tmp:outer/passwd", "a link is on the path"),
            ("tmp:pipe", "neither a file nor a folder"),
            ("tmp:absent", "the script left nothing there"),
            ("home:other", "the script left nothing there"),
            ("tmp:.envrc", "envrc"),
            ("tmp:work", ".git"),
        ] {
            let project = Project::new().shell("make", script).file("file", "old\n");
            let answer = metier_at(&project, level, &["run", "make", "--keep", path]);
            assert!(answer.code != 0 && answer.stderr.contains(reason), "{level} {path} {answer:?}");
            assert_eq!(project.read("file"), "old\n", "{level} {path}");
            for path in ["link", "passwd", "pipe", ".envrc", "work/.git"] {
                assert!(project.path(path).symlink_metadata().is_err(), "{level} {path}");
            }
        }
        let project = Project::new().shell("make", script);
        // A link of the project in the place of the copy is something of the name.
        symlink("/nowhere", project.path("x")).unwrap();
        let answer = metier_at(&project, level, &["run", "make", "--keep", "tmp:inner/x"]);
        assert!(answer.stderr.contains("something of this name") || answer.code != 0, "{level} {answer:?}");
        assert!(project.path("x").is_symlink() && !fs::exists("/nowhere").unwrap());
    }
}

#[test]
fn a_copy_is_bounded_and_only_of_a_run_with_folders_of_its_own() {
    let project = Project::new().shell("make", "for i in 1 2 3; do head -c 400 /dev/zero > \"$TMPDIR/$i\"; done; mkdir \"$TMPDIR/all\"; mv \"$TMPDIR\"/? \"$TMPDIR/all\"").lua("lua", "return 1");
    let answer = project.metier(&["run", "make", "--file-size", "1000", "--keep", "tmp:all"]);
    assert!(answer.code != 0 && answer.stderr.contains("larger than a file may be"), "{answer:?}");
    let answer = project.metier(&["run", "make", "--keep", "tmp:all", "--sandbox", "off"]);
    assert!(answer.code == 2 && answer.stderr.contains("has no folders of its own"), "{answer:?}");
    let answer = project.metier(&["run", "lua", "--keep", "tmp:all"]);
    assert!(answer.code == 2 && answer.stderr.contains("only external scripts have folders"), "{answer:?}");
    for path in ["tmp:/etc/passwd", "tmp:../x", "x", "home:", "var:x"] {
        let answer = project.metier(&["run", "make", "--keep", path]);
        assert!(
            answer.code == 2 && answer.stderr.contains("expected tmp:PATH or home:PATH"),
            "{path} {answer:?}"
        );
    }
    write(&project.path("note"), "");
}
