//! `metier mcp` against a bare server of the same library: a call, the first call after the start, and a list of a hundred tools.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use criterion::Criterion;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Set where this program is the bare server.
const ECHO: &str = "METIER_BENCH_ECHO";
/// Skills of the project, and tools of the bare server.
const TOOLS: usize = 100;

/// Serves as the bare server if this process was started as one.
pub fn is_echo_server() -> bool {
    if std::env::var_os(ECHO).is_none() {
        return false;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let service = rmcp::serve_server(Echo, rmcp::transport::stdio()).await.expect("a handshake");
        service.waiting().await.expect("an end");
    });
    true
}

/// Returns the arguments of each call.
struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object", "properties": {"input": {}}, "additionalProperties": false});
        let schema = Arc::new(schema.as_object().cloned().unwrap_or_default());
        let tool = |number| Tool::new(format!("echo-{number}"), "Returns its input.", schema.clone());
        Ok(ListToolsResult::with_all_items((0..TOOLS).map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let value = Value::Object(request.arguments.unwrap_or_default());
        let mut result = CallToolResult::success(vec![ContentBlock::text(value.to_string())]);
        result.structured_content = Some(value);
        Ok(result.into())
    }
}

/// A server and its streams, after the handshake.
struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
}

impl Client {
    fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a server");
        let input = child.stdin.take().expect("an input");
        let output = BufReader::new(child.stdout.take().expect("an output"));
        let mut client = Self { child, input, output, line: String::new() };
        client.request("initialize", &json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"},
        }));
        client.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn write(&mut self, message: &Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).expect("a reader");
    }

    fn request(&mut self, method: &str, params: &Value) -> &str {
        self.write(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        self.line.clear();
        self.output.read_line(&mut self.line).expect("an answer");
        assert!(self.line.contains("\"result\""), "{}", self.line);
        &self.line
    }

    fn call(&mut self) {
        let answer =
            self.request("tools/call", &json!({"name": "echo-7", "arguments": {"input": {"text": "hello"}}}));
        assert!(answer.contains("hello"), "{answer}");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn echo_server() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(ECHO, "1");
    command
}

fn metier(project: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metier"));
    command.args(arguments).current_dir(project).env("METIER_DATA_DIR", project.join("data"));
    command
}

/// A project with a hundred trusted skills.
fn project() -> TempDir {
    let project = TempDir::new().expect("a folder");
    for number in 0..TOOLS {
        let skill = project.path().join(format!(".metier/skills/echo-{number}"));
        std::fs::create_dir_all(skill.join("scripts")).expect("a folder");
        let head = format!("---\nname: echo-{number}\ndescription: Returns its input.\n---\n");
        std::fs::write(skill.join("SKILL.md"), head).expect("a file");
        std::fs::write(skill.join("scripts/main.lua"), "return input").expect("a file");
    }
    let trusted = metier(project.path(), &["trust", "--folder", "--yes", "."]).output().expect("runs");
    assert!(trusted.status.success(), "{trusted:?}");
    project
}

pub fn calls(criterion: &mut Criterion) {
    let project = project();
    let servers: [(&str, Box<dyn Fn() -> Command>); 2] = [
        ("metier", Box::new(|| metier(project.path(), &["mcp", "--project", "."]))),
        ("echo", Box::new(echo_server)),
    ];
    let mut group = criterion.benchmark_group("mcp");
    for (name, server) in &servers {
        let mut client = Client::start(server());
        group.bench_function(*name, |b| b.iter(|| client.call()));
    }
    group.finish();
    let mut group = criterion.benchmark_group("mcp_list");
    for (name, server) in &servers {
        let mut client = Client::start(server());
        group.bench_function(*name, |b| {
            b.iter(|| assert!(client.request("tools/list", &json!({})).contains("echo-99")));
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("mcp_start");
    group.sample_size(30);
    for (name, server) in &servers {
        group.bench_function(*name, |b| b.iter(|| Client::start(server()).call()));
    }
    group.finish();
}
