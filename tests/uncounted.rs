//! A program that did not install the counting allocator: Rhai's memory limit is approximate there, and is still enforced.

use std::process::Command;

use metier::executor::{RuntimeId, Script, SkillInput};
use metier::host::SkillContext;
use metier::policy::Limits;

/// The limit of the runs, and what their process may have at its peak: the bound is loose, as the page on `heap` says.
const LIMIT: u64 = 32 << 20;
const MAX_MEMORY: u64 = 12 * LIMIT;

/// Names the script that this process is to run, and nothing else.
const SCRIPT_VARIABLE: &str = "METIER_TEST_SCRIPT";

#[test]
fn what_escapes_the_exact_limit_meets_the_approximate_one() {
    assert!(!metier::alloc_counter::is_counting());
    for body in [
        "let a = []; a.pad(1000000, 0); let b = [a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a];",
        "let a = [1]; loop { a += a; }",
        "let s = \"x\"; loop { s += s; }",
        "let m = #{a: 1}; loop { m = #{a: m, b: m}; }",
        "let s = \"\"; s.pad(1000000, 'x'); let a = []; a.pad(10000, s); a.to_string()",
        "let fs = []; loop { let b = blob(10000); fs.push(|| b.len()); }",
        "let a = []; loop { let b = blob(10000); a.push(b); }",
        "blob(1000000000)",
        "let a = []; loop { a = [take(a)]; }",
    ] {
        let (ended, peak) = run_alone(body);
        assert!(matches!(ended.as_str(), "memory" | "timeout" | "operations"), "{body}: {ended}");
        assert!(peak < MAX_MEMORY, "{body}: {peak} bytes");
    }
}

#[test]
fn what_stays_small_runs_as_everywhere() {
    // In the process that `run_alone` starts this is not a test.
    if let Ok(source) = std::env::var(SCRIPT_VARIABLE) {
        return child(&source);
    }
    assert_eq!(
        run_alone("let a = []; for i in 0..1000 { a.push(i); } let f = |x| x + a.len(); f.call(1)").0,
        "fine"
    );
}

/// Runs a script and says how it ended, and what it took.
fn child(source: &str) {
    let script = Script::new("uncounted", "scripts/main.rhai", source.as_bytes());
    let context = SkillContext::builder("uncounted").limits(Limits::default().memory(LIMIT)).build();
    let executor = metier::ScriptLoader::new().load(RuntimeId::RHAI, &script).unwrap();
    let ended = executor.execute_with_context(SkillInput::default(), Some(&context));
    if let Err(error) = &ended {
        eprintln!("{error}");
    }
    println!("\nended: {}", ended.err().map_or("fine", |error| error.kind().name()));
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM:")).unwrap());
}

/// How a run in a process of its own ended, and the most memory that process had, in bytes.
fn run_alone(source: &str) -> (String, u64) {
    // Of the 6 GiB of address space a stack reserves up to 4, of which little is ever used.
    let output = Command::new("prlimit")
        .arg("--as=6442450944")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "uncounted::what_stays_small_runs_as_everywhere", "--nocapture"])
        .env(SCRIPT_VARIABLE, source)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let ended = line("ended:").unwrap_or_else(|| panic!("{source}: {output:?}"));
    let kilobytes: u64 = line("VmHWM:").unwrap().trim_end_matches(" kB").parse().unwrap();
    (ended.to_owned(), kilobytes << 10)
}
