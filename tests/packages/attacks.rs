//! Packages that would run something when they are prepared, and registries that lie. No mark is left.

use std::process::Stdio;
use std::time::Duration;

use crate::packages::archives::{sdist, wheel};
use crate::packages::fixture::{
    assert_refused, assert_tidy, command, entries, has_manager, metier, prepare, project, store,
};
use crate::packages::registry::Registry;

/// Python that would leave a mark in every place that it could reach.
fn marking(mark: &str) -> String {
    format!(
        "import os, socket\nfor folder in ['.', os.path.expanduser('~'), '/tmp', '{mark}']:\n    try:\n        open(os.path.join(folder, 'metier-mark'), 'w').write('x')\n    except OSError:\n        pass\n"
    )
}

#[test]
fn a_source_distribution_is_never_built() {
    if !has_manager("uv", "a source distribution") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let setup = marking(place.path().to_str().unwrap());
    let registry =
        Registry::default().python("evil", "evil-1.0.tar.gz", sdist("evil", "1.0", &setup)).start();
    let skill = project("main.py", "import evil", &[("requirements.txt", "evil\n")]);
    let answer = assert_refused(&skill, &registry, "its own code is not run to build one");
    assert!(std::fs::read_dir(place.path()).unwrap().next().is_none(), "{answer:?}");
    assert_tidy(&skill);
}

#[test]
fn files_that_python_would_run_at_its_start_run_neither_when_prepared_nor_in_a_run() {
    if !has_manager("uv", "a package with a .pth file") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let line = format!("import os; open('{}/pth', 'w').write('x')\n", place.path().display());
    // What prepares them cannot write there, but it can beside the file itself.
    let beside =
        "import os, sys; open(os.path.join(sys._getframe(1).f_locals['sitedir'], 'mark'), 'w').close()\n";
    let module = format!("open('{}/module', 'w').write('x')\n", place.path().display());
    let files = [
        ("evil.pth", line.as_str()),
        ("beside.pth", beside),
        ("evil.py", &module),
        ("setup.py", &module),
        ("conftest.py", &module),
    ];
    let registry = Registry::default()
        .python("evil", "evil-1.0-py3-none-any.whl", wheel("evil", "1.0", &[], &files))
        .start();
    let skill = project("main.py", "print('ran')\n", &[("requirements.txt", "evil\n")]);
    prepare(&skill, &registry);
    let prepared =
        || walkdir::WalkDir::new(skill.home()).into_iter().map(|entry| entry.unwrap().file_name().to_owned());
    let has_mark =
        || prepared().any(|name| name == "mark") || std::fs::read_dir(place.path()).unwrap().next().is_some();
    assert!(prepared().any(|name| name == "beside.pth") && !has_mark(), "when it was prepared");
    // Without a sandbox nothing but the rules of Python stands between the file and the folder.
    for sandbox in ["--sandbox=off", "--sandbox=required"] {
        let answer = metier(&skill, None, &["run", "x", sandbox]);
        assert_eq!(answer.stdout.trim(), "ran", "{answer:?}");
        assert!(!has_mark(), "in a run with {sandbox}");
    }
}

#[test]
fn a_wheel_that_is_not_the_one_that_was_announced_is_refused() {
    if !has_manager("uv", "a wheel with a wrong hash") {
        return;
    }
    let bytes = wheel("evil", "1.0", &[], &[("evil.py", "")]);
    let registry = Registry::default()
        .python_with_digest("evil", "evil-1.0-py3-none-any.whl", bytes, &"0".repeat(64))
        .start();
    let skill = project("main.py", "import evil", &[("requirements.txt", "evil\n")]);
    assert_refused(&skill, &registry, "do not use it before you know why");
    assert_tidy(&skill);
}

