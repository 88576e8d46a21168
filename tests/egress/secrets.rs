//! Secrets that are put into the requests of processes: what the host gets, what the script gets, and every way around it.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use metier::policy::SandboxMode;

use crate::egress::fixture::{Fixture, Run};
use crate::egress::servers;
use crate::support::alone::is_alone;
use crate::support::not_run::{find_program, not_run};

const TOKEN: &str = "ghp_0123456789abcdefABCDEF0123456789abcd";
const PASSWORD: &str = "Correct+Horse/Battery=Staple&9";

fn with_secrets(fixture: Fixture, server: SocketAddr) -> Fixture {
    fixture.host("secure.test", server).secret("TOKEN", TOKEN, "secure.test").secret(
        "PASSWORD",
        PASSWORD,
        "secure.test",
    )
}

#[track_caller]
fn assert_hidden(run: &Run) {
    let outcome = format!("{:?}", run.0);
    for secret in [TOKEN, PASSWORD, &STANDARD.encode(TOKEN)[..20], "Correct%2BHorse"] {
        assert!(!outcome.contains(secret), "{secret}: {outcome}");
    }
}

#[test]
fn the_host_gets_the_secret_wherever_it_stands_and_the_script_a_placeholder() {
    let (server, received) = servers::https_echo();
    let run = with_secrets(
        Fixture::python(
            "import base64, http.client, json, os, urllib.parse
token, password = os.environ['TOKEN'], os.environ['PASSWORD']
basic = 'Basic ' + base64.b64encode(f'me:{password}'.encode()).decode()
form = urllib.parse.urlencode({'key': password})
connection = http.client.HTTPConnection('secure.test')
def ask(method, path, body=None, headers={}):
    connection.request(method, path, body, headers)
    return connection.getresponse().read().decode()
first = ask('POST', f'/echo/{token}?{form}', json.dumps({'key': password, 'list': [token]}), {'Authorization': basic, 'X-Key': 'Bearer ' + token, 'Range': 'bytes=0-3', 'Accept-Encoding': 'gzip'})
second = ask('PUT', '/parts', iter([b'a' + token[:9].encode(), token[9:].encode() + form.encode()]), {'X-Key': token})
third = ask('GET', '/echo/3')
connection.request('GET', f'/head/{token}', headers={'X-Key': token})
answer = connection.getresponse()
print(token in first and password in first and basic in first, first.count(token), second.count(token), form in second, 'GET /echo/3' in third)
print(answer.getheader('X-Path') == f'/head/{token}', answer.getheader('Set-Cookie') == f'a={token}', token != os.environ.get('HOME'))
print('gzip' in first, 'Range' in first, len(token), token[:4])",
        ),
        server,
    )
    .run();
    run.assert_stdout("True 3 2 True True\nTrue True True\nFalse False 40 ghp_\n");
    let text = received.text();
    let encoded = "Correct%2BHorse%2FBattery%3DStaple%269";
    let basic = STANDARD.encode(format!("me:{PASSWORD}"));
    for part in [
        format!("POST /echo/{TOKEN}?key={encoded} HTTP/1.1\r\n"),
        format!("authorization: Basic {basic}\r\n"),
        format!("x-key: Bearer {TOKEN}\r\n"),
        format!("{{\"key\": \"{PASSWORD}\", \"list\": [\"{TOKEN}\"]}}"),
        // A placeholder over two chunks is found as well.
        format!("a{TOKEN}key={encoded}"),
    ] {
        assert!(text.contains(&part), "{part}\n{text}");
    }
    assert!(text.contains("\r\nhost: secure.test\r\n"), "{text}");
    assert_hidden(&run);
    assert_eq!(run.refusals(), [""; 0]);
    assert_eq!(run.network().connections, 1, "one connection for all requests");
}

