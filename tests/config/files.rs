//! Hostile configuration files: what is not plain text of the right owner is refused, and nothing runs.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::refused;
use crate::support::cli::Project;

pub fn make_fifo(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}

/// Texts that are refused in the file of anybody, and what the error says.
fn hostile_texts() -> Vec<(Vec<u8>, &'static str)> {
    let nested =
        |open: &str, close: &str, count: usize| format!("x = {}{}", open.repeat(count), close.repeat(count));
    vec![
        (vec![b'#'; 300 << 10], "larger than"),
        (b"# \xff\xfe".to_vec(), "UTF-8"),
        (b"product".to_vec(), "invalid TOML"),
        (b"limits.timeout = '1s'\nlimits.timeout = '2s'".to_vec(), "invalid TOML"),
        (b"[limits]\ntimeout = '1s'\n[limits]\nmemory = 1".to_vec(), "invalid TOML"),
        (b"limits.timeout = '1s'\n[limits]\ntimeout = '2s'".to_vec(), "invalid TOML"),
        (nested("[", "]", 100_000).into_bytes(), "nests deeper"),
        (nested("{a=", "}", 50_000).into_bytes(), "nests deeper"),
        (b"skills.x.config.y = [[[[]]]]]".to_vec(), "closes nothing"),
        (format!("skills.x.config.y = [{}]", "1,".repeat(2_001)).into_bytes(), "more than 2000 values"),
        (b"limits = 5".to_vec(), "a table"),
        (b"[[limits]]\ntimeout = '1s'".to_vec(), "a table"),
        (b"limits.timeout = 2026-01-01".to_vec(), "in quotes"),
        (b"limits.timeout = '1 fortnight'".to_vec(), "expected a time"),
        (b"limits.open_files = -1".to_vec(), "expected a number"),
        (b"limits.memory = nan".to_vec(), "not a finite number"),
        (b"sandbox.mode = 'Off'".to_vec(), "expected `required`"),
        (b"skills.x.enabled = 'no'".to_vec(), "expected `true` or `false`"),
        (b"permissions.deny = 'net'".to_vec(), "a list of permissions"),
        (b"permissions.deny = ['network']".to_vec(), "permissions.deny"),
        (format!("runtimes.disabled = [{}]", "'lua',".repeat(1_001)).into_bytes(), "more than 1000 entries"),
        (lines(3_000, |n| format!("skills.s{n}.enabled=false")).into_bytes(), "more than 2000 values"),
    ]
}

#[test]
fn a_hostile_text_is_refused_in_the_files_of_the_user_and_of_the_project() {
    for (text, expected) in hostile_texts() {
        refused(&Project::with_marker_skill().project_config(&text), ".metier/config.toml", expected);
        refused(&Project::with_marker_skill().user_config(&text), ".config/metier/config.toml", expected);
    }
}

#[test]
fn a_key_of_a_hundred_thousand_words_is_no_crash() {
    for text in [
        format!("{}a = 1", "a.".repeat(100_000)),
        format!("[{}a]", "a.".repeat(100_000)),
        format!("skills.x.config.y = {{ {}a = 1 }}", "a.".repeat(100_000)),
        format!("skills.x.config.{}a = 1", "a.".repeat(100_000)),
    ] {
        let answer = Project::with_marker_skill().project_config(text).run_x(&[]);
        assert!(
            [0, 2].contains(&answer.code),
            "{}: {}",
            answer.code,
            &answer.stderr[..answer.stderr.len().min(500)]
        );
    }
}

/// Each key is below the parser's own bound, and so is each nesting; together they are thousands of levels.
#[test]
fn keys_that_multiply_in_nested_tables_are_refused_before_anything_is_built() {
    let word = format!("{}a", "a.".repeat(78));
    let nested = |count: usize, key: &str| {
        format!("skills.x.config.y = {}1{}", format!("{{{key} = ").repeat(count), "}".repeat(count))
    };
    for text in [nested(78, &word), nested(78, &format!("'a'{}", ".a".repeat(70))), nested(640, &word)] {
        let text = format!("{text}\n{}", "# padding\n".repeat(10));
        refused(&Project::with_marker_skill().project_config(&text), ".metier/config.toml:1", "nests deeper");
        refused(&Project::with_marker_skill().user_config(&text), "config.toml:1", "nests deeper");
        let project = Project::with_marker_skill().project_config(&text);
        let answer = project.metier(&["config", "set", "limits.timeout", "5s", "--for-project"]);
        assert!(answer.code == 2 && answer.stderr.contains("nests deeper"), "{}", answer.code);
        let answer = project.metier(&["config", "set", "skills.x.config.y", &text]);
        assert!([0, 2].contains(&answer.code), "{}", answer.code);
    }
    let text = nested(6, "a.b.c.d");
    assert_eq!(Project::with_marker_skill().user_config(&text).run_x(&[]).code, 0);
}

