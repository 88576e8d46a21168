//! Landlock: which files a script may open, and that its signals stay inside.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};
use std::sync::OnceLock;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

use crate::linux::sys;
use crate::{FileId, begins_with};
use crate::{FileRules, NetworkAccess, PinnedPath, ProtectedPaths, SIGNAL_SCOPE_ABI, TRUNCATION_ABI};

/// The newest ABI this was written for; an older kernel enforces the rules it knows.
const TARGET_ABI: ABI = ABI::V9;

/// The Landlock ABI of the kernel; 0 if it has no Landlock.
pub(crate) fn kernel_abi() -> u8 {
    static KERNEL_ABI: OnceLock<u8> = OnceLock::new();
    *KERNEL_ABI.get_or_init(|| sys::landlock_abi().unwrap_or(0))
}

/// Denies this process every file that is not open yet, and the network. The process must have one thread. Returns an error if
/// the kernel does not enforce that.
pub fn deny_all_files() -> io::Result<()> {
    let landlock_abi = restrict(&FileRules::default(), NetworkAccess::Blocked)?;
    if landlock_abi >= TRUNCATION_ABI { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// Moves the supervisor into a Landlock domain of its own, so that it may signal only its descendants. Returns whether the kernel
/// supports that.
pub(crate) fn scope_signals() -> io::Result<bool> {
    let entered = || -> Result<RestrictionStatus, RulesetError> {
        // A layer that does not handle `Refer` refuses to move files between folders.
        let root = PathFd::new("/").map(|root| PathBeneath::new(root, AccessFs::Refer));
        let ruleset = Ruleset::default().handle_access(AccessFs::Refer)?.scope(Scope::Signal)?.create()?;
        ruleset.add_rules(root.into_iter().map(Ok::<_, RulesetError>))?.log_same_exec(false)?.restrict_self()
    };
    entered().map(|status| abi(&status) >= SIGNAL_SCOPE_ABI).map_err(io::Error::other)
}

/// Restricts this process to the rules. Returns the Landlock ABI that the kernel enforces.
pub(crate) fn restrict(rules: &FileRules, network: NetworkAccess) -> io::Result<u8> {
    restrict_from(None, rules, network)
}

/// The same, from a ruleset that was prepared, if it still fits.
pub(crate) fn restrict_from(
    prepared: Option<PreparedRuleset>,
    rules: &FileRules,
    network: NetworkAccess,
) -> io::Result<u8> {
    let restricted = || {
        let fitting = prepared.filter(|prepared| prepared.fits(rules, network));
        let system = match fitting {
            Some(prepared) => prepared.ruleset,
            None => add_read_rules(empty_ruleset(network)?, uncovered(&rules.read, network))?,
        };
        let system = add_read_rules(system, own_files(network).iter().map(OsStr::new))?;
        let own = rules.own.iter().filter_map(|path| Some((open_pinned(path).ok()?, read_access())));
        let write = rules.write.iter().filter_map(|path| Some((open_pinned(path).ok()?, write_access())));
        let sockets = rules.socket_dirs.iter();
        let sockets = sockets.filter_map(|path| Some((open_pinned(path).ok()?, AccessFs::MakeSock.into())));
        // At the paths where they are mounted; elsewhere something else is there.
        let private = rules.private_folders.iter().filter_map(|folder| {
            let there = PinnedPath { path: folder.path.clone(), ..folder.content.clone() };
            let sockets: BitFlags<AccessFs> =
                if rules.may_have_sockets(folder) { AccessFs::MakeSock.into() } else { BitFlags::empty() };
            Some((open_pinned(&there).ok()?, write_access() | sockets))
        });
        let all = own
            .chain(write)
            .chain(private)
            .chain(sockets)
            .map(|(opened, access)| PathBeneath::new(opened, access));
        system.add_rules(all.map(Ok::<_, RulesetError>))?.restrict_self()
    };
    restricted().map(|status| abi(&status)).map_err(io::Error::other)
}

/// A ruleset with the rules for the files of the system, made before the request that is expected to have them.
pub(crate) struct PreparedRuleset {
    ruleset: RulesetCreated,
    network: NetworkAccess,
    /// What was at each path.
    read: Vec<(OsString, Option<FileId>)>,
}

impl PreparedRuleset {
    /// `None` where the kernel makes no such ruleset; the request then says why.
    pub(crate) fn new(read: &[OsString], network: NetworkAccess) -> Option<Self> {
        let read = || uncovered(read, network);
        // Before the rules, so that what comes to a path meanwhile does not fit.
        let found = read().map(|path| (path.to_owned(), file_id(path))).collect();
        let ruleset = empty_ruleset(network).and_then(|ruleset| add_read_rules(ruleset, read())).ok()?;
        Some(Self { ruleset, network, read: found })
    }

    /// Whether each path still leads to the same file.
    pub(crate) fn is_current(&self) -> bool {
        self.read.iter().all(|(path, id)| *id == file_id(path))
    }

    /// Whether it was made for these rules, and no mount covers any of its files.
    fn fits(&self, rules: &FileRules, network: NetworkAccess) -> bool {
        let ProtectedPaths { hidden, own, .. } = &rules.protected_paths;
        let overlay = rules.overlay.iter().map(|overlay| &overlay.target.path);
        let covers: Vec<&OsString> = hidden.iter().chain(own).chain(overlay).collect();
        let is_covered =
            |path: &OsStr| covers.iter().any(|cover| begins_with(Path::new(path), Path::new(cover)));
        self.network == network
            && self.read.iter().map(|(path, _)| path.as_os_str()).eq(uncovered(&rules.read, network))
            && !rules.read.iter().any(|path| is_covered(path))
    }
}

fn file_id(path: &OsStr) -> Option<FileId> {
    rustix::fs::stat(path).ok().map(|about| FileId::from_stat(&about))
}

/// The files by which programs find the resolver. A network of the script's own has its own versions of them.
pub(crate) const NETWORK_FILES: [&str; 3] = ["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"];

/// The files of which this network has its own versions.
fn own_files(network: NetworkAccess) -> &'static [&'static str] {
    if network == NetworkAccess::Hosts { &NETWORK_FILES } else { &[] }
}

/// Those of these paths that lead to the files of the machine.
fn uncovered(read: &[OsString], network: NetworkAccess) -> impl Iterator<Item = &OsStr> {
    let is_own = move |path: &OsStr| own_files(network).iter().any(|own| path == *own);
    read.iter().map(OsString::as_os_str).filter(move |path| !is_own(path))
}

fn add_read_rules<'a>(
    ruleset: RulesetCreated,
    read: impl Iterator<Item = &'a OsStr>,
) -> Result<RulesetCreated, RulesetError> {
    // One after the other, because each has a file open. The crate takes the rights of folders from files.
    let opened = read.filter_map(|path| open_following_symlinks(path).ok());
    let rules = opened.map(|opened| PathBeneath::new(opened, read_access()));
    ruleset.add_rules(rules.map(Ok::<_, RulesetError>))
}

