//! The values that a skill keeps under keys: a file for each, which is replaced as a whole. Its name is a digest of the key.

use std::ffi::{CStr, CString};
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::private_dir::{
    entries, exists, lock_folder, modified, open_existing, open_store, private_subfolder, replace_file,
    try_lock,
};
use super::record::{SkillState, StoredValue};
use super::record_file;
use super::tree::open_dir;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::strict_json;

const VALUES: &CStr = c"values";
/// Held while values are changed, for as long as one change takes.
pub(super) const LOCK: &CStr = c"values.lock";
/// A value while it is written.
const NEW: &CStr = c"new";
const NEW_RECORD: &CStr = c"about.json.values";

/// Values in one store.
const MAX_VALUES: u64 = 1_000;
/// Bytes of all values of a store, with their keys.
const MAX_BYTES: u64 = 16 << 20;
/// Bytes of the file of a value: its key and itself, as JSON.
const MAX_FILE_BYTES: u64 = 128 << 10;
/// Bytes in which the key ends.
const MAX_KEY_LINE_BYTES: u64 = 4 << 10;

/// How many values a store has, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ValuesSize {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

/// The value under a key, or `None`.
pub(super) fn get(state: &SkillState, key: &str) -> Result<Option<Value>> {
    let Some(dir) = open_values(state)? else { return Ok(None) };
    let Some(file) = open_value(&dir, &file_name(key)?).map_err(|error| read_error(state, error))? else {
        return Ok(None);
    };
    let damaged = |reason: &str| {
        let sentence = format!("the value under `{key}` in {} cannot be read: {reason}", title(state));
        SkillError::new(ErrorKind::Io, sentence).with_help("set it again, or delete it")
    };
    let mut content = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut content).map_err(|error| damaged(&error.to_string()))?;
    let (line, value) = content.split_once('\n').ok_or_else(|| damaged("its file is damaged"))?;
    if strict_json::parse(line) != Ok(key.into()) {
        return Err(damaged("its file is damaged"));
    }
    strict_json::parse(value).map(Some).map_err(|reason| damaged(&reason))
}

/// Puts a value under a key; fails if the store would hold too much, and when `check` fails while another run changes a value.
pub(super) fn set(
    state: &SkillState,
    key: &str,
    value: &Value,
    check: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let failed = |error| write_error(state, error);
    let content = format!("{}\n{value}\n", Value::from(key));
    let name = file_name(key)?;
    let (dir, _lock) = lock_values(state, check)?;
    let others = measure_all_but(&dir, &name).map_err(failed)?;
    if others.count >= MAX_VALUES {
        return Err(excess_error(state, &format!("more than {MAX_VALUES} values")));
    }
    if others.bytes + content.len() as u64 > MAX_BYTES {
        return Err(excess_error(state, &format!("more than {MAX_BYTES} bytes")));
    }
    replace_file(&dir, (&name, NEW), content.as_bytes(), File::sync_data).map_err(failed)
}

/// The keys that begin with this.
pub(super) fn keys(state: &SkillState, prefix: &str) -> Result<Vec<String>> {
    let Some(dir) = open_values(state)? else { return Ok(Vec::new()) };
    let values = read_list(&dir).map_err(|error| read_error(state, error))?;
    Ok(values.into_iter().map(|value| value.key).filter(|key| key.starts_with(prefix)).collect())
}

/// Removes the value under a key; returns whether there was one.
pub(super) fn delete(state: &SkillState, key: &str, check: &dyn Fn() -> Result<()>) -> Result<bool> {
    let name = file_name(key)?;
    let is_there = |dir: &OwnedFd| exists(dir, &name);
    if !open_values(state)?.as_ref().is_some_and(is_there) {
        return Ok(false);
    }
    let (dir, _lock) = lock_values(state, check)?;
    match unlinkat(&dir, &name, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(write_error(state, error.into())),
    }
}

/// How large the values in the folder of a state are.
pub(super) fn measure(state_dir: &OwnedFd) -> ValuesSize {
    let values = open_dir(state_dir, VALUES).map_err(io::Error::from);
    values.and_then(|dir| measure_all_but(&dir, NEW)).unwrap_or_default()
}

/// The keys and sizes of the values in the folder of a state.
pub(super) fn list(state_dir: &OwnedFd) -> io::Result<Vec<StoredValue>> {
    open_existing(state_dir, VALUES)?.map_or(Ok(Vec::new()), |dir| read_list(&dir))
}