#[test]
fn a_registry_that_is_down_is_named() {
    if !has_manager("uv", "a registry that is down") {
        return;
    }
    let skill = project("main.py", "", &[("requirements.txt", "alpha\n")]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let index = format!("http://127.0.0.1:{port}/simple");
    let mut call = command(&skill, None, &["prepare", "x"]);
    let output = call.env("UV_DEFAULT_INDEX", &index).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("does not answer"), "{said}");
    assert_eq!(entries(&skill), [""; 0]);
    assert_tidy(&skill);
}

#[test]
fn a_password_of_a_registry_is_in_no_message() {
    if !has_manager("uv", "a registry with a password") {
        return;
    }
    let registry = Registry::default().start();
    let skill = project("main.py", "", &[("requirements.txt", "alpha\n")]);
    let index = registry.python_index().replace("http://", "http://me:s3cretword@");
    let mut call = command(&skill, None, &["prepare", "x"]);
    let output = call.env("UV_DEFAULT_INDEX", &index).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && !said.contains("s3cretword"), "{said}");
    assert!(registry.asked().iter().any(|path| path.contains("alpha")), "{said}");
}

#[test]
fn a_program_of_the_project_is_no_package_manager() {
    let skill = project("main.py", "", &[("requirements.txt", "alpha\n")])
        .file("bin/uv", "#!/bin/sh\ntouch mark\n")
        .file("bin/npm", "#!/bin/sh\ntouch mark\n");
    for name in ["bin/uv", "bin/npm"] {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(skill.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", skill.path("bin").display());
    let mut call = command(&skill, None, &["prepare", "x"]);
    let output = call.env("PATH", path).env("UV_DEFAULT_INDEX", "http://127.0.0.1:9/").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("which is not on PATH") || said.contains("does not answer"), "{said}");
    assert!(!skill.path("mark").exists());
}

#[test]
fn a_killed_preparation_leaves_nothing_that_is_used_and_the_next_one_removes_it() {
    if !has_manager("uv", "a killed preparation") {
        return;
    }
    // A registry that takes a connection and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let index = format!("http://127.0.0.1:{}/simple", silent.local_addr().unwrap().port());
    let skill = project("main.py", "import alpha; print('ran')", &[("requirements.txt", "alpha\n")]);
    let mut call = command(&skill, None, &["prepare", "x"]);
    let mut child =
        call.env("UV_DEFAULT_INDEX", &index).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (connection, _) = silent.accept().unwrap();
    let works = || {
        let names = std::fs::read_dir(store(&skill)).unwrap();
        names
            .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("work-"))
            .count()
    };
    assert_eq!(works(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    drop(connection);
    drop(silent);
    assert_eq!(entries(&skill), [""; 0]);
    assert_ne!(metier(&skill, None, &["run", "x"]).code, 0);
    let registry = Registry::default()
        .python("alpha", "alpha-1.0-py3-none-any.whl", wheel("alpha", "1.0", &[], &[("alpha.py", "")]))
        .start();
    prepare(&skill, &registry);
    // What its processes still hold is removed at the latest with the next call.
    for _ in 0..50 {
        if works() == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
        metier(&skill, None, &["prepare", "--prune"]);
    }
    assert_tidy(&skill);
    assert_eq!(metier(&skill, None, &["run", "x"]).stdout.trim(), "ran");
}

#[test]
fn preparations_at_the_same_time_leave_one_entry() {
    if !has_manager("uv", "preparations at the same time") {
        return;
    }
    let registry = Registry::default()
        .python("alpha", "alpha-1.0-py3-none-any.whl", wheel("alpha", "1.0", &[], &[("alpha.py", "")]))
        .start();
    let skill = project("main.py", "import alpha; print('ran')", &[("requirements.txt", "alpha\n")]);
    let children: Vec<_> = (0..4)
        .map(|_| {
            let mut call = command(&skill, Some(&registry), &["prepare", "x", "--upgrade"]);
            call.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(entries(&skill).len(), 1);
    assert_tidy(&skill);
    assert_eq!(metier(&skill, None, &["run", "x"]).stdout.trim(), "ran");
}
