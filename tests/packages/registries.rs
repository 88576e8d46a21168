//! Registries that are down or lead elsewhere, package managers that are missing, and the sandbox level `landlock`.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use crate::packages::archives::{sha256, wheel};
use crate::packages::fixture::{
    Answer, Project, assert_tidy, command, entries, has_manager, metier, project, write,
};
use crate::packages::registry::{Registry, RunningRegistry};
use crate::support::not_run::find_program;

const WHEEL: &str = "alpha-1.0-py3-none-any.whl";
const FILES: [(&str, &str); 2] =
    [("package.json", r#"{"name": "alpha", "version": "1.0.0", "main": "index.js"}"#), ("index.js", "")];
const MANIFEST: &str = r#"{"name": "x", "dependencies": {"alpha": "^1.0.0"}}"#;

fn alpha() -> Vec<u8> {
    wheel("alpha", "1.0", &[], &[("alpha.py", "VALUE = 1\n")])
}

fn python_registry() -> Registry {
    Registry::default().python("alpha", WHEEL, alpha())
}

fn python_skill() -> Project {
    project("main.py", "import alpha\nprint(alpha.VALUE)\n", &[("requirements.txt", "alpha\n")])
}

fn npm_skill() -> Project {
    project("main.js", "require('alpha')\n", &[("package.json", MANIFEST)])
}

/// Prepares the skill, which must fail, write nothing and leave nothing.
#[track_caller]
fn assert_fails(skill: &Project, registry: &RunningRegistry, more: &[&str]) -> Answer {
    let before = skill.tree();
    let answer = metier(skill, Some(registry), &[&["prepare", "x"], more].concat());
    assert_eq!(answer.code, 3, "{answer:?}");
    assert_eq!(entries(skill), [""; 0], "{answer:?}");
    assert_tidy(skill);
    assert_eq!(skill.tree(), before);
    answer
}

#[test]
fn a_registry_of_npm_that_is_down_is_named_and_leaves_nothing() {
    if !has_manager("npm", "a registry of npm that is down") {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let registry = RunningRegistry::absent(listener.local_addr().unwrap().port());
    drop(listener);
    let address = format!("127.0.0.1:{}", registry.port);
    for skill in [npm_skill(), python_skill()] {
        if skill.path(".metier/skills/x/requirements.txt").exists() && !has_manager("uv", "one that is down")
        {
            continue;
        }
        let answer = assert_fails(&skill, &registry, &[]);
        assert!(answer.stderr.contains(&address), "the registry is not named: {answer:?}");
        let help = "a registry of your configuration does not answer; try it again when it does";
        assert!(answer.stderr.contains(help), "{answer:?}");
    }
}

/// Another server than the registry of the user, with the same files, and the addresses that lead to it.
fn elsewhere() -> (RunningRegistry, Vec<String>) {
    let other = python_registry().npm("alpha", "1.0.0", &FILES).start();
    let port = other.port;
    let hosts = [format!("files.test:{port}"), format!("localhost:{port}"), format!("127.0.0.1:{port}")];
    (other, hosts.to_vec())
}

#[track_caller]
fn assert_named(answer: &Answer, host: &str) {
    // The port of a name that does not exist in the network of the sandbox is not known.
    let host = host.strip_prefix("files.test").map_or(host.to_owned(), |_| "files.test".to_owned());
    // What was connected to is an address.
    let host = host.replace("localhost", "127.0.0.1");
    let help =
        format!("it tried {host}, which is not one of your registries; if one of them keeps its files there");
    let is_named = answer.stderr.contains(&help) && answer.stderr.contains(&format!("--allow net:{host}\n"));
    assert!(is_named, "{host}: {answer:?}");
}

#[test]
fn an_index_that_leads_to_another_host_is_refused_and_the_host_is_named() {
    if !has_manager("uv", "an index that leads elsewhere") {
        return;
    }
    let (other, hosts) = elsewhere();
    std::thread::scope(|scope| {
        for host in &hosts {
            let file = format!("http://{host}/files/{WHEEL}");
            let link = format!("{file}#sha256={}", sha256(&alpha()));
            let registries = [
                Registry::default().python_link("alpha", WHEEL, link),
                python_registry().redirect(&format!("/files/{WHEEL}"), file),
                Registry::default().redirect("/simple/alpha/", format!("http://{host}/simple/alpha/")),
            ];
            // uv tries again for some seconds, so all of them run at the same time.
            for registry in registries {
                scope.spawn(move || {
                    assert_named(&assert_fails(&python_skill(), &registry.start(), &[]), host);
                });
            }
        }
    });
    assert_eq!(other.asked(), [""; 0], "another host was reached");
}

#[test]
fn a_registry_of_npm_that_leads_to_another_host_is_refused_and_the_host_is_named() {
    if !has_manager("npm", "a registry of npm that leads elsewhere") {
        return;
    }
    let (other, hosts) = elsewhere();
    std::thread::scope(|scope| {
        for host in &hosts {
            let archive = "/alpha/-/alpha-1.0.0.tgz";
            let registries = [
                Registry::default().redirect("/alpha", format!("http://{host}/alpha")),
                Registry::default()
                    .npm("alpha", "1.0.0", &FILES)
                    .redirect(archive, format!("http://{host}{archive}")),
            ];
            for registry in registries {
                scope.spawn(move || assert_named(&assert_fails(&npm_skill(), &registry.start(), &[]), host));
            }
        }
    });
    assert_eq!(other.asked(), [""; 0], "another host was reached");
}

#[test]
fn files_at_another_host_are_prepared_once_that_host_is_granted() {
    if !has_manager("uv", "files at another host") {
        return;
    }
    let (_other, hosts) = elsewhere();
    for host in &hosts[1..] {
        let link = format!("http://{host}/files/{WHEEL}#sha256={}", sha256(&alpha()));
        let registry = Registry::default().python_link("alpha", WHEEL, link).start();
        let skill = python_skill();
        let allow = format!("net:{host}");
        let answer = metier(&skill, Some(&registry), &["prepare", "x", "--allow", &allow]);
        assert_eq!(answer.code, 0, "{answer:?}");
        assert_eq!(metier(&skill, None, &["run", "x"]).stdout.trim(), "1");
    }
}

/// A `PATH` with interpreters and no package manager.
fn without_managers(skill: &Project) -> PathBuf {
    let folder = skill.home().join("interpreters");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["python3", "node"] {
        if let Some(program) = find_program(name) {
            symlink(program, folder.join(name)).unwrap();
        }
    }
    folder
}

#[test]
fn a_missing_package_manager_is_named_with_the_way_to_get_it() {
    let registry = python_registry().start();
    for (skill, sentence, help) in [
        (
            python_skill(),
            "packages are prepared by uv, which is not on PATH",
            "install uv (https://docs.astral.sh/uv/, or `pip install uv`), outside of the project",
        ),
        (
            npm_skill(),
            "packages are prepared by npm, which is not on PATH",
            "install npm (https://docs.npmjs.com/downloading-and-installing-node-js-and-npm), outside of the project",
        ),
    ] {
        let path = without_managers(&skill);
        let call = command(&skill, Some(&registry), &["prepare", "x"]).env("PATH", path).output();
        let answer: Answer = call.unwrap().into();
        let is_named = answer.stderr.contains(sentence) && answer.stderr.contains(help);
        assert!(answer.code == 3 && is_named, "{answer:?}");
        assert_eq!(entries(&skill), [""; 0]);
        assert_tidy(&skill);
    }
    assert_eq!(registry.asked(), [""; 0]);
}

/// The same user at the sandbox level `landlock`.
fn at_landlock(skill: Project) -> Project {
    write(&skill.home().join(".config/metier/config.toml"), "[sandbox]\nlevel = \"landlock\"\n");
    skill
}

#[test]
fn with_landlock_alone_packages_are_prepared_only_with_the_whole_network() {
    for (manager, skill) in [("uv", python_skill()), ("npm", npm_skill())] {
        if !has_manager(manager, "packages at the level landlock") {
            continue;
        }
        let skill = at_landlock(skill);
        let registry = python_registry().npm("alpha", "1.0.0", &FILES).start();
        let host = format!("net:127.0.0.1:{}", registry.port);
        for more in [&[][..], &["--allow", &host]] {
            let answer = assert_fails(&skill, &registry, more);
            let is_named = answer.stderr.contains("granted hosts only, which takes namespaces")
                && answer.stderr.contains("--allow net");
            assert!(is_named, "{answer:?}");
        }
        assert_eq!(registry.asked(), [""; 0], "the network was opened without a grant");
        let answer = metier(&skill, Some(&registry), &["prepare", "x", "--allow", "net"]);
        assert_eq!(answer.code, 0, "{answer:?}");
        assert_eq!(entries(&skill).len(), 1);
        let asked = registry.asked().len();
        let answer = metier(&skill, None, &["run", "x", "--json"]);
        assert!(answer.code == 0 && answer.json()["sandbox"]["level"] == "landlock", "{answer:?}");
        assert_eq!(registry.asked().len(), asked);
    }
}

/// Two interpreters of Python: the one on `PATH`, and that of a virtual environment outside of any project.
fn interpreters(skill: &Project) -> Option<(PathBuf, PathBuf)> {
    let folder = skill.home().join("environment");
    let made = std::process::Command::new("python3")
        .args(["-m", "venv", "--without-pip", "--copies"])
        .arg(&folder)
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        crate::support::not_run::not_run(
            "packages for two interpreters",
            "python3 cannot make a virtual environment",
        );
        return None;
    }
    Some((without_managers(skill), folder.join("bin")))
}

#[test]
fn each_interpreter_gets_packages_of_its_own() {
    if !has_manager("uv", "packages for two interpreters") {
        return;
    }
    let skill = python_skill();
    let Some((first, second)) = interpreters(&skill) else { return };
    let registry = python_registry().start();
    let with_python = |folder: &PathBuf, args: &[&str], registry| -> Answer {
        let mut call = command(&skill, registry, args);
        let managers = call.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, path)| path).unwrap();
        let path = format!("{}:{}", folder.display(), managers.to_str().unwrap());
        call.env("PATH", path).output().unwrap().into()
    };
    for (number, folder) in [&first, &second].into_iter().enumerate() {
        let before = with_python(folder, &["run", "x"], None);
        assert!(before.code != 0 && before.stderr.contains("metier prepare x"), "{before:?}");
        let answer = with_python(folder, &["prepare", "x"], Some(&registry));
        assert!(answer.code == 0 && answer.stdout.starts_with("prepared"), "{answer:?}");
        assert_eq!(entries(&skill).len(), number + 1, "{answer:?}");
        assert_eq!(with_python(folder, &["run", "x"], None).stdout.trim(), "1");
    }
    // The first one still has its own.
    assert_eq!(with_python(&first, &["run", "x"], None).stdout.trim(), "1");
    let again = with_python(&first, &["prepare", "x"], Some(&registry));
    assert!(again.stdout.starts_with("already prepared"), "{again:?}");
    // Another program at the same path is another interpreter.
    let program = std::fs::canonicalize(second.join("python3")).unwrap();
    std::fs::File::options().append(true).open(program).unwrap().set_modified(UNIX_EPOCH).unwrap();
    let replaced = with_python(&second, &["run", "x"], None);
    assert!(replaced.code != 0 && replaced.stderr.contains("metier prepare x"), "{replaced:?}");
    assert_eq!(with_python(&first, &["run", "x"], None).stdout.trim(), "1");
    let listed = metier(&skill, None, &["prepare", "--list", "--json"]).json();
    let interpreters: Vec<&str> =
        listed.as_array().unwrap().iter().map(|set| set["interpreter"].as_str().unwrap()).collect();
    assert!(interpreters.len() == 2 && interpreters[0] != interpreters[1], "{interpreters:?}");
}
