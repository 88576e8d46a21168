//! How large the change from one version to another is, as ranges of versions count it: those of Cargo, which accept `0.3.0` for no
//! `^0.2`.

use std::cmp::Ordering;

use semver::{BuildMetadata, Prerelease, Version};
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
