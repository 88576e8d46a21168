//! Questions on a terminal, each answered with one key.
//!
//! What is asked is hostile text: every value is escaped and wrapped behind a margin, so that nothing in it can begin a line, and
//! the line with the keys is the last one. What does not fit on the screen is left out at first, and nobody can agree before all of
//! it was shown.

#[cfg(unix)]
mod keyboard;
#[cfg(not(unix))]
#[path = "prompt/keyboard_unsupported.rs"]
mod keyboard;

use std::cell::Cell;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use anstyle::Style;
use metier::policy::Permission;
use metier::unicode::with_lookalikes;

use self::keyboard::{Key, Keyboard};
use super::output::eprint;
use super::terminal::{escape_line, wrap};

pub use self::keyboard::{output_columns, restore_terminal};

/// What is asked: a sentence, and what one should know to answer.
pub struct Question {
    sentence: String,
    /// What one agrees to.
    facts: Vec<Fact>,
    /// Shown too when `d` is pressed.
    details: Vec<Fact>,
    /// What the keys are for, such as `run it`.
    prompt: &'static str,
    /// The keys besides `n` for no that agree, and what each answers.
    choices: &'static [Choice],
    /// The keys that only show something.
    views: &'static [Choice],
    /// Whether all facts were shown.
    is_seen: Cell<bool>,
}

/// A name and a text.
pub type Fact = (&'static str, String);

/// A key and what it answers.
pub type Choice = (char, &'static str);

impl Question {
    pub fn new(sentence: String, facts: Vec<Fact>, prompt: &'static str, choices: &'static [Choice]) -> Self {
        Self { sentence, facts, details: Vec::new(), prompt, choices, views: &[], is_seen: Cell::new(false) }
    }

    /// With more that `d` shows.
    pub fn details(self, details: Vec<Fact>) -> Self {
        Self { details, ..self }
    }

    /// With keys that only show something.
    pub fn views(self, views: &'static [Choice]) -> Self {
        Self { views, ..self }
    }

    fn has_details(&self) -> bool {
        !self.details.is_empty() || !self.is_seen.get()
    }
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

/// The most characters of a fact where not all facts fit on the screen.
const MAX_FACT_CHARS: usize = 300;

/// The margin of every line of a fact.
const MARGIN: usize = 12;

/// What a terminal has that does not say it.
const DEFAULT_SCREEN: Screen = Screen { rows: 24, columns: 80 };

/// With fewer columns, facts are not shown.
const MIN_COLUMNS: usize = 2 * MARGIN;

/// A number that no number of pages is longer than.
const MAX_PAGES: usize = 999_999;

/// Shown where the facts do not fit on the screen.
const PARTS_LEFT_OUT: &str = "  [Parts are left out: press d to see all of it before you agree.]";

/// The most lines of details that are shown without a stop, where nobody has to see them to agree.
const MAX_LINES_AT_ONCE: usize = 1_000;

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
    let screen = Screen::of_terminal();
    if screen.page_rows(question).is_none() {
        eprint("the terminal is too small to show what is asked, so the answer is no: make it larger");
        return Reply::No;
    }
    show(question, screen);
    let keys = Keys { next: &|| keyboard.read(is_withdrawn), flush: &|| keyboard.flush(), is_withdrawn };
    let reply = read_reply(question, screen, &keys);
    let answer = match reply {
        Reply::Choice(key) => {
            let all = question.choices.iter().chain(question.views);
            all.into_iter().find(|(choice, _)| *choice == key).map(|(_, words)| *words)
        }
        Reply::No | Reply::Interrupt => None,
    };
    eprint(answer.unwrap_or("no"));
    reply
}

/// The rows and columns that a question may fill.
#[derive(Clone, Copy)]
struct Screen {
    rows: usize,
    columns: usize,
}

impl Screen {
    fn of_terminal() -> Self {
        let (rows, columns) = keyboard::terminal_size().unwrap_or_default();
        let or_default = |count, default| if count == 0 { default } else { count };
        Self {
            rows: or_default(rows, DEFAULT_SCREEN.rows),
            columns: or_default(columns, DEFAULT_SCREEN.columns),
        }
    }

    /// The rows that a line takes, with the cursor after it.
    fn rows_of(self, line: &str) -> usize {
        wrap(&format!("{line} "), self.columns).len()
    }

    /// The rows of a page of facts, above what ends it; `None` if no fact can be seen.
    fn page_rows(self, question: &Question) -> Option<usize> {
        let end = self.rows_of(&page_end(MAX_PAGES, MAX_PAGES)).max(self.rows_of(&keys_line(question)));
        (self.columns > MIN_COLUMNS && self.rows > end).then(|| self.rows - end)
    }
}

/// The columns of the terminal at which questions are asked.
pub fn terminal_columns() -> usize {
    let columns = Screen::of_terminal().columns;
    if columns > MIN_COLUMNS { columns } else { DEFAULT_SCREEN.columns }
}

/// Where keys come from.
struct Keys<'a> {
    next: &'a dyn Fn() -> Option<Key>,
    /// Drops what was typed until now: it is no answer to what is shown next.
    flush: &'a dyn Fn(),
    is_withdrawn: &'a dyn Fn() -> bool,
}

impl Keys<'_> {
    /// The next key, or the reply that ends the question.
    fn read(&self) -> std::result::Result<Key, Reply> {
        match (self.next)() {
            Some(Key::Interrupt) => Err(Reply::Interrupt),
            // Nobody waits for a later answer any more.
            Some(_) if (self.is_withdrawn)() => Err(Reply::No),
            Some(Key::End) | None => Err(Reply::No),
            Some(key) => Ok(key),
        }
    }
}

