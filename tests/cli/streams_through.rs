//! `--stdin`, `--raw` and `metier exec`: the streams of a script as they are, its own exit code, and a command without a skill.

use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::cli::{Answer, Project};
use crate::support::not_run::{find_program, not_run};
use crate::support::pseudo_terminal::Terminal;

fn script(text: &str) -> Project {
    Project::new().shell("x", text)
}

/// Starts the command with pipes at all of its streams.
fn start(project: &Project, args: &[&str]) -> Child {
    let mut command = project.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs the command with this at its standard input, whether it reads it or not.
fn with_input(project: &Project, args: &[&str], input: &[u8]) -> std::process::Output {
    let mut child = start(project, args);
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn every_byte() -> Vec<u8> {
    (0..=u8::MAX).chain([0, b'\r', b'\n', 0xff, 0xc3]).collect()
}

#[test]
fn standard_input_passes_byte_by_byte_and_unquoted() {
    for args in [&["run", "x", "--stdin", "--raw"][..], &["exec", "--", "cat"]] {
        let answer = with_input(&script("cat"), args, &every_byte());
        assert_eq!(answer.stdout, every_byte(), "{args:?}");
    }
    let answer = with_input(&script("wc -c; cat <&0"), &["run", "x", "--stdin"], b"a \"b\" $c\n");
    assert_eq!(String::from_utf8(answer.stdout).unwrap().trim(), "9");
    let empty = script("cat; echo end").metier(&["run", "x", "--stdin"]);
    assert_eq!(empty.stdout, "end\n");
}

#[test]
fn a_hundred_megabytes_pass_in_little_memory() {
    const BLOCK: usize = 1 << 20;
    const BLOCKS: usize = 100;
    let project = script("cat");
    let mut child = start(&project, &["run", "x", "--stdin", "--raw", "--output", "1GB"]);
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let status = format!("/proc/{}/status", child.id());
    let writer = std::thread::spawn(move || {
        let block: Vec<u8> = (0..=250).cycle().take(BLOCK).collect();
        for _ in 0..BLOCKS {
            stdin.write_all(&block).unwrap();
        }
    });
    let (mut buffer, mut count, mut sum, mut peak) = (vec![0; BLOCK], 0_usize, 0_u64, 0_u64);
    loop {
        let read = stdout.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        count += read;
        sum += buffer[..read].iter().map(|byte| u64::from(*byte)).sum::<u64>();
        let memory = std::fs::read_to_string(&status).unwrap_or_default();
        let anonymous = memory.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes = anonymous.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak = peak.max(kilobytes.unwrap_or_default());
    }
    writer.join().unwrap();
    let expected: u64 = (0..=250_u64).cycle().take(BLOCK).sum::<u64>() * BLOCKS as u64;
    assert_eq!((count, sum), (BLOCK * BLOCKS, expected));
    assert!(child.wait().unwrap().success());
    assert!(peak > 0 && peak < 64 << 10, "{peak} kB");
}

#[test]
fn a_script_may_close_its_input_or_never_read_it() {
    let much = vec![b'x'; 8 << 20];
    for text in ["head -c 3; exec <&-; echo", "exec <&-; echo xxx", "echo xxx"] {
        let answer = with_input(&script(text), &["run", "x", "--stdin"], &much);
        assert_eq!((answer.status.code(), answer.stdout.as_slice()), (Some(0), &b"xxx\n"[..]), "{text}");
    }
    // Nobody ends this input: the run ends all the same.
    let project = script("echo done");
    let mut child = start(&project, &["run", "x", "--stdin"]);
    let open = child.stdin.take().unwrap();
    let started = Instant::now();
    assert!(child.wait().unwrap().success() && started.elapsed() < Duration::from_secs(20));
    drop(open);
}

#[test]
fn with_it_the_json_input_reaches_the_script_by_the_client_only() {
    if find_program("python3").is_none() {
        return not_run("input by the client", "python3 is not installed");
    }
    let text = "import sys\nfrom metier import input\nprint(sys.stdin.read().strip(), input['n'])\n";
    let project = Project::new().skill(".metier/skills/x").file(".metier/skills/x/scripts/main.py", text);
    let answer = with_input(&project, &["run", "x", "--stdin", "--input", "{\"n\": 3}"], b"piped");
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "piped 3\n", "{answer:?}");
    let both = project.metier(&["run", "x", "--stdin", "--input", "-"]);
    assert!(both.code == 2 && both.stderr.contains("--input @FILE"), "{both:?}");
}

#[test]
fn what_was_piped_in_and_not_read_is_reported() {
    let project = script("echo ok").lua("y", "return 'ok'").file("some", "text").file("none", "");
    let warning = "standard input was not read";
    for args in [&["run", "x"][..], &["run", "y"], &["run", "x", "--input", "{}"], &["run", "x", "--json"]] {
        let answer = with_input(&project, args, b"text");
        assert!(String::from_utf8_lossy(&answer.stderr).contains(warning), "{args:?}: {answer:?}");
    }
    for args in [&["run", "x", "--stdin"][..], &["run", "x"]] {
        let answer = with_input(&project, args, if args.len() > 2 { b"text" } else { b"" });
        assert!(!String::from_utf8_lossy(&answer.stderr).contains(warning), "{args:?}: {answer:?}");
    }
    let file = |name: &str| {
        let opened = std::fs::File::open(project.path(name)).unwrap();
        let answer: Answer = project.command(&["run", "x"]).stdin(opened).output().unwrap().into();
        answer.stderr.contains(warning)
    };
    assert!(file("some") && !file("none"));
    assert!(!project.metier(&["run", "x"]).stderr.contains(warning), "/dev/null");
    let (code, screen) = Terminal::start(&mut project.command(&["run", "x"])).finish();
    assert!(code == 0 && !screen.contains(warning), "a terminal: {screen}");
}

#[test]
fn what_was_piped_in_and_not_read_is_left_for_the_next_program() {
    let project = script("echo ok").lua("y", "return 'ok'");
    for args in [
        &["run", "x"][..],
        &["run", "y"],
        &["run", "x", "--json"],
        &["run", "x", "--input", "{}"],
        &["run", "--raw", "x"],
        &["run", "nothing"],
        &["list"],
    ] {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&every_byte()).unwrap();
        let answer = project.command(args).stdin(reader.try_clone().unwrap()).output().unwrap();
        let warning = "standard input was not read";
        let is_reported = String::from_utf8_lossy(&answer.stderr).contains(warning);
        assert_eq!(is_reported, args[0] == "run", "{args:?}: {answer:?}");
        // The writer was open all the time: who reads until the end would have waited.
        drop(writer);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, every_byte(), "{args:?}");
    }
}

