//! What a watched run reports as refused: real scripts in the sandbox.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;

use super::*;
use metier_core::executor::WatchedAccess;
use metier_core::host::{
    Extensions, RefusedAccess, RefusedTarget, RunContextBuilder, RunMessages, RunReporting, SharedFacts,
};
use metier_sandbox::{ForkServerSource, Launcher, SandboxLevel};

/// Whether this is the test of that name in a process of its own, whose home and `PATH` are in this folder. If not, the test has passed
/// there.
fn has_own_home(name: &str) -> Option<PathBuf> {
    const VARIABLE: &str = "METIER_TEST_HOME";
    if let Some(home) = std::env::var_os(VARIABLE) {
        return Some(home.into());
    }
    let home = TempDir::new_in("/var/tmp").unwrap();
    let path = format!("{}:/usr/bin:/bin", home.path().join(".tools/bin").display());
    let again = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("tests::watch::{name}"), "--nocapture"])
        .env(VARIABLE, home.path())
        .env("HOME", home.path())
        .env("PATH", path)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&again.stdout);
    assert!(
        again.status.success() && output.contains("1 passed"),
        "{output}{}",
        String::from_utf8_lossy(&again.stderr)
    );
    None
}

/// What a watched run of this script is refused, as lines. The script must end well.
fn refused_lines(stage: &Fixture) -> Vec<String> {
    refused_lines_with(stage, SharedFacts::default())
}

fn refused_lines_with(stage: &Fixture, facts: SharedFacts) -> Vec<String> {
    refused_lines_by(&SHARED, stage, facts)
}

fn refused_lines_by(services: &ExternalServices, stage: &Fixture, facts: SharedFacts) -> Vec<String> {
    let mut extensions = Extensions::default();
    extensions.insert(WatchedAccess);
    let ctx = stage.builder(&stage.cancel).extensions(extensions).facts(facts).build();
    let executor = load(&stage.script, services).unwrap();
    let value = executor.execute_with_context(stage.input.clone(), Some(&ctx));
    let refused = ctx.take_redacted_refused_accesses().into_inner();
    assert_eq!(value.unwrap().value, Value::from("done\n"), "{:?}", ctx.take_log());
    refused.iter().map(line).collect()
}

fn line(refused: &RefusedAccess) -> String {
    let target = match &refused.target {
        RefusedTarget::Path(target) | RefusedTarget::Name(target) => target,
        other => panic!("{other:?}"),
    };
    let about = refused.permission.as_ref().or(refused.reason.as_ref()).unwrap();
    format!("{target} {} {about}", refused.count)
}

fn python(source: &str) -> Fixture {
    let source = format!("{source}\nprint('done')\n");
    Fixture { grants: Vec::new(), ..Fixture::new("scripts/run.py", source) }
}

#[test]
fn an_empty_script_is_refused_nothing() {
    const NAME: &str = "an_empty_script_is_refused_nothing";
    let Some(home) = has_own_home(NAME) else { return };
    // What interpreters and tools look for by themselves is there.
    for path in
        [".local/lib/python3.11/site-packages/x.py", ".netrc", ".gitconfig", ".bashrc", ".inputrc", ".npmrc"]
    {
        fs::create_dir_all(home.join(path).parent().unwrap()).unwrap();
        fs::write(home.join(path), "").unwrap();
    }
    let imports = "import json, ssl, urllib.request, sqlite3, subprocess, tempfile, pathlib, platform, locale, readline";
    let uses = "with tempfile.NamedTemporaryFile() as one: one.write(b'x')\nsubprocess.run(['git', 'version'], stdout=2)";
    for mut stage in [
        python(""),
        python(&format!("{imports}\n{uses}")),
        Fixture::bash("ls >&2; echo x | sort > /dev/null; cat <<< x > /tmp/own; cat /tmp/own >&2; echo done"),
        Fixture::new("scripts/run.sh", "#!/bin/sh\ntrue; echo done"),
        Fixture::new("scripts/run.mjs", "import fs from 'node:fs'; fs.readdirSync('.'); console.log('done')"),
    ] {
        if stage.script.path.ends_with("mjs") && !has_command("node") {
            continue;
        }
        stage.grants = Vec::new();
        assert_eq!(refused_lines(&stage), [""; 0], "{:?}", String::from_utf8_lossy(&stage.script.source));
    }
}

