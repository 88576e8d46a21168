//! The time of day jumps while the host works: no run ends for it, none goes on for it, and nothing that was decided changes.

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant, SystemTime};

use crate::sandbox::attackers;
use crate::sandbox::fixture::{self, Fixture};
use crate::support::not_run::not_run;

/// Years forward with each call, years back, or both in turn.
const JUMPS: [&str; 3] = ["forward", "back", "around"];

/// Skill, whether this build has its runtime, file, script.
const SCRIPTS: [(&str, bool, &str, &str); 4] = [
    (
        "lua",
        cfg!(feature = "lua-runtime"),
        "main.lua",
        "if input == 'end' then return os.time() end while true do end",
    ),
    ("rhai", cfg!(feature = "rhai-runtime"), "main.rhai", "if input == \"end\" { \"ran\" } else { loop {} }"),
    ("wasm", cfg!(feature = "wasm-runtime"), "main.wat", r#"(module (func (export "run") (loop (br 0))))"#),
    ("shell", true, "main.sh", "case $(cat) in *end*) sleep 0.3; echo ran ;; *) while :; do :; done ;; esac"),
];

fn project() -> Fixture {
    SCRIPTS.into_iter().fold(Fixture::bash(""), |project, (name, _, file, script)| {
        let skill = format!("project/.metier/skills/{name}");
        project
            .file(
                &format!("{skill}/SKILL.md"),
                format!("---\nname: {name}\ndescription: runs\nallowed-tools: write\n---\n"),
            )
            .file(&format!("{skill}/scripts/{file}"), script)
    })
}

fn metier(project: &Fixture, library: &Path, jump: &str, args: &[&str]) -> Output {
    let mut command = std::process::Command::new(fixture::helper().unwrap());
    command.env("LD_PRELOAD", library).env("CLOCK_JUMP", jump).env("HOME", project.at("home"));
    command.current_dir(project.at("project")).args(args).output().unwrap()
}

#[test]
fn no_run_is_ended_or_prolonged_by_a_jump_of_the_clock() {
    let (Ok(library), Some(_)) = (attackers::library("clock"), fixture::helper()) else {
        return not_run("a host whose clock jumps", "there is no C compiler, or no command line");
    };
    let project = project();
    for jump in JUMPS {
        for (name, ..) in SCRIPTS.into_iter().filter(|&(_, has_runtime, ..)| has_runtime) {
            let run = |args: &[&str]| {
                let began = Instant::now();
                let ended = metier(&project, &library, jump, &[&["run", name], args].concat());
                let (out, error) =
                    (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
                (ended.status.code(), format!("{jump} {name}: {out}{error}"), began.elapsed())
            };
            if name != "wasm" {
                let (code, said, _) = run(&["--timeout", "60s", "--input", "\"end\""]);
                assert_eq!(code, Some(0), "{said}");
                // The script asks the same clock as its host, if that is the same process.
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
                let shown = said.rsplit(' ').next().and_then(|word| word.trim().parse::<i64>().ok());
                let has_jumped = shown.map(|shown| shown.abs_diff(now.cast_signed()) > 24 * 60 * 60);
                assert!(name != "lua" || has_jumped == Some(true), "{said}");
            }
            let (code, said, took) = run(&["--timeout", "500ms", "--input", "\"never\""]);
            assert!(code == Some(5) && said.contains("did not end before its deadline"), "{code:?} {said}");
            assert!(took > Duration::from_millis(400) && took < Duration::from_secs(20), "{took:?} {said}");
        }
    }
}
