//! `metier lock`: writes the digests of the project's skills to its lock file.

use std::collections::HashSet;

use metier::engine::Engine;
use metier::error::{ErrorKind, Result, SkillError};
use metier::registry::{Scope, Skill};
use metier::trust::{LockFile, SkillFiles, SkillSource};
use serde_json::json;

use super::output;
use super::session::Session;
use super::terminal::escape_line;

/// The options of `metier lock`.
#[derive(clap::Args)]
pub struct Args {
    /// The skills to lock as they are now [default: all of the project]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Where the named skills were taken from, such as the address of a repository
    #[arg(long, value_name = "URL", requires_all = ["revision", "names"])]
    source: Option<String>,
    /// The revision that was taken from there
    #[arg(long, value_name = "REV", requires = "source")]
    revision: Option<String>,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let engine = session.engine()?;
    let registry = engine.registry();
    let mut lock = LockFile::read(engine.project())?.unwrap_or_default();
    let skills = if args.names.is_empty() {
        let all: Vec<&Skill> = project_skills(registry.skills()).collect();
        let files = engine.skill_files_of_each(&all).into_iter().collect::<Result<Vec<_>>>()?;
        let folders: HashSet<&String> = files.iter().filter_map(|files| files.folder.as_ref()).collect();
        lock.retain(|locked| folders.contains(&locked.folder));
        files
    } else {
        let find = |name: &String| require_project_skill(&engine, registry.find(name)?);
        args.names.iter().map(find).collect::<Result<_>>()?
    };
    let source = args.source.as_ref().zip(args.revision.as_ref());
    let source = source.map(|(url, revision)| SkillSource::new(url, revision));
    lock.lock_all(&skills, source.as_ref());
    lock.write(engine.project())?;
    session.exit_watchdog().finish();
    output::print_problems(&registry);
    if session.json() {
        output::print_json(&json!({"locked": lock.skills()}))?;
    } else {
        for files in &skills {
            output::print(&format!("locked {} {}", escape_line(&files.qualified_name), files.digest))?;
        }
    }
    Ok(0)
}

/// The skills that a lock file holds: those of the project.
pub(super) fn project_skills(skills: &[Skill]) -> impl Iterator<Item = &Skill> {
    skills.iter().filter(|skill| skill.scope() == Scope::Project)
}

fn require_project_skill(engine: &Engine, skill: &Skill) -> Result<SkillFiles> {
    if skill.scope() != Scope::Project {
        let sentence =
            format!("{} is not a skill of the project, so it is not locked", skill.qualified_name());
        return Err(SkillError::new(ErrorKind::Usage, sentence).with_help("name a skill of the project"));
    }
    engine.skill_files(skill)
}
