//! Whether a file or folder of the cache belongs to the user, and to nobody else.

use rustix::fs::{Mode, Stat};

pub(super) fn check_owner(found: &Stat) -> Result<(), &'static str> {
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return Err("belongs to somebody else");
    }
    if Mode::from_raw_mode(found.st_mode).intersects(Mode::WGRP | Mode::WOTH) {
        return Err("can be written by others");
    }
    Ok(())
}
