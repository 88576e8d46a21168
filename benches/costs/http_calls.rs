//! What a declared HTTP call of a tool costs over the bare request, each on a connection of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use criterion::Criterion;
use metier::engine::{Engine, Invocation};
use metier::host::{HttpClient, HttpRequest, SkillContext, WebClient};
use metier::policy::{Permission, Permissions, RequestedPermissions};
use metier::registry::{Root, Roots, Scope};
use metier_core::policy::PathProtection;
use serde_json::json;
use tempfile::TempDir;

const ANSWER: &str = r#"{"number": 7, "title": "One of many", "state": "open", "user": {"login": "a"}, "labels": [{"name": "x"}]}"#;

pub fn calls(criterion: &mut Criterion) {
    let address = serve();
    let url = format!("http://{address}/repos/owner/name/issues/7");
    let grant: Permission = format!("net:{address}").parse().expect("a permission");
    let permissions = Permissions::new(RequestedPermissions::All, [grant.clone()], PathProtection::default());
    let ctx = SkillContext::builder("x").permissions(permissions).build();
    let client = WebClient::new();
    let project = project(address);
    let root = Root::new(Scope::Explicit, "skills", project.path().join(".metier/skills"));
    let engine = Engine::builder(project.path()).roots(Roots::empty().with(root)).http(WebClient::new());
    let engine = engine.build().expect("an engine");
    let mut group = criterion.benchmark_group("http_call");
    group.bench_function("bare", |b| {
        b.iter(|| client.send(&ctx, HttpRequest::new("GET", &*url, 1 << 20)).expect("a response"));
    });
    group.bench_function("tool", |b| {
        b.iter(|| {
            let invocation = Invocation::new("x").tool("get_issue").grant(grant.clone());
            let outcome = engine.run(invocation.input(json!({"repo": "owner/name", "number": 7})));
            assert!(outcome.result.is_ok(), "{:?}", outcome.result);
        });
    });
    group.finish();
}

/// A project with a skill that reads an issue of a service at this address, as the skills for services do.
fn project(address: SocketAddr) -> TempDir {
    let project = TempDir::new().expect("a folder");
    let skill = project.path().join(".metier/skills/x");
    std::fs::create_dir_all(&skill).expect("a folder");
    std::fs::write(skill.join("SKILL.md"), "---\nname: x\ndescription: d\n---\n").expect("a file");
    let contract = format!(
        "base_url: $config.URL
config: {{URL: {{default: 'http://{address}'}}}}
tools:
  - name: get_issue
    inputs: {{repo: {{type: string, required: true}}, number: {{type: integer, required: true}}}}
    http:
      path: /repos/${{inputs.repo}}/issues/${{inputs.number}}
      multi_segment: [repo]
      result: {{number: $response.body.number, title: $response.body.title, labels: {{for_each: $response.body.labels, value: $item.name}}}}
"
    );
    std::fs::write(skill.join("skill.yaml"), contract).expect("a file");
    // So that equal stats prove equal files.
    std::thread::sleep(std::time::Duration::from_millis(100));
    project
}

/// A server that answers each request with the same, each connection on a thread of its own.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        // More than the clients here open.
        for stream in listener.incoming().take(10_000_000).flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    stream.set_nodelay(true).expect("an option of a connection");
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        ANSWER.len()
    );
    let (mut buffer, mut text) = ([0; 4096], Vec::new());
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        text.extend_from_slice(&buffer[..count]);
        if text.ends_with(b"\r\n\r\n") {
            text.clear();
            if stream.write_all(format!("{head}{ANSWER}").as_bytes()).is_err() {
                return;
            }
        }
    }
}
