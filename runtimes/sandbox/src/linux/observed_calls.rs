//! The system calls that name a path, and what each wants to do with it.

use crate::AccessKind;

/// A call and the paths among its arguments.
pub(super) struct ObservedCall {
    pub(super) number: libc::c_long,
    pub(super) paths: &'static [PathArgument],
    /// The argument whose flag `AT_EMPTY_PATH` says that the call is about a descriptor. Programs make such calls for each file that
    /// they open, and these are not observed.
    pub(super) empty_path_flags: Option<u8>,
}

/// A path among the arguments of a call, by the numbers of arguments.
pub(super) struct PathArgument {
    /// The folder by which a relative path begins; without one it is the working directory.
    pub(super) folder: Option<u8>,
    pub(super) path: u8,
    pub(super) purpose: Purpose,
}

/// What a call wants to do with a path.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Fixed(AccessKind),
    /// What the flags of `open` say, which are this argument.
    ByFlags(u8),
    /// What the record of `openat2` says, to which this argument points.
    ByRecord(u8),
}

impl ObservedCall {
    /// The one with this number.
    pub(super) fn find(number: libc::c_long) -> Option<&'static Self> {
        all().find(|call| call.number == number)
    }
}

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static ObservedCall> {
    OBSERVED_CALLS.iter().chain(OBSERVED_ARCH_CALLS)
}

const fn at(folder: u8, path: u8, kind: AccessKind) -> PathArgument {
    PathArgument { folder: Some(folder), path, purpose: Purpose::Fixed(kind) }
}

const fn plain(path: u8, kind: AccessKind) -> PathArgument {
    PathArgument { folder: None, path, purpose: Purpose::Fixed(kind) }
}

const fn call(number: libc::c_long, paths: &'static [PathArgument]) -> ObservedCall {
    ObservedCall { number, paths, empty_path_flags: None }
}

const fn call_or_descriptor(number: libc::c_long, paths: &'static [PathArgument], flags: u8) -> ObservedCall {
    ObservedCall { number, paths, empty_path_flags: Some(flags) }
}

/// `fchmodat2`, which not every C library names.
const FCHMODAT2: libc::c_long = 452;

/// The most paths that one of them names.
pub(super) const MAX_PATHS: usize = 2;

use AccessKind::{Create, CreateFolder, Execute, LookUp, Remove, Write};

/// Those that every architecture has.
const OBSERVED_CALLS: &[ObservedCall] = &[
    call(libc::SYS_openat, &[PathArgument { folder: Some(0), path: 1, purpose: Purpose::ByFlags(2) }]),
    call(libc::SYS_openat2, &[PathArgument { folder: Some(0), path: 1, purpose: Purpose::ByRecord(2) }]),
    call_or_descriptor(libc::SYS_newfstatat, &[at(0, 1, LookUp)], 3),
    call_or_descriptor(libc::SYS_statx, &[at(0, 1, LookUp)], 2),
    call(libc::SYS_faccessat, &[at(0, 1, LookUp)]),
    call_or_descriptor(libc::SYS_faccessat2, &[at(0, 1, LookUp)], 3),
    call(libc::SYS_readlinkat, &[at(0, 1, LookUp)]),
    call(libc::SYS_chdir, &[plain(0, LookUp)]),
    call(libc::SYS_mkdirat, &[at(0, 1, CreateFolder)]),
    call(libc::SYS_mknodat, &[at(0, 1, Create)]),
    call(libc::SYS_symlinkat, &[at(1, 2, Create)]),
    call(libc::SYS_linkat, &[at(2, 3, Create)]),
    call(libc::SYS_renameat2, &[at(0, 1, Remove), at(2, 3, Create)]),
    call(libc::SYS_unlinkat, &[at(0, 1, Remove)]),
    call(libc::SYS_truncate, &[plain(0, Write)]),
    call(libc::SYS_fchmodat, &[at(0, 1, Write)]),
    call_or_descriptor(FCHMODAT2, &[at(0, 1, Write)], 3),
    call_or_descriptor(libc::SYS_fchownat, &[at(0, 1, Write)], 4),
    call(libc::SYS_utimensat, &[at(0, 1, Write)]),
    call(libc::SYS_execve, &[plain(0, Execute)]),
    call(libc::SYS_execveat, &[at(0, 1, Execute)]),
];

/// Those that only older architectures have.
#[cfg(target_arch = "x86_64")]
const OBSERVED_ARCH_CALLS: &[ObservedCall] = &[
    call(libc::SYS_open, &[PathArgument { folder: None, path: 0, purpose: Purpose::ByFlags(1) }]),
    call(libc::SYS_creat, &[plain(0, Create)]),
    call(libc::SYS_stat, &[plain(0, LookUp)]),
    call(libc::SYS_lstat, &[plain(0, LookUp)]),
    call(libc::SYS_access, &[plain(0, LookUp)]),
    call(libc::SYS_readlink, &[plain(0, LookUp)]),
    call(libc::SYS_mkdir, &[plain(0, CreateFolder)]),
    call(libc::SYS_mknod, &[plain(0, Create)]),
    call(libc::SYS_symlink, &[plain(1, Create)]),
    call(libc::SYS_link, &[plain(1, Create)]),
    call(libc::SYS_rename, &[plain(0, Remove), plain(1, Create)]),
    call(libc::SYS_renameat, &[at(0, 1, Remove), at(2, 3, Create)]),
    call(libc::SYS_unlink, &[plain(0, Remove)]),
    call(libc::SYS_rmdir, &[plain(0, Remove)]),
    call(libc::SYS_chmod, &[plain(0, Write)]),
    call(libc::SYS_chown, &[plain(0, Write)]),
    call(libc::SYS_lchown, &[plain(0, Write)]),
    call(libc::SYS_utime, &[plain(0, Write)]),
    call(libc::SYS_utimes, &[plain(0, Write)]),
    call(libc::SYS_futimesat, &[at(0, 1, Write)]),
];

#[cfg(target_arch = "aarch64")]
const OBSERVED_ARCH_CALLS: &[ObservedCall] = &[call(38, &[at(0, 1, Remove), at(2, 3, Create)])]; // `renameat`

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OBSERVED_ARCH_CALLS: &[ObservedCall] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_listed_once_and_its_arguments_exist() {
        let mut seen = std::collections::BTreeSet::new();
        for call in all() {
            assert!(seen.insert(call.number) && !call.paths.is_empty(), "{}", call.number);
            assert!(call.paths.len() <= MAX_PATHS, "{}", call.number);
            let arguments = call.paths.iter().flat_map(|path| [Some(path.path), path.folder]);
            assert!(arguments.chain([call.empty_path_flags]).flatten().all(|number| number < 6));
        }
    }
}
