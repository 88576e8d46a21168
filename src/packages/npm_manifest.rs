//! What a script of Node needs: the dependencies in `package.json`, and `package-lock.json` beside it.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::requirement::escaped_excerpt;
use super::requirements_file::{LineError, at_line, folders_above};
use crate::error::{ErrorKind, Result, SkillError};

const PACKAGE: &str = "package.json";
const LOCK: &str = "package-lock.json";
/// Maximum bytes of a lock.
const MAX_LOCK_BYTES: u64 = 8 << 20;
/// The kinds of dependencies that are passed on: npm compares all of them with the lock.
const KINDS: [&str; 4] = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"];
/// The kinds that are installed.
const INSTALLED_KINDS: [&str; 2] = ["dependencies", "optionalDependencies"];
/// What would name other packages, or other places.
const REFUSED_KEYS: [&str; 4] = ["workspaces", "overrides", "bundleDependencies", "bundledDependencies"];

/// The dependencies of a package, and their lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NpmManifest {
    /// A `package.json` that has the dependencies and nothing else.
    pub(crate) package: String,
    /// `package-lock.json` as it is, if the skill has one.
    pub(crate) lock: Option<String>,
    names: Vec<String>,
}

impl NpmManifest {
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    fn parse(text: &str) -> Result<Self, LineError> {
        let (package, names) = clean_package(text)?;
        Ok(Self { package, lock: None, names })
    }
}

/// The nearest `package.json` with dependencies, in the folder of the script or one above, with its lock.
pub(super) fn find(
    script: &str,
    read: impl Fn(&str, u64) -> Result<Option<Vec<u8>>>,
    text_of: impl Fn(&str) -> Result<Option<String>>,
) -> Result<Option<(String, NpmManifest)>> {
    for folder in folders_above(script) {
        let source = format!("{folder}{PACKAGE}");
        let Some(text) = text_of(&source)? else { continue };
        let mut manifest = NpmManifest::parse(&text).map_err(|error| at_line(&source, error))?;
        if manifest.is_empty() {
            continue;
        }
        let name = format!("{folder}{LOCK}");
        if let Some(bytes) = read(&name, MAX_LOCK_BYTES)? {
            let no_text = |_| at_line(&name, LineError { line: 1, reason: "it is not UTF-8".into() });
            let text = String::from_utf8(bytes).map_err(no_text)?;
            check_lock(&text).map_err(|error| at_line(&name, error))?;
            manifest.lock = Some(text);
        }
        return Ok(Some((source, manifest)));
    }
    Ok(None)
}

/// The package with nothing but its dependencies, and the names of those that are installed.
fn clean_package(text: &str) -> Result<(String, Vec<String>), LineError> {
    let all = parse_object(text)?;
    if let Some(key) = REFUSED_KEYS.iter().find(|key| all.contains_key(**key)) {
        return Err(LineError { line: line_of(text, key), reason: format!("the field {key} is not used") });
    }
    let mut clean = Map::new();
    clean.insert("name".into(), json!("prepared"));
    clean.insert("version".into(), json!("0.0.0"));
    clean.insert("private".into(), json!(true));
    let mut names = Vec::new();
    for kind in KINDS {
        let Some(value) = all.get(kind) else { continue };
        let error = |key: &str, reason: String| LineError { line: line_of(text, key), reason };
        let packages = value.as_object().ok_or_else(|| error(kind, format!("{kind} is not an object")))?;
        for (name, range) in packages {
            let range = range.as_str().unwrap_or_default();
            check_name(name).map_err(|reason| error(name, reason))?;
            check_range(name, range).map_err(|reason| error(name, reason))?;
            if INSTALLED_KINDS.contains(&kind) {
                names.push(format!("{name}@{range}"));
            }
        }
        clean.insert(kind.into(), value.clone());
    }
    // What is prepared does not depend on the order in which it is written.
    names.sort_unstable();
    let mut clean = Value::Object(clean);
    clean.sort_all_objects();
    let text = serde_json::to_string_pretty(&clean).unwrap_or_default();
    Ok((text, names))
}

