//! Writes down which paths the processes of a watched run name in system calls. It decides nothing.
//!
//! The filter stops each such call, the observer reads the path from the memory of the caller, and the kernel then carries out the call as
//! it would without: Landlock and mounts decide, by what they read themselves. A process may change its memory meanwhile, and then the
//! list has a path that was never used. That is all it can do, so nothing may rely on the list.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{CWD, ResolveFlags, readlinkat_raw};
use rustix::process::Pid;

use crate::linux::observed_calls::{MAX_PATHS, ObservedCall, PathArgument, Purpose};
use crate::linux::sys;
use crate::linux::sys::PendingCall;
use crate::{AccessKind, AccessKinds, Observations, ObservedAccess, WatchRules};

/// Bytes of a path with its NUL, as for the kernel.
const MAX_PATH_BYTES: usize = 4096;
/// Bytes that are read at first.
const SHORT_PATH_BYTES: usize = 256;
/// Different accesses of a run. One needs some 150 bytes.
const MAX_ACCESSES: usize = 4096;
/// Bytes of all their paths.
const MAX_TOTAL_BYTES: usize = 1 << 20;
/// Bytes of the record of `openat2`: flags, mode, and how to resolve the path.
const OPEN_RECORD_BYTES: usize = 24;

/// The accesses of one tree, which descends from this process.
pub(super) struct AccessObserver {
    /// The innermost folders first.
    folders: Vec<(Vec<u8>, AccessKinds)>,
    observes_programs: bool,
    /// Whether `/proc` has the process ids by which calls arrive. Without it only absolute paths are known.
    has_proc: bool,
    counts: HashMap<(Vec<u8>, AccessKind), u64>,
    total_bytes: usize,
    unrecorded: u64,
}

/// How a path of a call is to be understood.
struct Access {
    kind: AccessKind,
    /// An absolute path begins at the folder, too.
    is_rooted: bool,
}

impl AccessObserver {
    /// Nothing is observed yet.
    pub(super) fn new(rules: &WatchRules, has_proc: bool) -> Self {
        let normal = |path: &OsString| normalize(path.as_bytes());
        let mut folders: Vec<_> =
            rules.folders.iter().map(|folder| (normal(&folder.path), folder.accesses)).collect();
        folders.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Self {
            folders,
            observes_programs: rules.programs,
            has_proc,
            counts: HashMap::new(),
            total_bytes: 0,
            unrecorded: 0,
        }
    }

    /// Lets the kernel carry out this call, and writes down its paths.
    pub(super) fn observe(&mut self, listener: &OwnedFd, call: &PendingCall, observed: &ObservedCall) {
        let mut arguments = observed.paths.iter();
        let accesses: [_; MAX_PATHS] = std::array::from_fn(|_| self.read_access(call, arguments.next()?));
        // A call that does not wait any more was somebody else's memory by now.
        if sys::continue_call(listener, call) {
            accesses.into_iter().flatten().for_each(|(path, kind)| self.record(path, kind));
        }
    }

    /// What was observed.
    pub(super) fn into_observations(self) -> Observations {
        let access = |((path, kind), count)| ObservedAccess { path: OsString::from_vec(path), kind, count };
        let mut accesses: Vec<_> = self.counts.into_iter().map(access).collect();
        accesses.sort_unstable();
        Observations { accesses, unrecorded: self.unrecorded }
    }

    /// The path of this argument, if it is of interest and can be read.
    fn read_access(&self, call: &PendingCall, argument: &PathArgument) -> Option<(Vec<u8>, AccessKind)> {
        let thread = call.thread?;
        let (mut short, mut long) = ([0; SHORT_PATH_BYTES], Vec::new());
        let path = read_text(thread, call.register(argument.path), &mut short, &mut long)?;
        let Access { kind, is_rooted } = read_purpose(thread, call, argument.purpose)?;
        let path = if path.starts_with(b"/") && !is_rooted {
            normalize(path)
        } else {
            let descriptor = argument.folder.map(|number| call.register(number));
            let mut link = [MaybeUninit::uninit(); MAX_PATH_BYTES];
            let folder = self.folder_of(thread, descriptor, &mut link)?;
            // What is relative stays below `/`, or below the folder if that is the root.
            if is_rooted { join_normal(folder, &normalize(path)) } else { join_normal(folder, path) }
        };
        self.is_of_interest(&path, kind).then_some((path, kind))
    }

