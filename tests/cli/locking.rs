//! `metier lock`, `metier verify` and `run --locked`: the project's skills are as they were reviewed. The trust store, which no
//! script can reach.

use serde_json::{Value, json};

use crate::support::cli::{Answer, Project};

const LOCK: &str = ".metier/skills.lock";

fn project() -> Project {
    Project::new().lua("b", "return 'b'").lua("a", "return 'a'")
}

fn locked() -> Project {
    let project = project();
    let answer = project.metier(&["lock"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    project
}

fn line(project: &Project, index: usize) -> Value {
    serde_json::from_str(project.read(LOCK).lines().nth(index).unwrap()).unwrap()
}

fn verify(project: &Project) -> Value {
    let answer = project.metier(&["verify", "--json"]);
    let differences = answer.json()["differences"].clone();
    assert_eq!(answer.code, if differences == json!([]) { 0 } else { 4 }, "{answer:?}");
    assert_eq!(answer.json()["ok"], differences == json!([]));
    differences
}

fn is_untrusted(answer: &Answer, reason: &str) {
    assert_eq!(answer.code, 4, "{answer:?}");
    assert!(answer.stderr.contains(reason), "{answer:?}");
}

#[test]
fn the_lock_file_has_a_line_for_each_skill_in_the_order_of_their_names() {
    let project = locked();
    assert_eq!(project.read(LOCK).lines().next(), Some(r#"{"metier_lock": 1}"#));
    let (a, b) = (line(&project, 1), line(&project, 2));
    assert_eq!([&a["skill"], &b["skill"]], ["project/.metier:a", "project/.metier:b"]);
    assert_eq!(a["folder"], ".metier/skills/a");
    assert_eq!(a["version"], "0.0.0");
    let files: Vec<&String> = a["files"].as_object().unwrap().keys().collect();
    assert_eq!(files, ["SKILL.md", "scripts/main.lua"]);
    assert_eq!(a["files"]["SKILL.md"].as_str().unwrap().len(), 16);
    let before = project.read(LOCK);
    assert_eq!(project.metier(&["lock"]).code, 0);
    assert_eq!(project.read(LOCK), before, "the same skills give the same file");
    let run = project.metier(&["run", "a", "--locked", "--json"]).json();
    assert_eq!((&run["value"], &run["digest"]), (&json!("a"), &a["digest"]));
}

#[test]
fn verify_names_what_changed_what_is_missing_and_what_is_new() {
    let project = locked();
    assert_eq!(verify(&project), json!([]));
    let project =
        project.file(".metier/skills/a/scripts/main.lua", "return 1").file(".metier/skills/a/.x", "");
    let files = json!([{"path": ".x", "change": "added"}, {"path": "scripts/main.lua", "change": "changed"}]);
    let changed =
        json!({"difference": "changed", "skill": "project/.metier:a", "files": files, "callees": []});
    assert_eq!(verify(&project), json!([changed]));
    is_untrusted(&project.metier(&["verify"]), "(.x added, scripts/main.lua changed)");
    is_untrusted(&project.metier(&["run", "a", "--locked"]), "scripts/main.lua changed");
    assert_eq!(project.metier(&["run", "b", "--locked"]).code, 0, "the other is as it was");
    assert_eq!(project.metier(&["run", "a"]).code, 0, "without --locked it runs");
    std::fs::remove_dir_all(project.path(".metier/skills/b")).unwrap();
    let project = project.lua("c", "return 'c'");
    let kinds: Vec<Value> =
        verify(&project).as_array().unwrap().iter().map(|d| d["difference"].clone()).collect();
    assert_eq!(kinds, ["changed", "not-locked", "missing"]);
    is_untrusted(&project.metier(&["run", "c", "--locked"]), "project/.metier:c is not locked");
    assert_eq!(project.metier(&["lock"]).code, 0);
    assert_eq!(verify(&project), json!([]));
    assert_eq!(line(&project, 2)["skill"], "project/.metier:c");
}

#[test]
fn a_mode_and_a_callee_count() {
    use std::os::unix::fs::PermissionsExt;
    let caller = ".metier/skills/caller/SKILL.md";
    let text = "---\nname: caller\ndescription: d\nallowed-tools: skill:a\n---\n";
    let project = project().lua("caller", "return ctx.skill('a')").file(caller, text);
    assert_eq!(project.metier(&["lock"]).code, 0);
    let run = ["run", "caller", "--locked", "--allow", "skill:a"];
    assert_eq!(project.metier(&run).stdout, "a\n");
    let script = project.path(".metier/skills/a/scripts/main.lua");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let differences = verify(&project);
    assert_eq!(differences[0]["files"], json!([{"path": "scripts/main.lua", "change": "mode-changed"}]));
    assert_eq!(differences[1]["callees"], json!(["project/.metier:a"]));
    is_untrusted(&project.metier(&run), "it calls project/.metier:a, which changed");
}

#[test]
fn a_skill_from_elsewhere_is_pinned_with_its_source() {
    let project = locked();
    let source = ["--source", "https://git.example/skills", "--revision", "1f2e3d"];
    assert_eq!(project.metier(&[&["lock", "a"][..], &source].concat()).code, 0);
    let pinned = json!({"url": "https://git.example/skills", "revision": "1f2e3d"});
    assert_eq!(line(&project, 1)["source"], pinned);
    let project = project.file(".metier/skills/a/notes", "");
    assert_eq!(project.metier(&["lock"]).code, 0);
    assert_eq!(line(&project, 1).get("source"), None, "it is not what was taken from there any more");
    assert_eq!(project.metier(&[&["lock", "a"][..], &source].concat()).code, 0);
    assert_eq!(project.metier(&["lock"]).code, 0);
    assert_eq!(line(&project, 1)["source"], pinned, "it has not changed, so it keeps its source");
    assert_eq!(line(&project, 2).get("source"), None);
    assert_eq!(project.metier(&["lock", "--source", "x", "--revision", "1"]).code, 2, "of which skill?");
    assert_eq!(project.metier(&["lock", "word-count"]).code, 2, "not of the project");
    is_untrusted(&project.metier(&["run", "word-count", "--locked", "--input", "{}"]), "is not locked");
}

#[test]
fn what_is_read_beside_a_digest_is_compared_too() {
    let contract = (".metier/skills/a/skill.yaml", "state: [data]\n");
    let project = project().file(contract.0, contract.1);
    assert_eq!(project.metier(&["lock"]).code, 0);
    assert_eq!(line(&project, 1)["state"], json!(["data"]), "the digest does not count it");
    let good = project.read(LOCK);
    for (true_text, false_text) in [
        ("\"version\":\"0.0.0\"", "\"version\":\"9.0.0\""),
        ("\"scripts/main.lua\":", "\"scripts/harmless.lua\":"),
        ("\"state\":[\"data\"],", ""),
        ("\"files\":{", "\"callees\":{\"project/.metier:b\":\"0123456789abcdef\"},\"files\":{"),
    ] {
        let bad = good.replacen(true_text, false_text, 1);
        assert_ne!(bad, good);
        std::fs::write(project.path(LOCK), bad).unwrap();
        assert_eq!(verify(&project)[0]["difference"], "changed", "{false_text}");
        is_untrusted(&project.metier(&["run", "a", "--locked"]), "project/.metier:a changed");
    }
}

#[test]
fn a_hostile_lock_file_is_refused_by_its_line() {
    let project = locked();
    let good = project.read(LOCK);
    let lines: Vec<&str> = good.lines().collect();
    for (text, place) in [
        (String::new(), "skills.lock:1: the first line"),
        ("{\"metier_lock\": 2}\n".into(), "skills.lock:1: the format is 2"),
        (
            format!("{}\n{}\n{}\n", lines[0], lines[2], lines[1]),
            "skills.lock:3: the skills must be in the order",
        ),
        (
            format!("{}\n{}\n{}\n", lines[0], lines[1], lines[1]),
            "skills.lock:3: the skills must be in the order",
        ),
        (format!("{}\n{{}}\n", lines[0]), "skills.lock:2: no locked skill"),
        (
            format!("{}\n{}\n", lines[0], lines[1].replace("\"version\"", "\"trusted\"")),
            "skills.lock:2: no locked skill",
        ),
        (format!("{}\n{}", lines[0], "[".repeat(100_000)), "skills.lock:2: no locked skill"),
    ] {
        let project = Project::new().lua("a", "return 'a'").lua("b", "return 'b'").file(LOCK, &text);
        for command in [&["verify"][..], &["run", "a", "--locked"], &["lock", "a"]] {
            let answer = project.metier(command);
            assert_ne!(answer.code, 0, "{text:.80}");
            assert!(answer.stderr.contains(place), "{text:.80}: {answer:?}");
            assert!(answer.stderr.len() < 2_000, "{}", answer.stderr.len());
            // Nothing could be compared, as where there is no lock file.
            assert!(command[0] == "lock" || answer.code == 4, "{text:.80}: {answer:?}");
        }
    }
    let missing = self::project();
    is_untrusted(&missing.metier(&["verify"]), "has no lock file");
    is_untrusted(&missing.metier(&["run", "a", "--locked"]), "has no lock file");
}

#[test]
fn the_lock_file_is_written_in_the_project_only() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("target");
    std::fs::write(&target, "untouched").unwrap();
    let project = project().link(&target, LOCK);
    assert_ne!(project.metier(&["lock"]).code, 0);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "untouched");
}

#[test]
fn no_script_reads_or_writes_the_trust_store() {
    let at = "home/.local/share/metier/trust";
    let named = "named/trust";
    let lua = "local found = {} for _, path in ipairs(input.paths) do \
               found[#found + 1] = {(pcall(ctx.read_file, path)), (pcall(ctx.write, path, 'evil')), \
               (pcall(ctx.write, path .. '.new', 'evil'))} end return found";
    let shell = "for path in home/.local/share/metier/trust named/trust; do cat \"$path/trust.json\"; \
                 echo evil > \"$path/trust.json\"; echo evil > \"$path/new\"; rm -rf \"$path\"; done 2> /dev/null; true";
    let asks = |name: &str| {
        format!(
            "---\nname: {name}\ndescription: d\nallowed-tools: read:home read:named write write:home write:named\n---\n"
        )
    };
    let project = Project::new()
        .lua("l", lua)
        .file(".metier/skills/l/SKILL.md", asks("l"))
        .shell("s", shell)
        .file(".metier/skills/s/SKILL.md", asks("s"))
        .file(&format!("{at}/trust.json"), "{\"metier_trust\":1,\"mark\":\"confidential\"}")
        .file(&format!("{named}/trust.json"), "{\"metier_trust\":1,\"mark\":\"confidential\"}");
    let paths = json!({"paths": [format!("{at}/trust.json"), format!("{named}/trust.json"), format!("{at}/files/a")]});
    let allow = ["read:home", "read:named", "write", "write:home", "write:named"];
    let allow: Vec<&str> = allow.iter().flat_map(|permission| ["--allow", permission]).collect();
    for skill in ["l", "s"] {
        for sandbox in ["required", "best-effort"] {
            let input = if skill == "l" { paths.to_string() } else { "{}".into() };
            let args =
                [&["run", skill, "--json", "--sandbox", sandbox, "--input", &input][..], &allow].concat();
            let mut command = project.command(&args);
            command.env("HOME", project.path("home")).env("METIER_DATA_DIR", project.path("named"));
            let answer: Answer = command.output().unwrap().into();
            assert!(!answer.stdout.contains("confidential"), "{skill}: {answer:?}");
            if skill == "l" {
                assert_eq!(
                    answer.json()["value"],
                    json!([[false, false, false], [false, false, false], [false, false, false]])
                );
            }
            for folder in [at, named] {
                assert!(
                    project.read(&format!("{folder}/trust.json")).contains("confidential"),
                    "{skill} in {folder}"
                );
                assert_eq!(
                    std::fs::read_dir(project.path(folder)).unwrap().count(),
                    1,
                    "{skill} in {folder}"
                );
            }
        }
    }
}
