//! What a script did in its network, as far as the host program served it: counts, and what was refused.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use super::refusal::Refusal;
use super::rules::EgressRules;
use metier_core::host::{
    NetworkReport, RefusedConnection, is_placeholder_host, misplaced_secret, refused_connection,
};

/// The maximum number of different refusals that are kept.
const MAX_REFUSED: usize = 64;

/// Why a connection was refused that a grant would open.
pub(crate) const NOT_GRANTED: &str = "it is not granted";

/// Why no grant opens a host that stands in for that of a secret.
const PLACEHOLDER_HOST: &str = "it stands in for the host in a variable that the script was not granted";

/// Shared by the thread that serves the network and the run.
#[derive(Default)]
pub(super) struct NetworkLog(Mutex<NetworkReport>);

impl NetworkLog {
    pub(super) fn count_connection(&self) {
        self.update(|report| report.connections += 1);
    }

    pub(super) fn count_sent(&self, bytes: usize) {
        self.update(|report| report.sent_bytes += bytes as u64);
    }

    pub(super) fn count_received(&self, bytes: usize) {
        self.update(|report| report.received_bytes += bytes as u64);
    }

    /// A name that is not granted was looked up.
    pub(super) fn refuse_name(&self, name: &str, rules: &EgressRules) {
        self.refuse(name, None, NOT_GRANTED.into(), Some(rules.permission_for(name, None)));
    }

    /// A connection to a host and port that are not granted.
    pub(super) fn refuse_connection(&self, host: &str, port: u16, rules: &EgressRules) {
        let permission = rules.permission_for(host, Some(port));
        self.refuse(host, Some(port), NOT_GRANTED.into(), Some(permission));
    }

    /// Connections to a host and port at which nothing is in the network of the script.
    pub(super) fn miss(&self, host: &str, port: u16, count: u64, rules: &EgressRules) {
        let permission = rules.permission_for(host, Some(port));
        let mut refused = refused_connection(host, Some(port), NOT_GRANTED.into(), Some(permission));
        refused.count = count;
        self.add_refused(refused);
    }

    /// A connection to a granted host, which has an address that is not the public internet.
    pub(super) fn refuse_address(
        &self,
        host: &str,
        (address, port): (IpAddr, u16),
        kind: &str,
        rules: &EgressRules,
    ) {
        let permission = rules.permission_for(&address.to_string(), Some(port));
        self.refuse(host, Some(port), format!("it is at {address}, {kind}"), Some(permission));
    }

    /// A connection to a granted host that was ended for what was sent on it.
    pub(super) fn refuse_content(&self, host: &str, port: u16, refusal: &Refusal) {
        self.refuse(host, Some(port), refusal.reason(), None);
    }

    /// An answer of a granted host that the script did not get.
    pub(super) fn refuse_answer(&self, host: &str, port: u16, reason: &str) {
        self.refuse(host, Some(port), reason.to_owned(), None);
    }

    /// A connection to a granted host that could not be made.
    pub(super) fn fail(&self, host: &str, port: u16, error: &std::io::Error) {
        self.refuse(host, Some(port), format!("the host program failed to reach it: {error}"), None);
    }

    /// The placeholder of a secret was sent to a host that the secret is not for.
    pub(super) fn misplace(&self, secret: &str, host: &str) {
        let sent = misplaced_secret(secret, host);
        self.update(|report| {
            if report.misplaced.len() < MAX_REFUSED && !report.misplaced.contains(&sent) {
                report.misplaced.push(sent);
            }
        });
    }

    /// A TLS connection to the host of a secret, which was opened.
    pub(super) fn open(&self, host: &str) {
        self.update(|report| {
            if !report.opened.iter().any(|known| known == host) {
                report.opened.push(host.to_owned());
            }
        });
    }

    /// A TLS connection to the host of a secret, which was passed on as it is.
    pub(super) fn pass_unopened(&self, host: &str) {
        self.update(|report| {
            if !report.unopened.iter().any(|known| known == host) {
                report.unopened.push(host.to_owned());
            }
        });
    }

    /// What was logged since the last report.
    pub(super) fn take_report(&self) -> NetworkReport {
        let mut taken = NetworkReport::default();
        self.update(|report| taken = std::mem::take(report));
        taken
    }

    fn refuse(&self, host: &str, port: Option<u16>, reason: String, permission: Option<String>) {
        self.add_refused(refused_connection(host, port, reason, permission));
    }

    fn add_refused(&self, mut refused: RefusedConnection) {
        if is_placeholder_host(&refused.host) {
            PLACEHOLDER_HOST.clone_into(&mut refused.reason);
            refused.permission = None;
        }
        self.update(|report| {
            report.refused_count += refused.count;
            let has_room = report.refused.len() < MAX_REFUSED;
            match report.refused.iter_mut().find(|known| is_same(known, &refused)) {
                Some(known) => known.count += refused.count,
                None if has_room => report.refused.push(refused),
                None => {}
            }
        });
    }

    fn update(&self, change: impl FnOnce(&mut NetworkReport)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Whether both are about the same, however often each was tried.
fn is_same(one: &RefusedConnection, other: &RefusedConnection) -> bool {
    one.host == other.host
        && one.port == other.port
        && one.reason == other.reason
        && one.permission == other.permission
}
