//! Python scripts in the sandbox: forty runs in a row and eight at a time. With `--without-hook` the program is not its own
//! helper program, so each process is started by a copy of it.

use std::fs;
use std::time::Instant;

use metier::engine::{Engine, Invocation};
use metier::error::{Result, SkillError};
use serde_json::json;

const MANIFEST: &str = "---\nname: double\ndescription: Doubles a number.\n---\n";
const SCRIPT: &str = "
import json, sys
n = json.load(sys.stdin)['n']
try:
    open('/etc/hostname.new', 'w')
except OSError:
    print(json.dumps(n * 2))
";

fn main() -> Result<()> {
    let is_helper = std::env::args().all(|argument| argument != "--without-hook");
    if is_helper {
        // Here, before anything else, the program becomes the helper if it was started as one.
        metier::helper_main();
    }
    let project =
        std::env::current_dir().map_err(|error| SkillError::io("failed to find the project", error))?;
    let skill = project.join(".metier/skills/double");
    fs::create_dir_all(skill.join("scripts"))
        .and_then(|()| fs::write(skill.join("SKILL.md"), MANIFEST))
        .and_then(|()| fs::write(skill.join("scripts/double.py"), SCRIPT))
        .map_err(|error| SkillError::io("failed to write the skill", error))?;
    let engine = Engine::builder(project).build()?;
    let run = |n: u64| -> Result<()> {
        let value = engine.run(Invocation::new("double").input(json!({"n": n}))).result?;
        assert_eq!(value, n * 2);
        Ok(())
    };

    let start = Instant::now();
    (0..40).try_for_each(run)?;
    eprintln!("one after the other: {:?} each", start.elapsed() / 40);

    let start = Instant::now();
    std::thread::scope(|scope| {
        let eight: Vec<_> = (0..8).map(|_| scope.spawn(|| (0..5).try_for_each(run))).collect();
        eight.into_iter().try_for_each(|thread| thread.join().expect("no run panics"))
    })?;
    eprintln!("eight at a time: {:?} each", start.elapsed() / 40);
    println!("80 runs");
    Ok(())
}
