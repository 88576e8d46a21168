//! Scripts that write beside themselves.

use crate::cli::{Project, write};
use crate::{LEVELS, metier_at};

const SCRIPT: &str = r#"echo "$1" > "$METIER_SKILL_DIR/new.txt" && mkdir -p "$METIER_SKILL_DIR/data" && echo x > "$METIER_SKILL_DIR/data/x""#;
const RUN: [&str; 5] = ["run", "own", "--allow", "own-folder", "--"];

#[test]
fn a_script_writes_beside_itself_with_the_permission_only() {
    for level in LEVELS {
        let project = Project::new().shell("own", SCRIPT).shell("other", "true");
        let denied = metier_at(&project, level, &["run", "own", "--", "one"]);
        assert_ne!(denied.code, 0, "{level}: {denied:?}");
        assert!(denied.stderr.contains("--allow own-folder"), "{level}: {denied:?}");
        let answer = metier_at(&project, level, &[&RUN[..], &["one"]].concat());
        assert_eq!(answer.code, 0, "{level}: {answer:?}");
        assert!(answer.stderr.contains("changed files of the skill own"), "{answer:?}");
        assert_eq!(project.read(".metier/skills/own/new.txt"), "one\n");
        let others = "echo x >> \"$METIER_SKILL_DIR/../other/SKILL.md\"";
        write(&project.path(".metier/skills/own/scripts/main.sh"), others);
        let outside = metier_at(&project, level, &[&RUN[..], &["one"]].concat());
        assert_ne!(outside.code, 0, "{level}: {outside:?}");
    }
}

#[test]
fn what_it_adds_takes_trust_away_unless_the_contract_lists_it() {
    let script = "echo \"$1\" >> \"$METIER_SKILL_DIR/data/list\"";
    for (contract, is_trusted) in [("state: [data]\n", true), ("", false)] {
        let project = Project::new()
            .shell("own", script)
            .file(".metier/skills/own/skill.yaml", format!("permissions: [own-folder]\n{contract}"))
            .file(".metier/skills/own/data/first", "");
        assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
        assert_eq!(project.metier(&["allow", "own", "own-folder"]).code, 0);
        let first = project.metier(&["run", "own", "--", "one"]);
        assert_eq!(first.code, 0, "{first:?}");
        assert_eq!(first.stderr.contains("changed files of the skill"), !is_trusted, "{first:?}");
        let second = project.metier(&["run", "own", "--", "two"]);
        assert_eq!(second.code == 0, is_trusted, "{second:?}");
    }
}

#[test]
fn with_namespaces_the_files_that_define_the_skill_stay_as_they_are() {
    let script = r#"cd "$METIER_SKILL_DIR"; for file in SKILL.md skill.yaml scripts/main.sh; do echo x >> "$file"; rm -f "$file"; mv "$file" other; done 2>/dev/null; mv scripts other; true"#;
    let project = Project::new()
        .shell("own", script)
        .file(".metier/skills/own/skill.yaml", "permissions: [own-folder]\n");
    let read = || {
        ["SKILL.md", "skill.yaml", "scripts/main.sh"]
            .map(|file| project.read(&format!(".metier/skills/own/{file}")))
    };
    let before = read();
    let answer = metier_at(&project, "namespaces", &["run", "own", "--allow", "own-folder", "--json"]);
    let answer = answer.json();
    if answer["sandbox"]["level"] == "namespaces" {
        assert_eq!(read(), before, "{answer}");
    }
}

#[test]
fn a_script_that_is_a_skill_by_itself_has_no_folder_of_its_own() {
    let script = "#!/bin/sh\n# description: Writes beside itself.\necho x > \"$METIER_SKILL_DIR/x\"\n";
    let project = Project::new().file(".metier/skills/drop.sh", script).shell("other", "true");
    let answer = project.metier(&["run", "drop", "--allow", "own-folder"]);
    assert_ne!(answer.code, 0, "{answer:?}");
    assert!(!project.path(".metier/skills/x").exists());
}