#[test]
fn what_is_in_place_of_the_projects_file_is_refused() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("config.toml"), "limits.timeout = '1s'").unwrap();
    let target = outside.path().join("config.toml");
    let link = |project: Project| project.link(&target, ".metier/config.toml");
    let relative =
        |project: Project| project.link("../../../../../../../../etc/hostname", ".metier/config.toml");
    let dangling = |project: Project| project.link("nowhere", ".metier/config.toml");
    let folder = |project: Project| project.file(".metier/config.toml/x", "");
    let fifo = |project: Project| {
        make_fifo(&project.path(".metier/config.toml"));
        project
    };
    let device = |project: Project| project.link("/dev/zero", ".metier/config.toml");
    let unreadable = |project: Project| {
        if rustix::process::geteuid().is_root() {
            return project.project_config("x");
        }
        let project = project.project_config("");
        let mode = std::fs::Permissions::from_mode(0o0);
        std::fs::set_permissions(project.path(".metier/config.toml"), mode).unwrap();
        project
    };
    let places: [&dyn Fn(Project) -> Project; 7] =
        [&link, &relative, &dangling, &folder, &fifo, &device, &unreadable];
    for (number, place) in places.into_iter().enumerate() {
        let project = place(Project::with_marker_skill());
        if number == 6 && rustix::process::geteuid().is_root() {
            continue;
        }
        refused(&project, ".metier/config.toml", "failed to read the configuration file");
    }
}

#[test]
fn a_link_inside_the_project_is_followed_and_its_target_is_protected() {
    let project = Project::with_marker_skill()
        .file("shared.toml", "limits.timeout = '9s'")
        .link("../shared.toml", ".metier/config.toml");
    assert_eq!(project.run_x(&[]).json()["limits"]["timeout_ms"], 9_000);
    let project = project.file(".metier/skills/x/scripts/main.lua", "ctx.write('shared.toml', '') return 1");
    assert_eq!(project.run_x(&[]).json()["error"]["kind"], "denied");
}

#[test]
fn what_is_in_place_of_the_users_file_is_refused() {
    let project = Project::with_marker_skill();
    std::fs::create_dir_all(project.user_file()).unwrap();
    refused(&project, ".config/metier/config.toml", "failed to read the configuration file");
    let project = Project::with_marker_skill();
    make_fifo(&project.user_file());
    refused(&project, ".config/metier/config.toml", "not a regular file");
    let project = Project::with_marker_skill().user_config("");
    std::fs::remove_file(project.user_file()).unwrap();
    std::os::unix::fs::symlink("/dev/zero", project.user_file()).unwrap();
    refused(&project, ".config/metier/config.toml", "not a regular file");
    // A link to a file of the user's own is what many people have.
    let project = Project::with_marker_skill().user_config("");
    let dotfile = project.home().join("dotfiles/metier.toml");
    super::write(&dotfile, "limits.timeout = '9s'");
    std::fs::remove_file(project.user_file()).unwrap();
    std::os::unix::fs::symlink(&dotfile, project.user_file()).unwrap();
    assert_eq!(project.run_x(&[]).json()["limits"]["timeout_ms"], 9_000);
    std::fs::remove_file(&dotfile).unwrap();
    std::fs::remove_file(project.path(super::MARKER)).unwrap();
    refused(&project, ".config/metier/config.toml", "failed to read the configuration file");
}

#[test]
fn a_user_file_that_others_can_write_or_own_is_refused() {
    for (path, mode) in [
        (".config/metier/config.toml", 0o666),
        (".config/metier/config.toml", 0o664),
        (".config/metier", 0o777),
        (".config", 0o775),
    ] {
        // Nobody but the user is in a group of the user's own number.
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let mode = if user == group && user != 0 { mode | 0o002 } else { mode };
        let project = Project::with_marker_skill().user_config("sandbox.mode = 'off'");
        std::fs::set_permissions(project.home().join(path), std::fs::Permissions::from_mode(mode)).unwrap();
        refused(&project, ".config/metier/config.toml", "can be written by others");
        let help = project.run_x(&[]).json()["error"]["help"].to_string();
        let expected = format!("chmod go-w {}", project.home().join(path).canonicalize().unwrap().display());
        assert!(help.contains(&expected), "{help}");
    }
    // So is one to which a link in such a folder leads.
    let project = Project::with_marker_skill().user_config("");
    let dotfile = project.home().join("dotfiles/metier.toml");
    super::write(&dotfile, "limits.timeout = '9s'");
    std::fs::remove_file(project.user_file()).unwrap();
    std::os::unix::fs::symlink(&dotfile, project.user_file()).unwrap();
    let mode = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(project.user_file().parent().unwrap(), mode).unwrap();
    refused(&project, ".config/metier/config.toml", "can be written by others");
    // To give a file away takes root.
    let project = Project::with_marker_skill().user_config("sandbox.mode = 'off'");
    if std::os::unix::fs::chown(project.user_file(), Some(65_534), Some(65_534)).is_ok() {
        refused(&project, ".config/metier/config.toml", "belongs to somebody else");
    }
}

