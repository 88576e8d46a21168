//! What a script in a cage may reach: what interpreters read, the project, the skill, and a folder of its own.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::super::sandbox::{Cage, Ceilings, FileRules};
use crate::host::SkillContext;
use crate::policy::{Isolation, Limits, Need};

/// What programs read to run at all. Without `/etc/ssl` Debian's Node aborts; `pwd` and `whoami` read the two lists of names;
/// a pool of workers counts processors.
const SYSTEM: [&str; 21] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ssl",
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
    read.extend(homes(places.interpreter).into_iter().map(Into::into));
    read.extend([places.project, places.skill].map(Into::into));
    let mut write: Vec<OsString> = vec!["/dev/null".into(), places.scratch.into()];
    write.extend(ctx.permissions().writable().iter().map(|path| places.project.join(path).into()));
    if ctx.permissions().allows(&Need::shm()) {
        write.push("/dev/shm".into());
    }
    FileRules { read, write }
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
/// above holds more than an interpreter: somebody's home, or everything.
fn home(program: &Path) -> PathBuf {
    let prefix = program
        .parent()
        .filter(|folder| folder.file_name().is_some_and(|name| name == "bin" || name == "shims"));
    let user = std::env::var_os("HOME").map(PathBuf::from);
    let holds_more = |prefix: &Path| {
        prefix.components().filter(|part| matches!(part, Component::Normal(_))).count() == 0
            || user.as_ref().is_some_and(|user| user.starts_with(prefix))
    };
    match prefix.and_then(Path::parent) {
        Some(prefix) if !holds_more(prefix) => prefix.to_owned(),
        _ => program.to_owned(),
    }
}

fn ceilings(limits: &Limits) -> Ceilings {
    /// A whole program can go wrong by filling a disk; no script we know writes more to one file.
    const FILE_SIZE: u64 = 256 << 20;
    const OPEN_FILES: u64 = 1024;
    Ceilings {
        memory: Some(limits.memory.unwrap_or(Limits::MEMORY_PROCESS)),
        // Time that passes is held by the deadline; this holds what a tree burns after it, should all else fail.
        cpu_seconds: Some(limits.deadline.as_secs().saturating_add(2)),
        file_size: Some(FILE_SIZE),
        open_files: Some(OPEN_FILES),
    }
}
