//! What an older kernel does not restrict, and the sandbox does in its place: truncation, signals, and files without Landlock.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metier::policy::SandboxLevel;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::case;
use crate::sandbox::case::{Case, CaseResult, SkipReason};
use crate::sandbox::fixture::{Fixture, has_mount_root, landlock_abi, level};

pub const CASES: &[Case] = &[
    case("K1", "to truncate what may only be read, and what is outside", truncate),
    case("K2", "a script that truncates its own files", truncate_own),
    case("K3", "to signal a process outside, in every way", signal),
    case("K4", "a script that signals itself and its own", signal_own),
    case("K5", "to signal processes that took the ids of dead ones", reused_ids),
    case("K6", "descriptors that were open before", open_before),
    case("K7", "a script whose calls of openat2 are absent", openat2),
    case("K8", "what lies around the files of a script", around),
    case("K9", "a folder around a granted one", above_granted),
    case("K10", "what /proc shows where the script has a root of its own", own_proc),
    case("K11", "mounts that appear during a run", mounted_during),
];

const REFUSED: &[&str] =
    &["EACCES", "EPERM", "EROFS", "ENOSYS", "ENOENT", "EBADF", "EINVAL", "ESRCH", "ENOTTY"];

fn truncate() -> CaseResult {
    let fixture = Fixture::attacker("files", &[])?;
    let (secret, own, skill) =
        (fixture.name("outside/secret"), fixture.name("project/own"), fixture.name("skills/x/SKILL.md"));
    let manual = fs::read(fixture.at("skills/x/SKILL.md")).unwrap();
    let fixture = fixture.args(&["cut", &own, &skill, &secret]);
    fixture.run().assert_refused(3 * 14, REFUSED);
    assert_eq!(fs::read(fixture.at("outside/secret")).unwrap(), b"secret\n");
    assert_eq!(fs::read(fixture.at("project/own")).unwrap(), b"own\n");
    assert_eq!(fs::read(fixture.at("skills/x/SKILL.md")).unwrap(), manual);
    Ok(())
}

fn truncate_own() -> CaseResult {
    Fixture::bash(
        "set -e
        : > own; wc -c < own
        echo long > own; echo x > own; cat own
        python3 -c 'open(\"own\", \"w\").write(\"python\")'; cat own; echo
        python3 -c 'open(\"own\", \"r+\").truncate(2)'; cat own; echo
        command truncate -s 1 own; cat own; echo
        dd if=/dev/null of=own 2>/dev/null; wc -c < own
        cp \"$METIER_SKILL_DIR/SKILL.md\" own; head -c 3 own",
    )
    .grant("write")
    .deadline(60_000)
    .run()
    .assert_stdout("0\nx\npython\npy\np\n0\n---");
    Ok(())
}

/// A process that is not the script's ends at the first signal that reaches it.
fn signal() -> CaseResult {
    let fixture = Fixture::attacker("processes", &[])?;
    let mut bystander = Command::new("sleep").arg("100").stdin(Stdio::null()).spawn().unwrap();
    let ran = fixture.args(&["signal", &bystander.id().to_string()]).run();
    let ended = bystander.try_wait().unwrap();
    bystander.kill().ok();
    bystander.wait().unwrap();
    ran.assert_refused(13, REFUSED);
    assert!(ended.is_none(), "a bystander was sent a signal: {}", ran.stdout());
    Ok(())
}

fn signal_own() -> CaseResult {
    let ran = Fixture::python(include_str!("../honest/signals.py")).deadline(60_000).run();
    ran.assert_stdout("19 checks\n");
    let ran = Fixture::bash(
        "n=0; trap 'n=$((n + 1))' USR1
        for i in 1 2 3 4 5; do kill -USR1 $$; done; echo $n
        sleep 100 & kill $!; wait $!; echo $?
        set -m; sleep 100 | sleep 100 & kill %1; wait %1; echo $?; set +m
        sleep 100 & kill -0 $! && echo there; kill -9 $!; wait $! 2>/dev/null; kill -0 $! 2>/dev/null || echo gone
        timeout 0.2 sleep 100; echo $?
        (trap 'echo caught; exit' TERM; kill -TERM $BASHPID; sleep 100)
        kill -TERM 0",
    )
    .deadline(60_000)
    .run();
    assert_eq!(ran.process().signal, Some(15), "{ran:?}");
    assert_eq!(ran.stdout(), "5\n143\n143\nthere\ngone\n124\ncaught\n", "{}", ran.process().stderr);
    Ok(())
}

/// Processes of the host come and go, and take the ids of the script's children.
fn reused_ids() -> CaseResult {
    let fixture = Fixture::attacker("processes", &["reused"])?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let bystanders: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let ended = Command::new("sleep").arg("0.02").stdin(Stdio::null()).status().unwrap();
                        assert!(ended.success(), "a bystander was sent a signal: {ended:?}");
                    }
                })
            })
            .collect();
        let ran = fixture.run();
        is_over.store(true, Ordering::Relaxed);
        for bystander in bystanders {
            bystander.join().unwrap();
        }
        ran.assert_stdout("gone: ESRCH\n");
    });
    Ok(())
}

/// The host has a secret and a folder open; what it starts has neither.
fn open_before() -> CaseResult {
    let fixture = Fixture::attacker("files", &["inherited"])?;
    let secret = fs::File::open(fixture.at("outside/secret")).unwrap();
    let folder = fs::File::open(fixture.at("outside")).unwrap();
    for file in [&secret, &folder] {
        rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty()).unwrap();
    }
    let ran = fixture.run();
    // The three streams and the host API.
    ran.assert_stdout("0 1 2 3\n");
    Ok(())
}

