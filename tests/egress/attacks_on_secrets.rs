//! Ways by which a script learns a secret that it may only use: each test asserts the promise of `docs/secrets.md`.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::egress::fixture::Fixture;
use crate::egress::servers;
use crate::support::alone::is_alone;

const TOKEN: &str = "ghp_0123456789abcdefABCDEF0123456789abcd";
const PASSWORD: &str = "Correct+Horse/Battery=Staple&9";
/// Its base64 has slashes where it stands at the beginning.
const ODD: &str = "ab?cd?ef?Gh1~2>3?45?67?89?zz?";
const CAPITALS: &str = "AKIAIOSFODNN7EXAMPLE";

/// Sends what the test says, and prints the whole answer in hexadecimal digits, which nobody redacts.
const CLIENT: &str = "
import base64, os, socket, sys
def ask(head, body=b'', method='POST'):
    s = socket.create_connection(('secure.test', 80))
    length = f'Content-Length: {len(body)}\\r\\n' if method == 'POST' else ''
    s.sendall(f'{method} {head[0]} HTTP/1.1\\r\\nHost: secure.test\\r\\n'.encode() + ''.join(f'{line}\\r\\n' for line in head[1:]).encode() + f'{length}Connection: close\\r\\n\\r\\n'.encode() + body)
    answer = b''
    try:
        while part := s.recv(65536):
            answer += part
    except ConnectionResetError:
        answer += b'RESET'
    return answer
token, password, odd, capitals = (os.environ[name] for name in ('TOKEN', 'PASSWORD', 'ODD', 'CAPITALS'))
";

fn with_secrets(fixture: Fixture, server: SocketAddr) -> Fixture {
    fixture
        .host("secure.test", server)
        .secret("TOKEN", TOKEN, "secure.test")
        .secret("PASSWORD", PASSWORD, "secure.test")
        .secret("ODD", ODD, "secure.test")
        .secret("CAPITALS", CAPITALS, "secure.test")
}

