//! `metier config` and `metier doctor`: values are printed with their origins and changed without harm to what is around them.

use serde_json::json;

use super::effective;
use crate::support::cli::Project;

const TEXT: &str = "\
# What I want everywhere.
product = 'metier' # the default

[limits]
# Slow machine.
timeout = '10s'   # seconds
memory = '32MB'

[skills.x]
config.color = 'blue'
";

#[test]
fn values_are_shown_with_their_origins() {
    let project = Project::with_marker_skill()
        .user_config("limits.timeout = '10s'\n[skills.x]\ngrants = ['write']\nsecrets.TOKEN = {command = ['pass', 'x']}\nconfig.color = 'red'\n")
        .project_config("limits.timeout = '5s'\n\nskills.x.limits.memory = '1MB'\n");
    let shown = project.metier(&["config", "--origin"]).stdout;
    for line in [
        "limits.timeout = \"5s\"  # .metier/config.toml:1\n",
        "limits.output = 8388608  # default\n",
        "# limits.cpu: no limit  # default\n",
    ] {
        assert!(shown.contains(line), "{line} {shown}");
    }
    let user_file = project.user_file().display().to_string();
    let shown = project.metier(&["config", "x", "--origin"]).stdout;
    for line in [
        "skills.x.limits.timeout = \"5s\"  # .metier/config.toml:1\n".to_owned(),
        "skills.x.limits.memory = 1048576  # .metier/config.toml:3\n".to_owned(),
        "skills.x.enabled = true  # default\n".to_owned(),
        format!("skills.x.config.color = \"red\"  # {user_file}:5"),
        format!("skills.x.grants = [\"write\"]  # {user_file}:3\n"),
        format!("skills.x.secrets.TOKEN = {{ command = [\"pass\", \"x\"] }}  # {user_file}:4"),
    ] {
        assert!(shown.contains(&line), "{line} {shown}");
    }
    assert!(!project.metier(&["config", "x"]).stdout.contains("default"));
    assert_eq!(project.metier(&["config", "unknown"]).code, 3);
    let flags = project.metier(&["config", "--json", "--compat"]);
    assert_eq!(effective(&flags, "compat")["origins"], json!([{"kind": "flag", "name": "--compat"}]));
}

#[cfg(feature = "cli")]
#[test]
fn what_is_printed_is_toml_that_means_the_same() {
    let project = Project::with_marker_skill()
        .user_config("skills.x.config.\"a b\" = {c = [1, 'é\"\\n'], d = {}}\nroots = ['/r']\nskills.x.secrets.T = {env = 'T'}");
    let shown = project.metier(&["config"]).stdout;
    let again = Project::with_marker_skill().user_config(&shown);
    assert_eq!(again.metier(&["config"]).stdout, shown);
}

#[test]
fn set_and_unset_change_one_value_and_keep_comments_and_order() {
    let project = Project::with_marker_skill().user_config(TEXT);
    let set = |key: &str, value: &str| {
        let answer = project.metier(&["config", "set", key, value]);
        assert_eq!(answer.code, 0, "{answer:?}");
        std::fs::read_to_string(project.user_file()).unwrap()
    };
    assert_eq!(set("limits.timeout", "15s"), TEXT.replace("'10s'", "\"15s\""));
    let text = set("limits.cpu", "3");
    assert!(
        text.starts_with("# What I want everywhere.\n") && text.contains("memory = '32MB'\ncpu = 3\n"),
        "{text}"
    );
    let text = set("permissions.deny", "['net']");
    assert!(text.contains("deny = ['net']"), "{text}");
    let text = set("skills.y.config.list", "[1, 2]");
    assert!(text.contains("list = [1, 2]") && text.contains("# Slow machine."), "{text}");
    assert_eq!(project.metier(&["config", "unset", "limits.timeout"]).code, 0);
    assert!(!std::fs::read_to_string(project.user_file()).unwrap().contains("timeout"));
    let missing = project.metier(&["config", "unset", "limits.timeout"]);
    assert!(missing.code == 2 && missing.stderr.contains("does not set"), "{missing:?}");
    let answer = project.metier(&["config", "set", "execution", "worker", "--json"]);
    assert_eq!(answer.json()["file"], json!(project.user_file()));
}

#[test]
fn set_creates_files_that_only_their_user_can_change() {
    use std::os::unix::fs::PermissionsExt;
    let project = Project::with_marker_skill();
    assert_eq!(project.metier(&["config", "set", "limits.timeout", "9s"]).code, 0);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&project.user_file()), mode(project.user_file().parent().unwrap())), (0o600, 0o700));
    assert_eq!(project.metier(&["config", "set", "limits.timeout", "8s", "--for-project"]).code, 0);
    assert_eq!(project.read(".metier/config.toml"), "[limits]\ntimeout = \"8s\"\n");
    assert_eq!(project.run_x(&[]).json()["limits"]["timeout_ms"], 8_000);
    let left = std::fs::read_dir(project.user_file().parent().unwrap()).unwrap().count();
    assert_eq!(left, 1, "no temporary file is left");
}

