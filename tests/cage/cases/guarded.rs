//! What a grant to write a project does not open: its history, its secrets, its skills.
//!
//! Only namespaces can carve that out of what is granted. Where there are none, the outcome must say so.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use metier::registry::{Root, Roots, Scope};

use super::case;
use crate::case::{Case, Tried};
use crate::stage::{Ran, Stage};

pub const CASES: &[Case] = &[
    case("F32a", "to change the project's history", history),
    case("F32b", "to read and change secrets, wherever they lie", secrets),
    case("F32c", "to change the project's skills", skills),
    case("F32d", "to put something else where what is guarded was", replaced),
    case("F32e", "what is guarded, with a grant that names it", named),
    case("F32f", "secrets, without a grant to write", secrets_unwritten),
    case("F32g", "a secret that is a link or has a second name", second_names),
    case("F32h", "a project with more in it than anybody looks at", too_much),
    case("F32i", "history moved away by the host while the script runs", moved),
    case("F32j", "history and skills that were not there", not_there),
    case("F32k", "so many secrets that nobody gets to the rest", too_many),
    case("F32l", "history of a folder deep inside", not_there_deep),
    case("F32m", "history that was not there, with a grant that names it", not_there_named),
    case("F32n", "history that somebody else makes while a script runs that cannot", not_there_of_others),
    case("F32o", "secrets at the top of what a package manager unpacks into", in_downloaded),
    case("F32p", "history that lies elsewhere in the project", elsewhere),
    case("F32q", "history and skills behind links and second names", linked),
    case("F32r", "repositories under any name, and what a configuration names", repositories),
    case("F32s", "a repository made of what was none", made_bare),
    case("F32v", "what editors, shells and builds run by themselves", run_by_others),
    case("F32t", "a project filled with secrets and folders by the run before", filled),
    case("F32u", "a folder that was shut by the run before", shut),
    case("F18", "a second name of a file outside, there before", hard_link),
    case("F30", "the project moved away while the script runs", project_moved),
];

