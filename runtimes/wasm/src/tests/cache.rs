//! Tests of the cache on disk: it is used only if it belongs to the user, and no entry is used that is not authenticated.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::cache::LIMITS;
use super::super::linked_plugin::LinkedPlugin;
use super::{entered_at, module, shared, source};
use crate::cache_entry;
use crate::cache_entry::CacheKey;
use crate::compiled_plugin::CompiledPlugin;
use crate::imports::ResolvedImport;
use crate::metadata::ModuleMetadata;
use crate::module_source::{ModuleRole, ModuleSource};
use metier_core::error::ErrorKind;
use metier_core::executor::Script;
use metier_core::host::{MacKey, SkillContext, UserCache};
use metier_core::policy::{CancelToken, Limits};

/// The cache in these folders.
fn open_cache(own: &Path, state: &Path) -> Result<UserCache, String> {
    UserCache::open_in(own, "wasm", state, LIMITS)
}

/// A cache of this test's own.
struct CacheFixture {
    cache: UserCache,
    folder: PathBuf,
    state: PathBuf,
    _home: TempDir,
}

impl CacheFixture {
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        let (base, state) = (home.path().join("cache \"quoted\""), home.path().join("state/metier"));
        let cache = open_cache(&base.join("metier"), &state).unwrap();
        Self { cache, folder: base.join("metier/wasm"), state, _home: home }
    }

    /// The key's file.
    fn key_file(&self) -> PathBuf {
        self.state.join("wasm-cache.key")
    }

    /// The same folders, as another process of the user's finds them.
    fn reopen(&self) -> Result<UserCache, String> {
        open_cache(self.folder.parent().unwrap(), &self.state)
    }

    /// The result of a plug-in that is loaded through the cache.
    fn answer(&self, script: &Script) -> Value {
        let compiled = CompiledPlugin::load_or_compile(
            &[module_of(script)],
            false,
            Some(&self.cache),
            &shared(),
            &CancelToken::new(),
        )
        .unwrap();
        let machine = LinkedPlugin::new(compiled, &script.path, false).unwrap();
        machine.run(&Value::Null, &SkillContext::builder("test").build(), &Arc::default()).unwrap()
    }

    fn entry_file(&self, script: &Script) -> PathBuf {
        self.folder.join(CacheKey::new(&module_of(script), false).file_name())
    }

    fn file_names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// A plug-in that answers with this digit; two of them differ in nothing else.
fn digit(digit: u8) -> Script {
    source(module(&format!(
        r#"(data (i32.const 0) "{digit}") (func (export "run") (call $answer (call $text (i32.const 0) (i32.const 1))))"#
    )))
}

