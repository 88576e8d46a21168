//! Questions on a terminal, each answered with one key.
//!
//! What is asked is hostile text: every value is escaped, shortened and wrapped behind a margin, so that nothing in it can begin a
//! line, and the line with the keys is the last one.

#[cfg(unix)]
mod keyboard;
#[cfg(not(unix))]
#[path = "prompt/keyboard_unsupported.rs"]
mod keyboard;

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use anstyle::Style;
use metier::policy::Permission;
use metier::unicode::with_lookalikes;

use self::keyboard::{Key, Keyboard};
use super::output::eprint;
use super::terminal::escape_line;

pub use self::keyboard::restore_terminal;

/// What is asked: a sentence, and what one should know to answer.
pub struct Question {
    pub sentence: String,
    pub facts: Vec<(&'static str, String)>,
    /// Shown when `d` is pressed.
    pub details: Vec<(&'static str, String)>,
    /// What the keys are for, such as `run it`.
    pub prompt: &'static str,
    /// The keys besides `n` for no, and what each answers.
    pub choices: &'static [(char, &'static str)],
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The key of a choice.
    Choice(char),
    /// `n`, Enter, a closed terminal, or the question was withdrawn.
    No,
    /// Ctrl-C.
    Interrupt,
}

/// The most characters of a fact and of a detail.
const MAX_FACT_CHARS: usize = 300;
const MAX_DETAIL_CHARS: usize = 4_000;

/// The margin of every line of a fact.
const MARGIN: usize = 12;

/// One question stands at a time.
static ASKING: Mutex<()> = Mutex::new(());

/// Whether somebody sits at a terminal who can answer.
pub fn is_possible() -> bool {
    keyboard::is_terminal() && std::env::var_os("CI").is_none_or(|value| value.is_empty() || value == "false")
}

/// Asks until there is an answer or the question is withdrawn.
pub fn ask(question: &Question, is_withdrawn: &dyn Fn() -> bool) -> Reply {
    let _asking = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_withdrawn() {
        return Reply::No;
    }
    let Some(keyboard) = Keyboard::open() else { return Reply::No };
    show(question);
    let reply = read_reply(question, &mut || keyboard.read(is_withdrawn), &|| keyboard.flush(), is_withdrawn);
    let answer = match reply {
        Reply::Choice(key) => {
            question.choices.iter().find(|(choice, _)| *choice == key).map(|(_, words)| *words)
        }
        Reply::No | Reply::Interrupt => None,
    };
    eprint(answer.unwrap_or("no"));
    reply
}
fn read_reply(
    question: &Question,
    next_key: &mut dyn FnMut() -> Option<Key>,
    flush: &dyn Fn(),
    is_withdrawn: &dyn Fn() -> bool,
) -> Reply {
    loop {
        match next_key() {
            Some(Key::Interrupt) => return Reply::Interrupt,
            // Nobody waits for a later answer any more.
            Some(_) if is_withdrawn() => return Reply::No,
            Some(Key::Char(key)) => match key.to_ascii_lowercase() {
                'n' => return Reply::No,
                'd' if !question.details.is_empty() => {
                    eprint("");
                    eprint(&lines(&question.details, MAX_DETAIL_CHARS));
                    show_keys(question);
                    // What was typed before the details were there is no answer to them.
                    flush();
                }
                key if question.choices.iter().any(|(choice, _)| *choice == key) => {
                    return Reply::Choice(key);
                }
                _ => {}
            },
            Some(Key::Other) => {}
            Some(Key::Enter | Key::End) | None => return Reply::No,
        }
    }
}

fn show(question: &Question) {
    let bold = Style::new().bold();
    eprint(&format!("{bold}{}{bold:#}", escape_line(&question.sentence)));
    eprint(&lines(&question.facts, MAX_FACT_CHARS));
    show_keys(question);
}

fn show_keys(question: &Question) {
    let choices = question.choices.iter().map(|(key, words)| format!("[{key}] {words}"));
    let details = (!question.details.is_empty()).then(|| "[d] details".to_owned());
    let keys: Vec<String> = choices.chain(["[n] no".to_owned()]).chain(details).collect();
    let mut stderr = anstream::stderr();
    // If standard error is closed, the answer is no.
    let _ = write!(stderr, "{} {}: ", question.prompt, keys.join("  "));
    let _ = stderr.flush();
}

