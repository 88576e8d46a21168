//! What another machine does to a project on a file server while a script runs. Elsewhere another program of this machine does it.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use metier::policy::SandboxLevel;
use rustix::fs::{Mode, OFlags, openat};

use super::case;
use crate::sandbox::case::{Case, CaseResult, SkipReason};
use crate::sandbox::fixture::{
    Fixture, RunResult, has_server, has_server_of_paths, level, server_side, slowness,
};

pub const CASES: &[Case] = &[
    case("S1", "protected files beside others that another machine replaces and renames", replaced_beside),
    case("S2", "a granted folder that another machine replaces by a link", replaced_by_link),
    case("S3", "a project that another machine removes and creates again", project_replaced),
    case("S4", "files that another machine cuts short while they are read and mapped", cut_short),
    case("S5", "the script's own program, which another machine replaces and removes", script_replaced),
    case("S6", "folders around secrets that are shut, changed and opened again", forgotten),
    case("S7", "files that are removed while they are open", removed_open),
    case("S8", "a project that another machine removes, and the next run in it", project_removed),
    case("S9", "secrets that another machine adds between two runs of one program", added_between_runs),
];

const TRY_FUNCTION: &str =
    "exec 2>/dev/null; try() { eval \"$1\" >/dev/null && echo \"$1: done\" || echo \"$1: refused\"; }\n";

/// What a script begins with that waits for changes. A file that it creates beside what was changed makes a client of NFS ask the server.
const WAIT: &str =
    "echo ready > out/ready; until [ -e out/go ] || [ ! -e out/own ]; do sleep 0.05; done; exec 2>/dev/null
    for folder in . *; do touch \"$folder/probe\" && rm \"$folder/probe\"; done
    try() { eval \"$1\" >/dev/null && echo \"$1: done\" || echo \"$1: refused\"; }\n";

/// Runs a script that begins with `WAIT` and changes files meanwhile.
fn run_during(fixture: Fixture, change: impl FnOnce(&Fixture)) -> (Fixture, RunResult) {
    let fixture = fixture.file("project/out/own", "own\n");
    let out = fs::File::open(fixture.at("project/out")).unwrap();
    let engine = fixture.engine();
    let outcome = std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.run(fixture.invocation()));
        while !fixture.at("project/out/ready").exists() && !run.is_finished() {
            std::thread::sleep(Duration::from_millis(5 * slowness()));
        }
        change(&fixture);
        // The folder may have gone with the project.
        openat(&out, "go", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).ok();
        run.join().unwrap()
    });
    let ran = fixture.result(outcome);
    (fixture, ran)
}

/// What is at a path of the fixture, as the server of its files has it.
fn on_server(fixture: &Fixture, path: &str) -> PathBuf {
    server_side(&fixture.at(path))
}

