//! `metadata.version` as a semantic version.

use semver::Version;

use super::yaml::Entry;
use crate::skill::diagnostic_sink::DiagnosticSink;
use crate::skill::lint;

const DEFAULT_VERSION: Version = Version::new(0, 0, 0);

/// The version in the metadata; 0.0.0 when there is none or it cannot be read as one.
pub(super) fn read(entry: Option<&Entry>, report: &mut DiagnosticSink<'_>) -> Version {
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
}
