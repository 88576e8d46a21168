//! Secrets that a run uses in requests and never reads: it is given placeholders, and the host program puts the values into requests
//! to the hosts that the secrets are for.
//!
//! A placeholder has the length, the punctuation and the alphabet of its secret, and is new for each run. So a request has the same
//! form with either of them, however a client encodes it: its framing, its address and its body stay as they are.

mod concealment;
mod forms;
mod messages;
mod placeholder;
mod replacement;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::run_id::RunId;
use crate::policy::HostScope;
use concealment::Concealment;
use forms::{forms, pairs};
use replacement::Replacement;

pub use concealment::StreamConcealment;
pub use messages::{is_dropped_header, unsearchable_answer};
pub use placeholder::{is_placeholder_host, random_stand_in};
pub use replacement::StreamReplacement;

/// The port of a host that is named without one.
const DEFAULT_PORT: u16 = 443;

/// The secrets that a run and those that it calls use and do not read.
#[derive(Default)]
pub struct SecretBroker(Mutex<BrokerState>);

#[derive(Default)]
struct BrokerState {
    secrets: Vec<Arc<BrokeredSecret>>,
    /// What was asked for since the last secret came.
    hosts: Vec<(HostKey, Arc<HostSecrets>)>,
}

/// The secrets of one run among those of its broker.
#[derive(Clone)]
pub struct RunSecrets {
    broker: Arc<SecretBroker>,
    run: RunId,
}

impl RunSecrets {
    /// Those of this run.
    pub(super) fn new(broker: Arc<SecretBroker>, run: RunId) -> Self {
        Self { broker, run }
    }

    /// Whether neither the run nor one that called it or that it called has any.
    pub fn is_empty(&self) -> bool {
        self.broker.is_empty()
    }

    /// What a host may see at this port.
    pub fn for_host(&self, host: &str, port: u16) -> Arc<HostSecrets> {
        self.broker.for_host(self.run, host, port)
    }

    /// Whether a secret is for this host at this port.
    pub fn has_secret_for(&self, host: &str, port: u16) -> bool {
        self.broker.has_secret_for(host, port)
    }

    /// The hosts of the secrets of the run, without their ports.
    pub fn host_names(&self) -> Vec<String> {
        self.broker.host_names(self.run)
    }

    /// The names of the secrets whose placeholders are in these bytes.
    pub fn placeholders_in(&self, bytes: &[u8]) -> Vec<String> {
        self.broker.placeholders_in(bytes)
    }
}

/// Of which run, which host and port.
type HostKey = (RunId, String, u16);

struct BrokeredSecret {
    /// The run that has the placeholder.
    run: RunId,
    name: String,
    value: String,
    placeholder: String,
    hosts: Vec<(String, u16)>,
}

/// The secrets of a run, as one host may see them.
pub struct HostSecrets {
    /// Whether one of them is for this host.
    has_secrets: bool,
    /// From placeholders to the values of the run that are for this host.
    filling: Replacement,
    /// From the values of all secrets to their placeholders.
    hiding: Concealment,
    /// The others: what may not go there.
    foreign: Vec<Arc<BrokeredSecret>>,
    foreign_values: Concealment,
}

impl SecretBroker {
    /// Whether there is no such secret.
    pub fn is_empty(&self) -> bool {
        self.lock().secrets.is_empty()
    }

    /// The placeholder that a run has of a secret that is for these hosts, the same one throughout. The error says why it can have none, as
    /// the end of a sentence.
    pub(super) fn placeholder(
        &self,
        run: RunId,
        (name, value): (&str, &str),
        hosts: &[String],
    ) -> Result<String, String> {
        let hosts: Vec<(String, u16)> = hosts.iter().filter_map(|host| parse_host(host)).collect();
        let mut state = self.lock();
        let is_same = |known: &&Arc<BrokeredSecret>| {
            known.run == run && known.name == name && known.value == value && known.hosts == hosts
        };
        if let Some(known) = state.secrets.iter().find(is_same) {
            return Ok(known.placeholder.clone());
        }
        let placeholder = placeholder::generate(value)?;
        let (name, value) = (name.to_owned(), value.to_owned());
        let secret = BrokeredSecret { run, name, value, placeholder: placeholder.clone(), hosts };
        state.secrets.push(Arc::new(secret));
        state.hosts.clear();
        Ok(placeholder)
    }

    /// What a host may see at this port of the secrets of a run.
    pub fn for_host(&self, run: RunId, host: &str, port: u16) -> Arc<HostSecrets> {
        let key = (run, host.to_ascii_lowercase(), port);
        let mut state = self.lock();
        if let Some((_, known)) = state.hosts.iter().find(|(known, _)| *known == key) {
            return known.clone();
        }
        let secrets = Arc::new(HostSecrets::new(&state.secrets, &key));
        state.hosts.push((key, secrets.clone()));
        secrets
    }

    /// Whether a secret is for this host at this port.
    pub fn has_secret_for(&self, host: &str, port: u16) -> bool {
        self.lock().secrets.iter().any(|secret| secret.is_for(host, port))
    }