fn write_on_server(fixture: &Fixture, path: &str, text: &str) {
    let path = on_server(fixture, path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
}

fn rename_on_server(fixture: &Fixture, from: &str, to: &str) {
    fs::rename(on_server(fixture, from), on_server(fixture, to)).unwrap();
}

/// A file that somebody replaces loses the mount that covered it, on every file system; all others stay covered.
fn replaced_beside() -> CaseResult {
    let script = format!(
        "{WAIT}for n in 1 2 3; do
            try 'cat beside/.env'; try 'echo x > beside/.env'; try 'mv beside aside'; try 'rm -rf beside'; try 'echo x > beside/.git/config'
        done
        for path in .env deep/plain moved/config; do cat $path && echo x >> $path; done; true"
    );
    let fixture = Fixture::bash(&script)
        .grant("write")
        .file("project/.env", "secret\n")
        .file("project/deep/.env", "secret\n")
        .file("project/beside/.env", "secret\n")
        .file("project/beside/.git/config", "theirs\n")
        .file("project/.git/config", "theirs\n");
    let (fixture, ran) = run_during(fixture, |fixture| {
        write_on_server(fixture, "project/new", "replaced\n");
        rename_on_server(fixture, "project/new", "project/.env");
        rename_on_server(fixture, "project/deep/.env", "project/deep/plain");
        rename_on_server(fixture, "project/.git", "project/moved");
    });
    let text = |path: &str| fs::read_to_string(fixture.at("project").join(path)).unwrap();
    if level() == SandboxLevel::Namespaces {
        ran.assert_refused(15, &["refused"]);
        assert_eq!([text("beside/.env"), text("beside/.git/config")], ["secret\n", "theirs\n"], "{ran:?}");
        // A mount goes with what is renamed on this machine. What a server renames has none under its new name, but for folders of which a
        // client knows that they are the same.
        let expected = [
            if has_server() { "secret\nx\n" } else { "secret\n" },
            if has_server_of_paths() { "theirs\nx\n" } else { "theirs\n" },
        ];
        assert_eq!([text("deep/plain"), text("moved/config")], expected, "{ran:?}");
        assert!(
            !ran.sandbox().protected_paths
                && ran.has_warning("ran: .env; what is there now was not protected"),
            "{ran:?}"
        );
    } else {
        ran.assert_ok();
    }
    assert_eq!(fs::read(fixture.at("outside/secret")).unwrap(), b"secret\n");
    Ok(())
}

/// What a grant names is what was there when the run began.
fn replaced_by_link() -> CaseResult {
    for target in ["../outside", ".git", "/etc"] {
        let script = format!(
            "{WAIT}for n in 1 2 3; do try 'echo x > given/new'; try 'cat given/secret'; try 'rm given/config'; try 'mkdir given/made'; try 'ls given/ | grep shadow'; done"
        );
        let fixture = Fixture::bash(&script)
            .grant("write:out")
            .grant("write:given")
            .file("project/given/own", "own\n")
            .file("project/.git/config", "theirs\n");
        let (fixture, ran) = run_during(fixture, |fixture| {
            rename_on_server(fixture, "project/given", "project/before");
            symlink(target, on_server(fixture, "project/given")).unwrap();
        });
        ran.assert_ok();
        let left = |path: &str| fs::read_dir(fixture.at(path)).unwrap().count();
        assert_eq!((left("outside"), left("project/.git")), (1, 1), "{target}: {ran:?}");
        assert_eq!(fs::read(fixture.at("project/.git/config")).unwrap(), b"theirs\n", "{target}");
        assert!(!ran.stdout().contains("given/secret: done"), "{target}: {ran:?}");
        assert!(!ran.stdout().contains("shadow: done"), "{target}: {ran:?}");
    }
    Ok(())
}

/// A script keeps the project that it began with, which is then nowhere.
fn project_replaced() -> CaseResult {
    if has_server_of_paths() {
        return SkipReason::unsupported("what comes to the path of a project on this server is the project");
    }
    let script = format!(
        "exec 5<own; {WAIT}for n in 1 2 3; do
            for at in . \"$METIER_PROJECT_DIR\"; do
                try \"cat $at/another\"; try \"echo x > $at/another\"; try \"grep secret $at/.env\"; try \"rm -r $at/sub\"
            done
            try 'grep another <&5'; try 'grep another /proc/self/fd/5'
        done"
    );
    let fixture = Fixture::bash(&script).grant("write");
    let (fixture, ran) = run_during(fixture, |fixture| {
        remove_on_server(fixture, "project");
        write_on_server(fixture, "project/own", "another's\n");
        write_on_server(fixture, "project/another", "another's\n");
        write_on_server(fixture, "project/.env", "secret\n");
        write_on_server(fixture, "project/sub/own", "another's\n");
    });
    // What is left of it may be too little for the script to go on.
    let stdout = ran.0.process.as_ref().map(|process| process.stdout.as_str()).unwrap_or_default();
    assert!(!stdout.contains("done"), "{ran:?}");
    for path in ["own", "another", "sub/own"] {
        assert_eq!(
            fs::read_to_string(on_server(&fixture, "project").join(path)).unwrap(),
            "another's\n",
            "{ran:?}"
        );
    }
    assert_eq!(fs::read_dir(on_server(&fixture, "project")).unwrap().count(), 4, "{ran:?}");
    Ok(())
}

/// Removes a folder to which the script may be adding files.
fn remove_on_server(fixture: &Fixture, path: &str) {
    let folder = on_server(fixture, path);
    for _ in 0..100 {
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            removed => return removed.unwrap(),
        }
    }
    panic!("{} cannot be removed", folder.display());
}

