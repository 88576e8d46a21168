//! The paths of the system that every sandboxed script may read.

use std::path::{Component, Path, PathBuf};

use crate::{program_settings, system_config};
use metier_core::host::begins_with;

/// System paths that programs need in order to run at all. Without its TLS configuration Debian's Node aborts; `pwd` and `whoami`
/// read the two lists of names; a thread pool counts processors, Node its own memory, Bun aborts where it cannot find out its
/// stack, and `DuckDB` where it cannot find out its control group. What lies in `/proc/self` is that of the script's first process only. Never a folder with private keys: root would read
/// those too.
pub(super) const SYSTEM_PATHS: [&str; 35] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/openssl.cnf",
    "/etc/passwd",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/nsswitch.conf",
    "/etc/mime.types",
    "/etc/alternatives",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/sys/kernel/random/uuid",
    "/proc/self/cgroup",
    "/proc/self/maps",
    "/proc/self/stat",
    "/proc/self/statm",
    "/sys/devices/system/cpu",
];

/// Whether every script in a sandbox may read this.
pub(super) fn is_system_path(path: &Path) -> bool {
    SYSTEM_PATHS.iter().any(|system| begins_with(path, Path::new(system)))
}

/// Whether this path exists and the rules for the system do not make it readable.
pub(super) fn is_outside_system(path: &Path) -> bool {
    // A symlink in a system folder may lead out of it.
    path.symlink_metadata().is_ok_and(|found| !is_system_path(path) || found.is_symlink()) && path.exists()
}

/// The system paths and the configuration files that exist. A path inside another one of the list needs no rule of its own: each
/// rule takes several system calls at every start.
pub(super) fn readable_system_paths() -> Vec<PathBuf> {
    let all = SYSTEM_PATHS.iter().map(PathBuf::from).chain(system_config::readable_config());
    let all = all.chain(program_settings::readable_settings()).chain(cgroup_limits());
    let all: Vec<(PathBuf, PathBuf)> = all.filter_map(|path| Some((real_path(&path)?, path))).collect();
    let is_within = |place: &Path| all.iter().any(|(other, _)| place != other && place.starts_with(other));
    all.iter().filter(|(place, _)| !is_within(place)).map(|(_, path)| path.clone()).collect()
}

/// The files with the limits of the control groups of this process, which in a container are those of the container: a folder where it
/// holds nothing else. The group of the whole machine has no limits.
fn cgroup_limits() -> Vec<PathBuf> {
    const OF_FIRST_VERSION: [(&str, &[&str]); 2] =
        [("memory", &["memory.limit_in_bytes"]), ("cpu", &["cpu.cfs_quota_us", "cpu.cfs_period_us"])];
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let path = Path::new(path.trim_start_matches('/'));
        let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
        let folder = Path::new("/sys/fs/cgroup").join(controllers).join(path);
        if controllers.is_empty() && is_below && folder.join("cgroup.type").exists() {
            found.push(folder.components().collect());
        } else if is_below {
            let is_named = |name: &str| controllers.split(',').any(|controller| controller == name);
            let files =
                OF_FIRST_VERSION.iter().filter(|(name, _)| is_named(name)).flat_map(|(_, files)| *files);
            found.extend(files.map(|file| folder.join(file)).filter(|file| file.exists()));
        }
    }
    found
}

/// The path with its symlinks resolved; `None` if it does not exist.
pub(super) fn real_path(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_there_of_the_system_is_open_and_links_into_it_have_no_rule() {
        let open: Vec<PathBuf> = readable_system_paths().iter().filter_map(|path| real_path(path)).collect();
        for path in SYSTEM_PATHS.iter().map(Path::new).filter(|path| path.exists()) {
            let place = real_path(path).unwrap();
            assert!(open.iter().any(|open| place.starts_with(open)), "{}", path.display());
        }
        let is_merged = fs::read_link("/bin").is_ok_and(|to| to == Path::new("usr/bin"));
        assert!(!is_merged || !readable_system_paths().contains(&"/bin".into()));
        assert!(readable_system_paths().iter().all(|path| path.exists()));
    }
}
