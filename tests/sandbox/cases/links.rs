//! Ways through the project to what is outside: dots, absolute paths, links, races.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::case;
use crate::sandbox::case::{Case, CaseResult};
use crate::sandbox::fixture::{Fixture, server_side, slowness};

pub const CASES: &[Case] = &[
    case("F1-F6", "dots, absolute paths, links to files, folders, the root and /proc", reading),
    case("F7-F9", "links that stay inside, and loops", inside),
    case("F10-F12", "to write, make, rename, list and remove through links that leave", writing),
    case("F13", "to remove a link that leaves, with all below", removing),
    case("F17", "a hard link to a link that leaves", hard_link),
    case("F27", "a folder so deep that no path names its end", depth),
    case("E40", "a file swapped for a link while it is opened (F19)", race),
    case("F35", "a project swapped for a link while its sandbox is put up", project_swapped),
    case("F35b", "a skill swapped for a link while its sandbox is put up", skill_swapped),
    case("F34", "a link planted for a script in another language", planted),
];

fn fixture(script: &str) -> Fixture {
    Fixture::bash(script)
        .grant("write")
        .link("../outside/secret", "project/file")
        .link("../outside", "project/folder")
        .link("/", "project/root")
        .link("/proc/self/root", "project/magic")
        .link("/proc/self/cwd/../outside", "project/cwd")
        .file("project/sub/deep/x", "")
}

fn reading() -> CaseResult {
    let fixture = fixture(
        "outside=$1; cd \"$METIER_PROJECT_DIR\"
        for path in ../outside/secret sub/../../outside/secret sub/deep/../../../outside/secret \"$outside/secret\" \\
            \"/$outside/secret\" file folder/secret folder/../outside/secret root$outside/secret magic$outside/secret \\
            cwd/secret root/etc/shadow folder/sub/../secret; do
            (cat \"$path\") 2>/dev/null && echo \"$path: done\" || echo \"$path: refused\"
        done",
    );
    let outside = fixture.name("outside");
    fixture.args(&[&outside]).run().assert_refused(13, &["refused"]);
    Ok(())
}

fn inside() -> CaseResult {
    let fixture =
        Fixture::bash("cat good; cat sub/../own; cat \"$METIER_PROJECT_DIR/own\"; cat loop 2>&1; true")
            .link("own", "project/good")
            .link("loop", "project/loop")
            .file("project/sub/x", "");
    let ran = fixture.run();
    assert!(ran.assert_ok().stdout().starts_with("own\nown\nown\n"), "{}", ran.stdout());
    assert!(ran.stdout().contains("Too many levels"), "{}", ran.stdout());
    Ok(())
}

fn writing() -> CaseResult {
    let fixture = fixture(
        "exec 2>/dev/null
        try() { \"$@\" && echo \"$*: done\" || echo \"$*: refused\"; }
        put() { echo x > \"$1\"; }
        try put dangling; try put folder/new; try put ../outside/new; try put file
        try mkdir folder/new; try mkdir ../outside/new; try mv own folder/own; try mv own ../outside/own
        try mv folder/secret here; try cp folder/secret here; try ln folder/secret here; try ls folder/
        try rm folder/secret; try rm ../outside/secret; try rmdir ../outside; try touch folder/new; try truncate -s 0 file
        try ln -s x folder/new; try mkfifo folder/new",
    )
    .link("../outside/made", "project/dangling");
    let ran = fixture.run();
    assert_eq!(fs::read_dir(fixture.at("outside")).unwrap().count(), 1, "{}", ran.stdout());
    assert_eq!(fs::read(fixture.at("outside/secret")).unwrap(), b"secret\n");
    // `cp` makes an empty file here before it is refused the other.
    ran.assert_refused(19, &["refused"]);
    Ok(())
}

fn removing() -> CaseResult {
    let fixture = fixture("rm -rf folder root magic file && ls");
    fixture.run().assert_stdout("cwd\nown\nsub\n");
    assert!(fixture.at("outside/secret").exists());
    Ok(())
}

fn hard_link() -> CaseResult {
    let fixture = fixture("ln -P file again && (cat again 2>/dev/null || echo refused)");
    fixture.run().assert_stdout("refused\n");
    Ok(())
}

/// The scratch folder is removed by the host, which must neither crash nor leave it. The tree grows at its top, as each step
/// down would cost a walk through all above it.
fn depth() -> CaseResult {
    // Enough for a path of more than 4,096 bytes.
    let levels = 8000 / slowness().min(3);
    let fixture = Fixture::python(
        "import os, sys
os.chdir(os.environ['TMPDIR'])
print(os.getcwd())
os.mkdir('d')
open('d/leaf', 'w').close()
for _ in range(int(sys.argv[1])):
    os.mkdir('x')
    os.rename('d', 'x/d')
    os.rename('x', 'd')",
    );
    let ran = fixture.args(&[&levels.to_string()]).run();
    let scratch = ran.assert_ok().stdout().trim().to_owned();
    assert!(!std::path::Path::new(&scratch).exists(), "{scratch} was left");
    Ok(())
}

fn race() -> CaseResult {
    let fixture = Fixture::attacker("files", &[])?.grant("write");
    let outside = fixture.name("outside");
    let ran = fixture.args(&["race", &outside]).run();
    ran.assert_stdout("both sides were seen: yes\nstolen: 0\n");
    Ok(())
}

/// Who may write around a project puts a link there and takes it away, again and again. What the link leads to is nobody's to
/// see or to change, at whatever moment a run begins.
fn project_swapped() -> CaseResult {
    let fixture = outside_fixture().grant("write");
    let stolen = run_while_swapping(&fixture, "project");
    let say = |word: &str| stolen.iter().filter(|said| said.contains(word)).count();
    assert!(say("ran") > 0, "no run came to anything");
    assert_eq!((say("read: done"), say("write: done")), (0, 0), "of {} runs", say("ran"));
    assert_eq!(fs::read_dir(fixture.at("outside")).unwrap().count(), 1);
    Ok(())
}

/// The same with the folder of the skill, whose script is looked at before it is run.
fn skill_swapped() -> CaseResult {
    let fixture = outside_fixture();
    let stolen = run_while_swapping(&fixture, "skills/x");
    let say = |word: &str| stolen.iter().filter(|said| said.contains(word)).count();
    assert!(say("ran") > 0, "no run came to anything");
    assert_eq!((say("read: done"), say("write: done")), (0, 0), "of {} runs", say("ran"));
    Ok(())
}

fn outside_fixture() -> Fixture {
    let fixture = Fixture::bash(
        "exec 2>/dev/null; echo ran
        (cat \"$1/secret\") && echo 'read: done'; (echo x > \"$1/new\") && echo 'write: done'; true",
    );
    let outside = fixture.name("outside");
    fixture.args(&[&outside])
}

/// What runs say while a folder of the fixture is a link to what is outside, for about half of the time; for long enough that some
/// come to anything.
fn run_while_swapping(fixture: &Fixture, path: &str) -> Vec<String> {
    const LONG_ENOUGH: usize = 25;
    let too_long = Duration::from_secs(20 * slowness());
    let [place, link] = [path, "swapped"].map(|path| server_side(&fixture.at(path)));
    symlink(fixture.at("outside"), &link).unwrap();
    let engine = fixture.engine();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for pause in [2, 15, 5, 40, 25, 150] {
                    exchange(&place, &link);
                    std::thread::sleep(Duration::from_millis(pause * slowness()));
                    exchange(&place, &link);
                    std::thread::sleep(Duration::from_millis(pause * slowness()));
                }
            }
        });
        let (mut said, mut ran, began) = (Vec::new(), 0, Instant::now());
        while ran < LONG_ENOUGH && began.elapsed() < too_long {
            let process = engine.run(fixture.invocation()).process;
            let text = process.map(|process| process.stdout).unwrap_or_default();
            ran += usize::from(text.contains("ran"));
            said.push(text);
            std::thread::sleep(Duration::from_millis(1));
        }
        is_over.store(true, Ordering::Relaxed);
        said
    })
}

