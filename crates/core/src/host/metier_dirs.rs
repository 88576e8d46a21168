//! Recognizes metier's own directories, which are closed to scripts wherever they are and whichever user owns them.
//!
//! Those of this process are known by their paths. A host with another `TMPDIR`, `HOME` or `XDG_STATE_HOME` has others, which are
//! known by their names.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use crate::host::canonical_folder::canonical_folder;

/// Every directory of the user in which metier stores files, whether it exists or not, and a configuration file that is a link. No
/// script may read or change them: they
/// contain machine code that runs in the host, the key that authenticates that code, and what the user trusts.
#[allow(dead_code, reason = "asked for where there is a sandbox")]
pub(crate) fn metier_dirs() -> Vec<PathBuf> {
    let data = data_dirs();
    let data = data.iter().flat_map(|data| DATA_ENTRIES.map(|entry| data.join(entry)));
    let dirs = [cache_dir(), state_dir(), config_dir(), platform_config_dir()];
    // A link in the directory leads anywhere, also into a project; what is there decides as much.
    let files = [config_dir(), platform_config_dir()].into_iter().flatten().map(|dir| dir.join(CONFIG_FILE));
    let linked = files.filter(|file| file.symlink_metadata().is_ok_and(|found| found.is_symlink()));
    dirs.into_iter().flatten().chain(data).chain(linked).collect()
}

/// The directories with what the user permits: they must not appear while a script runs.
#[allow(dead_code, reason = "asked for where there is a sandbox")]
pub fn permission_dirs() -> Vec<PathBuf> {
    let data = data_dirs();
    let decisions = data.iter().flat_map(|data| [TRUST_DIR, PENDING_DIR].map(|entry| data.join(entry)));
    [config_dir(), platform_config_dir()].into_iter().flatten().chain(decisions).collect()
}

/// The directory of the user's configuration: `METIER_CONFIG_DIR`, or `metier` in the platform's. A script that could write there
/// could grant itself permissions.
pub fn config_dir() -> Option<PathBuf> {
    match std::env::var_os("METIER_CONFIG_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => std::path::absolute(folder).ok(),
        None => platform_config_dir(),
    }
}

/// Where the configuration is for a metier that is started without `METIER_CONFIG_DIR`.
fn platform_config_dir() -> Option<PathBuf> {
    Some(etcetera::base_strategy::choose_native_strategy().ok()?.config_dir().join(DIR_NAME))
}

/// The cache directory, for data that can be rebuilt.
pub fn cache_dir() -> Option<PathBuf> {
    Some(etcetera::base_strategy::choose_native_strategy().ok()?.cache_dir().join(DIR_NAME))
}

/// The state directory, for data that must persist.
pub fn state_dir() -> Option<PathBuf> {
    let platform = etcetera::base_strategy::choose_native_strategy().ok()?;
    Some(platform.state_dir().unwrap_or_else(|| platform.data_dir()).join(DIR_NAME))
}

/// The directory of the trust store.
pub fn trust_dir() -> Option<PathBuf> {
    Some(data_dir()?.join(TRUST_DIR))
}

/// The directory of what skills keep.
pub fn skill_state_dir() -> Option<PathBuf> {
    Some(data_dir()?.join(SKILL_STATE_DIR))
}

/// The directory of the journals of plans that a server runs.
#[allow(dead_code, reason = "asked for by the server and where there is a sandbox")]
pub fn plan_journal_dir() -> Option<PathBuf> {
    Some(data_dir()?.join(PLAN_JOURNAL_DIR))
}

/// The directory of calls that wait for a person.
pub fn pending_dir() -> Option<PathBuf> {
    Some(data_dir()?.join(PENDING_DIR))
}

/// The directory of prepared packages.
pub fn package_store_dir() -> Option<PathBuf> {
    Some(data_dir()?.join(PACKAGES_DIR))
}

/// The directory of change sets.
pub fn changes_dir() -> Option<PathBuf> {
    Some(data_dir()?.join(CHANGES_DIR))
}

/// The directory of the audit log.
pub fn audit_dir() -> Option<PathBuf> {
    Some(data_dir()?.join(AUDIT_DIR))
}

/// The data directory: the folder that `METIER_DATA_DIR` names, or `metier` in that of the user.
pub fn data_dir() -> Option<PathBuf> {
    match std::env::var_os("METIER_DATA_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => std::path::absolute(folder).ok(),
        None => platform_data_dir(),
    }
}

/// The data directory of a metier that is started without `METIER_DATA_DIR`.
fn platform_data_dir() -> Option<PathBuf> {
    Some(etcetera::base_strategy::choose_native_strategy().ok()?.data_dir().join(DIR_NAME))
}

/// The data directory of this process, and where it differs that of one that is started without `METIER_DATA_DIR`: what is planted
/// there counts for the next one.
#[allow(dead_code, reason = "asked for where there is a sandbox")]
fn data_dirs() -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = [data_dir(), platform_data_dir()].into_iter().flatten().collect();
    dirs.dedup();
    dirs
}

/// The name of configuration files.
pub const CONFIG_FILE: &str = "config.toml";

