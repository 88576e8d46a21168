//! Which limit a process ran into: by how it ended, and by what it says.

use std::time::Duration;

use super::process::Ended;
use crate::error::{ErrorKind, SkillError};
use crate::policy::{Limits, OutputPolicy};

/// Signals of the system: killed, out of processor time, a file that grew too large.
const KILL: i32 = 9;
const XCPU: i32 = 24;
const XFSZ: i32 = 25;

/// A limit that the system holds by an error, which a script may pass on in words of its own.
struct Held {
    /// In small letters.
    shows: &'static [&'static str],
    /// What ends a process that does not ask for the error.
    signal: Option<i32>,
    limit: fn(&Limits) -> Option<u64>,
    /// Before and after the number.
    says: [&'static str; 2],
}

const HELD: [Held; 2] = [
    Held {
        shows: &["file too large", "file size limit exceeded", "efbig"],
        signal: Some(XFSZ),
        limit: |limits| limits.file_size,
        says: ["no file may grow beyond", "bytes; if the script needs it, raise that with --file-size"],
    },
    Held {
        shows: &["too many open files", "emfile"],
        signal: None,
        limit: |limits| limits.open_files,
        says: [
            "no more than",
            "files may be open at a time; if the script needs more, raise that with --open-files",
        ],
    },
];

/// How much of the end of the errors is looked at, in bytes.
const LOOKED_AT: usize = 64 << 10;

/// The error of a process that a limit ended.
pub(super) fn stopped(limits: &Limits, name: &str, ended: &Ended) -> Option<SkillError> {
    let streams = [("standard output", &ended.stdout), ("standard error", &ended.stderr)];
    let full = streams.into_iter().find(|(_, kept)| kept.truncated && limits.on_output == OutputPolicy::Kill);
    full.map(|(stream, _)| too_much_said(limits, name, stream))
        .or_else(|| out_of_memory(limits, name, ended))
        .or_else(|| out_of_time(limits, name, ended))
}

/// What one process may have the system refuses to give it; this is what all of them held together.
fn out_of_memory(limits: &Limits, name: &str, ended: &Ended) -> Option<SkillError> {
    let report = ended.report.as_ref().filter(|report| report.over_memory)?;
    let most = limits.memory.unwrap_or(Limits::MEMORY_TREE);
    if report.used.tree_memory <= most {
        let sentence = format!(
            "{name} or what it started is a program that may be run and not read, so that its memory cannot be counted"
        );
        let help = "let the user who runs it read the program";
        return Some(SkillError::new(ErrorKind::Memory, sentence).with_help(help));
    }
    let sentence =
        format!("{name} and what it started held more than {most} bytes of memory and were stopped");
    let help = "hold less, start fewer processes at a time, or raise the memory limit";
    Some(SkillError::new(ErrorKind::Memory, sentence).with_help(help))
}

/// The error of a process that wrote too much to a stream of that name.
pub(super) fn too_much_said(limits: &Limits, name: &str, stream: &str) -> SkillError {
    let sentence = format!("{name} wrote more than {} bytes to {stream} and was stopped", limits.output);
    let help = "write less, raise the output limit, or have it cut by --on-output truncate";
    SkillError::new(ErrorKind::Output, sentence).with_help(help)
}

/// What helps a script that failed where it met a limit.
pub(super) fn advice(limits: &Limits, ended: &Ended) -> Option<String> {
    let end = &ended.stderr.bytes[ended.stderr.bytes.len().saturating_sub(LOOKED_AT)..];
    let said = String::from_utf8_lossy(end).to_lowercase();
    let met = |held: &&Held| {
        let is_by_signal = held.signal.is_some() && held.signal == ended.signal;
        is_by_signal || held.shows.iter().any(|words| said.contains(words))
    };
    let held = HELD.iter().find(met)?;
    let most = (held.limit)(&limits.clone().of_process())?;
    Some(format!("{} {most} {}", held.says[0], held.says[1]))
}

fn out_of_time(limits: &Limits, name: &str, ended: &Ended) -> Option<SkillError> {
    let limit = limits.clone().of_process().cpu?;
    let is_out = match &ended.report {
        // One that does not heed the signal is killed a second later. Anybody may send either, so that what was used counts;
        // the system has two ways of counting, which differ on a busy machine.
        Some(report) => {
            let used = Duration::from_micros(report.used.cpu_us);
            (is_by(ended, XCPU) || is_by(ended, KILL)) && used * 2 >= limit
        }
        None => ended.signal == Some(XCPU),
    };
    let sentence = format!("{name} used more than the {} s of processor time it may", limit.as_secs());
    let help = "give it more with --cpu, or make it do less";
    is_out.then(|| SkillError::new(ErrorKind::Cpu, sentence).with_help(help))
}

/// Whether this signal ended the script, or the last thing a shell called.
fn is_by(ended: &Ended, signal: i32) -> bool {
    ended.signal == Some(signal) || ended.status.code() == Some(128 + signal)
}
