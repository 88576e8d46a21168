//! The network: a server on this machine, which the script may reach.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::parity::work::Work;
use crate::support::not_run::{find_program, not_run};

/// Connections that the server answers before it ends.
const MAX_CONNECTIONS: usize = 500;

/// Starts a server, and returns its port.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().take(MAX_CONNECTIONS).flatten() {
            thread::spawn(move || answer(stream).ok());
        }
    });
    port
}

/// Answers one request by its path.
fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    for _ in 0..100 {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        let line = line.to_ascii_lowercase();
        length = line.strip_prefix("content-length:").map_or(length, |value| value.trim().parse().unwrap());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (status, more, body) = match first.split(' ').nth(1).unwrap_or_default() {
        "/data" => ("200 OK", "", b"{\"rows\": [1, 2, 3], \"name\": \"\xc3\xbc\"}".to_vec()),
        "/large" => ("200 OK", "", b"0123456789abcdef".repeat(1 << 16)),
        "/moved" => ("302 Found", "Location: /data\r\n", Vec::new()),
        "/echo" => ("201 Created", "", body),
        _ => ("404 Not Found", "", b"no such page".to_vec()),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{more}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(&[head.into_bytes(), body].concat())
}

/// A text for the rest of the test.
fn keep(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// Work with a server at this address, which each level lets the script reach in its own way.
fn with_server(what: &'static str, [python, shell, node]: [&'static str; 3]) {
    let port = serve();
    let shell = if find_program("curl").is_some() { shell } else { "" };
    if shell.is_empty() {
        not_run(what, "curl is not installed");
    }
    for (levels, grant) in
        [(&["namespaces"][..], keep(format!("net:127.0.0.1:{port}"))), (&["namespaces", "landlock"], "net")]
    {
        Work {
            what,
            python,
            shell,
            node,
            levels,
            args: Box::leak(Box::new([keep(format!("http://127.0.0.1:{port}"))])),
            // Others may stand between a direct run and even this machine.
            env: &[("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")],
            options: Box::leak(Box::new(["--allow", grant, "--allow", "write:out"])),
            ..Work::default()
        }
        .is_the_same();
    }
}

#[test]
fn pages_are_read_sent_and_followed() {
    with_server(
        "requests to a server",
        [
            "import json, sys, urllib.request
base = sys.argv[1]
print(json.load(urllib.request.urlopen(base + '/data')), urllib.request.urlopen(base + '/moved').geturl() == base + '/data')
request = urllib.request.Request(base + '/echo', data='ä=1'.encode(), method='PUT')
with urllib.request.urlopen(request) as answer: print(answer.status, answer.read().decode())",
            "curl -sS \"$1/data\"; echo; curl -sSL -o /dev/null -w '%{http_code} %{num_redirects}\\n' \"$1/moved\"
            curl -sS -X PUT --data 'ä=1' -w ' %{http_code}\\n' \"$1/echo\"",
            "(async () => {
const base = process.argv[2]
console.log(await (await fetch(base + '/data')).json(), (await fetch(base + '/moved')).url === base + '/data')
const answer = await fetch(base + '/echo', {method: 'PUT', body: 'ä=1'}); console.log(answer.status, await answer.text())
})()",
        ],
    );
}

#[test]
fn a_download_arrives_whole_and_is_stored() {
    with_server(
        "a download",
        [
            "import hashlib, os, sys, urllib.request
os.makedirs('out', exist_ok=True); urllib.request.urlretrieve(sys.argv[1] + '/large', 'out/large')
print(hashlib.sha256(open('out/large', 'rb').read()).hexdigest())",
            "mkdir -p out && curl -sS --fail -o out/large \"$1/large\" && sha256sum out/large",
            "(async () => {
const fs = require('fs'), {createHash} = require('crypto'); fs.mkdirSync('out', {recursive: true})
fs.writeFileSync('out/large', Buffer.from(await (await fetch(process.argv[2] + '/large')).arrayBuffer()))
console.log(createHash('sha256').update(fs.readFileSync('out/large')).digest('hex'))
})()",
        ],
    );
}

#[test]
fn an_error_of_a_server_ends_the_script_as_it_does_outside() {
    with_server(
        "a page that does not exist",
        [
            "import sys, urllib.error, urllib.request
try: urllib.request.urlopen(sys.argv[1] + '/nothing')
except urllib.error.HTTPError as error: print(error.code, error.read().decode(), file=sys.stderr); sys.exit(3)",
            "curl -sS --fail \"$1/nothing\"",
            "(async () => {
const answer = await fetch(process.argv[2] + '/nothing')
if (!answer.ok) { console.error(answer.status, await answer.text()); process.exit(3) }
})()",
        ],
    );
}

#[test]
fn many_connections_at_the_same_time_are_answered() {
    with_server(
        "connections at the same time",
        [
            "import concurrent.futures, sys, urllib.request
def fetch(number): return len(urllib.request.urlopen(sys.argv[1] + '/data').read())
with concurrent.futures.ThreadPoolExecutor(8) as pool: print(sum(pool.map(fetch, range(24))))",
            "for number in 1 2 3 4 5 6 7 8; do curl -sS \"$1/data\" | wc -c & done | sort; wait",
            "Promise.all([...Array(24)].map(() => fetch(process.argv[2] + '/data').then(a => a.text()))).then(all => console.log(all.join('').length))",
        ],
    );
}
