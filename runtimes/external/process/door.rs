//! The descriptor by which a process calls its host: answered on a thread of its own, from the first word on.

use std::io::PipeWriter;
use std::os::fd::OwnedFd;
use std::thread::{Builder, Scope};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, recv};

use super::super::api::Service;

/// The host's end. The thread ends, and with it the scope, when this is dropped.
pub(super) struct Door<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    service: &'env Service<'env>,
    /// Until the first word.
    shut: Option<OwnedFd>,
    /// From then on; hangs up when the run is over.
    open: Option<PipeWriter>,
}

impl<'scope, 'env> Door<'scope, 'env> {
    pub(super) fn new(
        end: Option<OwnedFd>,
        scope: &'scope Scope<'scope, 'env>,
        service: &'env Service<'env>,
    ) -> Self {
        Self { scope, service, shut: end, open: None }
    }

    /// What to wait for, until somebody calls.
    pub(super) fn waiting(&self) -> Option<PollFd<'_>> {
        self.shut.as_ref().map(|end| PollFd::new(end, PollFlags::IN))
    }

    /// Opens to a process that calls. Most never do, and cost no thread.
    pub(super) fn answer(&mut self) {
        let Some(end) = self.shut.take() else { return };
        match recv(&end, &mut [0; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, 1..)) => self.open(end),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => self.shut = Some(end),
            // Nobody has the other end any more.
            Ok(_) | Err(_) => {}
        }
    }

    /// Where no thread can be had, the process finds that its host has hung up.
    fn open(&mut self, end: OwnedFd) {
        let Ok((over, open)) = std::io::pipe() else { return };
        let service = self.service;
        let serve = move || service.serve(end, &over);
        if Builder::new().name("metier-api".into()).spawn_scoped(self.scope, serve).is_ok() {
            self.open = Some(open);
        }
    }
}