    /// The folder by which a relative path begins.
    fn folder_of<'l>(
        &self,
        thread: Pid,
        descriptor: Option<u64>,
        link: &'l mut [MaybeUninit<u8>; MAX_PATH_BYTES],
    ) -> Option<&'l [u8]> {
        let thread = Some(thread).filter(|_| self.has_proc)?.as_raw_nonzero();
        // The kernel looks at the lower half.
        let number = descriptor.map_or(libc::AT_FDCWD, lower_half);
        let path = match number {
            libc::AT_FDCWD => format!("/proc/{thread}/cwd"),
            0.. => format!("/proc/{thread}/fd/{number}"),
            _ => return None,
        };
        let (folder, rest) = readlinkat_raw(CWD, path, &mut link[..]).ok()?;
        // A pipe or a socket is no folder, and of a path that fills the buffer the end is missing.
        (folder.starts_with(b"/") && !rest.is_empty()).then_some(&*folder)
    }

    fn is_of_interest(&self, path: &[u8], kind: AccessKind) -> bool {
        if self.observes_programs && kind == AccessKind::Execute {
            return true;
        }
        let innermost = self.folders.iter().find(|(folder, _)| is_at_or_below(path, folder));
        innermost.is_some_and(|(_, kinds)| kinds.contains(kind.into()))
    }

    fn record(&mut self, path: Vec<u8>, kind: AccessKind) {
        let (bytes, count) = (path.len(), self.counts.len());
        let total_bytes = self.total_bytes + bytes;
        match self.counts.entry((path, kind)) {
            Entry::Occupied(mut known) => *known.get_mut() += 1,
            Entry::Vacant(new) if count < MAX_ACCESSES && total_bytes <= MAX_TOTAL_BYTES => {
                new.insert(1);
                self.total_bytes = total_bytes;
            }
            Entry::Vacant(_) => self.unrecorded += 1,
        }
    }
}

/// The text at this place in the memory of a thread, up to its NUL. `None` if it has none, is empty, or cannot be read. Most paths are
/// short, and the length decides what a read costs: a long one is read anew.
fn read_text<'b>(
    thread: Pid,
    address: u64,
    short: &'b mut [u8; SHORT_PATH_BYTES],
    long: &'b mut Vec<u8>,
) -> Option<&'b [u8]> {
    let mut length = sys::read_memory(thread, address, short).ok()?;
    let mut text = short.get(..length)?;
    if length == SHORT_PATH_BYTES && !text.contains(&0) {
        long.resize(MAX_PATH_BYTES, 0);
        length = sys::read_memory(thread, address, long).ok()?;
        text = long.get(..length)?;
    }
    let end = text.iter().position(|byte| *byte == 0)?;
    text.get(..end).filter(|text| !text.is_empty())
}

fn read_purpose(thread: Pid, call: &PendingCall, purpose: Purpose) -> Option<Access> {
    let by_flags = |flags: u64| kind_of_open(lower_half(flags));
    match purpose {
        Purpose::Fixed(kind) => Some(Access { kind, is_rooted: false }),
        Purpose::ByFlags(number) => Some(Access { kind: by_flags(call.register(number)), is_rooted: false }),
        Purpose::ByRecord(number) => {
            let mut record = [0; OPEN_RECORD_BYTES];
            let length = sys::read_memory(thread, call.register(number), &mut record).ok()?;
            let (words, _) = record.as_chunks::<8>();
            let [flags, _, resolve] = <[[u8; 8]; 3]>::try_from(words).ok()?.map(u64::from_ne_bytes);
            let is_rooted = resolve & ResolveFlags::IN_ROOT.bits() != 0;
            (length == OPEN_RECORD_BYTES).then(|| Access { kind: by_flags(flags), is_rooted })
        }
    }
}

fn kind_of_open(flags: i32) -> AccessKind {
    let is_any = |bits: i32| flags & bits != 0;
    match flags & libc::O_ACCMODE {
        _ if is_any(libc::O_PATH) => AccessKind::LookUp,
        // An unnamed file is created in the folder.
        _ if is_any(libc::O_CREAT) || flags & libc::O_TMPFILE == libc::O_TMPFILE => AccessKind::Create,
        libc::O_RDONLY if !is_any(libc::O_TRUNC) => AccessKind::Read,
        _ => AccessKind::Write,
    }
}

/// The half of a register that the kernel looks at if the argument is an integer.
fn lower_half(register: u64) -> i32 {
    u32::try_from(register & u64::from(u32::MAX)).unwrap_or(0).cast_signed()
}

/// The path without `.`, `..` and empty parts, which begins with `/`. Links are not followed.
fn normalize(path: &[u8]) -> Vec<u8> {
    join_normal(b"/", path)
}

/// The normal path of what a path is in a folder whose own path is normal.
fn join_normal(folder: &[u8], path: &[u8]) -> Vec<u8> {
    let mut normal = Vec::with_capacity(folder.len() + path.len() + 1);
    normal.extend(folder.strip_suffix(b"/").unwrap_or(folder));
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => normal.truncate(normal.iter().rposition(|byte| *byte == b'/').unwrap_or(0)),
            _ => {
                normal.push(b'/');
                normal.extend(part);
            }
        }
    }
    if normal.is_empty() {
        normal.push(b'/');
    }
    normal
}

