//! What a grant to write a project does not open: its history, its secrets, its skills.
//!
//! Only namespaces can carve that out of what is granted. Where there are none, the outcome must say so.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use metier::registry::{Root, Roots, Scope};

use super::case;
use crate::sandbox::case::{Case, CaseResult};
use crate::sandbox::fixture::{Fixture, RunResult, is_in_private_folder};
use crate::support::many_names::create_names;

pub const CASES: &[Case] = &[
    case("F32a", "to change the project's history", history),
    case("F32b", "to read and change secrets, wherever they lie", secrets),
    case("F32c", "to change the project's skills", skills),
    case("F32d", "to put something else where what is guarded was", replaced_protected),
    case("F32e", "what is guarded, with a grant that names it", named_by_grant),
    case("F32f", "secrets, without a grant to write", secrets_unwritten),
    case("F32g", "a secret that is a link or has a second name", second_names),
    case("F32h", "a project with more in it than anybody looks at", too_much),
    case("F32i", "history moved away by the host while the script runs", moved_by_host),
    case("F32j", "history and skills that were not there", created_history),
    case("F32k", "so many secrets that nobody gets to the rest", too_many),
    case("F32l", "history of a folder deep inside", created_history_deep),
    case("F32m", "history that was not there, with a grant that names it", created_history_granted),
    case("F32n", "history that somebody else makes while a script runs that cannot", created_by_others),
    case("F32o", "secrets at the top of what a package manager unpacks into", in_downloaded),
    case("F32p", "history that lies elsewhere in the project", elsewhere),
    case("F32q", "history and skills behind links and second names", linked),
    case("F32r", "repositories under any name, and what a configuration names", repositories),
    case("F32s", "a repository made of what was none", made_bare),
    case("F32w", "what a configuration names that is not there yet", made_for_git),
    case("F32v", "what editors, shells and builds run by themselves", run_by_tools),
    case("F32t", "a project filled with secrets and folders by the run before", filled_project),
    case("F32u", "a folder that was shut by the run before", unreadable_folder),
    case("F18", "a second name of a file outside, there before", hard_link),
    case("F30", "the project moved away while the script runs", project_moved),
];

fn project(script: &str) -> Fixture {
    Fixture::bash(script)
        .grant("write")
        .file("project/.git/config", "theirs\n")
        .file("project/.git/hooks/pre-commit", "theirs\n")
        .file("project/.env", "secret\n")
        .file("project/.env.example", "sample\n")
        .file("project/deep/in/.env.local", "secret\n")
        .file("project/deep/in/code", "code\n")
        .file("project/.ssh/id", "secret\n")
        .file("project/.metier/skills/y/SKILL.md", "theirs\n")
}

/// Each attempt was refused where the outcome says that such paths are guarded; elsewhere it says that they are not.
#[track_caller]
fn assert_refused(ran: &RunResult, attempts: usize) -> CaseResult {
    if ran.sandbox().protected_paths {
        ran.assert_refused(attempts, &["refused"]);
        assert_eq!(ran.sandbox().level.name(), "namespaces");
    } else {
        ran.assert_ok();
        assert_eq!(ran.sandbox().level.name(), "landlock");
    }
    Ok(())
}

