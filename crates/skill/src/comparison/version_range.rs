//! Whether one range of versions accepts what another one does.

use semver::{Comparator, Version, VersionReq};

/// What became of the accepted versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeChange {
    Same,
    /// It accepts more, and all that it did.
    Wider,
    /// It accepts less of what it did, and perhaps others.
    Narrower,
    /// It accepts the same releases, and not certainly the same versions before a release.
    Unknown,
}

/// Compares two ranges; `None` accepts every version.
pub(super) fn compare(old: Option<&VersionReq>, new: Option<&VersionReq>) -> RangeChange {
    let (old, new) = match (old, new) {
        (None, None) => return RangeChange::Same,
        (Some(old), Some(new)) if old == new => return RangeChange::Same,
        (None, Some(new)) if accepts_all(new) => return RangeChange::Same,
        (Some(old), None) if accepts_all(old) => return RangeChange::Same,
        (None, Some(_)) => return RangeChange::Narrower,
        (Some(_), None) => return RangeChange::Wider,
        (Some(old), Some(new)) => (old, new),
    };
    // Each comparator accepts the versions from one of these on and below another one, so nothing changes between them.
    let comparators = || old.comparators.iter().chain(&new.comparators);
    let edges = || comparators().flat_map(edges).chain([Version::new(0, 0, 0)]);
    if edges().any(|version| old.matches(&version) && !new.matches(&version)) {
        return RangeChange::Narrower;
    }
    if comparators().any(|comparator| !comparator.pre.is_empty()) {
        return RangeChange::Unknown;
    }
    if edges().any(|version| new.matches(&version) && !old.matches(&version)) {
        return RangeChange::Wider;
    }
    RangeChange::Same
}

fn accepts_all(range: &VersionReq) -> bool {
    *range == VersionReq::STAR
}

/// The releases at which what a comparator accepts may begin or end.
fn edges(comparator: &Comparator) -> impl Iterator<Item = Version> {
    let (major, minor, patch) =
        (comparator.major, comparator.minor.unwrap_or_default(), comparator.patch.unwrap_or_default());
    let next = |number: u64| number.checked_add(1);
    let versions = [
        Some((major, minor, patch)),
        next(patch).map(|patch| (major, minor, patch)),
        next(minor).map(|minor| (major, minor, 0)),
        next(major).map(|major| (major, 0, 0)),
    ];
    versions.into_iter().flatten().map(|(major, minor, patch)| Version::new(major, minor, patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::parse_version_range;

    fn change(old: &str, new: &str) -> RangeChange {
        let range = |text: &str| (!text.is_empty()).then(|| parse_version_range(text).unwrap());
        compare(range(old).as_ref(), range(new).as_ref())
    }

    #[test]
    fn ranges_are_compared_by_what_they_accept() {
        use RangeChange::{Narrower, Same, Unknown, Wider};
        for (old, new, expected) in [
            ("^1.2", "^1.2", Same),
            ("^1.2", ">=1.2, <2", Same),
            ("", "*", Same),
            ("", "^1", Narrower),
            ("^1", "", Wider),
            (">=1.28.0", ">=1.27.0", Wider),
            (">=1.27.0", ">=1.28.0", Narrower),
            ("^1", "^2", Narrower),
            ("^1", ">=1", Wider),
            ("~1.2", "^1.2", Wider),
            ("^0.2", "^0.3", Narrower),
            ("^0.0.3", "0.0.3", Same),
            (">1.2.3", ">=1.2.4", Same),
            ("<=1.2.3", "<1.2.4", Same),
            ("=1.2", "~1.2", Same),
            (">1", ">=2", Same),
            ("<=1", "<2", Same),
            ("1.2.3", "^1.2.3", Wider),
            ("^1.2.3-rc.1", "^1.2.3-rc.2", Unknown),
            ("^1.2.3-rc.1", "^1.3", Narrower),
        ] {
            assert_eq!(change(old, new), expected, "{old} -> {new}");
        }
    }

    #[test]
    fn the_largest_numbers_do_no_harm() {
        let last = format!("<={0}.{0}.{0}", u64::MAX);
        assert_eq!(change(&last, "*"), RangeChange::Same);
        assert_eq!(change("*", &format!("<{0}.{0}.{0}", u64::MAX)), RangeChange::Narrower);
    }
}
