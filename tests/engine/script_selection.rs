//! Which script of a skill runs.

use metier::engine::Invocation;
use metier::error::ErrorKind;
use serde_json::json;

use crate::support::engine::{Project, kind, sentence, value};

const FOLDER: &str = ".metier/skills/x";

/// A skill with this text and these files.
fn skill(text: &str, files: &[(&str, &str)]) -> Project {
    let head = format!("---\nname: x\ndescription: d\n---\n{text}\n");
    let project = Project::new().file(&format!("{FOLDER}/SKILL.md"), head);
    files.iter().fold(project, |project, (path, source)| project.file(&format!("{FOLDER}/{path}"), *source))
}

#[test]
fn a_script_is_named_without_its_extension() {
    let project =
        skill("", &[("scripts/fit.sh", "printf fit"), ("scripts/outlier_detector.sh", "printf outlier")]);
    let run = |script: &str| project.engine().run(Invocation::new("x").script(script));
    for name in [
        "outlier_detector",
        "outlier_detector.sh",
        "scripts/outlier_detector",
        "./scripts/outlier_detector.sh",
    ] {
        assert_eq!(value(run(name)), json!("outlier"), "{name}");
    }
    assert_eq!(kind(&run("outlier")), ErrorKind::UnknownSkill);
    let project = project.file(&format!("{FOLDER}/scripts/fit.bash"), "printf other");
    let several = project.engine().run(Invocation::new("x").script("fit"));
    assert_eq!(kind(&several), ErrorKind::Usage);
    assert_eq!(sentence(&several), "skill x has several scripts: scripts/fit.bash, scripts/fit.sh");
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_script() {
    let run = |path: &str, text: &str| skill("", &[(path, text)]).engine().run(Invocation::new("x"));
    let mut scripts = vec![("scripts/main.lua", "return 1"), ("scripts/main.rhai", "1")];
    if cfg!(unix) {
        // The kernel finds no interpreter behind a mark, and is not asked.
        scripts.extend([("scripts/main", "#!/bin/sh\nprintf 1"), ("scripts/main.sh", "printf 1")]);
    }
    for (path, text) in scripts {
        let outcome = run(path, &format!("\u{feff}{text}"));
        if path == "scripts/main.sh" {
            // A shell takes the mark for a part of its first word.
            assert!(outcome.result.is_err(), "{path}");
        } else {
            assert_eq!(value(outcome), json!(1), "{path}");
        }
    }
    for (path, text) in [("scripts/main.lua", "return = 1"), ("scripts/main.rhai", "let = 1;")] {
        let place = |text: &str| {
            let outcome = run(path, text);
            outcome.result.unwrap_err().location().map(|at| (at.file.clone(), at.line, at.column))
        };
        assert!(place(text).is_some(), "{path}");
        assert_eq!(place(&format!("\u{feff}{text}")), place(text), "{path}");
    }
}

#[cfg(unix)]
#[test]
fn a_script_that_is_a_link_out_of_its_skill_is_named_as_one() {
    let project = skill("", &[]).file("shared/tool.sh", "printf shared");
    std::fs::create_dir_all(project.path(&format!("{FOLDER}/scripts"))).unwrap();
    std::os::unix::fs::symlink(
        "../../../../shared/tool.sh",
        project.path(&format!("{FOLDER}/scripts/tool.sh")),
    )
    .unwrap();
    for name in ["tool.sh", "scripts/tool.sh"] {
        let outcome = project.engine().run(Invocation::new("x").script(name));
        assert_eq!(kind(&outcome), ErrorKind::UnknownSkill, "{name}");
        let help = outcome.result.unwrap_err().help().unwrap_or_default().to_owned();
        assert!(help.contains("a link out of the skill's folder"), "{name}: {help}");
    }
}

#[cfg(unix)]
#[test]
fn a_hidden_script_runs_where_somebody_names_it() {
    let project = skill(
        "Run .maintenance/check.sh.",
        &[
            (".maintenance/check.sh", "printf 1"),
            ("scripts/.hidden/run", "#!/bin/sh\nprintf 2"),
            (".check.lua", "return 3"),
            ("scripts/.own.sh", "printf 4"),
            ("scripts/.notes", "text"),
            (".maintenance/notes.txt", "text"),
            (".env.lua", "return 'secret'"),
            (".ssh/run.sh", "printf secret"),
        ],
    );
    let folder = project.path(FOLDER);
    std::os::unix::fs::symlink("check.sh", folder.join(".maintenance/link.sh")).unwrap();
    std::os::unix::fs::symlink(".maintenance", folder.join(".linked")).unwrap();
    let run = |script: &str| project.engine().run(Invocation::new("x").script(script));
    for (script, expected) in [
        (".maintenance/check.sh", 1),
        ("./.maintenance/check.sh", 1),
        ("scripts/.hidden/run", 2),
        (".hidden/run", 2),
        (".check.lua", 3),
        ("scripts/.own.sh", 4),
        (".own.sh", 4),
    ] {
        assert_eq!(value(run(script)), json!(expected), "{script}");
    }
    for script in [
        ".maintenance/notes.txt",
        ".maintenance/link.sh",
        ".linked/check.sh",
        "scripts/.notes",
        ".env.lua",
        ".ssh/run.sh",
        ".maintenance/../.maintenance/check.sh",
        ".maintenance//check.sh",
        ".maintenance",
        "../x/.maintenance/check.sh",
    ] {
        assert_eq!(kind(&run(script)), ErrorKind::UnknownSkill, "{script}");
    }
    assert_eq!(kind(&project.engine().run(Invocation::new("x"))), ErrorKind::Unavailable, "none is inferred");
    let entered = skill("", &[(".maintenance/check.sh", "printf 1")])
        .file(&format!("{FOLDER}/skill.yaml"), "entrypoint: .maintenance/check.sh\n");
    assert_eq!(value(entered.engine().run(Invocation::new("x"))), json!(1));
}

#[test]
fn what_is_only_imported_and_what_tests_is_no_script_to_run() {
    let project = skill(
        "",
        &[
            ("scripts/report.sh", "#!/bin/sh\n. \"$(dirname \"$0\")/common.sh\"\nsay report"),
            ("scripts/common.sh", "say() { printf \"said $1\"; }"),
            ("scripts/test_report.sh", "exit 1"),
            ("scripts/__init__.py", ""),
        ],
    );
    assert_eq!(value(project.run(&[])), json!("said report"));
    let tested = project.engine().run(Invocation::new("x").script("test_report"));
    assert_eq!(kind(&tested), ErrorKind::Script, "it runs for whoever names it");
}

#[test]
fn a_script_elsewhere_runs_if_the_text_names_it_alone() {
    let files = [("convert.sh", "printf converted"), ("tools/check.sh", "printf checked")];
    let run = |text: &str| skill(text, &files).run(&[]);
    assert_eq!(value(run("Run `./convert.sh` with a file.")), json!("converted"));
    assert_eq!(value(run("Run bash {baseDir}/tools/check.sh.")), json!("checked"));
    assert_eq!(kind(&run("It converts.")), ErrorKind::Unavailable);
    let both = run("Run convert.sh, then tools/check.sh.");
    assert_eq!(
        (kind(&both), sentence(&both)),
        (ErrorKind::Usage, "skill x has several scripts: convert.sh, tools/check.sh".to_owned())
    );
    let mut with_scripts = files.to_vec();
    with_scripts.push(("scripts/a.sh", "printf a"));
    let project = skill("Run convert.sh.", &with_scripts);
    let engine = project.engine();
    let listed = engine.scripts(engine.registry().find("x").unwrap()).unwrap();
    assert_eq!(listed, ["scripts/a.sh", "convert.sh"]);
    assert_eq!(value(skill("Run convert.sh.", &with_scripts).run(&[])), json!("a"), "scripts/ comes first");
}

#[test]
fn a_script_in_a_subfolder_is_found_by_the_text_that_names_it() {
    let files = [("scripts/office/unpack.sh", "printf unpacked"), ("scripts/office/lib.sh", "exit 1")];
    assert_eq!(value(skill("Run scripts/office/unpack.sh.", &files).run(&[])), json!("unpacked"));
    let project = skill("It unpacks.", &files);
    assert_eq!(kind(&project.run(&[])), ErrorKind::Unavailable);
    let named = project.engine().run(Invocation::new("x").script("scripts/office/unpack.sh"));
    assert_eq!(value(named), json!("unpacked"));
}

#[test]
fn who_cannot_name_a_script_is_told_how_the_skill_gets_a_main_one() {
    let scripts = [("scripts/a.lua", "return 'a'"), ("scripts/b.lua", "return 'b'")];
    let call = "---\nname: caller\ndescription: d\nallowed-tools: skill:x\n---\n";
    let with_caller = |project: Project| {
        project
            .file(".metier/skills/caller/SKILL.md", call)
            .file(".metier/skills/caller/scripts/main.lua", "return ctx.skill('x')")
            .file(".metier/skills/plan/skill.yaml", "name: plan\ndescription: d\nsteps: [{skill: x}]\n")
    };
    let help = "a caller cannot name one: set `entrypoint` under metadata in its SKILL.md, or the setting skills.x.script";
    let run = |project: &Project, name: &str| {
        project.engine().run(Invocation::new(name).grant("skill:x".parse().unwrap()))
    };
    let project = with_caller(skill("", &scripts));
    for name in ["caller", "plan"] {
        let outcome = run(&project, name);
        assert_eq!(outcome.result.unwrap_err().help(), Some(help), "{name}");
    }
    let head = "---\nname: x\ndescription: d\nmetadata: {entrypoint: scripts/b.lua}\n---\n";
    let project = project.file(&format!("{FOLDER}/SKILL.md"), head);
    assert_eq!(value(run(&project, "caller")), json!("b"), "what the help says works");
}

#[cfg(unix)]
#[test]
fn the_error_of_a_shell_script_with_line_ends_of_windows_says_so() {
    let help = |path: &str, text: &str| {
        let outcome = skill("", &[(path, text)]).engine().run(Invocation::new("x"));
        outcome.result.unwrap_err().help().unwrap_or_default().to_owned()
    };
    for (path, text) in [
        ("scripts/main.sh", "#!/bin/sh\r\nset -e\r\nprintf 1\r\nexit 1\r\n"),
        ("scripts/main", "#!/bin/sh\r\nno-such-command\r\n"),
        ("scripts/main.sh", "set -o pipefail\r\n"),
    ] {
        assert!(
            help(path, text).contains("its lines end in CR LF, as on Windows"),
            "{text:?}: {}",
            help(path, text)
        );
    }
    assert!(help("scripts/main.sh", "\u{feff}no-such-command\n").contains("begins with a byte order mark"));
    assert!(!help("scripts/main.sh", "exit 1\n").contains("CR LF"));
}
