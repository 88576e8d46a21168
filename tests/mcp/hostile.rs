//! What is not a message is answered or left out, and ends nothing.

use std::time::Duration;

use serde_json::{Value, json};

use crate::mcp::client::Client;
use crate::support::cli::Project;

fn client(project: &Project) -> Client {
    project.client(&[])
}

fn project() -> Project {
    Project::new().lua("hello", "return 'hello'").lua("endless", "while true do end").trusted()
}

/// The server answers as if nothing had happened.
#[track_caller]
fn is_alive(client: &mut Client) {
    assert_eq!(client.text("hello", json!({})), "hello");
}

#[test]
fn what_is_no_message_is_an_error_and_the_next_one_is_answered() {
    // SY-35
    let project = project();
    let mut client = client(&project);
    for (line, code) in [
        (&b"{"[..], -32700),
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
        (b"{\"jsonrpc\":\"2.0\",\"id\":{\"a\":1},\"method\":\"ping\"}", -32600),
    ] {
        client.send_raw(&[line, b"\n"].concat());
        let answer = client.next(Duration::from_secs(10)).unwrap_or(Value::Null);
        // A batch has an error for each of its requests.
        let error = answer.get(0).unwrap_or(&answer);
        assert_eq!(error["error"]["code"], code, "{}: {answer}", String::from_utf8_lossy(line));
        is_alive(&mut client);
    }
    for blank in ["\n", "\r\n", "   \n"] {
        client.send_raw(blank.as_bytes());
        is_alive(&mut client);
    }
}

#[test]
fn a_half_of_a_character_is_replaced_and_the_call_is_answered() {
    let project = Project::new().lua("echo", "return input").trusted();
    let mut client = client(&project);
    for (text, value) in
        [(r"cut \ud83d", "cut \u{fffd}"), (r"\ude00 \ud83d\ude00", "\u{fffd} 😀"), (r"\\ud83d", r"\ud83d")]
    {
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":700,"method":"tools/call","params":{{"name":"echo","arguments":{{"input":"{text}"}}}}}}"#
        );
        client.send_raw(format!("{call}\n").as_bytes());
        assert_eq!(client.response(700)["result"]["content"][0]["text"], value, "{text}");
    }
    client.send_raw("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":701,\"method\":\"ping\"}\r\n".as_bytes());
    assert_eq!(client.response(701)["result"], json!({}));
}

#[test]
fn a_half_pair_in_an_answer_of_a_person_is_an_answer() {
    let skill = "---\nname: writer\ndescription: d\nallowed-tools: write:out\n---\n";
    let project = Project::new()
        .lua("writer", "ctx.write('out/a.txt', 'x') return 'written'")
        .file(".metier/skills/writer/SKILL.md", skill)
        .file("out/keep", "")
        .trusted();
    let mut client = project.asking_client("2025-11-25", &[]);
    let id = client.start("tools/call", json!({"name": "writer", "arguments": {}}));
    let question = client.wait_for(|message| message["method"] == "elicitation/create");
    let content = r#"{"answer":"once","note":"\ud83d"}"#;
    let answer = format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"accept","content":{content}}}}}"#,
        question["id"]
    );
    client.send_raw(format!("{answer}\n").as_bytes());
    assert_eq!(client.response(id)["result"]["content"][0]["text"], "written");
}

