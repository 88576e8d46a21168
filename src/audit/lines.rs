//! The lines of the audit log as they are read: all of them, and whether each fits to the one before it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use serde::Serialize;
use serde_json::Value;

use super::chain::{AuditHash, SealedLine, holds_whole_line};
use super::folder::{CURRENT_FILE, LogFolder};
use metier_core::error::{Result, SkillError};

/// The longest line that is read, in bytes; metier writes shorter ones.
const MAX_LINE: u64 = 1 << 20;

/// A line of the audit log.
///
/// In JSON: `{file, line, record}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditLine {
    /// The name of its file.
    pub file: String,
    /// Its number in the file, from 1.
    pub line: u64,
    /// What it says: the keys of [`AuditRecord`](super::AuditRecord), `previous` and `hash`.
    pub record: Value,
}

/// What was found when every line was compared with the one before it.
///
/// In JSON: `{files, lines, torn, head, missing_files, unfinished_bytes, lines_after_head, problem}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditReport {
    /// How many files the log has.
    pub files: u64,
    /// How many lines fit to the one before them.
    pub lines: u64,
    /// How many of them say that a crash tore a line.
    pub torn: u64,
    /// The hash of the last of them.
    pub head: Option<AuditHash>,
    /// How many files at the beginning of the log are not there any more.
    pub missing_files: u32,
    /// The size of a last line that a crash tore, which the next one marks.
    pub unfinished_bytes: u64,
    /// How many lines follow the one with the expected hash; `None` if none was expected.
    pub lines_after_head: Option<u64>,
    /// The first line that does not fit.
    pub problem: Option<AuditProblem>,
}

/// Where the log does not fit together.
///
/// In JSON: `{file, line, reason}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditProblem {
    /// The name of the file; `None` if no line of the log has the expected hash.
    pub file: Option<String>,
    /// The number of the line in it, from 1.
    pub line: Option<u64>,
    /// Why it does not fit.
    pub reason: String,
}

/// Compares every line of the files with the hash of the line before it.
pub(super) fn verify(folder: &LogFolder, head: Option<AuditHash>, report: &mut AuditReport) -> Result<()> {
    let failed = |source| SkillError::io("failed to read the audit log", source);
    let mut chain = Chain { report, previous: None, expected: head };
    for (at, name, file) in open_files(folder)? {
        if chain.previous.is_none() {
            chain.report.missing_files = at - 1;
        } else if at != chain.report.missing_files + u32::try_from(chain.report.files).unwrap_or(u32::MAX) + 1
        {
            chain.add_problem(&name, 1, "the file before it is missing");
        }
        chain.report.files += 1;
        chain.read(&name, BufReader::new(file)).map_err(failed)?;
        if chain.report.problem.is_some() {
            return Ok(());
        }
    }
    chain.finish();
    Ok(())
}

/// Lines that were read so far.
struct Chain<'a> {
    report: &'a mut AuditReport,
    previous: Option<AuditHash>,
    expected: Option<AuditHash>,
}

impl Chain<'_> {
    fn add_problem(&mut self, file: &str, line: u64, reason: &str) {
        self.report.problem.get_or_insert_with(|| AuditProblem {
            file: Some(file.to_owned()),
            line: Some(line),
            reason: reason.to_owned(),
        });
    }

    /// Reads a file up to its end or to the first line that does not fit.
    fn read(&mut self, name: &str, mut file: impl BufRead) -> io::Result<()> {
        let mut number = 0;
        let mut line = Vec::new();
        while self.report.problem.is_none() && read_line(&mut file, &mut line)? {
            number += 1;
            match line.strip_suffix(b"\n") {
                Some(whole) => self.check(name, number, whole),
                None if name != CURRENT_FILE || is_no_torn_line(&line) => {
                    self.add_problem(name, number, "it has no end");
                }
                None => self.report.unfinished_bytes = line.len() as u64,
            }
        }
        Ok(())
    }

    fn check(&mut self, name: &str, number: u64, line: &[u8]) {
        let sealed = match SealedLine::parse(line) {
            Ok(sealed) => sealed,
            Err(reason) => return self.add_problem(name, number, reason),
        };
        // The first line that is there may continue a file that somebody has removed.
        let is_beginning = self.previous.is_none() && self.report.missing_files > 0;
        if sealed.previous != self.previous.unwrap_or(AuditHash::NONE) && !is_beginning {
            let reason = if self.previous.is_none() {
                "a line before it is missing"
            } else {
                "it does not follow the line before it: a line was removed, added or moved"
            };
            return self.add_problem(name, number, reason);
        }
        if let Some(after) = &mut self.report.lines_after_head {
            *after += 1;
        }
        if self.expected == Some(sealed.hash) {
            self.report.lines_after_head = Some(0);
        }
        self.previous = Some(sealed.hash);
        self.report.head = Some(sealed.hash);
        self.report.lines += 1;
        self.report.torn += u64::from(is_torn_mark(line));
    }

    fn finish(self) {
        if self.expected.is_some() && self.report.lines_after_head.is_none() {
            let reason =
                "no line has the expected hash: the log was written anew, or lines at its end were removed";
            self.report.problem = Some(AuditProblem { file: None, line: None, reason: reason.to_owned() });
        }
    }
}

/// Whether a line without a line end is more than a crash leaves of one.
fn is_no_torn_line(line: &[u8]) -> bool {
    line.len() as u64 > MAX_LINE || holds_whole_line(line) && SealedLine::parse(line).is_err()
}

