//! Which limit a process exceeded: from how it ended, and from its error output.

use std::time::Duration;

use crate::permission_hint::Help;
use crate::process::run::ProcessExit;
use metier_core::error::{ErrorKind, Hint, LimitKind, SkillError};
use metier_core::excerpt::byte_size;
use metier_core::host::OutputStream;
use metier_core::policy::{Limits, OutputPolicy, process_limits};

/// System signals: killed, out of CPU time, a file that grew too large.
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;

/// A limit that the system enforces with an error, which a script may report in words of its own.
struct SystemLimit {
    /// In lower case.
    error_texts: &'static [&'static str],
    /// The signal that ends a process which does not handle the error.
    signal: Option<i32>,
    limit: fn(&Limits) -> Option<u64>,
    /// The hint before and after the number.
    hint_parts: [&'static str; 2],
    kind: LimitKind,
    is_in_bytes: bool,
}

const SYSTEM_LIMITS: [SystemLimit; 3] = [
    SystemLimit {
        error_texts: &["memoryerror", "out of memory", "cannot allocate memory", "std::bad_alloc", "enomem"],
        signal: None,
        limit: |limits| limits.memory,
        hint_parts: ["a process has ", " of memory; give it more, or make it keep less"],
        kind: LimitKind::Memory,
        is_in_bytes: true,
    },
    SystemLimit {
        error_texts: &["file too large", "file size limit exceeded", "efbig"],
        signal: Some(SIGXFSZ),
        limit: |limits| limits.file_size,
        hint_parts: ["no file may grow beyond ", "; if the script needs it, raise that limit"],
        kind: LimitKind::FileSize,
        is_in_bytes: true,
    },
    SystemLimit {
        error_texts: &["too many open files", "emfile"],
        signal: None,
        limit: |limits| limits.open_files,
        hint_parts: [
            "no more than ",
            " files may be open at a time; if the script needs more, raise that limit",
        ],
        kind: LimitKind::OpenFiles,
        is_in_bytes: false,
    },
];

/// How many bytes at the end of the error output are searched.
const MAX_SEARCHED_BYTES: usize = 64 << 10;

/// The error of a process that was killed because of a limit.
pub(super) fn limit_error(limits: &Limits, name: &str, ended: &ProcessExit) -> Option<SkillError> {
    let streams = [(OutputStream::Stdout, &ended.stdout), (OutputStream::Stderr, &ended.stderr)];
    let full = streams.into_iter().find(|(_, kept)| kept.truncated && limits.on_output == OutputPolicy::Kill);
    full.map(|(stream, _)| output_limit_error(limits, name, stream))
        .or_else(|| memory_limit_error(limits, name, ended))
        .or_else(|| cpu_limit_error(limits, name, ended))
}

/// The system refuses memory above the limit of one process; this limit is for all processes together.
fn memory_limit_error(limits: &Limits, name: &str, ended: &ProcessExit) -> Option<SkillError> {
    let report = ended.report.as_ref().filter(|report| report.exceeded_tree_memory)?;
    let most = limits.memory.unwrap_or(Limits::DEFAULT_MEMORY_TREE);
    if report.usage.peak_tree_memory <= most {
        let sentence = format!(
            "{name} or what it started is a program that can be executed but not read, so its memory cannot be counted"
        );
        let help = "let the user who runs it read the program";
        return Some(SkillError::new(ErrorKind::Memory, sentence).with_help(help));
    }
    let sentence =
        format!("{name} and what it started held more than {} of memory and were stopped", byte_size(most));
    let help = "hold less, start fewer processes at a time, or raise the memory limit";
    Some(
        SkillError::new(ErrorKind::Memory, sentence)
            .with_help(help)
            .with_hint(Hint::Limit(LimitKind::Memory)),
    )
}

/// The error of a process that wrote too much to this stream.
pub(super) fn output_limit_error(limits: &Limits, name: &str, stream: OutputStream) -> SkillError {
    let most = byte_size(limits.output);
    let sentence = format!("{name} wrote more than {most} to {stream} and was stopped");
    let help = "write less, raise the output limit, or have the output truncated";
    SkillError::new(ErrorKind::Output, sentence).with_help(help).with_hint(Hint::Limit(LimitKind::Output))
}

/// The hint for a script that failed when it exceeded a limit.
pub(super) fn limit_hint(limits: &Limits, ended: &ProcessExit) -> Option<Help> {
    let end = &ended.stderr.bytes[ended.stderr.bytes.len().saturating_sub(MAX_SEARCHED_BYTES)..];
    let said = String::from_utf8_lossy(end).to_lowercase();
    let met = |held: &&SystemLimit| {
        let is_by_signal = held.signal.is_some() && held.signal == ended.signal();
        is_by_signal || held.error_texts.iter().any(|words| said.contains(words))
    };
    let held = SYSTEM_LIMITS.iter().find(met)?;
    let most = (held.limit)(&process_limits(limits))?;
    let number = if held.is_in_bytes { byte_size(most) } else { most.to_string() };
    let text = format!("{}{number}{}", held.hint_parts[0], held.hint_parts[1]);
    Some((text, Some(Hint::Limit(held.kind))))
}

fn cpu_limit_error(limits: &Limits, name: &str, ended: &ProcessExit) -> Option<SkillError> {
    let limit = process_limits(limits).cpu?;
    let is_out = match &ended.report {
        // A process that ignores the signal is killed a second later. Any process may send either signal, so the CPU time used
        // decides; the system has two ways of counting it, which differ on a busy machine.
        Some(report) => {
            let used = Duration::from_micros(report.usage.cpu_us);
            (is_ended_by_signal(ended, SIGXCPU) || is_ended_by_signal(ended, SIGKILL)) && used * 2 >= limit
        }
        None => ended.signal() == Some(SIGXCPU),
    };
    let sentence = format!("{name} used more than the {} s of processor time it may", limit.as_secs());
    let help = "give it more processor time, or make it do less";
    let hint = Hint::Limit(LimitKind::Cpu);
    is_out.then(|| SkillError::new(ErrorKind::Cpu, sentence).with_help(help).with_hint(hint))
}

/// Whether this signal ended the script, or the last command of a shell.
fn is_ended_by_signal(ended: &ProcessExit, signal: i32) -> bool {
    ended.signal() == Some(signal) || ended.status.code() == Some(128 + signal)
}