/// The name of the user's directories.
const DIR_NAME: &str = "metier";

/// Their content: compiled modules, what is remembered of the folders of projects, the key, the trust store, what skills keep, the journals of plans, prepared packages,
/// pending calls, the audit log, and change sets.
pub const WASM_CACHE_DIR: &str = "wasm";
/// What is remembered of the folders of projects.
pub const LISTINGS_CACHE_DIR: &str = "folder-listings";
/// The file with the key that authenticates what is cached.
pub const WASM_CACHE_KEY_FILE: &str = "wasm-cache.key";
const TRUST_DIR: &str = "trust";
const SKILL_STATE_DIR: &str = "skill-state";
const PLAN_JOURNAL_DIR: &str = "plan-journals";
const PACKAGES_DIR: &str = "packages";
const PENDING_DIR: &str = "pending";
const AUDIT_DIR: &str = "audit";
const CHANGES_DIR: &str = "changes";
/// The name of the directory of what runs in a copy of a project change.
pub const PREVIEWS_DIR: &str = "previews";
/// The directories in the data directory.
const DATA_ENTRIES: [&str; 8] = [
    TRUST_DIR,
    SKILL_STATE_DIR,
    PLAN_JOURNAL_DIR,
    PACKAGES_DIR,
    PENDING_DIR,
    AUDIT_DIR,
    CHANGES_DIR,
    PREVIEWS_DIR,
];

/// The names of directories for temporary files, before the number of a user, and of the directories in them, one for each
/// process.
pub(crate) const TEMP_DIR_PREFIX: &str = "metier-";
pub(crate) const HOST_DIR_PREFIX: &str = "host-";

/// Where package managers unpack. Anybody can publish what lies deeper in there, and programs read certificates in it, so it is
/// not searched. Only names count: a script could create a marker in a folder.
pub const PACKAGE_DIRS: [&str; 5] = ["node_modules", "site-packages", ".venv", "venv", ".tox"];

/// Whether this name in a folder of that name is metier's own. Compared without case, as some file systems do.
fn is_metier_entry(folder: &str, name: &str) -> bool {
    let is = |own: &str| name.eq_ignore_ascii_case(own);
    if folder.eq_ignore_ascii_case(DIR_NAME) {
        [WASM_CACHE_DIR, LISTINGS_CACHE_DIR, WASM_CACHE_KEY_FILE].into_iter().chain(DATA_ENTRIES).any(is)
    } else {
        is_temp_dir_name(folder)
            && name
                .get(..HOST_DIR_PREFIX.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(HOST_DIR_PREFIX))
    }
}

fn is_temp_dir_name(name: &str) -> bool {
    let number = name.get(TEMP_DIR_PREFIX.len()..).filter(|number| !number.is_empty());
    number.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
        && name.get(..TEMP_DIR_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(TEMP_DIR_PREFIX))
}

/// Whether a path, `/`-separated, is in a directory of metier's own or passes through one; `is_there` tests whether another path
/// exists.
pub(crate) fn leads_into_metier_dir(path: &str, is_there: impl Fn(&str) -> bool) -> bool {
    // All names that are metier's own begin with this one.
    if !path.as_bytes().windows(DIR_NAME.len()).any(|part| part.eq_ignore_ascii_case(DIR_NAME.as_bytes())) {
        return false;
    }
    let (mut above, mut start) = ("", 0);
    path.split('/').any(|part| {
        start += part.len() + 1;
        let is_found = is_metier_entry(above, part)
            || part.eq_ignore_ascii_case(DIR_NAME)
                && path
                    .get(..start - 1)
                    .is_some_and(|folder| is_there(&format!("{folder}/{WASM_CACHE_KEY_FILE}")));
        above = part;
        is_found
    })
}

/// Whether a folder is one of metier's own.
#[allow(dead_code, reason = "asked for where there is a sandbox")]
pub fn is_metier_dir(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default();
    may_be_metier_dir(name)
        && std::fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
            let folder = name.to_str().unwrap_or_default();
            entry.file_name().to_str().is_some_and(|entry| is_metier_entry(folder, entry))
        })
}

/// Whether a folder of this name can be one of metier's own, by what is in it.
pub fn may_be_metier_dir(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| name.eq_ignore_ascii_case(DIR_NAME) || is_temp_dir_name(name))
}

/// The path with symbolic links resolved, as far as it exists.
pub fn resolve_existing(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let Ok(found) = canonical_folder(above) {
            return path.strip_prefix(above).map_or(found.clone(), |rest| {
                if rest.as_os_str().is_empty() { found } else { found.join(rest) }
            });
        }
    }
    path.to_owned()
}

/// Whether this is a folder in which every user puts files. Only its name decides: a script may give any mode to its project.
#[cfg(unix)]
pub(crate) fn is_shared_temp_dir(folder: &Path) -> bool {
    ["/tmp", "/var/tmp", "/dev/shm"].iter().any(|known| folder == Path::new(known))
}

