//! What a stub is there for: one order, and where it is to be carried out.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::leader::Failed;
use super::namespaces::{Entered, Namespaces};
use super::stub::{self, Ready};
use super::wire::Parcel;

/// An order, and where it is to be carried out.
pub(super) struct Task {
    pub(super) parcel: Parcel,
    /// Namespaces that this process is the first in and has to furnish; without any it is among the processes of the machine.
    pub(super) namespaces: Option<Namespaces>,
    /// Hears that the script comes next. Who hangs up before has started nothing.
    pub(super) said: OwnedFd,
}

impl Task {
    /// Makes this process, which was just split off, a stub and runs the order to its end. The answer is its exit code.
    pub(super) fn begin(self) -> i32 {
        let Ok(entered) = self.namespaces.map(|namespaces| namespaces.enter(None)).transpose() else {
            return 1;
        };
        let ready = Ready::new(self.parcel.kind, None, entered.is_some());
        done(self.parcel, self.said, entered, ready)
    }
}

/// Runs an order to its end by a stub that is ready, in the namespaces it has entered. `said` hears that the script comes next.
pub(super) fn done(
    mut parcel: Parcel,
    said: OwnedFd,
    entered: Option<Entered>,
    ready: Result<Ready, Failed>,
) -> i32 {
    let Ok(order) = parcel.text.order() else { return 1 };
    let cage = &order.cage;
    let is_uncovered = entered.is_none()
        && cage.required
        && cage.files.as_ref().is_some_and(|files| !files.guarded.own.is_empty());
    let furnished =
        entered.zip(cage.files.as_ref()).map(|(entered, files)| entered.furnish(files, cage.ceilings));
    let lost = |ready: Result<Ready, Failed>, step: &'static str, error| {
        ready.into_iter().for_each(Ready::dismiss);
        (Err((step, error)), None)
    };
    let (ready, made) = match furnished.transpose() {
        // Whoever requires a cage is given all of it that there is on this machine, or none.
        // Nothing but a mount keeps what lies in the project from being seen.
        Ok(_) if is_uncovered => lost(ready, "own folders", Errno::OPNOTSUPP.into()),
        Ok(_) if parcel.is_lowered && cage.required => lost(ready, "namespaces", Errno::AGAIN.into()),
        Ok(Some(made)) if !made.guarded && cage.required => {
            lost(ready, "protected paths", Errno::NOTSUP.into())
        }
        Err(error) if cage.required => lost(ready, "namespaces", error),
        Ok(made) => (ready, made),
        Err(_) => return 1,
    };
    rustix::io::write(&said, b"x").ok();
    drop(said);
    parcel.process_limit = made.and_then(|made| made.process_limit);
    stub::watch(&order, parcel, ready, made)
}
