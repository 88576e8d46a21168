//! Which operations are chosen: patterns of tags, of methods and paths, and of ids.

use super::operation::Operation;
use super::report::Refusal;
use metier_core::error::Hint;
use metier_core::excerpt::shorten;
use metier_core::suggestion::closest;

/// The most patterns, and the most characters of one.
const MAX_PATTERNS: usize = 200;
const MAX_PATTERN: usize = 500;
/// The most tags that a message lists.
const MAX_SHOWN_TAGS: usize = 12;
/// The characters that stand for others in a pattern.
const WILDCARDS: [char; 2] = ['*', '?'];

/// One of the patterns.
#[derive(Debug)]
struct Pattern<'p> {
    written: &'p str,
    form: PatternForm<'p>,
}

#[derive(Debug)]
enum PatternForm<'p> {
    Tag(&'p str),
    Path { method: Option<&'p str>, path: &'p str },
    Id(&'p str),
}

/// An operation that is chosen, and whether a pattern names it and no other.
pub(super) struct Choice<'o, 'd> {
    pub(super) operation: &'o Operation<'d>,
    pub(super) is_named: bool,
}

/// The operations that a pattern fits, in their order; all of them without a pattern. A pattern that fits none is an error.
pub(super) fn choose<'o, 'd>(
    operations: &'o [Operation<'d>],
    patterns: &[String],
) -> Result<Vec<Choice<'o, 'd>>, Refusal> {
    let patterns: Vec<Pattern<'_>> = patterns
        .iter()
        .flat_map(|patterns| patterns.split(','))
        .map(str::trim)
        .filter(|pattern| !pattern.is_empty())
        .map(Pattern::parse)
        .collect::<Result<_, _>>()?;
    if patterns.is_empty() {
        return Ok(operations.iter().map(|operation| Choice { operation, is_named: false }).collect());
    }
    if patterns.len() > MAX_PATTERNS {
        return Err(Refusal::usage(format!("there are more than {MAX_PATTERNS} patterns of operations")));
    }
    let mut has_match = vec![false; patterns.len()];
    let mut chosen = Vec::new();
    for operation in operations {
        let (mut is_chosen, mut is_named) = (false, false);
        for (at, pattern) in patterns.iter().enumerate() {
            if pattern.fits(operation) {
                (is_chosen, has_match[at]) = (true, true);
                is_named |= pattern.is_exact();
            }
        }
        if is_chosen {
            chosen.push(Choice { operation, is_named });
        }
    }
    match patterns.iter().zip(has_match).find(|(_, has_match)| !has_match) {
        Some((pattern, _)) => Err(no_match(pattern, operations)),
        None => Ok(chosen),
    }
}

impl<'p> Pattern<'p> {
    fn parse(written: &'p str) -> Result<Self, Refusal> {
        if written.chars().count() > MAX_PATTERN {
            return Err(Refusal::usage(format!(
                "a pattern of operations has more than {MAX_PATTERN} characters"
            )));
        }
        let form = match (written.strip_prefix("tag:"), written.split_once(char::is_whitespace)) {
            (Some(tag), _) => PatternForm::Tag(tag.trim()),
            (None, Some((method, path))) if path.trim_start().starts_with('/') => {
                PatternForm::Path { method: Some(method), path: path.trim_start() }
            }
            (None, _) if written.starts_with('/') => PatternForm::Path { method: None, path: written },
            (None, _) => PatternForm::Id(written),
        };
        Ok(Self { written, form })
    }

    fn fits(&self, operation: &Operation<'_>) -> bool {
        match self.form {
            PatternForm::Tag(tag) => {
                let tag = tag.to_lowercase();
                operation.tags.iter().any(|known| is_match(&tag, &known.to_lowercase(), false))
            }
            PatternForm::Path { method, path } => {
                method.is_none_or(|method| method == "*" || method.eq_ignore_ascii_case(operation.method))
                    && is_match(path, operation.path, true)
            }
            PatternForm::Id(id) => {
                operation.id.is_some_and(|known| is_match(id, known, false))
                    || is_match(id, &operation.name, false)
            }
        }
    }

    /// Whether it names one operation, and is no pattern of several.
    fn is_exact(&self) -> bool {
        match self.form {
            PatternForm::Tag(_) | PatternForm::Path { method: None, .. } => false,
            PatternForm::Path { method: Some(method), path } => method != "*" && !path.contains(WILDCARDS),
            PatternForm::Id(id) => !id.contains(WILDCARDS),
        }
    }
}

fn no_match(pattern: &Pattern<'_>, operations: &[Operation<'_>]) -> Refusal {
    let shown = shorten(pattern.written, 80).escape_debug().to_string();
    let reason = format!("no operation fits `{shown}`");
    let meant = match pattern.form {
        PatternForm::Tag(_) => None,
        PatternForm::Path { path, .. } => closest(path, operations.iter().map(|operation| operation.path)),
        PatternForm::Id(id) => closest(id, operations.iter().filter_map(|operation| operation.id)),
    };
    let help = match meant {
        Some(meant) => format!("did you mean `{}`?", shorten(meant, 80).escape_debug()),
        None => choice_help(operations),
    };
    Refusal::usage(reason).with_help(help).with_hint(Hint::OperationChoice)
}

