//! The streams of an external script, as a program has them that embeds the engine.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metier::engine::Invocation;
use metier::error::ErrorKind;
use metier::host::{Event, EventKind};
use metier::policy::Limits;
use serde_json::{Value, json};

use crate::support::engine::{Project, granted};

/// A writer whose content stays.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// A stream on which nothing ever moves.
struct Stuck(Sender<()>);

impl Stuck {
    fn wait(&self) {
        self.0.send(()).ok();
        std::thread::sleep(Duration::from_mins(5));
    }
}

impl Write for Stuck {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        self.wait();
        Ok(0)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stuck {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.wait();
        Ok(0)
    }
}

#[test]
fn output_goes_to_the_writers_and_its_end_is_in_the_outcome() {
    let project = Project::shell("", "cat; yes 0123456789 | head -c 200000; echo err >&2; exit 3");
    let (out, err, lines) = (Sink::default(), Sink::default(), Arc::new(Mutex::new(0)));
    let counted = lines.clone();
    let observer = move |event: &Event| {
        *counted.lock().unwrap() += u32::from(matches!(event.kind, EventKind::Output { .. }));
    };
    let invocation = Invocation::new("x").stdin(&b"input\n"[..]).stream_output(out.clone(), err.clone());
    let outcome = project.engine().run(invocation.observer(Arc::new(observer)));
    assert_eq!(outcome.result.unwrap_err().kind(), ErrorKind::Script);
    assert!(out.text().starts_with("input\n0123456789\n") && out.text().len() == 200_006);
    assert_eq!(err.text(), "err\n");
    let process = outcome.process.unwrap();
    assert_eq!((process.exit_code, process.usage.stdout_bytes), (Some(3), 200_006));
    assert!(process.stdout.len() == 64 << 10 && out.text().ends_with(&process.stdout));
    assert_eq!(*lines.lock().unwrap(), 0, "they are not told twice");
}

#[test]
fn a_stream_that_blocks_does_not_keep_a_stopped_run() {
    let project = Project::shell("", "cat & yes");
    let (blocked, blocks) = channel();
    let limits = Limits::default().timeout(Duration::from_secs(2));
    let started = Instant::now();
    let outcome = project.engine().run(
        Invocation::new("x")
            .stdin(Stuck(blocked.clone()))
            .stream_output(Stuck(blocked), io::sink())
            .limits(limits),
    );
    assert_eq!(outcome.result.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(blocks.try_iter().count(), 2);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn a_writer_that_fails_is_a_closed_pipe_for_the_script() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let project = Project::shell("", "yes");
    let outcome = project.engine().run(Invocation::new("x").stream_output(Broken, io::sink()));
    assert_eq!(outcome.result.unwrap_err().kind(), ErrorKind::Script);
    assert_eq!(outcome.process.unwrap().exit_code, Some(141), "as the shell says that SIGPIPE ended yes");
}

#[test]
fn the_limit_of_streams_holds_for_each_of_them() {
    let project = Project::shell("", "yes | head -c 5000; yes | head -c 5000 >&2");
    let run = |bytes: u64| {
        let (out, err) = (Sink::default(), Sink::default());
        let limits = Limits::default().output(bytes);
        let invocation = Invocation::new("x").stream_output(out.clone(), err.clone()).limit_streams();
        let outcome = project.engine().run(invocation.limits(limits));
        (outcome.result.map_err(|error| error.kind()), out.text().len(), err.text().len())
    };
    assert_eq!(run(5000), (Ok(Value::Null), 5000, 5000));
    let (result, out, _) = run(4999);
    assert_eq!((result, out), (Err(ErrorKind::Output), 4999));
}

#[test]
fn skills_that_a_skill_calls_have_none_of_its_streams_and_only_variables_that_both_list() {
    let caller = "from metier import ctx\nimport json\nprint(json.dumps([ctx.skill('y'), ctx.skill('z')]))\n";
    let report = "echo \"$REGION-$API_KEY-$(cat)\"";
    let lists =
        |name: &str, tools: &str| format!("---\nname: {name}\ndescription: d\nallowed-tools: {tools}\n---\n");
    let project = Project::new()
        .file(".metier/skills/x/SKILL.md", lists("x", "skill:y skill:z env:REGION"))
        .file(".metier/skills/x/scripts/main.py", caller)
        .file(".metier/skills/y/SKILL.md", lists("y", "env:REGION env:API_KEY"))
        .file(".metier/skills/y/scripts/main.sh", report)
        .file(".metier/skills/z/SKILL.md", lists("z", "read"))
        .file(".metier/skills/z/scripts/main.sh", report);
    let invocation =
        Invocation::new("x").env("REGION", "north").env("API_KEY", "hunter2").stdin(&b"input"[..]);
    let grants = ["skill:y", "skill:z", "env:REGION", "env:API_KEY"];
    let outcome = project.engine().run(granted(invocation, &grants));
    if crate::support::not_run::find_program("python3").is_some() {
        assert_eq!(outcome.result.unwrap(), json!(["north--\n", "--\n"]));
    }
}

#[test]
fn a_command_takes_the_steps_of_a_run() {
    let project = Project::new();
    let engine = project.engine();
    let outcome = engine.run(Invocation::command("sh", ["-c", "echo '[1]'; echo $0 >&2", "a b"]));
    assert_eq!((outcome.skill.as_str(), outcome.result.unwrap()), ("exec", json!([1])));
    assert_eq!(outcome.process.unwrap().stderr, "a b\n");
    let denied = engine.run(Invocation::command("touch", ["new"]));
    assert!(denied.result.unwrap_err().help().unwrap_or_default().ends_with("grant write"));
    let explained =
        engine.explain(&Invocation::command("true", [""; 0]).grant("write".parse().unwrap())).unwrap();
    assert!(explained.process.unwrap().command.ends_with(&["true".to_owned()]), "it is explained like a run");
    assert!(engine.registry().find("exec").is_err());
}
