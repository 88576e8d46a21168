//! A process in a cage: its helper starts it, its stub kills and reaps it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::net::{AddressFamily, SocketType, socketpair};

use super::super::super::sandbox::flags::OWN_SOCKET;
use super::super::super::sandbox::{End, Launcher, Order, Report, Started};
use super::Tree;

/// A tree under its stub. Dropping it kills the tree.
pub(super) struct Caged {
    streams: [Option<File>; 3],
    api: Option<OwnedFd>,
    started: Option<Started>,
    report: Option<Report>,
}

impl Caged {
    pub(super) fn start(launcher: &Launcher, order: &Order, has_input: bool) -> io::Result<Self> {
        let (stdin, feed) = input(has_input)?;
        let (stdout, out) = io::pipe()?;
        let (stderr, err) = io::pipe()?;
        let (api, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, OWN_SOCKET, None)?;
        let started = launcher.start(order, [stdin, out.into(), err.into()], Some(theirs))?;
        let taken = [feed, Some(OwnedFd::from(stdout)), Some(OwnedFd::from(stderr))];
        Ok(Self {
            streams: taken.map(|end| end.map(File::from)),
            api: Some(api),
            started: Some(started),
            report: None,
        })
    }
}

/// The script's end of standard input and ours; without input there is nothing to read, and nothing to write to.
fn input(has_input: bool) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    if has_input {
        let (theirs, ours) = io::pipe()?;
        return Ok((theirs.into(), Some(ours.into())));
    }
    Ok((File::open("/dev/null")?.into(), None))
}

impl Tree for Caged {
    fn streams(&mut self) -> [Option<File>; 3] {
        std::mem::take(&mut self.streams)
    }

    fn api(&mut self) -> Option<OwnedFd> {
        self.api.take()
    }

    fn exit(&self) -> io::Result<OwnedFd> {
        let started = self.started.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        started.report.try_clone()
    }

    fn kill(&mut self) {
        self.report = self.started.take().and_then(Started::ended);
    }

    fn reap(&mut self) -> io::Result<(ExitStatus, Option<Report>)> {
        let report =
            self.report.take().ok_or_else(|| io::Error::other("the process that watches it was killed"))?;
        match &report.end {
            End::Ran { status } => Ok((ExitStatus::from_raw(*status), Some(report))),
            End::Refused { step, errno } => Err(refused(step, *errno)),
        }
    }
}

/// The report of a cage that could be put up, whatever came of the program in it.
pub(in super::super) fn checked(report: Report) -> io::Result<Report> {
    match &report.end {
        End::Refused { step, errno } if step != PROGRAM => Err(refused(step, *errno)),
        _ => Ok(report),
    }
}

/// The last step of all.
const PROGRAM: &str = "program";

/// What some machines have and others do not, and what projects stand in the way of.
const ADVICE: [(&str, &str); 3] = [
    (
        "namespaces",
        "raise what there was too little of, or grant fewer paths; --sandbox best-effort goes on without namespaces",
    ),
    (
        PROTECTED,
        "name a smaller project with --project; --sandbox best-effort goes on with what could be protected",
    ),
    (
        OWN,
        "have TMPDIR, HOME, XDG_CACHE_HOME and XDG_STATE_HOME name folders outside of the project, and remove those once no metier \
         runs that uses them; --sandbox best-effort goes on, and the script sees them",
    ),
];

/// The step that fails where not all could be protected that has to be.
pub(in super::super) const PROTECTED: &str = "protected paths";

/// The step that fails where folders of metier's own could not be covered, and how that is said.
const OWN: &str = "own folders";
pub(in super::super) const OWN_IN_SIGHT: &str =
    "folders of metier's own lie where the script would see them, which takes namespaces to prevent";

/// A program that could not be executed is the script's matter; a wall that could not be put up is the cage's.
fn refused(step: &str, errno: i32) -> io::Error {
    let error = io::Error::from_raw_os_error(errno);
    if step == PROGRAM { error } else { io::Error::other(Refused { step: step.to_owned(), error }) }
}

/// A cage that could not be put up.
#[derive(Debug)]
pub(in super::super) struct Refused {
    step: String,
    error: io::Error,
}

impl Refused {
    /// Whether there was too little of something, which says nothing of what the machine can enforce.
    pub(in super::super) fn is_for_want(&self) -> bool {
        use rustix::io::Errno;
        let want = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::PIPE, Errno::NOSPC];
        Errno::from_io_error(&self.error).is_some_and(|error| want.contains(&error))
    }

    /// The way out, where the machine has what is missing and could not give it to this run.
    pub(in super::super) fn advice(&self) -> Option<&'static str> {
        let row = ADVICE.into_iter().find(|(step, _)| *step == self.step);
        row.map(|(_, advice)| advice)
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.error.kind() == io::ErrorKind::ArgumentListTooLong {
            return f.write_str("it would be a cage inside of more cages than the kernel allows");
        }
        if self.step == OWN {
            return f.write_str(OWN_IN_SIGHT);
        }
        write!(f, "{}: {}", self.step, self.error)
    }
}

impl std::error::Error for Refused {}
