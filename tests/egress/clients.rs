//! The clients that people use, without any help from them: no variable for a proxy, no certificate of ours between them and the
//! server.

use std::io::{Read, Write};
use std::net::Ipv6Addr;
use std::process::Command;

use metier::error::Hint;

use crate::egress::fixture::Fixture;
use crate::egress::go_client;
use crate::egress::servers;
use crate::support::not_run::{find_program, not_run};

#[test]
fn curl_reaches_a_granted_host_and_no_other() {
    if find_program("curl").is_none() {
        return not_run("curl reaches a granted host", "curl is not installed");
    }
    let (server, received) = servers::http("hello");
    let run = Fixture::bash(
        "curl -sS http://api.test/a
        echo
        curl -sS --max-time 5 http://other.test/ 2>&1 || echo \"code $?\"",
    )
    .host("api.test", server)
    .lookup("other.test", server)
    .run();
    run.assert_stdout("hello\ncurl: (6) Could not resolve host: other.test\ncode 6\n");
    assert!(received.text().starts_with("GET /a HTTP/1.1\r\nHost: api.test\r\n"), "{}", received.text());
    assert_eq!(run.refusals(), ["other.test net:other.test"]);
    let network = run.network();
    assert_eq!(network.connections, 1);
    assert_eq!(network.sent_bytes, received.text().len() as u64);
    assert_eq!(network.received_bytes, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".len() as u64);
}

#[test]
fn curl_and_python_reach_a_granted_host_over_tls() {
    let (server, received) = servers::https("hello");
    let scripts = [
        (
            "curl",
            Fixture::bash("curl -sS --cacert \"$METIER_SKILL_DIR/authority.pem\" https://secure.test/x"),
        ),
        (
            "python3",
            Fixture::python(
                "import os, ssl, urllib.request
trust = ssl.create_default_context(cafile=os.environ['METIER_SKILL_DIR'] + '/authority.pem')
print(urllib.request.urlopen('https://secure.test/x', context=trust).read().decode(), end='')",
            ),
        ),
    ];
    for (program, fixture) in scripts {
        if find_program(program).is_none() {
            not_run("a client over TLS", &format!("{program} is not installed"));
            continue;
        }
        let run =
            fixture.file("skills/x/authority.pem", servers::AUTHORITY).host("secure.test", server).run();
        run.assert_stdout("hello");
        assert_eq!(run.refusals(), [""; 0], "{program}");
    }
    assert!(received.text().contains("GET /x HTTP/1.1\r\n"));
}

#[test]
fn python_reaches_a_granted_host_and_names_the_grant_for_another() {
    let (server, _) = servers::http("hello");
    let run = Fixture::python(
        "import urllib.request
print(urllib.request.urlopen('http://api.test/').read().decode(), flush=True)
urllib.request.urlopen('http://other.test/')",
    )
    .host("api.test", server)
    .run();
    assert_eq!(run.stdout(), "hello\n");
    let error = run.0.result.as_ref().unwrap_err();
    assert_eq!(error.hint(), Some(&Hint::Grant("net:other.test".into())), "{error:?}");
    let help = "the script tried other.test: it is not granted; if the script needs it, grant net:other.test";
    assert_eq!(error.help(), Some(help));
    assert!(!run.0.log.iter().any(|line| line.message.contains("other.test")), "said once");
}

#[test]
fn the_requests_library_reaches_a_granted_host() {
    let ((server, _), (secure, _)) = (servers::http("hello"), servers::https("secure"));
    let run = Fixture::python(
        "import os, sys
sys.path.insert(0, os.environ['METIER_SKILL_DIR'] + '/packages')
try:
    import requests
except ImportError:
    print('absent'); raise SystemExit
session = requests.Session()
print(session.get('http://api.test/').text, session.post('http://api.test/', data={'a': 'b'}).text)
authority = os.environ['METIER_SKILL_DIR'] + '/authority.pem'
print(session.get('https://secure.test/', verify=authority).text)
try:
    requests.get('http://other.test/')
except requests.exceptions.ConnectionError:
    print('refused')",
    )
    .python_packages()
    .file("skills/x/authority.pem", servers::AUTHORITY)
    .host("api.test", server)
    .host("secure.test", secure)
    .run();
    if run.stdout() == "absent\n" {
        return not_run("the requests library reaches a granted host", "requests is not installed");
    }
    run.assert_stdout("hello hello\nsecure\nrefused\n");
    assert_eq!(run.refusals(), ["other.test net:other.test"]);
}

#[test]
fn the_httpx_library_reaches_a_granted_host() {
    let ((server, _), (secure, _)) = (servers::http("hello"), servers::https("secure"));
    let run = Fixture::python(
        "import os, sys
sys.path.insert(0, os.environ['METIER_SKILL_DIR'] + '/packages')
try:
    import httpx
except ImportError:
    print('absent'); raise SystemExit
import ssl
trusted = ssl.create_default_context(cafile=os.environ['METIER_SKILL_DIR'] + '/authority.pem')
print(httpx.get('http://api.test/').text, httpx.get('https://secure.test/', verify=trusted).text)
try:
    httpx.get('http://other.test/')
except httpx.ConnectError:
    print('refused')",
    )
    .python_packages()
    .file("skills/x/authority.pem", servers::AUTHORITY)
    .host("api.test", server)
    .host("secure.test", secure)
    .run();
    if run.stdout() == "absent\n" {
        return not_run("the httpx library reaches a granted host", "httpx is not installed");
    }
    run.assert_stdout("hello secure\nrefused\n");
    assert_eq!(run.refusals(), ["other.test net:other.test"]);
}

#[test]
fn fetch_of_node_reaches_a_granted_host() {
    if find_program("node").is_none() {
        return not_run("fetch of Node reaches a granted host", "node is not installed");
    }
    let ((plain, _), (secure, _)) = (servers::http("plain"), servers::https("secure"));
    let run = Fixture::node(
        "import { execFileSync } from 'node:child_process'
console.log(await (await fetch('http://api.test/')).text())
const child = `fetch('https://secure.test/').then(answer => answer.text()).then(console.log)`
const env = { ...process.env, NODE_EXTRA_CA_CERTS: process.env.METIER_SKILL_DIR + '/authority.pem' }
process.stdout.write(execFileSync(process.execPath, ['-e', child], { env }))
await fetch('http://other.test/').catch(error => console.log(error.cause.code))",
    )
    .file("skills/x/authority.pem", servers::AUTHORITY)
    .host("api.test", plain)
    .host("secure.test", secure)
    .run();
    run.assert_stdout("plain\nsecure\nENOTFOUND\n");
    assert_eq!(run.refusals(), ["other.test net:other.test"]);
}

#[test]
fn a_program_in_go_reaches_a_granted_host_with_and_without_tls() {
    let Some(client) = go_client::program() else {
        return not_run("a program in Go reaches a granted host", "go is not installed");
    };
    let ((plain, received), (secure, _)) = (servers::http("plain"), servers::https("secure"));
    let script =
        "exec \"$METIER_SKILL_DIR/client\" http://api.test/a https://secure.test/b http://other.test/c";
    let run = Fixture::bash(script)
        .file("skills/x/client", std::fs::read(client).unwrap())
        .file("skills/x/authority.pem", servers::AUTHORITY)
        .host("api.test", plain)
        .host("secure.test", secure)
        .lookup("other.test", plain)
        .run();
    run.assert_stdout("plain\nsecure\nno such host: other.test\n200\n");
    assert_eq!(run.refusals(), ["other.test net:other.test"]);
    let requests = received.text();
    assert!(requests.starts_with("GET /a HTTP/1.1\r\nHost: api.test\r\n"), "{requests}");
    assert!(requests.contains("POST /a HTTP/1.1\r\n") && requests.ends_with("posted"), "{requests}");
}

#[test]
fn git_clones_from_a_granted_host_with_and_without_tls() {
    let Some(git) = find_program("git") else {
        return not_run("git clones from a granted host", "git is not installed");
    };
    let folder = tempfile::tempdir().unwrap();
    let commands = "git init -q -b main work && cd work && echo text > file && git add file
        git -c user.name=n -c user.email=e@x.test commit -qm first && cd ..
        git clone -q --bare work repo.git && git -C repo.git update-server-info";
    let made =
        Command::new("sh").args(["-ec", commands]).current_dir(&folder).env("HOME", folder.path()).status();
    assert!(made.unwrap().success(), "{}", git.display());
    let root = folder.path().to_owned();
    let plain = servers::serve(100, move |stream| servers::answer_files(stream, &root));
    let root = folder.path().to_owned();
    let secure = servers::tls(move |stream| servers::answer_files(stream, &root));
    let run = Fixture::bash(
        "git clone -q http://git.test/repo.git \"$HOME/a\" && cat \"$HOME/a/file\"
        git -c http.sslCAInfo=\"$METIER_SKILL_DIR/authority.pem\" clone -q https://secure.test/repo.git \"$HOME/b\"
        cat \"$HOME/b/file\"",
    )
    .file("skills/x/authority.pem", servers::AUTHORITY)
    .host("git.test", plain)
    .host("secure.test", secure)
    .run();
    run.assert_stdout("text\ntext\n");
}

#[test]
fn other_ports_and_addresses_are_reached_as_they_were_granted() {
    let echo = servers::echo();
    let v6 = servers::serve_at((Ipv6Addr::LOCALHOST, 0).into(), 10, |mut stream| {
        drop(stream.read_to_end(&mut Vec::new()));
        drop(stream.write_all(b"six"));
    });
    let script = "import socket, sys
for place in sys.argv[1:]:
    host, port = place.rsplit(':', 1)
    try:
        with socket.create_connection((host.strip('[]'), int(port)), 5) as stream:
            stream.sendall(b'hello'); stream.shutdown(socket.SHUT_WR)
            print(stream.recv(100).decode())
    except OSError as error:
        print(type(error).__name__)";
    let port = echo.port();
    let fixture = Fixture::python(script).serve("db.test", echo).grant(format!("net:db.test:{port}"));
    let fixture = v6.iter().fold(fixture, |fixture, address| fixture.grant(format!("net:{address}")));
    let fixture = fixture
        .arg(format!("db.test:{port}"))
        .arg(echo)
        .arg(format!("localhost:{port}"))
        .arg(format!("db.test:{}", port - 1));
    let Some(v6) = v6 else {
        not_run("an IPv6 address as it was granted", "this machine has no IPv6");
        fixture.run().assert_stdout("hello\nhello\nhello\nConnectionRefusedError\n");
        return;
    };
    fixture.arg(v6).run().assert_stdout("hello\nhello\nhello\nConnectionRefusedError\nsix\n");
}

#[test]
fn an_answer_arrives_although_the_host_read_only_a_part_of_the_request() {
    let server = servers::serve(10, |mut stream| {
        drop(stream.read_exact(&mut [0; 1000]));
        drop(stream.write_all(b"too large"));
    });
    let run = Fixture::python(
        "import socket, sys
for _ in range(5):
    with socket.create_connection(('db.test', int(sys.argv[1])), 5) as stream:
        try:
            stream.sendall(bytes(8 << 20))
        except OSError:
            pass
        print(stream.recv(100).decode())",
    )
    .serve("db.test", server)
    .grant(format!("net:db.test:{}", server.port()))
    .arg(server.port().to_string())
    .run();
    run.assert_stdout(&"too large\n".repeat(5));
}

#[test]
fn a_pattern_reaches_all_hosts_below_a_domain_and_not_the_domain() {
    let (server, received) = servers::http("hello");
    let run = Fixture::bash(
        "for host in a.wide.test b.c.wide.test wide.test wide.test.other; do curl -sS \"http://$host/\" 2>&1; echo; done",
    )
    .grant("net:*.wide.test")
    .serve("*.wide.test", server)
    .run();
    let refused = |host: &str| format!("curl: (6) Could not resolve host: {host}\n");
    run.assert_stdout(&format!("hello\nhello\n{}\n{}\n", refused("wide.test"), refused("wide.test.other")));
    assert!(received.text().contains("Host: b.c.wide.test\r\n"));
}

#[test]
fn a_large_answer_and_a_large_request_arrive_whole() {
    let echo = servers::echo();
    let run = Fixture::python(
        "import hashlib, os, socket, sys, threading
data, received = os.urandom(32 << 20), hashlib.sha256()
stream = socket.create_connection(('db.test', int(sys.argv[1])))
def send():
    stream.sendall(data); stream.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
while part := stream.recv(1 << 20): received.update(part)
print(received.digest() == hashlib.sha256(data).digest())",
    )
    .arg(echo.port())
    .serve("db.test", echo)
    .grant(format!("net:db.test:{}", echo.port()))
    .run();
    run.assert_stdout("True\n");
    assert_eq!((run.network().sent_bytes, run.network().received_bytes), (32 << 20, 32 << 20));
}

#[test]
fn port_53_of_a_granted_host_is_reached_and_names_are_still_answered() {
    let echo = servers::echo();
    let run = Fixture::python(
        "import socket, struct
def exchange(address, message):
    with socket.create_connection(address, 10) as stream:
        stream.sendall(message)
        return stream.recv(1000)
print(exchange(('db.test', 53), b'hello'))
query = struct.pack('>6H', 7, 0x0100, 1, 0, 0, 0) + b'\\2db\\4test\\0' + struct.pack('>2H', 1, 1)
answer = exchange(('127.0.0.1', 53), struct.pack('>H', len(query)) + query)
print(socket.inet_ntoa(answer[-4:]), socket.gethostbyname('db.test'))",
    )
    .grant("net:db.test:53")
    .serve("db.test", echo)
    .run();
    run.assert_stdout("b'hello'\n198.18.0.1 198.18.0.1\n");
}

#[test]
fn curl_uploads_what_it_announces_with_expect() {
    if find_program("curl").is_none() {
        return not_run("curl uploads with Expect", "curl is not installed");
    }
    let (server, received) = servers::http_with_uploads();
    let run = Fixture::bash(
        "head -c 3000000 /dev/zero > \"$TMPDIR/body\"
        for how in '-X POST' '-X PUT' '-X POST -H Expect:'; do
            curl -sS $how -H 'Content-Type: application/x' --data-binary \"@$TMPDIR/body\" http://api.test/up
            echo
        done",
    )
    .host("api.test", server)
    .run();
    run.assert_stdout("3000000\n3000000\n3000000\n");
    assert_eq!(run.refusals(), [""; 0]);
    assert!(received.text().contains("expect: 100-continue"), "{}", received.text());
    assert_eq!(received.text().matches("connection: close").count(), 3, "{}", received.text());
}

#[test]
fn a_worker_keeps_its_network_from_one_run_to_the_next() {
    let (server, received) = servers::http("hello");
    let fixture = Fixture::python(
        "import json, sys, urllib.request
for line in sys.stdin:
    request = json.loads(line)
    text = urllib.request.urlopen('http://api.test/').read().decode()
    print(json.dumps({'id': request['id'], 'ok': text}), flush=True)",
    )
    .file("skills/x/SKILL.md", "---\nname: x\ndescription: connects\nmetadata:\n  worker: json-lines\n---\n")
    .host("api.test", server);
    let engine = fixture.builder().build().unwrap();
    for _ in 0..3 {
        let outcome = engine.run(fixture.invocation());
        assert_eq!(outcome.result.as_ref().ok(), Some(&"hello".into()), "{outcome:?}");
        assert_eq!(outcome.process.unwrap().network.unwrap().connections, 1);
    }
    assert_eq!(received.text().matches("GET / ").count(), 3);
}

#[test]
fn a_preview_lists_the_hosts() {
    let fixture =
        Fixture::bash("true").grant("net:api.test").grant("net:db.test:5432").grant("net:[fd00::1]:22");
    let engine = fixture.builder().build().unwrap();
    let preview = engine.explain(&fixture.invocation()).unwrap().process.unwrap();
    assert_eq!(preview.hosts, ["[fd00::1]:22", "api.test", "db.test:5432"]);
    assert!(!preview.network && preview.sandbox.network);
}