/// Why metier's own files may not be put at this path, which has no symbolic links: other users could replace them, or the path
/// is in a project or a skill, where scripts work that may be run with another environment. The user's home does not count as
/// one.
#[cfg(unix)]
pub fn unsafe_reason(folder: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    const BY_OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    // In user namespaces, no process may have the number of root.
    let trusted =
        [Some(rustix::process::geteuid().as_raw()), Path::new("/").metadata().ok().map(|root| root.uid())];
    let foreign = folder.ancestors().find_map(|folder| {
        let about = folder.symlink_metadata().ok()?;
        let (is_sticky, shown) = (about.mode() & STICKY != 0, folder.display());
        if !trusted.contains(&Some(about.uid())) {
            return Some(format!("{shown} belongs to somebody else"));
        }
        (about.mode() & BY_OTHERS != 0 && !is_sticky).then(|| format!("{shown} can be written by others"))
    });
    foreign.or_else(|| project_reason(folder))
}

/// Why a path without symbolic links is one where scripts work: it is in a project or a skill.
#[cfg(unix)]
pub fn project_reason(folder: &Path) -> Option<String> {
    const SIGNS: [&str; 3] = [".git", ".metier", "SKILL.md"];
    let homes = crate::host::untrusted::home_dirs();
    let mut is_above_home = false;
    folder.ancestors().find_map(|folder| {
        is_above_home |= crate::host::untrusted::home_dir().is_some_and(|home| home == folder);
        // Anybody can put a marker in a folder for all users.
        let may_be_project = !is_above_home && !is_shared_temp_dir(folder) && !homes.contains(folder);
        let has_sign = || SIGNS.iter().any(|sign| folder.join(sign).symlink_metadata().is_ok());
        let is_downloaded =
            || folder.file_name().is_some_and(|name| PACKAGE_DIRS.iter().any(|known| name == *known));
        let is_project = may_be_project && (has_sign() || is_downloaded());
        is_project.then(|| format!("it is in {}, which is a project or a skill", folder.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_metiers_own_is_known_by_its_name() {
        let never = |_: &str| false;
        for path in [
            "metier-0/host-0123456789abcdef",
            "a/b/metier-1000/host-0123456789abcdef/metier-Ab12Cd/python/metier.py",
            "tmp/METIER-0/Host-x",
            ".cache/metier/wasm/0",
            ".cache/metier/folder-listings/0",
            "st/metier/wasm-cache.key",
            "st/Metier/WASM-CACHE.KEY",
            ".local/share/metier/trust/trust.json",
            "x/METIER/Trust",
            ".local/share/metier/skill-state/0/x/current/a",
            ".local/share/metier/packages/entries/0/about.json",
            ".local/share/metier/audit/audit.jsonl",
        ] {
            assert!(leads_into_metier_dir(path, never), "{path}");
        }
        for path in [
            "",
            "metier",
            "metier-0",
            "metier-0/x",
            "metier-/host-1",
            "metier-1a/host-1",
            "metier/src/wasm",
            "metier/state/x",
            "src/trust/store.rs",
            "x-metier/wasm",
            "metier-é/host-1",
            "wasm-cache.key",
            "host-0123456789abcdef",
        ] {
            assert!(!leads_into_metier_dir(path, never), "{path}");
        }
        assert!(leads_into_metier_dir("st/metier/other", |path| path == "st/metier/wasm-cache.key"));
        assert!(!leads_into_metier_dir("st/metier/other", |path| path == "metier/wasm-cache.key"));
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_put_where_others_or_scripts_come() {
        use std::os::unix::fs::PermissionsExt;
        let stage = tempfile::tempdir().unwrap();
        let stage = std::fs::canonicalize(stage.path()).unwrap();
        let at = |path: &str| stage.join(path);
        let made = |path: &str, mode| {
            std::fs::create_dir_all(at(path)).unwrap();
            std::fs::set_permissions(at(path), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        if let Some(reason) = unsafe_reason(&stage) {
            // If temporary files lie in such a folder on this machine, this cannot be tested.
            assert!(reason.contains("by others") || reason.contains("is a project"), "{reason}");
            return;
        }
        for sign in ["one/.git", "two/.metier", "three/SKILL.md", "node_modules/x"] {
            made(&format!("{sign}/x"), 0o700);
            let folder = at(sign).with_file_name("not/there/yet");
            assert!(unsafe_reason(&folder).unwrap().contains("is a project"), "{sign}");
        }
        for (folder, mode) in [("open", 0o777), ("group", 0o770)] {
            made(folder, mode);
            assert!(unsafe_reason(&at(folder).join("x")).unwrap().contains("by others"), "{folder}");
        }
        made("sticky", 0o1777);
        made("sticky/.git", 0o700);
        // A script may have set this mode.
        assert!(unsafe_reason(&at("sticky/x")).unwrap().contains("is a project"));
        assert!(is_shared_temp_dir(Path::new("/tmp")) && !is_shared_temp_dir(&stage));
        if rustix::process::geteuid().is_root() {
            made("theirs", 0o700);
            std::os::unix::fs::chown(at("theirs"), Some(12345), None).unwrap();
            assert!(unsafe_reason(&at("theirs/x")).unwrap().contains("somebody else"));
        }
    }
}
