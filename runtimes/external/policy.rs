//! The sandbox policy of a run: which files a script may read and write, its network access and its resource limits.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::sandbox::{FileRules, PinnedPath, ProtectedPaths, ResourceLimits, SandboxPolicy};
use crate::host::temp_dirs::existing_metier_dirs_in;
use crate::host::untrusted::UntrustedDirs;
use crate::host::{Files, SkillContext};
use crate::policy::{Access, Limits, SandboxMode};
use crate::runtimes::external::interpreter::cache::{Installation, PathDir};
use crate::runtimes::external::interpreter::detect::search_path;
use crate::runtimes::external::interpreter::prefix::readable_paths;
use crate::runtimes::external::protected::scan::scan_protected;
use crate::runtimes::external::system_config;

/// System paths that programs need in order to run at all. Without its TLS configuration Debian's Node aborts; `pwd` and `whoami`
/// read the two lists of names; a thread pool counts processors, and Node its own memory. Never a folder with private keys: root
/// would read those too.
const SYSTEM_PATHS: [&str; 31] = [
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
    "/proc/meminfo",
    "/proc/stat",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/self/stat",
    "/proc/self/statm",
    "/sys/devices/system/cpu",
];

/// `/dev/null`: reads are empty, and every write is accepted.
const DEV_NULL: &str = "/dev/null";

/// Also readable if the network is allowed: names have to be resolved.
const NETWORK_CONFIG_FILES: [&str; 3] = ["/etc/hosts", "/etc/resolv.conf", "/etc/gai.conf"];

/// Folders and files of a run, absolute.
pub(super) struct RunPaths<'a> {
    pub(super) project: &'a Path,
    pub(super) skill: &'a Path,
    pub(super) temp_dir: &'a Path,
    pub(super) installation: &'a Installation,
}

/// The sandbox policy for a run with these permissions and limits.
pub(super) fn sandbox_policy(ctx: &SkillContext, places: &RunPaths<'_>) -> SandboxPolicy {
    let network = ctx.permissions().allows(&Access::network());
    SandboxPolicy {
        files: Some(file_rules(ctx, places, network)),
        block_network: !network,
        allow_flock: !ctx.permissions().writable_paths().is_empty(),
        filter_syscalls: true,
        required: ctx.sandbox_mode() == SandboxMode::Required,
        limits: resource_limits(ctx.limits()),
    }
}

/// The sandbox policy of a script without any grants.
pub(super) fn strictest_policy() -> SandboxPolicy {
    let read = SYSTEM_PATHS.iter().map(Into::into).collect();
    SandboxPolicy {
        files: Some(FileRules { read, ..FileRules::default() }),
        block_network: true,
        filter_syscalls: true,
        limits: resource_limits(&Limits::default()),
        ..SandboxPolicy::default()
    }
}

/// The same for an untrusted program, which needs its own folders and the files of its interpreter.
pub(super) fn strictest_policy_for(program: &Path, strangers: &UntrustedDirs) -> SandboxPolicy {
    let mut sandbox = SandboxPolicy { required: true, ..strictest_policy() };
    if let Some(rules) = &mut sandbox.files {
        let homes = readable_paths(program, &search_path(), strangers).into_iter();
        let homes = homes.filter(|home| !strangers.may_control(home) && is_outside_system(home));
        rules.read.extend(homes.map(Into::into));
        rules.own.extend(strangers.folders().iter().filter_map(|folder| pin(folder)));
        rules.write.push(DEV_NULL.into());
    }
    sandbox
}

