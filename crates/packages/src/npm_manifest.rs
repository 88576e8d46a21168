//! What a script of Node needs: the dependencies in `package.json`, and the lock of npm beside it.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::npm_range::{self, is_file_of_npm};
use super::requirement::escaped_excerpt;
use super::requirements_file::{LineError, at_line, folders_above};
use metier_core::byte_order_mark::without_mark;
use metier_core::error::{ErrorKind, Result, SkillError};

const PACKAGE: &str = "package.json";
/// The locks of npm, in the order in which it looks for them.
const LOCKS: [&str; 2] = ["npm-shrinkwrap.json", "package-lock.json"];
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
pub struct NpmManifest {
    /// A `package.json` that has the dependencies and nothing else.
    pub package: String,
    /// The lock as it is, if the skill has one.
    pub lock: Option<String>,
    names: Vec<String>,
}

impl NpmManifest {
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// These packages, without a lock.
    pub(super) fn of_ranges(ranges: &BTreeMap<String, String>) -> Result<Self, String> {
        Self::parse(&json!({"dependencies": ranges}).to_string()).map_err(|error| error.reason)
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
        for name in LOCKS.map(|lock| format!("{folder}{lock}")) {
            let Some(bytes) = read(&name, MAX_LOCK_BYTES)? else { continue };
            let no_text = |_| at_line(&name, LineError { line: 1, reason: "it is not UTF-8".into() });
            let text = String::from_utf8(bytes).map_err(no_text)?;
            check_lock(&text).map_err(|error| at_line(&name, error))?;
            manifest.lock = Some(text);
            break;
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
        let mut cleaned = Map::new();
        for (name, range) in packages {
            // What is no text says nothing, so any version fits; npm would read a list as the text in it.
            let range = range.as_str().unwrap_or_default();
            check_name(name).map_err(|reason| error(name, reason))?;
            check_range(name, range).map_err(|reason| error(name, reason))?;
            if INSTALLED_KINDS.contains(&kind) {
                names.push(format!("{name}@{range}"));
            }
            cleaned.insert(name.clone(), range.into());
        }
        clean.insert(kind.into(), cleaned.into());
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
            if is_file_of_npm(other) {
                return Err(format!("{name} is {}: npm takes it for a path", escaped_excerpt(range)));
            }
            range
        }
        None => range,
    };
    npm_range::check(plain).map_err(|reason| format!("{name} is {}: {reason}", escaped_excerpt(range)))
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
    for (path, package) in packages.iter().filter(|(path, _)| !path.is_empty()) {
        check_locked_package(packages, path, package).map_err(|reason| error(path, &reason))?;
    }
    Ok(())
}

fn check_locked_package(packages: &Map<String, Value>, path: &str, package: &Value) -> Result<(), String> {
    let is_set =
        |key: &str| package.get(key).is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)));
    if !is_package_path(path) {
        return Err("it lies outside of node_modules, which is not used".into());
    }
    if is_set("link") {
        return Err("it is a link to a folder, which is not used".into());
    }
    if is_set("hasShrinkwrap") {
        return Err("it has a lock of its own, which nobody checks, so it is not used".into());
    }
    if is_set("inBundle") && !is_set("resolved") {
        let unbundled = || "no package with a digest has it in its bundle, so it has no digest".to_owned();
        return is_bundled(packages, path).then_some(()).ok_or_else(unbundled);
    }
    let resolved = match package.get("resolved") {
        None => "",
        Some(Value::String(resolved)) => resolved,
        Some(_) => return Err("its `resolved` is not an address".into()),
    };
    let is_web = resolved.is_empty() || resolved.starts_with("https://") || resolved.starts_with("http://");
    let is_archive = resolved
        .split(['?', '#'])
        .next()
        .is_some_and(|path| path.is_empty() || path.strip_suffix(".tgz").is_some());
    if !is_web || !is_archive || resolved.contains("git+") {
        return Err(format!(
            "{} is not an archive of a registry, so it is not used",
            escaped_excerpt(resolved)
        ));
    }
    if has_digest(package) {
        return Ok(());
    }
    Err("it has no digest (`integrity`) of sha256 or stronger".into())
}

