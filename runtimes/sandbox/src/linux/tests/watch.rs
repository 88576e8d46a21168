//! What a watched run reports, and that watching changes nothing else, whatever a script does to it.

use std::io::Seek;
use std::path::Path;

use super::*;

/// The levels at which runs are watched.
const LEVELS: [SandboxLevel; 3] =
    [SandboxLevel::Namespaces, SandboxLevel::Landlock, SandboxLevel::LandlockUnscoped];

fn launcher(level: SandboxLevel) -> Launcher {
    Launcher::new(ForkServerSource::CurrentProgram, level)
}

fn folder(path: impl AsRef<Path>, accesses: AccessKinds) -> WatchedFolder {
    WatchedFolder { path: path.as_ref().into(), accesses }
}

/// This program in a project, watched there and in `/home`.
fn watched(project: &Path, program: &str, args: &[&str]) -> LaunchRequest {
    let mut request = launch_request(project, "");
    request.program = program.into();
    request.args = args.iter().map(Into::into).collect();
    let folders = vec![folder(project, AccessKinds::all()), folder("/home", AccessKinds::all())];
    request.sandbox.watch = Some(WatchRules { folders, programs: false });
    request
}

/// Runs it, with its output in files of the project's.
fn observe(level: SandboxLevel, request: &LaunchRequest) -> (String, SupervisorReport) {
    let output = tempfile::tempfile().unwrap();
    let copy = || OwnedFd::from(output.try_clone().unwrap());
    let streams = [File::open("/dev/null").unwrap().into(), copy(), copy()];
    let report = launcher(level).start(request, streams, None).unwrap().wait().unwrap();
    let mut text = String::new();
    (&output).rewind().unwrap();
    (&output).read_to_string(&mut text).unwrap();
    (text, report)
}

/// What of it is below the project, as `KIND path count`.
fn below(project: &Path, report: &SupervisorReport) -> Vec<String> {
    let observed = report.observations.as_ref().unwrap();
    let line = |access: &ObservedAccess| {
        let path = Path::new(&access.path).strip_prefix(project).ok()?;
        Some(format!("{:?} {} {}", access.kind, path.display(), access.count))
    };
    observed.accesses.iter().filter_map(line).collect()
}

/// A Python program, and whether it ended with 0.
fn python(level: SandboxLevel, text: &str) -> (tempfile::TempDir, String, SupervisorReport) {
    let project = tempfile::tempdir().unwrap();
    let request = watched(project.path(), "/usr/bin/python3", &["-I", "-S", "-c", text]);
    let (output, report) = observe(level, &request);
    (project, output, report)
}

const SUCCESS: LaunchOutcome = LaunchOutcome::Exited { status: 0 };

#[test]
fn each_way_to_name_a_path_is_observed() {
    const SCRIPT: &str = r#"
import os, socket, array
os.mkdir("made"); open("made/new", "w").close(); os.rename("made/new", "made/./other")
open("made/other").close(); open("made/other", "a").close(); os.chmod("made/other", 0o600)
os.utime("made/other"); os.truncate("made/other", 0); os.symlink("nowhere", "link"); os.link("made/other", "hard")
os.path.exists("missing"); os.access("tested", os.R_OK); os.readlink("link"); os.lstat("link")
os.unlink("hard"); os.unlink("link"); os.mkfifo("fifo")
folder = os.open("made", os.O_RDONLY)
ours, theirs = socket.socketpair()
socket.send_fds(ours, [b"x"], [folder]); received = socket.recv_fds(theirs, 1, 1)[1][0]
open("other", opener=lambda path, flags: os.open(path, flags, dir_fd=received)).close()
os.chdir("made"); os.path.exists("../made/.//deep"); os.path.exists("/home/../home/nobody/x")
os.unlink("other"); os.chdir(".."); os.rmdir("made")
for wrong in ["/home/nobody/tool"]:
    try: os.execv(wrong, [wrong])
    except OSError as error: pass
"#;
    for level in LEVELS {
        let (project, output, report) = python(level, SCRIPT);
        assert_eq!((output.as_str(), &report.end), ("", &SUCCESS), "{level:?}");
        let project = project.path();
        assert_eq!(
            below(project, &report),
            [
                "LookUp  1",
                "Create fifo 1",
                "Create hard 1",
                "Remove hard 1",
                "Create link 1",
                "Remove link 1",
                "LookUp link 2",
                "Read made 1",
                "CreateFolder made 1",
                "Remove made 1",
                "LookUp made 1",
                "LookUp made/deep 1",
                "Create made/new 1",
                "Remove made/new 1",
                "Read made/other 2",
                "Write made/other 3",
                "Create made/other 2",
                "Remove made/other 1",
                "LookUp missing 1",
                "LookUp tested 1",
            ],
            "{level:?}"
        );
        let home = below(Path::new("/home"), &report);
        assert_eq!(home, ["Execute nobody/tool 1", "LookUp nobody/x 1"], "{level:?}");
        assert_eq!(report.observations.unwrap().unrecorded, 0);
    }
}