fn read_reply(question: &Question, screen: Screen, keys: &Keys<'_>) -> Reply {
    let is_in = |choices: &[Choice], key| choices.iter().any(|(choice, _)| *choice == key);
    loop {
        let key = match keys.read() {
            Ok(Key::Char(key)) => key.to_ascii_lowercase(),
            Ok(Key::Enter) => return Reply::No,
            Ok(_) => continue,
            Err(reply) => return reply,
        };
        match key {
            'n' => return Reply::No,
            'd' if question.has_details() => {
                eprint("");
                if let Err(reply) = show_details(question, screen, keys) {
                    return reply;
                }
                (keys.flush)();
                show_keys(question);
            }
            key if is_in(question.views, key) => return Reply::Choice(key),
            key if is_in(question.choices, key) && question.is_seen.get() => return Reply::Choice(key),
            key if is_in(question.choices, key) => {
                eprint("press d to see all of it first");
                show_keys(question);
            }
            _ => {}
        }
    }
}

/// Shows all facts and details whole: page by page where one has to see them to agree.
fn show_details(question: &Question, screen: Screen, keys: &Keys<'_>) -> std::result::Result<(), Reply> {
    let facts = lines(&question.facts, usize::MAX, screen.columns);
    let all = [facts, lines(&question.details, usize::MAX, screen.columns)].concat();
    let is_whole = question.is_seen.get() && all.len() <= MAX_LINES_AT_ONCE;
    let page = if is_whole { all.len() } else { screen.page_rows(question).unwrap_or_default() };
    let pages = all.chunks(page.max(1));
    let count = pages.len();
    for (number, page) in pages.enumerate() {
        eprint(&page.join("\n"));
        if number + 1 == count {
            break;
        }
        (keys.flush)();
        eprint_open(&page_end(number + 1, count));
        loop {
            match keys.read()? {
                Key::Char('d' | 'D') | Key::Enter | Key::Other => break,
                Key::Char('n' | 'N') => return Err(Reply::No),
                Key::Char('q' | 'Q') => {
                    eprint("");
                    return Ok(());
                }
                _ => {}
            }
        }
        eprint("");
    }
    question.is_seen.set(true);
    Ok(())
}

fn show(question: &Question, screen: Screen) {
    let bold = Style::new().bold();
    eprint(&format!("{bold}{}{bold:#}", escape_line(&question.sentence)));
    let (lines, is_whole) = overview(question, screen);
    if is_whole {
        question.is_seen.set(true);
    }
    if !lines.is_empty() {
        eprint(&lines.join("\n"));
    }
    if !question.is_seen.get() {
        eprint(PARTS_LEFT_OUT);
    }
    show_keys(question);
}

