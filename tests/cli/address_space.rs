//! A host with little address space (`ulimit -v`): a run reports an error and never just ends.
#![cfg(target_os = "linux")]

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use crate::support::cli::Project;

/// Scripts that use all memory there is, or make the host use it.
fn project() -> Project {
    let mut project = Project::new().file("lines", "line\n".repeat(200_000));
    let skills = [
        ("small", "main.lua", "return {ok = true}"),
        (
            "lua",
            "main.lua",
            "local t = {}
pcall(function() for i = 1, 1e9 do t[i] = ('x' .. i):rep(3) end end)
for _ = 1, 3 do pcall(ctx.grep, 'line', '.', {context = 100, max = 20000}) end
pcall(ctx.log, ('z'):rep(1e6))
return t",
        ),
        ("rhai", "main.rhai", "let t = []; for i in 0..200000 { t.push(`x${i}`); } t"),
        (
            "shell",
            "main.sh",
            "metier ctx grep line . '{\"context\": 100, \"max\": 20000}' > /dev/null 2>&1
printf '['; yes '{\"a\":0},' | head -n 400000 | tr -d '\\n'; printf '0]'",
        ),
    ];
    for (name, file, text) in skills {
        project = project
            .skill(&format!(".metier/skills/{name}"))
            .file(&format!(".metier/skills/{name}/scripts/{file}"), text);
    }
    project
}

fn run_limited(project: &Project, mebibytes: u64, args: &str) -> Output {
    let text = format!("ulimit -v {}; exec '{}' {args}", mebibytes << 10, env!("CARGO_BIN_EXE_metier"));
    let mut command = Command::new("sh");
    command.args(["-c", &text]).current_dir(project.path(".")).env("HOME", project.path("no-home"));
    command.output().unwrap()
}

#[test]
fn a_host_with_little_address_space_reports_an_error_and_never_just_ends() {
    let project = project();
    // The least that the system itself needs to start the program.
    let begins = |most: &u64| run_limited(&project, *most, "--version").status.success();
    let least = (20..).step_by(10).find(begins).unwrap();
    let (mut refused, mut done) = (0, 0);
    for above in (0..7).map(|at| at * 20).chain((0..14).map(|at| 150 + at * 35)) {
        let is_built = |name: &&str| match *name {
            "rhai" => cfg!(feature = "rhai-runtime"),
            "shell" => cfg!(feature = "sandboxed"),
            _ => true,
        };
        for name in ["small", "lua", "rhai", "shell"].into_iter().filter(is_built) {
            let ended = run_limited(&project, least + above, &format!("run {name}"));
            let error = String::from_utf8_lossy(&ended.stderr);
            let place = format!("{name} with {above} MiB: {:?} {error:.300}", ended.status);
            assert_eq!(ended.status.signal(), None, "{place}");
            let is_done = ended.status.success();
            assert!(is_done || error.contains("error: ") && error.contains("help: "), "{place}");
            refused += u32::from(!is_done);
            done += u32::from(is_done);
        }
    }
    assert!(refused > 10 && done > 3, "{refused} {done}");
}