fn project(script: &str) -> Stage {
    Stage::bash(script)
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
fn refused(ran: &Ran, attempts: usize) -> Tried {
    if ran.sandbox().protected_paths {
        ran.refused(attempts, &["refused"]);
        assert_eq!(ran.sandbox().tier, "namespaces");
    } else {
        ran.well();
        assert_eq!(ran.sandbox().tier, "landlock");
    }
    Ok(())
}

const TRY: &str = "exec 2>/dev/null
    try() { eval \"$1\" >/dev/null && echo \"$1: done\" || echo \"$1: refused\"; }\n";

fn history() -> Tried {
    let stage = project(&format!(
        "{TRY}cat .git/config >/dev/null || echo unreadable
        try 'echo x > .git/config'; try 'echo x >> .git/config'; try 'touch .git/new'; try 'rm .git/config'
        try 'mv .git/config x'; try 'mv .git x'; try 'rm -rf .git'; try 'chmod 777 .git'; try 'chmod 777 .git/config'
        try 'mkdir .git/x'; try 'ln -s x .git/x'; try 'ln .git/config x'; try 'cp own .git/hooks/post-commit'
        try 'sed -i s/theirs/x/ .git/config'; try 'truncate -s 0 .git/hooks/pre-commit'; try 'mv -T deep .git'
        try 'python3 -c \"import os; os.utime(\\\".git/config\\\")\"'; try 'ln -sfn /tmp .git/hooks'"
    ));
    let ran = stage.run();
    let guards = ran.sandbox().protected_paths;
    if guards {
        assert_eq!(fs::read(stage.at("project/.git/config")).unwrap(), b"theirs\n");
        assert_eq!(fs::read_dir(stage.at("project/.git/hooks")).unwrap().count(), 1);
        assert!(!ran.said().contains("unreadable"), "programs read it: {}", ran.said());
    }
    refused(&ran, 18)
}

fn secrets() -> Tried {
    let stage = project(&format!(
        "{TRY}cat .env.example deep/in/code || echo 'samples: done'
        for file in .env deep/in/.env.local .ssh/id; do
            try \"cat $file\"; try \"echo x > $file\"; try \"cp $file x\"; try \"ln $file x\"; try \"rm $file\"
            try \"mv $file x\"; try \"python3 -c 'open(\\\"$file\\\").read()'\"; try \"(exec 3<>$file)\"; try \"chmod 777 $file\"
        done
        try 'ls .ssh | grep id'; try 'mv .ssh x'; try 'cd deep/in && cat .env.local'"
    ));
    let ran = stage.run();
    if ran.sandbox().protected_paths {
        assert!(!ran.said().contains("secret") && ran.said().starts_with("sample\ncode\n"), "{}", ran.said());
        for file in [".env", "deep/in/.env.local", ".ssh/id"] {
            assert_eq!(fs::read(stage.at("project").join(file)).unwrap(), b"secret\n");
        }
    }
    refused(&ran, 30)
}

fn skills() -> Tried {
    let stage = project(&format!(
        "{TRY}try '! cat .metier/skills/y/SKILL.md'; try 'echo x > .metier/skills/y/SKILL.md'; try 'mkdir .metier/skills/z'
        try 'rm -rf .metier/skills'; try 'mv .metier/skills x'; try 'mv .metier x'; try 'rm .metier/skills/y/SKILL.md'"
    ));
    let roots = own_skills(&stage);
    let ran = stage.ran(stage.builder().roots(roots).build().unwrap().run(stage.invocation()));
    if ran.sandbox().protected_paths {
        assert_eq!(fs::read(stage.at("project/.metier/skills/y/SKILL.md")).unwrap(), b"theirs\n");
    }
    refused(&ran, 7)
}

fn own_skills(stage: &Stage) -> Roots {
    Roots::empty().with(Root::new(Scope::Explicit, "skills", stage.at("skills"))).with(Root::new(
        Scope::Project,
        "own",
        stage.at("project/.metier/skills"),
    ))
}

/// What cannot be changed can be put aside with the folder it lies in, and another put in its place.
fn replaced() -> Tried {
    let stage = project(&format!(
        "{TRY}try 'mv deep aside'; try 'mv deep/in aside'; try 'mv -T --exchange deep/in deep'
        try 'python3 -c \"import os; os.rename(\\\"deep\\\", \\\"aside\\\")\"'; try 'rm -rf deep/in'
        mkdir -p deep/in; echo mine > deep/in/.env.local; try 'grep mine deep/in/.env.local'"
    ));
    let ran = stage.run();
    if ran.sandbox().protected_paths {
        assert_eq!(fs::read(stage.at("project/deep/in/.env.local")).unwrap(), b"secret\n");
    }
    refused(&ran, 6)
}

fn named() -> Tried {
    let stage = project("echo x > .git/config; cat .env .git/config; echo y > .ssh/id; cat .ssh/id")
        .grant("write:.git/config")
        .grant("read:.env")
        .grant("write:.ssh");
    stage.run().says("secret\nx\ny\n");
    let stage = project(&format!("{TRY}try 'touch .git/x'; try 'echo x > .env'; try 'rm .git/config'"))
        .grant("write:.git/config")
        .grant("read:.env");
    refused(&stage.run(), 3)
}

fn secrets_unwritten() -> Tried {
    let stage = Stage::bash(&format!("{TRY}try 'cat .env'; try 'cat deep/.env'; try '! cat own'"))
        .file("project/.env", "secret\n")
        .file("project/deep/.env", "secret\n");
    refused(&stage.run(), 3)
}

/// What packages bring lies deeper, and programs read it.
fn in_downloaded() -> Tried {
    let stage = Stage::bash(&format!(
        "{TRY}cat venv/lib/python3/site-packages/certifi/cacert.pem; try 'cat venv/id_rsa'; try 'cat node_modules/.env'"
    ))
    .file("project/venv/lib/python3/site-packages/certifi/cacert.pem", "trusted\n")
    .file("project/venv/id_rsa", "secret\n")
    .file("project/node_modules/.env", "secret\n");
    let ran = stage.run();
    assert!(ran.well().said().starts_with("trusted\n"), "{ran:?}");
    refused(&ran, 2)
}

/// Git follows the file `.git`, and from there on `commondir`.
fn elsewhere() -> Tried {
    let stage = Stage::bash(&format!(
        "{TRY}cat meta/HEAD >/dev/null || echo unreadable
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
    stage.write("project/tree/.git", format!("gitdir: {}\n", stage.name("project/trees/one")));
    let ran = stage.run();
    assert!(!ran.said().contains("unreadable"), "{ran:?}");
    refused(&ran, 7)?;
    // Who names a folder may change it, and who may write where history is said to lie decides that.
    let script = "echo x > meta/hooks/pre-commit && echo ran";
    for named in ["write:meta", "write:.git"] {
        let stage = Stage::bash(script).grant("write").grant(named).file("project/.git", "gitdir: meta\n");
        stage.file("project/meta/hooks/post-commit", "").run().says("ran\n");
    }
    Ok(())
}

/// A file is a secret by all of its names, and so is what a link with the name of one leads to.
fn second_names() -> Tried {
    let script = format!(
        "{TRY}for file in again deep/third conf/live keys/own pre; do try \"cat $file\"; try \"echo x > $file\"; done
        try 'rm -f .env.local'; try 'mv .ssh x'; try 'ln -sfn x .env.local'; try 'mv conf/live x'; try 'cat own'; cat plain"
    );
    let stage = Stage::bash(&script)
        .grant("write")
        .file("project/.env", "secret\n")
        .file("project/conf/live", "secret\n")
        .file("project/keys/own", "secret\n")
        .file("project/.aws/own", "secret\n")
        .file("project/plain", "fine\n");
    for (one, other) in [(".env", "again"), (".env", "deep/third"), (".aws/own", "own"), ("plain", "beside")]
    {
        stage.write(&format!("project/{other}"), "");
        fs::remove_file(stage.at(&format!("project/{other}"))).unwrap();
        fs::hard_link(stage.at(&format!("project/{one}")), stage.at(&format!("project/{other}"))).unwrap();
    }
    symlink("conf/live", stage.at("project/.env.local")).unwrap();
    symlink("keys", stage.at("project/.ssh")).unwrap();
    symlink("conf/live", stage.at("project/pre")).unwrap();
    let ran = stage.run();
    if ran.sandbox().tier == "namespaces" {
        assert!(ran.sandbox().protected_paths && !ran.said().contains("secret"), "{ran:?}");
        assert!(ran.said().ends_with("fine\n"), "{}", ran.said());
        return refused(&ran, 15);
    }
    assert!(!ran.well().sandbox().protected_paths);
    Ok(())
}

/// What git and skills are reached by stays what it is, links and second names included.
fn linked() -> Tried {
    let script = format!(
        "{TRY}try 'echo x > real/hooks/pre-commit'; try 'echo x > real/config'; try 'rm .git'; try 'ln -sfn x .git'
        try 'mv real x'; try 'echo x > hook'; try 'echo x > code'; try 'rm .metier'; try 'ln -sfn x .metier'
        try 'echo x > mine/skills/y/SKILL.md'; try 'mkdir mine/skills/z'; try 'mv mine x'
        cat .git/config >/dev/null || echo unreadable"
    );
    let stage = Stage::bash(&script)
        .grant("write")
        .file("project/real/config", "theirs\n")
        .file("project/real/hooks/own", "theirs\n")
        .file("project/mine/skills/y/SKILL.md", "theirs\n");
    symlink("real", stage.at("project/.git")).unwrap();
    symlink("mine", stage.at("project/.metier")).unwrap();
    fs::hard_link(stage.at("project/real/hooks/own"), stage.at("project/hook")).unwrap();
    fs::hard_link(stage.at("project/mine/skills/y/SKILL.md"), stage.at("project/code")).unwrap();
    let ran = stage.ran(stage.builder().roots(own_skills(&stage)).build().unwrap().run(stage.invocation()));
    assert!(!ran.said().contains("unreadable"), "{ran:?}");
    refused(&ran, 12)
}

/// What git takes for a repository is kept under any name, and so is what a configuration makes it run.
fn repositories() -> Tried {
    let script = format!(
        "{TRY}for folder in bare deep/down; do try \"echo x > $folder/config\"; try \"mkdir -p $folder/hooks/x\"; try \"mv $folder x\"; done
        try 'echo x > .husky/_/pre-commit'; try 'rm -rf .husky/_'; try 'echo x > tools/watch.sh'; try 'rm more.cfg'
        echo x > tools/other && echo x > deep/other && echo fine"
    );
    let stage = Stage::bash(&script)
        .grant("write")
        .file(
            "project/.git/config",
            "[core]\nhooksPath = .husky/_\nfsmonitor = tools/watch.sh\n[include]\npath = ../more.cfg\n",
        )
        .file("project/.husky/_/own", "theirs\n")
        .file("project/tools/watch.sh", "theirs\n")
        .file("project/more.cfg", "# theirs\n");
    for folder in ["bare", "deep/down"] {
        for file in ["HEAD", "config", "objects/x", "refs/x"] {
            stage.write(&format!("project/{folder}/{file}"), "theirs\n");
        }
    }
    let ran = stage.run();
    assert!(ran.said().ends_with("fine\n"), "{ran:?}");
    refused(&ran, 10)
}

/// Told of where it lies deep inside, as a `.git` there is; at the top it is taken apart.
fn made_bare() -> Tried {
    let stage = Stage::bash("for at in . src; do mkdir -p $at/objects $at/refs; echo 'ref: refs/heads/x' > $at/HEAD; echo x > $at/config; done")
        .grant("write")
        .file("project/src/own", "theirs\n");
    let ran = stage.run();
    assert!(ran.well().warned("src became a repository of git's"), "{ran:?}");
    assert!(ran.warned("made HEAD") && !stage.at("project/HEAD").exists(), "{ran:?}");
    assert!(stage.at("project/src/HEAD").exists(), "it may be somebody else's");
    Ok(())
}

/// What runs when a folder is opened is kept where it is, moved aside at the top where it was not, and told of elsewhere; what a
/// build runs is told of.
fn run_by_others() -> Tried {
    let stage = Stage::bash(&format!(
        "{TRY}try 'echo x > .vscode/tasks.json'; try 'echo x > sub/.envrc'
        mkdir -p .claude sub/.idea; echo x > .claude/settings.json; echo x > sub/.idea/x; echo x > package.json; echo x >> sub/Makefile"
    ))
    .grant("write")
    .file("project/.vscode/tasks.json", "theirs\n")
    .file("project/sub/.envrc", "theirs\n")
    .file("project/sub/Makefile", "theirs\n");
    let ran = stage.run();
    assert!(ran.warned("made .claude, ") && !stage.at("project/.claude").exists(), "{ran:?}");
    assert!(ran.warned("sub/.idea came while"), "{ran:?}");
    assert!(ran.warned("package.json, sub/Makefile changed while"), "{ran:?}");
    refused(&ran, 2)
}

/// A run that fills the project hides nothing from the next one: what is there is guarded, or nothing runs.
fn filled() -> Tried {
    let stage = Stage::bash(&format!("{TRY}try 'cat deep/er/.env'; try 'cat aa7.pem'"))
        .file("project/deep/er/.env", "secret\n");
    for number in 0..1500 {
        stage.write(&format!("project/aa{number}.pem"), "secret\n");
        fs::create_dir_all(stage.at(&format!("project/a{number}/b"))).unwrap();
    }
    let ran = stage.run();
    if ran.sandbox().tier == "namespaces" {
        assert!(ran.sandbox().protected_paths && !ran.said().contains("secret"), "{ran:?}");
    }
    refused(&ran, 2)
}

/// Nobody looks into a folder that its owner has shut, and a script could open it again.
fn shut() -> Tried {
    let stage = Stage::bash("chmod 700 deep; cat deep/.env; echo ran")
        .grant("write")
        .file("project/deep/.env", "secret\n");
    fs::set_permissions(stage.at("project/deep"), fs::Permissions::from_mode(0o000)).unwrap();
    let outcome = stage.engine().run(stage.invocation());
    fs::set_permissions(stage.at("project/deep"), fs::Permissions::from_mode(0o755)).unwrap();
    // Root looks into everything.
    if let Err(error) = &outcome.result {
        assert!(error.message().contains("deep could not be read"), "{outcome:?}");
    } else {
        let ran = stage.ran(outcome);
        assert!(!ran.sandbox().protected_paths || !ran.said().contains("secret"), "{ran:?}");
    }
    Ok(())
}

/// A project with more in it than was looked at before is looked at whole.
fn too_much() -> Tried {
    let stage =
        project(&format!("{TRY}try 'echo x > .git/config'; try 'cat .env'; try 'cat many/33/zz/.env'"));
    for folder in 0..34 {
        fs::create_dir_all(stage.at(&format!("project/many/{folder}"))).unwrap();
        (0..1000)
            .for_each(|number| fs::write(stage.at(&format!("project/many/{folder}/{number}")), "").unwrap());
    }
    stage.write("project/many/33/zz/.env", "secret\n");
    refused(&stage.run(), 3)
}

/// History and skills are kept however many secrets there are, and so are those.
fn too_many() -> Tried {
    let stage = project(&format!(
        "{TRY}try 'echo x > .git/config'; try 'mkdir .metier/skills/z'; try 'cat aa4999.pem'; try 'rm -f aa0.pem'"
    ));
    (0..5000).for_each(|number| fs::write(stage.at(&format!("project/aa{number}.pem")), "").unwrap());
    let roots = own_skills(&stage);
    let ran = stage.ran(stage.builder().roots(roots).build().unwrap().run(stage.invocation()));
    refused(&ran, 4)
}

/// A mount holds what was there, wherever it goes.
fn moved() -> Tried {
    let stage = project(
        "echo ready > ready; while [ ! -e go ]; do sleep 0.01; done
        (echo x > aside/config) 2>/dev/null && echo 'aside: done' || echo 'aside: refused'
        (echo x > .git/config) 2>/dev/null && echo 'there: done' || echo 'there: refused'",
    );
    let engine = stage.engine();
    let outcome = std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.run(stage.invocation()));
        while !stage.at("project/ready").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        fs::rename(stage.at("project/.git"), stage.at("project/aside")).unwrap();
        fs::write(stage.at("project/go"), "").unwrap();
        run.join().unwrap()
    });
    let ran = stage.ran(outcome);
    refused(&ran, 2)
}

/// No mount can be put where nothing is, and nothing is made in a project for that: what a script makes there is set aside when
/// it has ended, however it ended. Secrets of its own it may have.
fn not_there() -> Tried {
    for end in ["", "exit 3", "sleep 1000"] {
        let script = format!(
            "mkdir -p .git .metier/skills/word-count && echo x > .git/config && echo x > .env && cat .env; {end}"
        );
        let stage = Stage::bash(&script).grant("write").deadline(2000).file("project/.git.aside", "theirs\n");
        let ran =
            stage.ran(stage.builder().roots(own_skills(&stage)).build().unwrap().run(stage.invocation()));
        assert!(ran.warned("made .git, which takes the permission write:.git"), "{ran:?}");
        assert!(ran.warned("it was moved to .git.aside-") && ran.warned("made .metier, "), "{ran:?}");
        for gone in ["project/.git", "project/.metier"] {
            assert!(!stage.at(gone).exists(), "{gone}");
        }
        assert_eq!(fs::read(stage.at("project/.git.aside")).unwrap(), b"theirs\n");
        let mut names = fs::read_dir(stage.at("project")).unwrap().map(|entry| entry.unwrap().path());
        assert!(names.any(|path| fs::read(path.join("config")).is_ok_and(|text| text == b"x\n")));
    }
    Ok(())
}

fn not_there_deep() -> Tried {
    let stage = project("mkdir -p new/.git deep/.git node_modules/x/.git").grant("write");
    let ran = stage.run();
    for made in ["new/.git", "deep/.git"] {
        assert!(ran.well().warned(&format!("{made} came while")), "{made}: {ran:?}");
    }
    assert!(stage.at("project/new/.git").exists(), "it may be somebody else's");
    Ok(())
}

fn not_there_named() -> Tried {
    let stage =
        Stage::bash("git init -q . && git status --short | head -1").grant("write").grant("write:.git");
    let ran = stage.run();
    assert!(!ran.well().warned("made") && stage.at("project/.git/HEAD").exists(), "{ran:?}");
    Ok(())
}

fn not_there_of_others() -> Tried {
    let stage = Stage::bash("echo ready > out/ready; while [ ! -e out/go ]; do sleep 0.01; done")
        .grant("write:out")
        .file("project/out/own", "");
    let engine = stage.engine();
    let outcome = std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.run(stage.invocation()));
        while !stage.at("project/out/ready").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        for theirs in ["project/.git/config", "project/deep/.git/config"] {
            stage.write(theirs, "theirs\n");
        }
        fs::write(stage.at("project/out/go"), "").unwrap();
        run.join().unwrap()
    });
    let ran = stage.ran(outcome);
    assert!(!ran.well().warned(".git") && stage.at("project/.git/config").exists(), "{ran:?}");
    Ok(())
}