fn check_name(name: &str) -> Result<(), String> {
    let plain = name.strip_prefix('@').unwrap_or(name);
    let parts: Vec<&str> = plain.split('/').collect();
    let is_part = |part: &&str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-~".contains(c))
    };
    let count = if name.starts_with('@') { 2 } else { 1 };
    if parts.len() == count && parts.iter().all(is_part) && name.len() <= 214 {
        return Ok(());
    }
    Err(format!("{} is not the name of a package", escaped_excerpt(name)))
}

/// A range of versions or a tag; `npm:NAME@RANGE` names another package of the registry.
fn check_range(name: &str, range: &str) -> Result<(), String> {
    let plain = match range.strip_prefix("npm:") {
        Some(alias) => {
            let (other, range) = match alias.rfind('@').filter(|at| *at > 0) {
                Some(at) => (&alias[..at], &alias[at + 1..]),
                None => (alias, ""),
            };
            check_name(other)?;
            range
        }
        None => range,
    };
    let is_range = plain.chars().all(|c| c.is_ascii_alphanumeric() || " .^~<>=|*+-".contains(c));
    if is_range && plain.len() <= 200 {
        return Ok(());
    }
    Err(format!("{name} is {}: an address, a path or a repository is not used", escaped_excerpt(range)))
}

/// Fails for a lock that names a place which is not a registry, or a package without the digest of its file.
pub(crate) fn check_lock(text: &str) -> Result<(), LineError> {
    let all = parse_object(text)?;
    let error = |key: &str, reason: &str| LineError {
        line: line_of(text, key),
        reason: if key.is_empty() {
            reason.to_owned()
        } else {
            format!("{}: {reason}", escaped_excerpt(key))
        },
    };
    let version = all.get("lockfileVersion").and_then(Value::as_u64);
    let packages = all.get("packages").and_then(Value::as_object);
    let Some(packages) = packages.filter(|_| version.is_some_and(|version| (2..=3).contains(&version)))
    else {
        return Err(error("lockfileVersion", "the lock has an old form; npm 7 and later write version 3"));
    };
    for (path, package) in packages {
        if path.is_empty() {
            continue;
        }
        let is_plain = path.split('/').all(|part| !part.is_empty() && part != ".." && part != ".");
        if !path.starts_with("node_modules/") || !is_plain || path.contains('\\') {
            return Err(error(path, "it lies outside of node_modules, which is not used"));
        }
        if package.get("link").is_some_and(|link| link != &json!(false)) {
            return Err(error(path, "it is a link to a folder, which is not used"));
        }
        if package.get("inBundle") == Some(&json!(true)) {
            continue;
        }
        let resolved = package.get("resolved").and_then(Value::as_str).unwrap_or_default();
        let is_web =
            resolved.is_empty() || resolved.starts_with("https://") || resolved.starts_with("http://");
        let is_archive = resolved
            .split(['?', '#'])
            .next()
            .is_some_and(|path| path.is_empty() || path.strip_suffix(".tgz").is_some());
        if !is_web || !is_archive || resolved.contains("git+") {
            return Err(error(
                path,
                &format!("{} is not an archive of a registry, so it is not used", escaped_excerpt(resolved)),
            ));
        }
        let integrity = package.get("integrity").and_then(Value::as_str).unwrap_or_default();
        if !["sha512-", "sha384-", "sha256-"].iter().any(|start| integrity.contains(start)) {
            return Err(error(path, "it has no digest (`integrity`) of sha256 or stronger"));
        }
    }
    Ok(())
}

/// Reads an error of npm's own lock, for a lock that was just made.
pub(crate) fn check_new_lock(text: &str) -> Result<()> {
    check_lock(text).map_err(|LineError { reason, .. }| {
        SkillError::new(ErrorKind::InvalidSkill, format!("the packages cannot be locked: {reason}"))
    })
}

fn parse_object(text: &str) -> Result<Map<String, Value>, LineError> {
    match serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(LineError { line: 1, reason: "it is not an object".into() }),
        Err(error) => {
            Err(LineError { line: error.line().max(1), reason: format!("it is not valid JSON: {error}") })
        }
    }
}

