//! Sockets of the script's own with a path: it reaches them, and no others by any path, name, race or flood.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use metier::error::ErrorKind as Kind;
use metier::policy::SandboxLevel;

use super::case;
use crate::sandbox::case::{Case, CaseResult};
use crate::sandbox::fixture::{self, Fixture};
use crate::sandbox::survivors;

pub const CASES: &[Case] = &[
    case("U1", "its own sockets, by every way to write their paths", own),
    case("U2", "a service of the host in the project, by paths, links, second names and moves", services),
    case("U3", "a path in memory that changes while the supervisor reads it", changing_address),
    case("U4", "a file that is exchanged while the supervisor opens it", changing_file),
    case("U5", "addresses and descriptors that are none", malformed),
    case("U6", "a socket in a folder that others can see", visible),
    case("U7", "sockets of another run at the same time", other_run),
    case("U8", "more connections than anybody accepts, and a queue that is full", flood),
    case("U9", "connections without an end until the deadline", busy),
    case("U10", "connections that wait in a network of its own, and signals meanwhile", waiting),
    case(
        "U11",
        "a descriptor that becomes that of another socket while the supervisor connects it",
        changing_socket,
    ),
    case("U12", "a socket that begins to wait for ever while the supervisor connects it", waiting_for_ever),
];

/// Whether this level and kernel tell a script's own sockets from others.
pub fn has_local_sockets() -> bool {
    fixture::level() == SandboxLevel::Namespaces && fixture::landlock_abi() >= 6
}

/// What all of the scripts begin with.
const START: &str = "
import ctypes, errno, mmap, os, signal, socket, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
tmp = os.environ['TMPDIR']
def attempt(name, call):
    try:
        call(); print(f'{name}: done')
    except EOFError:
        print(f'{name}: EPERM')
    except OSError as error:
        print(f'{name}: {errno.errorcode.get(error.errno, error.errno)}')
def listener(path, backlog=64):
    one = socket.socket(socket.AF_UNIX); one.bind(path); one.listen(backlog); return one
def connect(path):
    one = socket.socket(socket.AF_UNIX); one.connect(path); return one
def start(work):
    process = os.fork()
    if process == 0: work(); os._exit(0)
    return process
def race(opponents, attempt):
    # Opponents are processes: threads of one interpreter take turns, and could miss each other each time.
    processes = [start(work) for work in opponents]
    until, counts = time.monotonic() + 20, [0, 0]
    while time.monotonic() < until and counts[True] < 4000 and (sum(counts) < 900 or 0 in counts):
        counts[attempt()] += 1
    for process in processes: os.kill(process, signal.SIGKILL); os.waitpid(process, 0)
    return 'both' if all(counts) else f'refused and made: {counts}'
";

fn python(script: &str) -> Fixture {
    Fixture::python(&format!("{START}{script}"))
}

/// A service of the host, which everybody may reach.
fn service(path: &str) -> UnixListener {
    let listener = UnixListener::bind(path).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

#[track_caller]
fn assert_nobody_came(listener: &UnixListener) {
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "somebody came");
}

fn own() -> CaseResult {
    let ran = python(
        "
def talk(path, kind=socket.SOCK_STREAM):
    one = socket.socket(socket.AF_UNIX, kind); one.bind(path); one.listen(1)
    two = socket.socket(socket.AF_UNIX, kind); two.connect(path); three, _ = one.accept()
    two.sendall(b'hello'); assert three.recv(9) == b'hello'
attempt('tmp', lambda: talk('/tmp/a'))
attempt('TMPDIR', lambda: talk(tmp + '/b'))
attempt('home', lambda: talk(os.environ['HOME'] + '/c'))
attempt('packets', lambda: talk('/tmp/d', socket.SOCK_SEQPACKET))
os.mkdir(tmp + '/deep'); os.chdir(tmp + '/deep')
attempt('relative', lambda: talk('e'))
attempt('dots', lambda: talk('../f'))
def forked():
    one = listener('/tmp/g')
    if os.fork() == 0: connect('/tmp/g').sendall(b'x'); os._exit(0)
    assert one.accept()[0].recv(1) == b'x'
attempt('forked', forked)
def managed():
    import multiprocessing, tempfile
    # The address of a socket has 107 bytes at most, and TMPDIR may be long.
    tempfile.tempdir = '/tmp'
    with multiprocessing.Manager() as manager:
        shared = manager.dict(); shared['a'] = 1; assert dict(shared) == {'a': 1}
attempt('manager', managed)
",
    )
    .deadline(60_000)
    .run();
    if has_local_sockets() {
        let all = ["tmp", "TMPDIR", "home", "packets", "relative", "dots", "forked", "manager"];
        ran.assert_stdout(&all.map(|name| format!("{name}: done\n")).concat());
    } else {
        ran.assert_refused(8, &["EPERM"]);
    }
    Ok(())
}

