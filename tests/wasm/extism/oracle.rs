//! The answers of Extism: recorded, or those of the program in `tests/oracle`, which runs it.
//!
//! `METIER_ORACLE` names that program, and its answers must be the recorded ones; with `METIER_ORACLE_RECORD` they are recorded instead.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Answer, Case, FILE, hex};

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wasm/extism/recorded.json");

static ORACLE: LazyLock<Mutex<Oracle>> = LazyLock::new(|| Mutex::new(Oracle::open()));

struct Oracle {
    recorded: BTreeMap<String, Answer>,
    program: Option<Program>,
    records: bool,
}

struct Program {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _child: Child,
}

/// What Extism answers.
pub fn answer(case: &Case<'_>) -> Answer {
    // A test that failed has not changed it.
    let mut oracle = ORACLE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let key = key(case);
    if let Some(program) = &mut oracle.program {
        let answer = program.ask(case);
        if oracle.records {
            oracle.recorded.insert(key, answer.clone());
            oracle.save();
        } else {
            assert_eq!(oracle.recorded.get(&key), Some(&answer), "another answer than the recorded one");
        }
        return answer;
    }
    oracle.recorded.get(&key).cloned().expect("no answer of Extism is recorded: run `just record-oracle`")
}

impl Oracle {
    fn open() -> Self {
        let records = std::env::var_os("METIER_ORACLE_RECORD").is_some();
        let recorded = match File::open(RECORDED) {
            Ok(file) if !records => serde_json::from_reader(BufReader::new(file)).expect("a map of answers"),
            _ => BTreeMap::new(),
        };
        let program = std::env::var_os("METIER_ORACLE").map(|path| {
            let mut child =
                Command::new(path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
            let input = child.stdin.take().expect("a pipe");
            let output = BufReader::new(child.stdout.take().expect("a pipe"));
            Program { input, output, _child: child }
        });
        Self { recorded, program, records }
    }

    fn save(&self) {
        let mut text = serde_json::to_string_pretty(&self.recorded).expect("is JSON");
        text.push('\n');
        std::fs::write(RECORDED, text).expect("is written");
    }
}

impl Program {
    fn ask(&mut self, case: &Case<'_>) -> Answer {
        writeln!(self.input, "{}", question(case)).expect("it reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        let answer: Answer = serde_json::from_str(&line).expect("an answer");
        answer.summary()
    }
}

/// The case as the program reads it.
fn question(case: &Case<'_>) -> Value {
    let functions = metier::host::functions();
    let functions = functions.iter().filter(|_| case.user);
    json!({
        "module": hex(case.module),
        "function": case.function,
        "input": case.input.to_string(),
        "config": case.config,
        "host": case.host,
        "wasi": case.wasi,
        "is_manifest": case.is_manifest,
        "functions": functions.map(|function| (function.name, function.params.len())).collect::<Vec<_>>(),
        "file": FILE,
    })
}

/// Names the case, whatever the address of the server.
fn key(case: &Case<'_>) -> String {
    let mut question = question(case);
    if let Some(server) = case.server {
        // Nowhere else: a port's digits are also among those of a module.
        question["input"] = case.input.to_string().replace(server, "SERVER").into();
    }
    hex(&Sha256::digest(question.to_string())[..16])
}
