//! A client of a few lines over HTTP: it starts the command, and writes requests as bytes, so that tests can send wrong ones.
//! Whatever the server does, each of its waits ends within a minute.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::cli::Project;

pub const TIMEOUT: Duration = Duration::from_mins(1);

/// A server of a project, which ends with it.
pub struct HttpServer {
    pub child: Child,
    pub address: String,
    /// The token that it made, if it made one.
    pub token: Option<String>,
    stderr: Receiver<String>,
}

/// A request that was sent and not read yet.
pub struct Pending {
    reader: BufReader<TcpStream>,
    /// When what is being read has to be there. A stream of events never ends by itself, and never falls silent.
    deadline: Instant,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

/// A session of a revision that has them.
pub struct Session<'a> {
    server: &'a HttpServer,
    pub headers: Vec<(String, String)>,
    next_id: i64,
}

impl Project {
    /// A server on a free port, with a token that it makes.
    pub fn http_server(&self, args: &[&str]) -> HttpServer {
        self.http_server_with(args, &[])
    }

    pub fn http_server_with(&self, args: &[&str], environment: &[(&str, &str)]) -> HttpServer {
        let mut command = self.command(&[&["mcp", "--http", "127.0.0.1:0"], args].concat());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(environment.iter().copied());
        let mut child = command.spawn().unwrap();
        let stderr = lines(child.stderr.take().unwrap());
        let mut seen = String::new();
        let address = loop {
            let line = stderr.recv_timeout(TIMEOUT);
            let line = line.unwrap_or_else(|_| panic!("the server did not start: {seen}"));
            if let Some(url) = line.trim().strip_prefix("serving at http://") {
                break url.strip_suffix("/mcp").unwrap().to_owned();
            }
            seen.push_str(&line);
        };
        let makes_token = !args.iter().any(|arg| arg.starts_with("--token-file") || *arg == "--no-token")
            && environment.iter().all(|(name, _)| *name != "METIER_MCP_TOKEN");
        let token = makes_token.then(|| {
            let line = stderr.recv_timeout(TIMEOUT).unwrap();
            line.trim().strip_prefix("token: ").unwrap().to_owned()
        });
        HttpServer { child, address, token, stderr }
    }
}

