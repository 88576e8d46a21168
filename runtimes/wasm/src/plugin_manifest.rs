//! An `extism-manifest` file (`plugin.json`): which modules a plug-in has, its settings, the hosts it asks for, and limits that it
//! lowers.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::marker::PhantomData;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};

use crate::imports::is_host_namespace;
use crate::module_source::{MAIN_MODULE, ModuleRole, ModuleSource};
use crate::plugin_settings::PluginSettings;
use metier_core::byte_order_mark::bytes_without_mark;
use metier_core::error::{ErrorKind, Hint, Result, SkillError};
use metier_core::executor::{Script, ScriptDialect, ScriptEntry, is_plugin_manifest};
use metier_core::policy::{Limits, Permission};

/// The size of a page of memory in bytes.
const PAGE_BYTES: u64 = 64 << 10;

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    #[serde(deserialize_with = "bounded_list")]
    wasm: Vec<ModuleEntry>,
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
struct ModuleEntry {
    path: Option<String>,
    data: Option<String>,
    url: Option<String>,
    method: Option<String>,
    #[serde(default, deserialize_with = "optional_bounded_map")]
    headers: Option<BTreeMap<String, String>>,
    name: Option<String>,
    hash: Option<String>,
}

/// The maximum number of modules of a plug-in.
const MAX_MODULES: usize = 16;

/// The maximum size of all modules in bytes, that of one file of a skill.
const MAX_TOTAL_BYTES: u64 = Limits::MAX_READ_SIZE;

/// The maximum size of a module's name in bytes.
const MAX_NAME_BYTES: usize = 128;

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

/// The manifest with its modules in it, so that what is compiled and cached is one text. The path of a module is relative to the
/// manifest's folder; `read` reads a file of the skill by its path there. A source that is a module itself stays as it is.
pub fn inline_modules(
    file: &str,
    source: Vec<u8>,
    read: impl Fn(&str) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    if !is_manifest(file, &source) {
        return Ok(source);
    }
    let mut manifest = parse(file, &source)?;
    let labels: Vec<String> =
        module_names(file, &manifest.wasm)?.iter().map(|name| name.label(file)).collect();
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut total = TotalBytes::default();
    for (module, label) in manifest.wasm.iter_mut().zip(labels) {
        let Some(path) = module.path.take() else { continue };
        let bytes = read(&if folder.is_empty() { path } else { format!("{folder}/{path}") })?;
        total.add(file, &bytes)?;
        check_hash(&label, module.hash.as_deref(), &bytes)?;
        module.data = Some(STANDARD.encode(bytes));
    }
    Ok(serde_json::to_vec(&manifest).unwrap_or_default())
}

/// The modules of a plug-in, and what its manifest says besides. A script that is not a manifest is the only module.
pub(super) fn resolve(script: &Script) -> Result<(Vec<ModuleSource>, PluginSettings)> {
    let passes_text = ScriptEntry::from_script(script).dialect == ScriptDialect::Synwire;
    let defaults = PluginSettings { passes_text, ..PluginSettings::default() };
    if !is_manifest(&script.path, &script.source) {
        return Ok((vec![ModuleSource::single(script, script.source.clone())], defaults));
    }
    let file = &script.path;
    let manifest = parse(file, &script.source)?;
    let modules = modules(script, &manifest)?;
    let settings = PluginSettings {
        permissions: permissions(file, manifest.allowed_hosts.unwrap_or_default())?,
        config: manifest.config,
        max_memory_bytes: manifest.memory.max_pages.map(|pages| u64::from(pages) * PAGE_BYTES),
        max_variable_bytes: manifest.memory.max_var_bytes,
        max_response_bytes: manifest.memory.max_http_response_bytes,
        timeout: manifest.timeout_ms.map(Duration::from_millis),
        ..defaults
    };
    Ok((modules, settings))
}

/// The modules, as they are compiled.
fn modules(script: &Script, manifest: &Manifest) -> Result<Vec<ModuleSource>> {
    let file = &script.path;
    let names = module_names(file, &manifest.wasm)?;
    let mut libraries: Vec<String> = names.iter().filter_map(ModuleName::library).collect();
    libraries.sort();
    let mut total = TotalBytes::default();
    let source = |(module, name): (&ModuleEntry, ModuleName<'_>)| {
        let label = name.label(file);
        let data = module.data.as_deref();
        let data = data
            .ok_or_else(|| invalid(&label, "is named by its file, and there is no folder to read it from"))?;
        let bytes = STANDARD
            .decode(data)
            .map_err(|error| invalid(&label, &format!("has no base64 in `data`: {error}")))?;
        total.add(file, &bytes)?;
        check_hash(&label, module.hash.as_deref(), &bytes)?;
        let role = match name.library() {
            Some(name) => ModuleRole::Library { name },
            None => ModuleRole::main(script),
        };
        Ok(ModuleSource { label, bytes: bytes.into(), role, libraries: libraries.clone() })
    };
    manifest.wasm.iter().zip(names).map(source).collect()
}

