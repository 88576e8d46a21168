//! `metier trust`: looks at the skills of a project and records that the user trusts them as they are.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use metier::engine::{Engine, RequestSource, TrustState};
use metier::error::{ErrorKind, Result, SkillError};
use metier::policy::{CancelToken, Limits, Permission};
use metier::registry::{FileList, ListedFile, Registry, Skill};
use metier::trust::{ProjectIdentity, SkillFiles, TrustStore};
use metier::unicode::with_lookalikes;
use serde_json::json;

use super::hint::COMMAND;
use super::interrupt::cancel_on_interrupt;
use super::prompt::{Question, Reply, ask, permission_sentence};
use super::session::Session;
use super::skill_record::script_list;
use super::terminal::{escape_line, escape_text, shorten_line, with_margin, wrap};
use super::trust_words::difference_list;
use super::{output, prompt};

/// The options of `metier trust`.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option")]
pub struct Args {
    /// The project, a folder in it whose skills are meant, or the name of a skill: NAME or NAME@RANGE [default: the current
    /// project]
    path: Option<PathBuf>,
    /// Trust everything in the folder, now and later: for your own work
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    folder: bool,
    /// Trust without a question
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    yes: bool,
    /// List what is trusted
    #[arg(long, conflicts_with_all = ["path", "revoke"])]
    list: bool,
    /// Trust the folder and the skills in it no more
    #[arg(long)]
    revoke: bool,
}

impl Args {
    /// Whether nothing is trusted afterwards that was not before.
    pub(super) fn widens_nothing(&self) -> bool {
        self.list || self.revoke
    }
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let store = session.trust_store()?;
    if args.list {
        return list(&store, session);
    }
    let path = match &args.path {
        Some(path) => skill_folder(path, session)?.unwrap_or_else(|| path.clone()),
        None => session.project()?,
    };
    if args.revoke {
        return revoke(&store, &path, session);
    }
    if args.folder {
        return trust_folder(&store, &path, args, session);
    }
    trust_skills(&store, &path, args, session)
}

/// The folder of the skill of that name, where there is no such path.
fn skill_folder(path: &Path, session: &Session) -> Result<Option<PathBuf>> {
    let Some(name) = path.to_str().filter(|_| path.symlink_metadata().is_err()) else { return Ok(None) };
    let registry = session.engine()?.registry();
    match registry.find(name) {
        Ok(skill) => Ok(skill.folder().disk_path().map(Path::to_owned)),
        // What looks like a path is not a misspelt name.
        Err(_) if name.contains(std::path::MAIN_SEPARATOR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Asks about each skill below the path that is not trusted, and records a yes at once.
fn trust_skills(store: &TrustStore, path: &Path, args: &Args, session: &Session) -> Result<u8> {
    let session = &session.for_path(path)?;
    let engine = session.engine()?;
    let real = canonical(path)?;
    let is_below = |skill: &Skill| {
        let folder = || skill.folder().disk_path().and_then(|folder| folder.canonicalize().ok());
        real == engine.project() || folder().is_some_and(|folder| folder.starts_with(&real))
    };
    let registry = engine.registry();
    let below: Vec<&Skill> = registry.skills().iter().filter(|skill| is_below(skill)).collect();
    let states = engine.trust_states(&below);
    let untrusted = below.into_iter().zip(states).filter(|(_, state)| !state.is_trusted());
    let open: Vec<&Skill> = untrusted.map(|(skill, _)| skill).collect();
    if !args.yes && !open.is_empty() && !session.can_ask() {
        return Err(nobody_to_ask(&open));
    }
    output::print_problems(&registry);
    let (trusted, refused) =
        if args.yes { record_all(store, &engine, &open) } else { ask_about_each(store, &engine, &open)? };
    let project = engine.project().display().to_string();
    if session.json() {
        output::print_json(&json!({"project": project, "trusted": trusted, "refused": refused}))?;
    } else {
        output::print(&escape_text(&summary(&project, &trusted, open.is_empty())))?;
    }
    Ok(if refused.is_empty() { 0 } else { ErrorKind::Untrusted.exit_code() })
}

/// The names of the skills that are trusted now, and of those that are not.
type Answered<'a> = (Vec<&'a str>, Vec<&'a str>);

/// Records each yes at once.
fn ask_about_each<'a>(store: &TrustStore, engine: &Engine, open: &[&'a Skill]) -> Result<Answered<'a>> {
    let token = CancelToken::new();
    cancel_on_interrupt(token.clone());
    let (mut trusted, mut refused) = (Vec::new(), Vec::new());
    for skill in open {
        let reply = current_version(engine, skill)
            .and_then(|(skill, files)| Ok((ask_about(engine, &skill, &files, &token)?, files)));
        let recorded = match reply {
            Ok((Reply::Interrupt, _)) => return Err(interrupted()),
            Ok((Reply::Choice(_), files)) => record(store, engine, skill, files).map(|()| true),
            Ok((Reply::No, _)) => Ok(false),
            Err(error) => Err(error),
        };
        match recorded {
            Ok(true) => trusted.push(skill.name()),
            Ok(false) => refused.push(skill.name()),
            Err(error) => {
                warn_of_untrusted(skill, &error);
                refused.push(skill.name());
            }
        }
    }
    Ok((trusted, refused))
}