/// Takes the lock for changing values as soon as nobody else has it; returns whether that took less than long.
pub(super) fn hold(lock: &File) -> io::Result<bool> {
    const MAX_WAIT: Duration = Duration::from_secs(5);
    const INTERVAL: Duration = Duration::from_millis(2);
    let began = Instant::now();
    while !try_lock(lock)? {
        if began.elapsed() > MAX_WAIT {
            return Ok(false);
        }
        std::thread::sleep(INTERVAL);
    }
    Ok(true)
}

/// When a value was last put there or removed, in seconds.
pub(super) fn last_changed(state_dir: &OwnedFd) -> Option<u64> {
    modified(state_dir, VALUES)
}

/// The folder with the values, if there is one.
fn open_values(state: &SkillState) -> Result<Option<OwnedFd>> {
    let Some(root) = open_store(&state.store, false)? else { return Ok(None) };
    let open = || {
        let names =
            [CString::new(&*state.project_name)?, CString::new(&*state.skill_name)?, VALUES.to_owned()];
        names.iter().try_fold(Some(root.dir), |dir, name| match dir {
            Some(dir) => open_existing(&dir, name),
            None => Ok(None),
        })
    };
    open().map_err(|error| read_error(state, error))
}

/// The folder with the values, created if it is missing, and the lock for changing them.
fn lock_values(state: &SkillState, check: &dyn Fn() -> Result<()>) -> Result<(OwnedFd, File)> {
    let failed = |error| write_error(state, error);
    let root = open_store(&state.store, true)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    let (dir, lock) = lock_folder(&root, state, LOCK, check)?;
    let values = private_subfolder(&dir, "values").map_err(failed)?;
    if record_file::last_written(&dir).is_none() {
        record_file::write(&dir, &state.record, NEW_RECORD).map_err(failed)?;
    }
    Ok((values, lock))
}

fn file_name(key: &str) -> Result<CString> {
    let mut name = String::new();
    for byte in Sha256::digest(key) {
        let _ = write!(name, "{byte:02x}");
    }
    CString::new(name).map_err(|error| SkillError::io("failed to name a value", error.into()))
}

/// Whether a file of this name is a value, and not one that is being written.
fn is_value_name(name: &CStr) -> bool {
    name.to_bytes() != NEW.to_bytes()
}

/// The size of all values but the one in this file.
fn measure_all_but(dir: &OwnedFd, name: &CStr) -> io::Result<ValuesSize> {
    let mut size = ValuesSize::default();
    for (found, stat) in entries(dir)? {
        if is_value_name(&found) && found.as_c_str() != name {
            size.count += 1;
            size.bytes += u64::try_from(stat.st_size).unwrap_or_default();
        }
    }
    Ok(size)
}

/// Each value, with its key; values that disappear meanwhile are left out.
fn read_list(dir: &OwnedFd) -> io::Result<Vec<StoredValue>> {
    let mut values = Vec::new();
    for (name, stat) in entries(dir)?.into_iter().filter(|(name, _)| is_value_name(name)) {
        let Some(file) = open_value(dir, &name)? else { continue };
        let mut start = Vec::new();
        file.take(MAX_KEY_LINE_BYTES).read_to_end(&mut start)?;
        let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let key: String = serde_json::from_slice(line)?;
        values.push(StoredValue { key, bytes: u64::try_from(stat.st_size).unwrap_or_default() });
    }
    values.sort_by(|one, other| one.key.cmp(&other.key));
    Ok(values)
}

/// The file of a value, if there is one.
fn open_value(dir: &OwnedFd, name: &CStr) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(dir, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        file => File::from(file?),
    };
    let is_file = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode).is_file();
    if is_file { Ok(Some(file)) } else { Err(io::Error::other("it is not a regular file")) }
}

/// What the store is called in a sentence.
fn title(state: &SkillState) -> String {
    match &state.record.store {
        Some(name) => format!("the store {name}"),
        None => format!("the store of {}", state.record.skill),
    }
}

fn read_error(state: &SkillState, error: io::Error) -> SkillError {
    SkillError::io(format_args!("failed to read {}", title(state)), error)
        .with_help("look at what skills keep, and clear what is damaged")
}

fn write_error(state: &SkillState, error: io::Error) -> SkillError {
    SkillError::io(format_args!("failed to change {}", title(state)), error)
}

