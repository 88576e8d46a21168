//! What the caller grants a script, and what neither it nor another script makes of that: variables, kept state, a network of hosts.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use metier::engine::{Engine, Invocation};
use metier::error::ErrorKind;
use metier::policy::{Permission, SandboxLevel};
use metier::state::StateStore;
use rustix::net::{AddressFamily, SocketType};

use super::case;
use crate::sandbox::case::{Case, CaseResult, LEVEL_VARIABLE, LEVELS, SkipReason};
use crate::sandbox::fixture::{self, Fixture, RunResult};

pub const CASES: &[Case] = &[
    case("V1", "variables that decide what runs, set by the program that runs the skill", by_program),
    case("V2", "the same by the options of the command and a file", by_options),
    case("V3", "the same by the contract, a grant, and the environment of the command", by_contract),
    case("V4", "the same by a remembered grant that somebody has edited", by_remembered_grant),
    case("V5", "further variables in a value with newlines and NUL, and in a name", within_values),
    case("V6", "state of another skill, while that one runs and afterwards", state_of_another),
    case(
        "V7",
        "the network of another run, from one of its own, from none, and from that of the host",
        other_network,
    ),
];

/// What loads or runs code, or redirects what a program does.
const NAMES: [&str; 16] = [
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "GLIBC_TUNABLES",
    "BASH_ENV",
    "ENV",
    "PS4",
    "PROMPT_COMMAND",
    "NODE_OPTIONS",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "PERL5OPT",
    "RUBYOPT",
    "GIT_SSH_COMMAND",
    "GIT_CONFIG_COUNT",
];

/// The value of every variable that must not arrive.
const PLANTED: &str = "/planted/x.so";

/// Prints all variables of the script and of what it starts, one a line, and leaves a mark.
const PRINT: &str = "import os, subprocess
open('ran', 'w').close()
for name, value in os.environ.items(): print(ascii(name), ascii(value))
print(subprocess.run(['bash', '-c', 'env -0'], capture_output=True).stdout)";

/// The script that prints, once more in the project, where the command finds it.
fn printing() -> Fixture {
    let fixture = Fixture::python(PRINT).grant("write");
    fixture.write("project/.metier/skills/x/SKILL.md", "---\nname: x\ndescription: prints\n---\n");
    fixture.write("project/.metier/skills/x/scripts/run.py", PRINT);
    fixture
}

/// The command on the project of the fixture, at the level of this thread.
fn metier(fixture: &Fixture, variables: &[(&str, &str)], arguments: &[&str]) -> Result<Output, SkipReason> {
    let program = fixture::helper()
        .ok_or_else(|| SkipReason::Unsupported("the command line is not built in".into()))?;
    let (_, level) = LEVELS.into_iter().find(|(level, _)| *level == fixture::level()).unwrap();
    let mut command = Command::new(program);
    command.args(arguments).current_dir(fixture.at("project"));
    command.env("HOME", fixture.at("home")).env(LEVEL_VARIABLE, level).env_remove("XDG_DATA_HOME");
    Ok(command.envs(variables.iter().copied()).output().unwrap())
}

/// Nothing ran, the name is in the sentence, and the value is not.
#[track_caller]
fn assert_refused(fixture: &Fixture, said: &Output, name: &str) {
    let (out, error) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(!said.status.success() && error.contains(name), "{name}: {said:?}");
    assert!(!out.contains(PLANTED) && !error.contains(PLANTED), "{name}: {said:?}");
    assert!(!fixture.at("project/ran").exists(), "{name}: it ran: {said:?}");
}

fn by_program() -> CaseResult {
    let fixture = printing();
    let engine = fixture.engine();
    for name in NAMES.into_iter().chain(["PATH", "IFS", "HOME", "METIER_SKILL_DIR"]) {
        assert!(Permission::env(name).is_err(), "{name} is a permission");
        for is_secret in [false, true] {
            let invocation = fixture.invocation();
            let invocation =
                if is_secret { invocation.secret_env(name, PLANTED) } else { invocation.env(name, PLANTED) };
            let outcome = engine.run(invocation);
            let error = outcome.result.as_ref().expect_err("it ran");
            assert_eq!(error.kind(), ErrorKind::Usage, "{error:?}");
            assert!(error.message().contains(name) && !error.message().contains(PLANTED), "{error:?}");
            assert!(outcome.process.is_none() && !fixture.at("project/ran").exists(), "{name}: it ran");
        }
    }
    Ok(())
}