/// A line for each fact, or several behind the same margin.
pub fn lines(facts: &[(&'static str, String)], max_chars: usize) -> String {
    let width = keyboard::terminal_width().filter(|width| *width > 2 * MARGIN).unwrap_or(80);
    let lines = facts.iter().flat_map(|(name, text)| {
        let text = shorten(text, max_chars);
        let lines = wrap(&text, width - MARGIN - 3);
        lines.into_iter().enumerate().map(move |(index, line)| {
            if index == 0 { format!("  {name:10}{line}") } else { format!("  {:10}| {line}", "") }
        })
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A line of text for a fact: escaped, and cut in its middle, so that its end is seen as well.
fn shorten(text: &str, max_chars: usize) -> String {
    // Beyond it, nothing would be shown anyway.
    let beginning: String = text.chars().take(2 * max_chars).collect();
    let end: Vec<char> = text.chars().rev().take(max_chars).collect();
    let count = text.chars().count();
    let shown = if count > max_chars {
        let head: String = beginning.chars().take(max_chars * 2 / 3).collect();
        let tail: String = end.iter().take(max_chars / 3).rev().collect();
        format!("{head} […{} characters…] {tail}", count - max_chars * 2 / 3 - max_chars / 3)
    } else {
        beginning
    };
    escape_line(&mark_blanks(&shown))
}

/// The text with every blank escaped that could fill a line: all but single spaces.
fn mark_blanks(text: &str) -> String {
    let mut before = None;
    let marked = text.chars().map(|c| {
        let is_plain = !c.is_whitespace() || c == ' ' && before != Some(' ');
        before = Some(c);
        if is_plain { c.to_string() } else { c.escape_unicode().to_string() }
    });
    marked.collect()
}

/// The text in lines of at most so many columns; a character outside of ASCII may take two.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![(String::new(), 0)];
    for c in text.chars() {
        let width = if c.is_ascii() { 1 } else { 2 };
        if lines.last().is_some_and(|(_, used)| used + width > columns) {
            lines.push((String::new(), 0));
        }
        if let Some((line, used)) = lines.last_mut() {
            line.push(c);
            *used += width;
        }
    }
    lines.into_iter().map(|(line, _)| line).collect()
}

/// The permission and what it lets a skill do, such as `write:out (change files at or below out)`.
pub fn permission_sentence(permission: &Permission) -> String {
    format!("{} ({})", with_lookalikes(&permission.to_string()), permission.meaning())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_comes_when_nobody_waits_any_more_is_a_no() {
        let question = Question {
            sentence: String::new(),
            facts: Vec::new(),
            details: Vec::new(),
            prompt: "",
            choices: &[('y', "yes")],
        };
        for (is_late, expected) in [(false, Reply::Choice('y')), (true, Reply::No)] {
            let reply = read_reply(&question, &mut || Some(Key::Char('y')), &|| {}, &|| is_late);
            assert_eq!(reply, expected);
        }
    }

    #[test]
    fn no_fact_begins_a_line_or_hides_its_end() {
        let forged =
            format!("a{}\nAllow it? [y] yes: y\r\u{1b}[2J\u{202e}{}", " ".repeat(70), "\u{3000}".repeat(40));
        for line in lines(&[("skill", forged.repeat(20))], MAX_FACT_CHARS).lines() {
            assert!(line.starts_with("  ") && line.chars().count() <= 80, "{line:?}");
            assert!(
                !line[2..].starts_with("Allow") && !line.contains('\u{1b}') && !line.contains('\u{202e}')
            );
        }
        let long = format!("{}/.ssh/id", "x".repeat(10_000));
        let shown = shorten(&long, MAX_FACT_CHARS);
        assert!(shown.ends_with("/.ssh/id") && shown.chars().count() < 2 * MAX_FACT_CHARS, "{shown}");
        assert!(shown.contains("characters"));
        assert_eq!(shorten("short", MAX_FACT_CHARS), "short");
        assert_eq!(wrap("世界世界", 5), ["世界", "世界"]);
        assert_eq!(wrap("", 5), [""]);
    }
}