fn excess_error(state: &SkillState, excess: &str) -> SkillError {
    let sentence = format!("{} would hold {excess}, so nothing was changed", title(state));
    SkillError::new(ErrorKind::State, sentence).with_help("delete values that are no longer needed")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use serde_json::json;
    use tempfile::TempDir;

    use super::*;
    use crate::{StateStore, skill_state};

    fn state_in(folder: &TempDir) -> SkillState {
        let store = StateStore::new(folder.path().join("state"));
        skill_state(&store, ("project:notes", "/skills/notes"), ("/project", "1"))
    }

    fn put(state: &SkillState, key: &str, value: &Value) -> Result<()> {
        set(state, key, value, &|| Ok(()))
    }

    fn values_dir(state: &SkillState) -> PathBuf {
        state.store.join(&state.project_name).join(&state.skill_name).join("values")
    }

    fn only_file(state: &SkillState) -> PathBuf {
        let mut files = std::fs::read_dir(values_dir(state)).unwrap();
        let file = files.next().unwrap().unwrap().path();
        assert!(files.next().is_none());
        file
    }

    #[test]
    fn what_is_put_there_is_read_listed_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let state = state_in(&folder);
        assert_eq!((get(&state, "a").unwrap(), keys(&state, "").unwrap()), (None, vec![]));
        assert!(
            !delete(&state, "a", &|| Ok(())).unwrap() && !state.store.exists(),
            "reading makes no folder"
        );
        for value in [json!(null), json!([1, 2.5, u64::MAX, "ü\n"]), json!({"b": {"": {}}, "a": 0.1})] {
            put(&state, "a", &value).unwrap();
            let found = get(&state, "a").unwrap().unwrap();
            assert_eq!(found.to_string(), value.to_string());
        }
        put(&state, "b/1", &json!(1)).unwrap();
        assert_eq!(
            (keys(&state, "").unwrap(), keys(&state, "b/").unwrap()),
            (vec!["a".into(), "b/1".into()], vec!["b/1".into()])
        );
        assert!(delete(&state, "a", &|| Ok(())).unwrap());
        assert_eq!((get(&state, "a").unwrap(), keys(&state, "").unwrap()), (None, vec!["b/1".into()]));
    }

    #[test]
    fn a_key_is_no_name_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let state = state_in(&folder);
        let long = "x".repeat(256);
        let hostile = [
            "..",
            ".",
            "/",
            "../../../escape",
            "/etc/passwd",
            "new",
            "about.json",
            "a\\b",
            "\"",
            &long,
            "A",
            "a",
            "é",
            "e\u{301}",
        ];
        for (at, key) in hostile.iter().enumerate() {
            put(&state, key, &json!(at)).unwrap();
        }
        for (at, key) in hostile.iter().enumerate() {
            assert_eq!(get(&state, key).unwrap(), Some(json!(at)), "{key}");
        }
        assert_eq!(keys(&state, "").unwrap().len(), hostile.len());
        let is_digest = |name: &str| name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        for file in std::fs::read_dir(values_dir(&state)).unwrap() {
            assert!(is_digest(file.unwrap().file_name().to_str().unwrap()));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_store_is_bounded_and_what_does_not_fit_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let state = state_in(&folder);
        for number in 0..MAX_VALUES {
            // Put there directly: waiting for the disk a thousand times takes long.
            let key = format!("key {number}");
            let (dir, _lock) = lock_values(&state, &|| Ok(())).unwrap();
            replace_file(
                &dir,
                (&file_name(&key).unwrap(), NEW),
                format!("\"{key}\"\n0\n").as_bytes(),
                |_| Ok(()),
            )
            .unwrap();
        }
        let error = put(&state, "one more", &json!(1)).unwrap_err();
        assert!(error.kind() == ErrorKind::State && error.message().contains("1000 values"), "{error}");
        put(&state, "key 7", &json!("another")).unwrap();
        assert!(delete(&state, "key 1", &|| Ok(())).unwrap());
        put(&state, "one more", &json!(1)).unwrap();

        let state = state.clone_with_name("large");
        let large = json!("x".repeat(60 << 10));
        let error = (0..).find_map(|number| put(&state, &format!("{number}"), &large).err()).unwrap();
        assert!(error.kind() == ErrorKind::State && error.message().contains("16777216 bytes"), "{error}");
        let count = keys(&state, "").unwrap().len();
        assert_eq!(count, (16 << 20) / ((60 << 10) + 8));
        put(&state, "0", &json!("small")).unwrap();
        put(&state, "and another", &json!("small")).unwrap();
    }

    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let state = state_in(&folder);
        let precious = folder.path().join("precious");
        std::fs::write(&precious, "\"a\"\n\"precious\"\n").unwrap();
        put(&state, "a", &json!(1)).unwrap();
        let file = only_file(&state);
        std::fs::remove_file(&file).unwrap();
        symlink(&precious, &file).unwrap();
        assert_eq!(get(&state, "a").unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(keys(&state, "").unwrap_err().kind(), ErrorKind::Io);
        symlink(&precious, values_dir(&state).join("new")).unwrap();
        put(&state, "a", &json!(2)).unwrap();
        assert_eq!(
            (get(&state, "a").unwrap(), keys(&state, "").unwrap()),
            (Some(json!(2)), vec!["a".into()])
        );
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "\"a\"\n\"precious\"\n");

        let (values, elsewhere) = (values_dir(&state), folder.path().join("elsewhere"));
        std::fs::rename(&values, &elsewhere).unwrap();
        symlink(&elsewhere, &values).unwrap();
        for error in [
            get(&state, "a").map(drop),
            put(&state, "b", &json!(1)),
            delete(&state, "a", &|| Ok(())).map(drop),
        ] {
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Io);
        }
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 1);
    }

    #[test]
    fn a_pipe_or_a_damaged_file_is_an_error_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let state = state_in(&folder);
        put(&state, "a", &json!(1)).unwrap();
        let file = only_file(&state);
        for content in ["", "\"a\"", "\"a\"\n{", "\"b\"\n1\n", "\"a\"\n1 2\n", "\u{0}\u{0}\n"] {
            std::fs::write(&file, content).unwrap();
            let error = get(&state, "a").unwrap_err();
            assert!(error.kind() == ErrorKind::Io && error.help().is_some(), "{content:?}: {error}");
        }
        std::fs::remove_file(&file).unwrap();
        let name = CString::new(std::os::unix::ffi::OsStrExt::as_bytes(file.as_os_str())).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &name, Mode::RUSR).unwrap();
        assert_eq!(get(&state, "a").unwrap_err().kind(), ErrorKind::Io);
        put(&state, "a", &json!(2)).unwrap();
        assert_eq!(get(&state, "a").unwrap(), Some(json!(2)));
        let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
    }

    #[test]
    fn threads_that_change_and_clear_values_at_once_leave_whole_values() {
        let folder = tempfile::tempdir().unwrap();
        let state = state_in(&folder);
        let store = StateStore::new(&state.store);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let state = &state;
                scope.spawn(move || {
                    for number in 0..50 {
                        put(state, "shared", &json!([thread, number])).unwrap();
                        put(state, &format!("{thread}"), &json!(number)).unwrap();
                        let shared = get(state, "shared").unwrap();
                        assert!(
                            shared.is_none_or(|value| value.as_array().is_some_and(|parts| parts.len() == 2))
                        );
                        keys(state, "").unwrap();
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..20 {
                    store.clear(|_| true).unwrap();
                }
            });
        });
        put(&state, "last", &json!(1)).unwrap();
        let states = store.states().unwrap();
        assert_eq!(states.len(), 1, "{states:?}");
        assert_eq!(states[0].values, keys(&state, "").unwrap().len() as u64);
        assert_eq!(store.clear(|_| true).unwrap(), 1);
        assert_eq!(std::fs::read_dir(&state.store).unwrap().count(), 0);
    }

    #[test]
    fn a_run_that_waits_for_a_change_ends_with_its_own_error() {
        let folder = tempfile::tempdir().unwrap();
        let state = state_in(&folder);
        let _held = lock_values(&state, &|| Ok(())).unwrap();
        let stopped = || Err(SkillError::new(ErrorKind::Timeout, "over"));
        assert_eq!(set(&state, "a", &json!(1), &stopped).unwrap_err().kind(), ErrorKind::Timeout);
        assert_eq!(get(&state, "a").unwrap(), None, "reading waits for nobody");
    }

    impl SkillState {
        fn clone_with_name(&self, name: &str) -> Self {
            Self { skill_name: name.into(), ..self.clone() }
        }
    }
}
