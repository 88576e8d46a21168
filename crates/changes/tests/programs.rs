//! What programs do to files directly, and by an overlay and `apply`, is the same; undo gives the original back.
#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::process::Command;

use proptest::prelude::*;
use support::overlay::{Action, Overlay};
use support::{Bench, Tree, conflicts, tree};
use tempfile::TempDir;

const OTHER_FILE_SYSTEM: &str = "/dev/shm";

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4).prop_map(|parts| parts.join("/"))
}

fn action() -> impl Strategy<Value = Action> {
    let content =
        || prop::sample::select(vec!["", "x", "content\n", "longer content\n"]).prop_map(str::to_owned);
    let target = prop::sample::select(vec!["a", "b/c", "missing"]).prop_map(str::to_owned);
    let mode = prop::sample::select(vec![0o644, 0o600, 0o755, 0o750]);
    prop_oneof![
        4 => (path(), content()).prop_map(|(path, content)| Action::Write(path, content)),
        2 => (path(), content()).prop_map(|(path, content)| Action::Append(path, content)),
        4 => path().prop_map(Action::MakeFolder),
        4 => path().prop_map(Action::Remove),
        3 => (path(), path()).prop_map(|(from, to)| Action::Rename(from, to)),
        1 => (path(), target).prop_map(|(path, target)| Action::Link(path, target)),
        2 => (path(), mode).prop_map(|(path, mode)| Action::SetMode(path, mode)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_program_has_the_same_effect_directly_and_by_apply(
        before in prop::collection::vec(action(), 0..30),
        actions in prop::collection::vec(action(), 1..30),
        is_elsewhere in any::<bool>(),
    ) {
        let mut bench = Bench::new(&[]);
        let elsewhere = TempDir::new_in(OTHER_FILE_SYSTEM).ok().filter(|_| is_elsewhere);
        if let Some(elsewhere) = &elsewhere {
            bench.store = elsewhere.path().join("store");
        }
        let direct = bench.temp.path().join("direct");
        fs::create_dir(&direct).unwrap();
        for root in [&bench.project, &direct] {
            let plain = Overlay { lower: None, upper: root.clone() };
            for action in &before {
                plain.run(action);
            }
        }
        let original = bench.tree();
        let plain = Overlay { lower: None, upper: direct.clone() };
        let overlay = Overlay { lower: Some(bench.project.clone()), upper: bench.upper.clone() };
        for action in &actions {
            plain.run(action);
            overlay.run(action);
        }
        prop_assert_eq!(&bench.tree(), &original);
        check_round_trip(&bench, &tree(&direct), &original)?;
    }
}

/// Applies what the upper folder has, and undoes it.
fn check_round_trip(bench: &Bench, expected: &Tree, original: &Tree) -> Result<(), TestCaseError> {
    let set = bench.read();
    prop_assert!(set.refused.is_empty(), "{:?}", support::refusals(&set));
    let id = bench.keep(&set).set.id;
    let report = bench.apply(&id, None, true);
    prop_assert!(report.conflicts.is_empty(), "{:?}", conflicts(&report));
    prop_assert_eq!(&bench.tree(), expected);
    if !set.changes.is_empty() {
        let report = bench.undo(&id);
        prop_assert!(report.conflicts.is_empty(), "{:?}", conflicts(&report));
    }
    prop_assert_eq!(&bench.tree(), original);
    Ok(())
}

/// Programs of a system, in a folder with some files.
const SHELL_PROGRAMS: [&str; 16] = [
    "echo new > file && sed -i s/one/1/ dir/text && chmod 700 dir/text",
    "rm -r dir && mkdir dir && echo again > dir/other",
    "mv dir moved && rm moved/sub/deep",
    "mv dir/text dir/renamed && mv dir/renamed . && touch dir/text",
    "rm text2 && mkdir text2 && echo x > text2/x",
    "rm -r dir && echo file > dir",
    "cp -a dir copy && rm -r dir/sub && ln -s ../text2 copy/link",
    "tar cf all.tar dir text2 && rm -r dir text2 && tar xf all.tar",
    "ln text2 hard && echo more >> hard",
    "ln -sf text2 link && ln -sfn dir/sub dirlink && rm dir/sub/deep",
    "mkdir -p a/b/c/d && touch a/b/c/d/e && rm -r a/b/c && chmod 711 a",
    "python3 -c \"import sqlite3; c = sqlite3.connect('x.db'); c.execute('create table t(a)'); c.execute('insert into t values (1)'); c.commit()\"",
    "find . -type f -exec chmod 600 {} + && chmod 750 dir",
    "for i in $(seq 300); do echo $i > dir/$i; done; rm dir/1*; rm -r dir/sub",
    "mv text2 t && mv dir/text text2 && mv t dir/text",
    "rm -r ./* && mkdir dir && mkdir dir/sub && echo deep > dir/sub/deep",
];

#[test]
fn programs_in_a_mounted_overlay_have_the_same_effect_by_apply() {
    for program in SHELL_PROGRAMS {
        let bench = Bench::new(&[("dir/text", "one\ntwo\n"), ("dir/sub/deep", "deep\n"), ("text2", "2\n")]);
        support::link(&bench.project, "link", "dir/text");
        let original = bench.tree();
        let root = bench.temp.path();
        let direct = root.join("direct");
        assert!(Command::new("cp").arg("-a").args([&bench.project, &direct]).status().unwrap().success());
        for name in ["work", "merged"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        let mount =
            "mount -t overlay overlay -o userxattr,lowerdir=project,upperdir=upper,workdir=work merged";
        let probe = Command::new("unshare").args(["-Urm", "sh", "-c", mount]).current_dir(root).output();
        if !probe.as_ref().is_ok_and(|probe| probe.status.success()) {
            println!("skipped: no overlay can be mounted here: {probe:?}");
            return;
        }
        // Both as the root of a user namespace: programs such as tar write down who they are.
        let succeeds = |script: &str| {
            let mut command = Command::new("unshare");
            let ran = command.args(["-Urm", "sh", "-c", script]).current_dir(root).status();
            ran.unwrap().success()
        };
        let directly = succeeds(&format!("cd direct && {{ {program}; }}"));
        assert_eq!(succeeds(&format!("{mount} && cd merged && {{ {program}; }}")), directly, "{program}");
        assert_eq!(bench.tree(), original, "{program}");
        check_round_trip(&bench, &tree(&direct), &original)
            .unwrap_or_else(|error| panic!("{program}: {error}"));
    }
}
