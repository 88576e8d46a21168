//! Changing: whole files or nothing, no leftovers, nothing protected.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

use metier::error::ErrorKind::{Denied, InvalidArgument, Io, OutsideProject};
use serde_json::json;

use crate::files::project::{Project, both_ways, call};

fn names(project: &Project, path: &str) -> Vec<String> {
    let listed = fs::read_dir(project.path(path)).unwrap();
    let mut names: Vec<_> = listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn writing_makes_folders_and_keeps_the_mode() {
    both_ways(|project| {
        project.answers("write", json!(["a/b/c.txt", "one"]), json!(null));
        project.answers("append", json!(["d/e.log", "one"]), json!(null));
        project.answers("append", json!(["d/e.log", "two"]), json!(null));
        project.answers("write", json!(["blob", "/wA=", {"encoding": "base64"}]), json!(null));
        project.refuses(InvalidArgument, "write", json!(["blob", "?", {"encoding": "base64"}]), "not base64");
        assert_eq!(fs::read(project.path("blob")).unwrap(), [0xff, 0]);
        assert_eq!(fs::read_to_string(project.path("d/e.log")).unwrap(), "onetwo");
        project.file("run.sh", "x");
        fs::set_permissions(project.path("run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
        project.answers("write", json!(["run.sh", "y"]), json!(null));
        project.answers("edit", json!(["run.sh", "y", "z"]), json!(1));
        assert_eq!(fs::metadata(project.path("run.sh")).unwrap().permissions().mode() & 0o777, 0o750);
        assert_eq!(names(project, ""), ["a", "blob", "d", "run.sh"]);
    });
}

#[test]
fn f31_a_failed_write_leaves_the_old_file_and_nothing_else() {
    both_ways(|project| {
        project.file("kept.txt", "old").file("dir/x", "x");
        fs::set_permissions(project.path("kept.txt"), fs::Permissions::from_mode(0o444)).unwrap();
        project.refuses(Io, "write", json!(["kept.txt", "new"]), "failed to write kept.txt: it is read-only");
        project.refuses(Io, "append", json!(["kept.txt", "new"]), "read-only");
        project.refuses(Io, "write", json!(["dir", "new"]), "is a directory");
        assert_eq!(fs::read_to_string(project.path("kept.txt")).unwrap(), "old");
        assert_eq!(names(project, ""), ["dir", "kept.txt"]);
        assert_eq!(names(project, "dir"), ["x"]);
    });
}

#[test]
fn f31_f32_readers_and_other_writers_see_whole_files() {
    both_ways(|project| {
        let (first, second) = ("a".repeat(300_000), "b".repeat(200_000));
        project.file("shared", &first);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for content in [&first, &second] {
                let done = &done;
                scope.spawn(move || {
                    let run = project.run(&[]);
                    while !done.load(Ordering::Relaxed) {
                        call(&run, "write", json!(["shared", content])).unwrap();
                    }
                });
            }
            let run = project.run(&[]);
            for _ in 0..100 {
                let seen = call(&run, "read_file", json!(["shared"])).unwrap();
                assert!(seen == first.as_str() || seen == second.as_str());
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(names(project, ""), ["shared"]);
    });
}

#[test]
fn f32_protected_places_need_their_name() {
    both_ways(|project| {
        project.file(".metier/skills/x/SKILL.md", "x").file(".git/hooks/a", "x").file("sub/.git/config", "x");
        for path in
            [".git/hooks/post-commit", ".GIT/config", ".env", "a/.env.local", ".metier/skills/x/SKILL.md"]
        {
            for (name, args) in [
                ("write", json!([path, "x"])),
                ("append", json!([path, "x"])),
                ("edit", json!([path, "x", "y"])),
                ("mkdir", json!([path])),
                ("remove", json!([path])),
            ] {
                project.refuses(Denied, name, args, &format!("grant write:{path}"));
            }
        }
        let granted = project.run(&["write:.git"]);
        call(&granted, "write", json!([".git/hooks/post-commit", "x"])).unwrap();
    });
}

#[test]
fn f32_removing_a_folder_whole_spares_protected_places_inside() {
    both_ways(|project| {
        project.file("sub/a.txt", "a").file("sub/deep/.env", "x").file(".metier/skills/x/SKILL.md", "x");
        for (path, inside) in [("sub", "sub/deep/.env"), (".metier", ".metier/skills")] {
            project.refuses(
                Denied,
                "remove",
                json!([path, {"recursive": true}]),
                &format!("grant write:{inside}"),
            );
        }
        assert!(project.path("sub/a.txt").exists());
        let granted = project.run(&["write:sub/deep/.env"]);
        call(&granted, "remove", json!(["sub", {"recursive": true}])).unwrap();
        assert!(!project.path("sub").exists() && project.path(".metier/skills/x/SKILL.md").exists());
    });
}

#[test]
fn f14_f15_the_root_is_never_removed() {
    both_ways(|project| {
        project.file("a.txt", "a");
        let root = fs::canonicalize(project.root()).unwrap();
        for path in [".", "a/..", "./", root.to_str().unwrap()] {
            project.refuses(InvalidArgument, "remove", json!([path]), "the root cannot be removed");
            project.refuses(InvalidArgument, "remove", json!([path, {"recursive": true}]), "the root");
        }
        project.refuses(OutsideProject, "remove", json!(["..", {"recursive": true}]), "outside the project");
        project.refuses(InvalidArgument, "remove", json!([""]), "invalid path");
        assert_eq!(names(project, ""), ["a.txt"]);
    });
}

#[test]
fn removing_takes_files_and_empty_folders_and_more_only_when_asked() {
    both_ways(|project| {
        project.file("dir/sub/a", "a").file("dir/b", "b");
        project.refuses(Io, "remove", json!(["dir"]), "failed to remove dir: Directory not empty");
        project.refuses(Io, "remove", json!(["none"]), "No such file");
        project.answers("remove", json!(["dir/b"]), json!(null));
        project.answers("remove", json!(["dir/b/../sub/a"]), json!(null));
        project.answers("remove", json!(["dir/sub"]), json!(null));
        project.file("dir/sub/deep/er/c", "c");
        project.answers("remove", json!(["dir", {"recursive": true}]), json!(null));
        assert_eq!(names(project, ""), Vec::<String>::new());
    });
}

#[test]
fn editing_is_exact() {
    both_ways(|project| {
        project.file("a.txt", "x.y.x");
        project.refuses(InvalidArgument, "edit", json!(["a.txt", "x", "z"]), "occurs 2 times");
        project.refuses(InvalidArgument, "edit", json!(["a.txt", "q", "z"]), "does not occur");
        project.refuses(InvalidArgument, "edit", json!(["a.txt", "q", "z", {"all": true}]), "does not occur");
        project.refuses(InvalidArgument, "edit", json!(["a.txt", "", "z"]), "empty");
        project.refuses(Io, "edit", json!(["none", "a", "b"]), "failed to edit none");
        project.answers("edit", json!(["a.txt", ".y.", "-$1-"]), json!(1));
        project.answers("edit", json!(["a.txt", "x", "z", {"all": true}]), json!(2));
        assert_eq!(fs::read_to_string(project.path("a.txt")).unwrap(), "z-$1-z");
    });
}

#[test]
fn f18_a_file_with_names_outside_is_replaced_and_not_changed() {
    both_ways(|project| {
        fs::hard_link(project.outside("secret.txt"), project.path("hard.txt")).unwrap();
        project.refuses(Io, "append", json!(["hard.txt", "x"]), "hard links");
        project.answers("edit", json!(["hard.txt", "secret", "mine"]), json!(1));
        project.answers("append", json!(["hard.txt", "!"]), json!(null));
        assert_eq!(fs::read_to_string(project.path("hard.txt")).unwrap(), "mine!");
    });
}