fn unhex(text: &str) -> String {
    let text = text.trim();
    let bytes: Vec<u8> =
        (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A host that answers each request with what the function makes of it: the bytes of the answer, in the pieces in which they are sent.
fn host(answer: impl Fn(&str) -> Vec<Vec<u8>> + Send + Sync + 'static) -> SocketAddr {
    servers::tls(move |mut stream| {
        while let Some(request) = servers::read_request(&mut stream) {
            let pieces = answer(&request);
            let pause = Duration::from_millis(if pieces.len() > 9 { 4 } else { 0 });
            for piece in pieces {
                thread::sleep(pause);
                if stream.write_all(&piece).and_then(|()| stream.flush()).is_err() {
                    return;
                }
            }
        }
    })
}

fn whole(headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn header<'r>(request: &'r str, name: &str) -> &'r str {
    let line = request.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")));
    line.map_or("", |line| line[name.len() + 1..].trim())
}

fn body(request: &str) -> &str {
    request.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// What the script got from a host that answers so, if it asks so.
#[track_caller]
fn got(ask: &str, answer: impl Fn(&str) -> Vec<Vec<u8>> + Send + Sync + 'static) -> String {
    let run = with_secrets(Fixture::python(&format!("{CLIENT}\nprint({ask}.hex())")), host(answer)).run();
    assert!(run.0.result.is_ok(), "{run:?}");
    let text = unhex(run.stdout());
    assert!(!text.is_empty(), "{run:?}");
    text
}

#[track_caller]
fn assert_without(text: &str, secrets: &[&str]) {
    for secret in secrets {
        assert!(!text.contains(secret), "the script got {secret}:\n{text}");
    }
}

/// Where the chunks of an answer end.
const ENDS: &str = "
def ends(answer):
    data, at, found = answer.split(b'\\r\\n\\r\\n', 1)[1], 0, []
    while data:
        line, data = data.split(b'\\r\\n', 1)
        length = int(line, 16)
        if not length:
            break
        at += length
        found.append(at)
        data = data[length + 2:]
    return found
";

#[test]
fn pieces_of_an_answer_are_no_oracle() {
    // The host streams the content of a request back, in pieces of 256 bytes, as services of language models and event streams do.
    let server = host(|request| {
        let mut pieces = vec![b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec()];
        for part in body(request).as_bytes().chunks(256) {
            pieces.push([format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat());
        }
        pieces.push(b"0\r\n\r\n".to_vec());
        pieces
    });
    let script = format!(
        "{CLIENT}
import string
letters = string.digits + string.ascii_letters
{ENDS}known, attempts, first = 'ghp_', 0, 16
while len(known) < 40 and attempts < 12:
    attempts += 1
    pieces = ['!' * 256] * first + [('!' * 256 + known + letter)[-256:] for letter in letters]
    found = ends(ask(['/'], ''.join(pieces).encode() + b'!' * 256))
    end = lambda number: (number + first + 1) * 256
    held = [letter for number, letter in enumerate(letters) if end(number) - len(known) - 1 in found]
    if len(held) == 1:
        known += held[0]
print(known[::-1])"
    );
    let run = with_secrets(Fixture::python(&script), server).timeout(Duration::from_mins(5)).run();
    let learned: String = run.stdout().trim().chars().rev().collect();
    assert!(run.0.result.is_ok(), "{run:?}");
    assert!(learned.len() < 6, "the script learned {learned}, and never sent the placeholder");
}

#[test]
fn the_name_of_a_header_is_searched() {
    // As httpbin does it at /response-headers.
    let text = got("ask(['/response-headers?' + capitals + '=1'])", |request| {
        let name = request.split(['?', '=']).nth(1).unwrap_or_default().to_owned();
        vec![whole(&format!("{name}: 1\r\n"), "x")]
    });
    assert_without(&text, &[CAPITALS, &CAPITALS.to_lowercase()]);
}

#[test]
fn an_echo_in_small_letters_is_searched() {
    // Many hosts give back e-mail addresses, names of headers and names of users so.
    let text = got("ask(['/', 'X-Key: ' + capitals])", |request| {
        vec![whole("", header(request, "x-key").to_lowercase())]
    });
    assert_without(&text, &[&CAPITALS.to_lowercase()]);
}

#[test]
fn json_as_php_writes_it_is_searched_for_base64() {
    let ask = "ask(['/', 'Authorization: Basic ' + base64.b64encode(f'me:{odd}'.encode()).decode()])";
    let text = got(ask, |request| vec![whole("", header(request, "authorization").replace('/', "\\/"))]);
    let sent = STANDARD.encode(format!("me:{ODD}"));
    assert!(sent.contains('/'), "{sent}");
    assert_without(&text, &[&sent.replace('/', "\\/")[8..30]]);
}

#[test]
fn base64_in_an_address_is_searched() {
    let ask = "ask(['/', 'Authorization: Basic ' + base64.b64encode(f'me:{odd}'.encode()).decode()])";
    let text = got(ask, |request| {
        vec![whole("", header(request, "authorization").replace('/', "%2F").replace('+', "%2B"))]
    });
    let sent = STANDARD.encode(format!("me:{ODD}")).replace('/', "%2F").replace('+', "%2B");
    assert_without(&text, &[&sent[8..30]]);
}

#[test]
fn base64_in_lines_is_searched() {
    // As mail and `base64.encodebytes` of Python write it.
    let text = got("ask(['/', 'X-Key: ' + token])", |request| {
        let encoded = STANDARD.encode(format!(
            "{{\"padding\": \"{}\", \"key\": \"{}\"}}",
            "x".repeat(20),
            header(request, "x-key")
        ));
        let lines: Vec<_> =
            encoded.as_bytes().chunks(76).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        vec![whole("", lines.join("\n"))]
    });
    let encoded: String = text.split("\r\n\r\n").nth(1).unwrap().split_whitespace().collect();
    let plain = String::from_utf8_lossy(&STANDARD.decode(&encoded).unwrap()).into_owned();
    assert_without(&plain, &[TOKEN]);
}

#[test]
fn json_as_go_and_dotnet_write_it_is_searched() {
    for (name, written) in [
        ("Go", PASSWORD.replace('&', "\\u0026")),
        (".NET", PASSWORD.replace('+', "\\u002B").replace('&', "\\u0026")),
    ] {
        let text = got("ask(['/', 'X-Key: ' + password])", move |request| {
            let key = header(request, "x-key");
            let key = if name == "Go" {
                key.replace('&', "\\u0026")
            } else {
                key.replace('+', "\\u002B").replace('&', "\\u0026")
            };
            vec![whole("", format!("{{\"key\": \"{key}\"}}"))]
        });
        assert_without(&text, &[&written]);
    }
}

#[test]
fn pages_as_mustache_and_handlebars_write_them_are_searched() {
    let escape = |text: &str| text.replace('&', "&amp;").replace('/', "&#x2F;").replace('=', "&#x3D;");
    let text = got("ask(['/', 'X-Key: ' + password])", move |request| {
        vec![whole("", format!("<p>{}</p>", escape(header(request, "x-key"))))]
    });
    assert_without(&text, &[&escape(PASSWORD)]);
}

#[test]
fn an_address_as_browsers_write_it_is_searched() {
    // The path of an address encodes `?` and `>` there, and leaves `~`.
    let escape = |text: &str| text.replace('?', "%3F").replace('>', "%3E");
    let text = got("ask(['/', 'X-Key: ' + password])", move |request| {
        vec![whole(&format!("Location: /{}\r\n", header(request, "x-key").replace('+', "%2B")), "")]
    });
    assert_without(&text, &[&PASSWORD.replace('+', "%2B")]);
    let text = got("ask(['/', 'X-Key: ' + odd])", move |request| {
        vec![whole(&format!("Location: /{}\r\n", escape(header(request, "x-key"))), "")]
    });
    assert_without(&text, &[&escape(ODD)]);
}

#[test]
fn a_part_of_an_answer_is_refused() {
    // Apache takes Request-Range for Range, Azure x-ms-range.
    for field in ["Request-Range", "x-ms-range"] {
        let text = got(&format!("ask(['/', '{field}: bytes=5-', 'X-Key: ' + token])"), |request| {
            let echo = header(request, "x-key").to_owned();
            let asked = [header(request, "request-range"), header(request, "x-ms-range")].concat();
            let Some(from) = asked.strip_prefix("bytes=").and_then(|range| range.strip_suffix('-')) else {
                return vec![whole("", echo)];
            };
            let part = &echo[from.parse::<usize>().unwrap()..];
            let head = format!(
                "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {from}-39/40\r\n\r\n",
                part.len()
            );
            vec![[head, part.to_owned()].concat().into_bytes()]
        });
        assert_without(&text, &[&TOKEN[5..]]);
    }
}

#[test]
fn an_answer_in_another_charset_is_refused() {
    // Spring writes texts in the charset of Accept.
    let text = got("ask(['/', 'Accept: text/plain;charset=UTF-16BE', 'X-Key: ' + token])", |request| {
        let echo = header(request, "x-key");
        if header(request, "accept").ends_with("UTF-16BE") {
            let wide: Vec<u8> = echo.encode_utf16().flat_map(u16::to_be_bytes).collect();
            return vec![whole("Content-Type: text/plain;charset=UTF-16BE\r\n", wide)];
        }
        vec![whole("", echo)]
    });
    assert_without(&text.replace('\0', ""), &[TOKEN]);
}

#[test]
fn what_is_no_header_and_no_body_does_not_arrive() {
    let text = got("ask(['/', 'X-Key: ' + token])", |request| {
        let key = header(request, "x-key");
        vec![
            format!("HTTP/1.1 103 Early Hints\r\nLink: <{key}>\r\n\r\n").into_bytes(),
            format!("HTTP/1.1 200 {key}\r\nTransfer-Encoding: chunked\r\nTrailer: X-Key\r\n\r\n")
                .into_bytes(),
            format!("1;a={key}\r\nx\r\n0\r\nX-Key: {key}\r\n\r\n").into_bytes(),
        ]
    });
    assert_without(&text, &[TOKEN]);
}

#[test]
fn no_error_repeats_what_the_host_said() {
    for answer in [
        "HTTP/1.1 302 Found\r\nLocation: http://[KEY/\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: \u{fc}KEY\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: KEY\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: KEY\r\n\r\nKEY",
        "HTTP/1.1 200 OK\r\nKEY\r\n\r\n",
        "HTTP/1.1 KEY OK\r\n\r\n",
        "KEY\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nKEY\r\n",
        "HTTP/1.1 100 Continue\r\nX: KEY\r\n\r\nHTTP/1.1 200 OK\r\nX: KEY\r\n\r\nKEY",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: KEY\r\n\r\nKEY",
        "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=KEY\r\nContent-Length: 40\r\n\r\nKEY",
        "HTTP/1.0 200 OK\r\n\r\nKEY",
    ] {
        let server = servers::tls(move |mut stream| {
            let Some(request) = servers::read_request(&mut stream) else { return };
            let text = answer.replace("KEY", header(&request, "x-key"));
            stream.write_all(text.as_bytes()).and_then(|()| stream.flush()).ok();
            stream.conn.send_close_notify();
            stream.flush().ok();
        });
        let script = format!("{CLIENT}\nprint(ask(['/', 'X-Key: ' + token]).hex())");
        let run = with_secrets(Fixture::python(&script), server).run();
        let text = unhex(run.stdout());
        assert_without(&text, &[TOKEN, &TOKEN.to_lowercase()]);
        // A beginning alone is one of the host's pieces.
        assert_without(&text, &[&TOKEN[..15]]);
    }
}

#[test]
fn the_ends_of_a_secret_in_base64_are_hidden_too() {
    // The script chooses what stands beside it, so that four bits of the last letter are in a letter of base64 that is not replaced.
    let ask = "ask(['/', 'Authorization: Basic ' + base64.b64encode(f'a:{password}'.encode()).decode()])";
    let last_bits = |_| {
        let text = got(ask, |request| vec![whole("", header(request, "authorization"))]);
        let encoded = text.split("Basic ").nth(1).unwrap();
        STANDARD.decode(encoded).unwrap().last().unwrap() & 15
    };
    let own = PASSWORD.bytes().last().unwrap() & 15;
    // Those of a placeholder are others in each run.
    assert!(
        !(0..4).map(last_bits).all(|bits| bits == own),
        "the last letter of the secret ends with the bits {own:04b}"
    );
}

#[test]
fn nothing_is_left_of_many_connections_to_a_host_that_never_answers() {
    let open = Arc::new(AtomicUsize::new(0));
    let counted = open.clone();
    let server = servers::tls(move |mut stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        servers::read_request(&mut stream);
        // Until the other side ends it.
        stream.read_exact(&mut [0]).ok();
        counted.fetch_sub(1, Ordering::SeqCst);
    });
    let script = "
import socket, time
connections = []
for number in range(80):
    try:
        connections.append(socket.create_connection(('secure.test', 80)))
        connections[-1].sendall(b'GET / HTTP/1.1\\r\\nHost: secure.test\\r\\n\\r\\n')
    except ConnectionResetError: pass  # One of more than there may be was ended already.
time.sleep(2)
print(len(connections) >= 64)";
    let run = with_secrets(Fixture::python(script), server).run();
    assert_eq!(run.stdout(), "True\n", "{run:?}");
    let until = Instant::now() + Duration::from_secs(5);
    while open.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(open.load(Ordering::SeqCst), 0);
}

#[test]
fn a_body_in_small_chunks_is_not_searched_again_and_again() {
    let server = host(|request| vec![whole("", format!("{}", body(request).len()))]);
    let script = "
import socket, time
def seconds(parts):
    s = socket.create_connection(('secure.test', 80))
    s.sendall(b'POST / HTTP/1.1\\r\\nHost: secure.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n')
    began = time.time()
    for _ in range(parts):
        s.sendall(b'1\\r\\na\\r\\n' * 5_000)
    s.sendall(b'0\\r\\n\\r\\n')
    s.recv(99)
    return time.time() - began
seconds(1)
print(min(seconds(64) for _ in range(2)) / max(seconds(4) for _ in range(2)))";
    let run = with_secrets(Fixture::python(script), server).run();
    let ratio: f64 = run.stdout().trim().parse().unwrap();
    // Searched again with each chunk, 16 times the bytes would take 256 times as long.
    assert!(ratio < 64.0, "16 times the bytes take {ratio} times as long");
}

#[test]
fn a_contract_cannot_name_a_secret_like_a_use_of_one() {
    // The user grants the use of TOKEN at a host, and the value stands in a variable of the user, where `--secret` takes it from.
    let contract = "secrets:
- {name: TOKEN, host: secure.test}
- {name: \"TOKEN@secure.test\", host: secure.test, env: CARGO_MANIFEST_DIR}
";
    let value = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let run = Fixture::new("run.lua", "return {string.reverse(ctx.secret('TOKEN@secure.test'))}")
        .file("skills/x/skill.yaml", contract)
        .grant("net:secure.test")
        .secret("TOKEN", TOKEN, "secure.test")
        .run();
    let reversed: String = value.chars().rev().collect();
    let outcome = format!("{:?}", run.0.result);
    assert!(!outcome.contains(&reversed), "the script read a variable that nobody granted: {outcome}");
    assert!(run.0.result.is_err(), "{outcome}");
}

#[test]
fn bodies_of_any_length_arrive() {
    let server = host(|request| vec![whole("", format!("{}", body(request).len()))]);
    let script = format!(
        "{CLIENT}
for length in (100, 16000, 16384, 16385, 20224, 40000, 300000):
    print(length, ask(['/'], b'a' * length).split(b'\\r\\n\\r\\n')[1].decode(), flush=True)"
    );
    let run = with_secrets(Fixture::python(&script), server).timeout(Duration::from_secs(10)).run();
    assert!(run.stdout().ends_with("300000 300000\n"), "{run:?}");
}

#[test]
fn an_answer_in_an_unknown_transfer_coding_is_refused() {
    let text = got("ask(['/', 'X-Key: ' + token])", |_| {
        vec![
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n4\r\n\x1f\x8b\x08\x00\r\n0\r\n\r\n"
                .to_vec(),
        ]
    });
    assert!(text.contains("502"), "{text:?}");
}

/// `http_guard` ends the connection after each request with a body for that reason.
#[test]
fn a_body_that_the_host_does_not_read_is_no_request() {
    let received = servers::Received::default();
    let stored = received.clone();
    let server = servers::tls(move |stream| servers::answer_requests(stream, "ok", &stored));
    let script = format!(
        "{CLIENT}
inner = b'GET /smuggled HTTP/1.1\\r\\nHost: other.test\\r\\nX-Key: ' + token.encode() + b'\\r\\n\\r\\n'
s = socket.create_connection(('secure.test', 80))
s.sendall(b'POST /a HTTP/1.1\\r\\nHost: secure.test\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(inner) + inner)
print(s.recv(999))
s.sendall(b'GET /b HTTP/1.1\\r\\nHost: secure.test\\r\\n\\r\\n')
print(s.recv(999))"
    );
    let run = with_secrets(Fixture::python(&script), server).run();
    assert!(run.0.result.is_ok(), "{run:?}");
    let text = received.text().to_ascii_lowercase();
    assert!(
        text.contains("/smuggled") && text.contains("connection: close"),
        "the host takes the body for a request to another host:\n{text}\n{}",
        run.stdout()
    );
}

/// A provider of the embedder that does not know what it has hides the hosts of the configuration.
#[test]
fn the_hosts_of_a_configuration_bind_whatever_other_providers_there_are() {
    let script = format!("return {{ctx.secret('TOKEN') == '{TOKEN}'}}");
    let configuration = metier::config::Configuration::new()
        .with(
            "skills.x.secrets.TOKEN",
            serde_json::json!({"command": ["printf", "%s", TOKEN], "host": "secure.test"}),
        )
        .unwrap();
    let fixture = Fixture::new("run.lua", &script)
        .file("skills/x/SKILL.md", "---\nname: x\ndescription: d\nallowed-tools: secret:TOKEN\n---\n")
        .grant("secret:TOKEN");
    let outcome = fixture.builder().configuration(configuration).build().unwrap().run(fixture.invocation());
    assert_eq!(format!("{:?}", outcome.result), "Ok(Array [Bool(false)])");
}

/// Gateways give back bodies so: `"isBase64Encoded": true`.
#[test]
fn base64_of_a_form_is_searched() {
    let text = got(
        "ask(['/', 'Content-Type: application/x-www-form-urlencoded'], ('key=' + __import__('urllib.parse').parse.quote(password, safe='')).encode())",
        |request| vec![whole("", STANDARD.encode(body(request)))],
    );
    let encoded = text.split("\r\n\r\n").nth(1).unwrap();
    let plain = String::from_utf8_lossy(&STANDARD.decode(encoded).unwrap()).into_owned();
    assert_without(&plain, &["Correct%2BHorse%2FBattery%3DStaple%269"]);
}

fn resident_megabytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
}

#[test]
fn the_tables_of_a_long_secret_are_made_once() {
    if !is_alone("egress::attacks_on_secrets::the_tables_of_a_long_secret_are_made_once") {
        return;
    }
    // As long as a private key in base64.
    let key: &'static str = Box::leak(STANDARD.encode([0x5a, 0xfb, 0xff, 0x12].repeat(600)).into_boxed_str());
    let server = servers::tls(|mut stream| {
        servers::read_request(&mut stream);
        thread::sleep(Duration::from_secs(3));
    });
    let script = "
import socket, time
connections = []
for number in range(40):
    s = socket.create_connection(('secure.test', 80))
    s.sendall(b'GET / HTTP/1.1\\r\\nHost: secure.test\\r\\n\\r\\n')
    connections.append(s)
time.sleep(2)";
    let first = resident_megabytes();
    let watch = thread::spawn(|| {
        let until = Instant::now() + Duration::from_secs(4);
        let mut most = 0;
        while Instant::now() < until {
            most = most.max(resident_megabytes());
            thread::sleep(Duration::from_millis(50));
        }
        most
    });
    let run = Fixture::python(script).host("secure.test", server).secret("KEY", key, "secure.test").run();
    let duration = run.0.duration;
    assert!(run.0.result.is_ok(), "{run:?}");
    let taken = watch.join().unwrap().saturating_sub(first);
    assert!(
        taken < 200,
        "{taken} MB for 40 idle requests of a secret of {} bytes, in {duration:?}",
        key.len()
    );
}

/// The same as `pieces_of_an_answer_are_no_oracle` with a host that sends the content of a request back at once.
#[test]
fn the_ends_of_reads_are_no_oracle() {
    let server = host(|request| {
        let text = body(request).as_bytes();
        let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", text.len());
        vec![[head.as_bytes(), text, b"\r\n0\r\n\r\n"].concat()]
    });
    let script = format!(
        "{CLIENT}
{ENDS}for _ in range(3):
    print(ends(ask(['/'], b'!' * 200000)))
print('-')
usual = ends(ask(['/'], b'!' * 200000))
for guess in ('ghp_0123', 'ghp_0124'):
    text = '!' * 200000
    for end in usual[:-1]:
        text = text[:end - 8] + guess + text[end:]
    print(guess, ends(ask(['/'], text.encode())))"
    );
    let run = with_secrets(Fixture::python(&script), server).run();
    let [right, wrong] = ["ghp_0123", "ghp_0124"].map(|guess| {
        run.stdout()
            .lines()
            .find_map(|line| line.strip_prefix(guess))
            .unwrap_or_else(|| panic!("{run:?}"))
            .to_owned()
    });
    assert_eq!(right, wrong, "{}", run.stdout());
}

/// What the script of one skill stored at the host, the script of the one that called it reads.
#[test]
fn a_calling_skill_reads_no_secret_of_the_one_that_it_calls() {
    let address = servers::serve(9, |mut stream| {
        let mut buffer = [0; 4096];
        assert!(stream.read(&mut buffer).is_ok());
        stream.write_all(&whole("Connection: close\r\n", TOKEN)).ok();
    });
    let other = format!(
        "ctx.http('http://{address}/', {{headers = {{['x-key'] = ctx.secret('TOKEN')}}}}) return 'stored'"
    );
    let script = format!("ctx.skill('y', {{}}) return string.reverse(ctx.http('http://{address}/').body)");
    let head = |name: &str, more: &str| {
        format!("---\nname: {name}\ndescription: d\nallowed-tools: net:{address} secret:TOKEN {more}\n---\n")
    };
    let run = Fixture::new("main.lua", &script)
        .file("skills/x/SKILL.md", head("x", "skill:y"))
        .file("skills/y/SKILL.md", head("y", ""))
        .file("skills/y/scripts/main.lua", &other)
        .grant("skill:y")
        .grant(format!("net:{address}"))
        .secret("TOKEN", TOKEN, &address.to_string())
        .run();
    let outcome = format!("{:?}", run.0.result);
    let reversed: String = TOKEN.chars().rev().collect();
    assert!(run.0.result.is_ok(), "{outcome}");
    assert!(!outcome.contains(&reversed), "{outcome}");
}