#[test]
fn what_the_rules_refuse_is_not_written() {
    let project = Project::with_marker_skill().user_config(TEXT).project_config("# Mine.\n");
    for (args, expected) in [
        (&["limits.timeout", "soon"][..], "expected a time"),
        (&["limits", "5s"], "section"),
        (&["limits.timeoot", "5s"], "did you mean `limits.timeout`?"),
        (&["limits.timeout", "5s", "x"], ""),
        (&["permissions.deny", "['network']"], "network"),
        (&["limits.timeout", "20s", "--for-project"], "only lower it"),
        (&["skills.x.grants", "['write']", "--for-project"], "cannot set it"),
        (&["skills.x.secrets.T", "{env = 'HOME'}", "--for-project"], "cannot set it"),
        (&["product", "other", "--for-project"], "cannot set it"),
        (&["trust.remembered", "true", "--for-project"], "only set it to `false`"),
        (&["a..b", "1"], "not a key"),
    ] {
        let answer = project.metier(&[&["config", "set"], args].concat());
        assert!(answer.code == 2 && answer.stderr.contains(expected), "{args:?}: {answer:?}");
        assert_eq!(std::fs::read_to_string(project.user_file()).unwrap(), TEXT, "{args:?}");
        assert_eq!(project.read(".metier/config.toml"), "# Mine.\n", "{args:?}");
    }
}

#[test]
fn a_wrong_file_is_mended_value_by_value_and_a_link_stays_one() {
    let project =
        Project::with_marker_skill().user_config("limits.timeout = 'soon'\nlimits.memory = 'much'\n");
    assert_eq!(project.run_x(&[]).code, 2);
    assert_eq!(project.metier(&["config", "set", "limits.timeout", "5s"]).code, 0);
    assert_eq!(project.metier(&["config", "unset", "limits.memory"]).code, 0);
    assert_eq!(project.run_x(&[]).json()["limits"]["timeout_ms"], 5_000);
    let dotfile = project.home().join("dotfiles.toml");
    std::fs::rename(project.user_file(), &dotfile).unwrap();
    std::os::unix::fs::symlink(&dotfile, project.user_file()).unwrap();
    assert_eq!(project.metier(&["config", "set", "limits.timeout", "6s"]).code, 0);
    assert!(project.user_file().symlink_metadata().unwrap().is_symlink());
    assert!(std::fs::read_to_string(&dotfile).unwrap().contains("6s"));
}

#[test]
fn of_several_changes_at_a_time_none_is_lost() {
    let project = Project::with_marker_skill();
    for args in [&[][..], &["--for-project"]] {
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (project, key) = (&project, format!("skills.s{number}.enabled"));
                let call = move || project.metier(&[&["config", "set", &key, "false"], args].concat());
                scope.spawn(move || assert_eq!(call().code, 0));
            }
        });
        let path = if args.is_empty() { project.user_file() } else { project.path(".metier/config.toml") };
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.matches("enabled = false").count(), 8, "{text}");
    }
}

#[test]
fn a_project_file_that_is_a_link_is_not_changed() {
    let project = Project::with_marker_skill()
        .file("shared.toml", "# Shared.\n")
        .link("../shared.toml", ".metier/config.toml");
    for args in [&["set", "limits.timeout", "5s"][..], &["unset", "limits.timeout"]] {
        let answer = project.metier(&[&["config"], args, &["--for-project"]].concat());
        assert!(answer.code == 2 && answer.stderr.contains("it is a link"), "{answer:?}");
    }
    assert_eq!(project.read("shared.toml"), "# Shared.\n");
    assert!(project.path(".metier/config.toml").symlink_metadata().unwrap().is_symlink());
}

#[test]
fn whatever_is_in_a_file_can_be_removed_and_the_comment_of_a_section_stays() {
    let text =
        "limit = 1\nlimits.cpu = 'soon'\n\n# Slow machine.\n[sandbox]\nmode = 'off'\n\n[old.key]\na = 1\n";
    let project = Project::with_marker_skill().user_config(text);
    for key in ["limit", "old.key.a", "sandbox.mode", "limits.cpu"] {
        let answer = project.metier(&["config", "unset", key]);
        assert_eq!(answer.code, 0, "{key}: {answer:?}");
    }
    let left = std::fs::read_to_string(project.user_file()).unwrap();
    assert_eq!(left.trim(), "# Slow machine.\n[sandbox]");
    for (key, expected) in [("old.key.a", "does not set"), ("limits", "section"), ("unknown", "does not set")]
    {
        let answer = project.metier(&["config", "unset", key]);
        assert!(answer.code == 2 && answer.stderr.contains(expected), "{key}: {answer:?}");
    }
}