#[test]
fn streams_are_for_external_scripts_only() {
    let project = Project::new().lua("y", "return 'ok'").shell("x", "true");
    for args in [&["run", "y", "--stdin"][..], &["run", "y", "--raw"]] {
        let answer = project.metier(args);
        assert!(answer.code == 2 && answer.stderr.contains("only external scripts"), "{args:?}: {answer:?}");
    }
    for args in [&["run", "x", "--raw", "--json"][..], &["run", "x", "--raw", "--journal", "j"]] {
        let answer = project.metier(args);
        let words = format!("{}{}", answer.stderr, answer.stdout);
        assert!(answer.code == 2 && words.contains("--raw"), "{args:?}: {answer:?}");
    }
    let skill = "---\nname: x\ndescription: d\nmetadata:\n  worker: json-lines\n---\n";
    let worker = Project::new().shell("x", "true").file(".metier/skills/x/SKILL.md", skill);
    assert!(worker.metier(&["run", "x", "--raw"]).stderr.contains("worker"));
}

#[test]
fn a_transparent_run_has_the_streams_and_the_exit_code_of_the_script() {
    let project = script("printf 'out\\377\\0'; printf 'err\\r\\n' >&2; exit $1");
    for code in [0, 1, 2, 3, 4, 5, 42, 125, 126, 127, 128, 130, 254, 255] {
        let text = code.to_string();
        let answer = project.command(&["run", "--raw", "x", "--", &text]).output().unwrap();
        assert_eq!(answer.status.code(), Some(code));
        assert_eq!(
            (answer.stdout.as_slice(), answer.stderr.as_slice()),
            (&b"out\xff\0"[..], &b"err\r\n"[..])
        );
        let answer = project.command(&["exec", "--", "sh", "-c", &format!("exit {code}")]).output().unwrap();
        assert_eq!(answer.status.code(), Some(code));
    }
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("SEGV", 139), ("PIPE", 141)] {
        let project = script("kill -$1 $$");
        let answer = project.metier(&["run", "--raw", "x", "--", signal]);
        assert_eq!((answer.code, answer.stderr.as_str()), (code, ""), "{signal}");
    }
}

