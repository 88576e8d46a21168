//! A client of a few lines: it starts the command, and speaks the protocol line by line. Whatever the server does, each of its
//! waits ends within a minute.

use std::io::{BufRead, BufReader, Write};
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::cli::Project;

pub const TIMEOUT: Duration = Duration::from_mins(1);

/// A client of one server, which ends with it.
pub struct Client {
    pub child: Child,
    input: Option<Input>,
    lines: Receiver<String>,
    /// The lines of standard error that were not read yet, and those that were.
    stderr: Receiver<String>,
    stderr_text: String,
    /// What came and was not asked for yet.
    pub messages: Vec<Value>,
    next_id: i64,
    /// What every request has under `_meta`.
    meta: Option<Value>,
}

/// What a thread writes to the server, and what came of each write.
struct Input {
    bytes: Sender<Vec<u8>>,
    written: Receiver<std::io::Result<()>>,
}

impl Input {
    fn new(mut input: impl Write + Send + 'static) -> Self {
        let (bytes, to_write) = channel::<Vec<u8>>();
        let (done, written) = channel();
        std::thread::spawn(move || {
            for bytes in to_write {
                if done.send(input.write_all(&bytes).and_then(|()| input.flush())).is_err() {
                    return;
                }
            }
        });
        Self { bytes, written }
    }
}

impl Project {
    /// Trusts everything in the project.
    pub fn trusted(self) -> Self {
        let answer = self.metier(&["trust", "--folder", "--yes", "."]);
        assert_eq!(answer.code, 0, "{answer:?}");
        self
    }

    /// A client of the revision 2025-11-25, after the handshake.
    pub fn client(&self, args: &[&str]) -> Client {
        let mut client = self.silent_client(args);
        client.initialize("2025-11-25");
        client
    }

    /// A client of the revision 2026-07-28, which has no handshake.
    pub fn modern_client(&self, args: &[&str]) -> Client {
        let mut client = self.silent_client(args);
        client.meta = Some(json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }));
        client
    }

    /// A client of a revision with sessions that can ask a person, after the handshake.
    pub fn asking_client(&self, revision: &str, args: &[&str]) -> Client {
        let mut client = self.silent_client(args);
        client.initialize_with(revision, json!({"elicitation": {}}));
        client
    }

    /// A client of a revision with sessions with these capabilities, after the handshake.
    pub fn client_with(&self, revision: &str, capabilities: Value, args: &[&str]) -> Client {
        let mut client = self.silent_client(args);
        client.initialize_with(revision, capabilities);
        client
    }

    /// A client that has said nothing yet.
    pub fn silent_client(&self, args: &[&str]) -> Client {
        use std::process::Stdio;
        let mut command = self.command(&[&["mcp"], args].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().map(Input::new);
        let (line_sender, lines) = channel();
        let output = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if line_sender.send(line).is_err() {
                    return;
                }
            }
        });
        let (stderr_sender, stderr) = channel();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while errors.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                let text = String::from_utf8_lossy(&line).into_owned();
                line.clear();
                if stderr_sender.send(text).is_err() {
                    return;
                }
            }
        });
        let (stderr_text, messages) = (String::new(), Vec::new());
        Client { child, input, lines, stderr, stderr_text, messages, next_id: 1, meta: None }
    }
}

impl Client {
    /// The same client of the newest revision, which can ask a person.
    pub fn asking(self) -> Self {
        self.with_capabilities(&json!({"elicitation": {"form": {}}}))
    }

