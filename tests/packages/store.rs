//! The store: private, checked before use, listed and pruned.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use crate::packages::archives::wheel;
use crate::packages::fixture::{
    Answer, Project, command, entries, has_manager, metier, prepare, project, store,
};
use crate::packages::registry::{Registry, RunningRegistry};

fn prepared(script: &str) -> (Project, RunningRegistry) {
    let registry = Registry::default()
        .python(
            "alpha",
            "alpha-1.0-py3-none-any.whl",
            wheel("alpha", "1.0", &[], &[("alpha.py", "VALUE = 1\n")]),
        )
        .start();
    let skill = project("main.py", script, &[("requirements.txt", "alpha\n")]);
    prepare(&skill, &registry);
    (skill, registry)
}

fn files(project: &Project) -> PathBuf {
    let [entry] = &entries(project)[..] else { panic!("one entry") };
    store(project).join("entries").join(entry).join("files")
}

#[test]
fn what_somebody_changed_is_not_used_until_it_is_prepared_again() {
    if !has_manager("uv", "a changed store") {
        return;
    }
    let (skill, registry) = prepared("import alpha\nprint(alpha.VALUE)\n");
    let module = files(&skill).join("alpha.py");
    let changes: [&dyn Fn(); 5] = [
        &|| std::fs::write(&module, "VALUE = 2\n").unwrap(),
        &|| std::fs::write(files(&skill).join("new.py"), "").unwrap(),
        &|| std::fs::remove_file(&module).unwrap(),
        &|| symlink("/etc/passwd", files(&skill).join("link.py")).unwrap(),
        &|| {
            std::fs::remove_dir_all(files(&skill)).unwrap();
            symlink("/usr/lib", files(&skill)).unwrap();
        },
    ];
    for change in changes {
        change();
        let answer = metier(&skill, None, &["run", "x"]);
        assert!(
            answer.code == 4 && answer.stderr.contains("were changed since they were prepared"),
            "{answer:?}"
        );
        prepare(&skill, &registry);
        assert_eq!(metier(&skill, None, &["run", "x"]).stdout.trim(), "1");
    }
}

#[test]
fn a_copy_of_the_store_is_used_and_one_that_others_can_write_to_is_not() {
    if !has_manager("uv", "a copy of the store") {
        return;
    }
    let (skill, _registry) = prepared("import alpha\nprint(alpha.VALUE)\n");
    // A copy has other times and numbers, and the same content.
    let module = files(&skill).join("alpha.py");
    std::fs::write(module.with_extension("copy"), std::fs::read(&module).unwrap()).unwrap();
    std::fs::rename(module.with_extension("copy"), &module).unwrap();
    assert_eq!(metier(&skill, None, &["run", "x"]).stdout.trim(), "1");
    std::fs::set_permissions(store(&skill), std::fs::Permissions::from_mode(0o777)).unwrap();
    let answer = metier(&skill, None, &["run", "x"]);
    assert!(answer.code == 4 && answer.stderr.contains("can be written by others"), "{answer:?}");
}

#[test]
fn a_run_can_read_its_packages_and_change_none() {
    if !has_manager("uv", "a store that is only read") {
        return;
    }
    let script = "import alpha, os\nprint(alpha.VALUE)\nfolder = os.path.dirname(alpha.__file__)\nfor path in [alpha.__file__, folder + '/new.py', folder + '/../about.json']:\n    try:\n        open(path, 'a').write('x')\n    except OSError:\n        pass\ntry:\n    print(os.listdir(folder + '/../../../requests'))\nexcept OSError:\n    pass\n";
    let (skill, _registry) = prepared(script);
    let content = || {
        let all = walkdir::WalkDir::new(store(&skill).join("entries")).sort_by_file_name().into_iter();
        let read = all.map(|entry| entry.unwrap().into_path()).map(|path| (std::fs::read(&path).ok(), path));
        read.collect::<Vec<_>>()
    };
    let before = content();
    for allow in ["write", "read"] {
        let answer = metier(&skill, None, &["run", "x", "--allow", allow]);
        assert_eq!(answer.stdout.trim(), "1", "{answer:?}");
    }
    assert_eq!(content(), before);
}

#[test]
fn packages_are_listed_and_pruned() {
    if !has_manager("uv", "pruned packages") {
        return;
    }
    let (skill, registry) = prepared("import alpha\nprint(alpha.VALUE)\n");
    let listed = metier(&skill, None, &["prepare", "--list", "--json"]);
    let listed = &listed.json()[0];
    assert_eq!((&listed["ecosystem"], &listed["packages"][0]), (&"python".into(), &"alpha==1.0".into()));
    let nothing = metier(&skill, None, &["prepare", "--prune", "--json"]);
    assert_eq!(nothing.json()["removed"], serde_json::json!([]), "it was just used");
    // Half a preparation, an entry that serves nothing, and a request of long ago.
    std::fs::create_dir(store(&skill).join("work-dead")).unwrap();
    std::fs::create_dir(store(&skill).join("entries/half")).unwrap();
    let request = std::fs::read_dir(store(&skill).join("requests")).unwrap().next().unwrap().unwrap().path();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(31 * 24);
    std::fs::File::options().append(true).open(request).unwrap().set_modified(long_ago).unwrap();
    let pruned = metier(&skill, None, &["prepare", "--prune", "--json"]);
    assert_eq!(pruned.json()["removed"][0]["packages"][0], "alpha==1.0", "{pruned:?}");
    assert_eq!(entries(&skill), [""; 0]);
    crate::packages::fixture::assert_tidy(&skill);
    prepare(&skill, &registry);
    assert_eq!(metier(&skill, None, &["prepare", "--prune", "--all"]).code, 0);
    assert_eq!(entries(&skill), [""; 0]);
}

#[test]
fn explain_and_doctor_say_where_packages_are() {
    if !has_manager("uv", "an explained run with packages") {
        return;
    }
    let (skill, _registry) = prepared("import alpha\n");
    let answer = metier(&skill, None, &["run", "x", "--explain", "--json"]);
    let reads = answer.json()["process"]["reads"].clone();
    let is_listed = |path: &serde_json::Value| {
        path["why"] == "packages" && path["path"] == files(&skill).to_str().unwrap()
    };
    assert!(reads.as_array().is_some_and(|reads| reads.iter().any(is_listed)), "{answer:?}");
    let diagnosis = metier(&skill, None, &["doctor", "--json"]).json();
    let packages = &diagnosis["packages"];
    assert_eq!(packages["path"], store(&skill).to_str().unwrap(), "{packages}");
    let bytes = packages["bytes"].as_u64().unwrap();
    assert!(packages["sets"] == 1 && bytes > 0 && packages["reason"].is_null(), "{packages}");
    let page = metier(&skill, None, &["doctor"]).stdout;
    let uv = packages["uv"].as_str().unwrap();
    let line = format!("{}: 1 sets, {bytes} bytes", store(&skill).display());
    assert!(page.contains(&line) && page.lines().any(|line| line.trim() == uv), "{page}");
    let mut without = command(&skill, None, &["doctor"]);
    let page: Answer = without.env("PATH", "/nowhere").output().unwrap().into();
    for manager in ["uv", "npm"] {
        let line = format!("no {manager} on PATH, so its packages cannot be prepared");
        assert!(page.stdout.contains(&line), "{page:?}");
    }
    std::fs::set_permissions(store(&skill), std::fs::Permissions::from_mode(0o777)).unwrap();
    let page = metier(&skill, None, &["doctor"]);
    assert!(page.stdout.contains("can be written by others"), "{page:?}");
}
