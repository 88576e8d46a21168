//! Collects the results of a walk: bounded, sorted, with a log entry for everything that could not be read.

use crate::error::{ErrorKind, Result, SkillError};
use crate::host::files::{Entry, Skipped, WalkFilter, WalkOptions};
use crate::host::log::LogLevel;
use crate::host::memory::HostMemoryReservation;
use crate::host::{RunContext, SkillContext};

/// Results one answer may have.
const MAX_RESULTS: usize = 100_000;
/// Maximum failures that are logged one by one.
const MAX_LOGGED_FAILURES: usize = 10;

/// The conversion of an entry, and the approximate bytes of its result besides the path.
#[derive(Clone, Copy)]
pub(super) enum AnswerOverhead {
    Text = 32,
    Record = 800,
}

/// The entries below `start` (a real folder) that are wanted, sorted by path. What cannot be looked into goes to the log.
pub(super) fn collect_entries(
    ctx: &SkillContext,
    start: &str,
    filter: WalkFilter,
    depth: Option<usize>,
    is_wanted: impl Fn(&Entry) -> bool,
    overhead: AnswerOverhead,
) -> Result<(Vec<Entry>, HostMemoryReservation)> {
    let (mut found, mut reservation) = (Vec::new(), ctx.host_memory().empty_reservation());
    let walk = WalkOptions { cancel: ctx.cancel(), filter, depth };
    let skipped = ctx.project_view()?.walk(start, &walk, |entry| {
        if !is_wanted(&entry) {
            return Ok(());
        }
        if found.len() == MAX_RESULTS {
            let sentence = format!("more than {MAX_RESULTS} files and folders match; narrow the search");
            return Err(SkillError::new(ErrorKind::Io, sentence).with_help("narrow the search"));
        }
        reservation.grow(entry.memory_size() + overhead as u64)?;
        found.push(entry);
        Ok(())
    })?;
    log_skipped(ctx, &skipped)?;
    found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok((found, reservation))
}

/// Logs what was skipped because it could not be read.
pub(super) fn log_skipped(ctx: &SkillContext, skipped: &[Skipped]) -> Result<()> {
    for Skipped { path, error } in skipped.iter().take(MAX_LOGGED_FAILURES) {
        let cause = SkillError::io(
            format_args!("skipped {path}"),
            std::io::Error::new(error.kind(), error.to_string()),
        );
        ctx.log(LogLevel::Warn, cause.message())?;
    }
    match skipped.len().saturating_sub(MAX_LOGGED_FAILURES) {
        0 => Ok(()),
        more => ctx.log(LogLevel::Warn, format!("skipped {more} more paths that could not be read")),
    }
}