/// What maps a file may end, and nothing else does. A client of NFS reads zeros where something was.
fn cut_short() -> CaseResult {
    let fixture = Fixture::python(
        "import mmap, os, signal, time
with open('long', 'rb') as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    first = mapped[0:1]
    open('out/ready', 'w').close()
    while not os.path.exists('out/go'):
        time.sleep(0.05)
    child = os.fork()
    if child == 0:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os._exit(0 if mapped[1 << 20] in b'x\\0' else 1)
    status = os.waitpid(child, 0)[1]
    ends = os.WTERMSIG(status) in (0, signal.SIGBUS) and os.WEXITSTATUS(status) == 0
    rest = file.read()
print('ends' if ends else status, set(rest) <= set(b'x\\0'))
open('out/after', 'w').write('after')",
    )
    .grant("write:out")
    .file("project/long", "x".repeat(4 << 20));
    let (fixture, ran) = run_during(fixture, |fixture| {
        for path in ["project/long", "skills/x/SKILL.md"] {
            let file = fs::OpenOptions::new().write(true).open(on_server(fixture, path)).unwrap();
            file.set_len(0).unwrap();
        }
    });
    ran.assert_stdout("ends True\n");
    assert_eq!(fs::read(fixture.at("project/out/after")).unwrap(), b"after");
    assert_eq!(fs::read(on_server(&fixture, "project/long")).unwrap(), b"");
    Ok(())
}

/// Bash reads its script as it goes: the run began with a script that was looked at, and goes on with no other.
fn script_replaced() -> CaseResult {
    let script = format!("{WAIT}{}\ntry 'echo x > own'\necho end", "# a line to skip\n".repeat(4096));
    let fixture = Fixture::bash(&script).grant("write:out");
    let (fixture, ran) = run_during(fixture, |fixture| {
        write_on_server(
            fixture,
            "skills/x/scripts/new",
            "echo replaced; echo x > own; cat ../outside/secret\n",
        );
        rename_on_server(fixture, "skills/x/scripts/new", "skills/x/scripts/run.bash");
    });
    assert_eq!(fs::read(fixture.at("project/own")).unwrap(), b"own\n");
    let stdout = ran.0.process.as_ref().map(|process| process.stdout.as_str()).unwrap_or_default();
    assert!(!stdout.contains("secret") && !stdout.contains("done"), "{ran:?}");
    Ok(())
}

/// What the client of a file server forgets and asks for again is as protected as before.
fn forgotten() -> CaseResult {
    let script = format!(
        "{WAIT}for n in 1 2 3 4 5; do
            chmod 0 deep; ls deep/in; chmod 700 deep; touch deep/x deep/in/x; rm deep/x deep/in/x; mv deep/other deep/another; mv deep/another deep/other
            ls -lR . >/dev/null
        done
        try 'cat deep/in/.env'; try 'echo x > deep/in/.env'; try 'mv deep x'; try 'rm -rf deep/in'; try 'echo x > .git/config'; try 'mv .git x'
        try '! grep own own'; try '! touch deep/in/x'"
    );
    let fixture = Fixture::bash(&script)
        .grant("write")
        .file("project/deep/in/.env", "secret\n")
        .file("project/deep/other", "other\n")
        .file("project/.git/config", "theirs\n");
    let (fixture, ran) = run_during(fixture, |_| {
        // On a machine that is there for this, whatever can be forgotten is.
        if has_server() {
            fs::write("/proc/sys/vm/drop_caches", "3\n").ok();
        }
    });
    if level() == SandboxLevel::Namespaces {
        ran.assert_refused(8, &["refused"]);
        assert_eq!(fs::read(fixture.at("project/deep/in/.env")).unwrap(), b"secret\n");
        assert_eq!(fs::read(fixture.at("project/.git/config")).unwrap(), b"theirs\n");
    } else {
        ran.assert_ok();
        assert!(ran.stdout().contains("own own: refused"), "the project is still the script's: {ran:?}");
    }
    Ok(())
}