/// A name is all that a cage goes by: who gave a file two gave it to both.
fn hard_link() -> Tried {
    let stage = Stage::bash("cat linked");
    fs::hard_link(stage.at("outside/secret"), stage.at("project/linked")).unwrap();
    stage.run().says("secret\n");
    assert_eq!(fs::metadata(stage.at("outside/secret")).unwrap().nlink(), 2);
    Ok(())
}

/// The script keeps the project it began with, and what takes its place is not its own.
fn project_moved() -> Tried {
    let stage = Stage::bash(
        "echo ready > ready; while [ ! -e go ]; do sleep 0.01; done; echo mine > mine
        (echo x > \"$METIER_PROJECT_DIR/own\") 2>/dev/null && echo written || echo refused",
    )
    .grant("write");
    let engine = stage.engine();
    let outcome = std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.run(stage.invocation()));
        while !stage.at("project/ready").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        fs::rename(stage.at("project"), stage.at("before")).unwrap();
        stage.write("project/own", "another's\n");
        fs::set_permissions(stage.at("project"), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(stage.at("before/go"), "").unwrap();
        run.join().unwrap()
    });
    let ran = stage.ran(outcome);
    ran.says("refused\n");
    assert_eq!(fs::read(stage.at("project/own")).unwrap(), b"another's\n");
    assert_eq!(fs::read(stage.at("before/mine")).unwrap(), b"mine\n");
    Ok(())
}
