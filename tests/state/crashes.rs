//! The state after a crash, and with several runs at a time.

use std::fs;
use std::time::Duration;

use crate::state::{ADD, only_state};
use crate::support::cli::Project;

#[test]
fn a_run_that_was_killed_leaves_the_previous_state() {
    let script = "echo \"$1\" >> \"$HOME/list\"; cat \"$HOME/list\"; test \"$1\" != slow || { echo x > out/started; sleep 60; }";
    let project = Project::new().shell("list", script).file("out/x", "");
    let run = |word: &'static str| ["run", "list", "--allow", "state", "--allow", "write:out", "--", word];
    assert_eq!(project.metier(&run("one")).stdout, "one\n");
    let mut killed = project.command(&run("slow")).stdout(std::process::Stdio::null()).spawn().unwrap();
    while !project.path("out/started").exists() {
        std::thread::sleep(Duration::from_millis(20));
        assert!(killed.try_wait().unwrap().is_none(), "the run ended");
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let answer = project.metier(&run("two"));
    assert_eq!(answer.stdout, "one\ntwo\n", "{answer:?}");
}

/// The folders as a host leaves them that was killed between two steps, and which list the next run finds.
#[test]
fn a_host_that_was_killed_while_it_replaced_the_state_leaves_one_of_them_whole() {
    for (renames, found) in [
        (vec![("current", "previous")], "one\n"),
        (vec![("current", "previous"), ("new", "current")], "new\n"),
        (vec![("new", "home")], "one\n"),
        (vec![("new", "discarded")], "one\n"),
    ] {
        let project = Project::new().shell("list", ADD);
        project.metier(&["run", "list", "--allow", "state", "--", "one"]);
        let state = only_state(&project);
        fs::create_dir(state.join("new")).unwrap();
        fs::write(state.join("new/list"), "new\n").unwrap();
        for (from, to) in &renames {
            fs::rename(state.join(from), state.join(to)).unwrap();
        }
        let answer = project.metier(&["run", "list", "--allow", "state", "--", "two"]);
        assert_eq!(answer.stdout, format!("{found}two\n"), "{renames:?}: {answer:?}");
        for left in ["home", "previous", "discarded"] {
            assert!(!state.join(left).exists(), "{renames:?}: {left}");
        }
    }
}

#[test]
fn two_runs_at_once_take_turns() {
    let script = "n=$(cat \"$HOME/n\" 2>/dev/null || echo 0); sleep 0.2; echo $((n + 1)) > \"$HOME/n\"";
    let project = Project::new().shell("count", script);
    let args = ["run", "count", "--allow", "state"];
    let running: Vec<_> = (0..4).map(|_| project.command(&args).spawn().unwrap()).collect();
    for mut run in running {
        assert!(run.wait().unwrap().success());
    }
    assert_eq!(fs::read_to_string(only_state(&project).join("current/n")).unwrap(), "4\n");
}

#[test]
fn a_run_that_waits_for_another_one_ends_at_its_deadline() {
    let project = Project::new().shell("slow", "sleep 4");
    let mut running = project.command(&["run", "slow", "--allow", "state"]).spawn().unwrap();
    let lock = || {
        let states = walkdir::WalkDir::new(project.home()).into_iter().flatten();
        states.filter(|entry| entry.file_name() == "home" && entry.depth() > 3).count() > 0
    };
    while !lock() {
        std::thread::sleep(Duration::from_millis(20));
        assert!(running.try_wait().unwrap().is_none(), "the run ended");
    }
    let waiting = project.metier(&["run", "slow", "--allow", "state", "--timeout", "1s"]);
    assert!(waiting.code == 5 && waiting.stderr.contains("another run of the skill"), "{waiting:?}");
    assert!(running.wait().unwrap().success());
}