/// What a module of a plug-in is called.
enum ModuleName<'m> {
    /// It is the only module: nothing imports from it, and no message needs a name.
    Only,
    Named(&'m str),
}

impl ModuleName<'_> {
    fn library(&self) -> Option<String> {
        match self {
            Self::Named(name) if *name != MAIN_MODULE => Some((*name).to_owned()),
            _ => None,
        }
    }

    /// What messages call the module.
    fn label(&self, file: &str) -> String {
        match self {
            Self::Only => file.to_owned(),
            Self::Named(name) => format!("{file} (module {name})"),
        }
    }
}

/// The names of the modules, as Extism gives them: a module without a name is `main`, and so is the last one if none before it
/// is. Several modules need names that differ from each other and from those of the host.
fn module_names<'m>(file: &str, modules: &'m [ModuleEntry]) -> Result<Vec<ModuleName<'m>>> {
    let [others @ .., last] = modules else { return Ok(Vec::new()) };
    if others.is_empty() {
        return Ok(vec![ModuleName::Only]);
    }
    let mut names: Vec<&str> =
        others.iter().map(|module| module.name.as_deref().unwrap_or(MAIN_MODULE)).collect();
    let has_main = names.contains(&MAIN_MODULE);
    names.push(if has_main { last.name.as_deref().unwrap_or(MAIN_MODULE) } else { MAIN_MODULE });
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            return Err(invalid(file, &format!("names two modules {name:?}"))
                .with_help("give each module a `name` of its own; one without a name is `main`"));
        }
        if is_host_namespace(name) {
            return Err(invalid(file, &format!("names a module {name:?}, which is a name of the host"))
                .with_help("give the module another `name`, and import from that"));
        }
        if name.len() > MAX_NAME_BYTES {
            let what = format!("names a module with {} bytes; a name may have {MAX_NAME_BYTES}", name.len());
            return Err(invalid(file, &what));
        }
    }
    Ok(names.into_iter().map(ModuleName::Named).collect())
}

/// The bytes of the modules so far.
#[derive(Default)]
struct TotalBytes(u64);

impl TotalBytes {
    fn add(&mut self, file: &str, module: &[u8]) -> Result<()> {
        self.0 = self.0.saturating_add(module.len() as u64);
        if self.0 <= MAX_TOTAL_BYTES {
            return Ok(());
        }
        Err(invalid(file, &format!("has modules of more than {MAX_TOTAL_BYTES} bytes together"))
            .with_help("strip debug information from the modules, or split the skill"))
    }
}

/// Whether a script is a manifest: by its name, so that no other file leads to a module elsewhere, and by its text, since a
/// source that is a module itself may have any name.
fn is_manifest(path: &str, source: &[u8]) -> bool {
    is_plugin_manifest(path) && bytes_without_mark(source).trim_ascii_start().first() == Some(&b'{')
}

fn parse(file: &str, source: &[u8]) -> Result<Manifest> {
    let manifest: Manifest = serde_json::from_slice(bytes_without_mark(source))
        .map_err(|error| invalid(file, &format!("is not a manifest of Extism: {error}")))?;
    let count = manifest.wasm.len();
    if count == 0 {
        return Err(invalid(file, "names no module").with_help("list a module under `wasm`, by its `path`"));
    }
    if count > MAX_MODULES {
        return Err(invalid(file, &format!("names {count} modules; a plug-in has at most {MAX_MODULES}"))
            .with_help("link some of them into one module when you build them"));
    }
    for module in &manifest.wasm {
        if module.url.is_some() || module.method.is_some() || module.headers.is_some() {
            return Err(invalid(file, "names a module by `url`; no module is fetched")
                .with_help("put the module into the skill, and name it by `path`"));
        }
        if module.path.is_some() == module.data.is_some() {
            return Err(invalid(file, "must name each module by either `path` or `data`"));
        }
    }
    if manifest.allowed_paths.as_ref().is_some_and(|paths| !paths.is_empty()) {
        return Err(invalid(file, "has `allowed_paths`; a plug-in has no files")
            .with_help("read and write files with the functions of the host")
            .with_hint(Hint::ListFunctions));
    }
    Ok(manifest)
}

