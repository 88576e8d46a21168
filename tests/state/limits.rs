//! How much may be kept.

use std::fs;
use std::time::{Duration, Instant};

use crate::state::{ADD, LEVELS, metier_at, only_state};
use crate::support::cli::{Project, write};

/// A skill with state, and a script that does more.
fn list_with(script: &str) -> Project {
    let project = Project::new().shell("list", ADD);
    write(&project.path(".metier/skills/list/scripts/more.sh"), script);
    let first =
        project.metier(&["run", "list", "--allow", "state", "--script", "scripts/main.sh", "--", "one"]);
    assert_eq!(first.code, 0, "{first:?}");
    project
}

const MORE: [&str; 6] = ["run", "list", "--allow", "state", "--script", "scripts/more.sh"];

#[test]
fn a_run_that_leaves_too_much_fails_and_the_previous_state_stays() {
    let script = "for i in 1 2 3; do head -c 100M /dev/zero > \"$HOME/$i\"; done; echo two >> \"$HOME/list\"";
    let project = list_with(script);
    for level in LEVELS {
        let answer = metier_at(&project, level, &MORE);
        assert!(answer.code == 5 && answer.stderr.contains("268435456 bytes"), "{level}: {answer:?}");
        assert!(answer.stderr.contains("--state-size"), "{answer:?}");
        let state = only_state(&project);
        assert_eq!(fs::read_to_string(state.join("current/list")).unwrap(), "one\n");
        assert!(!state.join("home").exists() && !state.join("current/1").exists());
    }
    let json = project.metier(&[&MORE[..], &["--json"]].concat()).json();
    assert_eq!(json["error"]["kind"], "state", "{json}");
    let raised = project.metier(&[&MORE[..], &["--state-size", "400MB"]].concat());
    assert_eq!(raised.code, 0, "{raised:?}");
}

#[test]
fn a_run_is_stopped_while_it_leaves_too_much() {
    let project = list_with("head -c 2M /dev/zero > \"$HOME/much\"; sleep 60");
    let began = Instant::now();
    let answer = project.metier(&[&MORE[..], &["--state-size", "1MB"]].concat());
    assert!(answer.code == 5 && answer.stderr.contains("1048576 bytes"), "{answer:?}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn the_configuration_bounds_it_and_the_project_only_lowers_it() {
    let project = list_with("head -c 2M /dev/zero > \"$HOME/much\"");
    write(&project.path(".metier/config.toml"), "[limits]\nstate_size = \"1MB\"\n");
    assert_eq!(project.metier(&MORE).code, 5);
    write(&project.home().join(".config/metier/config.toml"), "[skills.list.limits]\nstate_size = \"1MB\"\n");
    write(&project.path(".metier/config.toml"), "[limits]\nstate_size = \"1GB\"\n");
    let answer = project.metier(&MORE);
    assert_ne!(answer.code, 0, "{answer:?}");
}

#[test]
fn too_many_files_and_too_deep_folders_are_not_kept() {
    for (script, reason) in [
        ("import os\nfor i in range(100001): os.mknod(os.environ['HOME'] + f'/{i}')", "100000 files"),
        (
            "import os\nos.chdir(os.environ['HOME'])\nfor i in range(10000):\n  os.mkdir('d')\n  os.chdir('d')",
            "64 folders",
        ),
    ] {
        let project = list_with("");
        write(&project.path(".metier/skills/list/scripts/more.py"), script);
        let args = ["run", "list", "--allow", "state", "--script", "scripts/more.py", "--timeout", "5m"];
        let answer = project.metier(&args);
        assert!(answer.code == 5 && answer.stderr.contains(reason), "{answer:?}");
        let state = only_state(&project);
        assert_eq!(fs::read_to_string(state.join("current/list")).unwrap(), "one\n");
        assert!(!state.join("home").exists() && !state.join("discarded").exists());
    }
}
