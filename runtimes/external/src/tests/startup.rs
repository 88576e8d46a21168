//! What is started: permissions, interpreters, arguments, environment, descriptors.

use super::*;
use crate::environment::is_inherited;
use crate::interpreter::detect::Interpreter;
use metier_core::host::RunContextBuilder;
use serde_json::json;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

fn detected_interpreter(path: &str, source: &str) -> Result<String> {
    Fixture::new(path, source).load().map(drop)?;
    let interpreter = Interpreter::detect(path, source.as_bytes())?;
    Ok(format!("{interpreter}"))
}

#[test]
fn a_script_changes_the_project_only_where_that_was_granted() {
    for (granted, changed) in
        [(&[][..], &[][..]), (&["write:out"], &["out/b"]), (&["write"], &["a", "out/b"])]
    {
        let mut stage = Fixture::bash("touch a; touch out/b; touch \"$METIER_SKILL_DIR/c\"; ls");
        std::fs::create_dir(stage.file("out")).unwrap();
        stage.grants = granted.to_vec();
        let ran = stage.run();
        let seen = ["a", "out/b"].into_iter().filter(|path| stage.file(path).exists());
        assert_eq!(seen.collect::<Vec<_>>(), changed, "{granted:?}");
        assert!(!stage.skill.path().join("c").exists());
        assert_eq!(ran.process().stderr.lines().count(), 3 - changed.len(), "{}", ran.process().stderr);
    }
}