/// What a server writes to standard error, line by line with their ends.
fn lines(stderr: ChildStderr) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stderr);
        loop {
            let mut line = Vec::new();
            let length = reader.read_until(b'\n', &mut line).unwrap_or_default();
            if length == 0 || sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

impl HttpServer {
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect_timeout(&self.address.parse().unwrap(), TIMEOUT).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// The headers that every client sends, with the token that the server made.
    pub fn headers(&self) -> Vec<(String, String)> {
        let mut headers = vec![
            ("host".to_owned(), self.address.clone()),
            ("content-type".to_owned(), "application/json".to_owned()),
            ("accept".to_owned(), "application/json, text/event-stream".to_owned()),
        ];
        headers
            .extend(self.token.as_ref().map(|token| ("authorization".to_owned(), format!("Bearer {token}"))));
        headers
    }

    pub fn send(&self, method: &str, headers: &[(String, String)], body: &[u8]) -> Pending {
        self.send_to("/mcp", method, headers, body)
    }

    pub fn send_to(&self, path: &str, method: &str, headers: &[(String, String)], body: &[u8]) -> Pending {
        let mut stream = self.connect();
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        for (name, value) in headers {
            head.extend([format!("{name}: {value}\r\n")]);
        }
        if method == "POST" {
            head.extend([format!("content-length: {}\r\n", body.len())]);
        }
        head.push_str("\r\n");
        // A server that refuses a request may close the connection before it has read all of it.
        stream.write_all(head.as_bytes()).ok();
        stream.write_all(body).ok();
        Pending { reader: BufReader::new(stream), deadline: Instant::now() + TIMEOUT }
    }

    /// The headers of a request of the revision 2026-07-28.
    pub fn modern_headers(&self, method: &str, params: &Value) -> Vec<(String, String)> {
        let mut headers = self.headers();
        headers.push(("mcp-protocol-version".to_owned(), "2026-07-28".to_owned()));
        headers.push(("mcp-method".to_owned(), method.to_owned()));
        let name = params.get("name").or_else(|| params.get("uri"));
        headers.extend(name.and_then(Value::as_str).map(|name| ("mcp-name".to_owned(), name.to_owned())));
        headers
    }

    /// The text of a request of the revision 2026-07-28.
    pub fn modern_message_text(method: &str, params: &Value) -> String {
        modern_message(method, params.clone(), &json!({})).to_string()
    }

    /// Sends a request of the revision 2026-07-28.
    pub fn start(&self, method: &str, params: Value) -> Pending {
        self.start_with(method, params, &json!({}), &[])
    }

    pub fn start_with(
        &self,
        method: &str,
        params: Value,
        capabilities: &Value,
        replaced: &[(&str, &str)],
    ) -> Pending {
        let body = modern_message(method, params.clone(), capabilities);
        let mut headers = self.modern_headers(method, &params);
        for (name, value) in replaced {
            headers.retain(|(known, _)| known != name);
            headers.push(((*name).to_owned(), (*value).to_owned()));
        }
        self.send("POST", &headers, body.to_string().as_bytes())
    }

    #[track_caller]
    pub fn result(&self, method: &str, params: Value) -> Value {
        self.start(method, params).answer().result()
    }

    #[track_caller]
    pub fn call(&self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    #[track_caller]
    pub fn text(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    pub fn session(&self, revision: &str) -> Session<'_> {
        self.session_with(revision, json!({}), &self.headers())
    }

    pub fn session_with(
        &self,
        revision: &str,
        capabilities: Value,
        headers: &[(String, String)],
    ) -> Session<'_> {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client});
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let answer = self.send("POST", headers, message.to_string().as_bytes()).answer();
        assert_eq!(answer.result()["protocolVersion"], revision);
        let mut headers = headers.to_vec();
        headers.push(("mcp-session-id".to_owned(), answer.headers["mcp-session-id"].clone()));
        headers.push(("mcp-protocol-version".to_owned(), revision.to_owned()));
        let session = Session { server: self, headers, next_id: 1 };
        assert_eq!(session.notify("notifications/initialized", json!({})).status, 202);
        session
    }

    /// Ends the server by a signal, and returns its exit code and what else it wrote to standard error.
    #[cfg(unix)]
    pub fn stop(mut self) -> (Option<i32>, String) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let end = Instant::now() + TIMEOUT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut text = String::new();
        loop {
            match self.stderr.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => text.push_str(&line),
                Err(RecvTimeoutError::Disconnected) => return (status.code(), text),
                Err(RecvTimeoutError::Timeout) => panic!("standard error of the server stays open: {text}"),
            }
        }
    }
}

/// A request of the revision 2026-07-28.
fn modern_message(method: &str, mut params: Value, capabilities: &Value) -> Value {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    for (key, value) in params["_meta"].as_object().into_iter().flatten() {
        meta[key] = value.clone();
    }
    params["_meta"] = meta;
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Session<'_> {
    pub fn notify(&self, method: &str, params: Value) -> Answer {
        self.post(&json!({"jsonrpc": "2.0", "method": method, "params": params})).answer()
    }

    pub fn post(&self, message: &Value) -> Pending {
        self.server.send("POST", &self.headers, message.to_string().as_bytes())
    }

    /// Sends a request: its id, and what is to be read.
    pub fn start(&mut self, method: &str, params: Value) -> (i64, Pending) {
        let id = self.next_id;
        self.next_id += 1;
        (id, self.post(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})))
    }

    #[track_caller]
    pub fn result(&mut self, method: &str, params: Value) -> Value {
        self.start(method, params).1.answer().result()
    }

    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Opens the stream for what is not an answer.
    pub fn listen(&self) -> Pending {
        self.server.send("GET", &self.headers, b"")
    }

    pub fn end(&self) -> Answer {
        self.server.send("DELETE", &self.headers, b"").answer()
    }
}