#[test]
fn nobody_reads_a_part_of_a_file_that_is_written() {
    let project = Project::with_marker_skill().user_config(TEXT);
    let file = project.user_file();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
                let text = std::fs::read_to_string(&file).unwrap();
                assert!(text.starts_with("# What I want") && text.contains("config.color"), "{text:?}");
            }
        });
        let writers: Vec<_> = (0..4)
            .map(|number| {
                let project = &project;
                scope.spawn(move || {
                    for round in 0..5 {
                        let value = format!("{}s", 1 + number * 5 + round);
                        assert_eq!(project.metier(&["config", "set", "limits.timeout", &value]).code, 0);
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
        reader.join().unwrap();
    });
}

#[test]
fn doctor_lists_the_files_and_what_is_wrong_in_them() {
    let project = Project::with_marker_skill();
    let files = |project: &Project| project.metier(&["doctor", "--json"]).json()["configuration"].clone();
    let found = files(&project);
    assert_eq!(found["files"][0], json!({"path": project.user_file(), "scope": "user", "exists": false}));
    assert_eq!(found["files"][1]["exists"], false);
    assert!(project.metier(&["doctor"]).stdout.contains("does not exist"));
    let project =
        project.user_config("limit = 1\n").project_config("\nskills.x.grants = ['write']\nproduct = 'x'\n");
    let found = files(&project);
    assert_eq!((&found["files"][0]["exists"], &found["files"][1]["exists"]), (&json!(true), &json!(true)));
    assert_eq!(found["errors"].as_array().unwrap().len(), 2);
    assert_eq!(found["errors"][0]["location"]["line"], 2);
    assert!(found["warnings"][0]["help"].as_str().unwrap().contains("did you mean `limits`?"), "{found}");
    let answer = project.metier(&["doctor"]);
    assert!(answer.code == 1 && answer.stdout.contains("2 errors\n"), "{answer:?}");
    assert!(answer.stderr.contains(".metier/config.toml:2:10: `skills.x.grants` is refused"), "{answer:?}");
}

#[test]
fn commands_that_run_nothing_of_the_project_work_with_a_wrong_configuration() {
    let project = Project::with_marker_skill().project_config("product = 'x'");
    for args in [
        &["doctor"][..],
        &["validate", ".metier/skills"],
        &["api"],
        &["config", "--schema"],
        &["completions", "bash"],
    ] {
        assert!(project.metier(args).code <= 1, "{args:?}");
    }
    // What only reads, or takes away, says what is wrong and goes on.
    for args in [
        &["list"][..],
        &["show", "x"],
        &["trust", "--list"],
        &["trust", "--revoke"],
        &["allow", "--list"],
        &["allow", "x", "--revoke"],
        &["config"],
    ] {
        let answer = project.metier(args);
        assert!(answer.code == 0 && answer.stderr.contains("`product` is refused"), "{args:?}: {answer:?}");
    }
    for args in
        [&["catalog"][..], &["test"], &["trust", "--yes"], &["allow", "x", "write"], &["lock"], &["run", "x"]]
    {
        assert_eq!(project.metier(args).code, 2, "{args:?}");
    }
}

#[test]
fn the_autonomy_is_printed_and_set_in_the_file_of_the_user() {
    let project = Project::new()
        .lua("x", "return 1")
        .file(".metier/skills/x/skill.yaml", "metadata: {risk_level: high}");
    assert!(project.metier(&["autonomy"]).stdout.starts_with("no limit"));
    assert_eq!(project.metier(&["autonomy", "--json"]).json()["autonomy"], json!(null));
    for refused in ["101", "-1", "high", "7.5"] {
        assert_eq!(project.metier(&["autonomy", refused]).code, 2, "{refused}");
    }
    let changed = project.metier(&["autonomy", "79"]);
    assert_eq!(changed.code, 0, "{changed:?}");
    let printed = project.metier(&["autonomy"]).stdout;
    assert!(printed.starts_with("79 (") && printed.contains("config.toml"), "{printed}");
    let run = |args: &[&str]| project.metier(&[&["run", "x", "--json"], args].concat());
    let for_model = run(&["--for-model", "--trust"]);
    assert_eq!(
        (for_model.code, &for_model.json()["error"]["kind"]),
        (4, &json!("autonomy")),
        "{for_model:?}"
    );
    assert_eq!(run(&[]).json()["value"], 1, "a person who types it needs none");
    let explained = run(&["--explain", "--for-model", "--trust"]).json();
    assert_eq!(explained["gates"]["autonomy"], json!({"score": 79, "required": 80}));
    assert_eq!(project.metier(&["autonomy", "80"]).code, 0);
    assert_eq!(run(&["--for-model", "--trust"]).json()["value"], 1);
    crate::support::cli::write(&project.path(".metier/config.toml"), "autonomy = 90");
    let raised = run(&[]).json();
    assert!(
        raised["error"]["message"].as_str().unwrap().contains("can only lower it, to at most 80"),
        "{raised}"
    );
    crate::support::cli::write(&project.path(".metier/config.toml"), "autonomy = 60");
    assert_eq!(run(&["--for-model", "--trust"]).json()["error"]["kind"], "autonomy");
}
