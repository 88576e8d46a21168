//! Questions on a terminal, each answered with one key by somebody who sits at it.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::cli::Project;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
use crate::support::not_run::{find_program, not_run};
use crate::support::pseudo_terminal::Terminal;

/// A project whose skill `asks` lists `write:out` and writes a file there.
fn asking_project() -> Project {
    listing("write:out", "print('it runs') ctx.write('out/a.txt', 'written') return 'answer'")
}

fn listing(permissions: &str, script: &str) -> Project {
    let frontmatter = format!("---\nname: asks\ndescription: d\nallowed-tools: {permissions}\n---\n");
    Project::new()
        .file(".metier/skills/asks/SKILL.md", frontmatter)
        .file(".metier/skills/asks/scripts/main.lua", script)
}

const KEYS: &str = "Allow it? [y] yes, once  [n] no  [d] details: ";

fn start(project: &Project, args: &[&str]) -> Terminal {
    Terminal::start(&mut project.command(args))
}

#[test]
fn a_run_on_a_terminal_asks_and_goes_on_after_a_yes() {
    for key in ["y", "Y"] {
        let project = asking_project();
        let mut terminal = start(&project, &["run", "asks"]);
        terminal.wait_for("The skill asks asks for a permission.\n");
        for fact in [
            "skill     project/.metier:asks@0.0.0\n",
            "wants     write:out (change files at or below out)\n",
            "for       out/a.txt\n",
            "asked in  SKILL.md\n",
            "has       read\n",
            KEYS,
        ] {
            terminal.wait_for(fact);
        }
        assert!(!terminal.echoes());
        terminal.press(key);
        let (code, screen) = terminal.finish();
        assert!(screen.ends_with("yes, once\nanswer\n"), "{screen}");
        assert_eq!((code, project.read("out/a.txt")), (0, "written".into()));
    }
}

#[test]
fn enter_n_end_of_input_and_a_closed_terminal_are_a_no() {
    for key in ["n", "N", "\r", "\n", "\u{4}"] {
        let project = asking_project();
        let mut terminal = start(&project, &["run", "asks"]);
        terminal.wait_for(KEYS);
        terminal.press(key);
        let (code, screen) = terminal.finish();
        assert_eq!(code, 4, "{key:?}: {screen}");
        assert!(screen.contains("details: no\n") && screen.contains("not permitted"), "{screen}");
        assert_eq!(screen.matches(KEYS).count(), 1, "{screen}");
        assert!(!project.path("out").exists());
    }
    let project = asking_project();
    let mut terminal = start(&project, &["run", "asks"]);
    terminal.wait_for(KEYS);
    assert_eq!(terminal.hang_up(), 4);
    assert!(!project.path("out").exists());
}

#[test]
fn ctrl_c_is_a_no_and_stops_the_run() {
    for is_signal in [false, true] {
        let project = asking_project();
        let mut terminal = start(&project, &["run", "asks"]);
        terminal.wait_for(KEYS);
        if is_signal {
            terminal.kill(Signal::INT);
        } else {
            terminal.press("\u{3}");
        }
        let (code, screen) = terminal.finish();
        assert_eq!(code, 130, "{screen}");
        assert!(!project.path("out").exists());
    }
}

#[test]
fn only_the_key_of_an_answer_answers() {
    let project = asking_project();
    let mut terminal = start(&project, &["run", "asks"]);
    terminal.wait_for(KEYS);
    // Pasted text, an arrow key, full-width and other letters.
    for keys in ["yes\n", "yy", "\u{1b}[A", "\u{1b}y", "\u{ff59}", "x", "a", " ", "1"] {
        terminal.press(keys);
        std::thread::sleep(Duration::from_millis(150));
        assert!(!terminal.screen().contains("details: y"), "{keys:?}");
    }
    assert!(!project.path("out").exists());
    terminal.press("n");
    assert_eq!(terminal.finish().0, 4);
}

