//! What a script in a cage may reach: what interpreters read, the project, the skill, and a folder of its own.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use super::super::sandbox::{Cage, Ceilings, FileRules};
use super::command;
use super::guarded::guarded;
use crate::host::SkillContext;
use crate::policy::{Isolation, Limits, Need};

/// What programs read to run at all. Without its configuration of TLS Debian's Node aborts; `pwd` and `whoami` read the two
/// lists of names; a pool of workers counts processors, and Node its own memory. Never a folder with private keys: root would read those too.
const SYSTEM: [&str; 29] = [
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
    "/proc/self/stat",
    "/proc/self/statm",
    "/sys/devices/system/cpu",
];

/// Read as well where the network is open: names have to be resolved.
const NETWORK: [&str; 3] = ["/etc/hosts", "/etc/resolv.conf", "/etc/gai.conf"];

/// Folders and files of a run, absolute.
pub(super) struct Places<'a> {
    pub(super) project: &'a Path,
    pub(super) skill: &'a Path,
    pub(super) scratch: &'a Path,
    pub(super) interpreter: &'a Path,
}

/// The cage for a run with these permissions and limits.
pub(super) fn cage(ctx: &SkillContext, places: &Places<'_>) -> Cage {
    let network = ctx.permissions().allows(&Need::network());
    Cage {
        files: Some(rules(ctx, places, network)),
        shut_network: !network,
        guard_calls: true,
        required: ctx.isolation() == Isolation::Required,
        ceilings: ceilings(ctx.limits()),
    }
}

fn rules(ctx: &SkillContext, places: &Places<'_>, network: bool) -> FileRules {
    let mut read: Vec<OsString> = SYSTEM.iter().map(Into::into).collect();
    if network {
        read.extend(NETWORK.iter().map(Into::into));
    }
    let programs = called().into_iter().chain([places.interpreter.to_owned()]);
    read.extend(programs.flat_map(|program| homes(&program)).map(Into::into));
    read.extend([places.project, places.skill].map(Into::into));
    let mut write = vec![PathBuf::from("/dev/null")];
    write.extend(real(places.scratch));
    write.extend(writable(places.project, &ctx.permissions().writable()));
    if ctx.permissions().allows(&Need::shm()) {
        write.extend(real(Path::new("/dev/shm")));
    }
    let mut guarded = guarded(ctx, places.project);
    // What may not be written to at all need not be kept.
    guarded.kept.retain(|path| write.iter().any(|folder| Path::new(path).starts_with(folder)));
    FileRules { read, write: write.into_iter().map(Into::into).collect(), guarded }
}

/// Whether every script in a cage may read this.
pub(super) fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// Interpreters that scripts of other languages call.
const CALLED: [&str; 3] = ["python3", "python", "node"];

/// Where they lie outside of the system.
fn called() -> Vec<PathBuf> {
    let folders = command::search_path().into_iter().filter(|folder| !is_system(folder));
    let programs = folders.flat_map(|folder| CALLED.map(|name| folder.join(name)));
    programs.filter(|program| program.is_file()).collect()
}

/// What the grants lead to inside the project. A project may come from anywhere, with links to anywhere.
fn writable(project: &Path, granted: &[String]) -> Vec<PathBuf> {
    let Some(root) = real(project) else { return Vec::new() };
    let granted = granted.iter().filter_map(|path| real(&project.join(path)));
    granted.filter(|path| path.starts_with(&root)).collect()
}

/// The path without links; nothing where there is nothing.
fn real(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
}

/// Where an interpreter outside the system keeps what it reads: the folder above `bin`, of the file and of each link to it.
fn homes(program: &Path) -> Vec<PathBuf> {
    let mut homes = Vec::new();
    let mut next = Some(program.to_owned());
    // As many links as the system itself follows.
    for _ in 0..40 {
        let Some(path) = next.take() else { break };
        homes.push(home(&path));
        next = std::fs::read_link(&path).ok().map(|target| path.with_file_name(target));
    }
    homes.extend(std::fs::canonicalize(program).ok().map(|real| home(&real)));
    homes
}

/// `PREFIX` of `PREFIX/bin/python3`, the root of version managers of `ROOT/shims/python3`, and the file alone where the folder
/// above holds more than an interpreter.
fn home(program: &Path) -> PathBuf {
    let prefix = program
        .parent()
        .filter(|folder| folder.file_name().is_some_and(|name| name == "bin" || name == "shims"))
        .and_then(Path::parent)
        .and_then(real);
    match prefix.filter(|prefix| !holds_more(prefix)) {
        Some(prefix) => prefix,
        None => program.to_owned(),
    }
}

/// Everything, all homes, somebody's home, or what all of somebody's programs keep: key rings are in `~/.local/share`.
fn holds_more(prefix: &Path) -> bool {
    let mut parts = prefix.components().filter(|part| matches!(part, Component::Normal(_)));
    let is_home = match parts.next() {
        None => true,
        Some(first) => first.as_os_str() == "home" && parts.nth(1).is_none(),
    };
    let user = std::env::var_os("HOME").and_then(|home| real(Path::new(&home)));
    is_home || user.is_some_and(|user| user.starts_with(prefix) || prefix == user.join(".local"))
}

/// How many threads of a script can run at a time.
static PROCESSORS: LazyLock<u64> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, |count| count.get() as u64));

fn ceilings(limits: &Limits) -> Ceilings {
    /// A whole program can go wrong by filling a disk; no script we know writes more to one file.
    const FILE_SIZE: u64 = 256 << 20;
    const OPEN_FILES: u64 = 1024;
    const PROCESSES: u64 = 512;
    Ceilings {
        memory: Some(limits.memory.unwrap_or(Limits::MEMORY_PROCESS)),
        tree_memory: Some(limits.memory.unwrap_or(Limits::MEMORY_TREE)),
        processes: Some(PROCESSES),
        // Time that passes is held by the deadline; this holds what a process burns after it, should all else fail. All of
        // its threads count.
        cpu_seconds: Some(limits.deadline.as_secs().saturating_add(2).saturating_mul(*PROCESSORS)),
        file_size: Some(FILE_SIZE),
        open_files: Some(OPEN_FILES),
    }
}
