//! `metier changes`: the change sets that wait for a decision, what is in them, and the decisions.

use std::os::fd::{AsFd, BorrowedFd};

use metier::audit::ChangeSetDecision;
use metier::changes::{ApplyOptions, ApplyReport, ChangeStore, StoredChangeSet, summary};
use metier::error::Result;
use serde_json::json;

use super::output::{self, plural};
use super::prompt::output_columns;
use super::session::Session;
use super::terminal::{escape_line, escape_text, shorten_line};

/// The options of `metier changes`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List the change sets of all projects
    List,
    /// Show what a change set would do, with the lines that differ in texts
    Show {
        /// Its id
        id: String,
    },
    /// Write a change set to its project, or some of its paths; what the project has changed since stays as it is
    Apply {
        /// Its id
        id: String,
        /// Only these paths, each with all below it
        paths: Vec<String>,
        /// Store what is replaced, so that `metier undo` can restore it
        #[arg(long)]
        undoable: bool,
    },
    /// Remove a change set
    Discard {
        /// Its id
        id: String,
    },
}

/// Lines of a summary.
const MAX_SUMMARY_LINES: usize = 200;

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let store = ChangeStore::user()?;
    session.exit_watchdog().finish();
    match &args.action {
        None | Some(Action::List) => list(&store.list()?, session),
        Some(Action::Show { id }) => {
            let stored = store.find(id)?;
            // Without the project there is nothing to compare with, and the rest can still be shown.
            let project = store.open_project(&stored.set).ok();
            show(&store, &stored, project.as_ref().map(AsFd::as_fd), session)
        }
        Some(Action::Apply { id, paths, undoable }) => {
            let stored = store.find(id)?;
            let project = store.open_project(&stored.set)?;
            // As shells complete them.
            let plain =
                |path: &String| path.strip_prefix("./").unwrap_or(path).trim_end_matches('/').to_owned();
            let paths = (!paths.is_empty()).then(|| paths.iter().map(plain).collect());
            let options = ApplyOptions { paths, keep_old: *undoable, ..ApplyOptions::default() };
            session.record_change_set(&stored.set, ChangeSetDecision::Applied)?;
            print_report(&store.apply(id, project.as_fd(), &options)?, "applied", session)
        }
        Some(Action::Discard { id }) => {
            store.discard(id)?;
            if session.json() {
                return output::print_json(&json!({"discarded": id})).map(|()| 0);
            }
            output::eprint(&format!("discarded {id}"));
            Ok(0)
        }
    }
}

fn list(sets: &[StoredChangeSet], session: &Session) -> Result<u8> {
    if session.json() {
        return output::print_json(&sets).map(|()| 0);
    }
    for stored in sets {
        let set = &stored.set;
        let applied = match stored.applied.len() {
            0 => "not applied".to_owned(),
            count if count == set.changes.len() => "applied".to_owned(),
            count => format!("{count} applied"),
        };
        output::print(&format!(
            "{}  {}  {}, {applied}, {}, in {}",
            set.id,
            shorten_line(&set.skill, 60),
            plural(set.changes.len(), "change"),
            set.ended,
            escape_line(&set.project),
        ))?;
    }
    if sets.is_empty() {
        output::eprint("no change set is stored");
    }
    Ok(0)
}

/// Shows what a change set would do.
pub(super) fn show(
    store: &ChangeStore,
    stored: &StoredChangeSet,
    project: Option<BorrowedFd<'_>>,
    session: &Session,
) -> Result<u8> {
    let set = &stored.set;
    if session.json() {
        let diffs =
            project.map_or_else(Vec::new, |project| store.text_diffs_as_json(set, project, |text| text));
        return output::print_json(&json!({"change_set": stored, "diffs": diffs})).map(|()| 0);
    }
    output::print(&format!("{}  {}  {}", set.id, shorten_line(&set.skill, 60), set.ended))?;
    output::print(summary(set, output_columns(), MAX_SUMMARY_LINES).trim_end())?;
    let diffs = project.into_iter().flat_map(|project| store.text_diffs(set, project));
    for (change, diff) in diffs {
        output::print(&format!("\n{}", escape_line(&change.path)))?;
        output::print(escape_text(&diff.to_string()).trim_end())?;
    }
    Ok(0)
}

/// Prints what was done; the exit code is 1 where the project has something else than expected.
pub(super) fn print_report(report: &ApplyReport, word: &str, session: &Session) -> Result<u8> {
    let code = u8::from(!report.conflicts.is_empty());
    if session.json() {
        return output::print_json(report).map(|()| code);
    }
    output::eprint(&format!("{word} {}", plural(report.applied.len(), "path")));
    for conflict in &report.conflicts {
        output::print_warning(&format!("not {word}: {conflict}"));
    }
    Ok(code)
}
