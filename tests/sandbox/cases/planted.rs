//! What a script leaves where nothing was, for others to honour when it is gone: histories, skills, clients.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use metier::error::ErrorKind;
use metier::registry::{Root, Roots, Scope};

use super::case;
use crate::sandbox::case::{Case, CaseResult, SkipReason};
use crate::sandbox::fixture::{Fixture, RunResult};

pub const CASES: &[Case] = &[
    case("M50a", "skills by a link to where they may lie", by_a_link),
    case("M50b", "skills in folders that are shut, made or found", in_shut_folders),
    case("M50c", "a history beside every name it could be moved to", beside_names),
    case("M50d", "skills where a link of the user's leads", behind_a_link),
    case("M50e", "a history that cannot be quarantined", unmovable),
    case("M50f", "a history made again when another run has quarantined it", recreated),
    case("M50g", "settings with the names of secrets, which programs take", secret_names),
    case("M51", "modules of the next script's, in the folder of the clients", among_the_clients),
];

const EVIL_SKILL: &str = "printf -- '---\\nname: evil\\ndescription: d\\n---\\n' > ";

fn writing_fixture(script: &str) -> Fixture {
    Fixture::bash(script).grant("write")
}

fn roots(fixture: &Fixture) -> Roots {
    let own = Root::new(Scope::Project, "own", fixture.at("project/.metier/skills"));
    Roots::empty().with(Root::new(Scope::Explicit, "skills", fixture.at("skills"))).with(own)
}

fn run(fixture: &Fixture) -> RunResult {
    fixture.result(fixture.builder().roots(roots(fixture)).build().unwrap().run(fixture.invocation()))
}

/// Nobody finds the skill afterwards, whatever the modes are.
#[track_caller]
fn assert_not_found(fixture: &Fixture, ran: &RunResult) {
    let project = fixture.at("project");
    for folder in [project.clone(), project.join(".metier")] {
        if folder.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    assert!(!project.join(".metier/skills/evil/SKILL.md").exists(), "{ran:?}");
    let engine = fixture.builder().roots(roots(fixture)).build().unwrap();
    assert!(engine.run(metier::engine::Invocation::new("evil")).result.is_err());
}

/// What was quarantined, by the beginning of its name.
fn quarantined(folder: PathBuf, name: &str) -> Vec<PathBuf> {
    let begin = format!("{name}.quarantine-");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&begin))
        .map(|e| e.path())
        .collect()
}

fn by_a_link() -> CaseResult {
    for (made, moved) in [
        ("ln -s src .metier", ".metier"),
        ("mkdir .metier; ln -s ../src/skills .metier/skills", ".metier"),
        ("ln -s one .metier; ln -s src one", ".metier"),
        ("ln -s \"$METIER_PROJECT_DIR/src\" .metier", ".metier"),
        // Whatever it leads to later.
        ("ln -s later .metier", ".metier"),
    ] {
        let fixture = writing_fixture(&format!(
            "mkdir -p src/skills/evil; {EVIL_SKILL}src/skills/evil/SKILL.md; {made}"
        ));
        let ran = run(&fixture);
        assert!(ran.assert_ok().has_warning(&format!("made {moved}, ")), "{made}: {ran:?}");
        assert!(fixture.at("project").join(moved).symlink_metadata().is_err(), "{made}");
        assert_eq!(quarantined(fixture.at("project"), moved).len(), 1, "{made}");
        assert!(fixture.at("project/src/skills/evil").exists(), "it is a folder like any other");
        assert_not_found(&fixture, &ran);
    }
    // The folder was there, and another is in its place.
    let fixture = writing_fixture(&format!(
        "mkdir -p src/skills/evil; {EVIL_SKILL}src/skills/evil/SKILL.md; mv .metier x; ln -s src .metier"
    ))
    .file("project/.metier/settings", "theirs\n");
    let ran = run(&fixture);
    assert!(ran.assert_ok().has_warning("made .metier, "), "{ran:?}");
    assert_not_found(&fixture, &ran);
    assert_eq!(fs::read(fixture.at("project/x/settings")).unwrap(), b"theirs\n");
    Ok(())
}