/// What is wrong with a request whose id is 7, and the code of the answer.
pub const BROKEN_REQUESTS: [(&str, i64); 17] = [
    (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":1,"a":2}}"#, -32700),
    (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":18446744073709551616}}"#, -32700),
    (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":1e400}}"#, -32700),
    (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":NaN}}"#, -32700),
    (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":'x'}}"#, -32700),
    (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"\ud83d":1,"\ud83e":2}}"#, -32700),
    (r#"{"method":"ping","params":{"a":[{"id":1},]},"jsonrpc":"2.0","id":7}"#, -32700),
    (r#"{"jsonrpc":"2.0","id":7,"method":"ping","#, -32700),
    (r#"{"jsonrpc":"2.0","id":7,"method":"ping"}{}"#, -32700),
    ("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"params\":{\"a\":\"\u{1}\"}}", -32700),
    (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, -32600),
    (r#"{"id":7,"method":"ping"}"#, -32600),
    (r#"{"jsonrpc":2,"id":7,"method":"ping"}"#, -32600),
    (r#"{"jsonrpc":"2.0","id":7}"#, -32600),
    (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, -32600),
    (r#"{"jsonrpc":"2.0","id":7,"method":null,"params":{}}"#, -32600),
    (r#"{"jsonrpc":"2.0","id":7,"method":["ping"]}"#, -32600),
];

#[test]
fn a_request_that_cannot_be_read_is_answered_with_its_id() {
    let project = project();
    let mut client = client(&project);
    for (line, code) in BROKEN_REQUESTS {
        client.send_raw(format!("{line}\n").as_bytes());
        let answer = client.next(Duration::from_secs(10)).unwrap_or(Value::Null);
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(code)), "{line}: {answer}");
    }
    for id in ["1.5", "18446744073709551615", "-9223372036854775809", "123456789012345678901234567890"] {
        client.send_raw(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n").as_bytes());
        let answer = client.next(Duration::from_secs(10)).unwrap_or(Value::Null);
        let expected: Value = serde_json::from_str(id).unwrap();
        assert_eq!(answer["id"], expected, "{answer}");
        assert!(answer["error"]["code"].is_i64(), "{answer}");
    }
    // An answer that cannot be read is not answered as if it were a request.
    client.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":1,\"a\":2}}\n");
    let answer = client.next(Duration::from_secs(10)).unwrap();
    assert!(answer.get("id").is_none() && answer["error"]["code"] == -32700, "{answer}");
    is_alive(&mut client);
}

#[test]
fn parameters_of_the_wrong_type_are_answered_with_the_id() {
    let project = project();
    let mut client = client(&project);
    for params in [
        r#""x""#,
        "[]",
        "[1]",
        "7",
        "true",
        "null",
        r#"{"name":null}"#,
        r#"{"name":"hello","arguments":"x"}"#,
        r#"{"name":"hello","_meta":7}"#,
    ] {
        for method in [
            "tools/call",
            "tools/list",
            "initialize",
            "ping",
            "no/such",
            "resources/read",
            "completion/complete",
            "notifications/initialized",
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":800,"method":"{method}","params":{params}}}"#);
            client.send_raw(format!("{line}\n").as_bytes());
            let answer = client.response(800);
            assert!(answer.get("result").is_some() != answer.get("error").is_some(), "{line}: {answer}");
        }
    }
    is_alive(&mut client);
}

#[test]
fn deep_nesting_ends_nothing() {
    let project = project();
    let mut client = client(&project);
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        client.send_raw(
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{deep}}}\n").as_bytes(),
        );
        let answer = client.next(Duration::from_secs(10)).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32700)));
        is_alive(&mut client);
    }
}

#[test]
fn a_line_that_is_too_long_is_refused_and_the_next_one_is_answered() {
    let project = project();
    let mut client = client(&project);
    let part = vec![b'x'; 1 << 20];
    for _ in 0..20 {
        client.send_raw(&part);
    }
    client.send_raw(b"\n");
    let answer = client.next(Duration::from_secs(10)).unwrap();
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    for (before, after) in [
        (r#"{"id":7,"method":"ping","params":""#, r#""}"#),
        (r#"{"method":"ping","params":""#, r#"","jsonrpc":"2.0","id":7}"#),
    ] {
        client.send_raw(before.as_bytes());
        for _ in 0..20 {
            client.send_raw(&part);
        }
        client.send_raw(format!("{after}\n").as_bytes());
        let answer = client.next(Duration::from_secs(10)).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32600)), "{answer}");
    }
    is_alive(&mut client);
}

#[test]
fn methods_and_parameters_that_do_not_exist_are_errors() {
    let project = project();
    let mut client = client(&project);
    for (method, params, code) in [
        ("no/such", json!({}), -32601),
        ("tasks/get", json!({"taskId": "1"}), -32602),
        ("tasks/update", json!({"taskId": "1", "inputResponses": {}}), -32601),
        ("sampling/createMessage", json!({}), -32601),
        ("\u{1b}[31m", json!({}), -32601),
        ("tools/call", json!({}), -32602),
        ("tools/call", json!({"name": 1}), -32602),
        ("tools/call", json!({"name": "hello", "arguments": [1]}), -32602),
        ("tools/list", json!({"cursor": "-1"}), -32602),
        ("tools/list", json!({"cursor": "99999999999999999999"}), -32602),
        ("prompts/get", json!({"name": "nope"}), -32602),
        ("resources/read", json!({"uri": "file:///etc/passwd"}), -32002),
        ("resources/read", json!({"uri": "skill://hello/../endless/SKILL.md"}), -32002),
        ("resources/read", json!({"uri": "skill://hello/%2e%2e/endless/SKILL.md"}), -32002),
        ("resources/read", json!({"uri": "metier://result/00000000000000000000000000000000"}), -32002),
        ("resources/directory/read", json!({"uri": "skill://hello/nope"}), -32602),
        ("skills/get", json!({"uri": "skill://hello/scripts/main.lua"}), -32602),
    ] {
        let answer = client.request(method, params.clone());
        assert_eq!(answer["error"]["code"], code, "{method} {params}: {answer}");
        assert!(!answer.to_string().contains('\u{1b}'));
    }
    is_alive(&mut client);
}

#[test]
fn an_id_is_used_once_at_a_time() {
    let project = project();
    let mut client = client(&project);
    let id = client.start("tools/call", json!({"name": "endless", "arguments": {}}));
    client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
    assert_eq!(client.response(id)["error"]["code"], -32600);
    client.notify("notifications/cancelled", json!({"requestId": id}));
    for odd in [json!({}), json!({"requestId": {}}), json!({"requestId": "never"})] {
        client.notify("notifications/cancelled", odd);
    }
    for id in [json!("text"), json!(""), json!(-1), json!(i64::MAX), json!("x".repeat(100_000))] {
        client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        assert_eq!(client.wait_for(|message| message["id"] == id)["result"], json!({}));
    }
    is_alive(&mut client);
}

#[test]
fn answers_that_nobody_asked_for_are_left_out() {
    let project = project();
    let mut client = client(&project);
    client.send(&json!({"jsonrpc": "2.0", "id": 5, "result": {}}));
    client.send(&json!({"jsonrpc": "2.0", "id": 6, "error": {"code": 1, "message": "x"}}));
    client.send(&json!({"jsonrpc": "2.0", "error": {"code": 1, "message": "x"}}));
    client.notify("notifications/never/heard/of", json!({"a": 1}));
    client.notify("notifications/initialized", json!({}));
    is_alive(&mut client);
}

#[test]
fn half_a_line_is_no_message_and_the_end_is_no_error() {
    let project = project();
    let mut client = client(&project);
    is_alive(&mut client);
    client.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"pi");
    client.close();
    let (code, stderr) = client.wait();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(client.next(Duration::from_secs(1)).is_none());
}

#[test]
fn a_client_that_says_nothing_and_one_that_speaks_another_protocol_end() {
    let project = project();
    let mut silent = project.silent_client(&[]);
    silent.close();
    assert_eq!(silent.wait().0, Some(0));
    let mut other = project.silent_client(&[]);
    other.send_raw(b"GET / HTTP/1.1\r\n\r\n");
    other.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let (code, stderr) = other.wait();
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("not a request of the Model Context Protocol"), "{stderr}");
}

#[test]
fn requests_before_the_handshake_are_refused() {
    let project = project();
    let mut client = project.silent_client(&[]);
    let answer = client.request("tools/call", json!({"name": "hello", "arguments": {}}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    for params in [json!({}), json!({"protocolVersion": 1}), json!("x"), Value::Null] {
        assert!(client.request("initialize", params)["error"]["code"].is_i64());
    }
    client.initialize("2025-06-18");
    is_alive(&mut client);
}

/// Over standard streams there is one client; what it does not read is bounded nevertheless.
#[cfg(target_os = "linux")]
#[test]
fn answers_that_a_client_does_not_read_are_bounded() {
    use std::io::{BufRead, BufReader, Write};
    const READS: usize = 300;
    let large = "x".repeat(8 << 20);
    let project = project().file(".metier/skills/hello/data.txt", &large).trusted();
    let mut command = project.command(&["mcp"]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let mut send = |message: Value| writeln!(input, "{message}").unwrap();
    send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
    send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    for id in 1..=READS {
        let params = json!({"uri": "skill://hello/data.txt"});
        send(json!({"jsonrpc": "2.0", "id": id, "method": "resources/read", "params": params}));
    }
    // The server has handled what it will when these have come: it goes on while they are read.
    let mut line = String::new();
    for _ in 0..=20 {
        line.clear();
        output.read_line(&mut line).unwrap();
    }
    assert!(line.len() > large.len(), "{}", crate::mcp::http_callers::shown(&line));
    let peak = crate::mcp::http_callers::peak_memory(&child);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(peak < 350 << 20, "{} MiB", peak >> 20);
}

#[test]
fn requests_that_come_faster_than_they_are_answered_are_all_answered() {
    const REQUESTS: usize = 30_000;
    let project = project();
    let mut client = client(&project);
    let burst: String = (0..REQUESTS)
        .map(|number| {
            json!({"jsonrpc": "2.0", "id": format!("burst-{number}"), "method": "ping"}).to_string() + "\n"
        })
        .collect();
    client.send_raw(burst.as_bytes());
    for _ in 0..REQUESTS {
        let answer =
            client.wait_for(|message| message["id"].as_str().is_some_and(|id| id.starts_with("burst-")));
        assert_eq!(answer["error"], Value::Null, "{answer}");
    }
    is_alive(&mut client);
}