fn by_options() -> CaseResult {
    let fixture = printing();
    for name in NAMES.into_iter().chain(["PATH", "IFS", "HOME", "METIER_SKILL_DIR"]) {
        let (variable, secret) = (format!("{name}={PLANTED}"), format!("{name}=VALUE"));
        fixture.write("project/vars", format!("REGION=north\n{variable}\n"));
        for options in [["--env", &variable], ["--env-file", "vars"], ["--secret", &secret]] {
            let arguments = [&["run", "x", "--allow", "write"][..], &options].concat();
            let said = metier(&fixture, &[("VALUE", PLANTED)], &arguments)?;
            assert_refused(&fixture, &said, name);
        }
    }
    Ok(())
}

/// No variable of the script, or of what it starts, has the planted value.
#[track_caller]
fn assert_not_planted(fixture: &Fixture, said: &Output) {
    assert!(!String::from_utf8_lossy(&said.stdout).contains(PLANTED), "{said:?}");
    assert!(!fixture.at("project/ran").exists() || said.status.success(), "{said:?}");
}

/// The names with which the command itself still works.
fn planted_variables() -> Vec<(&'static str, &'static str)> {
    NAMES.into_iter().filter(|name| *name != "GLIBC_TUNABLES").map(|name| (name, PLANTED)).collect()
}

fn by_contract() -> CaseResult {
    let fixture = printing();
    let names = NAMES.join(", ");
    let asks: Vec<String> = NAMES.iter().map(|name| format!("env:{name}")).collect();
    for contract in [format!("env: [{names}]\n"), format!("permissions: [write, {}]\n", asks.join(", "))] {
        fixture.write("project/.metier/skills/x/skill.yaml", contract);
        let said = metier(&fixture, &planted_variables(), &["run", "x", "--allow", "write"])?;
        assert_not_planted(&fixture, &said);
        assert!(said.status.success() && fixture.at("project/ran").exists(), "{said:?}");
        fs::remove_file(fixture.at("project/ran")).unwrap();
        for (name, ask) in NAMES.iter().zip(&asks) {
            let arguments = ["run", "x", "--allow", "write", "--allow", ask];
            let said = metier(&fixture, &planted_variables(), &arguments)?;
            let warning = String::from_utf8_lossy(&said.stderr);
            assert!(warning.contains(name) && warning.contains("grants nothing"), "{said:?}");
            assert_not_planted(&fixture, &said);
        }
    }
    Ok(())
}

fn by_remembered_grant() -> CaseResult {
    let fixture = printing();
    let run = |variables: &[(&str, &str)]| metier(&fixture, variables, &["run", "x", "--allow", "write"]);
    assert!(metier(&fixture, &[], &["trust", "--yes"])?.status.success());
    let refused = metier(&fixture, &[], &["allow", "x", "env:LD_PRELOAD"])?;
    assert_refused(&fixture, &refused, "LD_PRELOAD");
    let allowed = metier(&fixture, &[], &["allow", "x", "env:REGION"])?;
    assert!(allowed.status.success(), "{allowed:?}");
    let said = run(&[("REGION", PLANTED)])?;
    assert!(String::from_utf8_lossy(&said.stdout).contains(PLANTED), "the grant is not used: {said:?}");
    fs::remove_file(fixture.at("project/ran")).unwrap();
    let store = fixture.at("home/.local/share/metier/trust/trust.json");
    let text = fs::read_to_string(&store).unwrap();
    for name in NAMES {
        assert!(text.contains("env:REGION"));
        fs::write(&store, text.replace("env:REGION", &format!("env:{name}"))).unwrap();
        assert_not_planted(&fixture, &run(&planted_variables())?);
        fs::remove_file(fixture.at("project/ran")).ok();
    }
    Ok(())
}