/// What has the name of a secret and was made by a run that may not make it is no longer there for the program that reads it; what
/// existed, and what a permission names, is.
fn secret_names() -> CaseResult {
    const NAMES: [&str; 14] = [
        ".env",
        ".env.local",
        ".npmrc",
        ".NPMRC",
        ".netrc",
        ".yarnrc.yml",
        ".aws",
        ".ssh",
        "id_rsa",
        "id_rsa_work",
        "x.pem",
        "terraform.tfstate",
        "kubeconfig",
        ".kube",
    ];
    let make = "echo x > .env; echo x > .env.local; echo x > .npmrc; echo x > .NPMRC; ln -s later .netrc; echo x > .yarnrc.yml
        mkdir .aws .ssh .kube; echo x > .aws/config; echo x > .ssh/config; echo x > .kube/config
        echo x > id_rsa; echo x > id_rsa_work; echo x > x.pem; echo x > terraform.tfstate; echo x > kubeconfig
        echo x > .env.example; echo x > .pypirc; mkdir sub; echo x > sub/.npmrc";
    for shut in ["", "; chmod 111 ."] {
        let fixture = writing_fixture(&format!("{make}{shut}"))
            .grant("write:.pypirc")
            .file("project/.netrc.example", "theirs\n");
        let ran = run(&fixture);
        fs::set_permissions(fixture.at("project"), fs::Permissions::from_mode(0o755)).unwrap();
        for name in NAMES {
            assert!(fixture.at("project").join(name).symlink_metadata().is_err(), "{name}: {ran:?}");
            let moved = quarantined(fixture.at("project"), name);
            assert!(
                moved.len() == 1 && moved[0].to_string_lossy().matches(".quarantine-").count() == 1,
                "{moved:?}: {ran:?}"
            );
        }
        for name in [".env.example", ".pypirc", ".netrc.example", "sub/.npmrc"] {
            assert!(fixture.at("project").join(name).exists(), "{name}: {ran:?}");
        }
        assert!(
            ran.assert_ok().has_warning("made .npmrc, which takes the permission write:.npmrc"),
            "{ran:?}"
        );
        if shut.is_empty() {
            assert!(ran.has_warning("sub/.npmrc came while"), "{ran:?}");
        }
        // What was moved is still a secret.
        let again = Fixture::bash("for file in *.quarantine-*; do cat \"$file\" || true; done");
        for moved in quarantined(fixture.at("project"), "x.pem") {
            again.write(&format!("project/{}", moved.file_name().unwrap().to_str().unwrap()), "x\n");
        }
        let again = again.run();
        assert!(!again.sandbox().protected_paths || !again.stdout().contains('x'), "{again:?}");
    }
    // So many that moving all of them would take long: the run fails.
    let fixture = writing_fixture("for number in $(seq 1100); do echo x > $number.pem; done");
    let ran = run(&fixture);
    let error = ran.error();
    assert!(error.kind() == ErrorKind::Denied && error.message().contains("too many such files"), "{error}");
    // What was there stays as it is.
    let fixture = writing_fixture("echo x > .npmrc; echo x > y.pem; true 2>/dev/null; exit 0")
        .file("project/.npmrc", "theirs\n")
        .file("project/.ssh/config", "theirs\n");
    let ran = run(&fixture);
    assert!(
        quarantined(fixture.at("project"), ".npmrc").is_empty() && fixture.at("project/.ssh/config").exists(),
        "{ran:?}"
    );
    assert_eq!(quarantined(fixture.at("project"), "y.pem").len(), 1, "{ran:?}");
    Ok(())
}

fn in_shut_folders() -> CaseResult {
    for modes in ["555 .metier", "000 .metier/skills", "000 .metier", "555 .metier .", "111 .metier ."] {
        let (mode, folders) = modes.split_once(' ').unwrap();
        let make = format!("mkdir -p .metier/skills/evil; {EVIL_SKILL}.metier/skills/evil/SKILL.md; ");
        let shut = format!("for folder in {folders}; do chmod {mode} $folder; done");
        let fixture = writing_fixture(&format!("{make}{shut}"));
        let ran = run(&fixture);
        assert!(ran.assert_ok().has_warning("made .metier, "), "{modes}: {ran:?}");
        assert_not_found(&fixture, &ran);
        // What was there has the mode it had, and what it holds.
        let fixture =
            self::writing_fixture(&format!("{make}{shut}")).file("project/.metier/settings", "theirs\n");
        let ran = run(&fixture);
        assert!(ran.assert_ok().has_warning("made .metier/skills, "), "{modes}: {ran:?}");
        if folders.starts_with(".metier ") || folders == ".metier" {
            let found = fixture.at("project").symlink_metadata().unwrap().permissions().mode();
            fs::set_permissions(fixture.at("project"), fs::Permissions::from_mode(0o700)).unwrap();
            let inner = fixture.at("project/.metier").symlink_metadata().unwrap().permissions().mode();
            let expected = u32::from_str_radix(mode, 8).unwrap();
            assert_eq!(inner & 0o777, expected, "{modes}");
            assert!(!folders.contains(" .") || found & 0o777 == expected, "{modes}: {found:o}");
        }
        assert_not_found(&fixture, &ran);
        assert_eq!(fs::read(fixture.at("project/.metier/settings")).unwrap(), b"theirs\n");
    }
    Ok(())
}