#[test]
fn a_change_of_the_project_names_the_smallest_grant() {
    let attempt = |body: &str| {
        let lines: Vec<String> =
            body.lines().map(|line| format!("try: {line}\nexcept OSError: pass")).collect();
        python(&format!("import os, pathlib, shutil\n{}", lines.join("\n")))
    };
    for (body, expected) in [
        ("open('reports/new.md', 'w')", &["reports/new.md 1 write:reports"][..]),
        ("open('reports/old.md', 'w')", &["reports/old.md 1 write:reports/old.md"]),
        ("open('reports/old.md', 'a')\nopen('reports/new.md', 'w')", &["reports 2 write:reports"]),
        ("os.remove('reports/old.md')", &["reports/old.md 1 write:reports"]),
        ("os.rename('reports/old.md', 'reports/new.md')", &["reports 2 write:reports"]),
        ("os.mkdir('made')", &["made 1 write:made"]),
        ("os.makedirs('made/deep')", &["made 1 write:made"]),
        ("open('top.md', 'w')", &["top.md 1 write"]),
        ("open('top.md', 'w')\nopen('reports/new.md', 'w')", &[". 2 write"]),
        ("open('.git/index.lock', 'w')", &[".git/index.lock 1 write:.git"]),
        ("open('top.md', 'w')\nopen('.git/x', 'w')", &["top.md 1 write", ".git/x 1 write:.git"]),
        ("open('.env')", &[".env 1 it is protected, since it holds secrets or the history of the project"]),
        (
            "open('.env', 'w')",
            &[".env 1 it is protected, since it holds secrets or the history of the project"],
        ),
        (
            "open('.vscode/tasks.json', 'w')",
            &[".vscode/tasks.json 1 it is protected, since other programs run or obey it by themselves"],
        ),
        // What is not there is not refused, and no cache that nobody misses.
        ("open('none.md')\nopen('.env.local')\nos.listdir('.')\nos.mkdir('__pycache__')", &[]),
    ] {
        let stage = attempt(body);
        for folder in ["reports", ".git", ".vscode"] {
            fs::create_dir(stage.file(folder)).unwrap();
        }
        fs::write(stage.file("reports/old.md"), "").unwrap();
        fs::write(stage.file(".env"), "KEY=x").unwrap();
        assert_eq!(refused_lines(&stage), expected, "{body}");
    }
    let mut granted = attempt("open('reports/new.md', 'w')\nopen('top.md', 'w')");
    fs::create_dir(granted.file("reports")).unwrap();
    granted.grants = vec!["write:reports"];
    assert_eq!(refused_lines(&granted), ["top.md 1 write"]);
}

#[test]
fn the_grants_that_are_named_are_those_that_help() {
    let body = "import os\ndone = 0\nfor path in ['out/a.md', 'out/b/c.md', 'made/x.md']:\n  try: os.makedirs(os.path.dirname(path), exist_ok=True); open(path, 'w').write('x'); done += 1\n  except OSError: pass";
    let mut stage = python(body);
    fs::create_dir_all(stage.file("out")).unwrap();
    let named: Vec<&'static str> = refused_lines(&stage)
        .iter()
        .map(|line| &*line.rsplit(' ').next().unwrap().to_owned().leak())
        .collect();
    assert_eq!(named, ["write:made", "write:out"]);
    stage.grants = named;
    assert_eq!(refused_lines(&stage), [""; 0]);
    assert!(["out/a.md", "out/b/c.md", "made/x.md"].iter().all(|path| stage.file(path).exists()));
}