/// What a project brings to a shell, as direnv does, cannot name the configuration of the user.
#[test]
fn no_folder_in_a_project_and_no_relative_one_is_that_of_the_user() {
    let text = "sandbox.mode = 'off'\n[skills.x]\ngrants = ['write']\n";
    for (folder, expected) in [
        ("own", "METIER_CONFIG_DIR"),
        ("./own", "METIER_CONFIG_DIR"),
        ("ABSOLUTE", "which is a project or a skill"),
    ] {
        let project = Project::with_marker_skill().file("own/config.toml", text);
        let named = if folder == "ABSOLUTE" { project.path("own") } else { folder.into() };
        let call = |args: &[&str]| -> super::Answer {
            project.command(args).env("METIER_CONFIG_DIR", &named).output().unwrap().into()
        };
        let answer = call(&["run", "x", "--allow", "write", "--json"]);
        let error = answer.json()["error"].clone();
        assert_eq!((answer.code, &error["kind"]), (2, &"usage".into()), "{answer:?}");
        assert!(error["message"].as_str().unwrap().contains(expected), "{error}");
        assert!(!project.path(super::MARKER).exists());
        let answer = call(&["config", "set", "limits.timeout", "5s"]);
        assert!(answer.code == 2 && answer.stderr.contains(expected), "{answer:?}");
        assert_eq!(project.read("own/config.toml"), text);
    }
}

#[test]
fn control_characters_reach_no_terminal() {
    let hostile = "\\u001b]0;owned\\u0007\\u202e\\u009b31m";
    for text in [
        format!("skills.x.config.\"{hostile}\" = \"{hostile}\""),
        format!("\"{hostile}\" = 1"),
        format!("skills.\"{hostile}\".enabled = true"),
        format!("runtimes.disabled = [\"{hostile}\"]"),
        format!("permissions.deny = [\"{hostile}\"]"),
        format!("sandbox.mode = \"{hostile}\""),
    ] {
        let project = Project::with_marker_skill().project_config(&text);
        for args in [
            &["config", "--origin"][..],
            &["config", "x", "--origin"],
            &["config", "--json"],
            &["doctor"],
            &["run", "x"],
        ] {
            let answer = project.metier(args);
            let shown = format!("{}{}", answer.stdout, answer.stderr);
            let is_obeyed = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
            assert!(!shown.contains(is_obeyed), "{text} {args:?}: {shown:?}");
        }
    }
}

#[test]
fn a_runtime_that_does_not_exist_is_a_warning() {
    use metier::executor::RuntimeId;
    let project = Project::with_marker_skill().project_config("\nruntimes.disabled = ['extrenal']");
    let answer = project.metier(&["config"]);
    let expected = ".metier/config.toml:2: metier has no runtime `extrenal`";
    assert!(answer.code == 0 && answer.stderr.contains(expected), "{answer:?}");
    assert!(answer.stderr.contains("did you mean `external`?"), "{answer:?}");
    let known = [
        RuntimeId::LUA,
        RuntimeId::RHAI,
        RuntimeId::WASM,
        RuntimeId::TOOL_SEQUENCE,
        RuntimeId::HTTP_CALL,
        RuntimeId::EXTERNAL,
    ];
    let names = known.map(|runtime| format!("'{}'", runtime.name())).join(",");
    let answer = Project::with_marker_skill().project_config(format!("runtimes.disabled = [{names}]"));
    assert!(!answer.metier(&["config"]).stderr.contains("no runtime"));
}

#[test]
fn warnings_and_errors_of_a_file_are_bounded() {
    let text = lines(1_500, |n| format!("unknown{n} = 1"));
    let answer = Project::with_marker_skill().project_config(text).run_x(&[]);
    assert_eq!((answer.code, answer.stderr.matches("warning").count()), (0, 100));
}