/// Why a path is among the rules for these paths.
pub(super) fn access_reason(path: &Path, places: &RunPaths<'_>) -> &'static str {
    let is_one_of = |paths: &[&str]| paths.iter().any(|known| path == Path::new(known));
    let is_place = |place: &Path| path == place || real_path(place).is_some_and(|real| path == real);
    match path {
        _ if is_place(places.temp_dir) => "temp-dir",
        _ if is_place(places.project) => "project",
        _ if is_place(places.skill) => "skill",
        _ if is_one_of(&NETWORK_CONFIG_FILES) => "network",
        path if path.starts_with("/dev") => "device",
        _ if places.installation.system_paths.iter().any(|file| file == path) => "system",
        path if real_path(places.project).is_some_and(|project| path.starts_with(project)) => "granted",
        _ => "interpreter",
    }
}

/// The folders of `PATH`, and whether the rules that apply to every script, or to one with these prefixes, make some of their
/// content readable.
pub(super) fn path_dirs(path: &[PathBuf], homes: &[PathBuf]) -> Vec<PathDir> {
    let homes: Vec<(&Path, Option<PathBuf>)> =
        homes.iter().map(|home| (home.as_path(), real_path(home))).collect();
    let folder = |path: &PathBuf| {
        let place = if is_system_path(path) { None } else { real_path(path) };
        let opens = |place: &PathBuf| {
            let is_near = |(home, real): &(&Path, Option<PathBuf>)| {
                home.starts_with(path) || real.as_ref().is_some_and(|real| overlap(real, place))
            };
            SYSTEM_PATHS.iter().any(|system| overlap(Path::new(system), place)) || homes.iter().any(is_near)
        };
        let is_open = is_system_path(path) || place.as_ref().is_some_and(opens);
        PathDir { path: path.clone(), real_path: place, is_readable: is_open }
    };
    path.iter().map(folder).collect()
}

/// The folders of `PATH` with programs that can be run in this sandbox: the folders that are readable, or have readable content.
pub(super) fn dirs_with_programs<'a>(
    sandbox: &SandboxPolicy,
    installed: &'a Installation,
) -> impl Iterator<Item = &'a Path> {
    let rules = sandbox.files.as_ref();
    let has_programs = move |folder: &&PathDir| {
        let is_near = |exact: &PinnedPath| {
            let place = folder.real_path.as_ref();
            place.is_some_and(|place| overlaps_dir(Path::new(&exact.path), &folder.path, place))
        };
        folder.is_readable || rules.is_none_or(|rules| rules.own.iter().chain(&rules.write).any(is_near))
    };
    installed.path_dirs.iter().filter(has_programs).map(|folder| folder.path.as_path())
}

/// Whether the path is inside a folder, or contains the real path of that folder. A symlink in the folder may be all that is
/// readable of it.
fn overlaps_dir(path: &Path, folder: &Path, place: &Path) -> bool {
    path.starts_with(folder) || overlap(path, place)
}

fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

fn file_rules(ctx: &SkillContext, places: &RunPaths<'_>, network: bool) -> FileRules {
    let installed = places.installation;
    let mut read: Vec<OsString> =
        installed.system_paths.iter().chain(&installed.prefix_paths).map(Into::into).collect();
    if network {
        read.extend(NETWORK_CONFIG_FILES.iter().map(Into::into));
    }
    // The run holds these folders open, if the script comes from the skill that it runs for.
    let held = |files: crate::error::Result<&Files>, place| match files {
        Ok(files) if files.root() == place => pin_below(files, Path::new("")),
        _ => pin(place),
    };
    let own = [held(ctx.project(), places.project), held(ctx.skill_files(), places.skill)];
    let mut write = vec![PinnedPath::from(DEV_NULL)];
    write.extend(pin(places.temp_dir));
    write.extend(
        ctx.project().iter().flat_map(|files| writable_paths(files, &ctx.permissions().writable_paths())),
    );
    if ctx.permissions().allows(&Access::shm()) {
        // A sandbox with mounts has its own `/dev/shm`.
        write.extend(real_path(Path::new("/dev/shm")).as_deref().map(PinnedPath::from));
    }
    let mut guarded = protected_paths(ctx, places.project);
    let covered = [places.project, places.skill].into_iter().flat_map(existing_metier_dirs_in);
    let closed: BTreeSet<PathBuf> = covered.chain(guarded.own.into_iter().map(PathBuf::from)).collect();
    // A cover on a folder also covers what lies in it, which then no longer exists and needs no cover of its own.
    let is_outer = |place: &&PathBuf| !place.ancestors().skip(1).any(|above| closed.contains(above));
    guarded.own = closed.iter().filter(is_outer).map(Into::into).collect();
    FileRules { read, own: own.into_iter().flatten().collect(), write, protected_paths: guarded }
}

