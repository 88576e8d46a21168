//! Over HTTP everyone on the machine, and every web page in a browser on it, can try: nothing runs for them, and nothing ends.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::mcp::http_client::HttpServer;
use crate::support::cli::Project;

fn project() -> Project {
    Project::new()
        .lua("hello", "return 'hello'")
        .lua("touch", "ctx.write('out/touched', 'x')")
        .file(
            ".metier/skills/touch/SKILL.md",
            "---\nname: touch\ndescription: d\nallowed-tools: write:out\n---\n",
        )
        .file("out/keep", "")
        .trusted()
}

#[track_caller]
fn is_alive(server: &HttpServer) {
    assert_eq!(server.text("hello", json!({})), "hello");
}

#[test]
fn who_has_no_token_or_comes_from_elsewhere_runs_nothing() {
    let project = project();
    let server = project.http_server(&["--allow", "write:out"]);
    let token = format!("Bearer {}", server.token.as_ref().unwrap());
    let other = if token.ends_with('0') { '1' } else { '0' };
    let almost = format!("{}{other}", &token[..token.len() - 1]);
    let port = server.address.rsplit_once(':').unwrap().1;
    for (replaced, status) in [
        (&[("authorization", "")][..], 401),
        (&[("authorization", almost.as_str())], 401),
        (&[("authorization", "Bearer ")], 401),
        (&[("authorization", "Basic dXNlcjpwYXNz")], 401),
        (&[("host", "evil.example")], 403),
        (&[("host", &format!("evil.example:{port}"))], 403),
        (&[("host", "")], 403),
        (&[("host", "192.168.0.1")], 403),
        (&[("origin", "https://evil.example")], 403),
        (&[("origin", "null")], 403),
        (&[("origin", "http://localhost:1")], 403),
        (&[("host", "evil.example"), ("origin", "http://evil.example")], 403),
    ] {
        let params = json!({"name": "touch", "arguments": {}});
        let answer = server.start_with("tools/call", params, &json!({}), replaced).answer();
        assert_eq!(answer.status, status, "{replaced:?} {answer:?}");
        assert!(!project.path("out/touched").exists());
        if status == 401 {
            assert_eq!(answer.headers["www-authenticate"], "Bearer realm=\"metier\"");
        }
        // A page of another origin may not even read why.
        assert!(!answer.headers.keys().any(|name| name.starts_with("access-control")), "{answer:?}");
    }
    let mut preflight = server.headers();
    preflight.retain(|(name, _)| name != "authorization");
    preflight.push(("origin".to_owned(), format!("http://127.0.0.1:{port}")));
    assert_eq!(server.send("OPTIONS", &preflight, b"").answer().status, 401);
    assert_eq!(server.send("GET", &server.headers()[..3], b"").answer().status, 401);
    is_alive(&server);
}

#[test]
fn what_is_no_message_is_an_error_and_runs_nothing() {
    let project = project();
    let server = project.http_server(&[]);
    let headers = server.modern_headers("tools/call", &json!({"name": "hello"}));
    for (body, code) in [
        (&b""[..], -32700),
        (b"{", -32700),
        (b"\xff\xfe\x00", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"hello\",\"arguments\":{\"input\":18446744073709551616}}}", -32700),
        (b"null", -32600),
        (b"[]", -32600),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600),
        (b"{}", -32600),
        (b"{\"jsonrpc\":\"1.0\",\"id\":77,\"method\":\"ping\"}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", -32600),
    ] {
        let answer = server.send("POST", &headers, body).answer();
        assert_eq!(answer.status, 400, "{answer:?}");
        let message = answer.message();
        let error = message.get(0).unwrap_or(&message);
        assert_eq!(error["error"]["code"], code, "{}", String::from_utf8_lossy(body));
    }
    for depth in [1_000, 100_000] {
        let deep = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{}1{}}}",
            "[".repeat(depth),
            "]".repeat(depth)
        );
        assert_eq!(server.send("POST", &headers, deep.as_bytes()).answer().status, 400);
    }
    is_alive(&server);
}

