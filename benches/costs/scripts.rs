//! Small scripts in Python and Node: by their interpreters, by a host that is up, and by a whole command. And what a connection to a
//! granted host costs a script.
//!
//! The sides are measured by turns, for what else a machine does must not fall on one of them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use metier::engine::{Engine, Invocation};
use tempfile::TempDir;

use super::ratios;

const ROUNDS: usize = 60;

/// The interpreters, their scripts of three lines, and what those print.
const SCRIPTS: [(&str, &str, &str); 2] = [
    ("python3", "main.py", "import json\nvalue = {\"a\": 1}\nprint(json.dumps(value))\n"),
    ("node", "main.js", "const value = {a: 1};\nconst text = JSON.stringify(value);\nconsole.log(text);\n"),
];

/// A side's name, and what runs it once.
type Side<'a> = (&'static str, Box<dyn Fn() + 'a>);

/// Measures the start of scripts.
pub fn measure_starts() {
    for (program, script, text) in SCRIPTS {
        let Some(program_path) = find_program(program) else {
            println!("{program:<24} is not installed");
            continue;
        };
        let project = project(script, text);
        let path = project.path().join(".metier/skills/x/scripts").join(script);
        // The shims of version managers are shell scripts, which take longer than all that is measured here.
        let search_path = program_path.parent().expect("a folder");
        let builder = Engine::builder(project.path()).interpreter(program, &program_path);
        let engine = builder.build().expect("an engine");
        let sides: [Side<'_>; 3] = [
            ("alone", Box::new(|| succeeds(Command::new(&program_path).arg(&path)))),
            ("host", Box::new(|| assert!(engine.run(Invocation::new("x")).result.is_ok()))),
            (
                "command",
                Box::new(|| {
                    let mut command = Command::new(env!("CARGO_BIN_EXE_metier"));
                    succeeds(command.args(["run", "x"]).env("PATH", search_path).current_dir(project.path()));
                }),
            ),
        ];
        let mut samples: [Vec<Duration>; 3] = Default::default();
        for round in 0..ROUNDS + 5 {
            for ((_, run), samples) in sides.iter().zip(&mut samples) {
                let started = Instant::now();
                run();
                // What is started for the first time is started cold.
                if round >= 5 {
                    samples.push(started.elapsed());
                }
            }
        }
        for ((side, _), samples) in sides.iter().zip(samples) {
            store(&format!("{program}/{side}"), samples);
        }
    }
}

/// A client that prints what it measured: the seconds of a round trip of one byte, of a connection, and of 64 MB.
const CLIENT: &str = "
import socket, sys, time
port = int(sys.argv[1])
def connect(what):
    stream = socket.create_connection(('127.0.0.1', port))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.sendall(what)
    return stream
with connect(b'e') as stream:
    started = time.perf_counter()
    for _ in range(2000): stream.sendall(b'x'); stream.recv(1)
    print((time.perf_counter() - started) / 2000)
started = time.perf_counter()
for _ in range(200):
    with connect(b'ex') as stream: stream.recv(1)
print((time.perf_counter() - started) / 200)
with connect(b'd') as stream:
    started = time.perf_counter()
    while stream.recv(1 << 20): pass
    print(time.perf_counter() - started)
";

/// What a client measures, in the order in which it prints it.
const MEASURED: [&str; 3] = ["round_trip", "connection", "download"];

const DOWNLOAD_BYTES: usize = 64 << 20;

/// Measures a connection of a script that reaches granted hosts only, and of the same script alone.
pub fn measure_connections() {
    let Some(python) = find_program("python3") else { return println!("python3 is not installed") };
    let project = project("main.py", CLIENT);
    let path = project.path().join(".metier/skills/x/scripts/main.py");
    let port = serve().to_string();
    let engine = Engine::builder(project.path()).build().expect("an engine");
    let grant = format!("net:127.0.0.1:{port}");
    let alone = || {
        let output = Command::new(&python).arg(&path).arg(&port).output().expect("runs");
        String::from_utf8(output.stdout).expect("text")
    };
    let granted = || {
        let invocation = Invocation::new("x").args([&port]).grant(grant.parse().expect("a permission"));
        let outcome = engine.run(invocation);
        outcome.result.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let mut samples: [[Vec<Duration>; 3]; 2] = Default::default();
    for _ in 0..9 {
        for (said, samples) in [alone(), granted()].iter().zip(&mut samples) {
            for (line, samples) in said.lines().zip(samples) {
                samples.push(Duration::from_secs_f64(line.parse().expect("seconds")));
            }
        }
    }
    for (side, samples) in ["alone", "granted"].iter().zip(samples) {
        for (what, samples) in MEASURED.iter().zip(samples) {
            store(&format!("{what}/{side}"), samples);
        }
    }
}

pub(crate) fn store(name: &str, mut samples: Vec<Duration>) {
    samples.sort_unstable();
    let median = samples.get(samples.len() / 2).copied();
    let id = format!("scripts/{}", name.replace('/', "_"));
    ratios::store_median(&id, median);
    println!("{id:<32} {}", median.map_or("cannot be had here".into(), |median| format!("{median:?}")));
}

pub(crate) fn project(script: &str, text: &str) -> TempDir {
    let project = TempDir::new().expect("a folder");
    let scripts = project.path().join(".metier/skills/x/scripts");
    std::fs::create_dir_all(&scripts).expect("a folder");
    let skill = "---\nname: x\ndescription: Does little.\n---\n";
    std::fs::write(scripts.with_file_name("SKILL.md"), skill).expect("a file");
    std::fs::write(scripts.join(script), text).expect("a file");
    project
}

fn succeeds(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("runs");
    assert!(output.status.success(), "{output:?}");
}

/// A server that echoes after an `e`, and sends after a `d`, each connection on a thread of its own.
fn serve() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        // More than all clients here open.
        for stream in listener.incoming().take(10_000).flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    port
}

fn answer(mut stream: TcpStream) {
    let (mut what, mut block) = ([0], vec![0; 1 << 20]);
    if stream.set_nodelay(true).is_err() || stream.read_exact(&mut what).is_err() {
        return;
    }
    if what == *b"d" {
        for _ in 0..DOWNLOAD_BYTES >> 20 {
            if stream.write_all(&block).is_err() {
                return;
            }
        }
        return;
    }
    while let Ok(read @ 1..) = stream.read(&mut block) {
        if stream.write_all(&block[..read]).is_err() {
            return;
        }
    }
}

/// The program that is first on `PATH`, behind the shims of version managers.
fn find_program(name: &str) -> Option<PathBuf> {
    let is_shim = |folder: &Path| folder.ends_with("shims");
    let folders = std::env::split_paths(&std::env::var_os("PATH")?).collect::<Vec<_>>();
    folders
        .iter()
        .filter(|folder| !is_shim(folder))
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}
