//! What docs/scripts.md shows is what happens, and what scripts are handed does not leave them.

use std::process::Command;

use crate::support::cli::{Answer, Project};
use crate::support::not_run::{find_program, not_run};
use crate::support::snippets::snippets;

const PAGE: &str = include_str!("../docs/scripts.md");

fn lacks(what: &str, commands: &[&str]) -> bool {
    let missing = commands.iter().find(|command| find_program(command).is_none());
    missing.is_some_and(|command| {
        not_run(what, &format!("{command} is not on PATH"));
        true
    })
}

#[test]
fn the_page_about_scripts_shows_what_happens() {
    if lacks("docs/scripts.md", &["python3", "node", "bash"]) {
        return;
    }
    let page = snippets(PAGE);
    let files = page.iter().filter_map(|snippet| Some((snippet.path.as_ref()?, &snippet.text)));
    let project = files.fold(Project::new(), |project, (path, text)| project.file(path, text));
    let metier = env!("CARGO_BIN_EXE_metier");
    for (command, expected) in
        page.iter().filter(|block| block.language == "console").flat_map(|block| block.commands())
    {
        let shell = format!("metier() {{ '{metier}' \"$@\"; }}; {{ {command}\n}} 2>&1");
        let output = Command::new("sh").args(["-c", &shell]).current_dir(project.path(".")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "$ {command}");
    }
}

#[test]
fn a_secret_leaves_a_script_as_its_name() {
    if lacks("secrets in scripts", &["python3", "bash"]) {
        return;
    }
    let shell =
        "key=$(metier ctx secret KEY); echo \"$key\" >&2; metier ctx log info \"$key\"; echo \"it is $key\"";
    let python = "import sys
from metier import ctx
key = ctx.secret('KEY'); print(key, file=sys.stderr); ctx.log('info', key); print('it is ' + key)";
    for (script, source) in [("main.sh", shell), ("main.py", python)] {
        let project = Project::new()
            .skill(".metier/skills/s")
            .file(&format!(".metier/skills/s/scripts/{script}"), source);
        let mut command =
            project.command(&["run", "s", "--json", "--allow", "secret:KEY", "--secret", "KEY"]);
        let answer: Answer = command.env("KEY", "s3cret-value").output().unwrap().into();
        assert!(!answer.stdout.contains("s3cret"), "{answer:?}");
        let outcome = answer.json();
        assert_eq!(outcome["value"], "it is [secret:KEY]\n", "{outcome}");
        assert_eq!(outcome["process"]["stderr"], "[secret:KEY]\n");
        assert_eq!(outcome["log"][0]["message"], "[secret:KEY]");
    }
}

#[test]
fn the_command_of_shell_scripts_explains_itself() {
    let project = Project::new();
    let answer = project.metier(&["ctx", "read_file", "x"]);
    assert_eq!(answer.code, 3);
    assert!(answer.stderr.contains("works only inside a script that metier runs in a sandbox"), "{answer:?}");
    let project = project.shell(
        "s",
        "metier ctx --help | head -1; metier ctx no_such; metier ctx head a.txt many; metier ctx --args x; exec 3< /dev/null; metier ctx stat .",
    );
    let answer = project.metier(&["run", "s"]);
    for words in [
        "usage: metier ctx [--json] FUNCTION",
        "ctx has no function `no_such`",
        "head(path, lines?): lines must be a whole number",
        "descriptor 3 does not lead to the host",
    ] {
        // What a failing script printed stays on standard output.
        assert!(format!("{}{}", answer.stdout, answer.stderr).contains(words), "{words}: {answer:?}");
    }
    assert_eq!(answer.code, 1);
}

#[test]
fn commands_of_a_pipeline_and_of_the_background_call_side_by_side() {
    let project = Project::new().shell(
        "s",
        "for i in {1..12}; do (metier ctx read_file a | tr a-z A-Z | metier ctx write out$i - > /dev/null) & done; wait; cat out*",
    );
    let project = project.file("a", "hello\n");
    let answer = project.metier(&["run", "s", "--allow", "write"]);
    assert_eq!(answer.stdout, "HELLO\n".repeat(12), "{answer:?}");
}