fn beside_names() -> CaseResult {
    let fixture = writing_fixture(
        "mkdir .git; echo x > .git/config; touch .git.quarantine; for n in $(seq 2 200); do touch .git.quarantine-$n; done",
    );
    let ran = fixture.run();
    assert!(ran.assert_ok().has_warning("made .git, which takes the permission write:.git"), "{ran:?}");
    assert!(!fixture.at("project/.git").exists(), "{ran:?}");
    assert!(
        quarantined(fixture.at("project"), ".git").iter().any(|moved| moved.join("config").exists()),
        "{ran:?}"
    );
    Ok(())
}

/// The link and what it leads to were there; what is new in it is quarantined, and no more than that.
fn behind_a_link() -> CaseResult {
    for config in ["config/own", "x"] {
        let fixture =
            writing_fixture(&format!("mkdir -p config/skills/evil; {EVIL_SKILL}config/skills/evil/SKILL.md"))
                .file(&format!("project/{config}"), "theirs\n");
        symlink("config", fixture.at("project/.metier")).unwrap();
        let ran = run(&fixture);
        assert!(ran.assert_ok().has_warning("made config"), "{ran:?}");
        assert_not_found(&fixture, &ran);
        assert_eq!(fs::read(fixture.at("project").join(config)).unwrap(), b"theirs\n");
        assert_eq!(fs::read_link(fixture.at("project/.metier")).unwrap(), PathBuf::from("config"));
    }
    Ok(())
}

fn unmovable() -> CaseResult {
    if !rustix::process::geteuid().is_root() {
        return SkipReason::other_user("only root can keep a folder from being changed");
    }
    let fixture = writing_fixture("mkdir .git; touch out/ready; while [ ! -e out/go ]; do sleep 0.01; done")
        .file("project/out/own", "");
    let change = |flag: &str| Command::new("chattr").arg(flag).arg(fixture.at("project")).output();
    if !change("+i").is_ok_and(|ended| ended.status.success()) {
        return SkipReason::unsupported("no folder here can be kept from being changed");
    }
    change("-i").unwrap();
    let engine = fixture.engine();
    let outcome = std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.run(fixture.invocation()));
        while !fixture.at("project/out/ready").exists() && !run.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        change("+i").unwrap();
        fs::write(fixture.at("project/out/go"), "").unwrap();
        run.join().unwrap()
    });
    change("-i").unwrap();
    let ran = fixture.result(outcome);
    let error = ran.error();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    assert!(
        error.to_string().contains("made .git") && error.to_string().contains("could not be quarantined"),
        "{error}"
    );
    assert!(ran.has_warning("could not be quarantined"), "{ran:?}");
    Ok(())
}

/// A run that begins while another is under way does not take what that one made for the user's.
fn recreated() -> CaseResult {
    let wait = |name: &str| format!("touch out/{name}; while [ ! -e out/{name}-go ]; do sleep 0.01; done");
    let first = writing_fixture(&format!(
        "case $1 in first) mkdir .git; {};; *) {}; mkdir .git;; esac",
        wait("first"),
        wait("second")
    ))
    .file("project/out/own", "");
    let engine = first.engine();
    let at = |name: &str| first.at("project/out").join(name);
    let until = |is: &dyn Fn() -> bool| {
        while !is() {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let invocation = |name: &str| first.invocation().args([name]);
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| engine.run(invocation("first")));
        until(&|| at("first").exists() || one.is_finished());
        let other = scope.spawn(|| engine.run(invocation("second")));
        until(&|| at("second").exists() || other.is_finished());
        fs::write(at("first-go"), "").unwrap();
        let one = one.join().unwrap();
        fs::write(at("second-go"), "").unwrap();
        (one, other.join().unwrap())
    });
    let (one, other) = (first.result(one), first.result(other));
    assert!(
        one.assert_ok().has_warning("made .git") && other.assert_ok().has_warning("made .git"),
        "{one:?} {other:?}"
    );
    assert!(!first.at("project/.git").exists());
    Ok(())
}

/// Where modes can be changed others may plant something, so that the folder is another one from then on.
fn among_the_clients() -> CaseResult {
    let script = "cd \"$PYTHONPATH/..\"; pwd; ls -l -n; ls python | tr '\\n' ' '; chmod 777 . python 2>/dev/null; true";
    let fixture = Fixture::bash(script);
    let engine = fixture.engine();
    let run = || fixture.result(engine.run(fixture.invocation())).assert_ok().stdout().to_owned();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let said = run();
        assert!(said.ends_with("metier.py ") && !said.contains("rwxrwx"), "{said}");
        let folder = PathBuf::from(said.lines().next().unwrap());
        // Another user's part, where the script has let them; and the mode is as it was when anybody looks.
        if folder.join("python").metadata().is_ok_and(|found| found.permissions().mode() & 0o777 == 0o777) {
            fs::write(folder.join("python/sitecustomize.py"), "").unwrap();
            for name in ["", "python"] {
                fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o700)).unwrap();
            }
        }
        seen.push(folder);
    }
    Ok(())
}