/// Records all as they are now, with one change of the store for each project.
fn record_all<'a>(store: &TrustStore, engine: &Engine, open: &[&'a Skill]) -> Answered<'a> {
    let mut projects: BTreeMap<ProjectIdentity, Vec<(&Skill, SkillFiles)>> = BTreeMap::new();
    let (mut trusted, mut refused) = (Vec::new(), Vec::new());
    // The second time, as they are if they changed before the first.
    let read = engine.skill_files_of_each(open).into_iter().zip(engine.skill_files_of_each(open));
    for (skill, (before, now)) in open.iter().zip(read) {
        let unchanged = || match (before?, now?) {
            (before, now) if before.digest == now.digest => Ok((engine.project_identity(skill)?, now)),
            _ => Err(changed_meanwhile(skill)),
        };
        match unchanged() {
            Ok((project, files)) if files.folder.is_some() => {
                projects.entry(project).or_default().push((*skill, files));
            }
            Ok((project, files)) => {
                // The store says why it cannot be recorded.
                if let Err(error) = store.trust_skills(&project, &[files]) {
                    warn_of_untrusted(skill, &error);
                }
                refused.push(skill.name());
            }
            Err(error) => {
                warn_of_untrusted(skill, &error);
                refused.push(skill.name());
            }
        }
    }
    for (project, skills) in projects {
        let (skills, files): (Vec<&'a Skill>, Vec<SkillFiles>) = skills.into_iter().unzip();
        let names = skills.iter().map(|skill| skill.name());
        match store.trust_skills(&project, &files) {
            Ok(()) => trusted.extend(names),
            Err(error) => {
                let skills = output::plural(files.len(), "skill");
                output::print_error_as_warning(
                    &error,
                    &format!("{skills} of {} are not trusted", project.path),
                );
                refused.extend(names);
            }
        }
    }
    (trusted, refused)
}

fn warn_of_untrusted(skill: &Skill, error: &SkillError) {
    output::print_error_as_warning(error, &format!("{} is not trusted", shorten_line(skill.name(), 64)));
}

fn summary(project: &str, trusted: &[&str], had_none: bool) -> String {
    match trusted {
        [] if had_none => format!("every skill in {project} is trusted"),
        [] => format!("nothing in {project} was trusted"),
        names => format!("trusted in {project}, as they are now: {}", names.join(", ")),
    }
}

/// The skill as it is now, with exactly the files that it was read from.
fn current_version(engine: &Engine, skill: &Skill) -> Result<(Skill, SkillFiles)> {
    let digest = engine.skill_files(skill)?.digest;
    // It reads the skill again if it has changed since.
    let files = engine.skill_files(skill)?;
    let registry = engine.registry();
    let now = registry.skill_with_folder(skill.folder());
    match now.filter(|_| files.digest == digest) {
        Some(now) => Ok((now.clone(), files)),
        None => Err(changed_meanwhile(skill)),
    }
}

/// Records the skill with the files that were shown, if it still has them.
fn record(store: &TrustStore, engine: &Engine, skill: &Skill, files: SkillFiles) -> Result<()> {
    if engine.skill_files(skill)?.digest != files.digest {
        return Err(changed_meanwhile(skill));
    }
    store.trust_skills(&engine.project_identity(skill)?, &[files])
}

fn ask_about(engine: &Engine, skill: &Skill, files: &SkillFiles, token: &CancelToken) -> Result<Reply> {
    let question = question(engine, skill, &engine.trust_state(skill), files);
    loop {
        match ask(&question, &|| token.is_cancelled()) {
            Reply::Choice('s') => show_files(&engine.registry(), skill, files)?,
            Reply::No if token.is_cancelled() => return Ok(Reply::Interrupt),
            reply => return Ok(reply),
        }
    }
}