#[test]
fn a_yes_counts_only_for_what_was_on_the_screen_however_few_rows_it_has() {
    const PAGE: &str = "[n] no: ";
    for rows in 2..12_u16 {
        let project = asking_project();
        let mut terminal = Terminal::start_with_rows(&mut project.command(&["run", "asks"]), rows);
        terminal.wait_for(KEYS);
        let shown = terminal.screen();
        if shown.contains("press d to see all of it before you agree") {
            terminal.press("y");
            terminal.wait_for("press d to see all of it first\n");
            terminal.wait_for(KEYS);
            terminal.press("d");
            while terminal.wait_for_one_of(&[PAGE, "[n] no  [d] details: "]) == 0 {
                terminal.press("d");
            }
            let pages = terminal.screen().split_off(shown.len());
            for page in pages.split(PAGE).filter(|page| page.contains("[d] next page")) {
                let page = page.rsplit("details: ").next().unwrap().trim_start_matches('\n');
                assert!(page.lines().count() <= rows.into(), "{rows}: {page}");
            }
        } else {
            assert!(shown.lines().count() <= rows.into(), "{rows}: {shown}");
        }
        terminal.press("y");
        assert_eq!((terminal.finish().0, project.path("out/a.txt").exists()), (0, true), "{rows}");
    }
    let project = asking_project();
    let terminal = Terminal::start_with_rows(&mut project.command(&["run", "asks"]), 1);
    let (code, screen) = terminal.finish();
    assert!(code == 4 && screen.contains("the terminal is too small to show what is asked"), "{screen}");
}

#[test]
fn what_was_typed_before_the_question_is_no_answer() {
    let project =
        listing("write:out", "while not pcall(ctx.read_file, 'go') do end ctx.write('out/a.txt', '')");
    let mut terminal = start(&project, &["run", "asks"]);
    terminal.press("yyyy\ny\n");
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(project.path("go"), "").unwrap();
    terminal.wait_for(KEYS);
    std::thread::sleep(Duration::from_millis(200));
    assert!(!project.path("out").exists());
    terminal.press("\r");
    assert_eq!(terminal.finish().0, 4);
}

#[test]
fn details_are_shown_and_the_question_stands() {
    let project = asking_project();
    let input = format!(r#"{{"text": "{}", "last": 1}}"#, "x\u{1b}[2J".replace('\u{1b}', "\\u001b"));
    let mut terminal = start(&project, &["run", "asks", "--input", &input]);
    terminal.wait_for(KEYS);
    terminal.press("d");
    terminal.wait_for("input     {");
    terminal.wait_for("project   ");
    terminal.wait_for("digest    ");
    terminal.wait_for(KEYS);
    terminal.press("y");
    let (code, screen) = terminal.finish();
    assert!(!screen.contains("\u{1b}[2J"), "{screen:?}");
    assert_eq!((code, project.read("out/a.txt")), (0, "written".into()));
}

#[test]
fn each_permission_is_a_question_and_nothing_is_asked_that_was_granted() {
    let script = "ctx.write('out/a.txt', '') return ctx.read_file('.env')";
    let project = listing("write:out read:.env", script).file(".env", "A=1");
    let mut terminal = start(&project, &["run", "asks"]);
    terminal.wait_for("wants     write:out (change files at or below out)\n");
    terminal.press("y");
    terminal.wait_for("wants     read:.env (read files at or below .env, protected ones too)\n");
    terminal.press("y");
    assert_eq!(terminal.finish().0, 0);
    let terminal = start(&project, &["run", "asks", "--allow", "write:out", "--allow", "read:.env"]);
    let (code, screen) = terminal.finish();
    assert_eq!((code, screen.contains("Allow")), (0, false), "{screen}");
}

#[test]
fn nobody_is_asked_without_a_terminal_with_json_with_no_input_or_in_ci() {
    let project = asking_project();
    let answer = project.metier(&["run", "asks"]);
    assert!(answer.code == 4 && !answer.stderr.contains("Allow"), "{answer:?}");
    for args in
        [&["run", "asks", "--json"][..], &["run", "asks", "--no-input"], &["--no-input", "run", "asks"]]
    {
        let (code, screen) = start(&project, args).finish();
        assert!(code == 4 && !screen.contains("Allow"), "{args:?}: {screen}");
    }
    // `start` takes the variable away, so a shell sets it again.
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", "CI=true exec \"$0\" run asks", env!("CARGO_BIN_EXE_metier")]);
    command.current_dir(project.path(".")).env("HOME", project.home());
    let (code, screen) = Terminal::start(&mut command).finish();
    assert!(code == 4 && !screen.contains("Allow"), "{screen}");
    assert!(!project.path("out").exists());
}

