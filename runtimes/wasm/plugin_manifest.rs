//! An `extism-manifest` file (`plugin.json`): which module runs, its settings, the hosts it asks for, and limits that it lowers.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::marker::PhantomData;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::{Script, SkillRuntime};
use crate::policy::Permission;

/// The size of a page of memory in bytes.
const PAGE_BYTES: u64 = 64 << 10;

/// What a manifest changes for the runs of its plug-in.
#[derive(Clone, Default)]
pub(super) struct PluginSettings {
    /// Settings, where the host has none of that name.
    pub(super) config: BTreeMap<String, String>,
    pub(super) max_memory_bytes: Option<u64>,
    pub(super) max_variable_bytes: Option<u64>,
    pub(super) max_response_bytes: Option<u64>,
    pub(super) timeout: Option<Duration>,
    /// Hosts that it asks for; as any requested permission, they need a grant.
    pub(super) permissions: Vec<Permission>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    #[serde(deserialize_with = "bounded_list")]
    wasm: Vec<ModuleSource>,
    #[serde(default)]
    memory: MemoryOptions,
    #[serde(default, deserialize_with = "bounded_map")]
    config: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "optional_bounded_list")]
    allowed_hosts: Option<Vec<String>>,
    #[serde(default, deserialize_with = "optional_bounded_map")]
    allowed_paths: Option<BTreeMap<String, String>>,
    timeout_ms: Option<u64>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_field_names)] // the keys of Extism
struct MemoryOptions {
    max_pages: Option<u32>,
    max_http_response_bytes: Option<u64>,
    max_var_bytes: Option<u64>,
}

/// A module: a file, or its bytes in base64.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ModuleSource {
    path: Option<String>,
    data: Option<String>,
    url: Option<String>,
    method: Option<String>,
    #[serde(default, deserialize_with = "optional_bounded_map")]
    headers: Option<BTreeMap<String, String>>,
    name: Option<String>,
    hash: Option<String>,
}

/// The maximum entries of a list or an object of a manifest. Counted while it is parsed, since an entry of three bytes takes
/// more than fifty times as much memory.
const MAX_ENTRIES: usize = 1_000;

/// Deserializes a list or an object of at most [`MAX_ENTRIES`].
struct Bounded<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<Vec<T>> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a list of at most {MAX_ENTRIES} entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> std::result::Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = entries.next_element()? {
            list.push(entry);
            if list.len() > MAX_ENTRIES {
                return Err(A::Error::invalid_length(list.len(), &self));
            }
        }
        Ok(list)
    }
}

impl<'de> Visitor<'de> for Bounded<BTreeMap<String, String>> {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "an object of at most {MAX_ENTRIES} entries")
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut entries: A,
    ) -> std::result::Result<BTreeMap<String, String>, A::Error> {
        let mut map = BTreeMap::new();
        while let Some((name, value)) = entries.next_entry()? {
            map.insert(name, value);
            if map.len() > MAX_ENTRIES {
                return Err(A::Error::invalid_length(map.len(), &self));
            }
        }
        Ok(map)
    }
}

fn bounded_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    source: D,
) -> std::result::Result<Vec<T>, D::Error> {
    source.deserialize_seq(Bounded::<Vec<T>>(PhantomData))
}

fn bounded_map<'de, D: Deserializer<'de>>(
    source: D,
) -> std::result::Result<BTreeMap<String, String>, D::Error> {
    source.deserialize_map(Bounded::<BTreeMap<String, String>>(PhantomData))
}

fn optional_bounded_list<'de, D: Deserializer<'de>>(
    source: D,
) -> std::result::Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    struct Entries(#[serde(deserialize_with = "bounded_list")] Vec<String>);
    Ok(Option::<Entries>::deserialize(source)?.map(|entries| entries.0))
}

