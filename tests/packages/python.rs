//! Packages of Python: prepared once, and then found without a network.

use crate::packages::archives::{sha256, wheel};
use crate::packages::fixture::{Project, assert_tidy, entries, has_manager, metier, prepare, project};
use crate::packages::registry::{Registry, RunningRegistry};

/// Two packages, of which one needs the other.
fn registry() -> RunningRegistry {
    Registry::default()
        .python(
            "alpha",
            "alpha-1.0-py3-none-any.whl",
            wheel("alpha", "1.0", &[], &[("alpha.py", "VALUE = 1\n")]),
        )
        .python(
            "alpha",
            "alpha-2.0-py3-none-any.whl",
            wheel("alpha", "2.0", &[], &[("alpha.py", "VALUE = 2\n")]),
        )
        .python(
            "beta",
            "beta-1.0-py3-none-any.whl",
            wheel("beta", "1.0", &["alpha<2"], &[("beta/__init__.py", "from alpha import VALUE\n")]),
        )
        .start()
}

const BLOCK: &str = "# /// script\n# dependencies = [\n#   \"alpha\",\n#   \"beta>=1\",\n# ]\n# ///\n";
const PRINT: &str = "import alpha, beta\nprint(alpha.VALUE, beta.VALUE)\n";

fn assert_prints(project: &Project, expected: &str) {
    let answer = metier(project, None, &["run", "x"]);
    assert!(answer.code == 0 && answer.stdout.trim() == expected, "{answer:?}");
}

#[test]
fn a_script_with_a_block_finds_its_packages_without_a_network() {
    if !has_manager("uv", "a script with a block") {
        return;
    }
    let registry = registry();
    let project = project("main.py", &format!("{BLOCK}{PRINT}"), &[]);
    let before = metier(&project, None, &["run", "x"]);
    assert_ne!(before.code, 0);
    assert!(
        before.stderr.contains("names them; prepare the packages of the skill (`metier prepare x`)"),
        "{before:?}"
    );
    let answer = prepare(&project, &registry);
    assert!(
        answer.stdout.contains("prepared what scripts/main.py names")
            && answer.stdout.contains("  alpha==1.0")
    );
    let asked = registry.asked().len();
    assert_prints(&project, "1 1");
    for sandbox in ["--sandbox=off", "--sandbox=required"] {
        let answer = metier(&project, None, &["run", "x", "--json", sandbox]);
        assert_eq!(answer.json()["value"], "1 1\n", "{answer:?}");
    }
    assert_eq!(registry.asked().len(), asked, "a run asks no registry");
    assert_tidy(&project);
    let again = prepare(&project, &registry);
    assert!(again.stdout.starts_with("already prepared"), "{again:?}");
    assert_eq!(registry.asked().len(), asked);
}

#[test]
fn requirements_with_hashes_are_a_lock_of_the_author() {
    if !has_manager("uv", "requirements with hashes") {
        return;
    }
    let registry = registry();
    let digest = sha256(&wheel("alpha", "1.0", &[], &[("alpha.py", "VALUE = 1\n")]));
    let requirements = format!("alpha==1.0 \\\n    --hash=sha256:{digest}\nbeta # why\n");
    let skill = project("main.py", PRINT, &[("requirements.txt", &requirements)]);
    prepare(&skill, &registry);
    assert_prints(&skill, "1 1");
    let other = requirements.replace(&digest, &"0".repeat(64));
    let skill = project("main.py", PRINT, &[("requirements.txt", &other)]);
    crate::packages::fixture::assert_refused(
        &skill,
        &registry,
        "requirements.txt does not match the registry",
    );
}

