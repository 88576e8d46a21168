//! Links: those that stay inside work, those that leave or hide something do not.

use std::fs;

use metier::error::ErrorKind::{Denied, Io, OutsideProject};
use serde_json::json;

use crate::files::project::{both_ways, call, every_use};

#[test]
fn f3_f5_f34_links_that_leave_are_denied_whatever_is_done() {
    both_ways(|project| {
        project
            .link("absolute", project.outside("secret.txt"))
            .link("relative", "../outside/secret.txt")
            .link("folder", project.outside(""))
            .link("slash", "/")
            .link("a/chain", "../b/chain")
            .link("b/chain", "../../outside");
        for path in [
            "absolute",
            "relative",
            "folder",
            "folder/secret.txt",
            "slash",
            "slash/etc/passwd",
            "a/chain/secret.txt",
        ] {
            project.refuses_everything(OutsideProject, path);
        }
        project.refuses(
            OutsideProject,
            "read_file",
            json!(["absolute"]),
            "a symbolic link leads outside the project",
        );
        project.refuses(
            OutsideProject,
            "asset",
            json!(["absolute"]),
            "a symbolic link leads outside the skill's folder",
        );
    });
}

#[test]
fn f4_a_linked_folder_in_the_middle_leads_nowhere() {
    both_ways(|project| {
        fs::create_dir(project.outside("dir")).unwrap();
        project.link("dirlink", project.outside(""));
        for (name, args) in every_use("dirlink/dir/../secret.txt") {
            project.refuses(OutsideProject, name, args, "outside");
        }
        fs::remove_dir(project.outside("dir")).unwrap();
    });
}

#[test]
fn f6_links_into_proc_are_denied() {
    both_ways(|project| {
        project.link("root", "/proc/self/root").link("cwd", "/proc/self/cwd").link("fd", "/proc/self/fd/0");
        for path in ["root", "root/etc/passwd", "cwd", "cwd/Cargo.toml", "fd"] {
            project.refuses_everything(OutsideProject, path);
        }
    });
}

#[test]
fn f7_f8_links_that_stay_inside_work() {
    both_ways(|project| {
        let root = fs::canonicalize(project.root()).unwrap();
        project
            .file("real/a.txt", "one\ntwo\n")
            .link("near", "real/a.txt")
            .link("deep/far", "../real/../real/a.txt")
            .link("folder", "real")
            .link("absolute", root.join("real"));
        for path in ["near", "deep/far", "folder/a.txt", "absolute/a.txt"] {
            project.answers("head", json!([path, 1]), json!("one"));
        }
        project.answers("list_dir", json!(["folder"]), json!(["a.txt"]));
        project.answers("write", json!(["folder/new/b.txt", "b"]), json!(null));
        project.answers("append", json!(["near", "three\n"]), json!(null));
        project.answers("edit", json!(["deep/far", "two", "zwei"]), json!(1));
        project.answers("mkdir", json!(["folder/sub"]), json!(null));
        assert_eq!(fs::read_to_string(project.path("real/a.txt")).unwrap(), "one\nzwei\nthree\n");
        assert!(project.path("near").is_symlink() && project.path("real/new/b.txt").exists());
        let facts = project.call("stat", json!(["near"])).unwrap();
        assert_eq!(
            (&facts["is_symlink"], &facts["is_file"], &facts["size"]),
            (&json!(true), &json!(true), &json!(15))
        );
    });
}

#[test]
fn links_do_not_hide_what_is_protected() {
    both_ways(|project| {
        project
            .file(".env", "secret")
            .file(".git/config", "secret")
            .file(".metier/skills/x/SKILL.md", "secret")
            .link("innocent.txt", ".env")
            .link("d", ".git")
            .link("skill", ".metier/skills/x");
        for path in ["innocent.txt", "d", "d/config"] {
            project.refuses_everything(Denied, path);
        }
        project.refuses(Denied, "read_file", json!(["innocent.txt"]), "grant read:.env");
        project.refuses(
            Denied,
            "write",
            json!(["skill/SKILL.md", "x"]),
            "grant write:.metier/skills/x/SKILL.md",
        );
        project.refuses(Denied, "remove", json!(["skill/SKILL.md"]), "grant write:.metier/skills/x/SKILL.md");
        project.answers("read_file", json!(["skill/SKILL.md"]), json!("secret"));
        let granted = project.run(&["read:.env"]);
        assert_eq!(call(&granted, "read_file", json!(["innocent.txt"])).unwrap(), "secret");
    });
}

#[test]
fn f9_loops_end() {
    both_ways(|project| {
        project.link("a", "b").link("b", "a").link("self", "self/x");
        for path in ["a", "self", "a/x"] {
            for (name, args) in every_use(path) {
                project.refuses(Io, name, args, "too many symbolic links");
            }
        }
    });
}

#[test]
fn f10_f11_writing_through_dangling_links_makes_nothing() {
    both_ways(|project| {
        project
            .link("out", project.outside("new.txt"))
            .link("outdir", project.outside("newdir"))
            .link("folder", project.outside(""))
            .link("inside", "nothing.txt")
            .link("insidedir", "nothing");
        for path in ["out", "outdir/a.txt", "folder/new.txt", "folder/new/deep.txt"] {
            project.refuses_everything(OutsideProject, path);
        }
        for (name, args) in [
            ("write", json!(["inside", "x"])),
            ("append", json!(["inside", "x"])),
            ("write", json!(["insidedir/a/b", "x"])),
            ("mkdir", json!(["insidedir/a"])),
        ] {
            project.refuses(Io, name, args, "a symbolic link in the path leads to nothing");
        }
        assert!(!project.path("nothing.txt").exists() && !project.path("nothing").exists());
    });
}

#[test]
fn f13_removing_a_link_removes_the_link() {
    both_ways(|project| {
        project
            .file("real/a.txt", "a")
            .link("inside", "real")
            .link("out", project.outside(""))
            .link("dangling", "none");
        for path in ["inside", "out", "dangling"] {
            project.answers("remove", json!([path, {"recursive": true}]), json!(null));
            assert!(!project.path(path).is_symlink());
        }
        assert!(project.path("real/a.txt").exists());
        project.link("real/out", project.outside(""));
        project.answers("remove", json!(["real", {"recursive": true}]), json!(null));
        assert!(!project.path("real").exists());
    });
}

#[test]
fn f12_f16_f17_what_lies_behind_a_link_that_leaves_is_not_removed_and_no_function_makes_links() {
    both_ways(|project| {
        project.link("out", project.outside(""));
        project.refuses(OutsideProject, "remove", json!(["out/secret.txt"]), "outside");
        project.refuses(OutsideProject, "remove", json!(["out/secret.txt", {"recursive": true}]), "outside");
    });
    assert!(metier::host::functions().iter().all(|function| !function.name.contains("link")));
}