fn question(engine: &Engine, skill: &Skill, state: &TrustState, files: &SkillFiles) -> Question {
    let mut facts = vec![
        ("skill", with_lookalikes(&skill.qualified_name())),
        ("from", skill.path()),
        ("says", skill.description().to_owned()),
    ];
    let requests = engine.requested_permissions(skill);
    let own = requests.iter().filter(|request| request.sources != [RequestSource::Default]);
    if engine.uses_any_grant(skill) {
        facts.push(("wants", "whatever it is granted".to_owned()));
    }
    let own = permission_sentences(own.map(|request| &request.permission).collect());
    if own.is_empty() && !engine.uses_any_grant(skill) {
        facts.push(("wants", "to read the project".to_owned()));
    }
    facts.extend(own.into_iter().map(|text| ("wants", text)));
    facts.push(("runs", what_runs(engine, skill)));
    if !files.callees.is_empty() {
        let names: Vec<&str> = files.callees.iter().map(|callee| callee.qualified_name.as_str()).collect();
        facts.push(("calls", names.join(", ")));
    }
    if !files.state.is_empty() {
        facts.push(("keeps", format!("{}: what lies there may change later", files.state.join(", "))));
    }
    let sentence = match state {
        TrustState::Changed { files } => {
            facts.push(("changed", difference_list(files)));
            format!("The skill {} has changed since it was trusted.", shorten_line(skill.name(), 64))
        }
        _ => format!("The skill {} is not trusted yet.", shorten_line(skill.name(), 64)),
    };
    let mut details = vec![("digest", files.digest.to_string())];
    details.extend(files.packages.iter().map(|digest| ("packages", digest.clone())));
    if let TrustState::Changed { files } = state {
        let changed = files.iter().map(|file| ("changed", format!("{} {}", file.path, file.change)));
        details.extend(changed.take(MAX_LISTED));
    }
    let line = |file: &ListedFile| format!("{} ({} bytes)", file.path, file.size);
    let mut lines: Vec<String> = files_to_show(skill, &files.files).into_iter().map(line).collect();
    for callee in &files.callees {
        let name = &callee.qualified_name;
        lines.extend(callee.files.files().iter().map(|file| format!("{name}: {}", line(file))));
    }
    let more = lines.len().saturating_sub(MAX_LISTED);
    details.extend(lines.into_iter().take(MAX_LISTED).map(|line| ("file", line)));
    if more > 0 {
        details.push(("file", format!("and {more} more")));
    }
    Question::new(sentence, facts, "Trust it as it is?", &[('y', "yes")])
        .details(details)
        .views(&[('s', "show its files")])
}

/// The permissions in words, those first that reach furthest; many of one kind together, so that no number of them hides another.
fn permission_sentences(mut permissions: Vec<&Permission>) -> Vec<String> {
    const REACH: [&str; 12] = [
        "exec",
        "own-folder",
        "home-write",
        "write",
        "secret",
        "home",
        "net",
        "env",
        "skill",
        "tool",
        "store",
        "shm",
    ];
    const MAX_APART: usize = 5;
    let rank = |permission: &Permission| {
        let name = permission.name();
        (REACH.iter().position(|reach| *reach == name).unwrap_or(REACH.len()), name)
    };
    // Without a sandbox comes before in one, and everything before a part of it.
    permissions.sort_by_key(|permission| {
        let is_narrow = permission.scope().is_some() != (permission.name() == "exec");
        (rank(permission), is_narrow)
    });
    let kinds = permissions.chunk_by(|a, b| a.name() == b.name());
    kinds
        .flat_map(|kind| -> Vec<String> {
            if kind.len() <= MAX_APART {
                return kind.iter().map(|permission| permission_sentence(permission)).collect();
            }
            let names: Vec<String> = kind.iter().map(ToString::to_string).collect();
            let (count, names) = (kind.len(), with_lookalikes(&names.join(", ")));
            vec![format!("{count} permissions of the kind {}: {names}", kind[0].name())]
        })
        .collect()
}

/// The runtime of the main script, the other scripts that can be named, and the tools.
fn what_runs(engine: &Engine, skill: &Skill) -> String {
    let main = engine.availability(skill).runtime.map(|runtime| format!("in {}", runtime.name()));
    let named = engine.named_scripts(skill);
    // One script is the main one.
    let named = Some(script_list(&named)).filter(|_| main.is_none() && !named.is_empty() || named.len() > 1);
    let tools = skill.contract().map_or(&[][..], |contract| &contract.tools);
    let tools = tools.iter().filter(|tool| tool.handler.is_some()).filter_map(|tool| {
        let runtime = engine.tool_availability(skill, &tool.name).runtime?;
        Some(format!("the tool {} in {}", tool.name, runtime.name()))
    });
    let all: Vec<String> = main.into_iter().chain(named).chain(tools.take(MAX_LISTED_TOOLS)).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join("; ") }
}