#[test]
fn curl_and_the_clients_of_node_and_python_need_a_base_address_only() {
    let (server, received) = servers::https_echo();
    let clients = [
        ("curl", Fixture::bash("curl -sS -H \"x-key: $TOKEN\" -d \"key=$TOKEN\" http://secure.test/echo | grep -c \"$TOKEN\"")),
        (
            "node",
            Fixture::node(
                "const token = process.env.TOKEN;
const answer = await fetch('http://secure.test/parts', {method: 'POST', headers: {'x-key': token}, body: `key=${token}`});
console.log((await answer.text()).split('\\n').filter(line => line.includes(token)).length);",
            ),
        ),
        (
            "python3",
            Fixture::python(
                "import os, urllib.request
token = os.environ['TOKEN']
request = urllib.request.Request('http://secure.test/here/x', headers={'X-Key': token})
print(urllib.request.urlopen(request).read().decode().count(token) + 1)",
            ),
        ),
    ];
    for (program, fixture) in clients {
        if find_program(program).is_none() {
            not_run("a client with a secret", &format!("{program} is not installed"));
            continue;
        }
        let before = received.text().matches(TOKEN).count();
        let run = with_secrets(fixture, server).run();
        run.assert_stdout("2\n");
        assert!(received.text().matches(TOKEN).count() >= before + 2, "{program}");
        assert_hidden(&run);
    }
}

#[test]
fn git_reads_a_repository_with_a_secret() {
    let Some(_) = find_program("git") else {
        return not_run("git with a secret", "git is not installed");
    };
    let (server, received) = servers::https_echo();
    let run = with_secrets(
        Fixture::bash(
            "git -c credential.helper= -c http.extraHeader=\"Authorization: Bearer $TOKEN\" ls-remote http://secure.test/echo/repo 2>&1 | head -2
echo",
        ),
        server,
    )
    .run();
    assert!(
        received.text().contains(&format!("authorization: Bearer {TOKEN}")),
        "{:?} {}",
        run,
        received.text()
    );
    assert_hidden(&run);
}

#[test]
fn another_host_gets_a_placeholder_and_the_log_says_where_it_was_sent() {
    let (server, _) = servers::https_echo();
    let (other, received) = servers::http("hello");
    let run = with_secrets(
        Fixture::bash(
            "curl -sS -H \"x-key: $TOKEN\" http://other.test/a; echo
curl -sSL -H \"authorization: $TOKEN\" http://secure.test/away/$TOKEN; echo",
        ),
        server,
    )
    .host("other.test", other)
    .run();
    run.assert_stdout("hello\nhello\n");
    assert!(!received.text().contains(TOKEN) && received.text().contains("ghp_"), "{}", received.text());
    let expected = "the placeholder of the secret TOKEN was sent to other.test, for which the secret is not: it stayed a placeholder";
    assert!(run.0.log.iter().any(|line| line.message == expected), "{:?}", run.0.log);
    assert_eq!(run.network().misplaced.len(), 1);
    assert_hidden(&run);
}

#[test]
fn an_answer_that_cannot_be_searched_does_not_arrive() {
    let (server, received) = servers::https_echo();
    let run = with_secrets(
        Fixture::bash(
            "curl -sS -o answer -w '%{http_code} ' -H \"x-key: $TOKEN\" http://secure.test/zip; cat answer",
        ),
        server,
    )
    .grant("write")
    .run();
    run.assert_stdout(
        "502 metier: the answer of secure.test is refused: it is compressed, so it cannot be searched for the secrets of the run\n",
    );
    assert!(received.text().contains(TOKEN));
}

#[test]
fn what_two_readers_could_read_differently_is_refused() {
    let (server, received) = servers::https_echo();
    for request in [
        "GET /a HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n",
        "GET /a HTTP/1.1\\r\\nHost: secure.test\\r\\nHost: secure.test\\r\\n\\r\\n",
        "POST /a HTTP/1.1\\r\\nHost: secure.test\\r\\nContent-Length: 3\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n",
        "POST /a HTTP/1.1\\r\\nHost: secure.test\\r\\nTransfer-Encoding: gzip, chunked\\r\\n\\r\\n0\\r\\n\\r\\n",
        "GET http://other.test/a HTTP/1.1\\r\\nHost: secure.test\\r\\n\\r\\n",
        "CONNECT other.test:443 HTTP/1.1\\r\\nHost: secure.test\\r\\n\\r\\n",
        "GET /a HTTP/1.1\\r\\nHost: secure.test\\r\\nUpgrade: h2c\\r\\n\\r\\n",
        "PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n",
        "GET /a HTTP/1.1\\r\\nHost: secure.test\\r\\nX: a\\n b\\r\\n\\r\\n",
    ] {
        let script = format!(
            "import socket
s = socket.create_connection(('secure.test', 80))
s.sendall(b'{request}')
try:
    print(s.recv(99))
except ConnectionResetError:
    print('reset')"
        );
        let run = with_secrets(Fixture::python(&script), server).run();
        run.assert_stdout("reset\n");
        assert_eq!(run.network().refused.len(), 1, "{request}");
    }
    assert_eq!(received.text(), "");
}

