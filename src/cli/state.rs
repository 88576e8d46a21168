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
    /// The skill, by its name or its qualified name: show the files and values that it keeps in the project; `store:NAME` for what
    /// skills share
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
        let sentence = match name.strip_prefix(SHARED) {
            Some(store) => format!("the store {store} has nothing in {project}"),
            None => format!("the skill {name} keeps nothing in {project}"),
        };
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

/// Before the name of a store that skills share, as in the permission for it.
const SHARED: &str = "store:";

fn is_called(state: &StoredState, name: &str) -> bool {
    if let Some(store) = state.store() {
        return name.strip_prefix(SHARED) == Some(store);
    }
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
    let values = format!("{} bytes in {} values", state.value_bytes, state.values);
    let what = match state.store() {
        Some(store) => format!("{SHARED}{}  {values}", shorten_line(store, 60)),
        None => format!(
            "{} of {}  {} bytes in {} files and folders, {values}",
            shorten_line(state.skill(), 60),
            escape_line(if state.folder().is_empty() { "the program" } else { state.folder() }),
            state.bytes,
            state.files,
        ),
    };
    format!("{what}, last used {}, in {}", state.last_used, escape_line(state.project()))
}

fn show(store: &StateStore, states: &[StoredState], session: &Session) -> Result<u8> {
    let mut rows = Vec::new();
    for state in states {
        let (files, values) = (store.files(state)?, store.values(state)?);
        if session.json() {
            rows.push(json!({"state": state, "files": files, "values": values}));
            continue;
        }
        output::print(&line(state))?;
        for file in files {
            output::print(&format!("  {}  {} bytes", escape_line(&file.path), file.bytes))?;
        }
        for value in values {
            output::print(&format!("  value {}  {} bytes", escape_line(&value.key), value.bytes))?;
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
            (meant.skill(), meant.folder(), meant.project(), meant.store())
                == (state.skill(), state.folder(), state.project(), state.store())
        })
    };
    let removed = store.clear(is_meant)?;
    if session.json() {
        output::print_json(&json!({"removed": removed}))?;
    } else {
        output::print(&format!("removed {removed} states"))?;
    }
    Ok(0)
}