fn optional_bounded_map<'de, D: Deserializer<'de>>(
    source: D,
) -> std::result::Result<Option<BTreeMap<String, String>>, D::Error> {
    #[derive(Deserialize)]
    struct Entries(#[serde(deserialize_with = "bounded_map")] BTreeMap<String, String>);
    Ok(Option::<Entries>::deserialize(source)?.map(|entries| entries.0))
}

/// The manifest with its module in it, so that what is compiled and cached is one text. The module's path is relative to the
/// manifest's folder; `read` reads a file of the skill by its path there. A source that is a module itself stays as it is.
pub(crate) fn inline_modules(
    file: &str,
    source: Vec<u8>,
    read: impl FnOnce(&str) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    if !is_manifest(file, &source) {
        return Ok(source);
    }
    let mut manifest = parse(file, &source)?;
    let module = &mut manifest.wasm[0];
    if let Some(path) = module.path.take() {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let path = if folder.is_empty() { path } else { format!("{folder}/{path}") };
        let bytes = read(&path)?;
        check_hash(file, module.hash.as_deref(), &bytes)?;
        module.data = Some(STANDARD.encode(bytes));
    }
    Ok(serde_json::to_vec(&manifest).unwrap_or_default())
}

/// The script whose source is the module alone, and what its manifest says besides.
pub(super) fn resolve(script: &Script) -> Result<(Script, PluginSettings)> {
    if !is_manifest(&script.path, &script.source) {
        return Ok((script.clone(), PluginSettings::default()));
    }
    let file = &script.path;
    let manifest = parse(file, &script.source)?;
    let module = &manifest.wasm[0];
    let Some(data) = &module.data else {
        return Err(invalid(file, "names a file, and there is no folder to read it from"));
    };
    let bytes =
        STANDARD.decode(data).map_err(|error| invalid(file, &format!("has no base64 in `data`: {error}")))?;
    check_hash(file, module.hash.as_deref(), &bytes)?;
    let settings = PluginSettings {
        permissions: permissions(file, manifest.allowed_hosts.unwrap_or_default())?,
        config: manifest.config,
        max_memory_bytes: manifest.memory.max_pages.map(|pages| u64::from(pages) * PAGE_BYTES),
        max_variable_bytes: manifest.memory.max_var_bytes,
        max_response_bytes: manifest.memory.max_http_response_bytes,
        timeout: manifest.timeout_ms.map(Duration::from_millis),
    };
    Ok((Script { source: bytes.into(), ..script.clone() }, settings))
}

/// Whether a script is a manifest: by its name, so that no other file leads to a module elsewhere, and by its text, since a
/// source that is a module itself may have any name.
fn is_manifest(path: &str, source: &[u8]) -> bool {
    SkillRuntime::is_plugin_manifest(path) && source.trim_ascii_start().first() == Some(&b'{')
}

fn parse(file: &str, source: &[u8]) -> Result<Manifest> {
    let manifest: Manifest = serde_json::from_slice(source)
        .map_err(|error| invalid(file, &format!("is no manifest of Extism: {error}")))?;
    let [module] = manifest.wasm.as_slice() else {
        let count = manifest.wasm.len();
        return Err(invalid(file, &format!("names {count} modules; a plug-in here has one"))
            .with_help("link them into one module when you build them"));
    };
    if module.url.is_some() || module.method.is_some() || module.headers.is_some() {
        return Err(invalid(file, "names a module by `url`; no module is fetched")
            .with_help("put the module into the skill, and name it by `path`"));
    }
    if module.path.is_some() == module.data.is_some() {
        return Err(invalid(file, "must name its module by either `path` or `data`"));
    }
    if manifest.allowed_paths.as_ref().is_some_and(|paths| !paths.is_empty()) {
        return Err(invalid(file, "has `allowed_paths`; a plug-in has no files")
            .with_help("read and write files with the functions of the host, as `metier api` lists them"));
    }
    Ok(manifest)
}

fn permissions(file: &str, hosts: Vec<String>) -> Result<Vec<Permission>> {
    let permission = |host: String| {
        if host != "*" && host.contains(['*', '?', '[', '/', ' ']) {
            return Err(invalid(file, &format!("has {host:?} in `allowed_hosts`, which is no host"))
                .with_help("list each host by its name, or `*` for all of them"));
        }
        let text = if host == "*" { "net".to_owned() } else { format!("net:{host}") };
        text.parse().map_err(|error: SkillError| {
            invalid(file, &format!("has {host:?} in `allowed_hosts`: {}", error.message()))
        })
    };
    hosts.into_iter().map(permission).collect()
}

fn check_hash(file: &str, expected: Option<&str>, module: &[u8]) -> Result<()> {
    let Some(expected) = expected else { return Ok(()) };
    let mut found = String::new();
    for byte in Sha256::digest(module) {
        let _ = write!(found, "{byte:02x}");
    }
    if found == expected {
        return Ok(());
    }
    Err(invalid(file, &format!("expects a module whose SHA-256 is {expected}, and it is {found}")))
}

fn invalid(file: &str, what: &str) -> SkillError {
    SkillError::new(ErrorKind::InvalidSkill, format!("{file} {what}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const MODULE: &[u8] = b"(module)";
    const SUM: &str = "1aa1d1e8b3e0cc0e";

    /// Resolves a manifest in `scripts/`, in whose folder `a.wat` is the only file.
    fn resolved(manifest: &Value) -> Result<(Script, PluginSettings)> {
        let read = |path: &str| match path {
            "scripts/a.wat" => Ok(MODULE.to_vec()),
            _ => Err(SkillError::new(ErrorKind::Io, format!("no {path}"))),
        };
        let source = inline_modules("scripts/plugin.json", manifest.to_string().into_bytes(), read)?;
        resolve(&Script {
            skill: "test".into(),
            path: "scripts/plugin.json".into(),
            folder: None,
            source: source.into(),
            function: None,
        })
    }

    fn refused(manifest: &Value, sentence: &str) {
        let error = resolved(manifest).err().unwrap_or_else(|| panic!("{manifest} is accepted"));
        assert!(error.message().contains(sentence), "{manifest}: {error}");
    }

    #[test]
    fn a_module_comes_from_the_folder_or_from_the_manifest() {
        for source in [json!({"path": "a.wat"}), json!({"data": STANDARD.encode(MODULE)})] {
            let (script, _) = resolved(&json!({"wasm": [source]})).unwrap();
            assert_eq!((&*script.source, script.path.as_str()), (MODULE, "scripts/plugin.json"));
        }
        let module = inline_modules("scripts/a.wat", MODULE.to_vec(), |_| panic!("nothing is read"));
        assert_eq!(module.unwrap(), MODULE);
    }

    #[test]
    fn what_a_manifest_may_not_say_is_refused_by_name() {
        let one = json!([{"path": "a.wat"}]);
        let many = vec![json!({"path": "a.wat"}); 10_000];
        refused(&json!({"wasm": []}), "names 0 modules");
        refused(&json!({"wasm": many}), "a list of at most 1000 entries");
        refused(
            &json!({"wasm": [{"path": "a.wat", "name": "a"}, {"path": "a.wat", "name": "a"}]}),
            "names 2 modules",
        );
        refused(&json!({"wasm": [{"url": "https://a.test/a.wasm"}]}), "no module is fetched");
        refused(&json!({"wasm": [{"path": "a.wat", "data": ""}]}), "either `path` or `data`");
        refused(&json!({"wasm": [{"name": "main"}]}), "either `path` or `data`");
        refused(&json!({"wasm": [{"data": "?"}]}), "no base64");
        refused(&json!({"wasm": [{"path": "b.wat"}]}), "no scripts/b.wat");
        refused(&json!({"wasm": [{"path": "a.wat", "hash": SUM}]}), "expects a module whose SHA-256 is");
        refused(&json!({"wasm": one, "allowed_paths": {"/": "/"}}), "a plug-in has no files");
        refused(&json!({"wasm": one, "allowed_hosts": ["*.a.test"]}), "which is no host");
        refused(&json!({"wasm": one, "more": 1}), "unknown field `more`");
        refused(&json!({"wasm": one, "memory": {"more": 1}}), "unknown field `more`");
        refused(&json!({"wasm": [{"path": "a.wat", "more": 1}]}), "unknown field `more`");
        refused(&json!({"wasm": [{"data": {"ptr": 1, "len": 1}}]}), "no manifest of Extism");
    }

    #[test]
    fn settings_limits_and_hosts_are_those_of_the_manifest() {
        let manifest = json!({
            "wasm": [{"path": "a.wat"}], "config": {"a": "b"}, "timeout_ms": 20, "allowed_hosts": ["a.test", "*"],
            "memory": {"max_pages": 2, "max_var_bytes": 3, "max_http_response_bytes": 4},
        });
        let (_, settings) = resolved(&manifest).unwrap();
        assert_eq!(settings.config["a"], "b");
        assert_eq!((settings.max_memory_bytes, settings.max_variable_bytes), (Some(2 << 16), Some(3)));
        assert_eq!(
            (settings.max_response_bytes, settings.timeout),
            (Some(4), Some(Duration::from_millis(20)))
        );
        let asked: Vec<String> = settings.permissions.iter().map(ToString::to_string).collect();
        assert_eq!(asked, ["net:a.test", "net"]);
    }
}