/// The module of a plug-in that is this script alone.
fn module_of(script: &Script) -> ModuleSource {
    ModuleSource::single(script, script.source.clone())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn it_is_made_for_the_user_alone() {
    let own = CacheFixture::new();
    assert_eq!(own.answer(&digit(1)), json!(1));
    let product = own.folder.parent().unwrap();
    assert_eq!((mode(product), mode(&own.folder), mode(&own.entry_file(&digit(1)))), (0o700, 0o700, 0o600));
    assert_eq!(own.file_names().len(), 1, "{:?}", own.file_names());
}

#[test]
fn what_was_compiled_once_is_taken_from_the_disk() {
    let own = CacheFixture::new();
    assert_eq!(own.answer(&digit(1)), json!(1));
    let written = || {
        let found = fs::metadata(own.entry_file(&digit(1))).unwrap();
        (found.ino(), found.ctime(), found.ctime_nsec())
    };
    let first = written();
    for _ in 0..3 {
        assert_eq!(own.answer(&digit(1)), json!(1));
    }
    assert_eq!(written(), first, "nothing was compiled again");
    assert_eq!(own.answer(&digit(2)), json!(2), "and nobody takes it for another");
}

#[test]
fn functions_and_limits_have_entries_of_their_own() {
    let text = module(
        r#"(data (i32.const 0) "12")
        (func (export "run") (call $answer (call $text (i32.const 0) (i32.const 1))))
        (func (export "other") (call $answer (call $text (i32.const 1) (i32.const 1))))"#,
    );
    let own = CacheFixture::new();
    let other = entered_at("other", source(&text));
    for _ in 0..2 {
        assert_eq!((own.answer(&source(&text)), own.answer(&other)), (json!(1), json!(2)));
    }
    let names = [
        CacheKey::new(&module_of(&other), false),
        CacheKey::new(&module_of(&other), true),
        CacheKey::new(&module_of(&source(&text)), true),
    ];
    assert_ne!(names[0].file_name(), names[1].file_name());
    assert_ne!(names[1].file_name(), names[2].file_name());
    let spelled_out = entered_at("run", source(&text));
    assert_eq!(
        CacheKey::new(&module_of(&spelled_out), true).file_name(),
        names[2].file_name(),
        "`run` is what is meant where none is named"
    );
}

#[test]
fn an_entry_that_was_tampered_with_is_compiled_anew() {
    let own = CacheFixture::new();
    let script = digit(1);
    assert_eq!((own.answer(&script), own.answer(&digit(2))), (json!(1), json!(2)));
    let (path, whole) = (own.entry_file(&script), fs::read(own.entry_file(&script)).unwrap());
    let other = fs::read(own.entry_file(&digit(2))).unwrap();
    let length = whole.len();
    let flipped = |at: usize, bit: u8| {
        let mut entry = whole.clone();
        entry[at] ^= 1 << bit;
        entry
    };
    // The code of one behind the name, sum and facts of the other.
    let mixed = [&whole[..length / 2], &other[length / 2..]].concat();
    let mut attacks = vec![other, mixed, [&whole[..], b"more"].concat(), vec![0; length]];
    attacks.extend([0, 1, 16, 47, 80, 88, 200, length / 2, length - 1].map(|at| whole[..at].to_vec()));
    attacks.extend([(0, 0), (20, 7), (50, 3), (80, 0), (87, 7), (90, 1)].map(|(at, bit)| flipped(at, bit)));
    attacks.extend((1..8).map(|part| flipped(length * part / 8, 2)));
    for (number, attack) in attacks.into_iter().enumerate() {
        fs::write(&path, &attack).unwrap();
        assert_eq!(own.answer(&script), json!(1), "{number}");
        let written = fs::read(&path).unwrap();
        assert!(
            cache_entry::decode(
                &written,
                &CacheKey::new(&module_of(&script), false),
                own.cache.mac_key(),
                &[]
            )
            .is_some(),
            "{number} was written anew"
        );
        assert_eq!(own.answer(&script), json!(1), "{number}, from the disk again");
    }
}

#[test]
fn no_bit_of_an_entry_can_change() {
    let script = digit(1);
    let (key, mac) = (CacheKey::new(&module_of(&script), false), MacKey::new([7; 32]));
    let facts = ModuleMetadata {
        imports: vec![ResolvedImport::Wasi],
        first_added_function: 7,
        memories: 1,
        tables: 1,
        largest_table_elements: 2,
        initial_bytes: 3,
    };
    let whole = cache_entry::encode(&key, &mac, &facts, b"machine code");
    let (found, code) = cache_entry::decode(&whole, &key, &mac, &[]).unwrap();
    assert_eq!((found.first_added_function, found.uses_wasi(), code), (7, true, &b"machine code"[..]));
    for end in 0..whole.len() {
        assert!(cache_entry::decode(&whole[..end], &key, &mac, &[]).is_none(), "cut at {end}");
    }
    for at in 0..whole.len() * 8 {
        let mut changed = whole.clone();
        changed[at / 8] ^= 1 << (at % 8);
        assert!(cache_entry::decode(&changed, &key, &mac, &[]).is_none(), "bit {at}");
    }
    assert!(
        cache_entry::decode(&whole, &CacheKey::new(&module_of(&digit(2)), false), &mac, &[]).is_none(),
        "another's"
    );
    assert!(cache_entry::decode(&whole, &key, &MacKey::new([8; 32]), &[]).is_none(), "another user's");
}

#[test]
fn an_entry_that_is_no_file_of_the_users_is_not_read() {
    let own = CacheFixture::new();
    let script = digit(1);
    own.answer(&script);
    let path = own.entry_file(&script);
    let elsewhere = own.folder.join("elsewhere");
    fs::copy(&path, &elsewhere).unwrap();
    let name = CacheKey::new(&module_of(&script), false).file_name();
    let refused = |what: &str| {
        assert!(own.cache.read_entry(&name).is_none(), "{what} was read");
        assert_eq!(own.answer(&script), json!(1), "{what}");
        if path.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) }.unwrap();
    };
    fs::remove_file(&path).unwrap();
    refused("nothing");
    symlink("elsewhere", &path).unwrap();
    refused("a link");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    refused("a pipe");
    fs::create_dir(&path).unwrap();
    refused("a folder");
    fs::File::create(&path).unwrap().set_len(1 << 30).unwrap();
    refused("a file without end");
    fs::copy(&elsewhere, &path).unwrap();
    assert!(own.cache.read_entry(&name).is_some());
    fs::set_permissions(&path, Permissions::from_mode(0o620)).unwrap();
    refused("a file others may write to");
}