/// The tools of a skill that a question names.
const MAX_LISTED_TOOLS: usize = 8;

/// The files and changes of a skill that are listed in the details of a question.
const MAX_LISTED: usize = 500;

/// The bytes of files that are shown of one skill.
const MAX_SHOWN_BYTES: u64 = Limits::MAX_READ_SIZE;

/// The files that the digest counts: first what decides what runs, so that no number of others hides it.
fn files_to_show<'a>(skill: &Skill, files: &'a FileList) -> Vec<&'a ListedFile> {
    let rank = |file: &&ListedFile| {
        let path = file.path.as_str();
        let is_main = path.eq_ignore_ascii_case("SKILL.md") || Some(path) == skill.contract_file();
        match path {
            _ if is_main => 0,
            _ if Some(path) == skill.manifest().entrypoint() => 1,
            _ if path.starts_with("scripts/") => 2,
            _ => 3,
        }
    };
    let mut listed: Vec<&ListedFile> = files.files().iter().collect();
    listed.sort_by_key(rank);
    listed
}

/// Shows every file that the digest counts, those of the callees last, escaped and behind a margin: in the user's pager if there
/// is one.
fn show_files(registry: &Registry, skill: &Skill, files: &SkillFiles) -> Result<()> {
    let columns = prompt::terminal_columns();
    let mut text = String::new();
    let mut left = MAX_SHOWN_BYTES;
    add_files((&mut text, columns), &mut left, "", skill, &files.files)?;
    for callee in &files.callees {
        let heading = format!("{}: ", callee.qualified_name);
        let found = registry.find_for_caller(skill, &callee.qualified_name);
        let found = found.map_err(|_| changed_meanwhile(skill))?;
        add_files((&mut text, columns), &mut left, &heading, found, &callee.files)?;
    }
    if !page(&text) {
        output::eprint(text.trim_end());
    }
    Ok(())
}

/// Adds the files of one skill, each under its path after the heading.
fn add_files(
    (text, columns): (&mut String, usize),
    left: &mut u64,
    heading: &str,
    skill: &Skill,
    files: &FileList,
) -> Result<()> {
    for file in files_to_show(skill, files) {
        let content = match left.checked_sub(file.size) {
            _ if file.link => "(a link, which is not followed)\n".to_owned(),
            None => format!("(not shown: it has {} bytes, which is too much)\n", file.size),
            Some(rest) => {
                *left = rest;
                content_to_show(skill, file, columns)?
            }
        };
        let path = escape_line(&format!("{heading}{}", file.path));
        // A heading that goes on in a further row has the margin there.
        text.extend([
            wrap(&format!("==== {path} ===="), columns).join("\n: "),
            "\n".into(),
            content,
            "\n".into(),
        ]);
    }
    Ok(())
}

fn content_to_show(skill: &Skill, file: &ListedFile, columns: usize) -> Result<String> {
    let bytes = match skill.folder().read(&file.path, Limits::MAX_READ_SIZE) {
        Ok(bytes) => bytes,
        Err(error) => return Ok(format!("{}\n", escape_line(&format!("(not shown: {})", error.message())))),
    };
    if !file.has_content(&bytes) {
        return Err(changed_meanwhile(skill));
    }
    if bytes.contains(&0) {
        return Ok(format!("(not shown: its {} bytes are not text)\n", file.size));
    }
    Ok(with_margin(&String::from_utf8_lossy(&bytes), columns))
}

/// Whether the pager that the user has set showed it.
fn page(text: &str) -> bool {
    let Some(pager) = std::env::var_os("PAGER").filter(|pager| !pager.is_empty()) else { return false };
    let started = Command::new("/bin/sh").arg("-c").arg(pager).stdin(Stdio::piped()).spawn();
    let Ok(mut child) = started else { return false };
    if let Some(mut input) = child.stdin.take() {
        // A pager that is left early reads no more.
        let _ = input.write_all(text.as_bytes());
    }
    child.wait().is_ok_and(|status| status.success())
}

