//! How long a pattern is once what it repeats is written out: so many places a matcher may have to stand at for each letter.
//!
//! Read without regard for what is rare; what then does not come out even counts as endless.

use std::str::Chars;

/// Groups may lie so deep in one another.
const DEEPEST: usize = 250;

/// The places of a pattern.
pub(super) fn places(pattern: &str) -> usize {
    // Of each open group what stands in it, and how much of that a repetition right here would repeat.
    let mut groups = vec![(0_usize, 0_usize)];
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let (before, last) = groups.last().copied().unwrap_or_default();
        let now = match letter {
            '(' if groups.len() > DEEPEST => return usize::MAX,
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
                let times = most(letters.as_str().split('}').next().unwrap_or_default());
                letters.by_ref().take_while(|letter| *letter != '}').for_each(drop);
                let more = last.saturating_mul(times.saturating_sub(1));
                (before.saturating_add(more), last.saturating_add(more))
            }
            '\\' => {
                letters.next();
                (before.saturating_add(1), 1)
            }
            '[' if skip_class(&mut letters).is_none() => return usize::MAX,
            // Blanks may stand before a repetition, where a pattern says that they count for nothing.
            letter if letter.is_whitespace() => (before.saturating_add(1), last.max(1)),
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

/// Passes over the letters of `[^a-z]` behind its bracket; nothing where it has no end.
fn skip_class(letters: &mut Chars<'_>) -> Option<()> {
    let mut is_first = true;
    loop {
        match letters.next()? {
            '^' if is_first => continue,
            ']' if !is_first => return Some(()),
            '\\' => drop(letters.next()?),
            _ => {}
        }
        is_first = false;
    }
}

/// The most of `2`, `2,` or `2,5`.
fn most(times: &str) -> usize {
    times.split(',').filter_map(|number| number.trim().parse().ok()).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::places;

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
            ("(a b) {10}", 41),
        ] {
            let told = places(pattern);
            assert_eq!(told, count, "{pattern}");
        }
        for odd in ["(a", "a)", "[a", "([(]a)b)"] {
            assert_eq!(places(odd), usize::MAX, "{odd}");
        }
        assert!(places(&"(".repeat(10_000)) == usize::MAX);
        assert!(places("((((a{99999999}){99999999}){99999999}){99999999})") > 1 << 60);
    }
}