fn within_values() -> CaseResult {
    let fixture = Fixture::python(
        "import json, os, subprocess, sys
started = subprocess.run(['bash', '-c', 'env -0'], capture_output=True).stdout.decode().split('\\0')
started = dict(part.split('=', 1) for part in started if part)
print(json.dumps([os.environ['ODD'], started['ODD'], [name for name, value in [*os.environ.items(), *started.items()] if value == sys.argv[1]]]))",
    )
    .args(&[PLANTED]);
    let engine = fixture.engine();
    let run = |name: &str, value: &str, is_secret: bool| {
        let invocation = fixture.invocation().grant("env:ODD".parse().unwrap());
        let invocation =
            if is_secret { invocation.secret_env(name, value) } else { invocation.env(name, value) };
        fixture.result(engine.run(invocation))
    };
    let forged = NAMES.map(|name| format!("\n{name}={PLANTED}")).concat();
    for value in [
        format!("x{forged}"),
        format!("x\r{}", forged.replace('\n', "\r\n")),
        "() { :; }; touch ran".to_owned(),
        format!("$(touch ran) `touch ran` \u{1b}[2J \u{2028}{forged}"),
    ] {
        let ran = run("ODD", &value, false);
        ran.assert_ok();
        let expected = serde_json::json!([value, value, []]);
        assert_eq!(serde_json::from_str::<serde_json::Value>(ran.stdout()).unwrap(), expected);
        let hidden = run("ODD", &value, true);
        assert!(!hidden.stdout().contains(PLANTED), "{hidden:?}");
    }
    for is_secret in [false, true] {
        for (name, value) in [
            ("ODD", format!("x\0LD_PRELOAD={PLANTED}")),
            ("ODD", "\0".to_owned()),
            ("ODD\0LD_PRELOAD", PLANTED.to_owned()),
            ("ODD\nLD_PRELOAD", PLANTED.to_owned()),
            ("ODD=x\nLD_PRELOAD", PLANTED.to_owned()),
            ("LD_PRELOAD=x", PLANTED.to_owned()),
            ("BASH_FUNC_env%%", format!("() {{ echo {PLANTED}; }}")),
            ("", PLANTED.to_owned()),
        ] {
            let ran = run(name, &value, is_secret);
            assert_eq!(ran.error().kind(), ErrorKind::Usage, "{name:?}: {ran:?}");
            assert!(ran.0.process.is_none() && !ran.error().message().contains(PLANTED), "{ran:?}");
        }
    }
    Ok(())
}