fn trust_folder(store: &TrustStore, path: &Path, args: &Args, session: &Session) -> Result<u8> {
    // What is shown is what is recorded, wherever a link leads by then.
    let identity = ProjectIdentity::new(&canonical(path)?)?;
    let folder = identity.path.clone();
    if !args.yes {
        if !session.can_ask() {
            let sentence = format!("nobody can be asked whether everything in {folder} is trusted");
            return Err(SkillError::new(ErrorKind::Untrusted, sentence)
                .with_help(format!("if it is your own work, `{COMMAND} trust --folder --yes`")));
        }
        let token = CancelToken::new();
        cancel_on_interrupt(token.clone());
        let sentence = "Whatever lies in this folder will be trusted, now and later.";
        let facts = vec![("folder", with_lookalikes(&folder))];
        let question =
            Question::new(sentence.into(), facts, "Is it your own work?", &[('y', "yes, trust it")]);
        match ask(&question, &|| token.is_cancelled()) {
            Reply::Choice(_) => {}
            Reply::No => return Ok(ErrorKind::Untrusted.exit_code()),
            Reply::Interrupt => return Err(interrupted()),
        }
    }
    store.trust_folder(identity)?;
    if session.json() {
        output::print_json(&json!({"folder": folder}))?;
    } else {
        output::print(&escape_line(&format!("trusted, now and later: {folder}")))?;
    }
    Ok(0)
}

fn list(store: &TrustStore, session: &Session) -> Result<u8> {
    let records = store.records()?;
    records.warnings.iter().for_each(|warning| output::print_warning(warning));
    if session.json() {
        output::print_json(&json!({"folders": records.folders, "skills": records.skills}))?;
        return Ok(0);
    }
    let folders = records.folders.iter().map(|folder| {
        format!("{}  everything in it, since {}", escape_line(&folder.folder.path), folder.since)
    });
    let skills = records.skills.iter().map(|skill| {
        format!("{}  {}, since {}", escape_line(&skill.project.path), escape_line(&skill.skill), skill.since)
    });
    let lines: Vec<String> = folders.chain(skills).collect();
    if lines.is_empty() {
        output::eprint("nothing is trusted but your own and the built-in skills");
        return Ok(0);
    }
    output::print(&lines.join("\n"))?;
    Ok(0)
}

fn revoke(store: &TrustStore, path: &Path, session: &Session) -> Result<u8> {
    // The folder may be gone.
    let real = canonical(path).or_else(|error| std::path::absolute(path).map_err(|_| error))?;
    let was_folder = store.revoke_folder(&real)?;
    let is_in = |project: &ProjectIdentity, folder: &str| {
        let project = Path::new(&project.path);
        project == real || project.join(folder).starts_with(&real)
    };
    let skills = store.revoke_skills(|skill| is_in(&skill.project, &skill.folder))?;
    if let Some(above) = store.records()?.folders.iter().find(|known| real.starts_with(&known.folder.path)) {
        let (folder, above) = (real.display(), &above.folder.path);
        let sentence = format!("{folder} is still trusted, because everything in {above} is");
        let help = format!("`{COMMAND} trust --revoke` with the path {above}");
        return Err(SkillError::new(ErrorKind::Usage, sentence).with_help(help));
    }
    if session.json() {
        output::print_json(&json!({"folder": was_folder, "skills": skills}))?;
    } else {
        let count = skills + usize::from(was_folder);
        let what = if count == 1 { "record" } else { "records" };
        output::print(&format!("revoked {count} {what} of {}", escape_line(&real.display().to_string())))?;
    }
    Ok(0)
}

fn canonical(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|source| {
        let error = SkillError::io(format_args!("failed to open {}", path.display()), source);
        SkillError::new(ErrorKind::Usage, error.message())
    })
}

fn nobody_to_ask(open: &[&Skill]) -> SkillError {
    let names: Vec<String> = open.iter().take(10).map(|skill| shorten_line(skill.name(), 64)).collect();
    let more = open.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let sentence =
        format!("nobody can be asked whether these skills are trusted: {}{more}", names.join(", "));
    let help =
        format!("look at them with `{COMMAND} show NAME`, and then trust them with `{COMMAND} trust --yes`");
    SkillError::new(ErrorKind::Untrusted, sentence).with_help(help)
}

fn changed_meanwhile(skill: &Skill) -> SkillError {
    let sentence = format!("files of the skill {} changed while it was looked at", skill.name());
    SkillError::new(ErrorKind::Untrusted, sentence).with_help("look at it again")
}

fn interrupted() -> SkillError {
    prompt::restore_terminal();
    SkillError::new(ErrorKind::Cancelled, "interrupted; what was answered before is recorded")
}