fn openat2() -> CaseResult {
    let ran = Fixture::bash(
        "exec python3 - <<'P'
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
how = (ctypes.c_uint64 * 3)(0, 0, 0)
opened = libc.syscall(437, -100, b'own', how, 24)
print('openat2', 'opened' if opened >= 0 else errno.errorcode[ctypes.get_errno()])
print(open('own').read(), sorted(os.listdir('.')), sum(1 for _ in os.scandir('/usr')) > 0)
P
",
    )
    .run();
    let expected = if level() == SandboxLevel::Landlock && landlock_abi() < 3 { "ENOSYS" } else { "opened" };
    ran.assert_stdout(&format!("openat2 {expected}\nown\n ['own'] True\n"));
    Ok(())
}

/// A root of its own has nothing but the way to what is shown; with Landlock, nothing of it can be listed.
fn around() -> CaseResult {
    let fixture = Fixture::bash(
        "cd /; for folder in / /etc /root /home /var /opt \"$1\" \"$1/..\"; do ls -A $folder 2>/dev/null; done; mount 2>/dev/null; true",
    );
    fs::write(fixture.at("beside"), "").unwrap();
    let name = fixture.name("");
    let ran = fixture.args(&[&name]).run();
    ran.assert_ok();
    let lists = |name: &str| ran.stdout().lines().any(|line| line == name);
    assert!(!lists("beside") && !lists("shadow") && !lists("outside"), "{}", ran.stdout());
    assert_eq!(lists("usr"), has_mount_root(), "{}", ran.stdout());
    Ok(())
}

/// What a grant opens does not open its parents, and a grant to write below a folder lets nothing be made beside it.
fn above_granted() -> CaseResult {
    let fixture = Fixture::bash(
        "echo in > out/new; mkdir -p ../made && echo made; echo x > ../x; rm -rf ../outside; ls ../outside; true",
    )
    .file("project/out/old", "old\n")
    .grant("write:out");
    fixture.run().assert_ok();
    assert_eq!(fs::read(fixture.at("project/out/new")).unwrap(), b"in\n");
    assert!(fixture.at("outside/secret").exists() && fixture.at("project/out/old").exists());
    assert!(!fixture.at("made").exists() && !fixture.at("x").exists());
    Ok(())
}

/// The supervisor sees all of the machine.
fn own_proc() -> CaseResult {
    let ran = Fixture::bash(
        "cd /proc/.processes 2>/dev/null || echo nowhere
        for file in environ mem maps status root/etc/shadow cwd/etc/shadow fd/0 ns/mnt; do
            (exec 3<1/$file) 2>/dev/null && echo \"$file: done\" || echo \"$file: refused\"
        done
        for file in version kallsyms sys/kernel/hostname 1; do ls -d $file 2>/dev/null; done
        (echo 1000 > self/oom_score_adj) 2>/dev/null && echo changed
        cat <(echo through) && readlink /proc/self/exe",
    )
    .run();
    let at = if has_mount_root() { "" } else { "nowhere\n" };
    let refused = ["environ", "mem", "maps", "status", "root/etc/shadow", "cwd/etc/shadow", "fd/0", "ns/mnt"];
    let refused = refused.map(|file| format!("{file}: refused\n")).concat();
    let expected = format!("{at}{refused}through\n");
    assert!(ran.assert_ok().stdout().starts_with(&expected), "{} {}", ran.stdout(), ran.process().stderr);
    Ok(())
}

/// What somebody mounts is not there for a script with mounts of its own. Without, it is where it was mounted, and nowhere else.
fn mounted_during() -> CaseResult {
    if !rustix::process::geteuid().is_root() {
        return SkipReason::other_user("only root mounts anything");
    }
    let fixture = Fixture::bash(
        "echo ready > out/ready; until [ -e out/go ]; do sleep 0.01; done
        cat inside/secret; cat \"$1/secret\"; echo x > inside/secret; echo x > inside/new; cat inside/before",
    )
    .file("project/out/own", "")
    .file("project/inside/before", "before\n")
    .file("outside/mounted/before", "")
    .grant("write:out");
    let [inside, beside] = ["project/inside", "outside/mounted"].map(|path| fixture.at(path));
    let fixture = fixture.args(&[beside.to_str().unwrap()]);
    let engine = fixture.engine();
    let outcome = std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.run(fixture.invocation()));
        while !fixture.at("project/out/ready").exists() && !run.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        for folder in [&inside, &beside] {
            mount("tmpfs", folder, "tmpfs", MountFlags::empty(), None).unwrap();
            fs::write(folder.join("secret"), "mounted\n").unwrap();
        }
        fixture.write("project/out/go", "");
        run.join().unwrap()
    });
    let left = [&inside, &beside].map(|folder| {
        let names = fs::read_dir(folder).unwrap().count();
        let secret = fs::read(folder.join("secret")).unwrap();
        unmount(folder, UnmountFlags::DETACH).unwrap();
        (names, secret)
    });
    let ran = fixture.result(outcome);
    let expected = if level() == SandboxLevel::Namespaces { "before\n" } else { "mounted\n" };
    assert_eq!(ran.stdout(), expected, "{ran:?}");
    assert_eq!(left, [(1, b"mounted\n".to_vec()), (1, b"mounted\n".to_vec())], "{ran:?}");
    Ok(())
}