#[test]
fn a_file_of_the_home_names_its_grant_and_a_secret_none() {
    const NAME: &str = "a_file_of_the_home_names_its_grant_and_a_secret_none";
    let Some(home) = has_own_home(NAME) else { return };
    for path in [".app/config.json", ".app/data/one", ".ssh/id_ed25519", "notes/a.md", ".config/tool.toml"] {
        fs::create_dir_all(home.join(path).parent().unwrap()).unwrap();
        fs::write(home.join(path), "x").unwrap();
    }
    symlink(home.join("notes"), home.join("linked")).unwrap();
    let attempt = |path: &str, mode: &str| {
        python(&format!("import os\ntry: open(os.path.expanduser('{path}'), '{mode}')\nexcept OSError: pass"))
    };
    let secret = "it is in your home folder, and no grant opens it: it may hold secrets, or programs run or obey it by themselves";
    let absolute = |path: &str| home.join(path).display().to_string();
    for (path, mode, expected) in [
        ("~/.app/config.json".to_owned(), "r", vec!["~/.app/config.json 1 home:.app/config.json".to_owned()]),
        (absolute(".app/config.json"), "r", vec!["~/.app/config.json 1 home:.app/config.json".into()]),
        (absolute("notes/a.md"), "a", vec!["~/notes/a.md 1 home-write:notes/a.md".into()]),
        (absolute("notes/new.md"), "w", vec!["~/notes/new.md 1 home-write:notes".into()]),
        ("~/.ssh/id_ed25519".into(), "r", vec![format!("~/.ssh/id_ed25519 1 {secret}")]),
        (absolute("linked/a.md"), "r", vec![format!("~/linked/a.md 1 {secret}")]),
        ("~/none.json".into(), "r", Vec::new()),
        (absolute("none/none.json"), "r", Vec::new()),
        // In a folder that only the user has, and in its own home.
        ("~/.app/new.json".into(), "w", vec!["~/.app/new.json 1 home-write:.app".into()]),
        ("~/.app/config.json".into(), "a", vec!["~/.app/config.json 1 home-write:.app/config.json".into()]),
        ("~/new.json".into(), "w", Vec::new()),
        ("~/none/new.json".into(), "w", Vec::new()),
    ] {
        assert_eq!(refused_lines(&attempt(&path, mode)), expected, "{path} {mode}");
    }
    // Whether it exists is asked first, of the folders around it, too.
    let looks = "import os.path\nfrom pathlib import Path\nhome = Path.home()\nfor path in ['.app', '.app/config.json', '.none']:\n    os.path.exists(home / path)\nos.path.realpath(home / '.app/config.json')";
    assert_eq!(refused_lines(&python(looks)), ["~/.app/config.json 2 home:.app/config.json"]);
    let only_folder = "import os.path\nos.path.exists(os.path.expanduser('~/.app'))";
    assert_eq!(refused_lines(&python(only_folder)), ["~/.app 1 home:.app"]);
    // What it makes there is its own.
    let own = "from pathlib import Path\napp = Path.home() / '.app'\napp.mkdir()\n(app / 'own').write_text('x')\n(app / 'own').read_text()\n(app / 'own').unlink()";
    assert_eq!(refused_lines(&python(own)), [""; 0]);
    for (mode, granted, expected) in [
        ("r", "home:.app", vec![]),
        ("a", "home:.app", vec!["~/.app/config.json 1 home-write:.app/config.json"]),
        ("a", "home-write:.app", vec![]),
    ] {
        let mut stage = attempt("~/.app/config.json", mode);
        stage.grants = vec![granted];
        assert_eq!(refused_lines(&stage), expected, "{mode} {granted}");
    }
    // What lies there is not for a model.
    let mut for_model = SharedFacts::default();
    for_model.is_for_model = true;
    for path in
        ["~/.app/config.json".to_owned(), absolute(".app/config.json"), "/tmp/x".into(), "/etc/shadow".into()]
    {
        assert_eq!(refused_lines_with(&attempt(&path, "r"), for_model.clone()), [""; 0], "{path}");
    }
}

