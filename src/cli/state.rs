//! `metier state`: what skills keep from one run to the next.

use metier::error::{ErrorKind, Result, SkillError};
use metier::policy::CancelToken;
use metier::state::{StateStore, StoredState};
use serde_json::json;

use super::output;
use super::prompt::{Question, Reply, ask};
use super::session::Session;
use super::terminal::{escape_line, shorten_line};

/// The options of `metier state`.
#[derive(clap::Args)]
pub struct Args {
    /// The skill, by its name or its qualified name: show the files that it keeps in the project
    name: Option<String>,
    /// Remove what the skill keeps in the project; with --all, in every project, or of every skill
    #[arg(long)]
    clear: bool,
    /// Not only in the project
    #[arg(long)]
    all: bool,
    /// Remove it without a question
    #[arg(long, requires = "clear")]
    yes: bool,
}

impl Args {
    /// The skill's name, as the caller wrote it; empty if it names none.
    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let store = StateStore::user()?;
    if args.clear && args.name.is_none() && !args.all {
        return Err(SkillError::new(ErrorKind::Usage, "--clear needs the name of a skill, or --all"));
    }
    let project = session.project()?.canonicalize().ok();
    let project = project.as_deref().and_then(|project| project.to_str()).unwrap_or_default();
    let is_here = |state: &StoredState| args.all || state.project() == project;
    let is_meant = |state: &StoredState| match &args.name {
        Some(name) => is_called(state, name) && is_here(state),
        None => true,
    };
    let mut states: Vec<StoredState> = store.states()?.into_iter().filter(is_meant).collect();
    states.sort_by(|one, other| (one.project(), one.skill()).cmp(&(other.project(), other.skill())));
    if let (Some(name), true) = (&args.name, states.is_empty()) {
        let sentence = format!("the skill {name} keeps nothing in {project}");
        return Err(SkillError::new(ErrorKind::UnknownSkill, sentence)
            .with_help("`metier state` lists what is kept, in all projects"));
    }
    if args.clear {
        return clear(&store, &states, args, session);
    }
    match &args.name {
        Some(_) => show(&store, &states, session),
        None => list(&states, session),
    }
}

fn is_called(state: &StoredState, name: &str) -> bool {
    state.skill() == name || state.skill().rsplit(['/', ':']).next() == Some(name)
}

fn list(states: &[StoredState], session: &Session) -> Result<u8> {
    if session.json() {
        return output::print_json(&states).map(|()| 0);
    }
    for state in states {
        output::print(&line(state))?;
    }
    if states.is_empty() {
        output::eprint("no skill keeps anything");
    }
    Ok(0)
}

fn line(state: &StoredState) -> String {
    format!(
        "{} of {}  {} bytes in {} files and folders, last used {}, in {}",
        shorten_line(state.skill(), 60),
        escape_line(if state.folder().is_empty() { "the program" } else { state.folder() }),
        state.bytes,
        state.files,
        state.last_used,
        escape_line(state.project())
    )
}

fn show(store: &StateStore, states: &[StoredState], session: &Session) -> Result<u8> {
    let mut rows = Vec::new();
    for state in states {
        let files = store.files(state)?;
        if session.json() {
            rows.push(json!({"state": state, "files": files}));
            continue;
        }
        output::print(&line(state))?;
        for file in files {
            output::print(&format!("  {}  {} bytes", escape_line(&file.path), file.bytes))?;
        }
    }
    if session.json() {
        output::print_json(&rows)?;
    }
    Ok(0)
}

fn clear(store: &StateStore, states: &[StoredState], args: &Args, session: &Session) -> Result<u8> {
    if !args.yes && !states.is_empty() {
        if !session.can_ask() {
            return Err(SkillError::new(ErrorKind::Denied, "nobody can be asked whether to remove it")
                .with_help("look at it with `metier state`, and remove it with --yes"));
        }
        let facts = states.iter().map(|state| ("state", line(state))).collect();
        let sentence = "What these skills keep will be gone.";
        let question = Question::new(sentence.into(), facts, "Remove it?", &[('y', "yes")]);
        let token = CancelToken::new();
        if !matches!(ask(&question, &|| token.is_cancelled()), Reply::Choice(_)) {
            return Err(SkillError::new(ErrorKind::Cancelled, "nothing was removed"));
        }
    }
    let is_meant = |state: &StoredState| {
        states.iter().any(|meant| {
            (meant.skill(), meant.folder(), meant.project())
                == (state.skill(), state.folder(), state.project())
        })
    };
    let removed = store.clear(is_meant)?;
    if session.json() {
        output::print_json(&json!({"removed": removed}))?;
    } else {
        output::print(&format!("removed what {removed} skills kept"))?;
    }
    Ok(0)
}