const TRY_FUNCTION: &str = "exec 2>/dev/null
    try() { eval \"$1\" >/dev/null && echo \"$1: done\" || echo \"$1: refused\"; }\n";

fn history() -> CaseResult {
    let fixture = project(&format!(
        "{TRY_FUNCTION}cat .git/config >/dev/null || echo unreadable
        try 'echo x > .git/config'; try 'echo x >> .git/config'; try 'touch .git/new'; try 'rm .git/config'
        try 'mv .git/config x'; try 'mv .git x'; try 'rm -rf .git'; try 'chmod 777 .git'; try 'chmod 777 .git/config'
        try 'mkdir .git/x'; try 'ln -s x .git/x'; try 'ln .git/config x'; try 'cp own .git/hooks/post-commit'
        try 'sed -i s/theirs/x/ .git/config'; try 'truncate -s 0 .git/hooks/pre-commit'; try 'mv -T deep .git'
        try 'python3 -c \"import os; os.utime(\\\".git/config\\\")\"'; try 'ln -sfn /tmp .git/hooks'"
    ));
    let ran = fixture.run();
    let guards = ran.sandbox().protected_paths;
    if guards {
        assert_eq!(fs::read(fixture.at("project/.git/config")).unwrap(), b"theirs\n");
        assert_eq!(fs::read_dir(fixture.at("project/.git/hooks")).unwrap().count(), 1);
        assert!(!ran.stdout().contains("unreadable"), "programs read it: {}", ran.stdout());
    }
    assert_refused(&ran, 18)
}

fn secrets() -> CaseResult {
    let fixture = project(&format!(
        "{TRY_FUNCTION}cat .env.example deep/in/code || echo 'samples: done'
        for file in .env deep/in/.env.local .ssh/id; do
            try \"cat $file\"; try \"echo x > $file\"; try \"cp $file x\"; try \"ln $file x\"; try \"rm $file\"
            try \"mv $file x\"; try \"python3 -c 'open(\\\"$file\\\").read()'\"; try \"(exec 3<>$file)\"; try \"chmod 777 $file\"
        done
        try 'ls .ssh | grep id'; try 'mv .ssh x'; try 'cd deep/in && cat .env.local'"
    ));
    let ran = fixture.run();
    if ran.sandbox().protected_paths {
        assert!(
            !ran.stdout().contains("secret") && ran.stdout().starts_with("sample\ncode\n"),
            "{}",
            ran.stdout()
        );
        for file in [".env", "deep/in/.env.local", ".ssh/id"] {
            assert_eq!(fs::read(fixture.at("project").join(file)).unwrap(), b"secret\n");
        }
    }
    assert_refused(&ran, 30)
}

fn skills() -> CaseResult {
    let fixture = project(&format!(
        "{TRY_FUNCTION}try '! cat .metier/skills/y/SKILL.md'; try 'echo x > .metier/skills/y/SKILL.md'; try 'mkdir .metier/skills/z'
        try 'rm -rf .metier/skills'; try 'mv .metier/skills x'; try 'mv .metier x'; try 'rm .metier/skills/y/SKILL.md'"
    ));
    let roots = own_skills(&fixture);
    let ran = fixture.result(fixture.builder().roots(roots).build().unwrap().run(fixture.invocation()));
    if ran.sandbox().protected_paths {
        assert_eq!(fs::read(fixture.at("project/.metier/skills/y/SKILL.md")).unwrap(), b"theirs\n");
    }
    assert_refused(&ran, 7)
}

pub fn own_skills(fixture: &Fixture) -> Roots {
    Roots::empty().with(Root::new(Scope::Explicit, "skills", fixture.at("skills"))).with(Root::new(
        Scope::Project,
        "own",
        fixture.at("project/.metier/skills"),
    ))
}

/// What cannot be changed can be put aside with the folder it lies in, and another put in its place.
fn replaced_protected() -> CaseResult {
    let fixture = project(&format!(
        "{TRY_FUNCTION}try 'mv deep aside'; try 'mv deep/in aside'; try 'mv -T --exchange deep/in deep'
        try 'python3 -c \"import os; os.rename(\\\"deep\\\", \\\"aside\\\")\"'; try 'rm -rf deep/in'
        mkdir -p deep/in; echo mine > deep/in/.env.local; try 'grep mine deep/in/.env.local'"
    ));
    let ran = fixture.run();
    if ran.sandbox().protected_paths {
        assert_eq!(fs::read(fixture.at("project/deep/in/.env.local")).unwrap(), b"secret\n");
    }
    assert_refused(&ran, 6)
}

fn named_by_grant() -> CaseResult {
    let fixture = project("echo x > .git/config; cat .env .git/config; echo y > .ssh/id; cat .ssh/id")
        .grant("write:.git/config")
        .grant("read:.env")
        .grant("write:.ssh");
    fixture.run().assert_stdout("secret\nx\ny\n");
    let fixture =
        project(&format!("{TRY_FUNCTION}try 'touch .git/x'; try 'echo x > .env'; try 'rm .git/config'"))
            .grant("write:.git/config")
            .grant("read:.env");
    assert_refused(&fixture.run(), 3)
}

fn secrets_unwritten() -> CaseResult {
    let fixture =
        Fixture::bash(&format!("{TRY_FUNCTION}try 'cat .env'; try 'cat deep/.env'; try '! cat own'"))
            .file("project/.env", "secret\n")
            .file("project/deep/.env", "secret\n");
    assert_refused(&fixture.run(), 3)
}

/// What packages bring lies deeper, and programs read it.
fn in_downloaded() -> CaseResult {
    let fixture = Fixture::bash(&format!(
        "{TRY_FUNCTION}cat venv/lib/python3/site-packages/certifi/cacert.pem; try 'cat venv/id_rsa'; try 'cat node_modules/.env'"
    ))
    .file("project/venv/lib/python3/site-packages/certifi/cacert.pem", "trusted\n")
    .file("project/venv/id_rsa", "secret\n")
    .file("project/node_modules/.env", "secret\n");
    let ran = fixture.run();
    assert!(ran.assert_ok().stdout().starts_with("trusted\n"), "{ran:?}");
    assert_refused(&ran, 2)
}

/// Git follows the file `.git`, and from there on `commondir`.
fn elsewhere() -> CaseResult {
    let fixture = Fixture::bash(&format!(
        "{TRY_FUNCTION}cat meta/HEAD >/dev/null || echo unreadable
        try 'echo x > meta/hooks/pre-commit'; try 'mv meta x'; try 'echo x > .git'; try 'rm -rf trees/one'
        try 'echo x > shared/hooks/pre-commit'; try 'mv shared x'; try 'echo x > trees/one/commondir'"
    ))
    .grant("write")
    .file("project/.git", "gitdir: meta\n")
    .file("project/meta/HEAD", "ref: refs/heads/main\n")
    .file("project/meta/hooks/post-commit", "theirs\n")
    .file("project/tree/own", "theirs\n")
    .file("project/trees/one/commondir", "../../shared\n")
    .file("project/shared/hooks/post-commit", "theirs\n");
    fixture.write("project/tree/.git", format!("gitdir: {}\n", fixture.name("project/trees/one")));
    let ran = fixture.run();
    assert!(!ran.stdout().contains("unreadable"), "{ran:?}");
    assert_refused(&ran, 7)?;
    // Who names a folder may change it, and who may write where history is said to lie decides that.
    let script = "echo x > meta/hooks/pre-commit && echo ran";
    for named in ["write:meta", "write:.git"] {
        let fixture =
            Fixture::bash(script).grant("write").grant(named).file("project/.git", "gitdir: meta\n");
        fixture.file("project/meta/hooks/post-commit", "").run().assert_stdout("ran\n");
    }
    Ok(())
}

/// A file is a secret by all of its names, and so is what a link with the name of one leads to.
fn second_names() -> CaseResult {
    let script = format!(
        "{TRY_FUNCTION}for file in again deep/third conf/live keys/own pre; do try \"cat $file\"; try \"echo x > $file\"; done
        try 'rm -f .env.local'; try 'mv .ssh x'; try 'ln -sfn x .env.local'; try 'mv conf/live x'; try 'cat own'; cat plain"
    );
    let fixture = Fixture::bash(&script)
        .grant("write")
        .file("project/.env", "secret\n")
        .file("project/conf/live", "secret\n")
        .file("project/keys/own", "secret\n")
        .file("project/.aws/own", "secret\n")
        .file("project/plain", "fine\n");
    for (one, other) in [(".env", "again"), (".env", "deep/third"), (".aws/own", "own"), ("plain", "beside")]
    {
        fixture.write(&format!("project/{other}"), "");
        fs::remove_file(fixture.at(&format!("project/{other}"))).unwrap();
        fs::hard_link(fixture.at(&format!("project/{one}")), fixture.at(&format!("project/{other}")))
            .unwrap();
    }
    symlink("conf/live", fixture.at("project/.env.local")).unwrap();
    symlink("keys", fixture.at("project/.ssh")).unwrap();
    symlink("conf/live", fixture.at("project/pre")).unwrap();
    let ran = fixture.run();
    if ran.sandbox().level.name() == "namespaces" {
        assert!(ran.sandbox().protected_paths && !ran.stdout().contains("secret"), "{ran:?}");
        assert!(ran.stdout().ends_with("fine\n"), "{}", ran.stdout());
        return assert_refused(&ran, 15);
    }
    assert!(!ran.assert_ok().sandbox().protected_paths);
    Ok(())
}

/// What git and skills are reached by stays what it is, links and second names included.
fn linked() -> CaseResult {
    let script = format!(
        "{TRY_FUNCTION}try 'echo x > real/hooks/pre-commit'; try 'echo x > real/config'; try 'rm .git'; try 'ln -sfn x .git'
        try 'mv real x'; try 'echo x > hook'; try 'echo x > code'; try 'rm .metier'; try 'ln -sfn x .metier'
        try 'echo x > mine/skills/y/SKILL.md'; try 'mkdir mine/skills/z'; try 'mv mine x'
        cat .git/config >/dev/null || echo unreadable"
    );
    let fixture = Fixture::bash(&script)
        .grant("write")
        .file("project/real/config", "theirs\n")
        .file("project/real/hooks/own", "theirs\n")
        .file("project/mine/skills/y/SKILL.md", "theirs\n");
    symlink("real", fixture.at("project/.git")).unwrap();
    symlink("mine", fixture.at("project/.metier")).unwrap();
    fs::hard_link(fixture.at("project/real/hooks/own"), fixture.at("project/hook")).unwrap();
    fs::hard_link(fixture.at("project/mine/skills/y/SKILL.md"), fixture.at("project/code")).unwrap();
    let ran = fixture
        .result(fixture.builder().roots(own_skills(&fixture)).build().unwrap().run(fixture.invocation()));
    assert!(!ran.stdout().contains("unreadable"), "{ran:?}");
    assert_refused(&ran, 12)
}

/// What git takes for a repository is kept under any name, and so is what a configuration makes it run.
fn repositories() -> CaseResult {
    let script = format!(
        "{TRY_FUNCTION}for folder in bare deep/down; do try \"echo x > $folder/config\"; try \"mkdir -p $folder/hooks/x\"; try \"mv $folder x\"; done
        try 'echo x > scripts/checks/pre-commit'; try 'rm -rf scripts/checks'; try 'echo x > tools/watch.sh'; try 'rm more.cfg'
        echo x > tools/other && echo x > deep/other && echo fine"
    );
    let fixture = Fixture::bash(&script)
        .grant("write")
        .file(
            "project/.git/config",
            "[core]\nhooksPath = scripts/checks\nfsmonitor = tools/watch.sh\n[include]\npath = ../more.cfg\n",
        )
        .file("project/scripts/checks/own", "theirs\n")
        .file("project/tools/watch.sh", "theirs\n")
        .file("project/more.cfg", "# theirs\n");
    for folder in ["bare", "deep/down"] {
        for file in ["HEAD", "config", "objects/x", "refs/x"] {
            fixture.write(&format!("project/{folder}/{file}"), "theirs\n");
        }
    }
    let ran = fixture.run();
    assert!(ran.stdout().ends_with("fine\n"), "{ran:?}");
    assert_refused(&ran, 10)
}

/// Told of where it lies deep inside, as a `.git` there is; at the top it is taken apart.
fn made_bare() -> CaseResult {
    let fixture = Fixture::bash("for at in . src; do mkdir -p $at/objects $at/refs; echo 'ref: refs/heads/x' > $at/HEAD; echo x > $at/config; done")
        .grant("write")
        .file("project/src/own", "theirs\n");
    let ran = fixture.run();
    assert!(ran.assert_ok().has_warning("src became a repository of git's"), "{ran:?}");
    assert!(ran.has_warning("made HEAD") && !fixture.at("project/HEAD").exists(), "{ran:?}");
    assert!(fixture.at("project/src/HEAD").exists(), "it may be somebody else's");
    Ok(())
}

/// By the configuration of the project and of a repository in it, and not where a grant names it.
fn made_for_git() -> CaseResult {
    let script = "mkdir -p hooks tools sub/checks; for file in hooks/pre-commit tools/watch.sh more.cfg sub/checks/post-commit granted/x post-merge; do echo x > $file; done; echo fine";
    let config = "[core]\nhooksPath = hooks\nfsmonitor = tools/watch.sh\n[include]\npath = ../more.cfg\n[alias]\na = !granted/x\n";
    let fixture = Fixture::bash(script)
        .grant("write")
        .grant("write:granted/x")
        .file("project/granted/own", "")
        .file("project/tools/own", "")
        .file("project/.git/config", config)
        .file("project/sub/.git/config", "[core]\nhooksPath = checks\n");
    let ran = fixture.run();
    assert!(ran.assert_ok().stdout().ends_with("fine\n"), "{ran:?}");
    for (made, named) in [
        ("hooks", "hooks/pre-commit"),
        ("tools/watch.sh", "tools/watch.sh"),
        ("more.cfg", "more.cfg"),
        ("sub/checks", "sub/checks/post-commit"),
    ] {
        let is_gone = !fixture.at(&format!("project/{named}")).exists();
        assert!(
            is_gone && ran.has_warning(&format!("made {made}, which takes the permission write:")),
            "{made}: {ran:?}"
        );
    }
    for kept in ["granted/x", "post-merge", "tools/own"] {
        assert!(fixture.at(&format!("project/{kept}")).exists(), "{kept}: {ran:?}");
    }
    // Where the project itself is the folder of hooks, each name of a hook is one.
    let fixture =
        Fixture::bash("echo x > pre-commit; echo x > plain; mkdir hooks; echo x > hooks/pre-commit")
            .grant("write")
            .file("project/.git/config", "[core]\nhooksPath = .\n");
    let ran = fixture.run();
    let (hook, plain) = (fixture.at("project/pre-commit"), fixture.at("project/hooks/pre-commit"));
    assert!(ran.has_warning("made pre-commit, which takes") && !hook.exists() && plain.exists(), "{ran:?}");
    Ok(())
}

/// What runs when a folder is opened is kept where it is, quarantined at the top where it was not, and told of elsewhere; what a
/// build runs is told of.
fn run_by_tools() -> CaseResult {
    let fixture = Fixture::bash(&format!(
        "{TRY_FUNCTION}try 'echo x > .vscode/tasks.json'; try 'echo x > sub/.envrc'
        mkdir -p .claude sub/.idea; echo x > .claude/settings.json; echo x > sub/.idea/x; echo x > package.json; echo x >> sub/Makefile"
    ))
    .grant("write")
    .file("project/.vscode/tasks.json", "theirs\n")
    .file("project/sub/.envrc", "theirs\n")
    .file("project/sub/Makefile", "theirs\n");
    let ran = fixture.run();
    assert!(ran.has_warning("made .claude, ") && !fixture.at("project/.claude").exists(), "{ran:?}");
    assert!(ran.has_warning("sub/.idea came while"), "{ran:?}");
    assert!(ran.has_warning("package.json, sub/Makefile changed while"), "{ran:?}");
    assert_refused(&ran, 2)
}

/// A run that fills the project hides nothing from the next one: what is there is guarded, or nothing runs.
fn filled_project() -> CaseResult {
    let fixture = Fixture::bash(&format!("{TRY_FUNCTION}try 'cat deep/er/.env'; try 'cat aa7.pem'"))
        .file("project/deep/er/.env", "secret\n");
    for number in 0..1500 {
        fixture.write(&format!("project/aa{number}.pem"), "secret\n");
        fs::create_dir_all(fixture.at(&format!("project/a{number}/b"))).unwrap();
    }
    let ran = fixture.run();
    if ran.sandbox().level.name() == "namespaces" {
        assert!(ran.sandbox().protected_paths && !ran.stdout().contains("secret"), "{ran:?}");
    }
    assert_refused(&ran, 2)
}

/// Nobody looks into a folder that its owner has shut, and a script could open it again.
fn unreadable_folder() -> CaseResult {
    let fixture = Fixture::bash("chmod 700 deep; cat deep/.env; echo ran")
        .grant("write")
        .file("project/deep/.env", "secret\n");
    fs::set_permissions(fixture.at("project/deep"), fs::Permissions::from_mode(0o000)).unwrap();
    let outcome = fixture.engine().run(fixture.invocation());
    fs::set_permissions(fixture.at("project/deep"), fs::Permissions::from_mode(0o755)).unwrap();
    // Root looks into everything.
    if let Err(error) = &outcome.result {
        assert!(error.message().contains("deep could not be read"), "{outcome:?}");
    } else {
        let ran = fixture.result(outcome);
        assert!(!ran.sandbox().protected_paths || !ran.stdout().contains("secret"), "{ran:?}");
    }
    Ok(())
}

/// A project with more in it than was looked at before is looked at whole.
fn too_much() -> CaseResult {
    let fixture = project(&format!(
        "{TRY_FUNCTION}try 'echo x > .git/config'; try 'cat .env'; try 'cat many/33/zz/.env'"
    ));
    for folder in (0..34).map(|folder| fixture.at(&format!("project/many/{folder}"))) {
        fs::create_dir_all(&folder).unwrap();
        create_names((0..1000).map(|number| folder.join(number.to_string())));
    }
    fixture.write("project/many/33/zz/.env", "secret\n");
    assert_refused(&fixture.run(), 3)
}

/// History and skills are kept however many secrets there are, and so are those.
fn too_many() -> CaseResult {
    let fixture = project(&format!(
        "{TRY_FUNCTION}try 'echo x > .git/config'; try 'mkdir .metier/skills/z'; try 'cat aa4999.pem'; try 'rm -f aa0.pem'"
    ));
    (0..5000).for_each(|number| fs::write(fixture.at(&format!("project/aa{number}.pem")), "").unwrap());
    let roots = own_skills(&fixture);
    let ran = fixture.result(fixture.builder().roots(roots).build().unwrap().run(fixture.invocation()));
    assert_refused(&ran, 4)
}

/// A mount holds what was there, wherever it goes.
fn moved_by_host() -> CaseResult {
    let fixture = project(
        "echo ready > ready; while [ ! -e go ]; do sleep 0.01; done
        (echo x > aside/config) 2>/dev/null && echo 'aside: done' || echo 'aside: refused'
        (echo x > .git/config) 2>/dev/null && echo 'there: done' || echo 'there: refused'",
    );
    let engine = fixture.engine();
    let outcome = std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.run(fixture.invocation()));
        while !fixture.at("project/ready").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        fs::rename(fixture.at("project/.git"), fixture.at("project/aside")).unwrap();
        fs::write(fixture.at("project/go"), "").unwrap();
        run.join().unwrap()
    });
    let ran = fixture.result(outcome);
    assert_refused(&ran, 2)
}