/// A client of NFS renames such files until they are closed; none is left, and neither are the folders of the run.
fn removed_open() -> CaseResult {
    let fixture = Fixture::bash(
        "echo $TMPDIR
        for folder in . \"$TMPDIR\" \"$HOME\"; do
            mkdir $folder/deep; for n in 1 2 3; do echo x > $folder/deep/$n; done
            (exec 3<$folder/deep/1 4>>$folder/deep/2; rm $folder/deep/1 $folder/deep/2; setsid sleep 1000) </dev/null >/dev/null 2>&1 &
        done
        for folder in . \"$TMPDIR\" \"$HOME\"; do
            until [ -e $folder/deep/3 ] && [ ! -e $folder/deep/1 ] && [ ! -e $folder/deep/2 ]; do sleep 0.05; done
        done",
    )
    .grant("write");
    let ran = fixture.run();
    let names = |path: &str| {
        let mut names: Vec<_> =
            fs::read_dir(fixture.at(path)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let temporary = ran.assert_ok().stdout().trim();
    assert_eq!(
        (names("project"), names("project/deep")),
        (vec!["deep".into(), "own".into()], vec!["3".into()])
    );
    // In a private `/tmp` it has another path.
    assert!(level() == SandboxLevel::Namespaces || !Path::new(temporary).exists(), "{temporary} was left");
    Ok(())
}

/// The outcome is there, and the next run says what is missing.
fn project_removed() -> CaseResult {
    let fixture =
        Fixture::bash(&format!("{WAIT}try 'echo x > new'; try 'mkdir made'; pwd; ls")).grant("write");
    let engine = fixture.engine();
    let (fixture, ran) = run_during(fixture, |fixture| {
        remove_on_server(fixture, "project");
    });
    assert!(!on_server(&fixture, "project").exists(), "{ran:?}");
    let stdout = ran.0.process.as_ref().map(|process| process.stdout.as_str()).unwrap_or_default();
    assert!(!stdout.contains("done"), "{ran:?}");
    let outcome = engine.run(fixture.invocation());
    assert!(outcome.result.is_err() && outcome.process.is_none(), "{outcome:?}");
    Ok(())
}

/// What a program remembers of folders holds for local file systems only.
fn added_between_runs() -> CaseResult {
    const TIME_TO_SETTLE: Duration = Duration::from_millis(3200);
    let fixture = Fixture::bash(&format!(
        "{TRY_FUNCTION}ls -R . >/dev/null; try 'cat deep/.env'; try 'cat deep/in/.netrc'"
    ))
    .file("project/deep/in/own", "own\n");
    let engine = fixture.engine();
    // Until then, no folder is remembered.
    if has_server() {
        std::thread::sleep(TIME_TO_SETTLE);
    }
    fixture.result(engine.run(fixture.invocation())).assert_ok();
    write_on_server(&fixture, "project/deep/.env", "secret\n");
    write_on_server(&fixture, "project/deep/in/.netrc", "secret\n");
    let ran = fixture.result(engine.run(fixture.invocation()));
    if level() == SandboxLevel::Namespaces {
        ran.assert_refused(2, &["refused"]);
    } else {
        ran.assert_ok();
    }
    Ok(())
}
