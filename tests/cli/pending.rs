//! `metier pending`: a call that waits is approved at the terminal, by whoever has read it.

use serde_json::json;

use crate::support::cli::Project;
use crate::support::pseudo_terminal::Terminal;

fn project() -> Project {
    let frontmatter = "---\nname: x\ndescription: d\nallowed-tools: write:out\n---\n";
    Project::new()
        .file(".metier/skills/x/SKILL.md", frontmatter)
        .file(".metier/skills/x/scripts/main.lua", "ctx.write('out/a.txt', 'written') return 'done'")
}

const CALL: [&str; 5] = ["run", "x", "--park", "--input", r#"{"note": "a\u001b[2Jb"}"#];

fn waiting_id(project: &Project) -> String {
    let answer = project.metier(&[&CALL[..], &["--json"]].concat());
    let outcome = answer.json();
    assert_eq!((answer.code, &outcome["error"]["kind"]), (4, &json!("pending")), "{outcome}");
    let calls = project.metier(&["pending", "--json"]).json();
    let id = calls[0]["id"].as_str().unwrap().to_owned();
    assert!(
        outcome["error"]["help"].as_str().unwrap().contains(&format!("`metier pending approve {id}`")),
        "{outcome}"
    );
    assert!(!project.path("out/a.txt").exists());
    id
}

#[test]
fn a_call_is_approved_at_a_terminal_alone_and_then_made_once() {
    let project = project();
    let id = waiting_id(&project);
    for args in [
        &["pending", "approve", &id][..],
        &["pending", "approve", &id, "--json"],
        &["--no-input", "pending", "approve", &id],
    ] {
        let refused = project.metier(args);
        assert_eq!(refused.code, 4, "{refused:?}");
    }
    assert_eq!(project.metier(&["pending", "approve", &id, "--yes"]).code, 2, "no option agrees");
    for (key, code, says) in [("n", 4, "was not approved, and still waits"), ("y", 0, "approved ")] {
        let mut terminal = Terminal::start(&mut project.command(&["pending", "approve", &id]));
        for fact in [
            "waits.\n",
            "skill     project/.metier:x@0.0.0\n",
            "wants     write:out (",
            "caller    metier run\n",
            r#"input     {"note":"a\u001b[2Jb"}"#,
            "Make this call? [y] yes, once",
        ] {
            terminal.wait_for(fact);
        }
        terminal.press(key);
        let (got, screen) = terminal.finish();
        assert!(got == code && screen.contains(says), "{got} {screen}");
    }
    assert!(!project.path("out/a.txt").exists());
    assert_eq!(project.metier(&CALL).stdout, "done\n");
    assert_eq!(project.metier(&["pending", "--json"]).json(), json!([]));
    waiting_id_again(&project, &id);
}

fn waiting_id_again(project: &Project, id: &str) {
    std::fs::remove_dir_all(project.path("out")).unwrap();
    assert_eq!(waiting_id(project), id);
}

#[test]
fn calls_are_listed_shown_and_refused_and_wrong_ids_are_errors() {
    let project = project();
    assert!(project.metier(&["pending"]).stderr.contains("no call waits"));
    let id = waiting_id(&project);
    let list = project.metier(&["pending"]).stdout;
    assert!(list.starts_with(&format!("{id}  project/.metier:x@0.0.0  waiting, until ")), "{list}");
    let shown = project.metier(&["pending", "show", &id]).stdout;
    assert!(shown.contains("write:out") && shown.contains("sha256:") && !shown.contains('\u{1b}'), "{shown}");
    for unknown in ["00000000000000000000000000000000", "../trust/trust", ""] {
        for action in ["show", "approve", "deny"] {
            assert_eq!(project.metier(&["pending", action, unknown]).code, 2, "{action} {unknown}");
        }
    }
    assert_eq!(project.metier(&["pending", "deny", &id]).code, 0);
    let refused = project.metier(&[&CALL[..], &["--json"]].concat()).json();
    assert_eq!(refused["error"]["kind"], "denied");
    assert!(refused["error"]["message"].as_str().unwrap().contains("a person has refused"), "{refused}");
    assert!(!project.path("out/a.txt").exists());
}

#[test]
fn an_approval_is_used_at_most_once_however_the_command_is_killed() {
    let frontmatter = "---\nname: x\ndescription: d\nallowed-tools: write:out\n---\n";
    let script = "local seen = #ctx.glob('out/ran') > 0 and ctx.read_file('out/ran') or '' ctx.write('out/ran', seen .. 'x') return 1";
    let project = Project::new()
        .file(".metier/skills/x/SKILL.md", frontmatter)
        .file(".metier/skills/x/scripts/main.lua", script);
    let store = metier::pending::PendingStore::new(project.home().join(".local/share/metier/pending"));
    let call = ["run", "x", "--park"];
    let ran = || std::fs::read(project.path("out/ran")).map_or(0, |text| text.len());
    for number in 0..40 {
        assert_eq!(project.metier(&call).code, 4, "it waits");
        let id = store.list().unwrap()[0].id.clone();
        let before = ran();
        store.approve(&store.find(&id).unwrap()).unwrap();
        let mut host = project
            .command(&call)
            .stderr(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(number));
        host.kill().unwrap();
        host.wait().unwrap();
        // What is left of the approval is used now.
        for _ in 0..3 {
            project.metier(&call);
        }
        assert!(ran() <= before + 1, "killed after {number} ms it ran twice");
        let [left] = <[_; 1]>::try_from(store.list().unwrap()).unwrap();
        assert_eq!((left.id, left.state), (id, metier::pending::PendingState::Waiting));
    }
}

#[test]
fn decisions_are_recorded_where_the_audit_log_is_on() {
    let project = project();
    assert_eq!(project.metier(&["config", "set", "audit.enabled", "true"]).code, 0);
    let id = waiting_id(&project);
    assert_eq!(project.metier(&["pending", "deny", &id]).code, 0);
    let lines = project.metier(&["audit", "show", "--json"]).json();
    let of_kind = |kind: &str| {
        lines
            .as_array()
            .unwrap()
            .iter()
            .map(|line| &line["record"])
            .filter(|record| record["kind"] == kind)
            .cloned()
            .collect::<Vec<_>>()
    };
    let refused = of_kind("run_refused");
    assert_eq!((refused.len(), &refused[0]["outcome"]), (1, &json!("pending")), "{lines}");
    let decided = of_kind("call_decided");
    assert_eq!(
        (decided.len(), &decided[0]["target"], &decided[0]["outcome"]),
        (1, &json!(id), &json!("denied")),
        "{lines}"
    );
    assert_eq!(project.metier(&["audit", "verify"]).code, 0);
}