/// No mount can be put where nothing is, and nothing is made in a project for that: what a script makes there is quarantined when
/// it has ended, however it ended. Secrets of its own it may have.
fn created_history() -> CaseResult {
    for end in ["", "exit 3", "sleep 1000"] {
        let script = format!(
            "mkdir -p .git .metier/skills/word-count && echo x > .git/config && echo x > .env && cat .env; {end}"
        );
        let fixture =
            Fixture::bash(&script).grant("write").deadline(2000).file("project/.git.quarantine", "theirs\n");
        let ran = fixture
            .result(fixture.builder().roots(own_skills(&fixture)).build().unwrap().run(fixture.invocation()));
        assert!(ran.has_warning("made .git, which takes the permission write:.git"), "{ran:?}");
        assert!(
            ran.has_warning("it was moved to .git.quarantine-") && ran.has_warning("made .metier, "),
            "{ran:?}"
        );
        for gone in ["project/.git", "project/.metier"] {
            assert!(!fixture.at(gone).exists(), "{gone}");
        }
        assert_eq!(fs::read(fixture.at("project/.git.quarantine")).unwrap(), b"theirs\n");
        let mut names = fs::read_dir(fixture.at("project")).unwrap().map(|entry| entry.unwrap().path());
        assert!(names.any(|path| fs::read(path.join("config")).is_ok_and(|text| text == b"x\n")));
    }
    Ok(())
}

