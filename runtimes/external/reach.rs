//! What a script in a cage may reach: what interpreters read, the project, the skill, and a folder of its own.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::sandbox::{Cage, Ceilings, Exactly, FileRules, Guarded};
use super::configuration;
use super::guarded::guarded;
use super::home::homes;
use super::interpreter::search_path;
use super::known::{Folder, Installed};
use crate::host::strangers::Strangers;
use crate::host::temp_places::covered_places_in;
use crate::host::{Files, SkillContext};
use crate::policy::{Isolation, Limits, Need};

/// What programs read to run at all. Without its configuration of TLS Debian's Node aborts; `pwd` and `whoami` read the two
/// lists of names; a pool of workers counts processors, and Node its own memory. Never a folder with private keys: root would read those too.
const SYSTEM: [&str; 31] = [
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

/// Where nothing comes from, and everything may go.
const NULL: &str = "/dev/null";

/// Read as well where the network is open: names have to be resolved.
const NETWORK: [&str; 3] = ["/etc/hosts", "/etc/resolv.conf", "/etc/gai.conf"];

/// Folders and files of a run, absolute.
pub(super) struct Places<'a> {
    pub(super) project: &'a Path,
    pub(super) skill: &'a Path,
    pub(super) scratch: &'a Path,
    pub(super) installed: &'a Installed,
}

/// The cage for a run with these permissions and limits.
pub(super) fn cage(ctx: &SkillContext, places: &Places<'_>) -> Cage {
    let network = ctx.permissions().allows(&Need::network());
    Cage {
        files: Some(rules(ctx, places, network)),
        shut_network: !network,
        may_lock: !ctx.permissions().writable().is_empty(),
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

/// The same for a program of a stranger's, who needs their folders and what it is run by.
pub(super) fn strictest_for(program: &Path, strangers: &Strangers) -> Cage {
    let mut cage = Cage { required: true, ..strictest() };
    if let Some(rules) = &mut cage.files {
        let homes = homes(program, &search_path(), strangers).into_iter();
        let homes = homes.filter(|home| !strangers.lead_to(home) && opens_more(home));
        rules.read.extend(homes.map(Into::into));
        rules.own.extend(strangers.folders().iter().filter_map(|folder| exactly(folder)));
        rules.write.push(NULL.into());
    }
    cage
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
        _ if places.installed.system.iter().any(|file| file == path) => "system",
        path if real(places.project).is_some_and(|project| path.starts_with(project)) => "granted",
        _ => "interpreter",
    }
}

/// The folders of `PATH`, and whether what every script may read, or one that has these homes, opens some of what is in them.
pub(super) fn folders(path: &[PathBuf], homes: &[PathBuf]) -> Vec<Folder> {
    let homes: Vec<(&Path, Option<PathBuf>)> =
        homes.iter().map(|home| (home.as_path(), real(home))).collect();
    let folder = |path: &PathBuf| {
        let place = if is_system(path) { None } else { real(path) };
        let opens = |place: &PathBuf| {
            let is_near = |(home, real): &(&Path, Option<PathBuf>)| {
                home.starts_with(path) || real.as_ref().is_some_and(|real| overlap(real, place))
            };
            SYSTEM.iter().any(|system| overlap(Path::new(system), place)) || homes.iter().any(is_near)
        };
        let is_open = is_system(path) || place.as_ref().is_some_and(opens);
        Folder { path: path.clone(), place, is_open }
    };
    path.iter().map(folder).collect()
}

/// The folders of `PATH` with programs that can be run in this cage: those that lie in what can be read, or some of that in
/// them.
pub(super) fn with_programs<'a>(cage: &Cage, installed: &'a Installed) -> impl Iterator<Item = &'a Path> {
    let rules = cage.files.as_ref();
    let has_programs = move |folder: &&Folder| {
        let is_near = |exact: &Exactly| {
            let place = folder.place.as_ref();
            place.is_some_and(|place| opens(Path::new(&exact.path), &folder.path, place))
        };
        folder.is_open || rules.is_none_or(|rules| rules.own.iter().chain(&rules.write).any(is_near))
    };
    installed.folders.iter().filter(has_programs).map(|folder| folder.path.as_path())
}

/// Whether what is open at this path is in a folder, or around the place where it is. A link in the folder may be all that can be
/// read of it.
fn opens(path: &Path, folder: &Path, place: &Path) -> bool {
    path.starts_with(folder) || overlap(path, place)
}

fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

