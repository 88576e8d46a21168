//! Where the sandbox refuses what a script does outside: the error names the grant, and with it the run is the same.

use crate::parity::work::{NODE, PYTHON, SHELL, Work};
use crate::support::cli::Project;
use crate::support::not_run::{find_program, not_run};

/// Work that needs one grant, that grant, and the option by which the error offers it.
struct RefusedWork {
    work: Work,
    grant: &'static str,
    offer: &'static str,
}

fn refused() -> Vec<RefusedWork> {
    vec![
        RefusedWork {
            grant: "write:out.txt",
            offer: "change out.txt; if it should, run with --allow write",
            work: Work {
                what: "a file that exists",
                python: "open('out.txt', 'a').write('x')",
                shell: "set -e; echo x >> out.txt",
                node: "require('fs').appendFileSync('out.txt', 'x')",
                files: &[("out.txt", "")],
                ..Work::default()
            },
        },
        RefusedWork {
            grant: "write:reports",
            offer: "change reports/today.md; if it should, run with --allow write",
            work: Work {
                what: "a new file in a folder",
                python: "open('reports/today.md', 'w').write('x')",
                shell: "set -e; echo x > reports/today.md",
                node: "require('fs').writeFileSync('reports/today.md', 'x')",
                files: &[("reports/.keep", "")],
                ..Work::default()
            },
        },
        RefusedWork {
            grant: "env:REGION",
            offer: "run with --env REGION",
            work: Work {
                what: "a variable",
                python: "import os\nprint(os.environ['REGION'])",
                shell: "set -u; echo \"$REGION\"",
                node: "if (!process.env.REGION) throw new Error('Missing environment variable REGION'); console.log(process.env.REGION)",
                env: &[("REGION", "north")],
                ..Work::default()
            },
        },
        RefusedWork {
            grant: "own-folder",
            offer: "run with --allow own-folder",
            work: Work {
                what: "a file beside the script",
                python: "import pathlib\n(pathlib.Path(__file__).parent / 'seen').write_text('x')",
                shell: "set -e; echo x > \"$(dirname \"$0\")/seen\"",
                node: "require('fs').writeFileSync(__dirname + '/seen', 'x')",
                ..Work::default()
            },
        },
    ]
}

#[test]
fn the_error_names_the_grant_with_which_the_run_is_the_same() {
    for RefusedWork { work, grant, offer } in refused() {
        for ((program, script), text) in [(PYTHON, work.python), (SHELL, work.shell), (NODE, work.node)] {
            if find_program(program).is_none() {
                not_run(work.what, &format!("{program} is not installed"));
                continue;
            }
            let path = format!(".metier/skills/x/scripts/{script}");
            let project = Project::new().skill(".metier/skills/x").file(&path, text);
            let project = work.files.iter().fold(project, |project, (path, text)| project.file(path, text));
            let mut command = project.command(&["run", "x", "--json"]);
            let answer: crate::support::cli::Answer =
                command.envs(work.env.iter().copied()).output().unwrap().into();
            let error = &answer.json()["error"];
            let help = error["help"].as_str().unwrap_or_default();
            assert!(help.contains(offer), "{} in {script}: {error}", work.what);
        }
        let grant: &'static [&'static str] = Box::leak(Box::new(["--allow", grant]));
        Work { options: grant, ..work }.is_the_same();
    }
}

#[test]
fn a_grant_that_is_remembered_is_enough() {
    for RefusedWork { work, grant, .. } in refused() {
        let project =
            Project::new().skill(".metier/skills/x").file(".metier/skills/x/scripts/main.sh", work.shell);
        let project = work.files.iter().fold(project, |project, (path, text)| project.file(path, text));
        assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
        let allowed = project.metier(&["allow", "x", grant]);
        assert_eq!(allowed.code, 0, "{grant}: {allowed:?}");
        let shown = project.metier(&["show", "x"]);
        assert!(shown.stdout.contains(grant), "{grant}: {shown:?}");
        let mut command = project.command(&["run", "x"]);
        let answer: crate::support::cli::Answer =
            command.envs(work.env.iter().copied()).output().unwrap().into();
        assert_eq!(answer.code, 0, "{grant}: {answer:?}");
    }
}
