//! What a script in a cage may reach: what interpreters read, the project, the skill, and a folder of its own.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::super::sandbox::{Cage, Ceilings, FileRules};
use super::guarded::guarded;
use super::interpreter::search_path;
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

/// The cage of a script that may do nothing in particular.
pub(super) fn strictest() -> Cage {
    let read = SYSTEM.iter().map(Into::into).collect();
    Cage {
        files: Some(FileRules { read, ..FileRules::default() }),
        shut_network: true,
        guard_calls: true,
        ceilings: ceilings(&Limits::default()),
        ..Cage::default()
    }
}

/// Why a path is among the rules for these places.
pub(super) fn why(path: &Path, places: &Places<'_>) -> &'static str {
    let is_one_of = |paths: &[&str]| paths.iter().any(|known| path == Path::new(known));
    let is_place = |place: &Path| path == place || real(place).is_some_and(|real| path == real);
    match path {
        _ if is_place(places.scratch) => "scratch",
        _ if is_place(places.project) => "project",
        _ if is_place(places.skill) => "skill",
        _ if is_one_of(&NETWORK) => "network",
        path if path.starts_with("/dev") => "device",
        _ if is_one_of(&SYSTEM) => "system",
        path if real(places.project).is_some_and(|project| path.starts_with(project)) => "granted",
        _ => "interpreter",
    }
}

/// The folders of `PATH` with programs that can be run in this cage: those that lie in what can be read, or some of that in
/// them.
pub(super) fn with_programs(cage: &Cage, folders: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let Some(rules) = &cage.files else { return folders.collect() };
    let paths = rules.read.iter().chain(&rules.write).map(Path::new);
    // Resolved once for all folders, and not at all where their names say enough.
    let own: Vec<(&Path, Option<PathBuf>)> =
        paths.filter(|path| !is_system(path)).map(|path| (path, real(path))).collect();
    let overlap = |one: &Path, other: &Path| one.starts_with(other) || other.starts_with(one);
    let has_programs = |folder: &PathBuf| {
        if is_system(folder) {
            return true;
        }
        let Some(place) = real(folder) else { return false };
        // A link in the folder may be all that can be read of it.
        let opens = |(path, real): &(&Path, Option<PathBuf>)| {
            path.starts_with(folder) || real.as_ref().is_some_and(|path| overlap(path, &place))
        };
        SYSTEM.iter().any(|system| overlap(Path::new(system), &place)) || own.iter().any(opens)
    };
    folders.filter(has_programs).collect()
}

fn rules(ctx: &SkillContext, places: &Places<'_>, network: bool) -> FileRules {
    let mut read: Vec<OsString> = SYSTEM.iter().map(Into::into).collect();
    if network {
        read.extend(NETWORK.iter().map(Into::into));
    }
    let programs = called().into_iter().chain([places.interpreter.to_owned()]);
    let homes: BTreeSet<PathBuf> = programs.flat_map(|program| homes(&program)).collect();
    read.extend(homes.into_iter().filter(|home| opens_more(home)).map(Into::into));
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

/// Whether there is something at this path that the rules for the system do not open.
fn opens_more(path: &Path) -> bool {
    // A link in a folder of the system's may lead out of it.
    path.symlink_metadata().is_ok_and(|found| !is_system(path) || found.is_symlink()) && path.exists()
}

/// Whether every script in a cage may read this.
pub(super) fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// Interpreters that scripts of other languages call.
const CALLED: [&str; 3] = ["python3", "python", "node"];

/// Where they lie outside of the system.
fn called() -> Vec<PathBuf> {
    let folders = search_path().into_iter().filter(|folder| !is_system(folder));
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

/// Where an interpreter outside the system keeps what it reads: beside the file, and beside each link to it.
fn homes(program: &Path) -> Vec<PathBuf> {
    let mut homes = Vec::new();
    let mut next = Some(program.to_owned());
    // As many links as the system itself follows.
    for _ in 0..40 {
        let Some(path) = next.take() else { break };
        homes.extend(home(&path));
        next = std::fs::read_link(&path).ok().map(|target| path.with_file_name(target));
    }
    homes.extend(std::fs::canonicalize(program).ok().into_iter().flat_map(|real| home(&real)));
    homes
}

/// What lies beside `bin` in the folder of an interpreter or of an environment of one. Whatever else is in that folder is not
/// theirs: `bin/python3` may stand in anything.
const PARTS: [&str; 8] = ["bin", "lib", "lib32", "lib64", "libexec", "include", "share", "pyvenv.cfg"];

/// What lies beside `shims` in the folder of a version manager, which is its own as a whole.
const MANAGED: [&str; 2] = ["versions", "installs"];

/// The parts of `PREFIX/bin/python3`, the root of the version manager of `ROOT/shims/python3`, and the file alone where the
/// folder above holds more than an interpreter.
fn home(program: &Path) -> Vec<PathBuf> {
    let folder = program.parent().and_then(Path::file_name);
    let above = || program.parent().and_then(Path::parent).and_then(real).filter(|above| !holds_more(above));
    let found = match folder {
        Some(name) if name == "bin" => above().map(|prefix| PARTS.map(|part| prefix.join(part)).to_vec()),
        Some(name) if name == "shims" => {
            above().filter(|root| MANAGED.iter().any(|part| root.join(part).is_dir())).map(|root| vec![root])
        }
        _ => None,
    };
    found.unwrap_or_else(|| vec![program.to_owned()])
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

fn ceilings(limits: &Limits) -> Ceilings {
    /// Processes of a script that there may be at a time.
    const PROCESSES: u64 = 512;
    let tree_memory = limits.memory.unwrap_or(Limits::MEMORY_TREE);
    let limits = limits.clone().of_process();
    Ceilings {
        memory: limits.memory,
        tree_memory: Some(tree_memory),
        processes: Some(PROCESSES),
        cpu_seconds: limits.cpu.map(|time| time.as_secs()),
        file_size: limits.file_size,
        open_files: limits.open_files,
    }
}
