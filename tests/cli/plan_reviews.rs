//! Reviews in plans at the command line: a person at the terminal is shown the changes, and nobody else is asked.

use crate::support::cli::Project;
use crate::support::not_run::not_run;
use crate::support::pseudo_terminal::Terminal;

const PLAN: &str = r#"[
  {"tool": "write", "args": {"path": "docs/a.txt", "content": "new\n"}},
  {"id": "look", "review": "Just a look\u202e"},
  {"tool": "write", "args": {"path": "docs/late.txt", "content": "late"}}
]"#;

fn project() -> Project {
    Project::new()
        .file(
            ".metier/skills/plan/SKILL.md",
            "---\nname: plan\ndescription: d\nallowed-tools: write:docs\n---\n",
        )
        .file(".metier/skills/plan/scripts/sequence.json", PLAN)
        .file("docs/a.txt", "one\n")
}

const RUN: [&str; 4] = ["run", "plan", "--allow", "write:docs"];
const KEYS: &str =
    "Apply these changes to the project? [y] yes, apply them and go on  [l] show the lines  [n] no";

#[test]
fn a_person_looks_at_the_lines_and_agrees_or_not() {
    for (key, is_done) in [("y", true), ("n", false)] {
        let project = project();
        let mut terminal = Terminal::start(&mut project.command(&RUN));
        if terminal.wait_for_one_of(&["The plan has come to its review look.\n", "failed to run in a copy"])
            == 1
        {
            not_run("a plan with a review at a terminal", &terminal.screen());
            return;
        }
        for part in [
            "plan      project/.metier:plan@0.0.0\n",
            "it says   Just a look",
            "changed   docs/a.txt (4 bytes)\n",
            KEYS,
        ] {
            terminal.wait_for(part);
        }
        terminal.press("l");
        terminal.wait_for("docs/a.txt\n@@ -1 +1 @@\n-one\n+new\n");
        terminal.wait_for(KEYS);
        assert_eq!(project.read("docs/a.txt"), "one\n");
        terminal.press(key);
        let (code, screen) = terminal.finish();
        assert!(!screen.contains('\u{202e}'), "{screen}");
        assert_eq!(code, if is_done { 0 } else { 4 }, "{screen}");
        assert_eq!(project.read("docs/a.txt"), if is_done { "new\n" } else { "one\n" });
        assert_eq!(project.path("docs/late.txt").exists(), is_done);
        if is_done {
            assert_eq!(project.metier(&["undo"]).code, 0);
            assert_eq!(project.read("docs/a.txt"), "one\n");
        }
    }
}

#[test]
fn without_a_terminal_the_plan_ends_at_its_review_and_a_preview_shows_all_of_it() {
    let project = project();
    let answer = project.metier(&RUN);
    if answer.stderr.contains("failed to run in a copy of the project") {
        not_run("a plan with a review", answer.stderr.lines().next().unwrap_or_default());
        return;
    }
    assert_eq!(answer.code, 4, "{answer:?}");
    assert!(
        answer.stderr.contains("nobody can be asked about what the steps before it have changed"),
        "{answer:?}"
    );
    let answer = project.metier(&[&RUN[..], &["--preview"]].concat());
    assert_eq!(answer.code, 0, "{answer:?}");
    for part in ["the review look was passed over", " created   docs/late.txt", " changed   docs/a.txt"] {
        assert!(answer.stderr.contains(part), "{answer:?}");
    }
    assert_eq!(project.read("docs/a.txt"), "one\n");
}

#[test]
fn no_option_applies_the_changes_of_a_plan_past_its_review() {
    let project = project();
    let undoable = project.metier(&[&RUN[..], &["--undoable"]].concat());
    let tried = project.metier(&["try", "plan", "--apply", "--allow", "write:docs"]);
    for answer in [undoable, tried] {
        if answer.stderr.contains("failed to run in a copy of the project") {
            not_run("a plan with a review", answer.stderr.lines().next().unwrap_or_default());
            return;
        }
        assert_ne!(answer.code, 0, "{answer:?}");
        assert!(answer.stderr.contains("would be applied without one"), "{answer:?}");
        assert_eq!(project.read("docs/a.txt"), "one\n");
    }
}

#[test]
fn show_and_explain_say_where_the_plan_waits() {
    let project = project();
    let shown = project.metier(&["show", "plan"]);
    assert!(shown.stdout.contains("2 look: review\n"), "{shown:?}");
    assert!(shown.stdout.contains("a person must agree to what the steps so far have changed"), "{shown:?}");
    assert!(
        shown.stdout.contains("and is told: Just a look") && !shown.stdout.contains('\u{202e}'),
        "{shown:?}"
    );
    let explained = project.metier(&[&RUN[..], &["--explain"]].concat());
    assert!(explained.stdout.contains("look: until then it runs in a copy of the project"), "{explained:?}");
    let explained = project.metier(&[&RUN[..], &["--explain", "--json"]].concat()).json();
    assert_eq!(explained["reviews"], serde_json::json!(["look"]));
    assert_eq!(project.metier(&["validate", ".metier/skills/plan"]).code, 0);
}
