//! What is kept, and for whom.

use serde_json::json;

use crate::state::{ADD, LEVELS, metier_at, only_state, store};
use crate::support::cli::{Project, write};
use crate::support::not_run::{find_program, not_run};

#[test]
fn what_a_script_leaves_in_its_home_is_there_in_the_next_run() {
    for level in LEVELS {
        let project = Project::new().shell("list", ADD);
        for (word, list) in [("one", "one\n"), ("two", "one\ntwo\n")] {
            let answer = metier_at(&project, level, &["run", "list", "--allow", "state", "--", word]);
            assert_eq!((answer.code, answer.stdout.as_str()), (0, list), "{level}: {answer:?}");
            assert!(!answer.stderr.contains("thrown away"), "{answer:?}");
        }
        assert!(!only_state(&project).join("home").exists());
    }
}

#[test]
fn the_data_folder_of_a_plugin_is_the_home_that_is_kept() {
    let add = "echo x >> \"$CLAUDE_PLUGIN_DATA/list\" && cat \"$HOME/list\"";
    for level in LEVELS {
        let project = Project::new().shell("list", add);
        for list in ["x\n", "x\nx\n"] {
            let answer = metier_at(&project, level, &["run", "list", "--allow", "state"]);
            assert_eq!((answer.code, answer.stdout.as_str()), (0, list), "{level}: {answer:?}");
        }
        let own = metier_at(&project, level, &["run", "list", "--env", "CLAUDE_PLUGIN_DATA=/tmp"]);
        assert!(own.code != 0 && own.stderr.contains("list"), "{level}: {own:?}");
    }
}

#[test]
fn what_a_script_keeps_can_be_locked_as_any_file_in_its_home() {
    let lock = "exec 9>\"$HOME/list.lock\"; flock -w 5 9 && echo locked; ( flock -n \"$HOME/list.lock\" echo twice || echo held ) 9>&-";
    if find_program("flock").is_none() {
        return not_run("locks of files that are kept", "flock is not installed");
    }
    let project = Project::new().shell("lock", lock);
    let sandbox = metier_at(&project, "namespaces", &["run", "lock", "--json"]).json();
    if sandbox["sandbox"]["level"] != "namespaces" {
        return not_run("locks of files that are kept", "this machine has no namespaces");
    }
    for _ in 0..2 {
        let answer = metier_at(&project, "namespaces", &["run", "lock", "--allow", "state"]);
        assert_eq!((answer.code, answer.stdout.as_str()), (0, "locked\nheld\n"), "{answer:?}");
    }
}

#[test]
fn without_the_permission_a_run_says_that_its_files_were_thrown_away() {
    let project = Project::new().shell("list", ADD);
    for level in LEVELS {
        let answer = metier_at(&project, level, &["run", "list", "--", "one"]);
        assert_eq!((answer.code, answer.stdout.as_str()), (0, "one\n"), "{answer:?}");
        assert!(answer.stderr.contains("thrown away: list"), "{answer:?}");
        assert!(
            answer.stderr.contains("grant state") || answer.stderr.contains("--allow state"),
            "{answer:?}"
        );
    }
    assert!(!store(&project).exists());
}

#[test]
fn a_skill_that_does_not_list_the_permission_gets_the_hint_to_list_it() {
    let contract = "permissions: [write:out]\n";
    let project = Project::new().shell("list", ADD).file(".metier/skills/list/skill.yaml", contract);
    let answer = project.metier(&["run", "list", "--allow", "state", "--", "one"]);
    assert!(answer.stderr.contains("thrown away") && answer.stderr.contains("skill.yaml"), "{answer:?}");
    assert!(!store(&project).exists());
}

