//! Every way a run can fail: its kind, its exit code, and an outcome in the one shape.

use serde_json::{Value, json};

use super::outcome::assert_shape;
use crate::support::cli::{Answer, Project};

fn failing_project() -> Project {
    Project::new()
        .lua("ok", "return input")
        .lua("raises", "local x = 1\nerror('boom')")
        .lua("syntax", "local x = 1\nreturn ((")
        .lua("reads", "return ctx.read_file('missing.txt')")
        .lua("negative", "return ctx.head('a', -1)")
        .lua("function", "return print")
        .lua("writes", "return ctx.write('a.txt', 'text')")
        .lua("spins", "while true do end")
        .lua("eats", "local t = {} while true do t[#t + 1] = string.rep('x', 1e6) .. #t end")
        .lua("long", "return string.rep('x', 2000)")
        .shell("fails", "echo out; echo err >&2; exit 7")
        .shell("killed", "echo out; kill -TERM $$")
        .shell("sleeps", "echo begun; sleep 60")
        .shell("floods", "while :; do echo flood; done")
        .skill(".metier/skills/instructions")
        .file(".metier/skills/broken/SKILL.md", "---\nname: broken\n")
        .file("a", "")
}

#[test]
fn the_help_names_the_option_or_the_command_that_mends_the_failure() {
    let project =
        failing_project().lua("counts", "while true do end").lua("asks", "return ctx.secret('KEY')");
    for (args, help) in [
        (&["spins", "--timeout", "100ms"][..], "give it more time, or make it do less (--timeout)"),
        (&["eats", "--memory", "8MB"], "give it more memory, or make it keep less (--memory)"),
        (
            &["eats", "--memory", "8MB", "--execution", "worker"],
            "give it more memory, or make it keep less (--memory)",
        ),
        (&["counts", "--operations", "9"], "give it more operations, or make it do less (--operations)"),
        (
            &["counts", "--operations", "9", "--execution", "worker"],
            "give it more operations, or make it do less (--operations)",
        ),
        (&["instructions"], "it holds instructions for a model to read (`metier show instructions`)"),
        (&["ok", "--journal", "j"], "run it without a journal (without --journal)"),
        (&["writes"], "list write under allowed-tools in SKILL.md and run with --allow write"),
        (
            &["writes", "--execution", "worker"],
            "list write under allowed-tools in SKILL.md and run with --allow write",
        ),
    ] {
        let args = [&["run", "--sandbox", "best-effort"], args].concat();
        let plain = project.metier(&args);
        assert!(plain.stderr.contains(help), "{args:?}: {plain:?}");
        assert_eq!(plain.stderr.matches(help).count(), 1, "{args:?}: {plain:?}");
        let outcome = project.metier(&[&args[..], &["--json"]].concat()).json();
        assert_eq!(outcome["error"]["help"], json!(help), "{args:?}");
        assert_shape(&outcome);
    }
}

#[test]
fn each_failure_has_its_kind_and_its_exit_code_and_the_outcome_is_on_standard_output() {
    let project = failing_project();
    for (args, code, kind) in [
        (&["raises"][..], 1, "script"),
        (&["reads"], 1, "io"),
        (&["negative"], 1, "invalid-argument"),
        (&["function"], 1, "invalid-output"),
        (&["fails"], 1, "script"),
        (&["killed"], 1, "script"),
        (&["ok", "--timeout", "soon"], 2, "usage"),
        (&["ok", "--memory", "-1"], 2, "usage"),
        (&["ok", "--memory", "lots"], 2, "usage"),
        (&["ok", "--bogus"], 2, "usage"),
        (&["ok", "second"], 2, "usage"),
        (&[], 2, "usage"),
        (&["ok", "--project", "nowhere"], 2, "usage"),
        (&["ok", "--project", "a"], 2, "usage"),
        (&["ok", "--product", "../x"], 2, "usage"),
        (&["ok", "--input", "@nowhere"], 2, "usage"),
        (&["ok", "--input", "{bad"], 2, "invalid-input"),
        (&["ok", "--input", ""], 2, "invalid-input"),
        (&["ok", "--input", "9007199254740993"], 2, "invalid-input"),
        (&["nobody"], 3, "unknown-skill"),
        (&["ok", "--script", "other.lua"], 3, "unknown-skill"),
        (&["broken"], 3, "invalid-skill"),
        (&["syntax"], 3, "invalid-skill"),
        (&["instructions"], 3, "unavailable"),
        (&["writes"], 4, "denied"),
        (&["spins", "--timeout", "100ms"], 5, "timeout"),
        (&["sleeps", "--timeout", "2s"], 5, "timeout"),
        (&["eats", "--memory", "8MB"], 5, "memory"),
        (&["long", "--output", "1KB"], 5, "output"),
        (&["floods", "--output", "1KB"], 5, "output"),
    ] {
        let answer = project.metier(&[&["run", "--json", "--sandbox", "best-effort"], args].concat());
        let outcome = answer.json();
        assert_shape(&outcome);
        assert_eq!((answer.code, &outcome["error"]["kind"]), (code, &json!(kind)), "{args:?}: {answer:?}");
        let hit = if code == 5 { json!(kind) } else { Value::Null };
        assert_eq!(outcome["limits"]["hit"], hit, "{args:?}");
        let message = outcome["error"]["message"].as_str().unwrap();
        assert!(!message.is_empty() && !message.contains("os error"), "{args:?}: {message}");

        let plain = project.metier(&[&["run", "--sandbox", "best-effort"], args].concat());
        // What a process wrote is not lost.
        let written = outcome["process"]["stdout"].as_str().unwrap_or_default();
        assert_eq!((plain.code, plain.stdout.trim_end()), (code, written.trim_end()), "{args:?}: {plain:?}");
        assert!(plain.stderr.contains("error: "), "{args:?}: {plain:?}");
    }
}

