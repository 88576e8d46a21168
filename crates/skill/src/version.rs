//! Semantic versions: that of a skill, and ranges of them.

use semver::{Version, VersionReq};

use super::yaml::Entry;
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;

const DEFAULT_VERSION: Version = Version::new(0, 0, 0);

/// The version in the metadata; 0.0.0 if it is absent or not a version.
pub(crate) fn read(entry: Option<&Entry>, report: &mut DiagnosticSink<'_>) -> Version {
    let Some(Entry { node, .. }) = entry else { return DEFAULT_VERSION };
    let text = node.text().unwrap_or_default().trim();
    if let Ok(version) = Version::parse(text) {
        return version;
    }
    let Some(version) = complete_version(text) else {
        let message = format!("version `{text}` is not a semantic version; it counts as 0.0.0");
        report.add(&lint::VERSION_NOT_SEMANTIC, &node.span, message).help("write it as MAJOR.MINOR.PATCH");
        return DEFAULT_VERSION;
    };
    let message = format!("version `{text}` is read as {version}");
    report.add(&lint::VERSION_SHORT, &node.span, message).help(format!("write `version: \"{version}\"`"));
    version
}

/// `v1.2` is 1.2.0.
fn complete_version(text: &str) -> Option<Version> {
    let number = text.strip_prefix(['v', 'V']).unwrap_or(text);
    [String::new(), ".0".to_owned(), ".0.0".to_owned()]
        .iter()
        .find_map(|rest| Version::parse(&format!("{number}{rest}")).ok())
}

/// Parses a range of versions as in Cargo, such as `^1.2` or `>=1.2, <2`; spaces may stand for commas. A full version alone, such as
/// `1.2.3`, is that one, as after the `@` of a name.
pub fn parse_version_range(text: &str) -> Option<VersionReq> {
    if Version::parse(text.trim()).is_ok() {
        return VersionReq::parse(&format!("={}", text.trim())).ok();
    }
    let with_commas = || {
        let parts: Vec<&str> = text.split([' ', ',']).filter(|part| !part.is_empty()).collect();
        VersionReq::parse(&parts.join(", "))
    };
    VersionReq::parse(text).or_else(|_| with_commas()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_versions_are_completed() {
        assert_eq!(complete_version("1.10"), Some(Version::new(1, 10, 0)));
        assert_eq!(complete_version("v2"), Some(Version::new(2, 0, 0)));
        assert_eq!(complete_version("v1.2.3"), Some(Version::new(1, 2, 3)));
        assert_eq!(complete_version("latest"), None);
        assert_eq!(complete_version(""), None);
    }

    #[test]
    fn ranges_are_read_with_commas_or_blanks() {
        let fits = |range: &str, version: &str| {
            parse_version_range(range).unwrap().matches(&version.parse().unwrap())
        };
        assert!(fits(">=3.12.0", "3.12.0") && !fits(">=3.12.0", "3.11.9"));
        assert!(fits(">=1.2 <2", "1.9.0") && !fits(">=1.2 <2", "2.0.0"));
        assert!(fits("1.2.3", "1.2.3") && !fits("1.2.3", "1.2.4") && fits("1.2", "1.9.0"));
        assert!(parse_version_range("latest").is_none() && parse_version_range(">= x").is_none());
    }

    #[test]
    fn ak_a08_ranges_hold_zeros_and_versions_before_a_release_apart() {
        // AK-15
        for (range, inside, outside) in [
            ("^0.2.3", &["0.2.3", "0.2.9"][..], &["0.3.0", "0.2.2"][..]),
            ("^0.0.3", &["0.0.3"], &["0.0.4"]),
            ("~1.2.3", &["1.2.3", "1.2.9"], &["1.3.0"]),
            ("^1.2.3", &["1.2.3", "1.9.0"], &["1.2.4-beta.1", "2.0.0"]),
            ("^1.2.3-beta.1", &["1.2.3-beta.2", "1.2.3", "1.4.0"], &["1.2.3-alpha", "1.2.4-beta.2"]),
            ("1.2.3", &["1.2.3"], &["1.2.4", "1.2.3-rc.1"]),
            ("1.2.3-rc.1", &["1.2.3-rc.1"], &["1.2.3-rc.2", "1.2.3"]),
            ("*", &["0.0.0", "9.9.9"], &["1.0.0-rc.1"]),
            ("<2.0.0", &["1.9.9"], &["2.0.0", "2.0.0-rc.1"]),
        ] {
            let range = parse_version_range(range).unwrap();
            let fits = |version: &&&str| range.matches(&version.parse().unwrap());
            assert!(inside.iter().all(|version| fits(&version)), "{range} {inside:?}");
            assert!(!outside.iter().any(|version| fits(&version)), "{range} {outside:?}");
        }
    }

    #[test]
    fn ak_a07_versions_before_a_release_are_ordered() {
        // AK-14
        let ordered = [
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
        ];
        let versions = ordered.map(|version| Version::parse(version).unwrap());
        assert!(versions.is_sorted());
        for wrong in ["01.2.3", "1.2.3-", "1.2.3-01", "v1"] {
            assert!(Version::parse(wrong).is_err(), "{wrong}");
        }
    }
}
