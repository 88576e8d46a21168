//! Which script of a skill runs, and in which runtime.

use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::SkillRuntime;
use crate::policy::Limits;
use crate::registry::Skill;
use crate::runtimes;

/// A script, chosen.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selected {
    pub(super) path: String,
    pub(super) runtime: SkillRuntime,
}

impl Selected {
    /// The limits that hold in the runtime: its defaults where the caller named none, and nothing that it does not hold.
    pub(super) fn settled(&self, limits: Limits) -> Limits {
        match self.runtime {
            SkillRuntime::External => limits.of_process(),
            SkillRuntime::Rhai => {
                let operations = limits.operations.unwrap_or(Limits::OPERATIONS);
                limits.in_process().operations(operations)
            }
            SkillRuntime::Wasm => limits.in_process(),
            // They count none.
            _ => Limits { operations: None, ..limits.in_process() },
        }
    }
}

/// The script that was named, or else `scripts/main.*`, or else the only one there is.
pub(super) fn select(skill: &Skill, named: Option<&str>) -> Result<Selected> {
    let declared = skill.manifest().runtime.as_deref().map(str::parse::<SkillRuntime>).transpose()?;
    let path = match named {
        Some(path) => known(skill, path)?,
        None => inferred(skill.name(), &skill.scripts()?, declared, |path| {
            skill.folder().read(path, Limits::FILE).ok()
        })?,
    };
    let told = SkillRuntime::of_file(&path);
    match declared {
        // A script named by hand may be in another language than the skill's main one.
        Some(runtime) if named.is_none() || told == SkillRuntime::External => Ok(Selected { path, runtime }),
        _ => Ok(Selected { path, runtime: told }),
    }
}

/// The path as it stands in the skill's folder; `./scripts/x` and `x` find `scripts/x`.
fn known(skill: &Skill, path: &str) -> Result<String> {
    let path = path.strip_prefix("./").unwrap_or(path);
    let files = skill.folder().files()?;
    let in_scripts = format!("scripts/{path}");
    for candidate in [path, &in_scripts] {
        if files.iter().any(|file| file == candidate) {
            return Ok(candidate.to_owned());
        }
    }
    let error =
        SkillError::new(ErrorKind::UnknownSkill, format!("skill {} has no script {path}", skill.name()));
    let scripts = skill.scripts()?;
    Err(if scripts.is_empty() {
        error
    } else {
        error.with_help(format!("its scripts are {}", scripts.join(", ")))
    })
}

fn inferred(
    skill: &str,
    scripts: &[String],
    declared: Option<SkillRuntime>,
    source: impl Fn(&str) -> Option<Vec<u8>>,
) -> Result<String> {
    let fits = |path: &&String| match declared {
        Some(runtime) if runtime != SkillRuntime::External => SkillRuntime::of_file(path) == runtime,
        _ => runtimes::runs(path, || source(path)),
    };
    let runnable: Vec<&String> = scripts.iter().filter(fits).collect();
    let stem =
        |path: &str| path.strip_prefix("scripts/").and_then(|name| name.split('.').next()).map(str::to_owned);
    let mains: Vec<&&String> = runnable.iter().filter(|path| stem(path).as_deref() == Some("main")).collect();
    match (mains.as_slice(), runnable.as_slice()) {
        ([only], _) => Ok((**only).clone()),
        ([], [only]) => Ok((*only).clone()),
        ([], []) => Err(none(skill, declared, scripts)),
        _ => {
            let listed: Vec<&str> = runnable.iter().map(|path| path.as_str()).collect();
            let sentence = format!("skill {skill} has several scripts: {}", listed.join(", "));
            Err(SkillError::new(ErrorKind::Usage, sentence).with_help("name one with --script"))
        }
    }
}

fn none(skill: &str, declared: Option<SkillRuntime>, scripts: &[String]) -> SkillError {
    match declared {
        Some(runtime) if !scripts.is_empty() => {
            let sentence =
                format!("skill {skill} says runtime: {runtime}, but has no such script in scripts/");
            SkillError::new(ErrorKind::InvalidSkill, sentence)
                .with_help(format!("it has {}", scripts.join(", ")))
        }
        _ => SkillError::new(ErrorKind::Unavailable, format!("skill {skill} has no script to run"))
            .with_help("it holds instructions for a model; `metier show` prints them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(scripts: &[&str], declared: Option<SkillRuntime>) -> Result<String> {
        let scripts: Vec<String> = scripts.iter().map(|&path| path.to_owned()).collect();
        inferred("x", &scripts, declared, |_| Some(b"#!/bin/sh".to_vec()))
    }

    #[test]
    fn main_wins_and_a_single_script_needs_no_name() {
        assert_eq!(chosen(&["scripts/count.lua", "scripts/README.md"], None).unwrap(), "scripts/count.lua");
        assert_eq!(chosen(&["scripts/run"], None).unwrap(), "scripts/run", "told by its shebang");
        assert_eq!(chosen(&["scripts/lib.py", "scripts/main.py"], None).unwrap(), "scripts/main.py");
        assert_eq!(
            chosen(&["scripts/a.py", "scripts/b.lua"], Some(SkillRuntime::Lua)).unwrap(),
            "scripts/b.lua"
        );
    }

    #[test]
    fn a_runtime_brings_its_own_memory_limit_where_none_was_named() {
        let selected = |runtime| Selected { path: "scripts/main".into(), runtime };
        let settled = |runtime, limits| selected(runtime).settled(limits).memory;
        assert_eq!(settled(SkillRuntime::Lua, Limits::default()), Some(64 << 20));
        assert_eq!(settled(SkillRuntime::External, Limits::default()), Some(2 << 30));
        assert_eq!(settled(SkillRuntime::External, Limits::default().memory(5)), Some(5));
    }

    #[test]
    fn several_scripts_are_listed_and_none_is_told() {
        let error = chosen(&["scripts/a.py", "scripts/b.sh"], None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.message().ends_with("scripts/a.py, scripts/b.sh"), "{error}");
        assert_eq!(chosen(&["scripts/data.json"], None).unwrap_err().kind(), ErrorKind::Unavailable);
        let error = chosen(&["scripts/a.py"], Some(SkillRuntime::Lua)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSkill);
    }
}