#[test]
fn an_error_names_the_file_and_the_line() {
    let project = failing_project();
    for (skill, line) in [("raises", 2), ("syntax", 2), ("reads", 1)] {
        let outcome = project.metier(&["run", skill, "--json"]).json();
        let expected = json!({"file": "scripts/main.lua", "line": line, "column": null});
        assert_eq!(outcome["error"]["location"], expected, "{skill}");
        let said = project.metier(&["run", skill]).stderr;
        assert!(said.contains(&format!("\n  --> scripts/main.lua:{line}\n")), "{said}");
    }
    let project = project
        .lua("waits", "local n = 0\nlocal function f()\n  while true do n = math.max(n, 1) end\nend\nf()")
        .skill(".metier/skills/turns")
        .file(".metier/skills/turns/scripts/main.rhai", "let x = 0;\nloop { x += 1; }");
    let skills = [("spins", "main.lua:1"), ("waits", "main.lua:3"), ("turns", "main.rhai:2")];
    for (skill, place) in skills.into_iter().take(if cfg!(feature = "rhai-runtime") { 3 } else { 2 }) {
        let stopped = project.metier(&["run", skill, "--timeout", "3s", "--operations", "100000m"]).stderr;
        let expected =
            format!("error: the run did not end before its deadline of 3 s\n  --> scripts/{place}\n");
        assert!(stopped.starts_with(&expected), "{stopped}");
    }
    let counted = project.metier(&["run", "spins", "--operations", "9"]).stderr;
    assert!(counted.contains("\n  --> scripts/main.lua:1\n"), "{counted}");
    let outcome = project.metier(&["run", "broken", "--json"]).json();
    assert_eq!(outcome["error"]["location"], json!({"file": "SKILL.md", "line": 1, "column": 1}));
}

#[test]
fn the_output_of_a_process_that_fails_is_kept() {
    let project = failing_project();
    for (skill, more, stdout) in [
        ("fails", &[][..], "out\n"),
        ("killed", &[], "out\n"),
        ("sleeps", &["--timeout", "400ms"], "begun\n"),
    ] {
        let args = [&["run", skill, "--sandbox", "best-effort"], more].concat();
        let outcome = project.metier(&[&args[..], &["--json"]].concat()).json();
        assert_eq!(outcome["process"]["stdout"], json!(stdout), "{skill}");
        let plain = project.metier(&args);
        assert_eq!(plain.stdout, stdout, "{plain:?}");
    }
    let outcome = project.metier(&["run", "fails", "--json", "--sandbox", "best-effort"]).json();
    assert_eq!(
        (&outcome["process"]["exit_code"], &outcome["process"]["stderr"]),
        (&json!(7), &json!("err\n"))
    );
    assert!(outcome["error"]["message"].as_str().unwrap().contains("exited with code 7: err"));
    let outcome =
        project.metier(&["run", "floods", "--output", "10", "--json", "--sandbox", "best-effort"]).json();
    assert_eq!(outcome["process"]["stdout_truncated"], json!(true));
    assert_eq!(outcome["process"]["stdout"].as_str().unwrap().len(), 10);
}