/// The facts in as many lines as the screen has room for, and whether that is all of them.
fn overview(question: &Question, screen: Screen) -> (Vec<String>, bool) {
    // The keys may take another row when they are shown again.
    let others = screen.rows_of(&escape_line(&question.sentence)) + screen.rows_of(PARTS_LEFT_OUT);
    let room = screen.rows.saturating_sub(others + screen.rows_of(&keys_line(question)).max(2));
    let whole = lines(&question.facts, usize::MAX, screen.columns);
    if whole.len() <= room {
        return (whole, true);
    }
    let mut short = lines(&question.facts, MAX_FACT_CHARS, screen.columns);
    if short.len() > room {
        let shown = room.saturating_sub(1);
        let left_out = short.len() - shown;
        short.truncate(shown);
        short.extend((room > 0).then(|| format!("  {:10}[… {left_out} lines …]", "")));
    }
    (short, false)
}

fn show_keys(question: &Question) {
    eprint_open(&keys_line(question));
}

/// The line with the keys, the last one of a question.
fn keys_line(question: &Question) -> String {
    let choices =
        question.choices.iter().chain(question.views).map(|(key, words)| format!("[{key}] {words}"));
    let details = question.has_details().then(|| "[d] details".to_owned());
    let keys: Vec<String> = choices.chain(["[n] no".to_owned()]).chain(details).collect();
    format!("{} {}: ", question.prompt, keys.join("  "))
}

/// The line below a page that is not the last one.
fn page_end(number: usize, count: usize) -> String {
    format!("Page {number} of {count}: [d] next page  [q] back  [n] no: ")
}

/// Writes to standard error without ending the line. If it is closed, the answer is no.
fn eprint_open(text: &str) {
    let mut stderr = anstream::stderr();
    let _ = write!(stderr, "{text}");
    let _ = stderr.flush();
}

/// A line for each fact, or several behind the same margin.
fn lines(facts: &[Fact], max_chars: usize, columns: usize) -> Vec<String> {
    let lines = facts.iter().flat_map(|(name, text)| {
        let lines = wrap(&shorten(text, max_chars), columns - MARGIN - 3);
        lines.into_iter().enumerate().map(move |(index, line)| {
            if index == 0 { format!("  {name:10}{line}") } else { format!("  {:10}| {line}", "") }
        })
    });
    lines.collect()
}

