//! Estimates the size of a compiled pattern: the number of positions with repetitions written out, each of which a matcher may
//! have to visit for each byte of a text.
//!
//! The estimate must never be too low. It ignores rare syntax, and where that leaves it in doubt, it counts the pattern as
//! infinite.

use std::str::Chars;

/// The maximum depth of nested groups.
const MAX_GROUP_DEPTH: usize = 250;

/// The number of positions of a pattern, or more.
pub(super) fn count_positions(pattern: &str) -> usize {
    // For each open group: its positions so far, and those of its last item, which a repetition would multiply.
    let mut groups = vec![(0_usize, 0_usize)];
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let (before, last) = groups.last().copied().unwrap_or_default();
        let now = match letter {
            '(' if groups.len() > MAX_GROUP_DEPTH || skip_group_prefix(&mut letters).is_none() => {
                return usize::MAX;
            }
            '(' => {
                groups.push((0, 0));
                continue;
            }
            ')' if groups.len() == 1 => return usize::MAX,
            ')' => {
                groups.pop();
                let (around, _) = groups.last().copied().unwrap_or_default();
                let group = before.saturating_add(1);
                (around.saturating_add(group), group)
            }
            '{' => {
                let times = max_repetitions(letters.as_str().split('}').next().unwrap_or_default());
                letters.by_ref().take_while(|letter| *letter != '}').for_each(drop);
                let more = last.saturating_mul(times.saturating_sub(1));
                (before.saturating_add(more), last.saturating_add(more))
            }
            '\\' => {
                letters.next();
                (before.saturating_add(1), 1)
            }
            '[' if skip_class(&mut letters).is_none() => return usize::MAX,
            '*' | '+' | '?' => (before, last),
            _ => (before.saturating_add(1), 1),
        };
        if let Some(group) = groups.last_mut() {
            *group = now;
        }
    }
    match groups[..] {
        [(all, _)] => all,
        _ => usize::MAX,
    }
}

/// The number of classes such as `\d`, and of control characters such as `\cA`.
pub(super) fn count_classes(pattern: &str) -> usize {
    let mut letters = pattern.chars();
    let mut count = 0;
    while letters.any(|letter| letter == '\\') {
        count += usize::from(letters.next().is_some_and(|letter| "dDsSwWc".contains(letter)));
    }
    count
}

/// Skips `?:`, `?<name>`, `?i:` and the like after a parenthesis. `None` for other syntax: a name may contain brackets, and the
/// flag `x` makes blanks and comments no part of the pattern.
fn skip_group_prefix(letters: &mut Chars<'_>) -> Option<()> {
    let Some(manner) = letters.as_str().strip_prefix('?') else { return Some(()) };
    let named = manner.strip_prefix("P<").or_else(|| manner.strip_prefix('<'));
    let (rest, ends): (&str, &[char]) = named.map_or((manner, &[':', ')']), |name| (name, &['>']));
    let word = &rest[..rest.find(ends)?];
    let is_plain = match named {
        Some(_) => word.chars().all(|letter| letter.is_alphanumeric() || letter == '_'),
        None => word.chars().all(|letter| "imsURu-".contains(letter)),
    };
    let behind = &rest[word.len()..];
    // The parenthesis after flags alone also ends their group.
    *letters = behind.strip_prefix([':', '>']).unwrap_or(behind).chars();
    is_plain.then_some(())
}

/// Skips the rest of a class such as `[^a-z]` after its bracket; `None` if it does not end.
fn skip_class(letters: &mut Chars<'_>) -> Option<()> {
    if letters.as_str().starts_with('^') {
        letters.next();
    }
    let mut is_first = true;
    loop {
        match letters.next()? {
            ']' if !is_first => return Some(()),
            '\\' => drop(letters.next()?),
            _ => {}
        }
        is_first = false;
    }
}