#[test]
fn what_was_printed_is_not_printed_again() {
    let project = Project::new()
        .shell("single", "echo 'no luck' >&2; exit 1")
        .shell("several", "echo first >&2; echo 'no luck' >&2; exit 1")
        .shell("above", "echo 'error: no luck' >&2; echo bye >&2; exit 1");
    for (skill, stderr) in [
        ("single", "error: scripts/main.sh exited with code 1: no luck\n"),
        ("several", "first\nno luck\nerror: scripts/main.sh exited with code 1\n"),
        ("above", "error: no luck\nbye\nerror: scripts/main.sh exited with code 1: error: no luck\n"),
    ] {
        let answer = project.metier(&["run", skill, "--sandbox", "best-effort"]);
        assert_eq!(answer.stderr, stderr, "{skill}");
        let outcome = project.metier(&["run", skill, "--json", "--sandbox", "best-effort"]).json();
        assert!(outcome["error"]["message"].as_str().unwrap().ends_with(": no luck"), "{outcome}");
    }
}

#[test]
fn the_error_has_what_the_process_wrote_and_no_part_of_a_secret() {
    // The secret lies where each stream is cut, and once with a colour in its midst.
    let script = "#!/bin/bash\nfill() { head -c $1 /dev/zero | tr '\\0' x; }\nfill 2245; echo \"$KEY\"; fill 3000; echo \"$KEY\"; fill 740; echo\n\
                  printf 'a %s\\033[31m%s b\\n' \"${KEY:0:9}\" \"${KEY:9}\"\nfill 3000 >&2; echo \"$KEY\" >&2; fill 2990 >&2; exit 1";
    let project = Project::new().shell("keyed", script).file(
        ".metier/skills/keyed/SKILL.md",
        "---\nname: keyed\ndescription: d\nallowed-tools: secret:KEY\n---\n",
    );
    let args = ["run", "keyed", "--json", "--sandbox", "best-effort", "--secret", "KEY"];
    let answer = project.command(&args).env("KEY", "s3cret-value-of-mine").output().unwrap();
    let text = String::from_utf8(answer.stdout).unwrap();
    let outcome: Value = serde_json::from_str(&text).unwrap();
    let output = &outcome["error"]["output"];
    assert_eq!((&output["exit_code"], &output["signal"]), (&json!(1), &Value::Null), "{outcome}");
    for stream in ["stdout", "stderr"] {
        let shown = output[stream].as_str().unwrap();
        assert!(shown.contains("bytes left out]") && shown.len() < 3_100, "{stream}: {}", shown.len());
    }
    assert!(output["stdout"].as_str().unwrap().contains("a [secret:KEY] b"), "{output}");
    for part in ["s3c", "value-", "-mine"] {
        assert!(!text.contains(part), "{part}: {outcome}");
    }
}

#[test]
fn for_a_misspelled_name_the_right_one_is_suggested() {
    let project = failing_project();
    for (args, help) in [
        (&["run", "riases"][..], "did you mean `raises`?"),
        (&["show", "Syntax"], "did you mean `syntax`?"),
        (&["run", "ok", "--tiemout", "5s"], "'--timeout'"),
        (&["lst"], "'list'"),
    ] {
        let answer = project.metier(args);
        assert!(answer.stderr.contains(help), "{args:?}: {answer:?}");
    }
    let outcome = project.metier(&["run", "riases", "--json"]).json();
    assert_eq!(outcome["error"]["help"], json!("did you mean `raises`?"));
}

#[test]
fn a_failed_run_does_not_affect_the_next() {
    let project = failing_project();
    project.metier(&["run", "eats", "--memory", "8MB"]);
    assert_eq!(project.metier(&["run", "ok", "--input", "[1]", "--json"]).json()["value"], json!([1]));
}

