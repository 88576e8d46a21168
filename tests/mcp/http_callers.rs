//! Over HTTP one caller does not stop another, whatever it takes: connections, messages, answers that it does not read, calls, tasks
//! and sessions. Each attack stands while the other caller is answered.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::mcp::http_client::{HttpServer, Pending};
use crate::support::cli::Project;

const ATTACKER: &str = "the-token-of-the-attacker";
const OTHER: &str = "the-token-of-the-other";
/// What the server gives those who send or read nothing is 30 seconds: who is answered before did not wait for their end.
const PROMPT: Duration = Duration::from_secs(20);

fn project() -> Project {
    Project::new().lua("hello", "return 'hello'").lua("endless", "while true do end")
}

/// A server whose tests speak as the attacker, unless they say otherwise.
fn server(project: &Project, args: &[&str]) -> HttpServer {
    crate::mcp::write(project, "tokens", &format!("{ATTACKER}\n{OTHER}\n"));
    let own = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(project.path("tokens"), own).unwrap();
    let mut server = project.http_server(&[&["--token-file", "tokens"], args].concat());
    server.token = Some(ATTACKER.to_owned());
    server
}

fn as_other(server: &HttpServer, method: &str, params: Value, capabilities: &Value) -> Pending {
    let bearer = format!("Bearer {OTHER}");
    let mut replaced = vec![("authorization", bearer.as_str())];
    let id = params["taskId"].as_str().map(str::to_owned);
    replaced.extend(id.as_deref().map(|id| ("mcp-name", id)));
    server.start_with(method, params, capabilities, &replaced)
}

#[track_caller]
fn other_is_served(server: &HttpServer) {
    let started = Instant::now();
    let params = json!({"name": "hello", "arguments": {}});
    let answer = as_other(server, "tools/call", params, &json!({})).answer().result();
    assert_eq!(answer["content"][0]["text"], "hello", "{answer}");
    assert!(started.elapsed() < PROMPT, "{:?}", started.elapsed());
}

/// The head of a call of the attacker.
fn head(server: &HttpServer, further: &str) -> String {
    let mut head = "POST /mcp HTTP/1.1\r\n".to_owned();
    for (name, value) in server.modern_headers("tools/call", &json!({"name": "hello"})) {
        head.extend([format!("{name}: {value}\r\n")]);
    }
    format!("{head}{further}\r\n")
}

fn write(server: &HttpServer, parts: &[&[u8]]) -> TcpStream {
    let mut stream = server.connect();
    for part in parts {
        stream.write_all(part).unwrap();
    }
    stream
}

#[test]
fn messages_that_do_not_come_take_nothing() {
    let project = project().trusted();
    let server = server(&project, &[]);
    let sized = head(&server, "content-length: 16777216\r\n");
    let chunked = head(&server, "transfer-encoding: chunked\r\n");
    let expecting = head(&server, "expect: 100-continue\r\ncontent-length: 16777216\r\n");
    for parts in [
        vec![sized.as_bytes()],
        vec![chunked.as_bytes()],
        vec![expecting.as_bytes()],
        vec![sized.as_bytes(), b"{"],
        vec![chunked.as_bytes(), b"1\r\n{\r\n"],
        vec![chunked.as_bytes(), b"FFFFFF\r\n"],
        vec![&sized.as_bytes()[..sized.len() - 2]],
    ] {
        let stands: Vec<_> = (0..64).map(|_| write(&server, &parts)).collect();
        other_is_served(&server);
        // Other clients that share the token are served, too.
        assert_eq!(server.text("hello", json!({})), "hello");
        drop(stands);
    }
}

#[test]
fn a_message_of_a_byte_a_second_takes_nothing() {
    let project = project().trusted();
    let server = server(&project, &[]);
    let sized = head(&server, "content-length: 16777216\r\n");
    let mut slow: Vec<_> = (0..64).map(|_| write(&server, &[sized.as_bytes()])).collect();
    for _ in 0..3 {
        for stream in &mut slow {
            stream.write_all(b"{").unwrap();
        }
        other_is_served(&server);
    }
}

#[test]
fn halves_of_long_messages_take_the_space_of_their_caller_alone() {
    let project = project().trusted();
    let server = server(&project, &[]);
    let begin = vec![b' '; 128 << 10];
    for (head, chunk) in [
        (head(&server, "content-length: 16777216\r\n"), String::new()),
        (head(&server, "transfer-encoding: chunked\r\n"), format!("{:x}\r\n", 16 << 20)),
    ] {
        let stands: Vec<_> =
            (0..12).map(|_| write(&server, &[head.as_bytes(), chunk.as_bytes(), &begin])).collect();
        other_is_served(&server);
        let params = json!({"name": "hello", "arguments": {"input": "x".repeat(8 << 20)}});
        let started = Instant::now();
        let long = as_other(&server, "tools/call", params, &json!({})).answer().result();
        assert_eq!(long["content"][0]["text"], "hello");
        assert!(started.elapsed() < PROMPT, "{:?}", started.elapsed());
        assert_eq!(server.text("hello", json!({})), "hello", "a short message needs no space");
        drop(stands);
    }
}

