//! Which script of a skill runs.

use metier::engine::Invocation;
use metier::error::ErrorKind;
use serde_json::json;

use crate::project::{Project, kind, sentence, value};

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