#[test]
fn caches_and_temporary_files_are_not_missed() {
    let script =
        "mkdir -p \"$HOME/.cache/x\"; echo x > \"$HOME/.cache/x/y\"; mktemp >&2; mkdir \"$HOME/empty\"";
    let project = Project::new().shell("quiet", script);
    let answer = project.metier(&["run", "quiet"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(!answer.stderr.contains("thrown away"), "{answer:?}");
}

#[test]
fn a_run_that_fails_by_itself_keeps_what_it_wrote_and_one_that_is_stopped_does_not() {
    let project = Project::new()
        .shell("list", ADD)
        .shell("fail", "echo kept > \"$HOME/list\"; exit 3")
        .shell("show", "cat \"$HOME/list\"");
    // The same skill has both scripts: the state is that of the skill.
    let scripts = ".metier/skills/list/scripts";
    write(&project.path(&format!("{scripts}/fail.sh")), "echo failed >> \"$HOME/list\"; exit 3");
    write(&project.path(&format!("{scripts}/slow.sh")), "echo slow >> \"$HOME/list\"; sleep 60");
    let run = |script: &str, more: &[&str]| {
        let script = format!("scripts/{script}.sh");
        let args = ["run", "list", "--allow", "state", "--script", script.as_str()];
        project.metier(&[&args, more].concat())
    };
    assert_eq!(run("main", &["--", "one"]).code, 0);
    let failed = run("fail", &[]);
    assert_eq!(failed.code, 1, "{failed:?}");
    let slow = run("slow", &["--timeout", "1s"]);
    assert_eq!(slow.code, 5, "{slow:?}");
    assert_eq!(run("main", &["--", "two"]).stdout, "one\nfailed\ntwo\n");
}

#[test]
fn state_is_remembered_like_any_other_grant() {
    let project = Project::new().shell("list", ADD);
    let trusted = project.metier(&["trust", "--yes"]);
    assert_eq!(trusted.code, 0, "{trusted:?}");
    let allowed = project.metier(&["allow", "list", "state"]);
    assert_eq!(allowed.code, 0, "{allowed:?}");
    project.metier(&["run", "list", "--", "one"]);
    let answer = project.metier(&["run", "list", "--", "two"]);
    assert_eq!(answer.stdout, "one\ntwo\n", "{answer:?}");
    let shown = project.metier(&["allow", "--list"]);
    assert!(shown.stdout.contains("state"), "{shown:?}");
}

#[test]
fn the_user_grants_it_in_the_configuration_and_the_project_cannot() {
    let config = "[skills.list]\ngrants = [\"state\"]\n";
    let project = Project::new().shell("list", ADD);
    project.metier(&["trust", "--yes"]);
    write(&project.path(".metier/config.toml"), config);
    project.metier(&["run", "list", "--", "one"]);
    assert!(!store(&project).exists(), "the file of the project granted it");
    std::fs::remove_file(project.path(".metier/config.toml")).unwrap();
    write(&project.home().join(".config/metier/config.toml"), config);
    project.metier(&["run", "list", "--", "one"]);
    assert_eq!(project.metier(&["run", "list", "--", "two"]).stdout, "one\ntwo\n");
    write(&project.path(".metier/config.toml"), "[permissions]\ndeny = [\"state\"]\n");
    assert_eq!(project.metier(&["run", "list", "--", "three"]).stdout, "three\n");
}

#[test]
fn python_keeps_a_database_and_its_times_and_links() {
    let script = r#"
import json, os, sqlite3
home = os.environ["HOME"]
base = sqlite3.connect(home + "/base.db")
base.execute("create table if not exists runs (number)")
base.execute("insert into runs values (1)")
base.commit()
if not os.path.lexists(home + "/link"):
    os.symlink("base.db", home + "/link")
    os.symlink("/nowhere\n", home + "/odd\nname")
    open(home + "/old", "w").close()
    os.utime(home + "/old", (1, 1))
print(json.dumps({
    "runs": base.execute("select count(*) from runs").fetchone()[0],
    "links": [os.readlink(home + "/link"), os.readlink(home + "/odd\nname")],
    "old": os.stat(home + "/old").st_mtime,
}))
"#;
    let project =
        Project::new().skill(".metier/skills/base").file(".metier/skills/base/scripts/main.py", script);
    for level in LEVELS {
        project.metier(&["state", "--clear", "--all", "--yes"]);
        for runs in 1..=2 {
            let answer = metier_at(&project, level, &["run", "base", "--allow", "state", "--json"]);
            let value = json!({"runs": runs, "links": ["base.db", "/nowhere\n"], "old": 1.0});
            assert_eq!(answer.json()["value"], value, "{level}: {answer:?}");
        }
    }
}

#[test]
fn a_worker_keeps_state_too() {
    let script = r#"
import json, os, sys
path = os.environ["HOME"] + "/count"
for line in sys.stdin:
    request = json.loads(line)
    count = int(open(path).read()) + 1 if os.path.exists(path) else 1
    open(path, "w").write(str(count))
    print(json.dumps({"id": request["id"], "ok": count}), flush=True)
"#;
    let text = "---\nname: count\ndescription: d\nmetadata:\n  worker: json-lines\n---\n";
    let project = Project::new()
        .file(".metier/skills/count/SKILL.md", text)
        .file(".metier/skills/count/scripts/main.py", script);
    for count in 1..=2 {
        let answer = project.metier(&["run", "count", "--allow", "state", "--json"]);
        assert_eq!(answer.json()["value"], count, "{answer:?}");
    }
}

#[test]
fn an_update_of_the_skill_finds_what_the_version_before_kept() {
    let project = Project::new().shell("list", ADD);
    project.metier(&["run", "list", "--allow", "state", "--", "one"]);
    let text = "---\nname: list\ndescription: d\nmetadata:\n  version: 2.0.0\n---\n";
    write(&project.path(".metier/skills/list/SKILL.md"), text);
    let answer = project.metier(&["run", "list", "--allow", "state", "--json", "--", "two"]).json();
    assert_eq!((&answer["version"], &answer["value"]), (&"2.0.0".into(), &"one\ntwo\n".into()), "{answer}");
}

#[test]
fn a_process_may_use_the_folder_of_a_grant_that_does_not_exist_yet() {
    let project = Project::new().shell("make", "mkdir -p out/deep && echo made > out/deep/file");
    for level in LEVELS {
        let answer = metier_at(&project, level, &["run", "make", "--allow", "write:out/deep"]);
        assert_eq!(
            (answer.code, project.read("out/deep/file").as_str()),
            (0, "made\n"),
            "{level}: {answer:?}"
        );
        std::fs::remove_dir_all(project.path("out")).unwrap();
    }
}

#[test]
fn a_file_that_does_not_exist_is_written_or_refused_before_the_run_in_workers() {
    let head = |more: &str| format!("---\nname: make\ndescription: d\n{more}---\n");
    let lua = "ctx.write('report.md', 'made') return 'done'";
    let rhai = "ctx.write(\"report.md\", \"made\"); \"done\"";
    let raw = "import json, sys\nfor line in sys.stdin:\n    request = json.loads(line)\n    open('begun', 'w').close()\n    open('report.md', 'w').write('made')\n    print(json.dumps({'id': request['id'], 'ok': 'done'}), flush=True)\n";
    let client = "from metier import ctx, serve\ndef run(input):\n    ctx.write('report.md', 'made')\n    return 'done'\nserve(run)\n";
    let (listed, worker) = ("allowed-tools: write:report.md\n", "metadata:\n  worker: json-lines\n");
    for (script, text, more, exists) in [
        ("main.lua", lua, listed, false),
        ("main.rhai", rhai, listed, false),
        ("main.py", client, worker, false),
        ("main.py", raw, worker, true),
        ("main.py", raw, worker, false),
    ] {
        for level in LEVELS {
            let folder = ".metier/skills/make";
            let project = Project::new()
                .file(&format!("{folder}/SKILL.md"), head(more))
                .file(&format!("{folder}/scripts/{script}"), text);
            if exists {
                write(&project.path("report.md"), "");
                write(&project.path("begun"), "");
            }
            let grants = ["--allow", "write:report.md", "--allow", "write:begun"];
            // A grant of a file that is there opens it.
            let grants = if exists { &grants[..] } else { &grants[..2] };
            let answer =
                metier_at(&project, level, &[&["run", "make", "--execution", "worker"], grants].concat());
            if text == raw && !exists && level == "namespaces" {
                // In a copy of the project, from which the granted file alone is taken.
                let found = (answer.code, answer.stdout.trim(), &*project.read("report.md"));
                assert_eq!(found, (0, "done", "made"), "{answer:?}");
                assert!(!project.path("begun").exists(), "{answer:?}");
            } else if text == raw && !exists {
                assert!(answer.code == 4 && !project.path("begun").exists(), "{level}: {answer:?}");
                let help = "create report.md before the run, or run with --allow write as well";
                assert!(answer.stderr.contains(help), "{level}: {answer:?}");
            } else {
                let found = (answer.code, answer.stdout.trim(), &*project.read("report.md"));
                assert_eq!(found, (0, "done", "made"), "{script} {level}: {answer:?}");
            }
        }
    }
}

#[test]
fn a_grant_of_a_file_that_does_not_exist_is_refused_before_the_run_unless_something_else_opens_it() {
    let project = Project::new()
        .shell("report", "echo begun > \"$TMPDIR/begun\"; echo begun; echo made > report.md")
        .shell("call", "metier ctx write report.md made");
    let run = |level: &str, skill: &str, grants: &[&str]| {
        let grants = grants.iter().flat_map(|grant| ["--allow", grant]);
        metier_at(&project, level, &["run", skill].into_iter().chain(grants).collect::<Vec<_>>())
    };
    // With namespaces it runs in a copy of the project, from which that file alone is taken.
    let level = "landlock";
    let refused = run(level, "report", &["write:report.md"]);
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(refused.code == 4 && !said.contains("begun"), "{level}: {refused:?}");
    assert!(
        said.contains("write:report.md opens nothing to a script in a sandbox: report.md does not exist"),
        "{said}"
    );
    assert!(said.contains("create report.md before the run, or run with --allow write as well"), "{said}");
    assert!(!project.path("report.md").exists());
    for (skill, grants) in [("report", &["write:report.md", "write"][..]), ("call", &["write:report.md"])] {
        let made = run(level, skill, grants);
        assert!(made.code == 0 && project.read("report.md").starts_with("made"), "{level}: {made:?}");
        std::fs::remove_file(project.path("report.md")).unwrap();
    }
    write(&project.path("report.md"), "");
    assert_eq!(run(level, "report", &["write:report.md"]).code, 0, "{level}");
    std::fs::remove_file(project.path("report.md")).unwrap();
}

#[test]
fn a_script_that_creates_the_folder_of_its_permission_learns_that_it_is_there() {
    let python = "import os\nos.mkdir('out')";
    let node = "require('fs').mkdirSync('out')";
    for (script, text) in [
        ("main.sh", "mkdir out"),
        ("main.sh", "echo x > out"),
        ("main.sh", "mkdir \"$PWD/out\""),
        ("main.py", python),
        ("main.py", "open('out', 'w')"),
        ("main.cjs", node),
    ] {
        for level in LEVELS {
            let project = Project::new()
                .file(
                    ".metier/skills/make/SKILL.md",
                    "---\nname: make\ndescription: d\nallowed-tools: write\n---\n",
                )
                .file(&format!(".metier/skills/make/scripts/{script}"), text);
            let run = || metier_at(&project, level, &["run", "make", "--allow", "write:out"]);
            let failed = run();
            let help = "metier creates the folder out before the run, since write:out opens only what exists; make it with `mkdir -p`";
            assert!(failed.code == 1 && failed.stderr.contains(help), "{level} {text}: {failed:?}");
            write(&project.path("out/mine"), "");
            assert!(!run().stderr.contains("metier creates"), "{level} {text}");
        }
    }
}