/// The protected paths of the project. A path that cannot be written at all needs no protection against writes.
pub(super) fn protected_paths(ctx: &SkillContext, project: &Path) -> ProtectedPaths {
    let granted = ctx.permissions().writable_paths();
    let write: Vec<PinnedPath> =
        ctx.project().iter().flat_map(|files| writable_paths(files, &granted)).collect();
    let mut guarded = scan_protected(ctx, project);
    guarded.read_only.retain(|path| write.iter().any(|folder| Path::new(path).starts_with(&folder.path)));
    guarded
}

/// Whether this path exists and the system rules do not open it.
pub(super) fn is_outside_system(path: &Path) -> bool {
    // A symlink in a system folder may lead out of it.
    path.symlink_metadata().is_ok_and(|found| !is_system_path(path) || found.is_symlink()) && path.exists()
}

/// The system paths that every script may read, as far as they exist. A path inside another one of the list needs no rule of its
/// own: each rule takes several system calls at every start.
pub(super) fn system_paths() -> Vec<PathBuf> {
    let all = SYSTEM_PATHS.iter().map(PathBuf::from).chain(system_config::readable_config());
    let all: Vec<(PathBuf, PathBuf)> = all.filter_map(|path| Some((real_path(&path)?, path))).collect();
    let is_within = |place: &Path| all.iter().any(|(other, _)| place != other && place.starts_with(other));
    all.iter().filter(|(place, _)| !is_within(place)).map(|(_, path)| path.clone()).collect()
}

/// Whether every script in a sandbox may read this.
pub(super) fn is_system_path(path: &Path) -> bool {
    SYSTEM_PATHS.iter().any(|system| path.starts_with(system))
}

/// The files and folders of the grants inside the project. A project may come from anywhere, with symlinks to anywhere.
pub(super) fn writable_paths(files: &Files, granted: &[String]) -> Vec<PinnedPath> {
    let granted = granted.iter().filter_map(|path| real_path(&files.root().join(path)));
    granted.filter_map(|path| pin_below(files, path.strip_prefix(files.root()).ok()?)).collect()
}

/// Pins a path below an open folder, whatever is at the folder's path by now.
fn pin_below(files: &Files, path: &Path) -> Option<PinnedPath> {
    let place = files.root().join(path);
    // An empty path joined to a path leaves a `/` at its end.
    let place = place.components().as_path();
    Some(PinnedPath { path: place.into(), file_id: Some(files.file_id(path).ok()?) })
}

/// Pins what is at a path now.
fn pin(path: &Path) -> Option<PinnedPath> {
    let path = real_path(path)?;
    let about = path.symlink_metadata().ok()?;
    Some(PinnedPath { path: path.into(), file_id: Some((about.dev(), about.ino())) })
}

/// The path with its symlinks resolved; `None` if it does not exist.
fn real_path(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
}

fn resource_limits(limits: &Limits) -> ResourceLimits {
    /// Maximum number of processes of a script at a time.
    const MAX_PROCESSES: u64 = 512;
    let tree_memory = limits.memory.unwrap_or(Limits::DEFAULT_MEMORY_TREE);
    let limits = limits.clone().for_process();
    ResourceLimits {
        memory: limits.memory,
        tree_memory: Some(tree_memory),
        processes: Some(MAX_PROCESSES),
        cpu_seconds: limits.cpu.map(|time| time.as_secs()),
        file_size: limits.file_size,
        open_files: limits.open_files,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_there_of_the_system_is_open_and_links_into_it_have_no_rule() {
        let open: Vec<PathBuf> = system_paths().iter().filter_map(|path| real_path(path)).collect();
        for path in SYSTEM_PATHS.iter().map(Path::new).filter(|path| path.exists()) {
            let place = real_path(path).unwrap();
            assert!(open.iter().any(|open| place.starts_with(open)), "{}", path.display());
        }
        let is_merged = fs::read_link("/bin").is_ok_and(|to| to == Path::new("usr/bin"));
        assert!(!is_merged || !system_paths().contains(&"/bin".into()));
        assert!(system_paths().iter().all(|path| path.exists()));
    }
}