#[test]
fn what_metier_refuses_or_stops_is_reported_with_its_own_codes() {
    let slow = script("echo before; sleep 30");
    let stopped = slow.metier(&["run", "--raw", "x", "--timeout", "500ms"]);
    assert_eq!((stopped.code, stopped.stdout.as_str()), (5, "before\n"), "{stopped:?}");
    assert!(stopped.stderr.starts_with("error: "), "{stopped:?}");
    let much = script("yes | head -c 100000");
    let limited = much.metier(&["run", "--raw", "x", "--output", "1000"]);
    assert!(limited.code == 5 && limited.stderr.contains("more than 1000 bytes"), "{}", limited.stderr);
    assert_eq!(limited.stdout, "y\n".repeat(500));
    let cut = much.metier(&["run", "--raw", "x", "--output", "1000", "--on-output", "truncate"]);
    assert_eq!((cut.code, cut.stdout), (0, "y\n".repeat(500)));
    let whole = script("yes | head -c 20000000").metier(&["run", "--raw", "x"]);
    assert_eq!((whole.code, whole.stdout.len()), (0, 20_000_000), "unlimited");
    let unknown = slow.metier(&["run", "--raw", "nothing"]);
    assert!(unknown.code == 3 && unknown.stderr.contains("nothing"), "{unknown:?}");
    let untrusted = slow.metier(&["run", "--raw", "x", "--for-model"]);
    assert_eq!(untrusted.code, 4, "{untrusted:?}");
}

#[test]
fn output_comes_while_the_script_runs() {
    let project = script("echo first; read line; echo \"then $line\"");
    for args in [
        &["run", "--raw", "--stdin", "x"][..],
        &["exec", "--", "sh", "-c", "echo first; read line; echo \"then $line\""],
    ] {
        let mut child = start(&project, args);
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut first = [0; 6];
        stdout.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"first\n");
        stdin.write_all(b"second\n").unwrap();
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "then second\n");
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_closed_reader_ends_the_script_as_outside() {
    let project = script("while echo line; do :; done 2>/dev/null; exit 7");
    let mut child = start(&project, &["run", "--raw", "x"]);
    let mut first = [0; 5];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    let answer = child.wait_with_output().unwrap();
    assert!([Some(7), Some(141)].contains(&answer.status.code()), "{answer:?}");
    assert_eq!(String::from_utf8_lossy(&answer.stderr), "");
}

#[test]
fn a_reader_that_sleeps_does_not_keep_a_stopped_run() {
    let project = script("yes");
    let mut child = start(&project, &["run", "--raw", "x", "--timeout", "1s"]);
    let started = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(5), "nobody reads its output");
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}

#[test]
fn a_secret_is_redacted_in_a_stream_that_splits_it() {
    let text = "key=$API_KEY\nwhile [ -n \"$key\" ]; do printf '%.1s' \"$key\"; printf '%.1s' \"$key\" >&2; key=${key#?}; sleep 0.01; done\n\
                printf '\\377end'; printf '%.5s' \"$API_KEY\"";
    let project = script(text);
    for args in [&["run", "--raw", "x"][..], &["exec"]] {
        let command = ["--", "sh", "-c", text];
        let rest = if args[0] == "exec" { &command[..] } else { &[] };
        let all = [args, &["--env", "API_KEY=hunter2-hunter2"], rest].concat();
        let answer = project.command(&all).output().unwrap();
        assert_eq!(answer.stdout, b"[secret:API_KEY]\xffendhunte", "{args:?}: {answer:?}");
        assert_eq!(answer.stderr, b"[secret:API_KEY]", "{args:?}: {answer:?}");
    }
}