fn is_torn_mark(line: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Kind {
        kind: String,
    }
    // Most lines say otherwise in their first bytes.
    const TORN: &[u8] = b"\"kind\":\"torn\"";
    let start = line.get(..line.len().min(100)).unwrap_or_default();
    start.windows(TORN.len()).any(|part| part == TORN)
        && serde_json::from_slice::<Kind>(line).is_ok_and(|line| line.kind == "torn")
}

/// Calls this with every line that is JSON.
pub(super) fn for_each(folder: &LogFolder, mut visit: impl FnMut(AuditLine) -> Result<()>) -> Result<()> {
    let failed = |source| SkillError::io("failed to read the audit log", source);
    for (_, name, file) in open_files(folder)? {
        let mut file = BufReader::new(file);
        let (mut number, mut line) = (0, Vec::new());
        while read_line(&mut file, &mut line).map_err(failed)? {
            number += 1;
            if let Ok(record) = serde_json::from_slice(&line) {
                visit(AuditLine { file: name.clone(), line: number, record })?;
            }
        }
    }
    Ok(())
}

/// The files of the log, the oldest first, with their numbers.
fn open_files(folder: &LogFolder) -> Result<Vec<(u32, String, File)>> {
    let failed = |source| SkillError::io("failed to read the audit log", source);
    let mut names = folder.closed_files().map_err(failed)?;
    if folder.has(CURRENT_FILE) {
        names.push((names.last().map_or(1, |(number, _)| number + 1), CURRENT_FILE.to_owned()));
    }
    names.into_iter().map(|(at, name)| folder.open_for_reading(&name).map(|file| (at, name, file))).collect()
}

/// Reads a line with its end; a longer one only so far that it is seen. Returns whether there was any.
fn read_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    file.take(MAX_LINE + 1).read_until(b'\n', line)?;
    Ok(!line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::chain::close_line;
    use super::*;

    /// So many lines, each with the hash of the one before.
    fn log(count: usize) -> Vec<u8> {
        let (mut text, mut head) = (Vec::new(), AuditHash::NONE);
        for number in 0..count {
            let mut line = format!(r#"{{"kind":"run_ended","run":"Jé*{number}"}}"#).into_bytes();
            head = close_line(&mut line, head);
            text.extend(line);
        }
        text
    }

    fn verified(text: &[u8], head: Option<AuditHash>) -> AuditReport {
        let mut report = AuditReport::default();
        let mut chain = Chain { report: &mut report, previous: None, expected: head };
        chain.read(CURRENT_FILE, text).unwrap();
        if chain.report.problem.is_none() {
            chain.finish();
        }
        report
    }

    #[test]
    fn every_flip_of_a_single_bit_is_found_in_its_line() {
        let whole = log(1_000);
        let report = verified(&whole, None);
        assert!(report.problem.is_none() && report.lines == 1_000, "{report:?}");
        let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        let finds_flips_in = |number: usize| {
            // The lines before are unchanged, and no line after the first that does not fit is read.
            let previous =
                (number > 0).then(|| SealedLine::parse(lines[number - 1].trim_ascii_end()).unwrap().hash);
            let mut text = lines[number..lines.len().min(number + 2)].concat();
            for at in 0..lines[number].len() {
                for bit in 0..8 {
                    text[at] ^= 1 << bit;
                    let mut report = AuditReport::default();
                    let mut chain = Chain { report: &mut report, previous, expected: None };
                    chain.read(CURRENT_FILE, text.as_slice()).unwrap();
                    let found = report.problem.and_then(|problem| problem.line);
                    assert_eq!(found, Some(1), "line {number}, byte {at}, bit {bit}");
                    text[at] ^= 1 << bit;
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| (0..lines.len()).step_by(2).for_each(finds_flips_in));
            (1..lines.len()).step_by(2).for_each(finds_flips_in);
        });
    }

    #[test]
    fn lines_that_were_removed_or_moved_are_found_by_the_line_after_them() {
        let whole = log(5);
        let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        let problem_of = |order: &[usize]| {
            let text: Vec<u8> = order.iter().flat_map(|at| lines[*at]).copied().collect();
            verified(&text, None).problem.and_then(|problem| problem.line)
        };
        assert_eq!(problem_of(&[0, 1, 2, 3, 4]), None);
        assert_eq!(problem_of(&[1, 2, 3, 4]), Some(1));
        assert_eq!(problem_of(&[0, 2, 3, 4]), Some(2));
        assert_eq!(problem_of(&[0, 1, 1, 2, 3, 4]), Some(3));
        assert_eq!(problem_of(&[0, 2, 1, 3, 4]), Some(2));
    }

    #[test]
    fn what_is_missing_at_the_end_is_found_by_a_head_that_was_kept() {
        let whole = log(5);
        let report = verified(&whole, None);
        let shorter: Vec<u8> =
            whole.split_inclusive(|byte| *byte == b'\n').take(4).flatten().copied().collect();
        let before = verified(&shorter, None).head;
        assert!(verified(&shorter, None).problem.is_none());
        assert!(verified(&shorter, report.head).problem.is_some_and(|problem| problem.line.is_none()));
        assert_eq!(verified(&whole, before).lines_after_head, Some(1));
        assert_eq!(verified(&whole, report.head).lines_after_head, Some(0));
    }

    #[test]
    fn a_last_line_that_a_crash_tore_is_no_fault_wherever_it_ends() {
        let whole = log(3);
        let last = whole.split_inclusive(|byte| *byte == b'\n').take(2).flatten().count();
        for end in last..whole.len() {
            let report = verified(&whole[..end], None);
            assert!(report.problem.is_none() && report.lines == 2, "{end}: {report:?}");
            assert_eq!(report.unfinished_bytes, (end - last) as u64);
        }
    }
}