/// The line in which a key is first written.
fn line_of(text: &str, key: &str) -> usize {
    let mut quoted = String::new();
    let _ = write!(quoted, "{}", Value::from(key));
    text.lines().position(|line| line.contains(&quoted)).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(entry: &str) -> String {
        format!("{{\n\"lockfileVersion\": 3,\n\"packages\": {{\n\"\": {{}},\n{entry}\n}}\n}}")
    }

    #[test]
    fn only_the_dependencies_of_a_package_are_passed_on() {
        let text = r#"{"name": "evil", "scripts": {"install": "touch mark"}, "bin": "x", "dependencies": {"left-pad": "^1.3.0", "@a/b": "npm:@c/d@1 || 2"}, "devDependencies": {"x": "latest"}}"#;
        let manifest = NpmManifest::parse(text).unwrap();
        assert_eq!(manifest.names, ["@a/b@npm:@c/d@1 || 2", "left-pad@^1.3.0"]);
        assert!(!manifest.package.contains("script") && !manifest.package.contains("evil"));
        assert!(manifest.package.contains("devDependencies"));
        assert!(NpmManifest::parse("{\"type\": \"module\"}").unwrap().is_empty());
    }

    #[test]
    fn every_place_is_refused_by_the_name_of_its_package_and_with_its_line() {
        for range in [
            "git+https://evil.example/x.git",
            "github:evil/x",
            "evil/x",
            "file:../x",
            "https://evil.example/x.tgz",
            "../x",
            "~/x",
            "link:../x",
            "workspace:*",
            "npm:../x@1",
        ] {
            let text = format!("{{\n\"dependencies\": {{\n\"left-pad\": \"{range}\"\n}}\n}}");
            let error = NpmManifest::parse(&text).unwrap_err();
            assert!(error.line == 3, "{range}: {error:?}");
        }
        for key in REFUSED_KEYS {
            let error = NpmManifest::parse(&format!("{{\n\"{key}\": []}}")).unwrap_err();
            assert!(error.line == 2 && error.reason.contains(key), "{error:?}");
        }
        for name in ["../x", "a/b", "@a", "@a/b/c", "", ".bin", "a b"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        assert!(NpmManifest::parse("{\"dependencies\": {\"a\": 1}}").is_ok(), "no range at all means any");
    }

    #[test]
    fn a_lock_names_archives_with_digests_and_nothing_else() {
        let good =
            r#""node_modules/a": {"resolved": "https://r.example/a/-/a-1.tgz", "integrity": "sha512-x"}"#;
        assert_eq!(check_lock(&lock(good)), Ok(()));
        assert_eq!(check_lock(&lock(r#""node_modules/a": {"integrity": "sha512-x"}"#)), Ok(()));
        for (entry, words) in [
            (
                r#""node_modules/a": {"resolved": "git+ssh://git@evil.example/a.git#1", "integrity": "sha512-x"}"#,
                "not an archive",
            ),
            (r#""node_modules/a": {"resolved": "file:../a.tgz", "integrity": "sha512-x"}"#, "not an archive"),
            (
                r#""node_modules/a": {"resolved": "https://codeload.example/a/tar.gz/1", "integrity": "sha512-x"}"#,
                "not an archive",
            ),
            (r#""node_modules/a": {"resolved": "https://r.example/a.tgz"}"#, "no digest"),
            (
                r#""node_modules/a": {"resolved": "https://r.example/a.tgz", "integrity": "sha1-x"}"#,
                "no digest",
            ),
            (r#""node_modules/a": {"link": true, "resolved": "a"}"#, "a link"),
            (r#""../a": {"integrity": "sha512-x"}"#, "outside of node_modules"),
            (r#""node_modules/../../a": {"integrity": "sha512-x"}"#, "outside of node_modules"),
            (r#""packages/a": {}"#, "outside of node_modules"),
        ] {
            let error = check_lock(&lock(entry)).unwrap_err();
            assert!(error.reason.contains(words) && error.line == 5, "{entry}: {error:?}");
        }
        assert!(check_lock("{\"lockfileVersion\": 1, \"dependencies\": {}}").is_err());
        assert!(check_lock("[]").is_err() && check_lock("{").is_err());
    }
}