    /// The same client of the newest revision with these capabilities.
    pub fn with_capabilities(mut self, capabilities: &Value) -> Self {
        self.meta.as_mut().unwrap()["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
        self
    }

    /// The same client of the newest revision, which takes tasks for answers and has these further capabilities.
    pub fn with_tasks(self, further: &Value) -> Self {
        let mut capabilities = further.clone();
        capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
        self.with_capabilities(&capabilities)
    }

    /// Lets the next requests come from a client of this name.
    pub fn rename(&mut self, name: &str) {
        self.meta.as_mut().unwrap()["io.modelcontextprotocol/clientInfo"]["name"] = json!(name);
    }

    /// Calls a tool that is answered with a task, and returns its id.
    #[track_caller]
    pub fn call_task(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["resultType"], "task", "{result}");
        result["taskId"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub fn task(&mut self, id: &str) -> Value {
        self.result("tasks/get", json!({"taskId": id}))
    }

    /// Asks for the state of a task until it is this one.
    #[track_caller]
    pub fn task_in_state(&mut self, id: &str, status: &str) -> Value {
        let end = Instant::now() + TIMEOUT;
        loop {
            let task = self.task(id);
            if task["status"] == status {
                return task;
            }
            assert!(Instant::now() < end, "not {status}: {task}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Answers one question of a task.
    #[track_caller]
    pub fn answer_task(&mut self, id: &str, key: &str, answer: Value) {
        let params = json!({"taskId": id, "inputResponses": {key: answer}});
        assert_eq!(self.result("tasks/update", params), json!({"resultType": "complete"}));
    }

    pub fn initialize(&mut self, revision: &str) -> Value {
        self.initialize_with(revision, json!({}))
    }

    fn initialize_with(&mut self, revision: &str, capabilities: Value) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client});
        let answer = self.request("initialize", params);
        self.notify("notifications/initialized", json!({}));
        answer
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub fn send_raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_ref().unwrap();
        input.bytes.send(bytes.to_vec()).unwrap();
        input.written.recv_timeout(TIMEOUT).expect("the server does not read").unwrap();
    }

    pub fn send(&mut self, message: &Value) {
        self.send_raw(format!("{message}\n").as_bytes());
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request, and returns its id.
    pub fn start(&mut self, method: &str, mut params: Value) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        if let Some(meta) = &self.meta {
            let mut meta = meta.clone();
            for (key, value) in params["_meta"].as_object().into_iter().flatten() {
                meta[key] = value.clone();
            }
            params["_meta"] = meta;
        }
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.start(method, params);
        self.response(id)
    }

    /// The answer to a request; what comes before it waits in `messages`.
    pub fn response(&mut self, id: i64) -> Value {
        self.wait_for(|message| message["id"] == id && message.get("method").is_none())
    }

    pub fn notification(&mut self, method: &str) -> Value {
        self.wait_for(|message| message["method"] == method)
    }

    #[track_caller]
    pub fn wait_for(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.messages.iter().position(&fits) {
            return self.messages.remove(at);
        }
        let end = Instant::now() + TIMEOUT;
        loop {
            let message = self.next(end.saturating_duration_since(Instant::now()));
            let message = message.unwrap_or_else(|| panic!("nothing fits in {:?}", self.messages));
            if fits(&message) {
                return message;
            }
            self.messages.push(message);
        }
    }

    /// The next message within that time. Every line of the output is one.
    pub fn next(&mut self, timeout: Duration) -> Option<Value> {
        match self.lines.recv_timeout(timeout) {
            Ok(line) => {
                let message: Value =
                    serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"));
                // A list answers a batch.
                let first = message.get(0).unwrap_or(&message);
                assert_eq!(first["jsonrpc"], "2.0", "{line}");
                Some(message)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    /// The result of a request that succeeds.
    #[track_caller]
    pub fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.request(method, params);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The text of a call that succeeds.
    #[track_caller]
    pub fn text(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    pub fn tools(&mut self) -> Vec<Value> {
        self.result("tools/list", json!({}))["tools"].as_array().unwrap().clone()
    }

    pub fn tool_names(&mut self) -> Vec<String> {
        self.tools().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    #[track_caller]
    pub fn tool(&mut self, name: &str) -> Value {
        let tools = self.tools();
        tools
            .iter()
            .find(|tool| tool["name"] == name)
            .unwrap_or_else(|| panic!("{name} in {tools:?}"))
            .clone()
    }

    /// Closes the input of the server.
    pub fn close(&mut self) {
        self.input = None;
    }

    /// Waits until the server has ended: its exit code, and what it wrote to standard error.
    pub fn wait(&mut self) -> (Option<i32>, String) {
        let end = Instant::now() + TIMEOUT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        while let Ok(line) = self.stderr.recv_timeout(TIMEOUT) {
            self.stderr_text.push_str(&line);
        }
        (status.code(), std::mem::take(&mut self.stderr_text))
    }

    /// Waits for a line on standard error that has this text.
    #[track_caller]
    pub fn stderr_line(&mut self, text: &str) -> String {
        let end = Instant::now() + TIMEOUT;
        loop {
            let line = self.stderr.recv_timeout(end.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|_| panic!("no {text:?} in {:?}", self.stderr_text));
            self.stderr_text.push_str(&line);
            if line.contains(text) {
                return line.trim_end().to_owned();
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
