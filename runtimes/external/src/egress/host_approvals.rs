//! Hosts that nobody granted: a person is asked about each before its first byte is sent.
//!
//! The script gets an address for such a name, and its connections wait for the answer. Only names are asked about, so that no answer opens
//! an address of this machine or its network.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use metier_core::host::{RunContext, SkillContext, ask_about_host, is_placeholder_host, may_ask_about_host};
use metier_core::policy::{DEFAULT_PORTS, RunPermissions};

/// The most hosts of a run that a person is asked about.
const MAX_HOSTS: usize = 32;

/// The answers about hosts of one run.
pub(super) struct HostApprovals {
    /// That of the run, with a token that ends the question when the network ends.
    ctx: SkillContext,
    answers: Mutex<HashMap<String, HostAnswer>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HostAnswer {
    Pending,
    Yes,
    No,
}

impl HostApprovals {
    /// `None` if nobody is asked in this run: never where a model has chosen it, since an unread script could send the whole project
    /// anywhere by a question that looks harmless. A process of several runs has nobody to ask either.
    pub(super) fn new(ctx: &SkillContext) -> Option<Arc<Self>> {
        let is_asked = ctx.facts().has_host_questions
            && !ctx.facts().is_for_model
            && ctx.permissions().has_approver()
            && ctx.worker().is_none();
        is_asked
            .then(|| Arc::new(Self { ctx: ctx.with_cancel(ctx.cancel().child()), answers: Mutex::default() }))
    }

    /// Whether a connection to this host at this port may be made after a question: nobody has said no.
    pub(super) fn is_open(&self, host: &str, port: u16) -> bool {
        let is_name = host.parse::<IpAddr>().is_err() && host.contains('.');
        if !is_name || is_placeholder_host(host) || !DEFAULT_PORTS.contains(&port) {
            return false;
        }
        let answers = self.lock();
        match answers.get(host) {
            Some(answer) => *answer != HostAnswer::No,
            None => answers.len() < MAX_HOSTS && may_ask_about_host(&self.ctx, host, port),
        }
    }

    /// Whether a person has allowed this host.
    pub(super) fn is_allowed(&self, host: &str, port: u16) -> bool {
        DEFAULT_PORTS.contains(&port) && self.lock().get(host) == Some(&HostAnswer::Yes)
    }

    /// The hosts that a person has allowed.
    pub(super) fn allowed_hosts(&self) -> Vec<String> {
        let answers = self.lock();
        let allowed = answers.iter().filter(|(_, answer)| **answer == HostAnswer::Yes);
        allowed.map(|(host, _)| host.clone()).collect()
    }

    /// Asks about a host, if that is not done already, and says when there is an answer.
    pub(super) fn ask(
        self: &Arc<Self>,
        host: &str,
        port: u16,
        answered: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        if self.lock().insert(host.to_owned(), HostAnswer::Pending) == Some(HostAnswer::Pending) {
            return Ok(());
        }
        let (approvals, asked) = (self.clone(), host.to_owned());
        let ask = move || {
            let answer =
                if ask_about_host(&approvals.ctx, &asked, port) { HostAnswer::Yes } else { HostAnswer::No };
            approvals.lock().insert(asked, answer);
            answered();
        };
        let started = thread::Builder::new().name("metier-host-question".into()).spawn(ask);
        if started.is_err() {
            self.lock().insert(host.to_owned(), HostAnswer::No);
        }
        started.map(drop)
    }

    /// Whether there is no answer about this host yet.
    pub(super) fn is_pending(&self, host: &str) -> bool {
        self.lock().get(host) == Some(&HostAnswer::Pending)
    }

    /// Takes back the question that stands.
    pub(super) fn withdraw(&self) {
        self.ctx.cancel().cancel();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, HostAnswer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