/// A line of text for a fact: escaped, and where it is longer, cut in its middle, so that its end is seen as well.
fn shorten(text: &str, max_chars: usize) -> String {
    let count = text.chars().count();
    if count <= max_chars {
        return escape_line(&mark_blanks(text));
    }
    let (head, tail) = (max_chars * 2 / 3, max_chars / 3);
    let beginning: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    escape_line(&mark_blanks(&format!("{beginning} […{} characters…] {end}", count - head - tail)))
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

/// The permission and what it lets a skill do, such as `write:out (change files at or below out)`.
pub fn permission_sentence(permission: &Permission) -> String {
    format!("{} ({})", with_lookalikes(&permission.to_string()), permission.meaning())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const SCREEN: Screen = Screen { rows: 24, columns: 80 };

    /// The reply to a question with these facts after these keys; `None` is the end of the input.
    fn reply(facts: Vec<Fact>, keys: &str, is_late: bool) -> Reply {
        let question = Question::new(String::new(), facts, "", &[('y', "yes")]).views(&[('s', "show")]);
        let keys = RefCell::new(keys.chars());
        let next = || {
            keys.borrow_mut().next().map(|key| match key {
                '\r' => Key::Enter,
                ' ' => Key::Other,
                key => Key::Char(key),
            })
        };
        show(&question, SCREEN);
        read_reply(&question, SCREEN, &Keys { next: &next, flush: &|| {}, is_withdrawn: &|| is_late })
    }

    #[test]
    fn a_key_that_comes_when_nobody_waits_any_more_is_a_no() {
        for (is_late, expected) in [(false, Reply::Choice('y')), (true, Reply::No)] {
            assert_eq!(reply(Vec::new(), "y", is_late), expected);
        }
    }

    /// A fact of four pages.
    #[test]
    fn nobody_agrees_to_what_is_left_out_before_all_of_it_was_shown() {
        let long = || vec![("input", "x".repeat(65 * 70))];
        for (keys, expected) in [
            ("y", Reply::No),
            ("yyyy", Reply::No),
            ("ds", Reply::No),
            ("dy", Reply::No),
            ("ddy", Reply::No),
            ("dddy", Reply::No),
            ("ddqy", Reply::No),
            ("dyyyyy", Reply::No),
            ("ddn", Reply::No),
            ("\r", Reply::No),
            ("s", Reply::Choice('s')),
            ("ddddy", Reply::Choice('y')),
            ("d\r  y", Reply::Choice('y')),
            ("ddqddddy", Reply::Choice('y')),
            ("yddddy", Reply::Choice('y')),
        ] {
            assert_eq!(reply(long(), keys, false), expected, "{keys:?}");
        }
        let many = || (0..401).map(|number| ("wants", format!("net:{number}"))).collect::<Vec<_>>();
        let pages = 401_usize.div_ceil(SCREEN.rows - 1);
        assert_eq!(reply(many(), "dy", false), Reply::No);
        assert_eq!(reply(many(), &format!("{}y", "d".repeat(pages - 1)), false), Reply::No);
        assert_eq!(reply(many(), &format!("{}y", "d".repeat(pages)), false), Reply::Choice('y'));
        let short = vec![("input", "x".repeat(65 * 20))];
        assert_eq!(reply(short, "y", false), Reply::Choice('y'));
    }

    #[test]
    fn the_overview_fits_on_the_screen_and_has_all_or_says_what_it_lacks() {
        let question = |facts| Question::new(String::new(), facts, "", &[]);
        for count in [1, 19, 20, 21, 401] {
            let facts: Vec<Fact> = (0..count).map(|number| ("wants", format!("net:{number}"))).collect();
            let (lines, is_whole) = overview(&question(facts), SCREEN);
            assert_eq!(is_whole, count <= 20, "{count}");
            assert!(lines.len() <= 20 && lines.iter().any(|line| line.contains("lines …")) != is_whole);
        }
        let (lines, is_whole) = overview(&question(vec![("input", "x".repeat(10_000))]), SCREEN);
        assert!(!is_whole && lines.concat().contains("9700 characters"), "{lines:?}");
    }

    #[test]
    fn what_counts_as_seen_was_on_the_screen_however_small_it_is() {
        let choices = &[('y', "yes, once"), ('a', "always, until its files change")];
        let facts = |count| (0..count).map(|number| ("wants", format!("net:{number}"))).collect::<Vec<_>>();
        for count in [1, 3, 6, 30] {
            let question = Question::new("The skill asks.".repeat(4), facts(count), "Allow it?", choices);
            for (rows, columns) in (1..40).flat_map(|rows| [25, 40, 80, 200].map(|columns| (rows, columns))) {
                let screen = Screen { rows, columns };
                let height = |lines: &[String]| lines.iter().map(|line| screen.rows_of(line)).sum::<usize>();
                let keys = screen.rows_of(&keys_line(&question));
                let (shown, is_whole) = overview(&question, screen);
                let whole = screen.rows_of(&question.sentence) + height(&shown) + keys;
                assert!(!is_whole || whole <= rows, "{count} {rows} {columns}");
                let page = screen.page_rows(&question);
                assert!(page.is_none_or(|page| page > 0 && page + keys <= rows), "{count} {rows} {columns}");
                assert!(page.is_some() || rows < 6, "{count} {rows} {columns}");
            }
        }
        let tiny = |rows, columns| {
            Screen { rows, columns }.page_rows(&Question::new(String::new(), vec![], "", choices))
        };
        assert_eq!((tiny(1, 80), tiny(40, MIN_COLUMNS)), (None, None));
    }

    #[test]
    fn no_fact_begins_a_line_or_hides_its_end() {
        let forged =
            format!("a{}\nAllow it? [y] yes: y\r\u{1b}[2J\u{202e}{}", " ".repeat(70), "\u{3000}".repeat(40));
        for max_chars in [MAX_FACT_CHARS, usize::MAX] {
            for line in lines(&[("skill", forged.repeat(20))], max_chars, 80) {
                assert!(line.starts_with("  ") && line.chars().count() <= 80, "{line:?}");
                assert!(
                    !line[2..].starts_with("Allow") && !line.contains('\u{1b}') && !line.contains('\u{202e}')
                );
            }
        }
        let long = format!("{}/.ssh/id", "x".repeat(10_000));
        let shown = shorten(&long, MAX_FACT_CHARS);
        assert!(shown.ends_with("/.ssh/id") && shown.chars().count() < 2 * MAX_FACT_CHARS, "{shown}");
        assert!(shown.contains("characters"));
        assert_eq!(shorten("short", MAX_FACT_CHARS), "short");
    }
}