fn services() -> CaseResult {
    let fixture = python(
        "
path, outside, name = sys.argv[1:4]
for number, target in enumerate([path, outside]):
    attempt('whole', lambda: connect(target))
    attempt('dots', lambda: connect('/tmp/..' + target))
    attempt('beside', lambda: connect(tmp + '/../../..' + target))
    attempt('cwd', lambda: (os.chdir(os.path.dirname(target)), connect(os.path.basename(target))))
    for folder in ['/tmp', tmp]:
        link = f'{folder}/link-{number}'
        attempt('link', lambda: (os.path.lexists(link) or os.symlink(target, link), connect(link)))
        above = f'{folder}/above-{number}'
        attempt('linked folder', lambda: (os.path.lexists(above) or os.symlink(os.path.dirname(target), above), connect(above + '/' + os.path.basename(target))))
        attempt('second name', lambda: (os.link(target, f'{folder}/hard-{number}'), connect(f'{folder}/hard-{number}')))
        attempt('moved', lambda: (os.rename(target, f'{folder}/moved-{number}'), connect(f'{folder}/moved-{number}')))
    opened = lambda: os.open(target, os.O_PATH)
    attempt('descriptor', lambda: connect(f'/proc/self/fd/{opened()}'))
    attempt('descriptor below', lambda: connect(f'/tmp/../proc/self/fd/{opened()}'))
attempt('name', lambda: connect('\\0' + name))
attempt('datagram', lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', path))
one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
attempt('named packet', lambda: one.connect(path))
attempt('named send', lambda: socket.socket(socket.AF_UNIX).sendto(b'x', path))
attempt('system bus', lambda: connect('/run/dbus/system_bus_socket'))
",
    )
    .grant("write");
    let name = format!("metier-service-{}-{:?}", std::process::id(), std::thread::current().id());
    let (path, outside) = (fixture.name("project/service"), fixture.name("beside"));
    let listeners = [service(&path), service(&outside)];
    let named = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    named.set_nonblocking(true).unwrap();
    let ran = fixture.args(&[&path, &outside, &name]).deadline(60_000).run();
    let ways = [
        "EPERM",
        "EACCES",
        "ENOENT",
        "EXDEV",
        "EISCONN",
        "ENOTSUP",
        "ENOTCONN",
        "EINVAL",
        "EROFS",
        "ECONNREFUSED",
        // Longer than an address.
        "None",
    ];
    ran.assert_refused(33, &ways);
    listeners.iter().chain([&named]).for_each(assert_nobody_came);
    Ok(())
}

fn changing_address() -> CaseResult {
    let fixture = python(
        "
path = sys.argv[1].encode()
try: own = listener('/tmp/own', 4096)
except OSError: sys.exit(print('none'))
families = (1).to_bytes(2, sys.byteorder)
fill = lambda target: (families + target).ljust(110, b'\\0')
page = mmap.mmap(-1, 4096)
memory = (ctypes.c_char * 110).from_buffer(page)
memory.raw = fill(b'/tmp/own')
def flip():
    while True:
        ctypes.memmove(memory, fill(path), 110); ctypes.memmove(memory, fill(b'/tmp/own'), 110)
def attempt():
    with socket.socket(socket.AF_UNIX) as one: return libc.connect(one.fileno(), memory, 110) == 0
print(race([flip, flip], attempt))
",
    )
    .grant("write");
    let path = fixture.name("project/service");
    let listener = service(&path);
    let ran = fixture.args(&[&path]).deadline(60_000).run();
    ran.assert_stdout(if has_local_sockets() { "both\n" } else { "none\n" });
    assert_nobody_came(&listener);
    Ok(())
}

fn changing_file() -> CaseResult {
    let fixture = python(
        "
path = sys.argv[1]
try: own = listener('/tmp/own', 4096)
except OSError: sys.exit(print('none'))
os.link('/tmp/own', '/tmp/real')
def exchange():
    while True:
        os.symlink(path, '/tmp/next'); os.rename('/tmp/next', '/tmp/own')
        os.link('/tmp/real', '/tmp/next'); os.rename('/tmp/next', '/tmp/own')
def attempt():
    try: connect('/tmp/own').close()
    except OSError: return False
    return True
print(race([exchange], attempt))
",
    )
    .grant("write");
    let path = fixture.name("project/service");
    let listener = service(&path);
    let ran = fixture.args(&[&path]).deadline(60_000).run();
    ran.assert_stdout(if has_local_sockets() { "both\n" } else { "none\n" });
    assert_nobody_came(&listener);
    Ok(())
}

fn malformed() -> CaseResult {
    let ran = python(
        "
try: own = listener('/tmp/own')
except OSError: sys.exit(print('none'))
def raw(descriptor, address, length):
    if libc.connect(descriptor, address, length) != 0: raise OSError(ctypes.get_errno(), '')
family = (1).to_bytes(2, sys.byteorder)
good = family + b'/tmp/own\\0'
kept = []
def new(): kept.append(socket.socket(socket.AF_UNIX)); return kept[-1]
for length in [-1, 0, 1, 2, 111, 4096, 2**31 - 1]: attempt(f'length {length}', lambda: raw(new().fileno(), good, length))
for pointer in [0, 1, 4096, 2**47, 2**63 - 1]: attempt(f'pointer {pointer:x}', lambda: raw(new().fileno(), ctypes.c_void_p(pointer), 110))
for number in [0, 2, 10, 16, 65535]: attempt(f'family {number}', lambda: raw(new().fileno(), number.to_bytes(2, sys.byteorder) + good[2:], 11))
for descriptor in [-1, 0, 1, 999, 2**31 - 1, os.open('/tmp', 0), os.open('/tmp/own', os.O_PATH)]:
    attempt(f'descriptor {descriptor}', lambda: raw(descriptor, good, 11))
for path in [b'/', b'/tmp', b'/tmp/', b'/tmp/none', b'/tmp/own/x', b'/tmp/\\xff', b'.', b'..', b'']:
    attempt(f'path {path}', lambda: raw(new().fileno(), family + path + b'\\0', 3 + len(path)))
open('/tmp/file', 'w').close(); attempt('file', lambda: connect('/tmp/file'))
os.mkfifo('/tmp/pipe'); attempt('pipe', lambda: connect('/tmp/pipe'))
for count in range(50):
    threading.Thread(target=lambda: [libc.connect(-1, good, 11) for _ in range(20)]).start()
one = connect('/tmp/own'); attempt('again', lambda: one.connect('/tmp/own'))
attempt('well', lambda: connect('/tmp/own'))
",
    )
    .deadline(60_000)
    .run();
    if !has_local_sockets() {
        ran.assert_stdout("none\n");
        return Ok(());
    }
    let ways = [
        "EPERM",
        "EACCES",
        "ENOENT",
        "EINVAL",
        "EFAULT",
        "EBADF",
        "ENOTSOCK",
        "ECONNREFUSED",
        "ENOTDIR",
        "EISCONN",
    ];
    ran.assert_refused_but(37, &ways, &["well: done"]);
    assert!(ran.stdout().ends_with("well: done\n"), "{}", ran.stdout());
    Ok(())
}

fn visible() -> CaseResult {
    let fixture = python(
        "
os.makedirs('out', exist_ok=True)
for place in ['.', 'out', os.environ['METIER_SKILL_DIR'], '/dev/shm', '/run', '/var/tmp']:
    attempt(f'socket in {place}', lambda: listener(place + '/made'))
    attempt(f'node in {place}', lambda: os.mknod(place + '/node', 0o140666))
",
    )
    .grant("write")
    .grant("own-folder")
    .grant("shm");
    let ran = fixture.run();
    // Landlock sees a folder that is mounted below the `/tmp` of a run as a part of it.
    let skill = fixture.name("skills/x");
    let is_below_tmp = has_local_sockets() && fixture::is_in_private_folder(&skill);
    let places = [".", "out", &*skill];
    let below: Vec<String> = places
        .iter()
        .flat_map(|place| [format!("socket in {place}: done"), format!("node in {place}: done")])
        .collect();
    let below: Vec<&str> = below.iter().filter(|_| is_below_tmp).map(String::as_str).collect();
    ran.assert_refused_but(12, &["EPERM", "EACCES", "ENOENT", "EROFS"], &below);
    Ok(())
}

fn other_run() -> CaseResult {
    let waiting = python(
        "
try: one = listener('/tmp/own'); two = listener('\\0metier-name')
except OSError: pass
open('ready', 'w').write(tmp)
while not os.path.exists('done'): time.sleep(0.02)
",
    )
    .grant("write")
    .deadline(60_000);
    let script = "
others = open('ready').read()
for path in [others + '/own', '/tmp/own', '\\0metier-name']: attempt('other', lambda: connect(path))
open('done', 'w')
";
    waiting.write("skills/x/scripts/other.py", format!("{START}{script}"));
    let engine = waiting.engine();
    let ran = std::thread::scope(|scope| {
        let first = scope.spawn(|| engine.run(waiting.invocation().script("scripts/run.py")));
        while !waiting.at("project/ready").exists() {
            assert!(!first.is_finished(), "{:?}", first.join().unwrap().result);
            std::thread::sleep(Duration::from_millis(20));
        }
        waiting.result(engine.run(waiting.invocation().script("scripts/other.py")))
    });
    ran.assert_refused(3, &["EPERM", "ENOENT", "EACCES", "ECONNREFUSED"]);
    Ok(())
}

fn flood() -> CaseResult {
    let fixture = python(
        "
try: own = listener('/tmp/own', 4096)
except OSError: sys.exit(print('none'))
made, text = 0, b'x' * 65536
for _ in range(5000):
    one = socket.socket(socket.AF_UNIX)
    try: one.connect('/tmp/own')
    except OSError as error: last = error.errno; break
    made += 1; one.setblocking(False)
    try:
        while True: one.send(text)
    except OSError: pass
    one.close()
print(made <= 1024, errno.errorcode[last])
short = listener('/tmp/short', 0)
full = 0
for _ in range(8):
    began = time.monotonic()
    try: connect('/tmp/short')
    except OSError: full += 1
    assert time.monotonic() - began < 5
print(full > 0)
",
    )
    .deadline(60_000);
    let ran = fixture.run();
    ran.assert_stdout(if has_local_sockets() { "True EAGAIN\nTrue\n" } else { "none\n" });
    survivors::assert_none(fixture.mark());
    Ok(())
}

fn busy() -> CaseResult {
    let fixture = python(
        "
def loop():
    while True:
        one = socket.socket(socket.AF_UNIX) if own else socket.socketpair()[0]
        try: one.connect('/tmp/none')
        except OSError: pass
try: own = listener('/tmp/own')
except OSError: own = None
for _ in range(8): threading.Thread(target=loop).start()
",
    )
    .deadline(2_000);
    let ran = fixture.run();
    assert_eq!(ran.error().kind(), Kind::Timeout, "{ran:?}");
    assert!(ran.0.duration < Duration::from_secs(10 * fixture::slowness()), "{:?}", ran.0.duration);
    survivors::assert_none(fixture.mark());
    Ok(())
}

/// Who connects to a server that accepts nobody waits in the supervisor, which goes on with everything else.
fn waiting() -> CaseResult {
    if fixture::level() != SandboxLevel::Namespaces {
        return Ok(());
    }
    let ran = python(
        "
server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen(0)
address = server.getsockname()
def connects():
    for _ in range(100): held.append(socket.create_connection(address))
held = []
for _ in range(3):
    child = os.fork()
    if child == 0: connects(); os._exit(0)
    time.sleep(0.3); os.kill(child, signal.SIGTERM)
    print('ended by', os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done = []
threads = [threading.Thread(target=lambda: done.append(socket.create_connection(address))) for _ in range(20)]
for thread in threads: thread.start()
# Others are served meanwhile.
other = socket.socket(); other.bind(('127.0.0.1', 0)); other.listen()
for _ in range(100): socket.create_connection(other.getsockname()).close(); other.accept()[0].close()
server.listen(64); server.settimeout(0.1)
while len(done) < 20:
    try: server.accept()
    except TimeoutError: pass
print('all', len(done))
late = socket.socket(); late.setblocking(False)
print('later', late.connect_ex(other.getsockname()) in (0, errno.EINPROGRESS))
plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); plain.connect(address)
libc.connect(plain.fileno(), bytes(16), 16); attempt('ended', plain.getpeername)
attempt('nobody', lambda: socket.create_connection(('127.0.0.1', 1)))
attempt('outside', lambda: socket.create_connection(('8.8.8.8', 53)))
",
    )
    .deadline(60_000)
    .run();
    let end = "ended: ENOTCONN\nnobody: ECONNREFUSED\noutside: ENETUNREACH\n";
    ran.assert_stdout(&format!("{}all 20\nlater True\n{end}", "ended by -15\n".repeat(3)));
    Ok(())
}

/// The number of a socket of the internet is given to a local one, again and again, while a path of the host's is connected to.
fn changing_socket() -> CaseResult {
    let fixture = python(
        "
path = sys.argv[1].encode()
local = socket.AF_UNIX.to_bytes(2, sys.byteorder) + path + b'\\0'
internet = socket.AF_INET.to_bytes(2, sys.byteorder) + bytes([0, 9, 127, 0, 0, 1]) + bytes(8)
size = max(len(local), len(internet))
memory = mmap.mmap(-1, 4096); place = (ctypes.c_char * 4096).from_buffer(memory)
kinds = [socket.AF_INET, socket.AF_UNIX]
sockets = [socket.socket(kind) for kind in kinds]
number = os.dup(sockets[0].fileno())
go_on = True
def exchange():
    while go_on:
        for one, address in zip(sockets, (local, internet)):
            os.dup2(one.fileno(), number); memory[:len(address)] = address
memory[:len(internet)] = internet
thread = threading.Thread(target=exchange); thread.start()
until = time.monotonic() + 2
results = set()
while time.monotonic() < until:
    results.add(0 if libc.connect(number, place, size) == 0 else ctypes.get_errno())
go_on = False; thread.join()
print('connected' if 0 in results else 'never')
",
    );
    let path = fixture.name("outside/service");
    let listener = UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    if !has_local_sockets() {
        return Ok(());
    }
    fixture.args(&[&path]).deadline(60_000).run().assert_stdout("never\n");
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "somebody came");
    Ok(())
}

