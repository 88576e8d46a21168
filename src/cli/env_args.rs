//! `--env` and `--env-file`: environment variables for external scripts.

use std::path::PathBuf;

use metier::engine::Invocation;
use metier::error::{ErrorKind, Result, SkillError};
use metier::policy::Permission;

use super::env_file;
use super::session::Session;

/// The environment variables of one run.
#[derive(clap::Args)]
pub struct EnvArgs {
    /// Give an external script the environment variable NAME as it is here, or with VALUE. This also grants env:NAME (may be
    /// repeated)
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Give an external script the variables of a file with lines NAME=VALUE, and treat their values as secrets (may be repeated)
    #[arg(long, value_name = "FILE")]
    env_file: Vec<PathBuf>,
}

impl EnvArgs {
    /// The invocation with the variables and their grants; `--env` counts before files, and later ones before earlier ones.
    pub fn add_to(&self, mut invocation: Invocation, session: &Session) -> Result<Invocation> {
        for file in &self.env_file {
            for (name, value) in env_file::read(file, &session.project()?)? {
                invocation = invocation.grant(Permission::env(&name)?);
                invocation = if env_file::is_common_value(&value) {
                    invocation.env(name, value)
                } else {
                    invocation.secret_env(name, value)
                };
            }
        }
        for option in &self.env {
            let (name, value) = variable(option)?;
            invocation = invocation.grant(name_permission(&name)?).env(name, value);
        }
        // A variable that is granted in another way is taken from here.
        Ok(invocation.inherit_env())
    }
}

/// The name and the value that the option means. No error contains the value.
fn variable(option: &str) -> Result<(String, String)> {
    if let Some((name, value)) = option.split_once('=') {
        return Ok((name.to_owned(), value.to_owned()));
    }
    name_permission(option)?;
    let reason = match std::env::var(option) {
        Ok(value) => return Ok((option.to_owned(), value)),
        Err(std::env::VarError::NotPresent) => "it is not set here",
        Err(std::env::VarError::NotUnicode(_)) => "its value is not UTF-8",
    };
    Err(SkillError::new(ErrorKind::Usage, format!("--env {option}: {reason}"))
        .with_help(format!("set it, or write --env {option}=VALUE")))
}

fn name_permission(name: &str) -> Result<Permission> {
    if name.is_empty() {
        return Err(SkillError::new(ErrorKind::Usage, "--env: write NAME or NAME=VALUE"));
    }
    Permission::env(name).map_err(|error| {
        let reason = error.message().split_once("is not a permission: ").map_or("", |(_, reason)| reason);
        SkillError::new(ErrorKind::Usage, format!("--env {}: {reason}", name.escape_debug()))
    })
}