#[test]
fn connections_of_one_token_keep_no_other_out() {
    let project = project().trusted();
    let server = server(&project, &[]);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }}});
    let headers = server.modern_headers("tools/list", &json!({}));
    // Each has shown its token, and stays open; some begin another request.
    let (mut open, mut refused) = (Vec::new(), 0);
    for number in 0..1_400 {
        let pending = server.send("POST", &headers, ping.to_string().as_bytes());
        let (status, mut stream) = pending.status_and_stream();
        match status {
            200 => {
                if number % 3 == 0 {
                    stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: local").unwrap();
                }
                open.push(stream);
            }
            status => {
                assert_eq!(status, 503);
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && open.len() > 16, "{} {refused}", open.len());
    other_is_served(&server);
    drop(open);
}

#[test]
fn connections_of_no_token_and_slow_heads_keep_no_caller_out() {
    let project = project().trusted();
    let server = server(&project, &[]);
    for begin in ["", "POST /mcp HTTP/1.1\r\n", "POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: "] {
        let stands: Vec<_> = (0..400).map(|_| write(&server, &[begin.as_bytes()])).collect();
        other_is_served(&server);
        drop(stands);
    }
}

#[test]
fn calls_that_do_not_end_leave_places_to_others() {
    let project = project().trusted();
    let server = server(&project, &["--max-calls", "3", "--timeout", "600"]);
    let endless = json!({"name": "endless", "arguments": {}});
    let stands: Vec<_> = (0..100).map(|_| server.start("tools/call", endless.clone())).collect();
    for _ in 0..3 {
        other_is_served(&server);
    }
    drop(stands);
}

#[test]
fn callers_take_turns_however_many_calls_wait() {
    let project =
        project().lua("short", "local n = 0; for i = 1, 300000 do n = n + i end return n").trusted();
    let server = server(&project, &["--max-calls", "1"]);
    let short = json!({"name": "short", "arguments": {}});
    let waiting: Vec<_> = (0..400).map(|_| server.start("tools/call", short.clone())).collect();
    other_is_served(&server);
    let last = waiting.into_iter().next_back().unwrap();
    assert!(!last.has_bytes(), "all calls of one caller were answered before the call of the other");
}

/// The beginning of a long text.
#[cfg(target_os = "linux")]
pub fn shown(text: &str) -> String {
    text.chars().take(300).collect()
}

/// The most memory that the server ever had.
#[cfg(target_os = "linux")]
pub fn peak_memory(process: &std::process::Child) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[cfg(target_os = "linux")]
#[test]
fn answers_that_nobody_reads_are_bounded_for_each_caller() {
    let large = "x".repeat(15 << 20);
    let project = project().lua("big", "return 1").file(".metier/skills/big/data.txt", &large);
    let project = project.trusted();
    let server = server(&project, &[]);
    let params = json!({"uri": "skill://big/data.txt"});
    let unread: Vec<_> = (0..100).map(|_| server.start("resources/read", params.clone())).collect();
    let mut session = server.session("2025-11-25");
    let in_session: Vec<_> = (0..20).map(|_| session.start("resources/read", params.clone()).1).collect();
    for _ in 0..5 {
        other_is_served(&server);
    }
    let own = as_other(&server, "resources/read", params, &json!({})).answer().result();
    assert_eq!(own["contents"][0]["text"].as_str().map(str::len), Some(large.len()));
    let mut unread = unread.into_iter();
    // Who reads gets all of it.
    let read = unread.next().unwrap().answer().result();
    assert_eq!(read["contents"][0]["text"].as_str().map(str::len), Some(large.len()));
    let peak = peak_memory(&server.child);
    assert!(peak < 450 << 20, "{} MiB", peak >> 20);
    drop((unread, in_session));
    assert_eq!(server.text("hello", json!({})), "hello");
}

#[cfg(target_os = "linux")]
#[test]
fn results_of_tasks_that_nobody_reads_are_bounded() {
    let image = "return {content = {{type = 'image', data = string.rep('A', 4 * 1000 * 1000), mimeType = 'image/png'}}}";
    let project = project().lua("image", image).trusted();
    let server = server(&project, &["--task-after", "0"]);
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let call = json!({"name": "image", "arguments": {}});
    let created = server.start_with("tools/call", call, &tasks, &[]).answer().result();
    let id = created["taskId"].as_str().unwrap().to_owned();
    let get = || server.start_with("tasks/get", json!({"taskId": id}), &tasks, &[("mcp-name", &id)]);
    let end = Instant::now() + Duration::from_mins(1);
    while get().answer().result()["status"] != "completed" {
        assert!(Instant::now() < end, "the task does not end");
    }
    let listen = json!({"notifications": {"taskIds": [&id]}});
    let mut unread: Vec<_> = (0..40).map(|_| get()).collect();
    unread.extend((0..10).map(|_| server.start_with("subscriptions/listen", listen.clone(), &tasks, &[])));
    for _ in 0..5 {
        other_is_served(&server);
    }
    // It is another caller's.
    let other = as_other(&server, "tasks/get", json!({"taskId": id}), &tasks).answer().message();
    assert_eq!(other["error"]["code"], -32602, "{other}");
    let peak = peak_memory(&server.child);
    assert!(peak < 450 << 20, "{} MiB", peak >> 20);
    drop(unread);
}

#[test]
fn tasks_of_one_caller_leave_places_to_those_of_others() {
    let project = project().trusted();
    let server = server(&project, &["--max-calls", "2", "--task-after", "0", "--timeout", "600"]);
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let endless = json!({"name": "endless", "arguments": {}});
    for number in 0..1_000 {
        let created = server.start_with("tools/call", endless.clone(), &tasks, &[]).answer().result();
        assert_eq!(created["resultType"], "task", "{number} {created}");
    }
    other_is_served(&server);
    let created = as_other(&server, "tools/call", endless, &tasks).answer().result();
    assert_eq!(created["resultType"], "task", "{created}");
}

#[test]
fn sessions_and_open_streams_of_one_caller_leave_those_of_others() {
    let project = project().trusted();
    let server = server(&project, &[]);
    let mut other = server.headers();
    other.retain(|(name, _)| name != "authorization");
    other.push(("authorization".to_owned(), format!("Bearer {OTHER}")));
    let mut first = server.session_with("2025-11-25", json!({}), &other);
    let busy: Vec<_> = (0..64).map(|_| server.session("2025-11-25")).collect();
    let streams: Vec<_> = busy.iter().map(|session| session.listen().events()).collect();
    assert_eq!(first.result("ping", json!({})), json!({}));
    let mut second = server.session_with("2025-11-25", json!({}), &other);
    assert_eq!(second.call("hello", json!({}))["content"][0]["text"], "hello");
    drop(streams);
}

#[test]
fn an_origin_is_the_servers_own_or_refused() {
    let project = project().trusted();
    let server = server(&project, &["--allow-host", "metier.example"]);
    let port = server.address.rsplit_once(':').unwrap().1;
    let own = format!("127.0.0.1:{port}");
    for (host, origin, status) in [
        (own.clone(), format!("http://127.0.0.1:{port}"), 200),
        (format!("localhost:{port}"), format!("http://localhost:{port}"), 200),
        (format!("metier.example:{port}"), format!("http://metier.example:{port}"), 200),
        ("metier.example".to_owned(), "https://metier.example".to_owned(), 200),
        (own.clone(), "https://metier.example".to_owned(), 200),
        (own.clone(), format!("https://127.0.0.1:{port}"), 403),
        (own.clone(), format!("http://127.0.0.9:{port}"), 403),
        (format!("127.0.0.9:{port}"), format!("http://127.0.0.9:{port}"), 403),
        (format!("[::1]:{port}"), format!("http://[::1]:{port}"), 403),
        (own.clone(), format!("http://localhost:{port}"), 403),
        (own.clone(), "http://127.0.0.1:1".to_owned(), 403),
        ("metier.example".to_owned(), "http://metier.example:9999".to_owned(), 403),
        ("metier.example:9999".to_owned(), "http://metier.example:9999".to_owned(), 403),
        (own, "http://metier.example".to_owned(), 403),
    ] {
        let params = json!({"name": "hello", "arguments": {}});
        let replaced = [("host", host.as_str()), ("origin", origin.as_str())];
        let answer = server.start_with("tools/call", params, &json!({}), &replaced).answer();
        assert_eq!(answer.status, status, "{host} {origin} {answer:?}");
    }
}

impl Pending {
    /// The status of the answer, which is read whole, and its connection, which stays open.
    fn status_and_stream(mut self) -> (u16, TcpStream) {
        let stream = self.stream().try_clone().unwrap();
        let answer = self.read_answer();
        (answer.status, stream)
    }

    /// Whether something of the answer is there.
    fn has_bytes(mut self) -> bool {
        let stream = self.stream();
        stream.set_nonblocking(true).unwrap();
        stream.read_exact(&mut [0; 1]).map_or_else(|error| error.kind() != ErrorKind::WouldBlock, |()| true)
    }
}
