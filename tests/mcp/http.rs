//! The server over HTTP: the same skills for many clients, each call ended with its connection.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::mcp::http_client::HttpServer;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
use crate::mcp::processes::{processes, wait_until};
use crate::support::cli::Project;

fn project() -> Project {
    Project::new()
        .lua("hello", "return 'hello ' .. (input.name or '')")
        .lua("steps", "for i = 1, 3 do ctx.progress('step ' .. i, i, 3) end return 'end'")
        .lua("large", "return string.rep('x', 100000)")
        .lua("writer", "ctx.write('out/a.txt', 'x') return 'written'")
        .file(
            ".metier/skills/writer/SKILL.md",
            "---\nname: writer\ndescription: d\nallowed-tools: write:out\n---\n",
        )
        .file("out/keep", "")
        .trusted()
}

fn answer(choice: &str) -> Value {
    json!({"action": "accept", "content": {"answer": choice}})
}

#[test]
fn each_revision_lists_and_calls() {
    let project = project();
    let server = project.http_server(&[]);
    let tools = server.result("tools/list", json!({}));
    assert!(tools["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "hello"), "{tools}");
    assert_eq!(server.text("hello", json!({"input": {"name": "you"}})), "hello you");
    for revision in ["2025-06-18", "2025-11-25"] {
        let mut session = server.session(revision);
        assert_eq!(session.result("tools/list", json!({}))["tools"], {
            let mut other = server.session(revision);
            other.result("tools/list", json!({}))["tools"].clone()
        });
        let result = session.call("hello", json!({"input": {"name": "you"}}));
        assert_eq!(result["content"][0]["text"], "hello you");
        let read = session.result("resources/read", json!({"uri": "skill://hello/SKILL.md"}));
        assert!(read["contents"][0]["text"].as_str().unwrap().contains("name: hello"), "{read}");
    }
    let (code, stderr) = server.stop();
    assert_eq!(code, Some(0), "{stderr}");
}

/// The headers of a client that accepts this.
fn accepting(headers: &[(String, String)], accept: Option<&str>) -> Vec<(String, String)> {
    let mut headers = headers.to_vec();
    headers.retain(|(name, _)| name != "accept");
    headers.extend(accept.map(|accept| ("accept".to_owned(), accept.to_owned())));
    headers
}

#[test]
fn an_answer_has_a_form_that_the_client_accepts() {
    const JSON: &str = "application/json";
    const EVENTS: &str = "text/event-stream";
    let project = project();
    let server = project.http_server(&[]);
    let call = json!({"name": "hello", "arguments": {}});
    let modern_call = HttpServer::modern_message_text("tools/call", &call);
    let session = server.session("2025-11-25");
    let session_call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": call}).to_string();
    for (accept, kind) in [
        (None, JSON),
        (Some("*/*"), JSON),
        (Some(JSON), JSON),
        (Some("application/*"), JSON),
        (Some("application/json;q=0.5, text/html"), JSON),
        (Some(EVENTS), EVENTS),
        (Some("text/*;q=0.1"), EVENTS),
    ] {
        for (headers, body) in [
            (server.modern_headers("tools/call", &call), &modern_call),
            (session.headers.clone(), &session_call),
        ] {
            let answer = server.send("POST", &accepting(&headers, accept), body.as_bytes()).answer();
            assert_eq!((answer.status, answer.headers["content-type"].as_str()), (200, kind), "{accept:?}");
            assert_eq!(answer.result()["content"][0]["text"], "hello ", "{accept:?}");
        }
    }
    for accept in ["text/html", "application/json;q=0", "image/*"] {
        let headers = accepting(&server.modern_headers("tools/call", &call), Some(accept));
        let answer = server.send("POST", &headers, modern_call.as_bytes()).answer();
        assert_eq!(answer.status, 406, "{accept} {answer:?}");
        assert!(answer.body.contains("application/json or text/event-stream"), "{answer:?}");
        assert_eq!(server.send("GET", &accepting(&session.headers, Some(accept)), b"").answer().status, 406);
    }
    assert_eq!(server.send("GET", &accepting(&session.headers, Some(JSON)), b"").answer().status, 406);
    server.send("GET", &accepting(&session.headers, Some("*/*")), b"").events();
}

#[test]
fn a_client_that_accepts_no_stream_has_sessions_and_the_response_alone() {
    let project = project();
    let server = project.http_server(&[]);
    let plain = accepting(&server.headers(), Some("application/json"));
    let mut session = server.session_with("2025-11-25", json!({"elicitation": {}}), &plain);
    let params = json!({"name": "steps", "arguments": {}, "_meta": {"progressToken": 1}});
    let answer = session.start("tools/call", params.clone()).1.answer();
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.result()["content"][0]["text"], "end");
    // A question has nowhere to go, and nobody waits for its answer.
    let started = Instant::now();
    let refused = session.call("writer", json!({}));
    assert_eq!(refused["_meta"]["metier/error"]["kind"], "denied", "{refused}");
    assert!(started.elapsed() < Duration::from_secs(30) && !project.path("out/a.txt").exists());
    // Who accepts everything gets a stream where there is more than the response.
    let curl = accepting(&server.modern_headers("tools/call", &params), Some("*/*"));
    let body = HttpServer::modern_message_text("tools/call", &params);
    let answer = server.send("POST", &curl, body.as_bytes()).answer();
    assert_eq!((answer.headers["content-type"].as_str(), answer.messages().len()), ("text/event-stream", 4));
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let headers =
        accepting(&server.modern_headers("subscriptions/listen", &listen), Some("application/json"));
    let body = HttpServer::modern_message_text("subscriptions/listen", &listen);
    assert_eq!(server.send("POST", &headers, body.as_bytes()).answer().status, 406);
}

#[test]
fn the_path_may_end_with_a_slash_and_other_paths_say_where_the_server_is() {
    let project = project();
    let server = project.http_server(&[]);
    let params = json!({});
    let (headers, body) = (
        server.modern_headers("tools/list", &params),
        HttpServer::modern_message_text("tools/list", &params),
    );
    for (path, status) in [("/mcp", 200), ("/mcp/", 200), ("/mcp//", 404), ("/", 404), ("/mcp/x", 404)] {
        let answer = server.send_to(path, "POST", &headers, body.as_bytes()).answer();
        assert_eq!(answer.status, status, "{path}");
        assert!(status == 200 || answer.body.contains("the server is at /mcp"), "{answer:?}");
    }
}

#[test]
fn progress_comes_before_the_response() {
    let project = project();
    let server = project.http_server(&[]);
    let params = json!({"name": "steps", "arguments": {}, "_meta": {"progressToken": "mine"}});
    let mut session = server.session("2025-11-25");
    for pending in [server.start("tools/call", params.clone()), session.start("tools/call", params).1] {
        let mut events = pending.events();
        let mut texts = Vec::new();
        let response = loop {
            let message = events.next().unwrap();
            if message["method"] != "notifications/progress" {
                break message;
            }
            assert_eq!(message["params"]["progressToken"], "mine");
            texts.push(message["params"]["message"].as_str().unwrap().to_owned());
        };
        assert_eq!(texts, ["step 1", "step 2", "step 3"]);
        assert_eq!(response["result"]["content"][0]["text"], "end");
        assert_eq!(events.next(), None);
    }
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_dropped_connection_ends_the_whole_process_tree() {
    let project =
        Project::new().shell("tree", "sleep 4321.151 & (sleep 4321.152 & sleep 4321.153) & wait").trusted();
    let server = project.http_server(&[]);
    let params = json!({"name": "tree", "arguments": {}});
    let pending = server.start("tools/call", params.clone());
    wait_until(|| processes("4321.15") == 3);
    pending.close();
    wait_until(|| processes("4321.15") == 0);
    // With a progress token the answer has begun before the call ends.
    let mut session = server.session("2025-11-25");
    let (_, pending) = session.start("tools/call", params.clone());
    wait_until(|| processes("4321.15") == 3);
    pending.close();
    wait_until(|| processes("4321.15") == 0);
    // A cancelled call of a session ends without a response, and so does one of a session that ends.
    let (id, pending) = session.start("tools/call", params.clone());
    wait_until(|| processes("4321.15") == 3);
    assert_eq!(session.notify("notifications/cancelled", json!({"requestId": id})).status, 202);
    wait_until(|| processes("4321.15") == 0);
    assert_eq!(pending.answer().messages(), Vec::<Value>::new());
    let (_, pending) = session.start("tools/call", params);
    wait_until(|| processes("4321.15") == 3);
    assert_eq!(session.end().status, 204);
    wait_until(|| processes("4321.15") == 0);
    assert_eq!(pending.answer().messages(), Vec::<Value>::new());
    assert_eq!(session.listen().answer().status, 404, "the session has ended");
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn the_end_of_the_server_ends_what_runs() {
    let project = Project::new().shell("tree", "sleep 4321.161 & wait").trusted();
    let server = project.http_server(&[]);
    let _pending = server.start("tools/call", json!({"name": "tree", "arguments": {}}));
    wait_until(|| processes("4321.161") == 1);
    let started = Instant::now();
    let (code, stderr) = server.stop();
    assert_eq!((code, processes("4321.161")), (Some(0), 0), "{stderr}");
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
}

#[test]
fn a_large_result_is_read_by_the_caller_that_got_its_link_and_by_no_other() {
    let project = project().file("tokens", "the-token-of-the-first\n\nthe-token-of-the-second\n");
    restrict(&project, 0o600);
    let mut server = project.http_server(&["--token-file", "tokens"]);
    let link = |server: &HttpServer| {
        let uri = server.call("large", json!({}))["content"][2]["uri"].clone();
        server.start("resources/read", json!({"uri": uri})).answer().result();
        uri
    };
    server.token = Some("the-token-of-the-first".to_owned());
    let uri = link(&server);
    let first = server.headers();
    server.token = Some("the-token-of-the-second".to_owned());
    link(&server);
    let refused = server.start("resources/read", json!({"uri": uri})).answer().message();
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    // The session of one caller is none for another.
    let mut session = server.session_with("2025-11-25", json!({}), &first);
    assert_eq!(session.result("ping", json!({})), json!({}));
    session.headers.retain(|(name, _)| name != "authorization");
    session.headers.push(("authorization".to_owned(), "Bearer the-token-of-the-second".to_owned()));
    assert_eq!(session.start("ping", json!({})).1.answer().status, 404);
    assert_eq!(session.listen().answer().status, 404);
}

#[test]
fn a_question_is_answered_by_the_caller_that_was_asked() {
    let project = project().file("tokens", "the-token-of-the-first\nthe-token-of-the-second\n");
    restrict(&project, 0o600);
    let mut server = project.http_server(&["--token-file", "tokens"]);
    let asking = json!({"elicitation": {"form": {}}});
    server.token = Some("the-token-of-the-first".to_owned());
    let params = json!({"name": "writer", "arguments": {}});
    let question = server.start_with("tools/call", params.clone(), &asking, &[]).answer().result();
    assert_eq!(question["resultType"], "input_required", "{question}");
    let mut answered = params;
    answered["requestState"] = question["requestState"].clone();
    answered["inputResponses"] = json!({"approval": answer("once")});
    // Borrowed, then used, then used again.
    let call = |server: &HttpServer| {
        server.start_with("tools/call", answered.clone(), &asking, &[]).answer().message()
    };
    server.token = Some("the-token-of-the-second".to_owned());
    let borrowed = call(&server);
    assert!(borrowed["error"]["message"].as_str().unwrap().contains("does not belong"), "{borrowed}");
    assert!(!project.path("out/a.txt").exists());
    server.token = Some("the-token-of-the-first".to_owned());
    assert_eq!(call(&server)["result"]["content"][0]["text"], "written");
    let again = call(&server);
    assert!(again["error"]["message"].as_str().unwrap().contains("used before"), "{again}");
}

#[test]
fn a_session_is_asked_on_the_answer_to_its_call() {
    let project = project();
    let server = project.http_server(&[]);
    let mut session = server.session_with("2025-11-25", json!({"elicitation": {}}), &server.headers());
    let (_, pending) = session.start("tools/call", json!({"name": "writer", "arguments": {}}));
    let mut events = pending.events();
    let question = events.next().unwrap();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    assert!(!project.path("out/a.txt").exists());
    let reply = json!({"jsonrpc": "2.0", "id": question["id"], "result": answer("once")});
    assert_eq!(session.post(&reply).answer().status, 202);
    assert_eq!(events.next().unwrap()["result"]["content"][0]["text"], "written");
}

#[test]
fn lists_that_change_are_announced() {
    let project = project();
    let server = project.http_server(&[]);
    let session = server.session("2025-11-25");
    let mut events = session.listen().events();
    let params = json!({"notifications": {"toolsListChanged": true}});
    let mut subscription = server.start("subscriptions/listen", params).events();
    assert_eq!(subscription.next().unwrap()["method"], "notifications/subscriptions/acknowledged");
    std::fs::create_dir_all(project.path(".metier/skills/second/scripts")).unwrap();
    crate::mcp::write(&project, ".metier/skills/second/scripts/main.lua", "return 'new'");
    crate::mcp::write(&project, ".metier/skills/second/SKILL.md", "---\nname: second\ndescription: d\n---\n");
    assert_eq!(events.next().unwrap()["method"], "notifications/tools/list_changed");
    assert_eq!(subscription.next().unwrap()["method"], "notifications/tools/list_changed");
    assert_eq!(server.text("second", json!({})), "new");
}

#[test]
fn the_token_comes_from_a_file_or_the_environment_or_is_made() {
    let project = project().file("token", "0123456789abcdef0123\n");
    restrict(&project, 0o600);
    let made = project.http_server(&[]);
    assert_eq!(made.token.as_ref().unwrap().len(), 64);
    for (args, environment) in [
        (&["--token-file", "token"][..], &[][..]),
        (&[][..], &[("METIER_MCP_TOKEN", "0123456789abcdef0123")][..]),
    ] {
        let mut server = project.http_server_with(args, environment);
        assert_eq!(server.start("tools/list", json!({})).answer().status, 401);
        server.token.clone_from(&made.token);
        assert_eq!(server.start("tools/list", json!({})).answer().status, 401);
        server.token = Some("0123456789abcdef0123".to_owned());
        assert_eq!(server.start("tools/list", json!({})).answer().status, 200);
        let (_, stderr) = server.stop();
        assert!(!stderr.contains("0123456789"), "a token that somebody has is not shown: {stderr}");
    }
    let open = project.http_server(&["--no-token"]);
    assert_eq!(open.start("tools/list", json!({})).answer().status, 200);
}

#[test]
fn what_would_let_others_in_is_refused_at_the_start() {
    let project =
        project().file("short", "secret\n").file("empty", "\n").file("token", "0123456789abcdef0123\n");
    restrict(&project, 0o600);
    for (args, reason) in [
        (&["mcp", "--http", "0.0.0.0:0", "--no-token"][..], "needs a token"),
        (&["mcp", "--http", "[::]:0", "--no-token"], "needs a token"),
        (&["mcp", "--http", "127.0.0.1:0", "--token-file", "short"], "line 1: the token has 6 characters"),
        (&["mcp", "--http", "127.0.0.1:0", "--token-file", "empty"], "there is none"),
        (&["mcp", "--http", "127.0.0.1:0", "--token-file", "none"], "failed to read the tokens"),
        (&["mcp", "--http", "127.0.0.1:0", "--token-file", "token", "--no-token"], "cannot be used with"),
        (&["mcp", "--no-token"], "--http"),
        (&["mcp", "--http", "localhost"], "invalid"),
    ] {
        let answer = project.metier(args);
        assert!(answer.code != 0 && answer.stderr.contains(reason), "{args:?} {answer:?}");
        assert!(answer.stdout.is_empty());
    }
    restrict(&project, 0o644);
    let answer = project.metier(&["mcp", "--http", "127.0.0.1:0", "--token-file", "token"]);
    assert!(answer.code != 0 && answer.stderr.contains("chmod 600"), "{answer:?}");
}

/// Sets the mode of the token files that are there.
fn restrict(project: &Project, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    for name in ["tokens", "token", "short", "empty"] {
        let path = project.path(name);
        if path.exists() {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}
