//! Paths as text: what they may look like, and that they end inside.

use std::fs;

use metier::error::ErrorKind::{InvalidArgument, Io, OutsideProject};
use metier::host::Files;
use serde_json::json;

use crate::files::project::{both_ways, every_use};
use metier_core::host::files::FilesView;

#[test]
fn f1_dots_do_not_lead_out() {
    both_ways(|project| {
        project.file("sub/a.txt", "a");
        for path in
            ["../outside/secret.txt", "sub/../../outside/secret.txt", "../../../../../../etc/passwd", ".."]
        {
            project.refuses_everything(OutsideProject, path);
            project.refuses(OutsideProject, "remove", json!([path]), "outside the project");
        }
        project.answers("read_file", json!(["sub/../sub/./a.txt"]), json!("a"));
    });
}

#[test]
fn f2_absolute_paths_are_taken_below_the_root_only() {
    both_ways(|project| {
        project.file("a.txt", "a");
        for path in ["/etc/passwd", "//etc/passwd", project.outside("secret.txt").to_str().unwrap()] {
            project.refuses_everything(OutsideProject, path);
        }
        let root = fs::canonicalize(project.root()).unwrap();
        project.answers("read_file", json!([root.join("a.txt")]), json!("a"));
        project.refuses(
            OutsideProject,
            "read_file",
            json!([format!("{}x/a.txt", root.display())]),
            "outside",
        );
    });
}

#[test]
fn f23_what_is_not_a_file_says_what_it_is() {
    both_ways(|project| {
        project.file("dir/f.txt", "f");
        project.refuses(Io, "read_file", json!(["dir"]), "failed to read dir: is a directory");
        project.refuses(Io, "read_file", json!(["."]), "failed to read .: is a directory");
        project.refuses(Io, "read_file", json!(["dir/f.txt/x"]), "Not a directory");
        project.refuses(
            Io,
            "read_file",
            json!(["none.txt"]),
            "failed to read none.txt: No such file or directory",
        );
        project.refuses(Io, "list_dir", json!(["dir/f.txt"]), "Not a directory");
        project.refuses(Io, "write", json!(["dir", "x"]), "is a directory");
        project.refuses(Io, "write", json!([".", "x"]), "is a directory");
        project.refuses(Io, "write", json!(["dir/f.txt/x", "x"]), "Not a directory");
        project.refuses(InvalidArgument, "read_file", json!([""]), "invalid path");
    });
}

#[test]
fn f24_nul_is_refused_and_never_truncates() {
    both_ways(|project| {
        project.file("in.txt", "in");
        for (name, args) in every_use("in.txt\0.png") {
            project.refuses(InvalidArgument, name, args, "invalid path");
        }
    });
}

#[test]
fn f26_strange_names_are_plain_names_here() {
    both_ways(|project| {
        for name in ["...", " x ", "C:", "NUL", "a:stream", "back\\slash", "-rf", "*", "ü\u{301}"] {
            project.answers("write", json!([name, name]), json!(null));
            project.answers("read_file", json!([name]), json!(name));
        }
        assert_eq!(project.call("list_dir", json!([])).unwrap().as_array().unwrap().len(), 9);
    });
}

#[test]
fn f27_names_and_paths_no_system_takes_are_refused() {
    both_ways(|project| {
        for path in ["n".repeat(256), "a/".repeat(2049)] {
            for (name, args) in every_use(&path) {
                project.refuses(InvalidArgument, name, args, "the maximum is");
            }
        }
        project.answers("write", json!(["n".repeat(255), "x"]), json!(null));
    });
}

#[test]
fn f30_the_root_may_be_reached_through_a_link_and_stays_the_same_when_it_is_replaced() {
    both_ways(|project| {
        project.file("a.txt", "a");
        let (link, moved) = (project.outside("../link"), project.outside("../moved"));
        std::os::unix::fs::symlink(project.root(), &link).unwrap();
        let files = Files::open(&link).unwrap();
        assert_eq!(files.root(), fs::canonicalize(project.root()).unwrap());
        FilesView::unrestricted(&files).write("new/b.txt", b"b").unwrap();

        let run = project.run(&[]);
        fs::rename(project.root(), &moved).unwrap();
        std::os::unix::fs::symlink(project.outside(""), project.root()).unwrap();
        assert_eq!(crate::files::project::call(&run, "read_file", json!(["a.txt"])).unwrap(), "a");
        assert!(crate::files::project::call(&run, "read_file", json!(["secret.txt"])).is_err());
        crate::files::project::call(&run, "write", json!(["c.txt", "c"])).unwrap();
        assert!(moved.join("c.txt").exists() && !project.outside("c.txt").exists());
    });
}
