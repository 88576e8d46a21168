//! `metier allow`: grants a skill permissions for later runs.

use metier::engine::{Engine, RequestSource};
use metier::error::{ErrorKind, Result, SkillError};
use metier::executor::RuntimeId;
use metier::policy::{Permission, Permissions, RequestedPermissions};
use metier::registry::Skill;
use metier::trust::{ProjectIdentity, RememberedGrant, TrustStore};
use metier_core::policy::{PathProtection, RunPermissions};
use serde_json::json;

use super::hint::COMMAND;
use super::output;
use super::prompt::permission_sentence;
use super::session::Session;
use super::terminal::escape_line;
use super::trust_words::{grant_line, trust_line};

/// The options of `metier allow`.
#[derive(clap::Args)]
pub struct Args {
    /// The name of the skill: NAME, NAME@RANGE or SCOPE/ROOT:NAME@VERSION
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// Permissions that the skill requests, such as write:out or net:example.com
    #[arg(value_name = "PERM", required_unless_present_any = ["list", "revoke"])]
    permissions: Vec<Permission>,
    /// Grant them in all projects
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    everywhere: bool,
    /// List what is granted for later runs
    #[arg(long, conflicts_with_all = ["name", "revoke"])]
    list: bool,
    /// Take back these permissions of the skill, or all of them
    #[arg(long)]
    revoke: bool,
}

impl Args {
    /// The skill's name, as the caller wrote it; empty if it names none.
    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Whether nothing is granted afterwards that was not before.
    pub(super) fn widens_nothing(&self) -> bool {
        self.list || self.revoke
    }
}

/// What the trust store names as the one that recorded a grant.
const RECORDED_BY: &str = "metier allow";

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let store = session.trust_store()?;
    if args.list {
        return list(&store, session);
    }
    let engine = session.engine()?;
    if args.revoke {
        return revoke(&store, &engine, args, session);
    }
    let registry = engine.registry();
    let skill = registry.find(args.name())?;
    let state = engine.trust_state(skill);
    if !state.is_trusted() {
        let sentence = format!(
            "nothing can be granted to the skill {} for later runs: it is not trusted ({})",
            skill.name(),
            trust_line(&state)
        );
        return Err(SkillError::new(ErrorKind::Untrusted, sentence).with_help(format!(
            "look at it and trust it with `{COMMAND} trust`, or grant it for one run with --allow"
        )));
    }
    args.permissions.iter().try_for_each(|permission| require_request(&engine, skill, permission))?;
    let project = if args.everywhere { None } else { Some(engine.project_identity(skill)?) };
    let digest = engine.skill_files(skill)?.digest;
    store.grant((skill.name(), digest), project.as_ref(), &args.permissions, RECORDED_BY)?;
    session.exit_watchdog().finish();
    if session.json() {
        let permissions = &args.permissions;
        output::print_json(
            &json!({"skill": skill.name(), "digest": digest, "project": project, "permissions": permissions}),
        )?;
        return Ok(0);
    }
    let place = if args.everywhere { "in all projects" } else { "in this project" };
    output::print(&format!("{} has {place}, until one of its files changes:", escape_line(skill.name())))?;
    for permission in &args.permissions {
        output::print(&format!("  {}", escape_line(&permission_sentence(permission))))?;
    }
    Ok(0)
}

/// What nobody requests would have no effect, and a person would not know.
fn require_request(engine: &Engine, skill: &Skill, permission: &Permission) -> Result<()> {
    let is_own = |source: &RequestSource| !matches!(source, RequestSource::Callee(_));
    let requests = engine.requested_permissions(skill);
    let own = requests.into_iter().filter(|request| request.sources.iter().any(is_own));
    let own: Vec<Permission> = own.map(|request| request.permission).collect();
    let requested = RequestedPermissions::Listed(own.clone());
    let effective = Permissions::new(requested, [permission.clone()], PathProtection::default()).effective();
    // To leave the sandbox is nothing that a skill requests.
    let leaves_sandbox = || permission.name() == "exec" && permission.scope().is_some();
    let runs_process =
        || engine.named_scripts(skill).iter().any(|script| script.runtime == RuntimeId::EXTERNAL);
    if engine.uses_any_grant(skill) || effective.contains(permission) || leaves_sandbox() && runs_process() {
        return Ok(());
    }
    let names: Vec<String> = own.iter().map(ToString::to_string).collect();
    let sentence = format!("the skill {} does not request {permission}", skill.name());
    let (file, key) = skill.permission_list();
    Err(SkillError::new(ErrorKind::Usage, sentence).with_help(format!(
        "it requests {}; to request more, list it under {key} in {file}, and trust the skill again",
        names.join(", ")
    )))
}

fn list(store: &TrustStore, session: &Session) -> Result<u8> {
    let records = store.records()?;
    session.exit_watchdog().finish();
    records.warnings.iter().for_each(|warning| output::print_warning(warning));
    if session.json() {
        output::print_json(&records.grants)?;
        return Ok(0);
    }
    if records.grants.is_empty() {
        output::eprint("nothing is granted for later runs");
    }
    let here = session.project().and_then(|project| ProjectIdentity::new(&project)).ok();
    for grant in &records.grants {
        let project = grant.project.as_ref().filter(|project| Some(*project) != here.as_ref());
        let project = project.map_or_else(String::new, |project| format!(" (project {})", project.path));
        output::print(&escape_line(&format!("{}: {}{project}", grant.skill, grant_line(grant))))?;
    }
    Ok(0)
}

/// Takes back the grants of the skill in this project, and those for all.
fn revoke(store: &TrustStore, engine: &Engine, args: &Args, session: &Session) -> Result<u8> {
    let registry = engine.registry();
    // The skill may be gone.
    let found = registry.find(args.name()).ok();
    let name = found.map_or_else(|| plain_name(args.name()), Skill::name);
    let project = match found {
        Some(skill) => engine.project_identity(skill),
        None => ProjectIdentity::new(engine.project()),
    }
    .ok();
    let is_meant = |grant: &RememberedGrant| {
        let is_listed = grant.permission().is_some_and(|permission| args.permissions.contains(&permission));
        grant.skill == name
            && (grant.project.is_none() || grant.project == project)
            && (args.permissions.is_empty() || is_listed)
    };
    let count = store.revoke_grants(is_meant)?;
    session.exit_watchdog().finish();
    if session.json() {
        output::print_json(&json!({"skill": name, "revoked": count}))?;
    } else {
        let what = if count == 1 { "grant" } else { "grants" };
        output::print(&format!("revoked {count} {what} of {}", escape_line(name)))?;
    }
    Ok(0)
}

/// The name in SCOPE/ROOT:NAME@VERSION, by which grants are recorded.
fn plain_name(name: &str) -> &str {
    let name = name.rsplit_once(':').map_or(name, |(_, name)| name);
    name.split_once('@').map_or(name, |(name, _)| name)
}
