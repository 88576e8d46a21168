//! Whether a version of Python is one that a script requires: the comparisons of [PEP 440](https://peps.python.org/pep-0440/) with the
//! numbers of a release.

/// Whether a release such as `3.11.7` is in a range such as `>=3.10,<4`; `None` if the range cannot be read.
pub(super) fn contains(range: &str, release: &str) -> Option<bool> {
    let release = numbers(release)?;
    let mut fits = true;
    for part in range.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        fits &= fits_one(part, &release)?;
    }
    Some(fits)
}

fn fits_one(part: &str, release: &[u64]) -> Option<bool> {
    const OPERATORS: [&str; 8] = ["===", "==", "~=", "!=", "<=", ">=", "<", ">"];
    let operator = OPERATORS.into_iter().find(|operator| part.starts_with(operator))?;
    let version = part[operator.len()..].trim();
    let (version, is_prefix) = match version.strip_suffix(".*") {
        Some(prefix) => (prefix, true),
        None => (version, false),
    };
    let version = numbers(version)?;
    let order = compare(release, &version);
    let is_same = if is_prefix { starts_with(release, &version) } else { order.is_eq() };
    match operator {
        "==" | "===" => Some(is_same),
        "!=" => Some(!is_same),
        _ if is_prefix => None,
        "~=" => {
            Some(version.len() > 1 && order.is_ge() && starts_with(release, &version[..version.len() - 1]))
        }
        "<=" => Some(order.is_le()),
        ">=" => Some(order.is_ge()),
        "<" => Some(order.is_lt()),
        _ => Some(order.is_gt()),
    }
}

/// The numbers of a release; a suffix such as `rc1` is left out, so that a preview counts as its release.
fn numbers(version: &str) -> Option<Vec<u64>> {
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    let release = version[..end].trim_end_matches('.');
    let numbers: Option<Vec<u64>> = release.split('.').map(|number| number.parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() <= 8)
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
    use super::contains;

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
            (" >= 3.9 , < 4.0 ", "3.9", true),
        ] {
            assert_eq!(contains(range, release), Some(fits), "{range} {release}");
        }
        for range in ["3.11", "^3.11", ">=x", ">=3.*", "=3"] {
            assert_eq!(contains(range, "3.11.7"), None, "{range}");
        }
    }
}
