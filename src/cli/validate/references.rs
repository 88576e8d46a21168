//! The files of its folder that a SKILL.md names: Markdown links, and paths such as `scripts/run.py`.

use std::collections::HashSet;
use std::ops::Range;

/// A file that the text names.
#[derive(Debug, PartialEq, Eq)]
pub struct Reference {
    /// Relative to the skill's folder, as far as it can be: `../x` is kept.
    pub path: String,
    /// Its position, in bytes of the text.
    pub span: Range<usize>,
}

/// The files named in the body, which starts at this byte; each once.
///
/// Placeholders (`scripts/<name>.py`, `$DIR/x`), URLs, anchors and absolute paths are left out.
pub fn references(text: &str, body: usize) -> Vec<Reference> {
    let mut seen = HashSet::new();
    let mut fence = Fence::default();
    let mut offset = body;
    let mut found = Vec::new();
    for line in text.get(body..).unwrap_or_default().split_inclusive('\n') {
        if !fence.covers(line) {
            found.extend(links(line, offset));
        }
        found.extend(scripts(line, offset));
        offset += line.len();
    }
    found.retain(|reference| seen.insert(reference.path.clone()));
    found
}

/// Whether lines are inside a fenced code block, where links are examples.
#[derive(Default)]
struct Fence(Option<String>);

impl Fence {
    fn covers(&mut self, line: &str) -> bool {
        let line = line.trim();
        let mark = &line[..line.len() - line.trim_start_matches(['`', '~']).len()];
        match &self.0 {
            Some(open) if mark.starts_with(open.as_str()) && mark == line => self.0 = None,
            Some(_) => {}
            None if mark.len() >= 3 => self.0 = Some(mark.to_owned()),
            None => return false,
        }
        true
    }
}

/// `[text](target)` and `![text](target "title")` outside code spans.
fn links(line: &str, offset: usize) -> Vec<Reference> {
    let mut is_code = false;
    let starts = line.match_indices(['`', ']']).filter_map(|(at, sign)| {
        is_code ^= sign == "`";
        (!is_code && line[at..].starts_with("](")).then(|| at + "](".len())
    });
    let target = |start: usize| {
        let path = word(line, start, |c| c == ')' || c.is_whitespace())?.split(['#', '?']).next()?;
        let has_scheme = path.split('/').next()?.contains(':');
        let is_file = is_literal(path) && !has_scheme && !path.starts_with('/');
        is_file.then(|| Reference {
            path: path.replace("%20", " "),
            span: offset + start..offset + start + path.len(),
        })
    };
    starts.filter_map(target).collect()
}

/// `scripts/x.py`, with or without `./` before it, where a word can begin.
fn scripts(line: &str, offset: usize) -> Vec<Reference> {
    const FOLDER: &str = "scripts/";
    let starts = line.match_indices(FOLDER).map(|(at, _)| at).filter(|at| {
        let before = line[..*at].strip_suffix("./").unwrap_or(&line[..*at]);
        before.chars().next_back().is_none_or(|c| c.is_whitespace() || "`'\"([".contains(c))
    });
    let script = |start: usize| {
        let is_end = |c: char| c.is_whitespace() || "`'\"()[],;:|&".contains(c);
        let path = word(line, start, is_end)?.trim_end_matches(['.', '!', '?']);
        let name = path.rsplit('/').next()?;
        // Without an extension, `scripts/tests` is often a folder or part of a sentence.
        let is_file = is_literal(path) && name.trim_start_matches('.').contains('.');
        is_file
            .then(|| Reference { path: path.to_owned(), span: offset + start..offset + start + path.len() })
    };
    starts.filter_map(script).collect()
}

/// The text from here to the first such character; nothing when it is longer than any path.
fn word(line: &str, start: usize, is_end: impl Fn(char) -> bool) -> Option<&str> {
    const MAX_PATH: usize = 256;
    let limit = line.floor_char_boundary(start + MAX_PATH);
    let length =
        line[start..limit].find(is_end).or_else(|| (limit == line.len()).then_some(limit - start))?;
    Some(&line[start..start + length])
}

/// Whether a path means one file, not a pattern to fill in.
fn is_literal(path: &str) -> bool {
    let is_pattern = |c: char| c.is_control() || "<>{}$*…\\=".contains(c);
    !path.is_empty() && !path.contains(is_pattern) && !path.contains("...")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        references(text, 0).into_iter().map(|reference| reference.path).collect()
    }

    #[test]
    fn links_to_files_are_found_and_others_left_out() {
        let text = "[a](references/a.md#top) ![b](assets/b.png) [c](my%20file.md \"title\") [up](../x.md)
            [u](https://example.com/x.md) [m](mailto:a@b) [h](#here) [abs](/etc/passwd) [p](<NAME>.md) `[q](q.md)`";
        assert_eq!(paths(text), ["references/a.md", "assets/b.png", "my file.md", "../x.md"]);
    }

    #[test]
    fn scripts_are_found_where_a_word_begins() {
        let text = "Run `scripts/a.py --fast` or ./scripts/b.sh, then \"scripts/deep/c.js\".
            ```sh
            python scripts/d.py && [no](link.md)
            ```
            skip my-scripts/e.py, x/scripts/f.py, scripts/*.py, scripts/<name>.py, scripts/tests and scripts/";
        assert_eq!(paths(text), ["scripts/a.py", "scripts/b.sh", "scripts/deep/c.js", "scripts/d.py"]);
    }

    #[test]
    fn spans_point_at_the_path_and_each_path_is_found_once() {
        let text = "---\nx\n[é](a.md) [again](a.md)\n";
        let found = references(text, 6);
        assert_eq!(found.len(), 1);
        assert_eq!(&text[found[0].span.clone()], "a.md");
    }

    #[test]
    fn hostile_lines_cost_little() {
        for text in ["](".repeat(200_000), "`".repeat(400_000), "scripts/".repeat(50_000)] {
            references(&text, 0);
        }
    }
}
