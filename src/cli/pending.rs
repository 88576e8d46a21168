//! `metier pending`: the calls that wait for a person, and the decisions about them.

use metier::error::{ErrorKind, Result, SkillError};
use metier::pending::{PendingCall, PendingState, PendingStore};
use metier::unicode::with_lookalikes;

use super::output;
use super::prompt::{Fact, Question, Reply, ask, permission_sentence};
use super::session::Session;
use super::table;
use super::terminal::{escape_line, shorten_line};

/// The options of `metier pending`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Show a call whole
    Show {
        /// Its id
        id: String,
    },
    /// Permit exactly this call, once: it is shown at the terminal, which is asked
    Approve {
        /// Its id
        id: String,
    },
    /// Refuse this call
    Deny {
        /// Its id
        id: String,
    },
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let store = session.pending_store()?;
    match &args.action {
        None => list(&store.list()?, session),
        Some(Action::Show { id }) => show(&store.find(id)?, session),
        Some(Action::Approve { id }) => approve(&store, id, session),
        Some(Action::Deny { id }) => {
            let call = store.deny(id)?;
            session.exit_watchdog().finish();
            print_decision(&call, "refused", session)
        }
    }
}

fn list(calls: &[PendingCall], session: &Session) -> Result<u8> {
    session.exit_watchdog().finish();
    if session.json() {
        return output::print_json(&calls).map(|()| 0);
    }
    for call in calls {
        let line = format!(
            "{}  {}{}  {}, until {}, called by {}",
            call.id,
            shorten_line(&call.skill, 60),
            call.tool.as_ref().map_or_else(String::new, |tool| format!(".{}", shorten_line(tool, 40))),
            state_word(call.state),
            call.expires,
            shorten_line(&call.caller, 60)
        );
        output::print(&line)?;
    }
    if calls.is_empty() {
        output::eprint("no call waits");
    }
    Ok(0)
}

fn show(call: &PendingCall, session: &Session) -> Result<u8> {
    session.exit_watchdog().finish();
    if session.json() {
        return output::print_json(call).map(|()| 0);
    }
    let mut rows = vec![("id", call.id.clone()), ("state", state_word(call.state).to_owned())];
    let facts = facts(call).into_iter().chain(details(call));
    rows.extend(facts.map(|(name, text)| (name, escape_line(&text))));
    output::print(&table::two_columns(&rows)).map(|()| 0)
}

/// Asks the terminal itself: there is no option that agrees.
fn approve(store: &PendingStore, id: &str, session: &Session) -> Result<u8> {
    let call = store.find(id)?;
    if call.state != PendingState::Waiting {
        let sentence = format!("the pending call {id} was {} already", state_word(call.state));
        return Err(SkillError::new(ErrorKind::Usage, sentence));
    }
    if !session.can_ask() {
        let sentence = format!("the pending call {id} is approved at a terminal, by whoever has read it");
        return Err(SkillError::new(ErrorKind::Denied, sentence)
            .with_help("run it at a terminal, without --json and --no-input"));
    }
    session.exit_watchdog().finish();
    let sentence = format!("The skill {} was called, and waits.", shorten_line(&call.skill, 64));
    let question = Question::new(sentence, facts(&call), "Make this call?", &[('y', "yes, once")])
        .details(details(&call));
    match ask(&question, &|| false) {
        Reply::Choice(_) => {}
        Reply::No | Reply::Interrupt => {
            let sentence = format!("the pending call {id} was not approved, and still waits");
            return Err(SkillError::new(ErrorKind::Denied, sentence)
                .with_help("refuse it with `metier pending deny`"));
        }
    }
    let approved = store.approve(&call)?;
    print_decision(&approved, "approved", session)
}

fn print_decision(call: &PendingCall, word: &str, session: &Session) -> Result<u8> {
    if session.json() {
        return output::print_json(call).map(|()| 0);
    }
    output::eprint(&format!("{word} {}, until {}", call.id, call.expires));
    Ok(0)
}

fn state_word(state: PendingState) -> &'static str {
    match state {
        PendingState::Waiting => "waiting",
        PendingState::Approved => "approved",
        _ => "refused",
    }
}

/// What somebody agrees to.
fn facts(call: &PendingCall) -> Vec<Fact> {
    let mut facts = vec![("skill", with_lookalikes(&call.skill))];
    facts.extend(call.tool.as_ref().map(|tool| ("tool", with_lookalikes(tool))));
    facts.extend(call.reason.as_ref().map(|reason| ("because", reason_words(reason).to_owned())));
    let wants = |name: &String| match name.parse() {
        Ok(permission) => permission_sentence(&permission),
        Err(_) => with_lookalikes(name),
    };
    facts.extend(call.permissions.iter().map(|name| ("wants", wants(name))));
    facts.push(("has", call.grants.join(", ")));
    if !call.callers.is_empty() {
        facts.push(("called by", call.callers.join(" > ")));
    }
    facts.push(("caller", call.caller.clone()));
    facts.push(("script", call.script.clone()));
    facts.push(("sandbox", call.sandbox_mode.clone()));
    if !call.variables.is_empty() {
        facts.push(("sets", call.variables.join(", ")));
    }
    facts.extend(call.stdin.as_ref().map(|text| ("stdin", format!("{text:?}"))));
    facts.push(("project", call.project.display().to_string()));
    if !call.args.is_empty() {
        facts.push(("arguments", format!("{:?}", call.args)));
    }
    let input = call.input.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string);
    facts.push(("input", input));
    facts
}

fn details(call: &PendingCall) -> Vec<Fact> {
    vec![
        ("digest", call.digest.clone()),
        ("made", call.created.to_string()),
        ("waits until", call.expires.to_string()),
    ]
}

fn reason_words(reason: &str) -> &'static str {
    match reason {
        "critical_skill" => "it has a critical risk",
        "elevated_skill" => "it has the sensitivity elevated",
        "tool" => "a person agrees to each call of this tool",
        _ => "a person agrees to each such call",
    }
}
