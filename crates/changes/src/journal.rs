//! The journal of changes that are applied or undone: written before the first of them, so that all can be taken back after a kill.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};
use serde::{Deserialize, Serialize};

use super::operation::{Operation, Place};
use super::private_file;

pub(crate) const FILE: &str = "journal.json";

/// What is being done with a change set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Journal {
    /// The number of the attempt. It is complete once the state of the set has this number.
    pub(crate) serial: u64,
    /// Whether what the operations put aside is still needed when they are complete.
    pub(crate) keeps_removed: bool,
    /// The folder in the project where files are staged; `None` where they are staged in the store.
    pub(crate) staging: Option<String>,
    /// In their order. None before everything is staged.
    pub(crate) operations: Vec<Operation>,
}

impl Journal {
    pub(crate) fn write(&self, dir: &OwnedFd) -> io::Result<()> {
        private_file::replace(dir, FILE, &serde_json::to_vec(self)?)
    }

    /// The journal of a set that was being applied; `None` if there is none.
    pub(crate) fn read(dir: &OwnedFd) -> io::Result<Option<Self>> {
        match private_file::read(dir, FILE)? {
            Some(text) => Ok(Some(serde_json::from_slice(&text)?)),
            None => Ok(None),
        }
    }

    pub(crate) fn remove(dir: &OwnedFd) -> io::Result<()> {
        private_file::remove(dir, FILE)
    }

    /// Takes back what took place, the last first. Returns what could not be, for a person to read.
    pub(crate) fn revert(&self, place: Place<'_>) -> io::Result<Vec<String>> {
        let mut left = Vec::new();
        for operation in self.operations.iter().rev() {
            if let Some(reason) = operation.revert(place)? {
                left.push(format!("{}: {reason}", super::model::escape(operation.path())));
            }
        }
        Ok(left)
    }
}

/// Opens the staging folder of a journal; `None` if there is none any more.
pub(crate) fn open_staging(project: impl AsFd, name: &str) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(project, name, flags, Mode::empty()) {
        Ok(dir) => Ok(Some(dir)),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