#[test]
fn a_request_that_cannot_be_read_is_answered_with_its_id() {
    let project = Project::new().lua("echo", "return input").trusted();
    let server = project.http_server(&[]);
    let headers = server.modern_headers("tools/call", &json!({"name": "echo"}));
    for (body, code) in crate::mcp::hostile::BROKEN_REQUESTS {
        let answer = server.send("POST", &headers, body.as_bytes()).answer();
        let message = answer.message();
        assert_eq!(
            (answer.status, &message["id"], &message["error"]["code"]),
            (400, &json!(7), &json!(code)),
            "{body}"
        );
    }
    let large = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":"{}"}}"#, "x".repeat(16 << 20));
    let answer = server.send("POST", &headers, large.as_bytes()).answer();
    assert_eq!((answer.status, &answer.message()["id"]), (413, &json!(7)));
    let mut session = server.session("2025-11-25");
    let call = r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"echo","arguments":{"input":"cut \ud83d"}}}"#;
    let answer = server.send("POST", &session.headers, call.as_bytes()).answer().message();
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(9), &json!("cut \u{fffd}")));
    assert_eq!(session.result("ping", json!({})), json!({}));
}

#[test]
fn headers_that_contradict_the_message_are_refused() {
    let project = project();
    let server = project.http_server(&[]);
    let params = json!({"name": "hello", "arguments": {}});
    for (name, value) in [
        ("mcp-method", "tools/list"),
        ("mcp-name", "touch"),
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-protocol-version", "1999-01-01"),
        ("content-type", "text/plain"),
        ("accept", "text/html"),
    ] {
        let answer = server.start_with("tools/call", params.clone(), &json!({}), &[(name, value)]).answer();
        assert!((400..500).contains(&answer.status), "{name}: {value} {answer:?}");
    }
    let answer = server.start("no/such", json!({})).answer();
    assert_eq!((answer.status, &answer.message()["error"]["code"]), (404, &json!(-32601)));
    let mut session = server.session("2025-11-25");
    assert_eq!(session.start("no/such", json!({})).1.answer().message()["error"]["code"], -32601);
    session.headers.retain(|(name, _)| name != "mcp-session-id");
    assert_eq!(session.start("ping", json!({})).1.answer().status, 400);
    for id in ["", "x", "00000000000000000000000000000000"] {
        let mut guessed = session.headers.clone();
        guessed.push(("mcp-session-id".to_owned(), id.to_owned()));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
        assert_eq!(server.send("POST", &guessed, body.as_bytes()).answer().status, 404, "{id:?}");
    }
    is_alive(&server);
}

#[test]
fn an_id_is_used_once_at_a_time_in_a_session() {
    let project = project().lua("endless", "while true do end").trusted();
    let server = project.http_server(&[]);
    let mut session = server.session("2025-11-25");
    let (id, first) = session.start("tools/call", json!({"name": "endless", "arguments": {}}));
    std::thread::sleep(Duration::from_millis(200));
    let again = session.post(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"})).answer();
    assert_eq!(again.message()["error"]["code"], -32600, "{again:?}");
    first.close();
    // Answers and notifications that nobody expects change nothing.
    for odd in [
        json!({"jsonrpc": "2.0", "id": 5, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 6, "error": {"code": 1, "message": "x"}}),
        json!({"jsonrpc": "2.0", "method": "notifications/never/heard/of"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "never"}}),
    ] {
        assert_eq!(session.post(&odd).answer().status, 202, "{odd}");
    }
    assert_eq!(session.result("ping", json!({})), json!({}));
}