#[test]
fn on_a_terminal_colours_pass_and_nothing_else_is_obeyed() {
    let project = script(
        "printf '\\033[31mred\\033[0m \\033[2J\\033]0;title\\007\\033[1A\\r\\n'; printf 'err\\033c' >&2",
    );
    let (code, screen) = Terminal::start(&mut project.command(&["run", "--raw", "x"])).finish();
    assert_eq!(code, 0);
    assert!(
        screen.contains("\u{1b}[31mred\u{1b}[0m \\u{1b}[2J\\u{1b}]0;title\\u{7}\\u{1b}[1A"),
        "{screen:?}"
    );
    assert!(screen.contains("err\\u{1b}c"), "{screen:?}");
    let project = script("printf '\\033[31mred'");
    let (_, screen) = Terminal::start(&mut project.command(&["run", "--raw", "x"])).finish();
    assert!(screen.ends_with("red\u{1b}[0m"), "a colour ends with the run: {screen:?}");
}

#[test]
fn without_it_the_report_of_a_failing_script_is_on_standard_output() {
    let project = script("echo '{\"found\": 2}'; echo why >&2; exit 2");
    let answer = project.metier(&["run", "x"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (1, "{\"found\": 2}\n"), "{answer:?}");
    assert!(answer.stderr.contains("why") && answer.stderr.contains("exited with code 2"), "{answer:?}");
    let json = project.metier(&["run", "x", "--json"]).json();
    assert_eq!(json["process"]["exit_code"], json!(2));
    assert_eq!(json["process"]["stdout"], json!("{\"found\": 2}\n"));
}

#[test]
fn a_command_runs_in_the_sandbox_of_a_script() {
    let project = Project::new().file("a.txt", "text").file(".env", "KEY=x");
    let answer = project.metier(&["exec", "--", "cat", "a.txt"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "text"), "{answer:?}");
    let denied = project.metier(&["exec", "--", "sh", "-c", "echo x > out.txt"]);
    assert!(
        denied.code != 0
            && denied.stderr.contains("help: ")
            && denied.stderr.contains("run with --allow write"),
        "{denied:?}"
    );
    assert_eq!(project.metier(&["exec", "--allow", "write", "--", "sh", "-c", "echo x > out.txt"]).code, 0);
    assert_eq!(std::fs::read_to_string(project.path("out.txt")).unwrap(), "x\n");
    let missing = project.metier(&["exec", "--", "no-such-command"]);
    assert_eq!(missing.code, 127, "{missing:?}");
    let stopped = project.metier(&["exec", "--timeout", "500ms", "--", "sleep", "30"]);
    assert_eq!(stopped.code, 5, "{stopped:?}");
    let outside = project.metier(&["exec", "--", "sh", "-c", "cat /etc/shadow; echo $HOME"]);
    assert!(outside.stdout.contains("/metier-"), "{outside:?}");
    assert_eq!(project.metier(&["exec"]).code, 2);
    assert!(!project.metier(&["list"]).stdout.contains("exec"), "no skill is listed for it");
    assert_eq!(project.metier(&["run", "exec"]).code, 3);
}

#[test]
fn the_outcome_of_a_command_is_that_of_a_run() {
    let project = Project::new();
    let answer = project.metier(&[
        "exec",
        "--json",
        "--env",
        "API_KEY=hunter2-hunter2",
        "--",
        "sh",
        "-c",
        "echo $API_KEY; echo e >&2; exit 3",
    ]);
    let outcome = answer.json();
    assert_eq!((answer.code, &outcome["skill"]), (1, &json!("exec")));
    assert_eq!(outcome["process"]["exit_code"], json!(3), "{outcome}");
    assert_eq!(outcome["process"]["stdout"], json!("[secret:API_KEY]\n"));
    assert_eq!(outcome["process"]["stderr"], json!("e\n"));
    assert_ne!(outcome["sandbox"]["level"], json!("none"));
    let well = project.metier(&["exec", "--json", "--", "echo", "{\"a\": 1}"]).json();
    assert_eq!((&well["ok"], &well["value"]), (&json!(true), &json!({"a": 1})));
    let stopped = project.metier(&["exec", "--json", "--timeout", "300ms", "--", "sleep", "30"]);
    assert_eq!((stopped.code, stopped.json()["error"]["kind"].clone()), (5, json!("timeout")));
    let piped = with_input(&project, &["exec", "--json", "--", "cat"], b"piped");
    assert!(String::from_utf8_lossy(&piped.stdout).contains("\"value\": \"piped\""), "{piped:?}");
}
