//! The worker process: executes the runs of one script, and sends the calls on `ctx` to the host.
//!
//! It has no access to files, permissions or secrets. The host decides on each call.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::protocol::{self, RequestedRun, RunResult, SentScript, WORKER_ARG, WorkerRequest};
use metier_core::error::{ErrorContext, ErrorKind, Result, SkillError};
use metier_core::executor::{RuntimeId, Script, SkillExecutor, SkillInput};
use metier_core::host::{HostApiClient, Redaction, RunContextBuilder, SkillContext, catch_panic};
use metier_sandbox::{HOST_API_FD, inherited_fd};

/// Loads a script in this process, from the machine code that the host compiled from it if there is some.
type LoadFn = fn(RuntimeId, &Script, Option<&[u8]>) -> Result<Box<dyn SkillExecutor>>;

/// If this program was started as a worker, serves requests and exits.
pub fn worker_main(load: LoadFn) {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == WORKER_ARG) && arguments.next().is_none() {
        std::process::exit(i32::from(serve_requests(load).is_err()));
    }
}

/// A script that was compiled, or could not be.
struct LoadedScript {
    skill: String,
    executor: Result<Box<dyn SkillExecutor>>,
}

fn serve_requests(load: LoadFn) -> io::Result<()> {
    let host: Arc<dyn HostApiClient> = Arc::new(HostConnection::new(inherited_fd(HOST_API_FD)?)?);
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    let mut loaded = None;
    loop {
        let mut line = Vec::new();
        if stdin.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let WorkerRequest { id, script, run } =
            protocol::decode_request(&line).ok_or(io::ErrorKind::InvalidData)?;
        drop(line);
        if let Some(SentScript { runtime, script, machine_code_bytes }) = script {
            let code = machine_code_bytes.map(|length| read_exactly(&mut stdin, length)).transpose()?;
            let load = || load(runtime, &script, code.as_deref());
            let executor = catch_panic("the runtime", ErrorKind::Script, load);
            loaded = Some(LoadedScript { skill: script.skill.clone(), executor });
        }
        let loaded = loaded.as_ref().ok_or(io::ErrorKind::InvalidData)?;
        let response = protocol::encode_response(id, &run_script(loaded, run, &host).map_err(shorten));
        stdout.write_all(&response).and_then(|()| stdout.flush())?;
    }
}

fn read_exactly(stdin: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    stdin.read_exact(&mut bytes).map(|()| bytes)
}

/// The error, with texts of at most twice the length that the host shows: it shortens them when it has removed secrets.
#[allow(clippy::needless_pass_by_value)] // as `map_err` has it
fn shorten(error: SkillError) -> SkillError {
    error.map_texts(|text| text.chars().take(2 * Redaction::MAX_ERROR_CHARS).collect())
}

fn run_script(loaded: &LoadedScript, run: Option<RequestedRun>, host: &Arc<dyn HostApiClient>) -> RunResult {
    let executor = loaded.executor.as_ref().map_err(Clone::clone)?;
    let Some(run) = run else { return Ok(Value::Null) };
    let context =
        SkillContext::builder(&loaded.skill).limits(run.limits).host_api_client(host.clone()).build();
    let mut input = SkillInput::default();
    input.value = run.input;
    let output = catch_panic("the runtime", ErrorKind::Script, || {
        executor.execute_with_context(input, Some(&context))
    });
    output.map(|output| output.value)
}

/// The connection to the host, which serves one call at a time.
struct HostConnection(Mutex<HostSocket>);

struct HostSocket {
    writer: File,
    reader: BufReader<File>,
    last_id: u64,
}

impl HostConnection {
    fn new(socket: std::os::fd::OwnedFd) -> io::Result<Self> {
        let writer = File::from(socket);
        let reader = BufReader::new(writer.try_clone()?);
        Ok(Self(Mutex::new(HostSocket { writer, reader, last_id: 0 })))
    }
}

impl HostApiClient for HostConnection {
    fn call(&self, function: &str, arguments: Vec<Value>) -> Result<Value> {
        let mut socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        socket.last_id += 1;
        let id = socket.last_id;
        let request = format!("{}\n", json!({"id": id, "call": function, "args": arguments}));
        let mut text = String::new();
        socket
            .writer
            .write_all(request.as_bytes())
            .and_then(|()| socket.reader.read_line(&mut text))
            .map_err(|error| SkillError::io("the host does not answer", error))?;
        let hung_up = || SkillError::new(ErrorKind::Unavailable, "the host has hung up");
        // The value is parsed on its own, so that it may nest as deeply as a value may.
        let value =
            text.strip_prefix(&format!("{{\"id\":{id},\"ok\":")).and_then(|text| text.strip_suffix("}\n"));
        if let Some(value) = value {
            return serde_json::from_str(value).map_err(|_| hung_up());
        }
        let mut answer: Value = serde_json::from_str(&text).map_err(|_| hung_up())?;
        Err(protocol::decode_error(answer["error"].take()).unwrap_or_else(hung_up))
    }
}