#[test]
fn a_connection_over_tls_is_passed_on_and_named() {
    let (server, received) = servers::https_echo();
    let Some(_) = find_program("curl") else {
        return not_run("a secret over TLS of the script", "curl is not installed");
    };
    let run = with_secrets(
        Fixture::bash(
            "curl -sS --cacert \"$METIER_SKILL_DIR/authority.pem\" -H \"x-key: $TOKEN\" https://secure.test/echo | grep -c \"$TOKEN\"",
        ),
        server,
    )
    .file("skills/x/authority.pem", servers::AUTHORITY)
    .run();
    run.assert_stdout("1\n");
    assert!(!received.text().contains(TOKEN));
    assert_eq!(run.network().unopened, ["secure.test"]);
    assert!(run.0.log.iter().any(|line| line.message.contains("http://secure.test")), "{:?}", run.0.log);
}

#[test]
fn a_host_that_proves_nothing_gets_nothing() {
    // The certificate is for another name.
    let (server, received) = servers::https_echo();
    let run = Fixture::bash("curl -sS -H \"x-key: $TOKEN\" http://impostor.test/echo")
        .host("impostor.test", server)
        .secret("TOKEN", TOKEN, "impostor.test")
        .run();
    assert!(run.stdout().contains("failed to reach impostor.test over TLS"), "{run:?}");
    assert_eq!((received.text().as_str(), run.network().refused.len()), ("", 1));
    // It speaks no TLS.
    let server = servers::serve(10, |mut stream| drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")));
    let run =
        with_secrets(Fixture::bash("curl -sS -H \"x-key: $TOKEN\" http://secure.test/echo"), server).run();
    assert!(run.stdout().contains("failed to reach secure.test over TLS"), "{run:?}");
}

#[test]
fn no_process_and_no_file_of_the_script_has_the_secret() {
    if !is_alone("egress::secrets::no_process_and_no_file_of_the_script_has_the_secret") {
        return;
    }
    let (server, received) = servers::https_echo();
    let fixture = with_secrets(
        Fixture::python(
            "import http.client, os, subprocess, sys, tempfile, time
child = subprocess.Popen(['sleep', '60'])
connection = http.client.HTTPConnection('secure.test')
connection.request('POST', '/parts', os.environ['TOKEN'] * 50, {'X-Key': os.environ['TOKEN']})
kept = connection.getresponse().read()
folder = tempfile.gettempdir()
for path in ('kept', f'{folder}/kept'):
    open(path, 'wb').write(kept)
open('begin', 'w').write(folder)
os.rename('begin', 'begun')
for _ in range(3000):
    if os.path.exists('searched'):
        break
    time.sleep(0.01)
child.kill()
print(len(kept) > 2000)",
        ),
        server,
    )
    .grant("write");
    let (begun, searched) = (fixture.at("project/begun"), fixture.at("project/searched"));
    let whole = fixture.at("");
    let search = thread::spawn(move || {
        let until = Instant::now() + Duration::from_secs(30);
        while !begun.exists() && Instant::now() < until {
            thread::yield_now();
        }
        let temporary = std::fs::read_to_string(begun).unwrap_or_default();
        let mut found = search_descendants(TOKEN.as_bytes(), b"ghp_", &temporary);
        found.search_files(&whole, TOKEN.as_bytes(), b"ghp_");
        std::fs::write(searched, "x").unwrap();
        found
    });
    let run = fixture.run();
    let Search { has_secret, has_placeholder, files, is_denied } = search.join().unwrap();
    run.assert_stdout("True\n");
    assert!(received.text().contains(TOKEN));
    if is_denied && has_placeholder.len() < 2 {
        return not_run(
            "the memory and the temporary files of a script have no secret",
            "the memory of its processes may not be read",
        );
    }
    // The script itself, and the program that it started, by its environment.
    assert!(has_placeholder.len() >= 2, "{has_placeholder:?}");
    // What the script wrote into the project and into its temporary folder.
    assert!(files >= 2, "{files} files have the placeholder");
    assert_eq!(has_secret, [""; 0]);
}

/// The processes that this one started, and theirs, by what is in their memory, and files by what is in them.
#[derive(Default)]
struct Search {
    has_secret: Vec<String>,
    has_placeholder: Vec<String>,
    /// How many files have the placeholder.
    files: usize,
    is_denied: bool,
}

impl Search {
    fn search_files(&mut self, folder: &Path, secret: &[u8], placeholder: &[u8]) {
        for file in
            walkdir::WalkDir::new(folder).into_iter().flatten().filter(|file| file.file_type().is_file())
        {
            let text = std::fs::read(file.path()).unwrap_or_default();
            if memchr::memmem::find(&text, secret).is_some() {
                self.has_secret.push(file.path().display().to_string());
            }
            self.files += usize::from(memchr::memmem::find(&text, placeholder).is_some());
        }
    }
}

/// Searches processes that this one started, and the temporary folder of those that see another one.
fn search_descendants(secret: &[u8], placeholder: &[u8], temporary: &str) -> Search {
    let mut search = Search::default();
    let mut left = vec![std::process::id()];
    while let Some(process) = left.pop() {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        left.extend(children.flat_map(|text| {
            text.split_whitespace().map(|id| id.parse::<u32>().unwrap()).collect::<Vec<_>>()
        }));
        if process == std::process::id() {
            continue;
        }
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        let Some(memory) = read_memory(process) else {
            search.is_denied = true;
            continue;
        };
        let holds = |text: &[u8]| memory.iter().any(|part| memchr::memmem::find(part, text).is_some());
        if holds(secret) {
            search.has_secret.push(name.clone());
        }
        if holds(placeholder) {
            search.has_placeholder.push(name);
            search.search_files(Path::new(&format!("/proc/{process}/root{temporary}")), secret, placeholder);
        }
    }
    search
}

/// What a process can write to in its memory; `None` if that may not be read.
fn read_memory(process: u32) -> Option<Vec<Vec<u8>>> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
    let memory = std::fs::File::open(format!("/proc/{process}/mem")).ok()?;
    let parts = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
        if !rest.starts_with("rw") {
            return None;
        }
        let mut part = vec![0; usize::try_from(end - start).unwrap()];
        memory.read_at(&mut part, start).ok().map(|count| part[..count].to_vec())
    });
    Some(parts.collect())
}