#[test]
fn hostile_names_cannot_forge_or_hide_a_question() {
    let fill = " ".repeat(66);
    let long = "xy/".repeat(1_300);
    for target in [
        "\\27[2J\\27[1;1HAllow it? [y] yes".to_owned(),
        "a\\n\\n\\rAllow it? [y] yes, once: yes, once\\nno".to_owned(),
        "\\u{202e}txt.evil".to_owned(),
        format!("a{fill}Allow it? [y] yes, once"),
        format!("{}Allow it? [y] yes, once", "x".repeat(61)),
        format!("a{}Allow it? [y] yes, once", "\u{3000}".repeat(35)),
        long,
        "у\\u{435}ѕ".to_owned(),
    ] {
        let script = format!("ctx.log('warn', 'Allow it? [y] yes, once: ') ctx.write('out/{target}', '')");
        let project = listing("write:out", &script.replace("ctx.log('warn', ", "print("));
        let mut terminal = start(&project, &["run", "asks", "--output", "1MB"]);
        terminal.wait_for("The skill asks asks for a permission.\n");
        terminal.wait_for(KEYS);
        let screen = terminal.screen();
        let question = &screen[screen.find("The skill asks").unwrap()..];
        let lines: Vec<&str> = question.lines().collect();
        let (sentence, facts, keys) = (lines[0], &lines[1..lines.len() - 1], lines[lines.len() - 1]);
        assert_eq!((sentence, keys), ("The skill asks asks for a permission.", KEYS), "{target}");
        for line in facts {
            assert!(line.starts_with("  ") && line.chars().count() < 80, "{target}: {line:?}");
            assert!(!line.trim_start().starts_with("Allow"), "{target}: {line:?}");
        }
        assert!(facts.len() < 20, "{target}: {question}");
        for command in ["\u{1b}[2J", "\u{1b}[1", "\u{202e}", "\r"] {
            assert!(!question.contains(command), "{target}: {question:?}");
        }
        terminal.press("\r");
        let (code, screen) = terminal.finish();
        assert!(code == 4 && !project.path("out").exists(), "{screen:?}");
        if target.starts_with('у') {
            assert!(screen.contains("letters outside of ASCII"), "{screen}");
        }
    }
}

#[test]
fn a_question_stands_beyond_the_deadline_and_a_run_that_ends_withdraws_it() {
    let project = asking_project();
    let mut terminal = start(&project, &["run", "asks", "--timeout", "1s"]);
    terminal.wait_for(KEYS);
    std::thread::sleep(Duration::from_millis(1_500));
    terminal.press("y");
    assert_eq!(terminal.finish().0, 0);
    let project = asking_project();
    let mut terminal = start(&project, &["run", "asks"]);
    terminal.wait_for(KEYS);
    let started = Instant::now();
    terminal.kill(Signal::TERM);
    let (code, screen) = terminal.finish();
    assert!(code == 130 && started.elapsed() < Duration::from_secs(10), "{code} {screen}");
}

#[test]
fn progress_is_cleared_for_a_question_and_drawn_again() {
    let script = "ctx.progress('before the question', 1, 3) ctx.write('out/a.txt', '')
        ctx.progress('after the question', 2, 3) print('goes on') return 1";
    let project = listing("write:out", script);
    let mut terminal = start(&project, &["run", "asks"]);
    terminal.wait_for(KEYS);
    std::thread::sleep(Duration::from_millis(400));
    assert!(terminal.screen().ends_with(KEYS), "nothing is drawn over it: {:?}", terminal.screen());
    terminal.press("y");
    terminal.wait_for("goes on");
    assert_eq!(terminal.finish().0, 0);
}

#[test]
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn a_listed_permission_that_a_process_lacked_is_offered_and_remembered() {
    const AGAIN: &str =
        "Run it again with this permission? [y] yes, once  [a] always, until its files change  ";
    if let Some(program) = ["git", "python3"].into_iter().find(|program| find_program(program).is_none()) {
        return not_run("questions about repositories", &format!("{program} is not installed"));
    }
    // The built-in skills list `git`, and the repository lies above the project. The second one is a plan that calls the first.
    for skill in ["changelog", "release-notes"] {
        let project = Project::new().file("repo/pkg/.metier/config.toml", "");
        let root = std::fs::canonicalize(project.root()).unwrap();
        let identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
        for args in [&["init", "-q"][..], &["commit", "-q", "--allow-empty", "-m", "feat: first"]] {
            let mut git = std::process::Command::new("git");
            git.current_dir(root.join("repo")).env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", project.home());
            assert!(git.args(identity).args(args).status().unwrap().success(), "{args:?}");
        }
        let run = || {
            let mut command = project.command(&["run", skill]);
            command.current_dir(root.join("repo/pkg"));
            command
        };
        for (key, code) in [("n", 1), ("a", 0)] {
            let mut terminal = Terminal::start(&mut run());
            terminal.wait_for(&format!("wants     git:{}", root.join("repo/.git").display()));
            terminal.wait_for(AGAIN);
            terminal.press(key);
            let (ended, screen) = terminal.finish();
            assert_eq!((ended, screen.contains("- first")), (code, code == 0), "{skill}: {screen}");
            assert_eq!(screen.matches(AGAIN).count(), 1, "{skill}: {screen}");
        }
        let (code, screen) = Terminal::start(&mut run()).finish();
        assert!(code == 0 && screen.contains("- first") && !screen.contains("[y]"), "{skill}: {screen}");
    }
}

