//! The file in the folder of a state that says whose it is.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat};

use super::private_dir::{modified, replace_file};
use super::record::StateRecord;

const RECORD: &CStr = c"about.json";
/// Maximum bytes of a record.
const MAX_RECORD_BYTES: u64 = 64 << 10;

/// Writes the record, first under that name: whoever holds another lock of the folder uses another one.
pub(super) fn write(dir: &OwnedFd, record: &StateRecord, new: &CStr) -> io::Result<()> {
    replace_file(dir, (RECORD, new), &serde_json::to_vec(record)?, |_| Ok(()))
}

pub(super) fn read(dir: &OwnedFd) -> Option<StateRecord> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(dir, RECORD, flags, Mode::empty()).ok()?);
    let mut text = Vec::new();
    file.take(MAX_RECORD_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// When it was last written, in seconds.
pub(super) fn last_written(dir: &OwnedFd) -> Option<u64> {
    modified(dir, RECORD)
}