fn permissions(file: &str, hosts: Vec<String>) -> Result<Vec<Permission>> {
    let permission = |host: String| {
        if host != "*" && host.contains(['*', '?', '[', '/', ' ']) {
            return Err(invalid(file, &format!("has {host:?} in `allowed_hosts`, which is not a host"))
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
    fn resolved(manifest: &Value) -> Result<(Vec<ModuleSource>, PluginSettings)> {
        let read = |path: &str| match path {
            "scripts/a.wat" => Ok(MODULE.to_vec()),
            _ => Err(SkillError::new(ErrorKind::Io, format!("no {path}"))),
        };
        let source = inline_modules("scripts/plugin.json", manifest.to_string().into_bytes(), read)?;
        resolve(&Script::new("test", "scripts/plugin.json", source))
    }

    fn refused(manifest: &Value, sentence: &str) {
        let error = resolved(manifest).err().unwrap_or_else(|| panic!("{manifest} is accepted"));
        assert!(error.message().contains(sentence), "{manifest}: {error}");
    }

    #[test]
    fn a_module_comes_from_the_folder_or_from_the_manifest() {
        for source in [json!({"path": "a.wat"}), json!({"data": STANDARD.encode(MODULE)})] {
            let (modules, _) = resolved(&json!({"wasm": [source]})).unwrap();
            assert_eq!((&*modules[0].bytes, modules[0].label.as_str()), (MODULE, "scripts/plugin.json"));
        }
        let module = inline_modules("scripts/a.wat", MODULE.to_vec(), |_| panic!("nothing is read"));
        assert_eq!(module.unwrap(), MODULE);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_manifest_or_of_a_module_in_text() {
        let marked = |text: &[u8]| [&b"\xef\xbb\xbf"[..], text].concat();
        let manifest = marked(json!({"wasm": [{"path": "a.wat"}]}).to_string().as_bytes());
        let inlined = inline_modules("scripts/plugin.json", manifest, |_| Ok(marked(MODULE))).unwrap();
        let (modules, _) = resolve(&Script::new("test", "scripts/plugin.json", inlined)).unwrap();
        assert!(crate::module_source::to_binary(&modules[0]).is_ok());
    }

    #[test]
    fn what_a_manifest_may_not_say_is_refused_by_name() {
        let one = json!([{"path": "a.wat"}]);
        let many = vec![json!({"path": "a.wat"}); 10_000];
        refused(&json!({"wasm": []}), "names no module");
        refused(&json!({"wasm": many[..1000]}), "names 1000 modules; a plug-in has at most 16");
        refused(&json!({"wasm": many[..17]}), "names 17 modules");
        refused(&json!({"wasm": many}), "a list of at most 1000 entries");
        refused(
            &json!({"wasm": [{"path": "a.wat", "name": "a"}, {"path": "a.wat", "name": "a"}, {"path": "a.wat"}]}),
            "names two modules \"a\"",
        );
        refused(&json!({"wasm": [{"url": "https://a.test/a.wasm"}]}), "no module is fetched");
        refused(&json!({"wasm": [{"path": "a.wat", "data": ""}]}), "either `path` or `data`");
        refused(&json!({"wasm": [{"name": "main"}]}), "either `path` or `data`");
        refused(&json!({"wasm": [{"data": "?"}]}), "no base64");
        refused(&json!({"wasm": [{"path": "b.wat"}]}), "no scripts/b.wat");
        refused(&json!({"wasm": [{"path": "a.wat", "hash": SUM}]}), "expects a module whose SHA-256 is");
        refused(&json!({"wasm": one, "allowed_paths": {"/": "/"}}), "a plug-in has no files");
        refused(&json!({"wasm": one, "allowed_hosts": ["*.a.test"]}), "which is not a host");
        refused(&json!({"wasm": one, "more": 1}), "unknown field `more`");
        refused(&json!({"wasm": one, "memory": {"more": 1}}), "unknown field `more`");
        refused(&json!({"wasm": [{"path": "a.wat", "more": 1}]}), "unknown field `more`");
        refused(&json!({"wasm": [{"data": {"ptr": 1, "len": 1}}]}), "not a manifest of Extism");
    }

    #[test]
    fn all_modules_together_are_bounded() {
        const HALF: usize = (MAX_TOTAL_BYTES / 2) as usize;
        let manifest = json!({"wasm": [{"path": "a", "name": "a"}, {"path": "b"}]}).to_string();
        let inlined = |length: usize| {
            inline_modules("plugin.json", manifest.clone().into_bytes(), |_| Ok(vec![0; length]))
        };
        let script = |source: Vec<u8>| Script::new("test", "plugin.json", source);
        let too_large = "modules of more than 16777216 bytes together";
        assert_eq!(resolve(&script(inlined(HALF).unwrap())).unwrap().0.len(), 2);
        assert!(inlined(HALF + 1).unwrap_err().message().contains(too_large));
        let data = STANDARD.encode(vec![0; HALF + 1]);
        let manifest = json!({"wasm": [{"data": data, "name": "a"}, {"data": data}]}).to_string();
        assert!(resolve(&script(manifest.into())).err().unwrap().message().contains(too_large));
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