/// Both are normal.
fn is_at_or_below(path: &[u8], folder: &[u8]) -> bool {
    match path.strip_prefix(folder) {
        Some(rest) => folder == b"/" || matches!(rest, [] | [b'/', ..]),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WatchedFolder;

    fn observer(folders: &[(&str, AccessKinds)], programs: bool) -> AccessObserver {
        let folder =
            |(path, accesses): &(&str, AccessKinds)| WatchedFolder { path: path.into(), accesses: *accesses };
        AccessObserver::new(&WatchRules { folders: folders.iter().map(folder).collect(), programs }, true)
    }

    #[test]
    fn a_path_becomes_normal_by_its_text_alone() {
        for (path, normal) in [
            ("/", "/"),
            ("", "/"),
            ("//a///b/", "/a/b"),
            ("/a/./b/../c", "/a/c"),
            ("/../..", "/"),
            ("/a/../../../b", "/b"),
            ("a\nb/..c/...", "/a\nb/..c/..."),
        ] {
            assert_eq!(normalize(path.as_bytes()), normal.as_bytes(), "{path}");
        }
        for (folder, path, normal) in [
            ("/", "a", "/a"),
            ("/", "..", "/"),
            ("/a/b", "c/./d", "/a/b/c/d"),
            ("/a/b", "../../../c", "/c"),
            ("/a/b", "../..", "/"),
            ("/a", ".", "/a"),
        ] {
            let joined = join_normal(folder.as_bytes(), path.as_bytes());
            assert_eq!(joined, normal.as_bytes(), "{folder} {path}");
        }
    }

    #[test]
    fn the_innermost_folder_decides() {
        let rules = [
            ("/home/", AccessKinds::all()),
            ("/home/me/project", AccessKinds::CHANGES),
            ("/home/me/project/.env", AccessKinds::all()),
            ("/home/me/project/target", AccessKinds::empty()),
        ];
        let observer = observer(&rules, false);
        let is_of_interest = |path: &str, kind| observer.is_of_interest(path.as_bytes(), kind);
        assert!(is_of_interest("/home", AccessKind::Read) && is_of_interest("/home/x", AccessKind::LookUp));
        assert!(!is_of_interest("/homes", AccessKind::Read) && !is_of_interest("/", AccessKind::LookUp));
        assert!(!is_of_interest("/home/me/project/a", AccessKind::Read));
        assert!(is_of_interest("/home/me/project/a", AccessKind::Create));
        assert!(is_of_interest("/home/me/project/.env", AccessKind::Read));
        assert!(!is_of_interest("/home/me/project/target/x", AccessKind::Write));
        assert!(is_of_interest("/home/me/projects", AccessKind::Read));
        assert!(!is_of_interest("/usr/bin/git", AccessKind::Execute));
        assert!(super::tests::observer(&rules, true).is_of_interest(b"/usr/bin/git", AccessKind::Execute));
    }

    #[test]
    fn the_flags_of_an_open_say_what_it_is_for() {
        for (flags, kind) in [
            (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_DIRECTORY, AccessKind::Read),
            (libc::O_WRONLY, AccessKind::Write),
            (libc::O_RDWR, AccessKind::Write),
            (libc::O_ACCMODE, AccessKind::Write),
            (libc::O_RDONLY | libc::O_TRUNC, AccessKind::Write),
            (libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC, AccessKind::Create),
            (libc::O_TMPFILE | libc::O_RDWR, AccessKind::Create),
            (libc::O_PATH | libc::O_NOFOLLOW, AccessKind::LookUp),
        ] {
            assert_eq!(kind_of_open(flags), kind, "{flags:o}");
        }
    }

    #[test]
    fn the_list_has_a_bound_in_number_and_in_bytes() {
        let mut observer = observer(&[], true);
        for number in 0..MAX_ACCESSES + 10 {
            observer.record(format!("/{number}").into_bytes(), AccessKind::Read);
        }
        // What is in the list is counted on.
        observer.record(b"/0".to_vec(), AccessKind::Read);
        observer.record(b"/0".to_vec(), AccessKind::Write);
        let Observations { accesses, unrecorded } = observer.into_observations();
        assert_eq!((accesses.len(), unrecorded), (MAX_ACCESSES, 11));
        assert_eq!((accesses[0].path.as_os_str(), accesses[0].count), ("/0".as_ref(), 2));

        let mut observer = super::tests::observer(&[], true);
        for number in 0..1000 {
            let path = format!("/{number}{}", "x".repeat(MAX_PATH_BYTES - 10));
            observer.record(path.into_bytes(), AccessKind::Read);
        }
        let Observations { accesses, unrecorded } = observer.into_observations();
        let total: usize = accesses.iter().map(|access| access.path.len()).sum();
        assert!(total <= MAX_TOTAL_BYTES && accesses.len() > 200, "{}", accesses.len());
        assert_eq!(accesses.len() as u64 + unrecorded, 1000);
    }
}
