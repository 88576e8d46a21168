//! The builtin plans, run from the binary.

use std::process::Command;

use serde_json::Value;

use crate::support::cli::Project;
use crate::support::not_run::{find_program, not_run};

#[test]
fn every_builtin_plan_runs_without_an_input() {
    if let Some(missing) = ["git", "python3"].into_iter().find(|command| find_program(command).is_none()) {
        return not_run("builtin plans", &format!("{missing} is not on PATH"));
    }
    let project = Project::new().file("README.md", "# A project\n\nTODO: upgrade\n");
    let git = |args: &[&str]| {
        let known = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        let mut git = Command::new("git");
        git.args(known).args(args).current_dir(project.path("."));
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        assert!(git.output().unwrap().status.success(), "git {args:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "feat: begin"]);
    let listed = project.metier(&["list", "--json"]).json();
    let is_plan = |skill: &&Value| skill["runtime"] == "tool-sequence";
    let plans: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .filter(is_plan)
        .filter_map(|skill| skill["name"].as_str())
        .collect();
    assert_eq!(plans, ["release-notes", "repo-health"]);
    for plan in plans {
        let answer = project.metier(&["run", plan, "--sandbox", "best-effort", "--json"]);
        assert_eq!(answer.code, 0, "{plan}: {answer:?}");
        let misspelt = project.metier(&["run", plan, "--input", r#"{"pth": "."}"#]);
        assert_eq!(misspelt.code, 2, "{plan}: {misspelt:?}");
    }
}
