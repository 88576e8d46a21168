//! `metier verify`: whether the project's skills are as its lock file has them.

use metier::engine::{Engine, Invocation};
use metier::error::{ErrorKind, Result, SkillError};
use metier::registry::Skill;
use metier::trust::LockFile;
use serde_json::json;

use super::lock::project_skills;
use super::output;
use super::session::Session;

pub(super) fn run(session: &Session) -> Result<u8> {
    let engine = session.engine()?;
    let registry = engine.registry();
    let lock = read_lock_file(&engine)?;
    let skills: Vec<&Skill> = project_skills(registry.skills()).collect();
    let files = engine.skill_files_of_each(&skills).into_iter().collect::<Result<Vec<_>>>()?;
    let differences = lock.differences(&files);
    session.exit_watchdog().finish();
    output::print_problems(&registry);
    let error = (!differences.is_empty()).then(|| LockFile::error(&differences));
    if session.json() {
        let (ok, locked) = (error.is_none(), lock.skills().len());
        output::print_json(&json!({"ok": ok, "locked": locked, "differences": differences}))?;
    } else if let Some(error) = &error {
        output::print_error(error);
    } else {
        output::print(&format!("{} as locked", output::plural(lock.skills().len(), "skill")))?;
    }
    Ok(error.map_or(0, |error| error.kind().exit_code()))
}

/// Whether the skill, or one that it calls, is of the project.
pub(super) fn uses_project_skills(engine: &Engine, name: &str) -> Result<bool> {
    let files = engine.skill_files(engine.registry().find(name)?)?;
    let is_elsewhere = |name: &str| !name.starts_with("project/");
    Ok(!is_elsewhere(&files.qualified_name)
        || !files.callees.iter().all(|callee| is_elsewhere(&callee.qualified_name)))
}

/// The invocation for exactly the files that are locked.
pub(super) fn locked(engine: &Engine, name: &str, invocation: Invocation) -> Result<Invocation> {
    let files = engine.skill_files(engine.registry().find(name)?)?;
    let digest = read_lock_file(engine)?.require(&files)?;
    Ok(invocation.digest(digest))
}

fn read_lock_file(engine: &Engine) -> Result<LockFile> {
    let missing = || {
        let sentence = "the project has no lock file .metier/skills.lock, so nothing can be compared with it";
        SkillError::new(ErrorKind::Untrusted, sentence)
            .with_help("write one with `metier lock`, after a look at the skills")
    };
    // What cannot be read says as little as what is missing.
    let unreadable = |error: SkillError| {
        let sentence =
            format!("the lock file cannot be read, so nothing can be compared with it: {}", error.message());
        let help = error.help().unwrap_or("write it again with `metier lock`, after a look at the skills");
        SkillError::new(ErrorKind::Untrusted, sentence).with_help(help)
    };
    LockFile::read(engine.project()).map_err(unreadable)?.ok_or_else(missing)
}