/// Whether one of the digests is of sha256 or stronger: npm compares the strongest of those that have a value.
fn has_digest(package: &Value) -> bool {
    let integrity = package.get("integrity").and_then(Value::as_str).unwrap_or_default();
    integrity.split_ascii_whitespace().any(|hash| {
        let digest = ["sha512-", "sha384-", "sha256-"].iter().find_map(|start| hash.strip_prefix(start));
        digest.is_some_and(|digest| !digest.is_empty() && !digest.starts_with('?'))
    })
}

/// `node_modules/a`, `node_modules/@scope/a/node_modules/b`: where packages lie.
fn is_package_path(path: &str) -> bool {
    let mut parts = path.split('/');
    let is_name = |part: Option<&str>| {
        part.is_some_and(|part| !part.is_empty() && !part.starts_with(['.', '@']) && part != "node_modules")
    };
    while let Some(part) = parts.next() {
        let first = parts.next();
        let is_named = match first.and_then(|first| first.strip_prefix('@')) {
            Some(scope) => !scope.is_empty() && is_name(parts.next()),
            None => is_name(first),
        };
        if part != "node_modules" || !is_named {
            return false;
        }
    }
    !path.contains('\\') && !path.contains(char::is_control)
}

/// Whether the archive of a package above has this one in it: one that is locked with a digest and bundles it, or bundles another
/// that depends on it. The digest of that archive is then the digest of both.
fn is_bundled(packages: &Map<String, Value>, path: &str) -> bool {
    let parent_of = |path: &str| path.rfind("/node_modules/").map(|at| path[..at].to_owned());
    let name = path.rsplit_once("node_modules/").map_or(path, |(_, name)| name);
    let is_in_bundle =
        |path: &str| packages.get(path).is_some_and(|package| package.get("inBundle") == Some(&json!(true)));
    let mut above = parent_of(path);
    while let Some(inner) = above.as_deref().filter(|path| is_in_bundle(path)) {
        above = parent_of(inner);
    }
    let Some((parent, package)) = above.and_then(|path| Some((path.clone(), packages.get(&path)?))) else {
        return false;
    };
    let bundles = package.get("bundleDependencies").and_then(Value::as_array);
    let is_listed = bundles.is_some_and(|names| names.iter().any(|listed| listed == name));
    let inside = format!("{parent}/node_modules/");
    let is_needed = || {
        packages.iter().any(|(other, package)| {
            other != path
                && other.starts_with(&inside)
                && is_in_bundle(other)
                && ["dependencies", "optionalDependencies", "peerDependencies"]
                    .iter()
                    .any(|kind| package.get(kind).is_some_and(|names| names.get(name).is_some()))
        })
    };
    has_digest(package) && (is_listed || bundles.is_some_and(|names| !names.is_empty()) && is_needed())
}

/// Reads an error of npm's own lock, for a lock that was just made.
pub fn check_new_lock(text: &str) -> Result<()> {
    check_lock(text).map_err(|LineError { reason, .. }| {
        SkillError::new(ErrorKind::InvalidSkill, format!("the packages cannot be locked: {reason}"))
    })
}