#[test]
fn each_run_has_a_placeholder_of_its_own_and_none_where_nobody_serves_its_network() {
    let (server, _) = servers::https_echo();
    let script = "echo \"${TOKEN:0:4} $TOKEN\" | sha256sum";
    let runs = [1, 2].map(|_| with_secrets(Fixture::bash(script), server).run().stdout().to_owned());
    assert_ne!(runs[0], runs[1]);
    let run = with_secrets(Fixture::bash("echo ${#TOKEN}"), server).mode(SandboxMode::Off).run();
    run.assert_stdout("40\n");
    assert!(run.0.log.iter().any(|line| line.message.contains("stay what they are")), "{:?}", run.0.log);
    let run = with_secrets(Fixture::bash("echo ${#TOKEN}"), server).grant("net").run();
    assert!(
        run.0.log.iter().any(|line| line.message.contains("grant net:HOST instead of net")),
        "{:?}",
        run.0.log
    );
}

#[test]
fn clients_over_tls_get_the_secret_in_where_their_connections_are_opened() {
    let (server, received) = servers::https_echo();
    let clients = [
        ("curl", Fixture::bash("curl -sS -H \"x-key: $TOKEN\" -d \"key=$TOKEN\" https://secure.test/echo | grep -c \"$TOKEN\"")),
        (
            "node",
            Fixture::node(
                "const token = process.env.TOKEN;
const answer = await fetch('https://secure.test/parts', {method: 'POST', headers: {'x-key': token}, body: `key=${token}`});
console.log((await answer.text()).split('\\n').filter(line => line.includes(token)).length);",
            ),
        ),
        (
            "python3",
            Fixture::python(
                "import os, urllib.request
token = os.environ['TOKEN']
request = urllib.request.Request('https://secure.test/here/x', headers={'X-Key': token})
print(urllib.request.urlopen(request).read().decode().count(token) + 1)",
            ),
        ),
        (
            "git",
            Fixture::bash(
                "git -c http.extraHeader=\"Authorization: Bearer $TOKEN\" ls-remote https://secure.test/echo/$TOKEN >/dev/null 2>&1
echo 2",
            ),
        ),
        (
            "openssl",
            Fixture::bash(
                "printf 'GET /echo/%s HTTP/1.1\\r\\nHost: secure.test\\r\\nX: %s\\r\\nConnection: close\\r\\n\\r\\n' \"$TOKEN\" \"$TOKEN\" |
openssl s_client -quiet -verify_return_error -servername secure.test -connect secure.test:443 2>/dev/null | grep -c \"$TOKEN\"",
            ),
        ),
    ];
    for (program, fixture) in clients {
        if find_program(program).is_none() {
            not_run("a client with a secret over TLS", &format!("{program} is not installed"));
            continue;
        }
        let before = received.text().matches(TOKEN).count();
        let run = with_secrets(fixture, server).tls_broker().run();
        run.assert_stdout("2\n");
        assert!(received.text().matches(TOKEN).count() >= before + 2, "{program} {run:?}");
        assert_eq!(run.network().opened, ["secure.test"], "{program}");
        assert!(run.0.log.iter().any(|line| line.message.contains("were opened")), "{:?}", run.0.log);
        assert_hidden(&run);
    }
}

