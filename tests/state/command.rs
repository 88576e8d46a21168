//! `metier state`.

use std::os::unix::fs::symlink;

use crate::state::{ADD, only_state, store};
use crate::support::cli::{Project, write};

#[test]
fn what_is_kept_is_listed_shown_and_cleared() {
    let project = Project::new().shell("list", ADD);
    let listed = project.metier(&["state"]);
    assert_eq!((listed.code, listed.stdout.as_str()), (0, ""), "{listed:?}");
    project.metier(&["run", "list", "--allow", "state", "--", "one"]);
    let listed = project.metier(&["state", "--json"]).json();
    assert_eq!(
        (&listed[0]["skill"], &listed[0]["files"]),
        (&"project/.metier:list".into(), &1.into()),
        "{listed}"
    );
    let root = project.root().canonicalize().unwrap();
    assert_eq!(listed[0]["project"], root.to_str().unwrap());
    assert!(project.metier(&["state"]).stdout.contains("project/.metier:list"));
    let shown = project.metier(&["state", "list", "--json"]).json();
    assert_eq!((&shown[0]["files"][0]["path"], &shown[0]["files"][0]["bytes"]), (&"list".into(), &4.into()));
    let unknown = project.metier(&["state", "other"]);
    assert_eq!(unknown.code, 3, "{unknown:?}");
    let unasked = project.metier(&["state", "--clear", "list"]);
    assert!(unasked.code == 4 && unasked.stderr.contains("--yes"), "{unasked:?}");
    let unclear = project.metier(&["state", "--clear", "--yes"]);
    assert_eq!(unclear.code, 2, "{unclear:?}");
    let cleared = project.metier(&["state", "--clear", "list", "--yes"]);
    assert_eq!(cleared.code, 0, "{cleared:?}");
    assert_eq!(std::fs::read_dir(store(&project)).unwrap().count(), 0);
    assert_eq!(project.metier(&["run", "list", "--allow", "state", "--", "two"]).stdout, "two\n");
}

#[test]
fn what_a_run_works_on_is_not_cleared() {
    let project = Project::new().shell("slow", "echo x > \"$HOME/x\"; echo started > out/started; sleep 3");
    let project = project.file("out/x", "");
    let mut running =
        project.command(&["run", "slow", "--allow", "state", "--allow", "write:out"]).spawn().unwrap();
    while !project.path("out/started").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(running.try_wait().unwrap().is_none(), "the run ended");
    }
    let cleared = project.metier(&["state", "--clear", "--all", "--yes"]);
    assert!(cleared.code == 3 && cleared.stderr.contains("a run of it works on it"), "{cleared:?}");
    assert!(running.wait().unwrap().success());
    assert!(only_state(&project).join("current/x").exists());
    assert_eq!(project.metier(&["state", "--clear", "--all", "--yes"]).code, 0);
}

#[test]
fn clearing_follows_no_link() {
    let project = Project::new().shell("list", ADD);
    project.metier(&["run", "list", "--allow", "state", "--", "one"]);
    let precious = project.home().join("precious");
    write(&precious.join("file"), "kept");
    let current = only_state(&project).join("current");
    symlink(&precious, current.join("link")).unwrap();
    symlink(precious.join("file"), current.join("other")).unwrap();
    assert_eq!(project.metier(&["state", "--clear", "list", "--yes"]).code, 0);
    assert!(!current.exists() && precious.join("file").exists());
}