    /// The hosts of all secrets of a run, without their ports.
    pub fn host_names(&self, run: RunId) -> Vec<String> {
        let state = self.lock();
        let own = state.secrets.iter().filter(|secret| secret.run == run);
        let mut names: Vec<String> =
            own.flat_map(|secret| &secret.hosts).map(|(host, _)| host.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The names of the secrets whose placeholders are in these bytes.
    pub fn placeholders_in(&self, bytes: &[u8]) -> Vec<String> {
        placeholders_in(&self.lock().secrets, bytes)
    }

    fn lock(&self) -> MutexGuard<'_, BrokerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The host and the port of a host as permissions name it.
fn parse_host(scope: &str) -> Option<(String, u16)> {
    let scope = HostScope::parse(scope).ok()?;
    Some((scope.host.to_ascii_lowercase(), scope.port.unwrap_or(DEFAULT_PORT)))
}

impl BrokeredSecret {
    fn is_for(&self, host: &str, port: u16) -> bool {
        self.hosts.iter().any(|(own, own_port)| {
            let is_address = || own.parse::<std::net::IpAddr>().is_ok_and(|own| host.parse() == Ok(own));
            *own_port == port && (own.eq_ignore_ascii_case(host) || is_address())
        })
    }
}

impl HostSecrets {
    fn new(secrets: &[Arc<BrokeredSecret>], (run, host, port): &HostKey) -> Self {
        let is_own = |secret: &Arc<BrokeredSecret>| secret.run == *run && secret.is_for(host, *port);
        let (own, foreign) = secrets.iter().cloned().partition::<Vec<_>, _>(is_own);
        let filling = own.iter().flat_map(|secret| pairs(&secret.placeholder, &secret.value));
        // What one run may use at the host is none of another host's, whichever run uses it there.
        let is_elsewhere = |secret: &&Arc<BrokeredSecret>| !secret.is_for(host, *port);
        Self {
            has_secrets: secrets.iter().any(|secret| secret.is_for(host, *port)),
            filling: Replacement::new(filling),
            hiding: concealment(secrets.iter()),
            foreign_values: concealment(foreign.iter().filter(is_elsewhere)),
            foreign,
        }
    }

    /// Whether a secret of the run, or of one that called it or that it called, is for this host.
    pub fn has_secrets(&self) -> bool {
        self.has_secrets
    }

    /// Puts the values in place of the placeholders; returns whether there was one.
    pub fn fill(&self, bytes: &mut [u8]) -> bool {
        self.filling.replace(bytes)
    }

    /// The value of a header with the values of the secrets. Credentials of the scheme Basic are base64, and may be one secret.
    pub fn fill_header(&self, name: &str, value: &mut Vec<u8>) -> bool {
        const BASIC: &[u8] = b"basic ";
        let is_basic = name.eq_ignore_ascii_case("authorization")
            && value.get(..BASIC.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(BASIC));
        if is_basic
            && let Ok(mut plain) = STANDARD.decode(value[BASIC.len()..].trim_ascii())
            && self.fill(&mut plain)
        {
            value.truncate(BASIC.len());
            value.extend(STANDARD.encode(plain).into_bytes());
            return true;
        }
        self.fill(value)
    }

    /// Puts placeholders in place of the values of all secrets; returns whether there was one.
    pub fn hide(&self, bytes: &mut [u8]) -> bool {
        self.hiding.conceal(bytes)
    }

    /// Whether the value of a secret is in these bytes.
    pub fn finds_value(&self, bytes: &[u8]) -> bool {
        self.hiding.finds(bytes)
    }

    /// Whether the value of a secret that is for another host is in these bytes.
    pub fn finds_foreign_value(&self, bytes: &[u8]) -> bool {
        self.foreign_values.finds(bytes)
    }

    /// The same as [`fill`](Self::fill) for bytes that come piece by piece.
    pub fn fill_stream(&self) -> StreamReplacement {
        StreamReplacement::new(self.filling.clone())
    }

    /// The same as [`hide`](Self::hide) for bytes that come piece by piece.
    pub fn hide_stream(&self) -> StreamConcealment {
        StreamConcealment::new(self.hiding.clone())
    }

    /// The names of the secrets that are for other hosts and whose placeholders are in these bytes.
    pub fn misplaced(&self, bytes: &[u8]) -> Vec<String> {
        placeholders_in(&self.foreign, bytes)
    }
}

fn concealment<'s>(secrets: impl Iterator<Item = &'s Arc<BrokeredSecret>>) -> Concealment {
    Concealment::new(secrets.map(|secret| (&*secret.value, &*secret.placeholder)))
}

/// The names of the secrets of which a placeholder is in these bytes, in a form in which requests have it.
fn placeholders_in(secrets: &[Arc<BrokeredSecret>], bytes: &[u8]) -> Vec<String> {
    let is_there = |secret: &&Arc<BrokeredSecret>| {
        forms(&secret.placeholder).iter().any(|form| memchr::memmem::find(bytes, form.as_bytes()).is_some())
    };
    secrets.iter().filter(is_there).map(|secret| secret.name.clone()).collect()
}