/// Waits for a file that a script makes, for so long as a slow machine needs.
#[track_caller]
fn wait_for(path: &Path) -> String {
    let started = Instant::now();
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if let Some(line) = text.strip_suffix('\n') {
            return line.to_owned();
        }
        assert!(started.elapsed() < Duration::from_secs(30), "{} does not come", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Adds a line to what it keeps, prints all of it, says where its home is, and stays until it may go.
const KEEP: &str = "import os, sys, time
home = os.environ['HOME']
with open(home + '/list', 'a') as kept: kept.write('kept by x\\n')
print(open(home + '/list').read(), end='')
if sys.argv[1:]:
    open('home', 'w').write(home + '\\n')
    for _ in range(3000):
        if os.path.exists('go'): break
        time.sleep(0.01)";

/// Tries everything with the folders that it is given, and looks for what is kept everywhere that it can look.
const REACH: &str = "import os, sys
def tries(what, work):
    try: print(f'{what}: done {work()}')
    except OSError as error: print(f'{what}: refused {error.errno}')
for folder in sys.argv[2:]:
    tries('list', lambda: os.listdir(folder))
    tries('read', lambda: open(folder + '/list').read())
    tries('write', lambda: open(folder + '/list', 'a').write('forged\\n'))
    tries('create', lambda: open(folder + '/new', 'w').close())
    tries('remove', lambda: os.unlink(folder + '/list'))
    tries('rename', lambda: os.rename(folder, folder + '-2'))
    tries('swap', lambda: os.rename(os.environ['HOME'], folder))
    link = os.environ['HOME'] + '/link'
    os.symlink(folder, link)
    tries('link', lambda: open(link + '/list').read())
    os.unlink(link)
own = os.path.realpath(os.environ['HOME'])
for top in ['/tmp', '/var/tmp', '/dev/shm', os.environ['TMPDIR'] + '/..', *sys.argv[1:]]:
    for path, _, files in os.walk(top):
        if 'list' in files and os.path.realpath(path) != own:
            tries('found ' + path, lambda: open(path + '/list').read())
print('own', [name for name in os.listdir(own) if name == 'list'])
open(own + '/list', 'w').write('kept by y\\n')";

fn state_of_another() -> CaseResult {
    let fixture = Fixture::python(KEEP).grant("state").grant("write");
    fixture.write("skills/y/SKILL.md", "---\nname: y\ndescription: reaches\n---\n");
    fixture.write("skills/y/scripts/run.py", REACH);
    let store = fixture.at("kept/skill-state");
    let engine = fixture.builder().state(StateStore::new(&store)).build().unwrap();
    let run_x = || fixture.result(engine.run(fixture.invocation()));
    run_x().assert_stdout("kept by x\n");
    let folder_of_x = current_states(&store).remove(0);
    let reach = |home: &str| {
        let folders = [store.to_str().unwrap(), home, folder_of_x.to_str().unwrap()];
        let grants = ["state", "write", "read"].map(|grant| grant.parse().unwrap());
        let invocation = Invocation::new("y").args(folders);
        let invocation = grants.into_iter().fold(invocation, Invocation::grant);
        fixture.result(engine.run(invocation))
    };
    std::thread::scope(|scope| {
        let running = scope.spawn(|| engine.run(fixture.invocation().args(["wait"])));
        wait_for(&fixture.at("project/home"));
        let all = walkdir::WalkDir::new(&store).into_iter().map(Result::unwrap);
        let home = all.into_iter().find(|entry| entry.file_name() == "home").unwrap();
        let while_it_runs = reach(home.path().to_str().unwrap());
        fixture.write("project/go", "");
        assert_reached_nothing(&while_it_runs, "own []");
        let ended = running.join().unwrap();
        assert_eq!(ended.process.unwrap().stdout, "kept by x\nkept by x\n");
    });
    fs::remove_file(fixture.at("project/go")).unwrap();
    assert_reached_nothing(&reach("/nowhere"), "own ['list']");
    run_x().assert_stdout(&"kept by x\n".repeat(3));
    assert_eq!(current_states(&store).len(), 2, "each skill has a folder of its own");
    Ok(())
}

/// The folders with what each skill keeps.
fn current_states(store: &Path) -> Vec<std::path::PathBuf> {
    let all = walkdir::WalkDir::new(store).into_iter().map(Result::unwrap);
    let current = all.filter(|entry| entry.file_name() == "current");
    current.map(walkdir::DirEntry::into_path).collect()
}

#[track_caller]
fn assert_reached_nothing(ran: &RunResult, own: &str) {
    ran.assert_ok();
    let lines: Vec<&str> = ran.stdout().lines().collect();
    assert_eq!(lines.iter().filter(|line| line.contains(": refused")).count(), 16, "{lines:#?}");
    assert!(!ran.stdout().contains(": done") && !ran.stdout().contains("kept by x"), "{lines:#?}");
    assert_eq!(lines.last(), Some(&own), "{lines:#?}");
}

/// Listens on all addresses of its network, and says at which port.
const LISTEN: &str = "import os, socket, sys
listener = socket.create_server(('0.0.0.0', int(sys.argv[1]))); listener.settimeout(0.05)
open('port.new', 'w').write(f'{listener.getsockname()[1]}\\n')
os.rename('port.new', 'port')
came = 'nobody came'
for _ in range(600):
    try: listener.accept(); came = 'somebody came'
    except TimeoutError: pass
    if os.path.exists('go'): break
print(came)";

/// Connects to that port at every address that might be the other's.
const CONNECT: &str = "import socket, sys
for host in ['127.0.0.1', '127.0.0.2', '0.0.0.0', 'localhost', 'api.test', '198.18.0.1', '198.18.0.0', '::1']:
    try:
        with socket.create_connection((host, int(sys.argv[1])), 5): print(f'{host}: done')
    except OSError: print(f'{host}: refused')";

fn other_network() -> CaseResult {
    let (_reserved, port) = reserve_port();
    let fixture =
        Fixture::python(LISTEN).args(&[&port]).grant("net:api.test").grant("write").deadline(60_000);
    let engine = with_lookup(&fixture);
    if fixture::level() != SandboxLevel::Namespaces {
        let ran = fixture.result(engine.run(fixture.invocation()));
        assert_eq!(ran.error().kind(), ErrorKind::Unavailable, "{ran:?}");
        assert!(ran.0.process.is_none() && !fixture.at("project/port").exists(), "it ran: {ran:?}");
        return Ok(());
    }
    std::thread::scope(|scope| {
        let running = scope.spawn(|| engine.run(fixture.invocation()));
        wait_for(&fixture.at("project/port"));
        let results: Vec<RunResult> = [Some("net:api.test"), None, Some("net")]
            .into_iter()
            .map(|grant| {
                let other = Fixture::python(CONNECT).args(&[&port]);
                let other = grant.into_iter().fold(other, Fixture::grant);
                other.result(with_lookup(&other).run(other.invocation()))
            })
            .collect();
        fixture.write("project/go", "");
        for ran in results {
            ran.assert_refused(8, &["refused"]);
        }
        let ended = running.join().unwrap();
        assert_eq!(ended.process.as_ref().unwrap().stdout, "nobody came\n", "{ended:?}");
    });
    Ok(())
}

/// A port of this machine that nothing listens at as long as the socket is there.
fn reserve_port() -> (OwnedFd, String) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let address = SocketAddrV4::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    (socket, address.port().to_string())
}

/// An engine that finds every name at the same address of this machine.
fn with_lookup(fixture: &Fixture) -> Engine {
    let here: SocketAddr = ([127, 0, 0, 1], 80).into();
    fixture.builder().host_lookup(move |_, _| Ok(vec![here])).build().unwrap()
}