/// Other processes that share the socket make it wait, and take its time limit away, again and again, while the queue of the other side is
/// full: the supervisor would wait there, and the tree could not be killed.
fn waiting_for_ever() -> CaseResult {
    let script = "
import fcntl, struct
try: server = listener('/tmp/own', 0)
except OSError: sys.exit(print('none'))
one = socket.socket(socket.AF_UNIX)
first = connect('/tmp/own')
never = struct.pack('ll', 0, 0)
def limits():
    while True: one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, never)
def flags():
    while True: fcntl.fcntl(one, fcntl.F_SETFL, 0)
others = [start(work) for work in (limits, limits, flags)]
until = time.monotonic() + float(sys.argv[1])
results = set()
while time.monotonic() < until:
    try: one.connect('/tmp/own')
    except OSError as error: results.add(errno.errorcode[error.errno])
for other in others: os.kill(other, signal.SIGKILL)
print(*results)
";
    let ran = python(script).args(&["3"]).deadline(60_000).run();
    ran.assert_stdout(if has_local_sockets() { "EAGAIN\n" } else { "none\n" });
    if has_local_sockets() {
        let fixture = python(script).args(&["600"]).deadline(2_000);
        let ran = fixture.run();
        assert_eq!(ran.error().kind(), Kind::Timeout, "{ran:?}");
        assert!(ran.0.duration < Duration::from_secs(8 * fixture::slowness()), "{:?}", ran.0.duration);
        survivors::assert_none(fixture.mark());
    }
    Ok(())
}