fn created_history_deep() -> CaseResult {
    let fixture = project("mkdir -p new/.git deep/.git node_modules/x/.git").grant("write");
    let ran = fixture.run();
    for made in ["new/.git", "deep/.git"] {
        assert!(ran.assert_ok().has_warning(&format!("{made} came while")), "{made}: {ran:?}");
    }
    assert!(fixture.at("project/new/.git").exists(), "it may be somebody else's");
    Ok(())
}

fn created_history_granted() -> CaseResult {
    let fixture =
        Fixture::bash("git init -q . && git status --short | head -1").grant("write").grant("write:.git");
    let ran = fixture.run();
    assert!(!ran.assert_ok().has_warning("made") && fixture.at("project/.git/HEAD").exists(), "{ran:?}");
    Ok(())
}

fn created_by_others() -> CaseResult {
    let fixture = Fixture::bash("echo ready > out/ready; while [ ! -e out/go ]; do sleep 0.01; done")
        .grant("write:out")
        .file("project/out/own", "");
    let engine = fixture.engine();
    let outcome = std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.run(fixture.invocation()));
        while !fixture.at("project/out/ready").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        for theirs in ["project/.git/config", "project/deep/.git/config"] {
            fixture.write(theirs, "theirs\n");
        }
        fs::write(fixture.at("project/out/go"), "").unwrap();
        run.join().unwrap()
    });
    let ran = fixture.result(outcome);
    assert!(!ran.assert_ok().has_warning(".git") && fixture.at("project/.git/config").exists(), "{ran:?}");
    Ok(())
}

