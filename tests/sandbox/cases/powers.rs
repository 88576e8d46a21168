//! What a script is left with: powers, descriptors, environment.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use metier::policy::SandboxLevel;

use super::case;
use crate::sandbox::case::{Case, CaseResult, LEVEL_VARIABLE, LEVELS, SkipReason};
use crate::sandbox::fixture::{self, Fixture, is_in_private_folder};
use crate::support::not_run::find_program;

pub const CASES: &[Case] = &[
    case("E15", "programs of root's, other users, other groups", become_another),
    case("E15b", "capabilities", capabilities),
    case("M3", "capabilities that an ordinary host was given", ambient_capabilities),
    case("M3b", "root without any power, as in a strict container", root_without_capabilities),
    case("E16", "descriptors of the host's", descriptors),
    case("E17", "secrets in the environment", environment),
    case("E18", "programs outside of what it may read", programs),
    case("E18b", "programs that nobody may execute, which is not a restriction", loaded),
];

fn become_another() -> CaseResult {
    let fixture = Fixture::attacker("powers", &["become"])?.grant("write");
    fixture.run().assert_refused(4, &["EPERM", "EINVAL"]);
    let ran = Fixture::bash("su -c id 2>/dev/null </dev/null || sudo -n id 2>/dev/null || echo no; cp /bin/sh sh; chmod u+s sh; ./sh -c 'id -u'")
        .grant("write")
        .run();
    ran.assert_stdout(&format!("no\n{}\n", rustix::process::geteuid().as_raw()));
    Ok(())
}

/// Root keeps the power to open what Landlock lets it open, whoever owns it.
fn capabilities() -> CaseResult {
    let root = rustix::process::geteuid().is_root();
    let (held, bounding) = if root { (2, "bounding 1 ") } else { (0, "") };
    let ran = Fixture::attacker("powers", &["capabilities"])?.run();
    let (first, rest) = ran.assert_ok().stdout().split_once('\n').unwrap();
    assert_eq!(first, format!("effective 0{held:08x} permitted 0{held:08x} inheritable 000000000"));
    assert!(rest.starts_with("ambient 0 ") && rest.contains(bounding), "{rest}");
    assert!(rest.ends_with("new privileges never\n"), "{rest}");
    Ok(())
}

/// Says that the tests are run by a host that is not root and has a power all the same.
const CAPABILITY_VARIABLE: &str = "METIER_SANDBOX_CAPABILITIES";

/// An ambient capability outlives every change of the program, so a service may have one without being root.
fn ambient_capabilities() -> CaseResult {
    if !rustix::process::geteuid().is_root() {
        return match std::env::var_os(CAPABILITY_VARIABLE) {
            Some(_) => capabilities(),
            None => SkipReason::other_user("only root can give such a power away"),
        };
    }
    let Some(setpriv) = find_program("setpriv") else {
        return SkipReason::unsupported("setpriv is not installed");
    };
    run_again(
        &setpriv,
        &[
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=+net_raw,+sys_nice",
            "--ambient-caps=+net_raw,+sys_nice",
        ],
    );
    Ok(())
}

/// What root does not have it cannot keep.
fn root_without_capabilities() -> CaseResult {
    if !rustix::process::geteuid().is_root() {
        return SkipReason::other_user("only root can be without root's powers");
    }
    if std::env::var_os(CAPABILITY_VARIABLE).is_some() {
        // It could not enter a namespace as root, and has a sandbox without.
        fixture::set_level(SandboxLevel::Namespaces);
        let ran = Fixture::attacker("powers", &["capabilities"])?.run();
        assert!(ran.stdout().starts_with("effective 000000000 permitted 000000000 "), "{}", ran.stdout());
        assert_eq!(ran.sandbox().level.name(), "landlock");
        return Ok(());
    }
    let Some(setpriv) = find_program("setpriv") else {
        return SkipReason::unsupported("setpriv is not installed");
    };
    run_again(&setpriv, &["--bounding-set=-all", "--inh-caps=-all"]);
    Ok(())
}

