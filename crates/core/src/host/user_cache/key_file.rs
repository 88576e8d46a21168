//! The file of the user's key, with which the host authenticates what is cached, machine code above all. It is in a folder of
//! metier's own that no script can reach, wherever that is, and the compiler processes never see it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::mac_key::MacKey;
use crate::host::metier_dirs;
use crate::host::visibility_lock::is_visible_to_scripts;

/// The file, 32 random bytes.
const FILE_NAME: &str = metier_dirs::WASM_CACHE_KEY_FILE;
const KEY_BYTES: usize = 32;

/// An extended attribute that no sandboxed script can set: the system calls that set attributes are refused there. A file
/// that replaced the key lacks it, and a new key is created. A file system without extended attributes has no such marker.
#[cfg(target_os = "linux")]
const MARKER_XATTR: &std::ffi::CStr = c"user.metier.key";

const VISIBLE_TO_SCRIPT: &str = "it is in a folder that a running script can see";

/// The number of keys that this process created, so that each temporary name is unique.
static TEMP_COUNTER: AtomicU64 = AtomicU64::new(0);

/// Loads the key in this folder, or creates it if there is none; returns the reason if that is not possible, or if the file
/// there cannot be trusted.
pub(super) fn load_or_create(folder: &OwnedFd, path: &Path) -> Result<MacKey, String> {
    let path = path.join(FILE_NAME);
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    if let Some(key) = read_key(folder).map_err(|reason| failed(&reason))? {
        return Ok(key);
    }
    let is_seen = || is_visible_to_scripts(&metier_dirs::resolve_existing(&path));
    if is_seen() {
        return Err(failed(&VISIBLE_TO_SCRIPT));
    }
    create_key(folder).map_err(|error| failed(&error))?;
    if is_seen() {
        // Whoever started that script may have looked before the key existed.
        unlinkat(folder, FILE_NAME, AtFlags::empty()).ok();
        return Err(failed(&VISIBLE_TO_SCRIPT));
    }
    // If another host created a key at the same time, one of the two is there now.
    read_key(folder).map_err(|reason| failed(&reason))?.ok_or_else(|| failed(&"is not there"))
}

/// Reads the key; `None` if there is none, or only a part of one. Only the user has access to the folder.
fn read_key(folder: &OwnedFd) -> Result<Option<MacKey>, String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(folder, FILE_NAME, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err("is a link; remove it".into()),
        opened => File::from(opened.map_err(|error| error.to_string())?),
    };
    let found = fstat(&file).map_err(|error| error.to_string())?;
    check_owner(&found).map_err(str::to_owned)?;
    let others = Mode::RWXG | Mode::RWXO | Mode::XUSR;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err("is not a file; remove it".into());
    }
    if Mode::from_raw_mode(found.st_mode).intersects(others) {
        return Err("can be read by others; remove it, and another one is made".into());
    }
    if found.st_nlink != 1 {
        return Err("has another name; remove it, and another one is made".into());
    }
    if !has_marker(&file).map_err(|error| error.to_string())? {
        return Ok(None);
    }
    let mut key = Vec::with_capacity(KEY_BYTES + 1);
    file.take(KEY_BYTES as u64 + 1).read_to_end(&mut key).map_err(|error| error.to_string())?;
    // An incomplete key was being written when its host was killed, or when its disk was full.
    Ok(<[u8; KEY_BYTES]>::try_from(key).ok().map(MacKey::new))
}

fn create_key(folder: &OwnedFd) -> std::io::Result<()> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key)?;
    let count = TEMP_COUNTER.fetch_add(1, Ordering::Relaxed);
    let unfinished = format!(".new-{}-{count}", std::process::id());
    unlinkat(folder, &unfinished, AtFlags::empty()).ok();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(folder, &unfinished, flags, Mode::RUSR | Mode::WUSR)?);
    set_marker(&file);
    let written = file.write_all(&key).and_then(|()| file.sync_all());
    let placed = written.and_then(|()| Ok(renameat(folder, &unfinished, folder, FILE_NAME)?));
    if placed.is_err() {
        unlinkat(folder, &unfinished, AtFlags::empty()).ok();
    }
    placed
}

#[cfg(target_os = "linux")]
fn set_marker(file: &File) {
    rustix::fs::fsetxattr(file, MARKER_XATTR, b"1", rustix::fs::XattrFlags::empty()).ok();
}

#[cfg(target_os = "linux")]
fn has_marker(file: &File) -> rustix::io::Result<bool> {
    match rustix::fs::fgetxattr(file, MARKER_XATTR, &mut [0_u8; 8][..]) {
        Ok(_) | Err(Errno::OPNOTSUPP) => Ok(true),
        Err(Errno::NODATA) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(not(target_os = "linux"))]
fn set_marker(_: &File) {}

#[cfg(not(target_os = "linux"))]
fn has_marker(_: &File) -> rustix::io::Result<bool> {
    Ok(true)
}

pub(super) fn check_owner(found: &Stat) -> Result<(), &'static str> {
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return Err("belongs to somebody else");
    }
    if Mode::from_raw_mode(found.st_mode).intersects(Mode::WGRP | Mode::WOTH) {
        return Err("can be written by others");
    }
    Ok(())
}