#[test]
fn the_files_of_one_lock_are_shared_between_projects_and_what_changes_is_prepared_again() {
    if !has_manager("uv", "shared packages") {
        return;
    }
    let registry = registry();
    let skill = project(
        "main.py",
        PRINT,
        &[("pyproject.toml", "[project]\nname = \"x\"\ndependencies = [\"beta\"]\n")],
    );
    prepare(&skill, &registry);
    assert_prints(&skill, "1 1");
    let skill = skill.file(".metier/skills/y/SKILL.md", "---\nname: y\ndescription: d\n---\n");
    let skill = skill
        .file(".metier/skills/y/scripts/main.py", PRINT)
        .file(".metier/skills/y/requirements.txt", "beta\n");
    let answer = metier(&skill, Some(&registry), &["prepare", "y", "--json"]);
    assert_eq!(answer.json()[0]["packages"], serde_json::json!(["alpha==1.0", "beta==1.0"]), "{answer:?}");
    assert_eq!(entries(&skill).len(), 1, "the same lock");
    let skill = skill.file(".metier/skills/y/requirements.txt", "alpha\n");
    let answer = metier(&skill, None, &["run", "y"]);
    assert!(answer.code != 0 && answer.stderr.contains("metier prepare y"), "{answer:?}");
    prepare_y(&skill, &registry);
    assert_eq!(entries(&skill).len(), 2);
}

fn prepare_y(project: &Project, registry: &RunningRegistry) {
    let answer = metier(project, Some(registry), &["prepare", "y"]);
    assert_eq!(answer.code, 0, "{answer:?}");
}

#[test]
fn a_package_that_nobody_declared_is_named_with_the_line_to_add() {
    let skill = project("main.py", "import fitz\n", &[]);
    let answer = metier(&skill, None, &["run", "x"]);
    let help = "needs the Python package PyMuPDF (module fitz); if it should have it, add the line PyMuPDF to requirements.txt in the \
                folder of the skill and prepare its packages, or leave its files as they are and prepare it besides (`metier prepare x --with PyMuPDF`)";
    assert!(answer.stderr.contains(help), "{answer:?}");
    let skill = project("main.py", "import fitz\n", &[("requirements.txt", "six\n")]);
    let answer = metier(&skill, None, &["run", "x"]);
    assert!(answer.stderr.contains("add the line PyMuPDF to requirements.txt and prepare"), "{answer:?}");
}

#[test]
fn one_failed_run_names_all_packages_that_the_script_imports_and_that_are_missing() {
    // What is imported in a `try` is optional, and a stranger may have made a package of an unknown name.
    let script = "import os, fitz\nfrom gspread import oauth\nimport metier_own_file\ntry:\n    import pydicom\nexcept ImportError:\n    pass\n";
    let skill = project("main.py", script, &[]);
    let answer = metier(&skill, None, &["run", "x"]);
    let help = "the script needs the Python packages PyMuPDF (module fitz), gspread; if it should have them, add the lines PyMuPDF, gspread to";
    assert!(answer.stderr.contains(help), "{answer:?}");
    // A module beside the script is the skill's own.
    let skill = project("main.py", script, &[("scripts/gspread.py", "print('code of the skill')\n")]);
    let answer = metier(&skill, None, &["run", "x"]);
    assert!(answer.stderr.contains("needs the Python package PyMuPDF (module fitz);"), "{answer:?}");
    assert!(!format!("{answer:?}").contains("code of the skill"), "{answer:?}");
}

#[test]
fn packages_count_in_what_is_trusted() {
    if !has_manager("uv", "trusted packages") {
        return;
    }
    let registry = registry();
    let skill = project("main.py", PRINT, &[("requirements.txt", "beta\n")]);
    let digest = |skill: &Project| {
        let answer = metier(skill, None, &["run", "x", "--json"]);
        answer.json()["digest"].clone()
    };
    assert_eq!(metier(&skill, None, &["trust", "--yes"]).code, 0);
    let first = digest(&skill);
    assert!(first.is_string(), "{first}");
    prepare(&skill, &registry);
    let second = digest(&skill);
    assert_ne!(first, second);
    let catalog = metier(&skill, None, &["catalog"]);
    assert!(
        catalog.stdout.contains('x'),
        "who prepares packages for a trusted skill trusts it with them: {catalog:?}"
    );
    assert_eq!(metier(&skill, None, &["prepare", "--prune", "--all"]).code, 0);
    let state = metier(&skill, None, &["show", "x", "--json"]);
    assert!(state.stdout.contains("\"changed\""), "{state:?}");
}
