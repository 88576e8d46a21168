//! The home of a script at the path of the user's: what it is there, what of the user's shows in it, and what is left of that.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::state::{metier_at, only_state};
use crate::support::cli::{Answer, Project, write};
use crate::support::not_run::{find_program, not_run};

const NAMESPACES: &str = "namespaces";

/// Whether this machine has the sandbox with mounts.
fn has_mounts() -> bool {
    let project = Project::new().shell("see", "true");
    let answer = metier_at(&project, NAMESPACES, &["run", "see", "--json"]).json();
    let has = answer["sandbox"]["level"] == NAMESPACES;
    if !has {
        not_run("the home of a script at the path of the user's", "this machine has no namespaces");
    }
    has
}

/// A project in the home of its user, with this script and some files beside it.
fn project_in_home(script: &str) -> (Project, PathBuf) {
    let project = Project::new();
    let home = project.home();
    let work = home.join("work/deep/project");
    write(&work.join("note"), "note\n");
    write(&work.join(".metier/skills/see/SKILL.md"), "---\nname: see\ndescription: d\n---\n");
    write(&work.join(".metier/skills/see/scripts/main.sh"), script);
    for (path, text) in
        [(".ssh/id", "KEY\n"), ("work/other", "OTHER\n"), (".app/a", "a\n"), (".bashrc", "RC\n")]
    {
        write(&home.join(path), text);
    }
    (project, work)
}

/// Runs the skill `see` in a folder with this home.
fn run_in(project: &Project, folder: &Path, home: &Path, args: &[&str]) -> Answer {
    let mut command = project.command(&[&["run", "see"], args].concat());
    command.current_dir(folder).env("HOME", home).env("METIER_SANDBOX_LEVEL", NAMESPACES);
    command.output().unwrap().into()
}

#[test]
fn the_home_is_an_empty_folder_at_the_path_of_the_users() {
    if !has_mounts() {
        return;
    }
    let (project, work) = project_in_home(
        "echo \"$HOME\"; cd; pwd; find . | sort; cat ~/.ssh/id ~/.bashrc ~/work/other 2>/dev/null; \
         echo x > ~/new && cat new; echo ~; cat work/deep/project/note",
    );
    let home = project.home();
    let answer = run_in(&project, &work, &home, &["--allow", "home:.app/a"]);
    let path = home.to_str().unwrap();
    let shown = "./work/deep/project/note";
    assert!(
        answer.stdout.starts_with(&format!("{path}\n{path}\n.\n./.app\n./.app/a\n./work\n")),
        "{answer:?}"
    );
    assert!(answer.stdout.contains(shown), "{answer:?}");
    assert!(answer.stdout.ends_with(&format!("\nx\n{path}\nnote\n")), "{answer:?}");
    for secret in ["KEY", "RC", "OTHER", ".ssh", ".bashrc", ".local"] {
        assert!(!answer.stdout.contains(secret), "{secret} {answer:?}");
    }
    assert!(!home.join("new").exists() && answer.stderr.contains("new"), "{answer:?}");
    assert!(
        !answer.stderr.contains("work") && !answer.stderr.contains(".app"),
        "no mount point was left: {answer:?}"
    );
}

#[test]
fn python_and_node_find_the_same_home() {
    let scripts = [
        (
            "python3",
            "main.py",
            "import os, pathlib\nassert str(pathlib.Path.home()) == os.path.expanduser('~')\nprint(pathlib.Path.home())\nopen(os.path.expanduser('~/x'), 'w').write('x')\n",
        ),
        (
            "node",
            "main.mjs",
            "import os from 'os';\nimport fs from 'fs';\nconsole.log(os.homedir());\nfs.writeFileSync(os.homedir() + '/x', 'x');\n",
        ),
    ];
    if !has_mounts() {
        return;
    }
    for (program, name, script) in scripts {
        if find_program(program).is_none() {
            not_run(program, "it is not installed");
            continue;
        }
        let (project, work) = project_in_home("");
        fs::remove_file(work.join(".metier/skills/see/scripts/main.sh")).unwrap();
        write(&work.join(".metier/skills/see/scripts").join(name), script);
        let home = project.home();
        let answer = run_in(&project, &work, &home, &[]);
        assert_eq!(answer.stdout.trim(), home.to_str().unwrap(), "{program} {answer:?}");
        assert!(!home.join("x").exists(), "{program}");
    }
}