#[test]
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn a_script_that_lists_nothing_is_run_again_with_what_it_needs_by_one_key() {
    const AGAIN: &str = "Run it again with this permission? [y] yes, once  [n] no: ";
    let script = "cat > /dev/null; echo written > a.txt && echo '\"done\"'";
    for (key, code) in [("y", 0), ("\r", 1), ("n", 1), ("\u{3}", 1)] {
        let project = Project::new().shell("writes", script);
        let mut terminal = start(&project, &["run", "writes"]);
        terminal.wait_for("The script seems to have failed because it was not permitted to do something.\n");
        terminal.wait_for("wants     write (change any file of the project, except protected ones)\n");
        terminal.wait_for(AGAIN);
        assert!(!project.path("a.txt").exists());
        terminal.press(key);
        let (ended, screen) = terminal.finish();
        assert_eq!((ended, project.path("a.txt").exists()), (code, code == 0), "{key:?}: {screen}");
        assert_eq!(screen.matches(AGAIN).count(), 1, "{screen}");
    }
    // What leaves the sandbox is never offered, and neither is what would not help.
    for script in ["echo 'Error: connect EPERM /run/x' >&2; exit 1", "echo failed >&2; exit 1"] {
        let project = Project::new().shell("fails", script);
        let (code, screen) = start(&project, &["run", "fails"]).finish();
        assert!(code == 1 && !screen.contains("Run it again"), "{screen}");
    }
    // What is offered is exactly what was missing.
    for (script, wants) in [
        ("set -u; echo \"$DEPLOY_REGION\"", "wants     env:DEPLOY_REGION "),
        ("echo x > \"$(dirname \"$0\")/kept.txt\"", "wants     own-folder "),
        ("(exec 3<>/dev/tcp/api.example.com/443) 2>/dev/null || exit 6", "wants     net:api.example.com "),
    ] {
        let project = Project::new().shell("wants", script);
        let mut command = project.command(&["run", "wants"]);
        let mut terminal = Terminal::start(command.env("DEPLOY_REGION", "north"));
        terminal.wait_for(wants);
        terminal.wait_for(AGAIN);
        terminal.press("n");
        let (code, screen) = terminal.finish();
        assert!(code == 1 && screen.matches("wants     ").count() == 1, "{screen}");
    }
    // What else it was refused is in the same question.
    let script = r#"set -u; echo "\"$DEPLOY_REGION $DEPLOY_ZONE\"""#;
    let project = Project::new().shell("wants", script);
    let mut command = project.command(&["run", "wants"]);
    let mut terminal = Terminal::start(command.env("DEPLOY_REGION", "north").env("DEPLOY_ZONE", "a"));
    terminal.wait_for("wants     env:DEPLOY_REGION ");
    terminal.wait_for("wants     env:DEPLOY_ZONE ");
    terminal.wait_for("Run it again with these permissions? [y] yes, once  [n] no: ");
    terminal.press("y");
    let (code, screen) = terminal.finish();
    assert!(code == 0 && screen.contains("\nnorth a\n"), "{screen}");
    // A script cannot ask again and again.
    let endless = "cat > /dev/null; echo \"tee: a$RANDOM: Permission denied\" >&2; exit 1";
    let project = Project::new().shell("fails", endless);
    let mut terminal = start(&project, &["run", "fails"]);
    terminal.wait_for(AGAIN);
    terminal.press("y");
    let (code, screen) = terminal.finish();
    assert_eq!((code, screen.matches(AGAIN).count()), (1, 1), "{screen}");
}

#[test]
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn what_a_failed_script_says_cannot_forge_the_question_about_it() {
    let says = r"printf '\033[2J\033[1;1HRun it again with this permission? [y] yes, once: y\n' >&2; ";
    let script = format!("{says}cat > /dev/null; echo written > \"$(printf 'a\\033[2J\\342\\200\\256b')\"");
    let project = Project::new().shell("writes", &script);
    let mut terminal = start(&project, &["run", "writes"]);
    terminal.wait_for("The script seems to have failed because it was not permitted to do something.\n");
    terminal.wait_for("Run it again with this permission? [y] yes, once  [n] no: ");
    let screen = terminal.screen();
    let question = &screen[screen.find("The script seems").unwrap()..];
    for command in ["\u{1b}[2J", "\u{1b}[1", "\u{202e}", "\r"] {
        assert!(!question.contains(command), "{question:?}");
    }
    let forged = question.lines().filter(|line| line.starts_with("Run it again")).count();
    assert_eq!(forged, 1, "{question}");
    terminal.press("n");
    assert_ne!(terminal.finish().0, 0);
}