/// The largest number in `2`, `2,` or `2,5`.
fn max_repetitions(times: &str) -> usize {
    times.split(',').filter_map(|number| number.trim().parse().ok()).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex_syntax::hir::{Hir, HirKind};

    use super::{count_classes, count_positions};

    /// The positions of the pattern that the compiler gets; `None` if it is refused.
    fn places_of_compiled(pattern: &str) -> Option<usize> {
        let translated = jsonschema_regex::to_rust_regex(pattern).ok()?;
        Some(written_out(&regex_syntax::parse(&translated).ok()?))
    }

    fn written_out(hir: &Hir) -> usize {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => 0,
            HirKind::Literal(literal) => String::from_utf8_lossy(&literal.0).chars().count(),
            HirKind::Class(_) => 1,
            HirKind::Repetition(repeated) => {
                let times = repeated.max.unwrap_or(repeated.min.max(1)) as usize;
                written_out(&repeated.sub).saturating_mul(times)
            }
            HirKind::Capture(group) => written_out(&group.sub),
            HirKind::Concat(parts) | HirKind::Alternation(parts) => {
                parts.iter().map(written_out).fold(0, usize::saturating_add)
            }
        }
    }

    #[test]
    fn kinds_of_letters_are_counted() {
        for (pattern, count) in [("", 0), (r"\d+[\s\W]\cA", 4), (r"\\d\\\d\p{L}\", 1)] {
            assert_eq!(count_classes(pattern), count, "{pattern}");
        }
    }

    #[test]
    fn what_looks_rare_hides_no_repetition() {
        for pattern in [
            "[^^]x{1000}y]",
            "(?x)a # {\n{1000}",
            "(?x)a # [\n{1000}#]",
            "(?x: a # {\n{1000})",
            "(?<a[>x{1000})(?<b]>y)",
            "(?P<a[>x{1000})(?P<b]>y)",
            "(?ix)[a#]{1000}",
        ] {
            let compiled = places_of_compiled(pattern);
            assert!(
                compiled.is_none_or(|compiled| count_positions(pattern) >= compiled),
                "{pattern}: {compiled:?}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_weighs_less_than_what_it_becomes(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "(", ")", "[", "]", "{", "}", "{3}", "{2,5}", "{7,}", "{1000}", "^", "^", "-", "&&", "|", "?", "*", "+",
                    "(?:", "(?x)", "(?x:", "(?-x)", "(?i)", "(?<né>", "(?<a[>", "(?<b]>", "(?P<c>", "#", "\n", " ", "\\", "\\d", "\\cA", "\\x{41}", "\\p{L}",
                    "\\pL", "\\]", "\\[", "\\{", "[[:alpha:]]", "a", "b-c", "é", ".", "$", ",",
                ]),
                0..12,
            )
        ) {
            let pattern = words.concat();
            if let Some(compiled) = places_of_compiled(&pattern) {
                prop_assert!(count_positions(&pattern) >= compiled, "{:?} weighs {} and not {}", pattern, count_positions(&pattern), compiled);
            }
        }
    }

    #[test]
    fn what_is_repeated_is_written_out() {
        for (pattern, count) in [
            ("", 0),
            ("^ab$", 4),
            ("a{3}", 3),
            ("a{2,5}b", 6),
            ("a{2,}", 2),
            ("(ab){10}", 30),
            ("((a{10}){10}){10}", 1_110),
            (r"\{9}", 3),
            ("[01]{1000}", 1_000),
            ("[(){9}]a", 2),
            (r"([^\]]x){10}", 30),
            ("(a b) {10}", 14),
            ("(?i)(?:ab){2}(?<né>a{3})(?P<m_1>a)(?-i:b)", 15),
        ] {
            let told = count_positions(pattern);
            assert_eq!(told, count, "{pattern}");
        }
        for odd in ["(a", "a)", "[a", "([(]a)b)"] {
            assert_eq!(count_positions(odd), usize::MAX, "{odd}");
        }
        assert!(count_positions(&"(".repeat(10_000)) == usize::MAX);
        assert!(count_positions("((((a{99999999}){99999999}){99999999}){99999999})") > 1 << 60);
    }
}