/// The home of the list of accounts, in which interpreters of version managers lie, and what `HOME` says.
#[test]
fn the_list_of_accounts_names_the_same_home() {
    let script = "import os, pathlib, pwd\nhome = pwd.getpwuid(os.getuid()).pw_dir\n\
                  print(home == os.environ['HOME'] == str(pathlib.Path.home()), os.path.exists(home + '/.ssh'), os.path.exists(home + '/.bashrc'))\n\
                  open(home + '/metier-test-x', 'w').write('x')\nos.unlink(home + '/metier-test-x')";
    let Some(home) = std::env::home_dir().filter(|home| home.is_dir() && has_mounts()) else { return };
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    if find_program("python3").is_none() || !accounts.contains(&format!(":{}:", home.display())) {
        return not_run("getpwuid", "there is no Python, or HOME is another folder");
    }
    let project =
        Project::new().skill(".metier/skills/see").file(".metier/skills/see/scripts/main.py", script);
    let mut command = project.command(&["run", "see"]);
    command
        .env("HOME", &home)
        .env("METIER_DATA_DIR", project.home())
        .env("METIER_CONFIG_DIR", project.home());
    let answer: Answer = command.output().unwrap().into();
    assert_eq!(answer.stdout, "True False False\n", "{answer:?}");
}

#[test]
fn what_is_mounted_in_the_home_is_neither_renamed_nor_replaced() {
    if !has_mounts() {
        return;
    }
    let (project, work) = project_in_home(
        "cd; for path in work work/deep work/deep/project .app .app/a; do\n\
         mv $path moved 2>/dev/null && echo \"moved $path\"; rm -r $path 2>/dev/null && echo \"removed $path\"; done\n\
         ln -s /etc link && mv -T link work 2>/dev/null && echo replaced; rmdir \"$HOME\" 2>/dev/null && echo gone; mv \"$HOME\" /tmp/x 2>/dev/null && echo went\n\
         umount work/deep/project 2>/dev/null && echo unmounted; cat work/deep/project/note .app/a",
    );
    let home = project.home();
    let answer = run_in(&project, &work, &home, &["--allow", "home:.app/a"]);
    assert_eq!(answer.stdout, "note\na\n", "{answer:?}");
    assert_eq!(fs::read_to_string(home.join("work/deep/project/note")).unwrap(), "note\n");
    assert_eq!(fs::read_to_string(home.join(".app/a")).unwrap(), "a\n");
}

#[test]
fn a_link_in_the_home_finds_nothing_of_the_users() {
    if !has_mounts() {
        return;
    }
    let (project, work) = project_in_home(
        "cd; ln -s \"$HOME/.ssh\" keys; ln -s ../../.ssh work/up; ln -s \"$1\" data; ln \"$HOME/.bashrc\" rc 2>/dev/null\n\
         cat keys/id work/up/id work/deep/project/../../../.ssh/id data/metier/skill-state/*/*/current/* rc 2>/dev/null; ls /proc/self/root\"$HOME\"/.ssh 2>/dev/null; echo looked",
    );
    let home = project.home();
    symlink(home.join(".ssh"), work.join("outward")).unwrap();
    let data = home.join(".local/share");
    write(&data.join("metier/skill-state/a/b/current/file"), "STATE\n");
    let args = ["--allow", "write", "--", data.to_str().unwrap()];
    assert_eq!(run_in(&project, &work, &home, &args).stdout, "looked\n");
}

#[test]
fn nothing_that_is_mounted_is_left_in_what_a_skill_keeps() {
    if !has_mounts() {
        return;
    }
    let (project, work) =
        project_in_home("cd; ls -A; echo x >> list; cat work/deep/project/note; mkdir -p work/own");
    let home = project.home();
    let args = ["--allow", "state", "--allow", "home:.app/a"];
    for expected in [".app\nwork\nnote\n", ".app\nlist\nwork\nnote\n"] {
        assert_eq!(run_in(&project, &work, &home, &args).stdout, expected);
    }
    let current = only_state(&project).join("current");
    let left = |path: &str| current.join(path).symlink_metadata().is_ok();
    assert!(left("list") && left("work/own"), "what the script made stays");
    assert!(!left("work/deep") && !left(".app"), "and nothing else");
    let answer = run_in(&project, &work, &home, &["--allow", "state"]);
    assert_eq!(answer.stdout, "list\nwork\nnote\n", "{answer:?}");
}

#[test]
fn what_a_skill_keeps_in_the_way_of_a_mount_stays_and_leads_nowhere() {
    if !has_mounts() {
        return;
    }
    // At the level landlock nothing is mounted, and the script may make anything.
    let (project, work) = project_in_home(
        "cd; test -e work || ln -s \"$1\" work; echo \"$HOME\"; cat \"$METIER_PROJECT_DIR/note\"",
    );
    let home = project.home();
    let away = home.join("away");
    fs::create_dir(&away).unwrap();
    let args = ["run", "see", "--allow", "state", "--", away.to_str().unwrap()];
    let mut first = project.command(&args);
    first.current_dir(&work).env("METIER_SANDBOX_LEVEL", "landlock");
    assert!(first.output().unwrap().status.success());
    assert!(only_state(&project).join("current/work").is_symlink());
    let answer = run_in(&project, &work, &home, &args[2..]);
    assert!(answer.stdout.ends_with("/home\nnote\n"), "{answer:?}");
    assert!(
        !answer.stdout.starts_with(home.join(".local").to_str().unwrap()) || answer.code == 0,
        "{answer:?}"
    );
    assert_eq!(fs::read_dir(&away).unwrap().count(), 0, "no mount point is made behind the link");
    assert!(only_state(&project).join("current/work").is_symlink());
}