#[test]
fn the_libraries_of_python_get_the_secret_in_over_tls() {
    let (server, received) = servers::https_echo();
    let run = with_secrets(
        Fixture::python(
            "import os, sys
sys.path.insert(0, os.environ['METIER_SKILL_DIR'] + '/packages')
token = os.environ['TOKEN']
try:
    import requests
except ImportError:
    print('absent')
    raise SystemExit
print(requests.get('https://secure.test/echo', headers={'X-Key': token}).text.count(token))",
        )
        .python_packages(),
        server,
    )
    .tls_broker()
    .run();
    if run.stdout() == "absent\n" {
        return not_run("requests with a secret over TLS", "requests is not installed");
    }
    run.assert_stdout("1\n");
    assert!(received.text().contains(TOKEN));
}

#[test]
fn only_connections_to_hosts_of_secrets_are_opened() {
    for program in ["curl", "openssl"] {
        if find_program(program).is_none() {
            return not_run(
                "only connections to hosts of secrets are opened",
                &format!("{program} is not installed"),
            );
        }
    }
    let (server, received) = servers::https_echo();
    let (other, others) = servers::https("hello");
    // The certificate of the other server is for secure.test, so its name is not checked here.
    let run = with_secrets(
        Fixture::bash(
            "curl -sS -k -H \"x-key: $TOKEN\" https://other.test/; echo
curl -sS https://other.test/ 2>&1 | grep -c certificate
openssl s_client -servername other.test -connect secure.test:443 </dev/null >/dev/null 2>&1 || echo refused
openssl s_client -alpn h2 -servername secure.test -connect secure.test:443 </dev/null 2>&1 | grep -c 'no application protocol'
openssl x509 -noout -text -in \"$SSL_CERT_FILE\" | grep -A3 'Name Constraints' | grep -c 'DNS:secure.test'
openssl x509 -noout -text -in \"$SSL_CERT_FILE\" | grep -c 'CA:TRUE, pathlen:0'
ls \"$(dirname \"$SSL_CERT_FILE\")\" 2>&1 | grep -ci key",
        ),
        server,
    )
    .host("other.test", other)
    .tls_broker()
    .run();
    assert_eq!(run.stdout(), "hello\n1\nrefused\n1\n1\n1\n0\n", "{run:?}");
    assert!(!others.text().contains(TOKEN) && others.text().contains("ghp_"), "{}", others.text());
    assert_eq!(received.text(), "");
    assert_hidden(&run);
}

#[test]
fn nothing_is_opened_and_no_variable_set_without_a_secret_for_a_host() {
    let (server, _) = servers::https_echo();
    let run = Fixture::bash("echo \"${SSL_CERT_FILE-none}\"").host("secure.test", server).tls_broker().run();
    run.assert_stdout("none\n");
    let run = with_secrets(Fixture::bash("echo \"${SSL_CERT_FILE-none}\""), server).run();
    run.assert_stdout("none\n");
}
