//! The skills that ship do what the cases beside them say, and are valid for everybody.

#[path = "support/cases.rs"]
mod cases;
#[path = "support/difference.rs"]
mod difference;
#[path = "support/history.rs"]
mod history;
#[path = "support/not_run.rs"]
mod not_run;

use std::path::{Path, PathBuf};

use cases::Case;
use metier::skill::{Place, Profile, parse};
use not_run::{found, not_run, say};

#[test]
fn every_case_of_every_skill_holds() {
    let (mut passed, mut skipped, mut failed) = (0, 0, Vec::new());
    for folder in skills() {
        let skill = name(&folder);
        for (case_name, case) in Case::all_in(&folder.join("cases")) {
            let title = format!("{skill}/cases/{case_name}.json");
            if let Some(missing) = missing(&folder, &case) {
                not_run(&title, &missing);
                skipped += 1;
                continue;
            }
            match case.differences(&skill).as_slice() {
                [] => passed += 1,
                found => failed.push(format!("{title}\n  {}", found.join("\n  "))),
            }
        }
    }
    say(&format!("cases of skills: {passed} passed, {} failed, {skipped} not run", failed.len()));
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

#[test]
fn every_skill_is_valid_in_both_profiles_without_a_warning() {
    for folder in skills() {
        let source = std::fs::read(folder.join("SKILL.md")).unwrap();
        let parsed = parse(&source, Place { directory: &name(&folder), file: "SKILL.md" });
        for profile in [Profile::Spec, Profile::SkillsRef] {
            let found: Vec<_> = parsed.diagnostics(profile).collect();
            assert!(parsed.valid(profile) && found.is_empty(), "{}: {found:?}", folder.display());
        }
        let manifest = parsed.manifest.unwrap();
        assert!(manifest.description.contains("Use when"), "{} does not say when to use it", manifest.name);
        assert!(manifest.version >= semver::Version::new(1, 0, 0), "{} has no version", manifest.name);
    }
}

#[test]
fn every_skill_has_a_case_that_succeeds_and_one_that_fails() {
    for folder in skills() {
        let cases = Case::all_in(&folder.join("cases"));
        let failing = cases.values().filter(|case| case.fails()).count();
        assert!(cases.len() >= 4 && failing > 0 && failing < cases.len(), "{}", folder.display());
    }
}

/// What is not here and without which a case proves nothing.
fn missing(folder: &Path, case: &Case) -> Option<String> {
    if has_lua(folder) && !cfg!(feature = "lua-runtime") {
        return Some("built without lua-runtime".to_owned());
    }
    let command = case.needs().find(|command| found(command).is_none())?;
    Some(format!("{command} is not on PATH"))
}

fn has_lua(skill: &Path) -> bool {
    let scripts = std::fs::read_dir(skill.join("scripts")).unwrap();
    scripts
        .map(|entry| entry.unwrap().path())
        .any(|path| path.extension().is_some_and(|ending| ending == "lua"))
}

/// The folders of the skills that ship.
fn skills() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    assert!(folders.len() >= 3, "the skills were not found");
    folders
}

fn name(folder: &Path) -> String {
    folder.file_name().unwrap().to_string_lossy().into_owned()
}