fn rules(ctx: &SkillContext, places: &Places<'_>, network: bool) -> FileRules {
    let installed = places.installed;
    let mut read: Vec<OsString> = installed.system.iter().chain(&installed.homes).map(Into::into).collect();
    if network {
        read.extend(NETWORK.iter().map(Into::into));
    }
    // Of these the run holds handles, where the script comes from the skill that it runs for.
    let held = |files: crate::error::Result<&Files>, place| match files {
        Ok(files) if files.root() == place => below(files, Path::new("")),
        _ => exactly(place),
    };
    let own = [held(ctx.project(), places.project), held(ctx.skill_files(), places.skill)];
    let mut write = vec![Exactly::from(NULL)];
    write.extend(exactly(places.scratch));
    write.extend(ctx.project().iter().flat_map(|files| writable(files, &ctx.permissions().writable())));
    if ctx.permissions().allows(&Need::shm()) {
        // A cage with mounts has its own.
        write.extend(real(Path::new("/dev/shm")).as_deref().map(Exactly::from));
    }
    let mut guarded = guarded_in(ctx, places.project);
    let covered = [places.project, places.skill].into_iter().flat_map(covered_places_in);
    let closed: BTreeSet<PathBuf> = covered.chain(guarded.own.into_iter().map(PathBuf::from)).collect();
    // What covers a folder covers what lies in it, which is then no longer there to be covered.
    let is_outer = |place: &&PathBuf| !place.ancestors().skip(1).any(|above| closed.contains(above));
    guarded.own = closed.iter().filter(is_outer).map(Into::into).collect();
    FileRules { read, own: own.into_iter().flatten().collect(), write, guarded }
}

/// What is guarded in the project. What may not be written to at all need not be kept.
pub(super) fn guarded_in(ctx: &SkillContext, project: &Path) -> Guarded {
    let granted = ctx.permissions().writable();
    let write: Vec<Exactly> = ctx.project().iter().flat_map(|files| writable(files, &granted)).collect();
    let mut guarded = guarded(ctx, project);
    guarded.kept.retain(|path| write.iter().any(|folder| Path::new(path).starts_with(&folder.path)));
    guarded
}

/// Whether there is something at this path that the rules for the system do not open.
pub(super) fn opens_more(path: &Path) -> bool {
    // A link in a folder of the system's may lead out of it.
    path.symlink_metadata().is_ok_and(|found| !is_system(path) || found.is_symlink()) && path.exists()
}

/// What every script reads of the system, as far as it is there. What lies in another folder of the list needs no rule of its own:
/// each is made by several calls, for every start.
pub(super) fn system() -> Vec<PathBuf> {
    let all = SYSTEM.iter().map(PathBuf::from).chain(configuration::readable());
    let all: Vec<(PathBuf, PathBuf)> = all.filter_map(|path| Some((real(&path)?, path))).collect();
    let is_within = |place: &Path| all.iter().any(|(other, _)| place != other && place.starts_with(other));
    all.iter().filter(|(place, _)| !is_within(place)).map(|(_, path)| path.clone()).collect()
}

/// Whether every script in a cage may read this.
pub(super) fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// What the grants lead to inside the project. A project may come from anywhere, with links to anywhere.
pub(super) fn writable(files: &Files, granted: &[String]) -> Vec<Exactly> {
    let granted = granted.iter().filter_map(|path| real(&files.root().join(path)));
    granted.filter_map(|path| below(files, path.strip_prefix(files.root()).ok()?)).collect()
}

/// What lies at a path below an open folder, whatever the path of that leads to by now.
fn below(files: &Files, path: &Path) -> Option<Exactly> {
    let place = files.root().join(path);
    // Nothing joined to a path is a `/` at its end.
    let place = place.components().as_path();
    Some(Exactly { path: place.into(), identity: Some(files.identity(path).ok()?) })
}

/// What lies at a path now.
fn exactly(path: &Path) -> Option<Exactly> {
    let path = real(path)?;
    let about = path.symlink_metadata().ok()?;
    Some(Exactly { path: path.into(), identity: Some((about.dev(), about.ino())) })
}

/// The path without links; nothing where there is nothing.
fn real(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_there_of_the_system_is_open_and_links_into_it_have_no_rule() {
        let open: Vec<PathBuf> = system().iter().filter_map(|path| real(path)).collect();
        for path in SYSTEM.iter().map(Path::new).filter(|path| path.exists()) {
            let place = real(path).unwrap();
            assert!(open.iter().any(|open| place.starts_with(open)), "{}", path.display());
        }
        let is_merged = fs::read_link("/bin").is_ok_and(|to| to == Path::new("usr/bin"));
        assert!(!is_merged || !system().contains(&"/bin".into()));
        assert!(system().iter().all(|path| path.exists()));
    }
}