impl Pending {
    /// Reads all of the answer. An answer without an end is read until the connection closes.
    #[track_caller]
    pub fn answer(mut self) -> Answer {
        self.read_answer()
    }

    /// The connection, of which nothing was read.
    pub fn stream(&mut self) -> &mut TcpStream {
        self.reader.get_mut()
    }

    /// The same, and the connection stays open.
    #[track_caller]
    pub fn read_answer(&mut self) -> Answer {
        self.deadline = Instant::now() + TIMEOUT;
        let (status, headers) = self.head();
        let mut body = Vec::new();
        if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
            while let Some(chunk) = self.chunk() {
                body.extend(chunk);
            }
        } else if let Some(length) = headers.get("content-length") {
            body.resize(length.parse().unwrap(), 0);
            self.reader().read_exact(&mut body).unwrap();
        }
        Answer { status, headers, body: String::from_utf8(body).unwrap() }
    }

    #[track_caller]
    fn head(&mut self) -> (u16, BTreeMap<String, String>) {
        let first = self.line();
        let status =
            first.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {first:?}")).parse().unwrap();
        let mut headers = BTreeMap::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else { return (status, headers) };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
    }

    #[track_caller]
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader().read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// What is left to read, for as long as there is time.
    #[track_caller]
    fn reader(&mut self) -> &mut BufReader<TcpStream> {
        let time_left = self.deadline.saturating_duration_since(Instant::now());
        assert!(!time_left.is_zero(), "what was awaited did not come within {TIMEOUT:?}");
        self.reader.get_ref().set_read_timeout(Some(time_left)).unwrap();
        &mut self.reader
    }

    #[track_caller]
    fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = usize::from_str_radix(&self.line(), 16).ok()?;
        let mut chunk = vec![0; size];
        self.reader().read_exact(&mut chunk).unwrap();
        self.line();
        (size > 0).then_some(chunk)
    }

    /// Reads the head and returns the stream of events.
    #[track_caller]
    pub fn events(mut self) -> Events {
        self.deadline = Instant::now() + TIMEOUT;
        let (status, headers) = self.head();
        assert_eq!(status, 200);
        assert_eq!(headers["content-type"], "text/event-stream");
        Events { pending: self, text: String::new() }
    }

    /// Closes the connection.
    pub fn close(self) {
        drop(self.reader);
    }
}

/// Events that are still coming.
pub struct Events {
    pending: Pending,
    text: String,
}

impl Events {
    /// The next message; `None` at the end.
    #[track_caller]
    pub fn next(&mut self) -> Option<Value> {
        self.pending.deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let message = message_of(event);
                self.text = rest.to_owned();
                match message {
                    Some(message) => return Some(message),
                    None => continue,
                }
            }
            self.text.push_str(std::str::from_utf8(&self.pending.chunk()?).unwrap());
        }
    }
}

fn message_of(event: &str) -> Option<Value> {
    let data: Vec<&str> =
        event.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).collect();
    let data = data.join("\n");
    (!data.is_empty()).then(|| serde_json::from_str(&data).unwrap_or_else(|_| panic!("no message: {data}")))
}

impl Answer {
    /// The messages of the answer.
    pub fn messages(&self) -> Vec<Value> {
        if self.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream") {
            return self.body.split("\n\n").filter_map(message_of).collect();
        }
        serde_json::from_str(&self.body).into_iter().collect()
    }

    /// The response, which is the last message.
    #[track_caller]
    pub fn message(&self) -> Value {
        self.messages().pop().unwrap_or_else(|| panic!("no message in {self:?}"))
    }

    #[track_caller]
    pub fn result(&self) -> Value {
        let message = self.message();
        assert!(message.get("error").is_none(), "{message}");
        message["result"].clone()
    }
}
