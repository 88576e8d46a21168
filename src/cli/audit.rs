//! `metier audit`: shows the audit log, checks it, and closes its file.

use std::path::Path;
use std::time::{Duration, SystemTime};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use metier::audit::{AuditHash, AuditKind, AuditLine, AuditLog, AuditProblem, AuditReport};
use metier::error::{ErrorKind, Result, SkillError};
use metier::policy::Timestamp;
use serde_json::{Value, json};

use super::output;
use super::session::Session;
use super::terminal::escape_line;

/// The options of `metier audit`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Print the lines of the audit log, the oldest first
    Show {
        /// Only those about this skill, by its name or its qualified name
        #[arg(long, value_name = "NAME")]
        skill: Option<String>,
        /// Only those since this time, such as 2026-11-24, 2026-11-24T08:30:00Z, or 2h for the last two hours
        #[arg(long, value_name = "TIME", value_parser = parse_since)]
        since: Option<Since>,
        /// Only those of this kind (may be repeated)
        #[arg(long, value_name = "KIND", value_parser = kind_parser())]
        kind: Vec<String>,
    },
    /// Check that every line follows the one before it, and name the first that does not
    Verify {
        /// A hash of `metier audit head` that was kept elsewhere: one line must have it
        #[arg(long, value_name = "HASH")]
        head: Option<AuditHash>,
    },
    /// Print the hash of the last line, to be kept elsewhere
    Head,
    /// Close the file of the log, and go on in a new one that begins with its hash
    Rotate,
}

/// The beginning of what is printed: in UTC, as far as it was written.
#[derive(Clone)]
struct Since(String);

fn kind_parser() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(AuditKind::ALL.map(AuditKind::name))
}

fn parse_since(text: &str) -> Result<Since> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(Since(time.to_string().trim_end_matches('Z').to_owned()));
    }
    if format!("{text}T00:00:00Z").parse::<Timestamp>().is_ok() {
        return Ok(Since(text.to_owned()));
    }
    let invalid = || {
        SkillError::new(
            ErrorKind::Usage,
            "expected a time such as 2026-11-24T08:30:00Z, a day such as 2026-11-24, or 2h",
        )
    };
    let elapsed: Duration = metier_core::policy::units::parse_duration(text).map_err(|_| invalid())?;
    let time = SystemTime::now().checked_sub(elapsed).ok_or_else(invalid)?;
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| invalid())?.as_secs();
    Ok(Since(Timestamp::from_seconds(seconds).to_string().trim_end_matches('Z').to_owned()))
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let log = AuditLog::user()?;
    match &args.action {
        Action::Show { skill, since, kind } => {
            let is_shown = |record: &Value| {
                let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default();
                skill.as_ref().is_none_or(|name| is_called(text("skill"), name))
                    && since.as_ref().is_none_or(|since| text("time") >= since.0.as_str())
                    && (kind.is_empty() || kind.iter().any(|kind| kind == text("kind")))
            };
            show(&log, is_shown, session)
        }
        Action::Verify { head } => verify(&log, *head, session),
        Action::Head => head(&log, session),
        Action::Rotate => rotate(&log, session),
    }
}

/// Whether a skill of this qualified name is meant.
fn is_called(qualified_name: &str, name: &str) -> bool {
    let plain = qualified_name.rsplit(':').next().unwrap_or_default();
    let unversioned = plain.split('@').next().unwrap_or_default();
    [qualified_name, plain, unversioned].contains(&name)
}

fn show(log: &AuditLog, is_shown: impl Fn(&Value) -> bool, session: &Session) -> Result<u8> {
    let mut lines: Vec<AuditLine> = Vec::new();
    let mut has_lines = false;
    session.exit_watchdog().finish();
    log.for_each(|line| {
        has_lines = true;
        if !is_shown(&line.record) {
            return Ok(());
        }
        if session.json() {
            lines.push(line);
            return Ok(());
        }
        output::print(&escape_line(&sentence(&line.record)))
    })?;
    if session.json() {
        output::print_json(&lines)?;
    } else if !has_lines {
        output::eprint(&format!("nothing is recorded in {}", shown_folder(log.folder())));
    }
    Ok(0)
}

