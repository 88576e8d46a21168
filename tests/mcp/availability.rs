//! What is offered can run: by the interpreters that runs for a model take.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::cli::Project;
use crate::client::Client;

/// A skill in Python of which this version is nowhere but in the environment of the project.
fn with_python_of_project() -> Project {
    let folder = ".metier/skills/probe";
    let project = Project::new()
        .skill(folder)
        .file(&format!("{folder}/scripts/main.py"), "# /// script\n# requires-python = \"==9.9.*\"\n# ///\n")
        .file(".venv/pyvenv.cfg", "home = /usr/bin\n")
        .file(
            ".venv/bin/python3",
            "#!/bin/sh\n[ \"$1\" = --version ] && echo Python 9.9.1 && exit\necho project\n",
        );
    let program = project.path(".venv/bin/python3");
    std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
    project
}

/// What the server says about a skill: whether it has its tool, and its line in the list.
fn offered(client: &mut Client, name: &str) -> (bool, String) {
    let listed = client.text("skills_list", json!({}));
    let line = listed.lines().find(|line| line.starts_with(&format!("- {name}:")));
    let line = line.unwrap_or_else(|| panic!("{listed}")).to_owned();
    (client.tool_names().contains(&name.to_owned()), line)
}

#[test]
fn a_skill_whose_interpreter_only_the_project_has_is_offered_where_the_project_is_trusted() {
    let project = with_python_of_project();
    assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
    // A person runs it.
    assert_eq!(project.metier(&["show", "probe", "--json"]).json()["runnable"], true);
    assert_eq!(project.metier(&["run", "probe"]).stdout, "project\n");
    let reason = "scripts/main.py needs Python ==9.9.*";
    let (has_tool, why) = offered(&mut project.client(&[]), "probe");
    assert!(!has_tool && why.contains(reason), "{why}");
    let refused = project.metier(&["run", "probe", "--for-model"]);
    assert!(refused.code != 0 && refused.stderr.contains(reason), "{refused:?}");
    let catalog = |args: &[&str]| project.metier(&[&["catalog", "--json"], args].concat()).stdout;
    assert!(
        !catalog(&[]).contains("\"probe\"") && catalog(&["--all"]).contains(reason),
        "{}",
        catalog(&["--all"])
    );

    let project = project.trusted();
    assert_eq!(offered(&mut project.client(&[]), "probe"), (true, "- probe: d".to_owned()));
    assert_eq!(project.client(&[]).text("probe", json!({})), "project\n");
    assert!(project.metier(&["catalog", "--json"]).stdout.contains("\"probe\""));
}