/// A ruleset without rules: nothing may be opened.
fn empty_ruleset(network: NetworkAccess) -> Result<RulesetCreated, RulesetError> {
    let everything = AccessFs::from_all(TARGET_ABI);
    let mut ruleset = Ruleset::default().handle_access(everything)?.scope(Scope::from_all(TARGET_ABI))?;
    if network == NetworkAccess::Blocked {
        ruleset = ruleset.handle_access(AccessNet::from_all(TARGET_ABI))?;
    }
    ruleset.create()
}

fn read_access() -> BitFlags<AccessFs> {
    AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir
}

fn write_access() -> BitFlags<AccessFs> {
    // A script creates and controls no device, connects to no socket of the host by its path, and offers none to others.
    let not = AccessFs::MakeChar
        | AccessFs::MakeBlock
        | AccessFs::MakeSock
        | AccessFs::IoctlDev
        | AccessFs::ResolveUnix;
    AccessFs::from_all(TARGET_ABI) & !not
}

const PATH_FD_FLAGS: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Opens the path, following symlinks: `/bin` is one.
fn open_following_symlinks(path: &OsStr) -> rustix::io::Result<OwnedFd> {
    openat(CWD, path, PATH_FD_FLAGS, Mode::empty())
}

/// Opens a pinned path, and checks its device and inode.
pub(crate) fn open_pinned(pinned: &PinnedPath) -> rustix::io::Result<OwnedFd> {
    let opened = open_no_symlinks(&pinned.path)?;
    let about = fstat(&opened)?;
    let is_another = pinned.file_id.is_some_and(|known| known != FileId::from_stat(&about));
    if is_another { Err(Errno::STALE) } else { Ok(opened) }
}

/// Opens exactly this path: the host resolved its symlinks, and one created since may lead to a place where nobody may write.
pub(crate) fn open_no_symlinks(path: &OsStr) -> rustix::io::Result<OwnedFd> {
    match openat2(CWD, path, PATH_FD_FLAGS, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Seccomp filters of containers that are older than this call.
        Err(Errno::NOSYS | Errno::PERM) => open_by_components(path),
        opened => opened,
    }
}