/// A record on one line.
fn sentence(record: &Value) -> String {
    let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let client = text("/who/client").map_or(String::new(), |name| format!(" {name}"));
    let who = format!(
        "{} {}{client}",
        text("/who/actor").unwrap_or_default(),
        text("/who/face").unwrap_or_default()
    );
    let permissions = record.get("permissions").and_then(Value::as_array).map(|listed| {
        let names: Vec<&str> = listed.iter().filter_map(Value::as_str).collect();
        format!("[{}]", names.join(" "))
    });
    let secret = text("/secret/name")
        .map(|name| format!("{name} from {}", text("/secret/source").unwrap_or_default()));
    let duration = record.pointer("/resources/duration_ms").map(|time| format!("{time} ms"));
    let torn = record.pointer("/torn/bytes").map(|bytes| format!("{bytes} bytes"));
    let project = text("/project").filter(|_| record.get("change").is_some());
    let parts = [
        text("/time"),
        text("/kind"),
        Some(format!("({who})")),
        text("/skill"),
        text("/tool"),
        text("/change"),
        project,
        text("/gate"),
        text("/target"),
        secret,
        permissions,
        text("/outcome"),
        duration,
        torn,
        text("/run").map(|run| format!("run {run}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
}

fn verify(log: &AuditLog, head: Option<AuditHash>, session: &Session) -> Result<u8> {
    session.exit_watchdog().finish();
    let report = log.verify(head)?;
    let code = u8::from(report.problem.is_some());
    if session.json() {
        return output::print_json(&report).map(|()| code);
    }
    if let Some(problem) = &report.problem {
        output::print_error(&problem_error(problem));
        return Ok(code);
    }
    for note in notes(&report) {
        output::eprint(&note);
    }
    let head = report.head.map_or_else(|| "none".to_owned(), |head| head.to_string());
    output::print(&format!(
        "{} in {} fit together; head {head}",
        output::plural(usize::try_from(report.lines).unwrap_or(usize::MAX), "line"),
        output::plural(usize::try_from(report.files).unwrap_or(usize::MAX), "file"),
    ))?;
    Ok(code)
}

fn problem_error(problem: &AuditProblem) -> SkillError {
    let sentence = match (&problem.file, problem.line) {
        (Some(file), Some(line)) => format!("line {line} of {file} does not fit: {}", problem.reason),
        _ => problem.reason.clone(),
    };
    SkillError::new(ErrorKind::Untrusted, sentence)
        .with_help("trust no line from there on; compare the log with a copy")
}

fn notes(report: &AuditReport) -> Vec<String> {
    let mut notes = Vec::new();
    if report.missing_files > 0 {
        notes.push(format!("the first {} files of the log are not there", report.missing_files));
    }
    if report.torn > 0 {
        notes.push(format!("{} lines were torn by a crash", report.torn));
    }
    if report.unfinished_bytes > 0 {
        let bytes = report.unfinished_bytes;
        notes
            .push(format!("the last line was torn by a crash after {bytes} bytes; the next one will say so"));
    }
    if let Some(count) = report.lines_after_head {
        notes.push(format!("{count} lines follow the one with the expected hash"));
    }
    notes
}

fn head(log: &AuditLog, session: &Session) -> Result<u8> {
    session.exit_watchdog().finish();
    let report = log.verify(None)?;
    if let Some(problem) = &report.problem {
        return Err(problem_error(problem));
    }
    if session.json() {
        return output::print_json(&json!({"head": report.head, "lines": report.lines})).map(|()| 0);
    }
    match report.head {
        Some(head) => output::print(&head.to_string())?,
        None => output::eprint(&format!("nothing is recorded in {}", shown_folder(log.folder()))),
    }
    Ok(0)
}

fn rotate(log: &AuditLog, session: &Session) -> Result<u8> {
    session.exit_watchdog().finish();
    let file = log.rotate()?;
    if session.json() {
        return output::print_json(&json!({"file": file})).map(|()| 0);
    }
    match file {
        Some(name) => output::print(&format!("closed {}", shown_folder(&log.folder().join(name))))?,
        None => output::eprint("there is nothing to close"),
    }
    Ok(0)
}

fn shown_folder(path: &Path) -> String {
    escape_line(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skill_is_meant_by_each_of_its_names() {
        for name in ["project/.metier:deploy@1.2.0", "deploy@1.2.0", "deploy"] {
            assert!(is_called("project/.metier:deploy@1.2.0", name), "{name}");
        }
        assert!(is_called("no-such-skill", "no-such-skill"));
        assert!(!is_called("project/.metier:deploy@1.2.0", "metier"));
    }

    #[test]
    fn times_are_days_seconds_or_durations() {
        assert_eq!(parse_since("2026-11-24").unwrap().0, "2026-11-24");
        assert_eq!(parse_since("2026-11-24T08:30:00Z").unwrap().0, "2026-11-24T08:30:00");
        assert!("2026-11-24T08:30:00.001Z" >= parse_since("2026-11-24T08:30:00Z").unwrap().0.as_str());
        assert!(parse_since("2h").unwrap().0.as_str() > "2026-11-24");
        for text in ["", "yesterday", "2026-13-01"] {
            assert!(parse_since(text).is_err(), "{text}");
        }
    }
}