#[test]
fn the_script_has_its_own_folder_where_the_home_is_no_place_for_one() {
    if !has_mounts() {
        return;
    }
    let script = "echo \"$HOME\"; echo x > \"$HOME/x\" && cat \"$HOME/x\"";
    let (project, work) = project_in_home(script);
    let home = project.home();
    let link = home.with_file_name("link");
    symlink(&home, &link).unwrap();
    for other in [
        Path::new("/"),
        Path::new("/nonexistent"),
        Path::new("/var"),
        Path::new("/tmp"),
        &link,
        &work,
        home.join("absent").as_path(),
        work.join(".metier").as_path(),
    ] {
        let mut command = project.command(&["run", "see", "--project", work.to_str().unwrap()]);
        command.current_dir(&work).env("HOME", other).env("METIER_SANDBOX_LEVEL", NAMESPACES);
        // metier's own files have no place in such a home.
        for name in ["METIER_DATA_DIR", "METIER_CONFIG_DIR", "XDG_CACHE_HOME", "XDG_STATE_HOME"] {
            command.env(name, home.with_file_name("data"));
        }
        let answer: Answer = command.output().unwrap().into();
        let (shown, rest) = answer.stdout.split_once('\n').unwrap_or_else(|| panic!("{other:?} {answer:?}"));
        assert!(shown != other.to_str().unwrap() && shown.contains("metier-"), "{other:?} {answer:?}");
        assert_eq!(rest, "x\n", "{other:?} {answer:?}");
    }
}

#[test]
fn a_project_stays_where_it_was_when_a_folder_above_it_is_renamed_during_the_run() {
    if !has_mounts() {
        return;
    }
    let (project, work) = project_in_home(
        "touch began; until [ -e go ]; do sleep .01; done\n\
         cat note; cat ../../other ../../../.ssh/id 2>/dev/null; echo x > ~/work/deep/project/new; cat ~/moved/other 2>/dev/null; echo ended",
    );
    let home = project.home();
    let mut command = project.command(&["run", "see", "--allow", "write"]);
    command.current_dir(&work).env("METIER_SANDBOX_LEVEL", NAMESPACES);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while !work.join("began").exists() {
        assert!(began.elapsed() < Duration::from_mins(1), "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::rename(home.join("work"), home.join("moved")).unwrap();
    write(&home.join("work/deep/project/note"), "another\n");
    write(&home.join("moved/deep/project/go"), "");
    let answer: Answer = child.wait_with_output().unwrap().into();
    assert_eq!(answer.stdout, "note\nended\n", "{answer:?}");
    assert_eq!(fs::read_to_string(home.join("moved/deep/project/new")).unwrap(), "x\n");
    assert!(!home.join("work/deep/project/new").exists());
}

#[test]
fn an_interpreter_behind_links_in_the_home_runs_and_no_link_is_left() {
    if !has_mounts() {
        return;
    }
    // A shell under the name of an interpreter, as a version manager installs it.
    let (project, work) =
        project_in_home("python3 -c 'echo \"ran in $HOME\"'; readlink ~/.local/bin/python3; ls -A ~");
    let home = project.home();
    let program = home.join(".local/share/versions/1.0/bin/python3");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::copy("/bin/bash", &program).unwrap();
    fs::create_dir_all(home.join(".local/bin")).unwrap();
    symlink("1.0", home.join(".local/share/versions/current")).unwrap();
    symlink("../share/versions/current/bin/python3", home.join(".local/bin/python3")).unwrap();
    let path = format!("{}:{}", home.join(".local/bin").display(), std::env::var("PATH").unwrap());
    let mut command = project.command(&["run", "see", "--allow", "state"]);
    command.current_dir(&work).env("PATH", path).env("METIER_SANDBOX_LEVEL", NAMESPACES);
    let answer: Answer = command.output().unwrap().into();
    let expected =
        format!("ran in {}\n../share/versions/current/bin/python3\n.local\nwork\n", home.display());
    assert_eq!(answer.stdout, expected, "{answer:?}");
    let current = only_state(&project).join("current");
    assert_eq!(fs::read_dir(&current).unwrap().count(), 0, "no link is left");
}