/// How operations are chosen, with the largest tags.
pub(super) fn choice_help(operations: &[Operation<'_>]) -> String {
    let mut tags: Vec<(&str, usize)> = Vec::new();
    for tag in operations.iter().flat_map(|operation| &operation.tags) {
        match tags.iter().position(|(known, _)| known == tag) {
            Some(at) => tags[at].1 += 1,
            None if tags.len() < 500 => tags.push((tag, 1)),
            None => {}
        }
    }
    tags.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let ways = "choose operations by tag (tag:NAME), method and path (GET /path/**) or id";
    if tags.is_empty() {
        return ways.to_owned();
    }
    let shown = tags.iter().take(MAX_SHOWN_TAGS);
    let shown = shown.map(|(tag, count)| format!("{} ({count})", shorten(tag, 40).escape_debug()));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let more = if tags.len() > MAX_SHOWN_TAGS { " and others" } else { "" };
    format!("{ways}; its tags are {shown}{more}")
}

/// Whether a pattern fits a whole text. `?` stands for one character, `*` for any, and where segments count, `*` for any but a slash and
/// `**` for all.
fn is_match(pattern: &str, text: &str, has_segments: bool) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    // For each position of the text whether the pattern so far ends there.
    let text: Vec<char> = text.chars().collect();
    let mut ends = vec![false; text.len() + 1];
    ends[0] = true;
    let mut at = 0;
    while at < pattern.len() {
        let is_deep = pattern[at] == '*' && pattern.get(at + 1) == Some(&'*');
        let accepts = |c: char| match pattern[at] {
            '*' => is_deep || !has_segments || c != '/',
            '?' => !has_segments || c != '/',
            letter => letter == c,
        };
        if pattern[at] == '*' {
            for end in 1..=text.len() {
                ends[end] |= ends[end - 1] && accepts(text[end - 1]);
            }
        } else {
            for end in (1..=text.len()).rev() {
                ends[end] = ends[end - 1] && accepts(text[end - 1]);
            }
            ends[0] = false;
        }
        at += if is_deep { 2 } else { 1 };
    }
    ends[text.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(line: &'static str) -> Operation<'static> {
        let mut words = line.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let id = words.next();
        Operation {
            method,
            path,
            id,
            tags: words.collect(),
            name: id.unwrap_or("x").to_owned(),
            ..Operation::default()
        }
    }

    fn operations() -> Vec<Operation<'static>> {
        [
            "GET /repos/{o}/{r}/issues issues/list issues Repos",
            "POST /repos/{o}/{r}/issues issues/create issues",
            "GET /repos repos/list",
            "GET /users",
        ]
        .map(operation)
        .into()
    }

    fn chosen(patterns: &[&str]) -> Vec<String> {
        let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let operations = operations();
        let chosen = choose(&operations, &patterns).unwrap();
        chosen.iter().map(|choice| format!("{} {}", choice.operation.method, choice.operation.path)).collect()
    }

    #[test]
    fn patterns_choose_by_tag_method_path_and_id() {
        let all = ["GET /repos/{o}/{r}/issues", "POST /repos/{o}/{r}/issues", "GET /repos", "GET /users"];
        for (patterns, places) in [
            (&[][..], &[0, 1, 2, 3][..]),
            (&[" , "], &[0, 1, 2, 3]),
            (&["tag:issues"], &[0, 1]),
            (&["tag:repos"], &[0]),
            (&["tag:*"], &[0, 1]),
            (&["GET /repos/**"], &[0]),
            (&["/repos**"], &[0, 1, 2]),
            (&["post /repos/*/*/issues"], &[1]),
            (&["/repos/*"], &[]),
            (&["* /users,issues/create"], &[1, 3]),
            (&["issues/*", "GET /users"], &[0, 1, 3]),
        ] {
            if places.is_empty() {
                let patterns: Vec<String> = patterns.iter().map(|it| (*it).to_owned()).collect();
                assert!(choose(&operations(), &patterns).is_err(), "{patterns:?}");
                continue;
            }
            let expected: Vec<&str> = places.iter().map(|at| all[*at]).collect();
            assert_eq!(chosen(patterns), expected, "{patterns:?}");
        }
    }

    #[test]
    fn a_pattern_that_fits_nothing_is_an_error_with_what_there_is() {
        for (pattern, words) in [
            ("tag:isues", "its tags are issues (2), Repos (1)"),
            ("GET /repo", "did you mean `/repos`?"),
            ("issues/lists", "did you mean `issues/list`?"),
            ("\u{1b}[31m", "its tags are"),
        ] {
            let error = choose(&operations(), &[pattern.to_owned()]).err().unwrap().into_error("x");
            assert!(error.help().unwrap().contains(words), "{pattern:?}: {error:?}");
            assert!(!error.message().contains('\u{1b}'));
        }
        assert!(choose(&operations(), &["a".repeat(501)]).is_err());
        assert!(choose(&operations(), &["a,".repeat(201)]).is_err());
    }

    #[test]
    fn a_pattern_fits_a_whole_text_in_time_that_grows_with_both() {
        for (pattern, text, fits) in [
            ("", "", true),
            ("*", "", true),
            ("a*b", "ab", true),
            ("a*b", "a/b", false),
            ("a**b", "a/b", true),
            ("?", "é", true),
            ("?", "/", false),
            ("a", "ab", false),
            ("*a*a*a*b", "aaaaaaaa", false),
        ] {
            assert_eq!(is_match(pattern, text, true), fits, "{pattern} {text}");
        }
        assert!(is_match("a*b", "a/b", false));
        let (pattern, text) = ("*a".repeat(250), "ab".repeat(1_000));
        assert!(!is_match(&pattern, &text, true) && is_match(&pattern, &text[..1_999], true));
    }
}