/// A name is all that a sandbox goes by: who gave a file two gave it to both.
fn hard_link() -> CaseResult {
    let fixture = Fixture::bash("cat linked");
    fs::hard_link(fixture.at("outside/secret"), fixture.at("project/linked")).unwrap();
    fixture.run().assert_stdout("secret\n");
    assert_eq!(fs::metadata(fixture.at("outside/secret")).unwrap().nlink(), 2);
    Ok(())
}

/// The script keeps the project it began with, and what takes its place is not its own.
fn project_moved() -> CaseResult {
    let fixture = Fixture::bash(
        "echo ready > ready; while [ ! -e go ]; do sleep 0.01; done; echo mine > mine
        (echo x > \"$METIER_PROJECT_DIR/own\") 2>/dev/null && echo written || echo refused",
    )
    .grant("write");
    let engine = fixture.engine();
    let outcome = std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.run(fixture.invocation()));
        while !fixture.at("project/ready").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        fs::rename(fixture.at("project"), fixture.at("before")).unwrap();
        fixture.write("project/own", "another's\n");
        fs::set_permissions(fixture.at("project"), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(fixture.at("before/go"), "").unwrap();
        run.join().unwrap()
    });
    let ran = fixture.result(outcome);
    // In a private `/tmp` the path still leads to the project that it began with.
    let is_private = is_in_private_folder(&fixture.name("project"));
    ran.assert_stdout(if is_private { "written\n" } else { "refused\n" });
    assert_eq!(fs::read(fixture.at("before/own")).is_ok_and(|text| text == b"x\n"), is_private);
    assert_eq!(fs::read(fixture.at("project/own")).unwrap(), b"another's\n");
    assert_eq!(fs::read(fixture.at("before/mine")).unwrap(), b"mine\n");
    Ok(())
}