#[test]
fn every_command_that_answers_in_json_fails_in_the_shape_of_an_outcome() {
    let project = failing_project();
    for (args, code, kind, skill) in [
        (&["show", "nobody"][..], 3, "unknown-skill", "nobody"),
        (&["show", "broken"], 3, "invalid-skill", "broken"),
        (&["show"], 2, "usage", ""),
        (&["test", "nobody"], 3, "unknown-skill", "nobody"),
        (&["test", "ok"], 2, "usage", "ok"),
        (&["test"], 2, "usage", ""),
        (&["test", "ok", "--allow", "fly"], 2, "usage", "ok"),
        (&["new", "Not A Name"], 2, "usage", "Not A Name"),
        (&["new", "ok"], 2, "usage", "ok"),
        (&["new", "y", "--runtime", "cobol"], 2, "usage", "y"),
        (&["list", "--project", "nowhere"], 2, "usage", ""),
        (&["list", "--bogus"], 2, "usage", ""),
        (&["catalog", "--project", "nowhere"], 2, "usage", ""),
        (&["validate"], 2, "usage", ""),
        (&["doctor", "--project", "nowhere"], 2, "usage", ""),
        (&["run", "nobody", "--explain"], 3, "unknown-skill", "nobody"),
    ] {
        let answer = project.metier(&[args, &["--json"]].concat());
        let outcome = answer.json();
        assert_shape(&outcome);
        assert_eq!((answer.code, &outcome["error"]["kind"]), (code, &json!(kind)), "{args:?}: {answer:?}");
        assert_eq!(outcome["skill"], skill, "{args:?}");
        assert!(!answer.stderr.contains("error"), "{args:?}: {answer:?}");

        let plain = project.metier(args);
        assert_eq!((plain.code, plain.stdout.as_str()), (code, ""), "{args:?}: {plain:?}");
        assert!(plain.stderr.contains("error: "), "{args:?}: {plain:?}");
    }
}

#[test]
fn a_skill_in_a_folder_that_is_not_read_is_named_with_what_reads_it() {
    let document = "---\nname: NAME\ndescription: d\n---\n";
    let skill = |project: Project, folder: &str, name: &str| {
        project
            .file(&format!("{folder}/{name}/SKILL.md"), document.replace("NAME", name))
            .file(&format!("{folder}/{name}/scripts/main.lua"), "return 'ran'")
    };
    let project = Project::new().file(".metier/config.toml", "");
    let project = skill(project, "pkg/a/.agents/skills", "nested");
    let project = skill(project, "pkg/.claude/skills", "between");
    let project = skill(project, ".claude/skills", "other-client");
    let project = skill(project, "elsewhere/.agents/skills", "elsewhere");
    let project =
        skill(project, "pkg/a/.agents/skills", "listed").lua("listed", "return ctx.skill('nested')");
    let between = std::fs::canonicalize(project.path("pkg")).unwrap();
    for (name, options) in [
        ("nested", vec!["--project", "."]),
        ("between", vec!["--project", between.to_str().unwrap(), "--compat"]),
        ("other-client", vec!["--compat"]),
    ] {
        for command in ["run", "show"] {
            let answer = project.metier_in("pkg/a", &[command, name]);
            let help = format!("{name}/SKILL.md, which is not read here: run with {}\n", options.join(" "));
            assert!(answer.code != 0 && answer.stderr.contains(&help), "{name}: {answer:?}");
        }
        let json = project.metier_in("pkg/a", &["run", name, "--json"]).json();
        assert!(json["error"]["help"].as_str().unwrap().contains("not read here"), "{json}");
        let ran = project.metier_in("pkg/a", &[&["run", name][..], &options].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "ran\n"), "{name}: {ran:?}");
    }
    // From elsewhere the nested ones are none of the folder somebody works in, and a known skill is not looked for.
    for (folder, name) in [(".", "nested"), ("pkg/a", "elsewhere"), ("pkg/a", "listed")] {
        let answer = project.metier_in(folder, &["run", name]);
        assert!(answer.code != 0 && !answer.stderr.contains("not read here"), "{name}: {answer:?}");
    }
    let doctor = project.metier_in("pkg/a", &["doctor", "--json"]).json();
    let findings: Vec<&str> = doctor["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|finding| finding["message"].as_str())
        .collect();
    let found = |end: &str| findings.iter().any(|message| message.ends_with(end));
    assert!(found("pkg/a/.agents/skills are not read here: listed, nested"), "{findings:?}");
    assert!(found(".claude/skills are not read here: other-client"), "{findings:?}");
    assert_eq!(doctor["ok"], true);
}