#[test]
fn a_script_without_a_project_does_not_start() {
    let stage = Fixture::bash("touch ran");
    let error = stage.load().unwrap().execute(SkillInput::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[test]
fn a_run_outside_of_the_sandbox_is_asked_for_by_name_and_says_so() {
    for (source, granted) in [("true", "exec:unsandboxed"), ("false", "exec:unsandboxed")] {
        let mut stage = Fixture::bash(source);
        stage.grants = vec![granted];
        let ran = stage.run();
        assert_eq!(ran.sandbox, Some(SandboxReport::NONE));
        assert_eq!(ran.log[0].level, metier_core::host::LogLevel::Warn);
        assert_eq!(
            ran.log[0].message,
            "scripts/run.bash runs without a sandbox, with all the rights of the user"
        );
    }
}

#[test]
fn the_shebang_chooses_before_the_ending_and_the_mode_never() {
    for (path, source, commands) in [
        ("scripts/a.py", "", "python3, python"),
        ("scripts/a.PY", "print()", "python3, python"),
        ("scripts/a.sh", "", "bash, sh"),
        ("scripts/a.mjs", "", "node, nodejs"),
        ("scripts/a.ts", "", "deno run --allow-all, bun, tsx, node"),
        ("scripts/a.tsx", "", "deno run --allow-all, bun, tsx"),
        ("scripts/run", "#!/bin/sh", "sh"),
        ("scripts/a.sh", "#!/bin/sh -e\r\n", "sh -e"),
        ("scripts/a.sh", "#!/usr/bin/env -S python3.11 -u", "python3.11 -u, python3 -u, python -u"),
        ("scripts/a.py", "#!/opt/venv/bin/python", "python, python3"),
        // An unknown program, and one that would install packages: the ending decides.
        ("scripts/a.py", "#!/usr/bin/env -S uv run --script", "python3, python"),
        ("scripts/a.pl", "#!/usr/bin/false", "perl"),
        // Of a path only the name counts, which PATH leads to.
        ("scripts/a.pl", "#!/home/me/bin/../python3", "python3, python"),
        ("scripts/a.pl", "#!/usr/bin/env bin/../sh", "sh"),
    ] {
        assert_eq!(detected_interpreter(path, source).unwrap(), commands, "{path} {source}");
    }
}

#[test]
fn a_script_nothing_tells_the_interpreter_of_is_invalid() {
    for (path, source) in [("scripts/run", "echo"), ("scripts/.sh", "#!/opt/own/tool"), ("scripts/a.cs", "")]
    {
        let error = detected_interpreter(path, source).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSkill, "{path}");
        assert!(error.help().unwrap().contains("#!/usr/bin/env python3"));
    }
}

#[test]
fn what_was_written_for_node_runs_in_no_other() {
    for line in ["npx tsx", "-S npx --yes tsx@4", "-S pnpm exec ts-node"] {
        let source = format!("#!/usr/bin/env {line}\n");
        let interpreter = Interpreter::detect("scripts/main.ts", source.as_bytes()).unwrap();
        assert_eq!(interpreter.program_names().collect::<Vec<_>>(), ["tsx", "node"], "{line}");
    }
    for path in ["scripts/main.py", "scripts/main"] {
        let uv = Interpreter::detect(path, b"#!/usr/bin/env -S uv run --script\n").unwrap();
        assert_eq!(uv.program_names().collect::<Vec<_>>(), ["python3", "python"], "{path}");
    }
}

#[test]
fn a_runner_of_another_language_is_not_replaced_by_that_of_the_extension() {
    for (path, line, programs) in [
        ("a.mjs", "#!/usr/bin/env zx\n", &["zx"][..]),
        ("a.mjs", "#!/usr/bin/env -S npx --yes zx@8\n", &["zx"]),
        ("a.py", "#!/usr/bin/env -S streamlit run\n", &["streamlit"]),
        ("a.py", "#!/usr/bin/pypy3\n", &["pypy3"]),
        ("a.py", "#!/usr/bin/env -S poetry run python\n", &["python3", "python"]),
    ] {
        let interpreter = Interpreter::detect(path, line.as_bytes()).unwrap();
        assert_eq!(interpreter.program_names().collect::<Vec<_>>(), programs, "{line}");
    }
}

#[test]
fn a_missing_interpreter_is_named() {
    let interpreter = Interpreter::detect("scripts/a.py", b"").unwrap();
    let error = interpreter.locate("scripts/a.py", &[PathBuf::from("/nowhere")], &|_| None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.message(), "scripts/a.py needs python3, which is not on PATH");
    assert_eq!(error.help(), Some("install python3 or python, or put the folder it lies in on PATH"));
}

#[test]
fn a_program_that_is_not_executable_is_passed_over() {
    let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    std::fs::create_dir(first.path().join("ruby")).unwrap();
    for (folder, name, mode) in [(&first, "python3", 0o644), (&second, "python3", 0o755)] {
        std::fs::write(folder.path().join(name), "").unwrap();
        std::fs::set_permissions(folder.path().join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    let folders = [first.path().to_owned(), second.path().to_owned()];
    let found = |path: &str| Interpreter::detect(path, b"").unwrap().locate(path, &folders, &|_| None);
    assert_eq!(found("a.py").unwrap().program, second.path().join("python3"));
    assert_eq!(found("a.rb").unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn arguments_arrive_as_they_are() {
    let hostile = ["", "a b", "$(touch ran)", "; touch ran", "--help", "-c", "line\nbreak", "'\"\\", "é*?"];
    let stage = Fixture::bash("printf '[%s]' \"$@\"").args(&hostile);
    let expected = format!("[{}]", hostile.join("]["));
    assert_eq!(stage.run().text(), expected);
    assert!(!stage.file("ran").exists());
}

#[test]
fn arguments_no_process_can_have_are_a_usage_error() {
    let long = "x".repeat(10_000_000);
    for (arg, why) in [("a\0b", "NUL"), (long.as_str(), "too long")] {
        let ran = Fixture::bash("true").args(&[arg]).run();
        assert_eq!(ran.error().kind(), ErrorKind::Usage);
        assert!(ran.error().message().contains(why), "{}", ran.error());
    }
}

#[test]
fn strange_script_names_run_and_are_shown_safely() {
    for (path, shown) in [
        ("scripts/with space.sh", "scripts/with space.sh"),
        ("-c.sh", "-c.sh"),
        ("--version.bash", "--version.bash"),
        ("scripts/line\nbreak.sh", "scripts/line\\nbreak.sh"),
        ("scripts/$(id).sh", "scripts/$(id).sh"),
        ("scripts/\u{1b}[31m.sh", "scripts/\\u{1b}[31m.sh"),
    ] {
        let ran = Fixture::new(path, "exit 7").run();
        assert_eq!(ran.error().message(), format!("{shown} exited with code 7"));
    }
}

#[test]
fn a_script_runs_without_its_executable_bit_and_with_windows_line_ends_in_its_first_line() {
    let ran = Fixture::new("scripts/run", "#!/bin/bash\r\necho 1").run();
    assert_eq!(ran.value.unwrap(), json!(1));
}

#[test]
fn the_project_is_the_working_directory_and_both_folders_are_named() {
    let stage = Fixture::bash("printf '%s\\n' \"$PWD\" \"$METIER_PROJECT_DIR\" \"$METIER_SKILL_DIR\" \"$0\"");
    let project = std::fs::canonicalize(stage.project.path()).unwrap();
    let (project, skill) = (project.display(), stage.skill.path().display());
    let expected = format!("{project}\n{project}\n{skill}\n{skill}/scripts/run.bash\n");
    assert_eq!(stage.run().text(), expected);
}

#[test]
fn the_environment_is_built_from_nothing() {
    // Cargo sets variables for its tests, so there is something to leave out.
    let text = Fixture::bash("compgen -e").run().text();
    // Bash adds three by itself.
    let known = [
        "METIER_PROJECT_DIR",
        "METIER_SKILL_DIR",
        "METIER_API_FD",
        "CLAUDE_PLUGIN_DATA",
        "CLAUDE_PLUGIN_ROOT",
        "CLAUDE_PROJECT_DIR",
        "CLAUDE_SKILL_DIR",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONPATH",
        "NODE_PATH",
        // Where the file of the whole system is not shown.
        "GIT_CONFIG_NOSYSTEM",
        "PATH",
        "PWD",
        "SHLVL",
        "_",
        "OLDPWD",
    ];
    for name in text.lines() {
        let inherited = is_inherited(name.as_ref(), &std::env::var_os(name).unwrap_or_default());
        assert!(known.contains(&name) || inherited, "{name}");
    }
    assert!(text.contains("METIER_SKILL_DIR") && text.contains("PATH"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_script_has_four_descriptors_and_none_of_those_the_host_left_inheritable() {
    // Like a program that was written in C, this host leaves one lying about.
    let left = std::fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&left, rustix::io::FdFlags::empty()).unwrap();
    // The shell lists its own descriptors without opening one: a glob would.
    let probe = "for fd in {0..99} ; do [ -e /proc/$$/fd/$fd ] && echo $fd; done; true";
    let text = Fixture::new("scripts/run", format!("#!/bin/bash\n{probe}")).run().text();
    // Bash keeps the script itself open at 255, which is beyond the list.
    assert_eq!(text, "0\n1\n2\n3\n");
}

/// Does something to the script's file; the other folder belongs to nobody trusted.
type Change = fn(&Path, &Path);

#[test]
fn a_script_that_is_not_what_was_loaded_does_not_run() {
    let outside = TempDir::new().unwrap();
    std::fs::write(outside.path().join("evil.sh"), "touch ran").unwrap();
    let changes: [(Change, ErrorKind, &str); 4] = [
        (|file, _| std::fs::write(file, "other").unwrap(), ErrorKind::InvalidSkill, "has changed"),
        (|file, _| std::fs::remove_file(file).unwrap(), ErrorKind::Unavailable, "is gone from"),
        (
            |file, outside| {
                std::fs::remove_file(file).unwrap();
                symlink(outside.join("evil.sh"), file).unwrap();
            },
            ErrorKind::InvalidSkill,
            "leads out of",
        ),
        (
            |file, _| {
                std::fs::remove_file(file).unwrap();
                std::fs::create_dir(file).unwrap();
            },
            ErrorKind::InvalidSkill,
            "is not a file",
        ),
    ];
    for (change, kind, words) in changes {
        let stage = Fixture::bash("touch ran");
        change(&stage.skill.path().join("scripts/run.bash"), outside.path());
        let ran = stage.run();
        assert_eq!(ran.error().kind(), kind, "{}", ran.error());
        assert!(ran.error().message().contains(words), "{}", ran.error());
        assert!(ran.process.is_none() && !stage.file("ran").exists());
    }
}

#[test]
fn an_open_folder_vouches_for_a_script_where_it_was_opened_and_nowhere_else() {
    let outside = TempDir::new().unwrap();
    std::fs::write(outside.path().join("run.bash"), "touch ran").unwrap();
    let changes: [(Change, Option<&str>); 7] = [
        (|_, _| {}, None),
        (|file, _| std::fs::rename(file, file.with_file_name("x")).unwrap(), Some("is gone from")),
        (|file, _| std::fs::write(file, "touch evil").unwrap(), Some("has changed")),
        (
            |file, _| {
                std::fs::rename(file, file.with_file_name("x")).unwrap();
                symlink("x", file).unwrap();
            },
            None,
        ),
        (
            |file, outside| {
                std::fs::remove_file(file).unwrap();
                symlink(outside.join("run.bash"), file).unwrap();
            },
            Some("leads out of"),
        ),
        (
            |file, _| {
                let scripts = file.parent().unwrap();
                std::fs::rename(scripts.parent().unwrap(), scripts.parent().unwrap().with_extension("old"))
                    .unwrap();
            },
            Some("is gone from"),
        ),
        (
            |file, _| {
                let folder = file.parent().unwrap().parent().unwrap();
                std::fs::rename(folder, folder.with_extension("old")).unwrap();
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, "touch evil").unwrap();
            },
            Some("has changed"),
        ),
    ];
    for (number, (change, words)) in changes.into_iter().enumerate() {
        let mut stage = Fixture::bash("touch ran");
        let folder = stage.skill.path().join("skill");
        std::fs::create_dir_all(folder.join("scripts")).unwrap();
        std::fs::write(folder.join("scripts/run.bash"), "touch ran").unwrap();
        stage.script.folder = Some(std::fs::canonicalize(&folder).unwrap());
        let context = stage.builder(&stage.cancel).skill_files(Files::open(&folder).unwrap()).build();
        change(&folder.join("scripts/run.bash"), outside.path());
        let result = stage.load().unwrap().execute_with_context(SkillInput::default(), Some(&context));
        assert!(!stage.file("evil").exists(), "{number}");
        assert_eq!(stage.file("ran").exists(), words.is_none(), "{number}");
        match words {
            Some(words) => assert!(result.unwrap_err().message().contains(words), "{number}"),
            None => assert!(result.is_ok(), "{number}"),
        }
    }
}

#[test]
fn a_script_that_may_not_be_read_is_a_sentence() {
    let stage = Fixture::bash("true");
    let file = stage.skill.path().join("scripts/run.bash");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o000)).unwrap();
    std::thread::spawn(move || {
        obey_file_modes();
        if std::fs::read(&file).is_ok() {
            return not_run("a script that may not be read", "this user may read everything");
        }
        assert_eq!(stage.run().failure().1, "failed to read scripts/run.bash: Permission denied");
    })
    .join()
    .unwrap();
}

/// Takes from this thread root's right to read and write whatever it likes.
fn obey_file_modes() {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, sets).unwrap();
    }
}

#[test]
fn a_script_without_a_place_on_disk_cannot_be_loaded() {
    let kind = |path: &str, folder: Option<PathBuf>| {
        let stage = Fixture::bash("true");
        let mut script = stage.script;
        script.path = path.into();
        script.folder = folder;
        load(&script, &super::SHARED).map(drop).unwrap_err().kind()
    };
    assert_eq!(kind("a.sh", None), ErrorKind::InvalidSkill);
    for path in ["../a.sh", "/bin/a.sh", "a/../../b.sh", "./a.sh"] {
        assert_eq!(kind(path, Some("/tmp".into())), ErrorKind::InvalidSkill, "{path}");
    }
}

#[test]
fn python_and_node_run_too() {
    let python =
        "import json, os, sys\nprint(json.dumps({'sum': sum(json.load(sys.stdin)), 'args': sys.argv[1:]}))";
    let node = "const list = JSON.parse(require('fs').readFileSync(0));
        console.log({sum: 1} && JSON.stringify({sum: list.reduce((a, b) => a + b), args: process.argv.slice(2)}))";
    for (command, path, source) in [("python3", "scripts/a.py", python), ("node", "scripts/a.js", node)] {
        if has_command(command) {
            let ran = Fixture::new(path, source).input(json!([1, 2, 3])).args(&["-x"]).run();
            assert_eq!(ran.value.unwrap(), json!({"sum": 6, "args": ["-x"]}), "{command}");
        }
    }
}