#[test]
fn a_run_that_is_not_watched_has_no_observations() {
    let project = tempfile::tempdir().unwrap();
    for level in LEVELS {
        let (_, report) = observe(level, &launch_request(project.path(), "ls; exit 0"));
        assert_eq!((report.end, report.observations), (SUCCESS, None), "{level:?}");
    }
}

/// What attacks begin with: raw system calls, by their numbers on x86-64.
#[cfg(target_arch = "x86_64")]
const RAW_CALLS: &str = r"
import ctypes, os, struct, threading, time, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
def call(number, *arguments):
    ended = libc.syscall(number, *[ctypes.c_long(one) if isinstance(one, int) else one for one in arguments])
    return ended if ended >= 0 else -ctypes.get_errno()
def pages(count):
    return libc.mmap(None, ctypes.c_size_t(4096 * count), 3, 0x22, -1, ctypes.c_long(0))
";

#[cfg(target_arch = "x86_64")]
fn attack(level: SandboxLevel, text: &str) -> (tempfile::TempDir, String, SupervisorReport) {
    python(level, &format!("{RAW_CALLS}{text}"))
}

#[test]
#[cfg(target_arch = "x86_64")]
fn what_cannot_be_read_as_a_path_ends_as_without_a_watch_and_is_not_observed() {
    const SCRIPT: &str = r"
OPENAT, FAULT, TOO_LONG, MISSING = 257, -14, -36, -2
memory = pages(3)
libc.munmap(ctypes.c_void_p(memory + 8192), ctypes.c_size_t(4096))
ctypes.memset(memory, ord('x'), 8192)
for place, expected in [(0, FAULT), (8, FAULT), (-1, FAULT), (1 << 47, FAULT), (memory + 8192, FAULT),
                        (memory, TOO_LONG), (memory + 8000, FAULT), (memory + 4096 - 5, TOO_LONG)]:
    assert call(OPENAT, -100, place, 0) == expected, (place, expected, call(OPENAT, -100, place, 0))
# The last bytes before what cannot be read.
ctypes.memmove(memory + 8192 - 4, b'end\0', 4)
assert call(OPENAT, -100, memory + 8192 - 4, 0) == MISSING
# Empty, and relative to what is no folder.
assert call(OPENAT, -100, b'', 0) == MISSING
reader, writer = os.pipe()
assert call(OPENAT, reader, b'x', 0) == -20 and call(OPENAT, 999, b'x', 0) == -9 and call(OPENAT, -7, b'x', 0) == -9
# An unreadable record of `openat2`, and a long one.
assert call(437, -100, b'one', 8, 24) == FAULT and call(437, -100, b'one', bytes(24), 12) == -22
assert call(437, -100, b'two', bytes(64), 64) == MISSING
";
    for level in LEVELS {
        let (project, output, report) = attack(level, SCRIPT);
        assert_eq!((output.as_str(), &report.end), ("", &SUCCESS), "{level:?}");
        assert_eq!(below(project.path(), &report), ["Read end 1", "Read one 1", "Read two 1"], "{level:?}");
    }
}