/// A run in a copy of the project, which may write there.
fn trial() -> SharedFacts {
    let mut facts = SharedFacts::default();
    facts.is_in_copy = true;
    facts
}

/// Without what a line counts.
fn without_counts(lines: Vec<String>) -> Vec<String> {
    let words = |line: String| {
        line.split(' ').filter(|word| word.parse::<u64>().is_err()).collect::<Vec<_>>().join(" ")
    };
    lines.into_iter().map(words).collect()
}

#[test]
fn a_trial_imports_what_the_user_installed_and_names_the_grant() {
    const NAME: &str = "a_trial_imports_what_the_user_installed_and_names_the_grant";
    let Some(home) = has_own_home(NAME) else { return };
    let version = "import sys; print('%d.%d' % sys.version_info[:2])";
    let version = std::process::Command::new("python3").args(["-c", version]).output().unwrap().stdout;
    let site = format!(".local/lib/python{}/site-packages", String::from_utf8(version).unwrap().trim());
    for (path, text) in [
        ("own_package/__init__.py", "VALUE = 3"),
        ("own_package/inner.py", "import own_module"),
        ("own_module.py", ""),
        ("other/__init__.py", ""),
        ("hook.pth", "import _hook"),
        ("_hook.py", ""),
    ] {
        let path = home.join(&site).join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let swallowed = "try:\n    import own_package\nexcept ImportError:\n    own_package = None";
    let is_found = |expected: bool| {
        format!("{swallowed}\nassert (own_package is not None) == {expected}")
            .replace("true", "True")
            .replace("false", "False")
    };
    let refused = |source: &str, facts| without_counts(refused_lines_with(&python(source), facts));
    let package = format!("~/{site}/own_package user-packages");
    assert_eq!(refused(&is_found(true), trial()), [package.as_str()]);
    // What only looks whether it is there finds it, too.
    let looks = "import importlib.util\nassert importlib.util.find_spec('own_package')";
    assert_eq!(refused(looks, trial()), [package.as_str()]);
    assert_eq!(refused("import own_package.inner", trial()), [format!("~/{site} user-packages")]);
    // A script that imports none of them needs none, and only a trial for a person has them.
    assert_eq!(refused("import json", trial()), [""; 0]);
    assert_eq!(refused(&is_found(false), SharedFacts::default()), [""; 0]);
    let mut for_model = trial();
    for_model.is_for_model = true;
    assert_eq!(refused(&is_found(false), for_model), [""; 0]);
    let mut stage = python(&is_found(true));
    stage.grants = vec!["user-packages"];
    assert_eq!(refused_lines_with(&stage, trial()), [""; 0]);
}

#[test]
fn a_file_left_in_the_home_names_the_grant_that_creates_it_there() {
    const NAME: &str = "a_file_left_in_the_home_names_the_grant_that_creates_it_there";
    let Some(home) = has_own_home(NAME) else { return };
    fs::create_dir_all(home.join("Documents/deep")).unwrap();
    fs::write(home.join("Documents/deep/list.md"), "x").unwrap();
    for (body, grants) in [
        (
            "(home / 'Documents/deep/list.md').open('a').write('x')",
            &["home-write:Documents/deep/list.md"][..],
        ),
        ("(home / 'Documents/deep/new.md').write_text('x')", &["home-write:Documents/deep"]),
        (
            "folder = home / 'Documents/made/inner'; folder.mkdir(parents=True, exist_ok=True); (folder / 'a').write_text('x')",
            &["home-write:Documents/made"],
        ),
        (
            "folder = home / 'Reports'; folder.mkdir(exist_ok=True); (folder / 'a').write_text('x')",
            &["home-write:Reports"],
        ),
        ("folder = home / '.tool'; folder.mkdir(); (folder / 'a').write_text('x')", &["state"]),
        // At the top of the home nothing is opened, and caches and what is gone are not missed.
        ("(home / 'a.md').write_text('x')", &[]),
        ("folder = home / '.cache/x'; folder.mkdir(parents=True); (folder / 'a').write_text('x')", &[]),
        ("(home / 'Documents/deep/new.md').write_text('x'); (home / 'Documents/deep/new.md').unlink()", &[]),
    ] {
        let source = format!(
            "from pathlib import Path\nhome = Path.home()\n(home / 'Documents/deep').mkdir(parents=True, exist_ok=True)\n{body}"
        );
        let mut stage = python(&source);
        let lines = refused_lines(&stage);
        let grant = |line: &String| line.rsplit(' ').next().unwrap().to_owned();
        assert_eq!(lines.iter().map(grant).collect::<Vec<_>>(), grants, "{body}: {lines:?}");
        // With it there is nothing more to ask for. This test has no place for state.
        if let [grant] = grants
            && *grant != "state"
        {
            stage.grants = vec![grant];
            assert_eq!(refused_lines(&stage), [""; 0], "{body}");
        }
    }
    assert!(home.join("Documents/made/inner/a").exists() && home.join("Reports/a").exists());
    assert!(!home.join(".tool").exists());
}

#[test]
fn a_file_beside_the_one_that_is_replaced_takes_the_folder() {
    let replace = |folder: &str| {
        format!(
            "import os\nopen('{folder}a.md.new', 'w').write('x')\nos.replace('{folder}a.md.new', '{folder}a.md')"
        )
    };
    for (folder, expected) in [("", "a.md.new write"), ("docs/", "docs/a.md.new write:docs")] {
        let mut stage = python(&replace(folder));
        fs::create_dir(stage.file("docs")).unwrap();
        fs::write(stage.file(&format!("{folder}a.md")), "").unwrap();
        stage.grants = vec!["write"];
        let lines = without_counts(refused_lines_with(&stage, trial()));
        assert_eq!(lines, [expected], "{folder}");
        // On the project itself it is no news.
        assert_eq!(refused_lines(&stage), [""; 0], "{folder}");
    }
    let mut stays = python("open('a.md', 'w').write('x')");
    stays.grants = vec!["write"];
    assert_eq!(refused_lines_with(&stays, trial()), [""; 0]);
}

#[test]
fn a_program_that_was_looked_for_in_vain_is_one_entry() {
    const NAME: &str = "a_program_that_was_looked_for_in_vain_is_one_entry";
    let Some(home) = has_own_home(NAME) else { return };
    let tool = home.join(".tools/bin/own-tool");
    fs::create_dir_all(tool.parent().unwrap()).unwrap();
    fs::write(&tool, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let hidden = format!(
        "{} is outside of the system's folders, where a script in a sandbox finds its programs; install it for the whole system",
        tool.display()
    );
    let run = |program: &str| {
        format!("import subprocess\ntry: subprocess.run(['{program}'])\nexcept OSError: pass")
    };
    let shell = |program: &str| {
        Fixture::bash(&format!("command -v {program} >&2; {program} 2> /dev/null; echo done"))
    };
    for program in ["own-tool", "no-such-tool-here"] {
        let reason = if program == "own-tool" { &hidden } else { "it is not installed" };
        for mut stage in [
            python(&run(program)),
            python(&format!("import shutil; assert shutil.which('{program}') is None")),
            shell(program),
        ] {
            stage.grants = Vec::new();
            let refused = refused_lines(&stage);
            let [line] = &refused[..] else { panic!("{program} {refused:?}") };
            assert!(line.starts_with(program) && line.ends_with(reason), "{line}");
        }
    }
    for stage in [python(&run("true")), python("import shutil; assert shutil.which('ls')"), shell("true")] {
        assert_eq!(refused_lines(&stage), [""; 0]);
    }
}

#[test]
fn the_skill_temporary_files_and_shared_memory_are_different_places() {
    let outside = tempfile::Builder::new().prefix("metier-watch").tempfile_in("/tmp").unwrap();
    let path = outside.path().display().to_string();
    let source = format!(
        "import os\nskill = os.environ['METIER_SKILL_DIR']\nfor path, mode in [('{path}', 'r'), ('/tmp/own', 'w'), ('/tmp/own', 'r'), ('/dev/shm/x', 'w'), ('/etc/shadow', 'r'), (skill + '/state.json', 'w')]:\n    try: open(path, mode).close()\n    except OSError: pass"
    );
    let stage = python(&source);
    let skill = stage.skill.path().join("state.json");
    assert_eq!(
        refused_lines(&stage),
        [
            format!("{} 1 own-folder", skill.display()),
            "/dev/shm 1 shm".into(),
            "/etc/shadow 1 it is outside of the project, where no grant opens anything; copy it into the project".into(),
            format!("{path} 1 a script has a /tmp of its own; copy the file into the project"),
        ]
    );
}

/// There nothing is hidden and `/tmp` is the machine's, and what can be read is not refused.
#[test]
fn without_namespaces_what_landlock_refuses_is_reported() {
    const NAME: &str = "without_namespaces_what_landlock_refuses_is_reported";
    let Some(home) = has_own_home(NAME) else { return };
    fs::create_dir(home.join(".app")).unwrap();
    fs::write(home.join(".app/config.json"), "").unwrap();
    let outside = tempfile::Builder::new().prefix("metier-watch").tempfile_in("/tmp").unwrap();
    let outside = outside.path().display().to_string();
    let config = home.join(".app/config.json").display().to_string();
    let outside_reason =
        "it is outside of the project, where no grant opens anything; copy it into the project";
    let change_reason = "it is outside of the project, where no grant allows changes; write into the project, or into the folder TMPDIR";
    let cases = [
        (format!("open('{config}')"), vec!["~/.app/config.json 1 home:.app/config.json".to_owned()]),
        (
            "open(os.path.expanduser('~/.app/config.json'))".into(),
            vec!["~/.app/config.json 1 home:.app/config.json".into()],
        ),
        // Landlock lets everybody look.
        (format!("os.path.exists('{config}')"), Vec::new()),
        (format!("open('{outside}')"), vec![format!("{outside} 1 {outside_reason}")]),
        ("open('/tmp/new', 'w')".into(), vec![format!("/tmp/new 1 {change_reason}")]),
        ("open('reports/new.md', 'w')".into(), vec!["reports/new.md 1 write:reports".into()]),
        ("open('.env')".into(), Vec::new()),
        ("import tempfile; tempfile.NamedTemporaryFile().write(b'x')".into(), Vec::new()),
    ];
    let launcher = Launcher::new(ForkServerSource::CurrentProgram, SandboxLevel::Landlock);
    let services = ExternalServices::new(Arc::new(launcher));
    for (body, expected) in cases {
        let stage = python(&format!("import os\ntry: {body}\nexcept OSError: pass"));
        fs::create_dir(stage.file("reports")).unwrap();
        fs::write(stage.file(".env"), "KEY=x").unwrap();
        assert_eq!(refused_lines_by(&services, &stage, SharedFacts::default()), expected, "{body}");
    }
}

/// The script decides what is observed. It cannot make the list long, nor a grant out of words.
#[test]
fn what_a_hostile_script_makes_of_the_list_is_bounded_and_plain() {
    let source = r#"
import os
for number in range(3000):
    try: open(f"folder{number}/file", "w")
    except OSError: pass
for name in ["two\nlines/x", "$(id)/x", "a b/x", "\x1b[31m/x", "--flag/x", "../../etc/x", "a;b/x"]:
    try: os.mkdir(os.path.dirname(name)); open(name, "w")
    except OSError: pass
    try: open(name.encode() + b"\xff", "w")
    except OSError: pass
"#;
    let stage = python(source);
    for number in 0..3000 {
        fs::create_dir(stage.file(&format!("folder{number}"))).unwrap();
    }
    let mut extensions = Extensions::default();
    extensions.insert(WatchedAccess);
    let ctx = stage.builder(&stage.cancel).extensions(extensions).build();
    stage.load().unwrap().execute_with_context(stage.input.clone(), Some(&ctx)).unwrap();
    let refused = ctx.take_redacted_refused_accesses().into_inner();
    assert!(refused.len() <= 132 && refused.len() > 50, "{}", refused.len());
    for one in refused {
        let is_plain = |permission: &String| {
            permission.parse::<metier_core::policy::Permission>().is_ok()
                && permission.chars().all(|c| c.is_alphanumeric() || "._-/:".contains(c))
        };
        assert!(one.permission.as_ref().is_none_or(is_plain), "{one:?}");
    }
}

/// A worker answers several runs, and what it was refused is known when it has ended: so a watched run has one of its own.
#[test]
fn a_worker_is_watched_in_a_process_of_its_own() {
    let source = "
import json, os, sys
for line in sys.stdin:
    try: open('reports/a.md', 'w')
    except OSError: pass
    print(json.dumps({'id': json.loads(line)['id'], 'ok': 'done\\n'}), flush=True)
    if 'end' in line: os._exit(0)";
    for input in ["go on", "end"] {
        let mut stage = python(source).input(input);
        stage.worker = Some(WorkerOptions::default());
        fs::create_dir(stage.file("reports")).unwrap();
        let refused = ["reports/a.md 1 write:reports"];
        assert_eq!(refused_lines(&stage), refused, "{input}");
        assert_eq!(refused_lines(&stage), refused, "{input}, again");
    }
}

#[test]
fn what_a_script_says_is_missing_in_the_home_is_looked_for_in_that_of_the_user() {
    const NAME: &str = "what_a_script_says_is_missing_in_the_home_is_looked_for_in_that_of_the_user";
    let Some(home) = has_own_home(NAME) else { return };
    for folder in ["notes", ".ssh"] {
        fs::create_dir(home.join(folder)).unwrap();
    }
    let looks = |folder: &str| {
        let path = format!("os.path.join(os.environ['HOME'], '{folder}')");
        python(&format!(
            "import os, sys\nif not os.path.isdir({path}): print('missing:', {path}, file=sys.stderr)"
        ))
    };
    let warnings = |stage: &Fixture| {
        let ctx = stage.context(&stage.cancel);
        stage.load().unwrap().execute_with_context(stage.input.clone(), Some(&ctx)).unwrap();
        let log = ctx.take_log().into_iter().map(|line| line.message.clone());
        log.filter(|line| line.contains("home folder")).collect::<Vec<_>>()
    };
    let found = warnings(&looks("notes"));
    let [line] = &found[..] else { panic!("{found:?}") };
    assert!(line.starts_with("~/notes is in your home folder"), "{line}");
    assert!(line.contains("home:notes"), "{line}");
    // What is nowhere is no news, and no grant is named for secrets.
    assert_eq!(warnings(&looks("none")), [""; 0]);
    let found = warnings(&looks(".ssh"));
    assert!(found[0].contains("no grant opens it") && !found[0].contains("home:"), "{found:?}");
    let mut granted = looks("notes");
    granted.grants = vec!["home:notes"];
    assert_eq!(warnings(&granted), [""; 0]);
}

#[test]
fn a_run_that_is_not_watched_reports_nothing() {
    let stage = python("try: open('x', 'w')\nexcept OSError: pass");
    let ctx = stage.context(&stage.cancel);
    stage.load().unwrap().execute_with_context(stage.input.clone(), Some(&ctx)).unwrap();
    assert!(ctx.take_redacted_refused_accesses().into_inner().is_empty());
}