/// Runs both cases again, in a host with other powers.
fn run_again(setpriv: &Path, powers: &[&str]) {
    let home = tempfile::tempdir().unwrap();
    crate::sandbox::ordinary::copy_tests(home.path());
    let is_root = !powers[0].starts_with("--reuid");
    if is_root {
        // Without its powers root may only enter what is its own.
        crate::sandbox::ordinary::change_owner(home.path(), 0);
    }
    let mut command = Command::new(setpriv);
    command.args(powers).arg(home.path().join("tests"));
    crate::sandbox::ordinary::set_environment(&mut command, home.path(), "sandbox::every_attack_is_held");
    let number = if is_root { "M3b" } else { "M3" };
    let level = if is_root { SandboxLevel::Landlock } else { fixture::level() };
    let (_, level) = LEVELS.into_iter().find(|(known, _)| *known == level).unwrap();
    command.env(CAPABILITY_VARIABLE, "yes").env("METIER_CASE", number).env(LEVEL_VARIABLE, level);
    let ended = command.process_group(0).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains("sandbox: 1 cases held"), "{said}");
}

fn descriptors() -> CaseResult {
    let (_reader, _writer) = std::io::pipe().unwrap();
    Fixture::attacker("powers", &["descriptors"])?.run().assert_stdout("0 1 2 3 \n");
    Fixture::attacker("powers", &["descriptors"])?.input("x").run().assert_stdout("0 1 2 3 \n");
    Ok(())
}

/// The test runner's own environment is as good a secret as any.
fn environment() -> CaseResult {
    let ran = Fixture::bash("env").run();
    let names: Vec<&str> =
        ran.assert_ok().stdout().lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let known = |name: &str| {
        let own =
            ["HOME", "TMPDIR", "PATH", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "PWD", "SHLVL", "_"];
        own.contains(&name)
            || [
                "LC_",
                "METIER_",
                "CLAUDE_",
                "PYTHONDONTWRITEBYTECODE",
                "PYTHONPATH",
                "NODE_PATH",
                "GIT_CONFIG_NOSYSTEM",
            ]
            .iter()
            .any(|start| name.starts_with(start))
    };
    let strange: Vec<_> = names.iter().filter(|name| !known(name)).collect();
    assert!(strange.is_empty(), "{strange:?}");
    for ours in ["METIER_SANDBOX", "CARGO", "METIER_CASE"] {
        assert!(!names.iter().any(|name| name.starts_with(ours)), "{ours}");
    }
    Ok(())
}

/// What can be read can be executed: the loader reads it. Nothing may be built on the right to execute.
fn loaded() -> CaseResult {
    let loaders =
        ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/ld-linux-riscv64-lp64d.so.1"];
    let Some(loader) = loaders.into_iter().find(|loader| Path::new(loader).exists()) else {
        return SkipReason::unsupported("the loader is none of those known");
    };
    let fixture = Fixture::bash("./tool 2>/dev/null; echo $?; \"$1\" ./tool; echo $?").args(&[loader]);
    std::fs::copy("/bin/true", fixture.at("project/tool")).unwrap();
    std::fs::set_permissions(fixture.at("project/tool"), std::fs::Permissions::from_mode(0o444)).unwrap();
    fixture.run().assert_stdout("126\n0\n");
    Ok(())
}

fn programs() -> CaseResult {
    let fixture = Fixture::bash("\"$1\"; echo $?; exec \"$1\"").file("outside/tool", "#!/bin/sh\necho ran\n");
    let tool = fixture.name("outside/tool");
    let ran = fixture.args(&[&tool]).run();
    // A private `/tmp` does not even have it.
    let code = if ran.stdout() == "127\n" && is_in_private_folder(&tool) { 127 } else { 126 };
    assert_eq!((ran.stdout(), ran.process().exit_code), (format!("{code}\n").as_str(), Some(code)));
    assert!(
        ran.error().help().is_some_and(|help| {
            ["outside of the project", "is in your home folder", "a /tmp of its own"]
                .iter()
                .any(|reason| help.contains(reason))
        }),
        "{:?}",
        ran.error()
    );
    Ok(())
}