#[test]
fn a_name_is_reported_byte_by_byte() {
    const SCRIPT: &str = r#"
import os
for name in [b"two\nlines", b"\xff\xfe", b"\x1b[31mred", b" ", b"a" * 255, b"d/" * 2000 + b"e"]:
    try: os.open(name, os.O_RDONLY)
    except OSError: pass
"#;
    for level in LEVELS {
        let (project, output, report) = python(level, SCRIPT);
        assert_eq!((output.as_str(), &report.end), ("", &SUCCESS));
        let observed = report.observations.unwrap().accesses;
        let mut names: Vec<Vec<u8>> = observed
            .iter()
            .filter_map(|access| Path::new(&access.path).strip_prefix(project.path()).ok())
            .map(|path| path.as_os_str().as_encoded_bytes().to_vec())
            .collect();
        names.sort_by_key(Vec::len);
        let long = [b"d/".repeat(2000), b"e".to_vec()].concat();
        let expected = [
            b" ".to_vec(),
            b"\xff\xfe".to_vec(),
            b"\x1b[31mred".to_vec(),
            b"two\nlines".to_vec(),
            vec![b'a'; 255],
            long,
        ];
        assert_eq!(names, expected);
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_path_that_changes_during_the_call_is_one_or_the_other_and_decides_nothing() {
    const SCRIPT: &str = r#"
memory = pages(1)
inner, outer = b"inside\0", b"/etc/shadow\0"
open("inside", "w").write("mine")
def swap():
    for _ in range(200000): ctypes.memmove(memory, outer, 12); ctypes.memmove(memory, inner, 7)
changer = threading.Thread(target=swap); changer.start()
seen = set()
while changer.is_alive():
    opened = call(257, -100, memory, 0)
    if opened >= 0: seen.add(os.read(opened, 9)); os.close(opened)
assert seen <= {b"mine"}, seen
"#;
    for level in LEVELS {
        let (project, output, report) = attack(level, SCRIPT);
        assert_eq!((output.as_str(), &report.end), ("", &SUCCESS), "{level:?}");
        // Mixtures of both are possible: the memory is not copied at once.
        assert!(below(project.path(), &report).iter().any(|line| line.starts_with("Read inside ")));
    }
}

#[test]
fn more_accesses_than_the_list_holds_are_counted() {
    const SCRIPT: &str =
        "import os\nfor number in range(20000): os.path.exists(f'/home/nobody/{number}')\nprint('done')";
    for level in LEVELS {
        let (_, output, report) = python(level, SCRIPT);
        assert_eq!((output.as_str(), &report.end), ("done\n", &SUCCESS));
        let observed = report.observations.unwrap();
        assert_eq!(observed.accesses.len() as u64 + observed.unrecorded, 20_000);
        assert!(observed.accesses.len() <= 4096 && observed.unrecorded > 0);
    }
}

#[test]
fn many_processes_are_observed_at_once_and_those_that_die_delay_nobody() {
    const SCRIPT: &str = r#"
import os, signal, time
children = []
for number in range(200):
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        for index in range(20): os.path.exists(f"of{number}")
        while number % 2: os.path.exists("forever")
        os._exit(0)
    children.append(child)
for number, child in enumerate(children):
    if number % 2 == 0: assert os.waitpid(child, 0)[1] == 0
# Many of these are in a call that waits.
for number, child in enumerate(children):
    if number % 2: os.kill(child, signal.SIGKILL); assert os.waitpid(child, 0)[1] == signal.SIGKILL
print("done")
"#;
    for level in LEVELS {
        let (project, output, report) = python(level, SCRIPT);
        assert_eq!((output.as_str(), &report.end), ("done\n", &SUCCESS), "{level:?}");
        let observed = below(project.path(), &report);
        for number in (0..200).step_by(2) {
            assert!(observed.contains(&format!("LookUp of{number} 20")), "{number} {observed:?}");
        }
    }
}

/// Calls that never stop must not keep the supervisor from its other work.
#[test]
fn a_burst_of_calls_delays_neither_the_deadline_nor_the_memory_limit_nor_a_hang_up() {
    const BURST: &str = r#"
import os
for _ in range(8):
    if os.fork() == 0:
        while True: os.path.exists("/home/nobody/x")
"#;
    for level in LEVELS {
        let project = tempfile::tempdir().unwrap();
        let request = |text: &str| {
            let mut request = watched(project.path(), "/usr/bin/python3", &["-I", "-S", "-c"]);
            request.args.push(format!("{BURST}{text}").into());
            request
        };
        let mut until_deadline = request("while True: os.path.exists('y')");
        until_deadline.timeout_ms = 500;
        let (_, report) = observe(level, &until_deadline);
        assert_eq!(report.end, LaunchOutcome::Exited { status: libc::SIGKILL }, "{level:?}");
        assert!(
            report.enforcement.has(Restrictions::TREE_GONE)
                && !report.observations.unwrap().accesses.is_empty()
        );

        let mut growing =
            request("kept = []\nwhile True: kept.append(bytearray(1 << 20)); os.path.exists('y')");
        growing.sandbox.limits.tree_memory = Some(400 << 20);
        let (_, report) = observe(level, &growing);
        assert!(report.exceeded_tree_memory && report.observations.is_some(), "{level:?} {:?}", report.end);

        let mut ready = request("print('up', flush=True)\nwhile True: os.path.exists('y')");
        ready.timeout_ms = 60_000;
        let null = || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").unwrap());
        let (mut stdout, out) = std::io::pipe().unwrap();
        let launcher = launcher(level);
        let started = launcher.start(&ready, [null(), out.into(), null()], None).unwrap();
        let length = stdout.read(&mut [0; 3]).unwrap();
        let report = started.kill_and_wait().unwrap();
        assert_eq!(length, 3, "{level:?} {report:?}");
        assert!(report.enforcement.has(Restrictions::TREE_GONE), "{level:?}");

        let (_, report) = observe(level, &request("os._exit(7)"));
        assert_eq!(report.end, LaunchOutcome::Exited { status: 7 << 8 }, "{level:?}");
        assert!(report.usage.left_behind >= 8, "{level:?}");
    }
}

#[test]
fn a_tree_that_only_ever_forks_ends_at_its_deadline() {
    const SCRIPT: &str = r#"
import os
while True:
    try: os.fork()
    except OSError: pass
    os.path.exists("x")
"#;
    let project = tempfile::tempdir().unwrap();
    let mut request = watched(project.path(), "/usr/bin/python3", &["-I", "-S", "-c", SCRIPT]);
    request.sandbox.limits.processes = Some(100);
    request.sandbox.limits.tree_memory = Some(1 << 30);
    request.timeout_ms = 500;
    let (_, report) = observe(SandboxLevel::Namespaces, &request);
    assert_eq!(report.end, LaunchOutcome::Exited { status: libc::SIGKILL });
    assert!(report.enforcement.has(Restrictions::TREE_GONE | Restrictions::PROCESS_COUNT), "{report:?}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn what_a_sandbox_refuses_a_watched_one_refuses() {
    const SCRIPT: &str = r#"
DENIED, ABSENT = -1, -38
# ptrace, process_vm_readv, mount, pidfd_getfd, bpf, unshare, open_by_handle_at, userfaultfd
for number in [101, 310, 165, 438, 321, 272, 304, 323]:
    assert call(number, 0, 0, 0, 0, 0, 0) == DENIED, number
# io_uring, memfd_create, x32, clone3
for number in [425, 426, 427, 319, 0x40000000 + 257, 435]:
    assert call(number, 0, 0, 0, 0, 0, 0) == ABSENT, number
for path in ["/etc/shadow", "/home/nobody/x", "/proc/1/environ"]:
    try: open(path); raise SystemExit(path)
    except OSError: pass
# Below the folder, whatever the path says.
os.mkdir("root"); open("root/file", "w").close()
folder = os.open("root", os.O_PATH)
how = lambda flags, resolve: struct.pack("QQQ", flags, 0, resolve)
assert call(437, folder, b"/../file", how(0, 0x10), 24) > 0
assert call(437, folder, b"../x", how(0, 0x08), 24) == -18
assert call(437, folder, b"/none", how(0, 0x08), 24) == -18
# A filter of the script's own lies on top: it refuses before the supervisor is asked. There can be no second listener.
class Program(ctypes.Structure): _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]
step = lambda code, jt, jf, k: struct.pack("HBBI", code, jt, jf, k)
code = step(0x20, 0, 0, 0) + step(0x15, 0, 1, 87) + step(6, 0, 0, 0x50000 + 71) + step(6, 0, 0, 0x7fff0000)
program = Program(4, code)
assert call(317, 1, 8, ctypes.byref(program)) == -16
assert call(317, 1, 0, ctypes.byref(program)) == 0
assert call(87, b"root/file") == -71
assert call(263, -100, b"root/file", 0) == 0
"#;
    for level in LEVELS {
        let (project, output, report) = attack(level, SCRIPT);
        assert_eq!((output.as_str(), &report.end), ("", &SUCCESS), "{level:?}");
        let observed = below(project.path(), &report);
        for line in ["Read root/file 1", "Create root/file 1", "Remove root/file 1", "LookUp root 1"] {
            assert!(observed.contains(&line.to_owned()), "{level:?} {line} {observed:?}");
        }
        assert!(below(Path::new("/home"), &report).contains(&"Read nobody/x 1".to_owned()));
    }
}

#[test]
fn programs_are_observed_wherever_they_lie_if_that_is_asked() {
    const SCRIPT: &str = r#"
import subprocess, sys
for program in ["no-such-program", "true"]:
    for close_fds in [False, True]:
        try: subprocess.run([program], close_fds=close_fds, env={"PATH": "/usr/bin:/bin"})
        except FileNotFoundError: pass
"#;
    for level in LEVELS {
        for programs in [false, true] {
            let project = tempfile::tempdir().unwrap();
            let mut request = watched(project.path(), "/usr/bin/python3", &["-I", "-S", "-c", SCRIPT]);
            request.sandbox.watch.as_mut().unwrap().programs = programs;
            let (output, report) = observe(level, &request);
            assert_eq!((output.as_str(), &report.end), ("", &SUCCESS), "{level:?}");
            let usr = below(Path::new("/usr/bin"), &report);
            let expected = ["Execute no-such-program 2", "Execute true 2"];
            assert_eq!(usr, if programs { &expected[..] } else { &[] }, "{level:?}");
        }
    }
}

#[test]
fn a_watched_run_has_its_local_sockets_and_standbys_of_its_own() {
    const SCRIPT: &str = r#"
import os, socket, threading
listener = socket.socket(socket.AF_UNIX); listener.bind("socket"); listener.listen()
client = socket.socket(socket.AF_UNIX); client.connect(os.path.abspath("socket"))
listener.accept()[0].send(b"x"); assert client.recv(1) == b"x"
child = os.fork()
if child == 0:
    while True: os.path.exists("child")
os.kill(child, 9); os.waitpid(child, 0)
print(os.path.exists("/home/nobody"))
"#;
    let launcher = launcher(SandboxLevel::Namespaces);
    let project = tempfile::tempdir().unwrap();
    let mut request = watched(project.path(), "/usr/bin/python3", &["-I", "-S", "-c", SCRIPT]);
    request.sandbox.allow_local_sockets = true;
    request.sandbox.files.socket_dirs = vec![project.path().into()];
    let rules = request.sandbox.watch.clone();
    for is_watched in [true, true, true, false, true] {
        request.sandbox.watch = rules.clone().filter(|_| is_watched);
        let ran = run(&launcher, &request);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("False\n", ""));
        let streams = || OwnedFd::from(File::open("/dev/null").unwrap());
        std::fs::remove_file(project.path().join("socket")).unwrap();
        let report =
            launcher.start(&request, [streams(), streams(), streams()], None).unwrap().wait().unwrap();
        std::fs::remove_file(project.path().join("socket")).unwrap();
        let is_observed = report
            .observations
            .is_some_and(|observed| observed.accesses.iter().any(|access| access.path == "/home/nobody"));
        assert_eq!(is_observed, is_watched);
    }
}

/// Only the outermost filter can have a listener.
#[test]
fn in_a_sandbox_that_answers_calls_itself_a_run_is_not_watched_and_says_so() {
    const NAME: &str =
        "linux::tests::watch::in_a_sandbox_that_answers_calls_itself_a_run_is_not_watched_and_says_so";
    if std::env::var_os("METIER_OUTER_LISTENER").is_none() {
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env("METIER_OUTER_LISTENER", "1")
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&again.stdout);
        assert!(again.status.success() && output.contains("1 passed"), "{output}");
        return;
    }
    rustix::thread::set_no_new_privs(true).unwrap();
    // Of a call that nobody here makes.
    let step = |code, jt, k| seccompiler::sock_filter { code, jt, jf: 0, k };
    let program = [
        step(0x20, 0, 0),
        step(0x15, 1, 0x1234),
        step(6, 0, libc::SECCOMP_RET_ALLOW),
        step(6, 0, libc::SECCOMP_RET_USER_NOTIF),
    ];
    let _listener = crate::linux::sys::apply_filter_with_listener(&program).unwrap();
    for level in LEVELS {
        let (_, output, report) = python(level, "print('ran')");
        assert_eq!(
            (output.as_str(), &report.end, &report.observations),
            ("ran\n", &SUCCESS, &None),
            "{level:?}"
        );
    }
}