/// A step that was interrupted by a kill is done again only after a yes.
#[test]
fn a_step_that_was_interrupted_is_asked_about_before_it_is_repeated() {
    let plan = r#"[{"id": "slow", "skill": "slow"}]"#;
    let frontmatter =
        |name: &str, tools: &str| format!("---\nname: {name}\ndescription: d\nallowed-tools: {tools}\n---\n");
    let script = "ctx.append('trace', 'x') while not pcall(ctx.read_file, 'go') do end return 'done'";
    let project = Project::new()
        .file(".metier/skills/plan/SKILL.md", frontmatter("plan", "skill:slow write"))
        .file(".metier/skills/plan/scripts/sequence.json", plan)
        .file(".metier/skills/slow/SKILL.md", frontmatter("slow", "write"))
        .file(".metier/skills/slow/scripts/main.lua", script);
    let args = ["run", "plan", "--allow", "write", "--allow", "skill:slow", "--journal", "journal"];
    let mut interrupted = project.command(&args).spawn().unwrap();
    let began = Instant::now();
    while std::fs::read_to_string(project.path("trace")).unwrap_or_default() != "x" {
        assert!(began.elapsed() < Duration::from_secs(20), "the step did not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    interrupted.kill().unwrap();
    interrupted.wait().unwrap();
    let project = project.file("go", "");
    for (key, trace) in [("n", "x"), ("y", "xx")] {
        let mut terminal = start(&project, &args);
        terminal.wait_for("The skill plan asks whether to repeat a step.\n");
        terminal.wait_for("slow (");
        terminal.wait_for("Do it again? ");
        terminal.press(key);
        let (code, screen) = terminal.finish();
        assert_eq!((code == 0, project.read("trace")), (key == "y", trace.into()), "{screen}");
    }
}

#[test]
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn what_a_skill_keeps_is_shown_before_it_is_removed() {
    let name = "keeps \u{202e}Remove it? [y] yes: y";
    let project = Project::new()
        .file(".metier/skills/keeps/SKILL.md", format!("---\nname: \"{name}\"\ndescription: d\n---\n"))
        .file(".metier/skills/keeps/scripts/main.sh", "#!/bin/sh\ncat > /dev/null; echo 1 > ~/kept; echo 2");
    let qualified = format!("project/.metier:{name}");
    assert_eq!(project.metier(&["run", &qualified, "--allow", "state"]).code, 0);
    for (key, is_kept) in [("n", true), ("y", false)] {
        let mut terminal = start(&project, &["state", "--clear", &qualified]);
        terminal.wait_for("What these skills keep will be gone.\n");
        terminal.wait_for("Remove it? [y] yes  [n] no: ");
        let screen = terminal.screen();
        assert!(!screen.contains('\u{202e}'), "{screen:?}");
        assert_eq!(screen.lines().filter(|line| line.starts_with("Remove it?")).count(), 1, "{screen}");
        terminal.press(key);
        let (code, screen) = terminal.finish();
        let kept = project.metier(&["state", "--json"]).stdout.contains("kept") || {
            project.metier(&["state"]).stdout.contains("keeps")
        };
        assert_eq!((code == 0, kept), (!is_kept, is_kept), "{screen}");
    }
}

#[test]
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn too_much_output_is_shown_on_a_terminal_by_its_beginning_and_its_end() {
    let script = "cat > /dev/null; echo first; while :; do echo flood; done";
    for (redirection, stream) in [("", "standard output"), (" >&2", "standard error")] {
        let project = Project::new().shell("floods", &format!("{{ {script}; }}{redirection}"));
        let (code, screen) = start(&project, &["run", "floods", "--output", "1MB"]).finish();
        assert_eq!(code, 5, "{screen}");
        assert!(screen.contains("first\nflood\n") && screen.len() < 2_000, "{} bytes", screen.len());
        let omitted = screen.split_once("[… ").unwrap().1.split_once(" are not shown …]\nflood\n");
        assert!(omitted.is_some(), "{screen}");
        assert!(screen.contains(&format!("to {stream} and was stopped")), "{screen}");
        assert!(screen.contains("(--output, or --on-output truncate)"), "{screen}");
        // Who reads it from a pipe gets all of it.
        let piped = project.metier(&["run", "floods", "--output", "1MB"]);
        assert!(piped.stdout.len() + piped.stderr.len() > 900_000, "{} bytes", piped.stdout.len());
    }
}
