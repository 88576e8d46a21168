//! The skills that ship do what the cases beside them say, and are valid for everybody.

use std::path::Path;

use metier::cases::{Case, CaseStatus, Suite, discover_cases};
use metier::registry::{Registry, Root, Roots, Scope, Skill};
use metier::skill::{Profile, SkillLocation, parse};

use crate::support::not_run::{not_run, print_uncaptured};

#[test]
fn every_case_of_every_skill_holds() {
    let (registry, roots) = builtin_skills();
    let suite = match option_env!("CARGO_BIN_EXE_metier") {
        Some(helper) => Suite::new(roots).helper(helper),
        None => Suite::new(roots),
    };
    let (mut passed, mut skipped, mut failed) = (0, 0, Vec::new());
    for skill in registry.visible() {
        for case in cases(skill) {
            let title = format!("{}/cases/{}.json", skill.name(), case.name());
            if has_lua(skill) && !cfg!(feature = "lua-runtime") {
                not_run(&title, "built without lua-runtime");
                skipped += 1;
                continue;
            }
            if !cfg!(feature = "json-schema") && skill.contract_error().is_some() {
                not_run(&title, "built without json-schema");
                skipped += 1;
                continue;
            }
            match suite.run(skill, &case).status {
                CaseStatus::Passed => passed += 1,
                CaseStatus::Failed(differences) => failed.push(format!("{title}\n  {differences:#?}")),
                CaseStatus::NotRun(reason) => {
                    not_run(&title, &reason);
                    skipped += 1;
                }
            }
        }
    }
    print_uncaptured(&format!(
        "cases of skills: {passed} passed, {} failed, {skipped} not run",
        failed.len()
    ));
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

#[test]
fn every_skill_is_valid_in_both_profiles_without_a_warning() {
    for skill in builtin_skills().0.visible() {
        let source = skill.folder().read("SKILL.md", 1 << 20).unwrap();
        let parsed = parse(&source, SkillLocation { directory: skill.name(), file_name: "SKILL.md" });
        for profile in [Profile::Spec, Profile::SkillsRef] {
            let found: Vec<_> = parsed.diagnostics(profile).collect();
            assert!(parsed.is_valid(profile) && found.is_empty(), "{}: {found:?}", skill.name());
        }
        let manifest = parsed.manifest.unwrap();
        assert!(manifest.description.contains("Use when"), "{} does not say when to use it", manifest.name);
        assert!(*skill.version() >= semver::Version::new(1, 0, 0), "{} has no version", manifest.name);
    }
}

#[test]
fn every_skill_has_a_case_that_succeeds_and_one_that_fails() {
    for skill in builtin_skills().0.visible() {
        let cases = cases(skill);
        let failing = cases.iter().filter(|case| case.fails()).count();
        assert!(cases.len() >= 4 && failing > 0 && failing < cases.len(), "{}", skill.name());
    }
}

fn cases(skill: &Skill) -> Vec<Case> {
    let collected = discover_cases(skill).unwrap();
    assert!(collected.not_run.is_empty(), "{:?}", collected.not_run);
    collected.cases
}

fn has_lua(skill: &Skill) -> bool {
    skill
        .scripts()
        .unwrap()
        .iter()
        .any(|path| Path::new(path).extension().is_some_and(|ending| ending == "lua"))
}

/// The skills that ship, read from their folder, where their cases are.
fn builtin_skills() -> (Registry, Roots) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills");
    let roots = Roots::empty().with(Root::new(Scope::Project, "skills", folder));
    let registry = Registry::discover(&roots);
    assert!(registry.skills().len() >= 3 && registry.problems().is_empty(), "{:?}", registry.problems());
    (registry, roots)
}
