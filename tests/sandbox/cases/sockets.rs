//! The network, and services of the host's that listen on sockets.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::time::Duration;

use metier::policy::SandboxLevel;

use super::case;
use super::local_sockets::has_local_sockets;
use crate::sandbox::case::{Case, CaseResult};
use crate::sandbox::fixture::{self, Fixture};

pub const CASES: &[Case] = &[
    case("E24", "sockets of every family", families),
    case("E24b", "the languages' own ways to the network", languages),
    case("E24c", "pairs of local sockets, which programs need", pairs),
    case("E25", "sockets that the host listens on, by path and by name, by pairs too", local),
    case("E25b", "the same with the network open", local_with_network),
    case("M11", "to have the host wait for a socket that lingers", lingering),
    case("M1", "what lies beside an open network", beside),
];

fn families() -> CaseResult {
    // Streams of its own reach nothing else: `local_sockets`. With namespaces the network is its own as well.
    let local: &[&str] = if has_local_sockets() { &["unix: done", "unix seqpacket: done"] } else { &[] };
    let has_network = fixture::level() == SandboxLevel::Namespaces;
    let internet: &[&str] =
        if has_network { &["tcp: done", "udp: done", "tcp6: done", "udp6: done"] } else { &[] };
    let open = [local, internet].concat();
    Fixture::attacker("sockets", &["families"])?.run().assert_refused_but(21, &["EPERM"], &open);
    Ok(())
}

fn languages() -> CaseResult {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let datagrams = std::net::UdpSocket::bind(("127.0.0.1", port)).unwrap();
    datagrams.set_nonblocking(true).unwrap();
    let port = port.to_string();
    let ran = Fixture::bash(
        "exec 2>/dev/null
        for kind in tcp udp; do (exec 3<>/dev/$kind/127.0.0.1/$1 && echo x >&3) && echo \"$kind: done\" || echo \"$kind: refused\"; done
        for tool in curl wget nc ping getent; do
            command -v $tool >/dev/null || { echo \"$tool: absent\"; continue; }
            case $tool in
                nc) nc -w 1 127.0.0.1 $1 </dev/null;; ping) ping -c 1 -W 1 127.0.0.1;;
                getent) timeout 2 getent ahosts example.com;; *) timeout 2 $tool -q http://127.0.0.1:$1/;;
            esac && echo \"$tool: done\" || echo \"$tool: refused\"
        done",
    )
    .args(&[&port])
    .run();
    // A datagram goes to the script's own network, where nobody receives it.
    ran.assert_refused_but(7, &["refused", "absent"], &["udp: done"]);
    assert_eq!(datagrams.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "something came");
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "somebody came");
    Ok(())
}

fn pairs() -> CaseResult {
    Fixture::attacker("sockets", &["pairs"])?.run().assert_stdout("stream: done\nseqpacket: done\n");
    Ok(())
}

fn local() -> CaseResult {
    attack_local(None)
}

fn local_with_network() -> CaseResult {
    attack_local(Some("net"))
}

fn attack_local(grant: Option<&'static str>) -> CaseResult {
    let mut fixture = Fixture::attacker("sockets", &["local"])?;
    let name = format!("metier-sandbox-{}-{}", std::process::id(), grant.is_some());
    let (stream, datagram) = (fixture.name("project/stream"), fixture.name("project/datagram"));
    let _listener = UnixListener::bind(&stream).unwrap();
    let post = UnixDatagram::bind(&datagram).unwrap();
    let _named = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    post.set_nonblocking(true).unwrap();
    fixture = fixture.args(&["local", &stream, &datagram, &format!("@{name}")]).grant("write");
    let fixture = match grant {
        Some(grant) => fixture.grant(grant),
        None => fixture,
    };
    // In a network of its own there is nobody of that name.
    fixture.run().assert_refused(7, &["EPERM", "EISCONN", "E111"]);
    assert_eq!(post.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock, "something came");
    Ok(())
}

fn beside() -> CaseResult {
    let ran = Fixture::attacker("sockets", &["beside"])?.grant("net").run();
    ran.assert_ok();
    assert!(!ran.sandbox().network, "the network is open: {:?}", ran.sandbox());
    let mut lines: Vec<&str> = ran.stdout().lines().collect();
    let (open, shut) = (lines.drain(..3).collect::<Vec<_>>(), lines);
    assert!(open[0] == "tcp: done" && open[2] == "routes: done", "{open:?}");
    assert!(shut.len() == 7 && shut.iter().all(|line| line.ends_with(": EPERM")), "{shut:?}");
    Ok(())
}

/// Sends the host what takes its time to be closed: at once, among more than it takes, within another socket, and unread.
fn lingering() -> CaseResult {
    let ran = Fixture::python(
        "import array, os, socket, struct, sys
host = socket.socket(fileno=os.dup(int(os.environ['METIER_API_FD'])))
def lingers():
    listener = socket.socket(); listener.bind(('127.0.0.1', 0)); listener.listen(1)
    near = socket.socket(); near.connect(listener.getsockname()); far, _ = listener.accept()
    try:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 60))
        print('linger: done')
    except OSError as error:
        print('linger:', 'EPERM' if error.errno == 1 else error)
    near.setblocking(False)
    try:
        while near.send(b'x' * 65536): pass
    except BlockingIOError: pass
    return near, far
def send(to, files):
    numbers = array.array('i', [file.fileno() for file in files])
    to.sendmsg([b'\\0'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
kept = []
for form in ['alone', 'many', 'within']:
    near, far = lingers()
    kept.append(far)
    one, other = socket.socketpair()
    if form == 'within': send(one, [near])
    send(host, {'alone': [near], 'many': [one] * 6 + [near], 'within': [other]}[form])
    send(host, [far])
    near.close()
sys.stdout.flush(); os._exit(0)",
    )
    .grant("net")
    .deadline(30_000)
    .run();
    ran.assert_refused(3, &["EPERM"]);
    assert!(ran.0.duration < Duration::from_secs(30), "{:?}", ran.0.duration);
    Ok(())
}