fn parse_object(text: &str) -> Result<Map<String, Value>, LineError> {
    match serde_json::from_str(without_mark(text)) {
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
    fn what_npm_takes_for_a_path_is_refused_with_its_line() {
        for range in [
            "..",
            ".",
            "...",
            ".hidden",
            ".5",
            " ..",
            "x.tgz",
            "X.TGZ",
            "1.tar.gz",
            "*.tar",
            "1.0.0.tar",
            "x.tar-gz",
            "1 || x.tgz",
            "x.tgz ",
            "~/x",
            "/x",
            "C:",
            "C:x",
            "file:x",
            "FILE:x",
            "link:x",
            "a/b",
            "NPM:a@1",
            "npm:x.tgz@1",
            "npm:x.tar",
            "npm:@a/x.tgz/y@1",
            "npm:npm:a@1",
            "npm:a@..",
            "npm:a@x.tgz",
            "npm:.a@1",
            "git+ssh:x",
            "a@b",
        ] {
            let text = format!("{{\n\"dependencies\": {{\n\"left-pad\": \"{range}\"\n}}\n}}");
            let error = NpmManifest::parse(&text).unwrap_err();
            assert!(
                error.line == 3 && error.reason.contains("left-pad") || error.reason.contains("not the name"),
                "{range}: {error:?}"
            );
        }
        // A list is no text, whatever npm would make of it.
        let manifest = NpmManifest::parse(r#"{"dependencies": {"a": ["file:../x"]}}"#).unwrap();
        assert!(!manifest.package.contains("file:"), "{}", manifest.package);
    }

    #[test]
    fn only_what_lies_in_an_archive_with_a_digest_needs_none_of_its_own() {
        let parent = r#""node_modules/p": {"resolved": "https://r.example/p.tgz", "integrity": "sha512-x", "bundleDependencies": ["a", "@s/b"]}"#;
        let with = |entries: &str| check_lock(&lock(&format!("{parent},\n{entries}")));
        for good in [
            r#""node_modules/p/node_modules/a": {"inBundle": true}"#,
            r#""node_modules/p/node_modules/@s/b": {"version": "1.0.0", "inBundle": true}"#,
            r#""node_modules/p/node_modules/a": {"inBundle": true, "dependencies": {"c": "1"}}, "node_modules/p/node_modules/c": {"inBundle": true}"#,
            r#""node_modules/p/node_modules/a": {"inBundle": true, "dependencies": {"c": "1"}}, "node_modules/p/node_modules/a/node_modules/c": {"inBundle": true}"#,
        ] {
            assert_eq!(with(good), Ok(()), "{good}");
        }
        for bad in [
            r#""node_modules/alpha": {"inBundle": true}"#,
            r#""node_modules/alpha": {"resolved": "https://r.example/x.tgz", "inBundle": true}"#,
            r#""node_modules/p/node_modules/a": {"resolved": "https://r.example/x.tgz", "inBundle": true}"#,
            r#""node_modules/p/node_modules/a": {"resolved": "git+ssh://evil.example/x", "inBundle": true}"#,
            r#""node_modules/p/node_modules/a": {"resolved": "file:x", "inBundle": true}"#,
            r#""node_modules/p/node_modules/a": {"inBundle": "true", "resolved": "https://r.example/x.tgz"}"#,
            r#""node_modules/p/node_modules/other": {"inBundle": true}"#,
            r#""node_modules/q/node_modules/a": {"inBundle": true}"#,
            r#""node_modules/q": {"integrity": "sha512-x"}, "node_modules/q/node_modules/a": {"inBundle": true}"#,
            r#""node_modules/q": {"inBundle": true, "bundleDependencies": ["a"]}, "node_modules/q/node_modules/a": {"inBundle": true}"#,
            r#""node_modules/p/node_modules/a": {"bundled": true}"#,
            r#""node_modules/p/node_modules/a": {"link": true, "inBundle": true}"#,
            r#""node_modules/p/node_modules/a": {"link": "x", "inBundle": true}"#,
            r#""node_modules/b": {"integrity": "sha512-x", "hasShrinkwrap": true}"#,
            r#""node_modules/b": {"integrity": "sha512-x", "resolved": true}"#,
            r#""node_modules/b": {"integrity": "sha512-x", "resolved": ["file:x"]}"#,
            r#""node_modules/b": {"integrity": "sha1-x sha512-"}"#,
            r#""node_modules/b": {"integrity": "sha1-xsha512-x"}"#,
            r#""node_modules/b": {"integrity": "sha512-?x"}"#,
            r#""node_modules/b/lib/c": {"integrity": "sha512-x"}"#,
            r#""node_modules/.bin/c": {"integrity": "sha512-x"}"#,
            r#""node_modules/@s": {"integrity": "sha512-x"}"#,
            r#""node_modules/b/node_modules": {"integrity": "sha512-x"}"#,
            r#""node_modules/b": true"#,
        ] {
            let error = with(bad).unwrap_err();
            assert!(error.line == 6, "{bad}: {error:?}");
        }
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