#[test]
fn a_body_that_is_too_large_or_never_comes_is_refused() {
    let project = project();
    let server = project.http_server(&[]);
    let mut headers = server.modern_headers("tools/call", &json!({"name": "hello"}));
    let large = vec![b' '; (16 << 20) + 1];
    let answer = server.send("POST", &headers, &large).answer();
    assert_eq!((answer.status, &answer.message()["error"]["code"]), (413, &json!(-32600)));
    // Of unknown length, and of one that is promised only.
    headers.push(("transfer-encoding".to_owned(), "chunked".to_owned()));
    let mut stream = server.connect();
    let mut head = "POST /mcp HTTP/1.1\r\n".to_owned();
    for (name, value) in &headers {
        head.extend([format!("{name}: {value}\r\n")]);
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    let chunk = [&b"100000\r\n"[..], &vec![b' '; 1 << 20], b"\r\n"].concat();
    for _ in 0..20 {
        // The server may close the connection before it has read all.
        if stream.write_all(&chunk).is_err() {
            break;
        }
    }
    let mut text = String::new();
    stream.read_to_string(&mut text).ok();
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 413"), "{text}");
    for head in [
        "POST /mcp HT",
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\n",
        "\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\0\0\0\0",
    ] {
        server.connect().write_all(head.as_bytes()).unwrap();
        is_alive(&server);
    }
    let endless = format!("POST /mcp HTTP/1.1\r\nx: {}", "y".repeat(1 << 20));
    let mut stream = server.connect();
    stream.write_all(endless.as_bytes()).ok();
    stream.read_to_string(&mut text).ok();
    is_alive(&server);
}

#[test]
fn connections_that_say_nothing_keep_nobody_out() {
    let project = project();
    let server = project.http_server(&[]);
    let silent: Vec<_> = (0..400).map(|_| server.connect()).collect();
    let started = Instant::now();
    is_alive(&server);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    // The oldest were closed to make space.
    let mut first = &silent[0];
    assert_eq!(first.read(&mut [0; 1]).unwrap_or(0), 0);
}

#[test]
fn thousands_of_calls_at_a_time_are_all_answered() {
    const CALLS: usize = 1_500;
    let project = Project::new().lua("double", "return {n = input.n * 2}").trusted();
    let server = project.http_server(&["--max-calls", "4"]);
    let params = |n: usize| json!({"name": "double", "arguments": {"input": {"n": n}}});
    let pending: Vec<_> = (0..CALLS).map(|n| server.start("tools/call", params(n))).collect();
    for (n, pending) in pending.into_iter().enumerate() {
        let answer = pending.answer();
        assert_eq!(answer.result()["structuredContent"]["n"], n * 2, "{n} {answer:?}");
    }
}

#[test]
fn results_of_100_mb_and_clients_that_read_nothing_end_nothing() {
    let project = Project::new()
        .lua("hello", "return 'hello'")
        .lua("huge", "return string.rep('x', 100 * 1000 * 1000)")
        .lua("image", "return {content = {{type = 'image', data = string.rep('A', 4 * 1000 * 1000), mimeType = 'image/png'}}}")
        .trusted();
    let server = project.http_server(&["--memory", "400MB", "--output", "200MB"]);
    let result = server.call("huge", json!({}));
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(result["isError"] == false && text.len() < 41_000, "it is cut");
    assert!(result["content"].as_array().unwrap().len() == 1, "more than a caller may keep has no link");
    let limited = project.http_server(&[]).call("huge", json!({}));
    assert_eq!(limited["isError"], true, "beyond the limits");
    // Each answer of some 4 MB is not read; further calls are answered nevertheless.
    let unread: Vec<_> =
        (0..12).map(|_| server.start("tools/call", json!({"name": "image", "arguments": {}}))).collect();
    is_alive(&server);
    drop(unread);
    is_alive(&server);
}

#[test]
fn a_skill_that_changes_between_approval_and_call_is_asked_about_again() {
    let project = project();
    let server = project.http_server(&[]);
    let asking = json!({"elicitation": {"form": {}}});
    let mut params = json!({"name": "touch", "arguments": {}});
    let question = server.start_with("tools/call", params.clone(), &asking, &[]).answer().result();
    crate::mcp::write(&project, ".metier/skills/touch/scripts/main.lua", "ctx.write('out/touched', 'evil')");
    params["requestState"] = question["requestState"].clone();
    params["inputResponses"] = json!({"approval": {"action": "accept", "content": {"answer": "once"}}});
    let again = server.start_with("tools/call", params.clone(), &asking, &[]).answer().result();
    assert_eq!(again["resultType"], "input_required", "{again}");
    assert!(!project.path("out/touched").exists());
    // An altered state, and one of another server.
    let mut altered = params.clone();
    let state = question["requestState"].as_str().unwrap();
    altered["requestState"] = json!(format!("{}x", &state[..state.len() - 1]));
    let other = project.http_server(&[]);
    for (server, params) in [(&server, altered), (&other, params)] {
        let refused = server.start_with("tools/call", params, &asking, &[]).answer().message();
        assert_eq!(refused["error"]["data"]["kind"], "denied", "{refused}");
    }
    assert!(!project.path("out/touched").exists());
}

#[test]
fn sessions_of_a_caller_are_bounded() {
    let project = project();
    let server = project.http_server(&[]);
    let busy: Vec<_> = (0..64).map(|_| server.session("2025-11-25")).collect();
    let streams: Vec<_> = busy.iter().map(|session| session.listen().events()).collect();
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let refused = server.send("POST", &server.headers(), message.to_string().as_bytes()).answer();
    assert_eq!((refused.status, refused.headers["retry-after"].as_str()), (503, "10"), "{refused:?}");
    drop(streams);
    let end = Instant::now() + Duration::from_secs(20);
    while server.send("POST", &server.headers(), message.to_string().as_bytes()).answer().status != 200 {
        assert!(Instant::now() < end, "no session ends");
        std::thread::sleep(Duration::from_millis(50));
    }
}
