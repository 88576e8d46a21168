//! On a terminal there are colours, and untrusted text is escaped.

use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::cli::Project;
use crate::support::not_run::{find_program, not_run};

/// What `metier` writes to a terminal; nothing if there is no terminal to run it on.
fn terminal_output(project: &Project, args: &[&str], variable: &str) -> Option<String> {
    let output = on_terminal(project, args, variable)?.output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn on_terminal(project: &Project, args: &[&str], variable: &str) -> Option<Command> {
    let script = find_program("script")?;
    let quoted: Vec<String> = args.iter().map(|arg| format!("'{}'", arg.replace('\'', r"'\''"))).collect();
    let line = format!("'{}' {}", env!("CARGO_BIN_EXE_metier"), quoted.join(" "));
    let mut command = Command::new(script);
    command.args(["-qec", &line, "/dev/null"]).current_dir(project.path(".")).stdin(Stdio::null());
    command.env("TERM", "xterm").env_remove("NO_COLOR").env("HOME", project.home());
    if !variable.is_empty() {
        command.env(variable, "1");
    }
    Some(command)
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let project = Project::new().lua("fails", "error('x')");
    let Some(coloured) = terminal_output(&project, &["run", "fails"], "") else {
        return not_run("colours on a terminal", "script (util-linux) is missing");
    };
    assert!(coloured.contains("\u{1b}[31m"), "{coloured:?}");
    let plain = terminal_output(&project, &["run", "fails"], "NO_COLOR").unwrap();
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
}

/// One of each kind of invisible character.
const UNSEEN: &str = "\u{ad}\u{34f}\u{61c}\u{115f}\u{17b4}\u{180e}\u{200b}\u{200d}\u{2028}\u{2062}\u{2066}\u{2800}\u{3164}\u{fe0f}\u{feff}\u{ffa0}\u{fff9}\u{fffb}\u{fffc}\u{1d173}\u{e0041}\u{e0101}\u{100000}";

#[test]
fn untrusted_text_cannot_command_the_terminal() {
    let hostile = "return 'v\\27[2J\\27]0;t\\7\\u{9b}31m\\u{202e}'";
    let project = Project::new()
        .lua("value", hostile)
        .lua("log", "print('l\\27[2J\\u{9b}31m\\u{202e}')")
        .lua("fails", "error('e\\27[2J\\u{9b}31m\\u{202e}')")
        .lua("unseen", &format!("print('{UNSEEN}') ctx.progress('{UNSEEN}') error('{UNSEEN}', 0)"))
        .lua("answer", &format!("return '{UNSEEN}'"))
        .file(
            ".metier/skills/hidden/SKILL.md",
            format!("---\nname: hidden\ndescription: \"d{UNSEEN}\"\n---\nb{UNSEEN}\n"),
        )
        .lua("bar", "for i = 1, 3 do ctx.progress('p\\27[2J\\u{202e}', i, 3) end")
        .shell("process", "printf 'o\\033[2J' >&2; printf 'o\\033[2J'; exit 1")
        .file(
            ".metier/skills/escaped/SKILL.md",
            "---\nname: escaped\ndescription: \"d\\u202E\"\n---\n\u{1b}[2J\n",
        );
    let steps = json!([{"skill": "log"}, {"skill": "bar"}, {"skill": "fails", "on_failure": "continue"}, {"skill": "fails"}]);
    let project = project
        .skill(".metier/skills/plan")
        .file(".metier/skills/plan/scripts/sequence.json", steps.to_string())
        .skill(".metier/skills/lost")
        .file(".metier/skills/lost/scripts/sequence.json", "[{\"tool\": \"t\u{202e}\u{9b}31m\"}]");
    for args in [
        &["run", "value"][..],
        &["run", "value", "--json"],
        &["run", "log"],
        &["run", "log", "--json"],
        &["run", "fails"],
        &["run", "bar"],
        &["run", "unseen"],
        &["run", "unseen", "--json"],
        &["run", "answer"],
        &["run", "answer", "--json"],
        &["show", "hidden"],
        &["show", "hidden", "--json"],
        &["validate", ".metier/skills/hidden"],
        &["validate", ".metier/skills"],
        &["doctor"],
        &["run", "plan"],
        &["run", "lost"],
        &["run", "process", "--allow", "exec"],
        &["run", "\u{1b}[2J"],
        &["run", "value", "--allow", "\u{1b}[2J"],
        &["run", "value", "--input", "@\u{1b}[2J"],
        &["\u{1b}[2J"],
        &["list"],
        &["list", "--json"],
        &["catalog"],
        &["catalog", "--xml"],
        &["show", "escaped"],
        &["show", "escaped", "--json"],
    ] {
        let Some(screen) = terminal_output(&project, args, "NO_COLOR") else {
            return not_run("untrusted text on a terminal", "script (util-linux) is missing");
        };
        if let Some(c) = UNSEEN.chars().find(|c| screen.contains(*c)) {
            panic!("{args:?} shows {}: {screen:?}", c.escape_unicode());
        }
        for command in ["\u{1b}[2J", "\u{1b}]", "\u{9b}", "\u{202e}", "\u{7}"] {
            assert!(!screen.contains(command), "{args:?}: {screen:?}");
        }
    }
}

#[test]
fn progress_is_drawn_on_a_terminal_only() {
    let project = Project::new().lua("bar", "for i = 1, 3 do ctx.progress('step', i, 3) end return 1");
    let answer = project.metier(&["run", "bar"]);
    assert_eq!((answer.stdout.as_str(), answer.stderr.as_str()), ("1\n", ""));
    let Some(screen) = terminal_output(&project, &["run", "bar"], "") else {
        return not_run("a progress bar", "script (util-linux) is missing");
    };
    assert!(screen.contains("step"), "{screen:?}");
}

#[test]
fn steps_of_a_plan_are_listed_while_they_run() {
    let steps = json!([{"tool": "tree"}, {"id": "slow", "skill": "waits"}, {"id": "last", "tool": "tree"}]);
    let project = Project::new()
        .skill(".metier/skills/x")
        .file(".metier/skills/x/scripts/sequence.json", steps.to_string())
        .lua("waits", "while not pcall(ctx.read_file, 'go') do end");
    let Some(mut command) = on_terminal(&project, &["run", "x"], "NO_COLOR") else {
        return not_run("steps on a terminal", "script (util-linux) is missing");
    };
    let mut run = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut terminal = run.stdout.take().unwrap();
    let mut screen = Vec::new();
    let mut more = [0; 1024];
    let live = |screen: &[u8]| String::from_utf8_lossy(screen).contains("step 2/3 slow (skill waits) ");
    // The step runs until its line was there; where it never is, the deadline of the run ends this.
    while !live(&screen) {
        let count = terminal.read(&mut more).unwrap();
        assert!(count > 0, "it was never shown: {:?}", String::from_utf8_lossy(&screen));
        screen.extend(&more[..count]);
    }
    let before = String::from_utf8_lossy(&screen).into_owned();
    assert!(before.contains("step 1/3 tree: ok"), "{before:?}");
    assert!(!before.contains("step 3/3"), "{before:?}");
    std::fs::write(project.path("go"), "").unwrap();
    terminal.read_to_end(&mut screen).unwrap();
    assert!(run.wait().unwrap().success());
    let screen = String::from_utf8_lossy(&screen).into_owned();
    let (_, after) = screen.split_once("step 2/3 slow (skill waits): ok").expect("how it ended");
    assert!(!after.contains("slow"), "its line is gone: {screen:?}");
    assert!(after.contains("step 3/3 last (tree): ok"), "{screen:?}");
}