/// Exchanges a folder and a link, at once where the file system can.
fn exchange(one: &Path, other: &Path) {
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Err(Errno::INVAL) => {
            let between = other.with_extension("between");
            for (from, to) in [(one, &*between), (other, one), (&between, other)] {
                fs::rename(from, to).unwrap();
            }
        }
        exchanged => exchanged.unwrap(),
    }
}

fn planted() -> CaseResult {
    let fixture =
        Fixture::bash("ln -s ../outside/secret planted; ln -s ../outside planted-folder").grant("write");
    fixture.run().assert_ok();
    assert!(fs::symlink_metadata(fixture.at("project/planted")).is_ok());
    fixture.write("skills/lua/SKILL.md", "---\nname: lua\ndescription: reads\n---\n");
    fixture.write("skills/lua/scripts/main.lua", "return ctx.read_file(input.path)");
    if metier::supports(metier::executor::RuntimeId::LUA).is_err() {
        return crate::sandbox::case::SkipReason::unsupported("Lua is not built in");
    }
    symlink("own", fixture.at("project/good")).unwrap();
    let read = |path: &str| {
        let invocation = metier::engine::Invocation::new("lua").input(serde_json::json!({ "path": path }));
        fixture.engine().run(invocation).result
    };
    assert_eq!(read("own").unwrap(), "own\n");
    for path in ["planted", "planted-folder/secret"] {
        assert!(read(path).is_err(), "{path}");
    }
    Ok(())
}
