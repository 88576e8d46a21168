//! Python skills whose scripts import from each other as a package: they run as they do by `python3 scripts/x.py` and by
//! `python3 -m scripts.x`.

use serde_json::json;

use crate::support::cli::Project;

const UTIL: &str = "def name():\n    return __name__\n";

fn project(main: &str) -> Project {
    Project::new()
        .skill(".metier/skills/x")
        .file(".metier/skills/x/scripts/util.py", UTIL)
        .file(".metier/skills/x/scripts/main.py", main)
        .file(".metier/skills/x/reference/data.py", "VALUE = 7\n")
}

#[test]
fn a_script_finds_the_modules_of_its_package_and_those_beside_it() {
    let print = "import json, sys\nprint(json.dumps([NAME, __name__, sys.argv[0].endswith('scripts/main.py'), sys.argv[1:]]))";
    for (import, found) in [
        ("import util\nNAME = util.name()", "util"),
        ("from scripts.util import name\nNAME = name()", "scripts.util"),
        ("from scripts import util\nNAME = util.name()", "scripts.util"),
        ("from .util import name\nNAME = name()", "scripts.util"),
        ("from . import util\nNAME = util.name()", "scripts.util"),
        ("from scripts.util import name\nimport util\nNAME = util.name()", "util"),
        ("from scripts.util import name\nfrom reference.data import VALUE\nNAME = VALUE", "7"),
    ] {
        let project = project(&format!("{import}\n{print}"));
        for sandbox in ["required", "off"] {
            let answer =
                project.metier(&["run", "x", "--json", "--sandbox", sandbox, "--", "--flag", "two words"]);
            let value = answer.json()["value"].clone();
            let found = found.parse::<u64>().map_or(json!(found), |number| json!(number));
            assert_eq!(
                value,
                json!([found, "__main__", true, ["--flag", "two words"]]),
                "{import}: {answer:?}"
            );
        }
    }
}

#[test]
fn a_module_of_the_project_takes_no_place_of_one_of_the_skill() {
    let project = project("from scripts.util import name\nprint(name())")
        .file("scripts/util.py", "raise SystemExit('of the project')")
        .file("runpy.py", "raise SystemExit('of the project')")
        .file("os.py", "raise SystemExit('of the project')");
    assert_eq!(project.metier(&["run", "x"]).stdout, "scripts.util\n");
}

#[test]
fn errors_and_exit_codes_are_those_of_the_script() {
    let project = project("from .util import name\nimport sys\nsys.exit(3)");
    let failed = project.metier(&["run", "x", "--json"]).json();
    assert_eq!(failed["process"]["exit_code"], 3, "{failed}");
    let project = self::project("from .util import name\nraise ValueError('in words')");
    let failed = project.metier(&["run", "x", "--json"]).json();
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(message.contains("ValueError: in words"), "{message}");
}