#[test]
fn a_common_mistake_is_answered_with_what_mends_it() {
    let skill = |project: Project, name: &str, contract: &str, (path, script): (&str, &str)| {
        let folder = format!(".metier/skills/{name}");
        let project = project.skill(&folder).file(&format!("{folder}/{path}"), script);
        if contract.is_empty() { project } else { project.file(&format!("{folder}/skill.yaml"), contract) }
    };
    let project =
        Project::new().file(".metier/skills/m25/SKILL.md", "---\nname: other-name\ndescription: d\n---\n");
    let project = [
        ("nameless", "", ("scripts/main", "echo hi\n")),
        ("beside", "", ("main.lua", "return 1")),
        ("language", "runtime: python\n", ("scripts/main.py", "print(1)\n")),
        ("broken-module", "", ("scripts/count.wasm", "text")),
        ("misspelt", "", ("scripts/main.lua", "return ctx.readfile('a')")),
        ("requires", "", ("scripts/main.lua", "return require('x')")),
        ("large", "", ("scripts/main.lua", "return {string.rep('x', 9e6)}")),
        (
            "input",
            "inputs:\n  path: {type: string, required: true}\n",
            ("scripts/main.lua", "return input.path"),
        ),
        ("fields", "outputs: {type: string}\n", ("scripts/main.lua", "return {a = 1, b = 2}")),
    ]
    .into_iter()
    .fold(project, |project, (name, contract, script)| skill(project, name, contract, script));
    for (args, sentence, help) in [
        (&["run", "m25"][..], "no skill is called `m25`", "the skill in the folder m25 is called other-name"),
        (
            &["run", "nameless"],
            "has no script to run",
            "nothing says what runs scripts/main: give it an extension",
        ),
        (&["run", "beside"], "has no script to run", "main.lua is not in the folder scripts: move it there"),
        (
            &["run", "language"],
            "`python` is a language and no runtime",
            "the extension of the script decides",
        ),
        (&["run", "misspelt"], "ctx has no function `readfile`", "did you mean `read_file`?"),
        (
            &["run", "misspelt", "--execution", "worker"],
            "ctx has no function `readfile`",
            "did you mean `read_file`?",
        ),
        (&["run", "requires"], "there is no require", "or call another skill with ctx.skill"),
        (&["run", "large"], "larger than the 8 MiB", "return less, or raise the output limit (--output)\n"),
        (&["run", "input", "--input", "path=b.md"], "not valid JSON", r#"--input '{"path":"b.md"}'"#),
        (
            &["run", "input", "--", "b.md"],
            "/path: expected a string",
            "arguments reach external scripts only",
        ),
        (&["run", "fields"], "found an object of 2 fields (a, b)", "see the outputs"),
        (&["config", "set", "limts.timeout", "5s"], "has no key", "did you mean `limits.timeout`?"),
        (&["config", "set", "limts.timeot", "5s"], "has no key", "did you mean `limits.timeout`?"),
        (
            &["config", "set", "limits.timeout", "five"],
            "error: invalid value of `limits.timeout`: ",
            "such as `\"5s\"`",
        ),
    ] {
        let answer = project.metier(
            &[
                args,
                &["--sandbox", "best-effort"][..usize::from(args[0] == "run" && !args.contains(&"--")) * 2],
            ]
            .concat(),
        );
        assert_ne!(answer.code, 0, "{args:?}: {answer:?}");
        assert!(answer.stderr.contains(sentence) && answer.stderr.contains(help), "{args:?}: {answer:?}");
    }
    #[cfg(feature = "wasm-runtime")]
    {
        let answer = project.metier(&["run", "broken-module"]);
        assert!(answer.stderr.contains("count.wasm is no WebAssembly module\n"), "{answer:?}");
        assert!(answer.stderr.contains("begins with the bytes \\0asm"), "{answer:?}");
    }
    let mut command = project.command(&["run", "nameless", "--secret", "brave_api_key"]);
    let answer: Answer = command.env("BRAVE_API_KEY", "x").output().unwrap().into();
    assert!(
        answer.stderr.contains(
            "BRAVE_API_KEY is set; to read the secret from there: --secret brave_api_key=BRAVE_API_KEY\n"
        ),
        "{answer:?}"
    );
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn output_that_is_not_json_is_reported_with_the_reason() {
    let printing = |text: &str| {
        Project::new()
            .shell("prints", &format!("cat > /dev/null; printf '{text}'"))
            .file(".metier/skills/prints/skill.yaml", "outputs: {type: object}\n")
    };
    for (text, reason) in [
        (r#"{"a": 1,}\n"#, "standard output is not JSON: key must be a string at line 1 column 9"),
        (r#"{"a": 1\n"#, "standard output is not JSON: EOF while parsing an object"),
        (r#"starting\n{"a": 1}\n"#, "its first line is text; print log lines to standard error"),
        (r"starting\n", "see the outputs in the contract"),
        (r"[1]\n", "see the outputs in the contract"),
    ] {
        let answer = printing(text).metier(&["run", "prints"]);
        assert!(answer.code != 0 && answer.stderr.contains(reason), "{text}: {answer:?}");
    }
    let marked = printing(r#"\357\273\277{"a": 1}\n"#).metier(&["run", "prints", "--json"]).json();
    assert_eq!(marked["value"], json!({"a": 1}), "{marked}");
}
