//! Another user of the machine reaches nothing of a server: neither its tools, nor its tokens, nor what it keeps on disk.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::mcp::processes::wait_until;
use crate::support::cli::Project;
use crate::support::not_run::not_run;

/// What the process of the other user attacks: it is the only way in which that process is told.
const TARGET: &str = "METIER_TEST_TARGET";
/// A user and a group without any rights.
const NOBODY: u32 = 65_534;
const TOKEN: &str = "token-in-the-file-of-tokens";
const VARIABLE: &str = "token-in-the-environment";

fn open_to_all(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A skill with a large result, and a plan whose first step returns what nobody else may know. No file says either of them.
fn project() -> Project {
    let steps = json!([
        {"id": "mark", "skill": "mark", "args": {}},
        {"id": "hold", "skill": "hold", "args": {}, "after": ["mark"]},
    ]);
    Project::new()
        .lua("mark", "return table.concat({'value', 'of', 'the', 'step'}, '-')")
        .lua("hold", "while not pcall(ctx.stat, 'out/go') do end return 'held'")
        .lua("large", "return string.rep(table.concat({'large', 'result'}, '-') .. ' ', 10000)")
        .file(
            ".metier/skills/both/SKILL.md",
            "---\nname: both\ndescription: d\nallowed-tools: skill:mark skill:hold\n---\n",
        )
        .file(".metier/skills/both/scripts/sequence.json", steps.to_string())
        .file("out/keep", "")
        .file("tokens", TOKEN)
        .trusted()
}

#[test]
fn another_user_reaches_neither_the_tools_nor_what_the_server_keeps() {
    if let Ok(target) = std::env::var(TARGET) {
        return attack_as_other_user(&target);
    }
    if !rustix::process::geteuid().is_root() {
        return not_run("another user of the machine", "only root can start a process of another user");
    }
    let project = project();
    let base = project.root().parent().unwrap();
    // Nothing but the server's own care keeps the other user out.
    for folder in [base, project.root()] {
        open_to_all(folder, 0o755);
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(project.home().join(".local/share"))
        .unwrap();
    for folder in ["home", "home/.local", "home/.local/share"] {
        open_to_all(&base.join(folder), 0o755);
    }
    open_to_all(&project.path("tokens"), 0o600);
    let temp = base.join("temp");
    std::fs::create_dir(&temp).unwrap();
    open_to_all(&temp, 0o777);
    let program = base.join("attack");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    open_to_all(&program, 0o755);

    let args =
        ["--token-file", "tokens", "--task-after", "0", "--allow", "skill:mark", "--allow", "skill:hold"];
    let environment = [("METIER_MCP_TOKEN", VARIABLE), ("TMPDIR", temp.to_str().unwrap())];
    let server = project.http_server_with(&args, &environment);
    let bearer = format!("Bearer {TOKEN}");
    let call = |tool: &str, capabilities: Value| {
        let params = json!({"name": tool, "arguments": {}});
        server.start_with("tools/call", params, &capabilities, &[("authorization", bearer.as_str())]).answer()
    };
    let large = call("large", json!({})).result();
    let blocks = large["content"].as_array().unwrap();
    let link = blocks.iter().find_map(|block| block["uri"].as_str()).unwrap().to_owned();
    let task = call("both", json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})).result();
    let journals = project.home().join(".local/share/metier/plan-journals");
    wait_until(|| contains(&journals, "value-of-the-step"));

    let mut target = json!({
        "address": server.address,
        "folders": [base, format!("/proc/{}", server.child.id())],
        "secrets": [TOKEN, VARIABLE, "value-of-the-step", "large-result"],
        "task": task["taskId"],
        "link": link,
    });
    let attack = |target: &Value| {
        let output = Command::new(&program)
            .args([
                "--exact",
                "mcp::other_user::another_user_reaches_neither_the_tools_nor_what_the_server_keeps",
            ])
            .arg("--nocapture")
            .env(TARGET, target.to_string())
            .current_dir("/")
            .uid(NOBODY)
            .gid(NOBODY)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let said = text.lines().find_map(|line| Some(line.split_once("attacked: ")?.1.to_owned()));
        serde_json::from_str::<Value>(&said.unwrap_or_else(|| panic!("it did nothing: {text}"))).unwrap()
    };
    let done = attack(&target);
    assert_eq!((&done["user"], &done["reached"]), (&json!(NOBODY), &json!([])), "{done}");
    assert!(done["tried"].as_u64().unwrap() > 20, "{done}");
    // What it could read, it would have found.
    std::fs::write(base.join("careless"), TOKEN).unwrap();
    open_to_all(&base.join("careless"), 0o644);
    target["token"] = json!(TOKEN);
    let reached = attack(&target)["reached"].as_array().unwrap().len();
    assert!(reached >= 2, "it finds an open file, and is served with a token: {reached}");
}

/// Whether a file below the folder has this text.
fn contains(folder: &Path, text: &str) -> bool {
    let mut reached = Vec::new();
    search(folder, &[text], &mut reached, &mut 0);
    !reached.is_empty()
}

fn search(path: &Path, secrets: &[&str], reached: &mut Vec<String>, tried: &mut usize) {
    *tried += 1;
    if path.is_dir() && !path.is_symlink() {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            search(&entry.path(), secrets, reached, tried);
        }
        return;
    }
    // A pipe of the server would be waited for.
    if std::fs::metadata(path).is_ok_and(|facts| !facts.is_file()) {
        return;
    }
    let mut content = Vec::new();
    let Ok(file) = std::fs::File::open(path) else { return };
    file.take(16 << 20).read_to_end(&mut content).ok();
    let text = String::from_utf8_lossy(&content);
    if secrets.iter().any(|secret| text.contains(secret)) {
        reached.push(path.display().to_string());
    }
}

/// What the other user does, in a process that this test has started again.
fn attack_as_other_user(target: &str) {
    let target: Value = serde_json::from_str(target).unwrap();
    let text = |key: &str| target[key].as_str().unwrap_or_default();
    let (mut reached, mut tried) = (Vec::new(), 0);
    let secrets: Vec<&str> =
        target["secrets"].as_array().unwrap().iter().map(|secret| secret.as_str().unwrap()).collect();
    for folder in target["folders"].as_array().unwrap() {
        search(&PathBuf::from(folder.as_str().unwrap()), &secrets, &mut reached, &mut tried);
    }
    // The program and what it was told have the secrets, and are its own.
    reached.retain(|path| !path.ends_with("/attack"));
    for (method, params) in [
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "large", "arguments": {}})),
        ("resources/read", json!({"uri": text("link")})),
        ("tasks/get", json!({"taskId": text("task")})),
        ("subscriptions/listen", json!({"notifications": {"taskIds": [text("task")]}})),
        (
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}),
        ),
    ] {
        for token in ["", "a-token-that-is-guessed", text("token")] {
            tried += 1;
            let answer = post(text("address"), token, method, params.clone());
            if !answer.starts_with("HTTP/1.1 401") {
                reached.push(format!("{method}: {answer}"));
            }
        }
    }
    let user = rustix::process::geteuid().as_raw();
    println!("attacked: {}", json!({"user": user, "tried": tried, "reached": reached}));
}

/// The beginning of the answer to a request of the other user.
fn post(address: &str, token: &str, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let name = ["name", "uri", "taskId"].into_iter().find_map(|key| params[key].as_str()).unwrap_or_default();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let authorization =
        if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\n{authorization}content-type: application/json\r\naccept: application/json, \
         text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\nmcp-name: {name}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = [0; 64];
    let length = stream.read(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}
