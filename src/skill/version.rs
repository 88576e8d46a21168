//! Semantic versions: that of a skill, and ranges of them.

use semver::{Version, VersionReq};

use super::yaml::Entry;
use crate::skill::diagnostic_sink::DiagnosticSink;
use crate::skill::lint;

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

/// Parses a range of versions as in Cargo, such as `^1.2` or `>=1.2, <2`; spaces may stand for commas.
pub(crate) fn parse_version_range(text: &str) -> Option<VersionReq> {
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
        assert!(parse_version_range("latest").is_none() && parse_version_range(">= x").is_none());
    }
}
