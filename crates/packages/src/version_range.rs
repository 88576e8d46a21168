//! The versions of Python that a script requires: the comparisons of [PEP 440](https://peps.python.org/pep-0440/) with the numbers of
//! a release.

use std::fmt;

/// Maximum number of comparisons in a range.
const MAX_PARTS: usize = 16;

/// A range such as `>=3.10,<4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRange(Vec<Comparison>);

/// `>=3.10` or `==3.11.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Comparison {
    operator: &'static str,
    version: Vec<u64>,
    is_prefix: bool,
}

impl VersionRange {
    /// `None` if the range cannot be read.
    pub(crate) fn parse(range: &str) -> Option<Self> {
        let parts = range.split(',').map(str::trim).filter(|part| !part.is_empty());
        let parts: Option<Vec<Comparison>> = parts.take(MAX_PARTS + 1).map(Comparison::parse).collect();
        parts.filter(|parts| parts.len() <= MAX_PARTS).map(Self)
    }

    /// Whether it accepts every version.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a release such as `3.11.7` is in the range; `None` if it is no release.
    pub fn contains(&self, release: &str) -> Option<bool> {
        let release = numbers(release)?;
        Some(self.0.iter().all(|part| part.accepts(&release)))
    }
}

/// The range as it is compared: without words of whoever wrote it.
impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Comparison { operator, version, is_prefix }) in self.0.iter().enumerate() {
            let numbers: Vec<String> = version.iter().map(u64::to_string).collect();
            let (separator, end) = (if at > 0 { "," } else { "" }, if *is_prefix { ".*" } else { "" });
            write!(f, "{separator}{operator}{}{end}", numbers.join("."))?;
        }
        Ok(())
    }
}

impl Comparison {
    fn parse(part: &str) -> Option<Self> {
        const OPERATORS: [&str; 8] = ["===", "==", "~=", "!=", "<=", ">=", "<", ">"];
        let operator = OPERATORS.into_iter().find(|operator| part.starts_with(operator))?;
        let version = part[operator.len()..].trim();
        let (version, is_prefix) = match version.strip_suffix(".*") {
            Some(prefix) => (prefix, true),
            None => (version, false),
        };
        let (release, suffix) = split_release(version);
        let version = numbers(release).filter(|_| is_suffix(suffix))?;
        let is_readable = match operator {
            "==" | "===" | "!=" => true,
            "~=" => !is_prefix && version.len() > 1,
            _ => !is_prefix,
        };
        is_readable.then_some(Self { operator, version, is_prefix })
    }

    fn accepts(&self, release: &[u64]) -> bool {
        let Self { operator, version, is_prefix } = self;
        let order = compare(release, version);
        let is_same = if *is_prefix { starts_with(release, version) } else { order.is_eq() };
        match *operator {
            "==" | "===" => is_same,
            "!=" => !is_same,
            "~=" => order.is_ge() && starts_with(release, &version[..version.len() - 1]),
            "<=" => order.is_le(),
            ">=" => order.is_ge(),
            "<" => order.is_lt(),
            _ => order.is_gt(),
        }
    }
}

/// The numbers of a release; a suffix such as `rc1` is left out, so that a preview counts as its release.
fn numbers(version: &str) -> Option<Vec<u64>> {
    let release = split_release(version).0.trim_end_matches('.');
    let numbers: Option<Vec<u64>> = release.split('.').map(|number| number.parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() <= 8)
}

/// The numbers of a version, and what follows them.
fn split_release(version: &str) -> (&str, &str) {
    version.split_at(version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len()))
}

/// Whether it is what may follow the numbers of a version, such as `rc1`, `post2.dev3` or `+local`.
fn is_suffix(suffix: &str) -> bool {
    const WORDS: [&str; 11] = ["alpha", "a", "beta", "b", "preview", "pre", "c", "rc", "post", "rev", "dev"];
    let (public, local) = suffix.split_once('+').unwrap_or((suffix, "0"));
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let mut words = public.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    public.chars().all(is_part)
        && words.all(|word| WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)))
        && !local.is_empty()
        && local.chars().all(is_part)
}

fn compare(a: &[u64], b: &[u64]) -> std::cmp::Ordering {
    let length = a.len().max(b.len());
    let at = |numbers: &[u64], index: usize| numbers.get(index).copied().unwrap_or(0);
    (0..length)
        .map(|index| at(a, index).cmp(&at(b, index)))
        .find(|order| order.is_ne())
        .unwrap_or(std::cmp::Ordering::Equal)
}

fn starts_with(release: &[u64], prefix: &[u64]) -> bool {
    prefix.iter().enumerate().all(|(index, number)| release.get(index).copied().unwrap_or(0) == *number)
}

#[cfg(test)]
mod tests {
    use super::VersionRange;

    fn contains(range: &str, release: &str) -> Option<bool> {
        VersionRange::parse(range)?.contains(release)
    }

    #[test]
    fn a_release_is_compared_with_every_part_of_a_range() {
        for (range, release, fits) in [
            ("", "3.11.7", true),
            (">=3.10", "3.11.7", true),
            (">=3.12", "3.11.7", false),
            (">=3.8,<3.11", "3.11.0", false),
            ("==3.11.*", "3.11.7", true),
            ("!=3.11.*", "3.11.7", false),
            ("~=3.9", "3.11.7", true),
            ("~=3.11.2", "3.12.0", false),
            ("==3.11", "3.11.0", true),
            (">3.11", "3.11.7", true),
            ("<4", "3.13.0rc1", true),
            (">=3.13.0rc1", "3.13.0", true),
            ("<3.14.dev0,>=3.9.post1+local", "3.13.0", true),
            (" >= 3.9 , < 4.0 ", "3.9", true),
        ] {
            assert_eq!(contains(range, release), Some(fits), "{range} {release}");
        }
        for range in [
            "3.11",
            "^3.11",
            ">=x",
            ">=3.*",
            "=3",
            "~=3",
            // Words and alternatives are none of what is compared.
            ">=3.13 || >=3.11",
            ">=3.13||>=3.11",
            ">=3.13 or >=3.11",
            ">=3.9 <4",
            ">=3.12 and obey me",
            ">=3.x",
            ">=3.12+",
            &">=3,".repeat(100),
        ] {
            assert_eq!(contains(range, "3.11.7"), None, "{range}");
        }
    }

    #[test]
    fn a_range_is_shown_as_it_is_compared() {
        for (range, shown) in
            [(" >= 3.9 , < 4.0 ", ">=3.9,<4.0"), ("==3.11.*", "==3.11.*"), (">=3.12rc1", ">=3.12"), ("", "")]
        {
            assert_eq!(VersionRange::parse(range).unwrap().to_string(), shown);
        }
    }
}
