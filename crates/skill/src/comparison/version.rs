//! How large the change from one version to another is, as ranges of versions count it (those of Cargo, which accept `0.3.0` for no
//! `^0.2`), and whether one range accepts what another one does.

use std::cmp::Ordering;

use semver::{BuildMetadata, Comparator, Prerelease, Version, VersionReq};
use serde::Serialize;

/// The size of a change from one version to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum VersionChange {
    /// The version became lower.
    Lower,
    /// There is none.
    None,
    /// `1.2.0` to `1.2.1`.
    Patch,
    /// `1.2.0` to `1.3.0`, and `0.2.0` to `0.2.1`, where a patch looks the same.
    Minor,
    /// `1.2.0` to `2.0.0`, `0.2.0` to `0.3.0`, and `0.0.2` to `0.0.3`.
    Major,
}

impl VersionChange {
    /// The change from one version to another. Build metadata makes no difference. Between versions before the same release, such as
    /// `2.0.0-rc.1` and `2.0.0`, the change is as large as that of the release: `2.0.0` may break what `1.9.0` promised.
    pub fn between(old: &Version, new: &Version) -> Self {
        let is_same_release = core(old) == core(new);
        match new.cmp_precedence(old) {
            Ordering::Less => Self::Lower,
            Ordering::Equal => Self::None,
            Ordering::Greater if is_same_release => Self::of_release(old),
            Ordering::Greater => Self::from_first_difference(old, new),
        }
    }

    /// The change that a release stands for, whatever came before it.
    fn of_release(version: &Version) -> Self {
        match core(version) {
            (0, 0, _) | (_, 0, 0) | (0, _, 0) => Self::Major,
            (0, _, _) | (_, _, 0) => Self::Minor,
            _ => Self::Patch,
        }
    }

    fn from_first_difference(old: &Version, new: &Version) -> Self {
        let is_same = (old.major == new.major, old.minor == new.minor);
        match (old.major, old.minor, is_same) {
            (_, _, (false, _)) | (0, 0, _) | (0, _, (_, false)) => Self::Major,
            (0, _, _) | (_, _, (_, false)) => Self::Minor,
            _ => Self::Patch,
        }
    }
}

/// The lowest release after this version that is a change of at least that size; `None` if no number is left for one.
pub(super) fn needed_version(old: &Version, change: VersionChange) -> Option<Version> {
    let (major, minor, patch) = core(old);
    if change <= VersionChange::None {
        return Some(old.clone());
    }
    if !old.pre.is_empty() && VersionChange::of_release(old) >= change {
        return Some(Version { pre: Prerelease::EMPTY, build: BuildMetadata::EMPTY, ..old.clone() });
    }
    let next = match (change, major, minor) {
        (VersionChange::Major, 1.., _) => (major.checked_add(1)?, 0, 0),
        (VersionChange::Major, 0, 1..) => (0, minor.checked_add(1)?, 0),
        (VersionChange::Minor, 1.., _) => (major, minor.checked_add(1)?, 0),
        _ => (major, minor, patch.checked_add(1)?),
    };
    Some(Version::new(next.0, next.1, next.2))
}

fn core(version: &Version) -> (u64, u64, u64) {
    (version.major, version.minor, version.patch)
}

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
pub(super) fn compare_ranges(old: Option<&VersionReq>, new: Option<&VersionReq>) -> RangeChange {
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

    fn between(old: &str, new: &str) -> VersionChange {
        VersionChange::between(&old.parse().unwrap(), &new.parse().unwrap())
    }

    #[test]
    fn a_change_is_as_large_as_ranges_count_it() {
        // AR-23, AK-15
        use VersionChange::{Lower, Major, Minor, None, Patch};
        for (old, new, change) in [
            ("1.2.0", "1.2.1", Patch),
            ("1.2.0", "1.3.0", Minor),
            ("1.2.0", "1.4.7", Minor),
            ("1.2.0", "2.0.0", Major),
            ("1.2.0", "1.2.0", None),
            ("1.2.0+a", "1.2.0+b", None),
            ("1.2.0", "1.1.9", Lower),
            ("2.0.0", "1.9.9", Lower),
            ("0.2.3", "0.2.4", Minor),
            ("0.2.3", "0.3.0", Major),
            ("0.2.3", "1.0.0", Major),
            ("0.0.3", "0.0.4", Major),
            ("0.0.3", "0.1.0", Major),
            ("1.2.0", "1.3.0-rc.1", Minor),
            ("1.2.0", "2.0.0-rc.1", Major),
            ("2.0.0-rc.1", "2.0.0-rc.2", Major),
            ("2.0.0-rc.1", "2.0.0", Major),
            ("1.3.0-rc.1", "1.3.0", Minor),
            ("1.3.1-rc.1", "1.3.1", Patch),
            ("0.3.0-rc.1", "0.3.0", Major),
            ("0.3.1-rc.1", "0.3.1", Minor),
            ("0.0.3-rc.1", "0.0.3", Major),
            ("1.3.0", "1.3.0-rc.1", Lower),
        ] {
            assert_eq!(between(old, new), change, "{old} -> {new}");
        }
    }

    #[test]
    fn the_needed_version_is_the_lowest_that_is_enough() {
        let needed = |old: &str, change| needed_version(&old.parse().unwrap(), change).unwrap().to_string();
        for old in
            ["1.2.3", "0.2.3", "0.0.3", "1.0.0", "0.3.0-rc.1", "1.2.3-rc.1", "2.0.0-rc.1", "1.3.0-rc.1"]
        {
            for change in [VersionChange::Patch, VersionChange::Minor, VersionChange::Major] {
                let next = needed(old, change);
                assert!(between(old, &next) >= change, "{old} -> {next}");
            }
        }
        let changes = [VersionChange::None, VersionChange::Patch, VersionChange::Minor, VersionChange::Major];
        for (old, all) in [
            ("1.2.3", ["1.2.3", "1.2.4", "1.3.0", "2.0.0"]),
            ("0.2.3", ["0.2.3", "0.2.4", "0.2.4", "0.3.0"]),
            ("0.0.3", ["0.0.3", "0.0.4", "0.0.4", "0.0.4"]),
            ("1.3.0-rc.1", ["1.3.0-rc.1", "1.3.0", "1.3.0", "2.0.0"]),
            ("1.3.1-rc.1+x", ["1.3.1-rc.1+x", "1.3.1", "1.4.0", "2.0.0"]),
        ] {
            assert_eq!(changes.map(|change| needed(old, change)), all, "{old}");
        }
        let last = Version::new(u64::MAX, u64::MAX, u64::MAX);
        assert!(changes[1..].iter().all(|change| needed_version(&last, *change).is_none()));
    }

    fn change(old: &str, new: &str) -> RangeChange {
        let range = |text: &str| (!text.is_empty()).then(|| parse_version_range(text).unwrap());
        compare_ranges(range(old).as_ref(), range(new).as_ref())
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