/// The same, but a symlink at the end is opened itself.
pub(crate) fn open_final_symlink(path: &OsStr) -> rustix::io::Result<OwnedFd> {
    match openat2(CWD, path, PATH_FD_FLAGS | OFlags::NOFOLLOW, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Err(Errno::NOSYS | Errno::PERM) => open_by_components(path),
        opened => opened,
    }
}

/// The same, one component after the other.
fn open_by_components(path: &OsStr) -> rustix::io::Result<OwnedFd> {
    let mut here = open_following_symlinks(OsStr::new("/"))?;
    for part in Path::new(path).components() {
        match part {
            Component::RootDir => continue,
            Component::Normal(name) => {
                here = openat(&here, name, PATH_FD_FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
            }
            _ => return Err(Errno::INVAL),
        }
        if FileType::from_raw_mode(fstat(&here)?.st_mode).is_symlink() {
            return Err(Errno::LOOP);
        }
    }
    Ok(here)
}

fn abi(status: &RestrictionStatus) -> u8 {
    match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as u8,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_anywhere_on_a_path_leads_nowhere_however_the_path_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let folder = std::fs::canonicalize(folder.path()).unwrap().join("x");
        let at = |path: &str| folder.join(path).into_os_string();
        std::fs::create_dir_all(at("real/deep")).unwrap();
        std::fs::write(at("real/deep/file"), "").unwrap();
        symlink("real", at("link")).unwrap();
        symlink("deep/file", at("real/last")).unwrap();
        for open in [open_no_symlinks, open_by_components] {
            for plain in ["", "real", "real/deep/file"] {
                let (opened, found) = (fstat(open(&at(plain)).unwrap()), rustix::fs::stat(at(plain)));
                assert_eq!(opened.unwrap().st_ino, found.unwrap().st_ino, "{plain}");
            }
            for link in ["link", "link/deep", "link/deep/file", "real/last"] {
                assert_eq!(open(&at(link)).unwrap_err(), Errno::LOOP, "{link}");
            }
            assert_eq!(open(&at("real/nothing")).unwrap_err(), Errno::NOENT);
        }
    }

    #[test]
    fn prepared_rules_are_current_for_the_same_files_only() {
        let folder = tempfile::tempdir().unwrap();
        let [file, absent] = ["file", "absent"].map(|name| folder.path().join(name));
        std::fs::write(&file, "").unwrap();
        let read = [file.clone().into_os_string(), absent.clone().into_os_string()];
        let prepared = PreparedRuleset::new(&read, NetworkAccess::Blocked).unwrap();
        assert!(prepared.is_current());
        std::fs::rename(&file, folder.path().join("old")).unwrap();
        assert!(!prepared.is_current(), "it is gone");
        std::fs::write(&file, "").unwrap();
        assert!(!prepared.is_current(), "another file is there");
        std::fs::rename(folder.path().join("old"), &file).unwrap();
        assert!(prepared.is_current());
        std::fs::write(&absent, "").unwrap();
        assert!(!prepared.is_current(), "it has come");
    }

    #[test]
    fn prepared_rules_fit_the_same_paths_only_where_nothing_covers_them() {
        let rules = |read: &[&str], hidden: &[&str]| FileRules {
            read: read.iter().map(Into::into).collect(),
            protected_paths: ProtectedPaths {
                hidden: hidden.iter().map(Into::into).collect(),
                ..ProtectedPaths::default()
            },
            ..FileRules::default()
        };
        let all = ["/usr", "/etc/passwd"];
        let prepared = PreparedRuleset::new(&rules(&all, &[]).read, NetworkAccess::Blocked).unwrap();
        let fits =
            |read: &[&str], hidden: &[&str]| prepared.fits(&rules(read, hidden), NetworkAccess::Blocked);
        assert!(fits(&all, &[]) && fits(&all, &["/home/.env", "/usr/x", "/etc/passwd.old"]));
        assert!(!prepared.fits(&rules(&all, &[]), NetworkAccess::Open));
        assert!(!fits(&all[..1], &[]) && !fits(&[], &[]) && !fits(&["/usr", "/etc/group"], &[]));
        assert!(!fits(&all, &["/etc/passwd"]) && !fits(&all, &["/etc"]));
        let own = FileRules {
            protected_paths: ProtectedPaths { own: vec!["/etc".into()], ..ProtectedPaths::default() },
            ..rules(&all, &[])
        };
        assert!(!prepared.fits(&own, NetworkAccess::Blocked));
    }
}
