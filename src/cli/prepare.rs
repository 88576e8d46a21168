//! `metier prepare`: the packages that the scripts of a skill need.

use metier::engine::{Engine, PrepareRequest, PreparedPackages, TrustReason, TrustState};
use metier::error::{ErrorKind, Result, SkillError};
use metier::packages::{PackageStore, StoredPackages};
use metier::policy::CancelToken;
use metier::trust::SkillFiles;
use serde_json::json;

use super::interrupt::cancel_on_interrupt;
use super::output;
use super::run::parse_grants;
use super::session::Session;
use super::terminal::{escape_line, shorten_line};

/// The options of `metier prepare`.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct Args {
    /// The skill, by its name or its qualified name
    #[arg(required_unless_present_any = ["list", "prune"])]
    name: Option<String>,
    /// Prepare for this script only
    #[arg(long, value_name = "SCRIPT", requires = "name")]
    script: Option<String>,
    /// Grant the package managers net:HOST for a registry that keeps its files elsewhere, or net
    #[arg(long, value_name = "PERM", requires = "name")]
    allow: Vec<String>,
    /// Prepare this package as well, as long as the skill has these files: NAME==VERSION, or NAME@VERSION of npm
    #[arg(long, value_name = "PACKAGE", requires = "name")]
    with: Vec<String>,
    /// Ask the registries for newer versions of what is prepared
    #[arg(long, requires = "name")]
    upgrade: bool,
    /// List what is prepared, for all projects
    #[arg(long, conflicts_with_all = ["name", "prune"])]
    list: bool,
    /// Remove what was not used for 30 days, and what is broken
    #[arg(long, conflicts_with = "name")]
    prune: bool,
    /// Remove everything that is prepared
    #[arg(long, requires = "prune")]
    all: bool,
}

impl Args {
    /// The skill's name, as the caller wrote it; empty if it names none.
    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    if args.list {
        return list(&PackageStore::user()?.list()?, session);
    }
    if args.prune {
        let store = PackageStore::user()?;
        return print_removed(&if args.all { store.clear() } else { store.prune() }?, session);
    }
    let token = CancelToken::new();
    let watchdog = session.exit_watchdog();
    let _guard = watchdog.watch_token(&token);
    cancel_on_interrupt(token.clone());
    let engine = session.builder(session.configuration().clone())?.build()?;
    let processes = engine.clone();
    watchdog.wait_for_cleanup(move || processes.runs_processes());
    let before = trusted_files(&engine, args.name())?;
    let mut request = PrepareRequest::new(args.name()).cancel(token);
    if let Some(script) = &args.script {
        request = request.script(script);
    }
    for package in &args.with {
        request = request.with_package(package);
    }
    if args.upgrade {
        request = request.upgrade();
    }
    for permission in parse_grants(&args.allow) {
        let is_network = permission.name() == "net";
        if !is_network {
            let sentence = format!("{permission} is nothing that a package manager needs");
            return Err(SkillError::new(ErrorKind::Usage, sentence)
                .with_help("grant net:HOST, or net where the sandbox cannot restrict the network to hosts"));
        }
        request = request.grant(permission);
    }
    let prepared = engine.prepare(&request)?;
    print_prepared(args.name(), &prepared, session)?;
    match before {
        Some(before) => keep_trust(&engine, args.name(), &before).map(|()| 0),
        None => Ok(0),
    }
}

/// The files of a skill that is trusted with exactly these files.
fn trusted_files(engine: &Engine, name: &str) -> Result<Option<SkillFiles>> {
    let registry = engine.registry();
    let skill = registry.find(name)?;
    match engine.trust_state(skill) {
        TrustState::Trusted { by: TrustReason::Digest } => engine.skill_files(skill).map(Some),
        _ => Ok(None),
    }
}

/// The packages count in the digest of a skill. Who prepares them for a skill that is trusted trusts it with them, if its files are the
/// same as before.
fn keep_trust(engine: &Engine, name: &str, before: &SkillFiles) -> Result<()> {
    let registry = engine.registry();
    let skill = registry.find(name)?;
    let now = engine.skill_files(skill)?;
    let digests = |files: &SkillFiles| -> Vec<String> {
        let callees = files.callees.iter().map(|callee| &callee.files);
        std::iter::once(&files.files).chain(callees).map(|files| files.digest().to_string()).collect()
    };
    if now.digest == before.digest || digests(&now) != digests(before) {
        return Ok(());
    }
    match engine.trust_store() {
        Some(store) => store.trust_skills(&engine.project_identity(skill)?, &[now]),
        None => Ok(()),
    }
}

fn print_prepared(name: &str, prepared: &[PreparedPackages], session: &Session) -> Result<()> {
    if session.json() {
        return output::print_json(&prepared);
    }
    if prepared.is_empty() {
        output::eprint(&format!("the scripts of {} name no packages", escape_line(name)));
    }
    for group in prepared {
        let verb = if group.was_prepared { "already prepared" } else { "prepared" };
        let registries = match group.registries.as_slice() {
            [] => String::new(),
            registries => format!(" from {}", escape_line(&registries.join(", "))),
        };
        let what = match group.scripts.as_slice() {
            [] => "what is added".to_owned(),
            _ => format!("what {} names", escape_line(&group.source)),
        };
        output::print(&format!(
            "{verb} {what}, for {}{registries}",
            escape_line(&group.packages.interpreter)
        ))?;
        for package in &group.packages.packages {
            output::print(&format!("  {}", shorten_line(package, 100)))?;
        }
    }
    Ok(())
}

fn list(stored: &[StoredPackages], session: &Session) -> Result<u8> {
    if session.json() {
        return output::print_json(&stored).map(|()| 0);
    }
    for packages in stored {
        output::print(&line(packages))?;
    }
    if stored.is_empty() {
        output::eprint("no packages are prepared");
    }
    Ok(0)
}

fn line(stored: &StoredPackages) -> String {
    format!(
        "{}  {} bytes in {} files for {}, prepared {}: {}",
        stored.ecosystem,
        stored.bytes,
        stored.files,
        escape_line(&stored.interpreter),
        stored.prepared,
        shorten_line(&stored.packages.join(", "), 200)
    )
}

fn print_removed(removed: &[StoredPackages], session: &Session) -> Result<u8> {
    if session.json() {
        return output::print_json(&json!({"removed": removed})).map(|()| 0);
    }
    for packages in removed {
        output::print(&format!("removed {}", line(packages)))?;
    }
    if removed.is_empty() {
        output::eprint("nothing was removed");
    }
    Ok(0)
}
