//! Hostile configuration files: what is no plain text of the right owner is refused, and nothing runs.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::cli::Project;
use super::refused;

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
        (nested("[", "]", 100_000).into_bytes(), "invalid TOML"),
        (nested("{a=", "}", 50_000).into_bytes(), "invalid TOML"),
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
        let project = Project::with_marker_skill().user_config("sandbox.mode = 'off'");
        std::fs::set_permissions(project.home().join(path), std::fs::Permissions::from_mode(mode)).unwrap();
        refused(&project, ".config/metier/config.toml", "can be written by others");
    }
    // To give a file away takes root.
    let project = Project::with_marker_skill().user_config("sandbox.mode = 'off'");
    if std::os::unix::fs::chown(project.user_file(), Some(65_534), Some(65_534)).is_ok() {
        refused(&project, ".config/metier/config.toml", "belongs to somebody else");
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
fn warnings_and_errors_of_a_file_are_bounded() {
    let text = lines(1_500, |n| format!("unknown{n} = 1"));
    let answer = Project::with_marker_skill().project_config(text).run_x(&[]);
    assert_eq!((answer.code, answer.stderr.matches("warning").count()), (0, 100));
}