#[test]
fn a_folder_that_is_not_the_users_alone_is_not_used() {
    let refused = |lay_out: &dyn Fn(&Path), reason: &str| {
        let home = TempDir::new().unwrap();
        let base = home.path().join("cache");
        fs::create_dir(&base).unwrap();
        lay_out(&base);
        let found = open_cache(&base.join("metier"), &home.path().join("metier")).err().unwrap();
        assert!(found.contains(reason), "{found}");
    };
    let open = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    for (part, mode) in [("metier/wasm", 0o777), ("metier", 0o770), ("", 0o777)] {
        let lay_out = |base: &Path| {
            fs::create_dir_all(base.join("metier/wasm")).unwrap();
            open(&base.join(part), mode);
        };
        refused(&lay_out, "can be written by others");
    }
    refused(&|base| fs::write(base.join("metier"), "").unwrap(), "metier");
    for part in ["metier", "metier/wasm"] {
        let lay_out = |base: &Path| {
            fs::create_dir(base.join("elsewhere")).unwrap();
            let link = base.join(part);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(base.join("elsewhere"), link).unwrap();
        };
        refused(&lay_out, part);
    }
    let state = TempDir::new().unwrap();
    let at = |path: &str| open_cache(Path::new(path), &state.path().join("metier"));
    // Only root can give a folder away; to anybody else, root's are somebody else's.
    if rustix::process::geteuid().is_root() {
        refused(&|base| chown(base, Some(65534), None).unwrap(), "belongs to somebody else");
        let lay_out = |base: &Path| {
            fs::create_dir_all(base.join("metier/wasm")).unwrap();
            chown(base.join("metier/wasm"), Some(65534), None).unwrap();
        };
        refused(&lay_out, "belongs to somebody else");
    } else {
        assert!(at("/usr/metier").err().unwrap().contains("belongs to somebody else"));
    }
    assert!(at("/proc/metier/metier").is_err());
    assert!(at("/dev/null/cache/metier").is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn a_key_that_a_script_has_laid_there_is_not_believed() {
    use rustix::fs::{XattrFlags, setxattr};
    let own = CacheFixture::new();
    own.answer(&digit(1));
    let (key, theirs) = (own.key_file(), [b'E'; 32]);
    if setxattr(&key, c"user.metier.key", b"1", XattrFlags::empty()).is_err() {
        // Nothing tells them apart on this file system.
        return;
    }
    // In its place, of the same length and mode; and in a folder that has none yet.
    fs::remove_file(&key).unwrap();
    fs::write(&key, theirs).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    drop(own.reopen().unwrap());
    let made = fs::read(&key).unwrap();
    assert_ne!(made, theirs);
    drop(own.reopen().unwrap());
    assert_eq!(fs::read(&key).unwrap(), made, "its own is kept");
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_is_kept_in_a_project_or_a_skill_or_where_a_script_comes() {
    use metier_core::host::visibility_lock::VisibilityLock;
    for sign in [".git", ".metier", "SKILL.md"] {
        let home = TempDir::new().unwrap();
        fs::create_dir_all(home.path().join("project/st")).unwrap();
        fs::create_dir(home.path().join("project").join(sign)).unwrap();
        for (cache, state) in [("project/ca/metier", "st/metier"), ("ca/metier", "project/st/metier")] {
            let refused = open_cache(&home.path().join(cache), &home.path().join(state)).err().unwrap();
            assert!(refused.contains("is a project"), "{refused}");
        }
        assert!(!home.path().join("project/st/metier").exists());
    }
    let home = TempDir::new().unwrap();
    let at = || open_cache(&home.path().join("ca/metier"), &home.path().join("project/st/metier"));
    fs::create_dir_all(home.path().join("project")).unwrap();
    let project = fs::canonicalize(home.path().join("project")).unwrap();
    let in_sight = VisibilityLock::acquire(&[&project]);
    assert!(at().err().unwrap().contains("running script"));
    assert!(!project.join("st/metier/wasm-cache.key").exists());
    drop(in_sight);
    assert!(at().is_ok());
}

#[test]
fn a_folder_that_others_may_write_to_later_is_no_longer_used() {
    let own = CacheFixture::new();
    own.answer(&digit(1));
    fs::set_permissions(&own.folder, Permissions::from_mode(0o777)).unwrap();
    assert!(own.cache.read_entry(&CacheKey::new(&module_of(&digit(1)), false).file_name()).is_none());
    assert_eq!((own.answer(&digit(1)), own.answer(&digit(2))), (json!(1), json!(2)));
    assert_eq!(own.file_names().len(), 1, "and nothing is kept there");
}

#[test]
fn it_never_holds_more_than_it_may() {
    let own = CacheFixture::new();
    let old = |name: &str, bytes: u64, hours: u64| {
        let file = fs::File::create(own.folder.join(name)).unwrap();
        file.set_len(bytes).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_hours(hours)).unwrap();
    };
    (0..1500).for_each(|number| old(&format!("small-{number}"), 1, 5 + number));
    old(".new-1-1", 1, 2);
    old(".new-1-2", 1, 0);
    own.cache.store_entry("kept", b"this");
    let names = own.file_names();
    let has = |name: &str| names.iter().any(|found| found == name);
    assert!(names.len() <= 1024, "{}", names.len());
    assert!(has("kept") && has("small-0") && !has("small-1499"), "the oldest went");
    assert!(has(".new-1-2") && !has(".new-1-1"), "what nobody will finish went as well");

    (0..6).for_each(|number| old(&format!("large-{number}"), 60 << 20, number));
    own.cache.store_entry("kept", b"that");
    let names = own.file_names();
    assert!(names.iter().filter(|name| name.starts_with("large")).count() <= 4, "{names:?}");
    assert_eq!(own.cache.read_entry("kept").unwrap(), b"that");
    own.cache.store_entry("huge", &vec![0; 65 << 20]);
    assert!(own.cache.read_entry("huge").is_none(), "one entry does not drive out all others");
}

#[test]
fn what_comes_from_the_disk_holds_the_same_limits() {
    let script = source(module(
        r#"(func (export "run") (loop $again (drop (memory.grow (i32.const 1))) (br $again)))"#,
    ));
    let own = CacheFixture::new();
    for _ in 0..2 {
        let compiled = CompiledPlugin::load_or_compile(
            &[module_of(&script)],
            true,
            Some(&own.cache),
            &shared(),
            &CancelToken::new(),
        )
        .unwrap();
        let machine = LinkedPlugin::new(compiled, &script.path, true).unwrap();
        let run = |limits: Limits| {
            let context = SkillContext::builder("test").limits(limits).build();
            machine.run(&Value::Null, &context, &Arc::default()).unwrap_err().kind()
        };
        assert_eq!(run(Limits::default().memory(1 << 20).operations(1 << 40)), ErrorKind::Memory);
        assert_eq!(run(Limits::default().operations(100)), ErrorKind::Operations);
    }
}

#[test]
fn what_another_key_says_is_true_is_compiled_anew() {
    let own = CacheFixture::new();
    let script = digit(1);
    let facts = || ModuleMetadata {
        imports: Vec::new(),
        first_added_function: 0,
        memories: 0,
        tables: 0,
        largest_table_elements: 0,
        initial_bytes: 0,
    };
    own.answer(&script);
    let whole = fs::read(own.entry_file(&script)).unwrap();
    let (key, theirs) = (CacheKey::new(&module_of(&script), false), MacKey::new([0; 32]));
    let forged = cache_entry::encode(&key, &theirs, &facts(), b"machine code");
    // A sum that takes no key, as it stood there before, and none at all.
    let unsigned = [&whole[..16], &[0; 32], &whole[48..]].concat();
    let plain = [&whole[..16], &blake3::hash(&whole[48..]).as_bytes()[..], &whole[48..]].concat();
    for (number, forged) in [forged, unsigned, plain].into_iter().enumerate() {
        fs::write(own.entry_file(&script), forged).unwrap();
        assert_eq!(own.answer(&script), json!(1), "{number}");
        assert!(fs::read(own.entry_file(&script)).unwrap().len() > 1000, "{number} was written anew");
    }
    // An entry of another module, made by this very host, under this one's name.
    own.answer(&digit(2));
    fs::copy(own.entry_file(&digit(2)), own.entry_file(&script)).unwrap();
    assert_eq!(own.answer(&script), json!(1));
}

#[test]
fn one_key_is_the_users_alone_and_stays() {
    let own = CacheFixture::new();
    own.answer(&digit(1));
    assert_eq!((mode(&own.key_file()), mode(&own.state)), (0o600, 0o700));
    let key = fs::read(own.key_file()).unwrap();
    let entry = fs::read(own.entry_file(&digit(1))).unwrap();
    let again = own.reopen().unwrap();
    assert_eq!(fs::read(own.key_file()).unwrap(), key);
    assert!(
        cache_entry::decode(&entry, &CacheKey::new(&module_of(&digit(1)), false), again.mac_key(), &[])
            .is_some()
    );
    assert_eq!(fs::read_dir(&own.state).unwrap().count(), 1, "nothing unfinished is left");
    // Without its key, nothing of before is believed.
    fs::remove_file(own.key_file()).unwrap();
    let another = own.reopen().unwrap();
    assert_ne!(fs::read(own.key_file()).unwrap(), key);
    assert!(
        cache_entry::decode(&entry, &CacheKey::new(&module_of(&digit(1)), false), another.mac_key(), &[])
            .is_none()
    );
    // A host was killed while it made one.
    fs::write(own.key_file(), &key[..9]).unwrap();
    assert!(own.reopen().is_ok());
    assert_eq!(fs::read(own.key_file()).unwrap().len(), 32);
}

#[test]
fn a_key_that_somebody_else_may_know_is_not_used() {
    let refused = |lay_out: &dyn Fn(&Path), reason: &str| {
        let own = CacheFixture::new();
        lay_out(&own.key_file());
        let found = own.reopen().err().unwrap();
        assert!(found.contains(reason), "{found}");
    };
    let open = |mode| move |key: &Path| fs::set_permissions(key, Permissions::from_mode(mode)).unwrap();
    refused(&open(0o640), "can be read by others");
    refused(&open(0o604), "can be read by others");
    refused(&open(0o620), "can be written by others");
    refused(&|key| fs::hard_link(key, key.with_extension("too")).unwrap(), "has another name");
    refused(&|key| open(0o777)(key.parent().unwrap()), "can be written by others");
    let moved = |key: &Path| {
        fs::rename(key, key.with_extension("elsewhere")).unwrap();
        key.with_extension("elsewhere")
    };
    refused(&|key| symlink(moved(key), key).unwrap(), "is a link");
    refused(
        &|key| {
            moved(key);
            fs::create_dir(key).unwrap();
        },
        "",
    );
    refused(
        &|key| {
            moved(key);
            rustix::fs::mknodat(rustix::fs::CWD, key, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        },
        "is not a file",
    );
    if rustix::process::geteuid().is_root() {
        refused(&|key| chown(key, Some(65534), None).unwrap(), "belongs to somebody else");
    }
}

#[test]
fn one_module_in_two_roles_has_an_entry_for_each() {
    let own = CacheFixture::new();
    let bytes = digit(1).source;
    let source = |role: ModuleRole, libraries: &[&str]| ModuleSource {
        label: "scripts/plugin.json".into(),
        bytes: bytes.clone(),
        role,
        libraries: libraries.iter().map(|name| (*name).to_owned()).collect(),
    };
    let main = || ModuleRole::Main { function: "run".into() };
    let library = |name: &str| ModuleRole::Library { name: name.into() };
    let keys = [
        source(main(), &[]),
        source(main(), &["a"]),
        source(main(), &["a", "b"]),
        source(main(), &["ab"]),
        source(library("a"), &["a"]),
        source(library("a"), &["a", "b"]),
        source(ModuleRole::Main { function: "library".into() }, &["a"]),
    ];
    let names: BTreeSet<String> = keys.iter().map(|key| CacheKey::new(key, false).file_name()).collect();
    assert_eq!(names.len(), keys.len());
    let (one, two) = (source(library("a"), &["a", "b"]), source(library("b"), &["a", "b"]));
    assert_eq!(CacheKey::new(&one, false).file_name(), CacheKey::new(&two, false).file_name());
    // All of a plug-in comes from the disk the second time.
    let sources = [one, two, source(main(), &["a", "b"])];
    for round in 0..3 {
        let compiled = CompiledPlugin::load_or_compile(
            &sources,
            false,
            Some(&own.cache),
            &shared(),
            &CancelToken::new(),
        )
        .unwrap();
        let machine = LinkedPlugin::new(compiled, "scripts/plugin.json", false).unwrap();
        let answer = machine.run(&Value::Null, &SkillContext::builder("test").build(), &Arc::default());
        assert_eq!(answer.unwrap(), json!(1), "{round}");
        assert_eq!(own.file_names().len(), 2, "{round}");
    }
    // An entry whose imports the plug-in cannot have is not used.
    let facts = ModuleMetadata {
        imports: vec![ResolvedImport::Library("c".into())],
        first_added_function: 1,
        memories: 0,
        tables: 0,
        largest_table_elements: 0,
        initial_bytes: 0,
    };
    let key = CacheKey::new(&sources[0], false);
    let entry = cache_entry::encode(&key, own.cache.mac_key(), &facts, b"machine code");
    let decoded =
        |libraries: &[String]| cache_entry::decode(&entry, &key, own.cache.mac_key(), libraries).is_some();
    assert!(decoded(&["c".into()]) && !decoded(&sources[0].libraries) && !decoded(&[]));
}
