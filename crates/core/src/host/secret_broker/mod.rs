//! Secrets that a run uses in requests and never reads: it is given placeholders, and the host program puts the values into requests
//! to the hosts that the secrets are for.
//!
//! A placeholder has the length, the punctuation and the alphabet of its secret, and is new for each run. So a request has the same
//! form with either of them, however a client encodes it: its framing, its address and its body stay as they are.

mod placeholder;
mod replacement;

use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::redaction::base64_parts;
use crate::percent_encoding;
use crate::policy::HostScope;
use replacement::Replacement;

pub use replacement::StreamReplacement;

/// The port of a host that is named without one.
const DEFAULT_PORT: u16 = 443;

/// The secrets of one run that it uses and does not read.
#[derive(Default)]
pub struct SecretBroker(RwLock<Vec<Arc<BrokeredSecret>>>);

struct BrokeredSecret {
    name: String,
    value: String,
    placeholder: String,
    /// The hosts as permissions name them.
    hosts: Vec<String>,
}

/// The secrets of a run, as one host may see them.
pub struct HostSecrets {
    /// From placeholders to the values that are for this host.
    filling: Replacement,
    /// From the values of all secrets to their placeholders.
    hiding: Replacement,
    /// The others: what may not go there.
    foreign: Vec<Arc<BrokeredSecret>>,
}

impl SecretBroker {
    /// Whether the run has no such secret.
    pub fn is_empty(&self) -> bool {
        self.secrets().is_empty()
    }

    /// The placeholder of a secret that is for these hosts, the same one throughout the run. The error says why it can have none, as the
    /// end of a sentence.
    pub(super) fn placeholder(&self, name: &str, value: &str, hosts: &[String]) -> Result<String, String> {
        let mut secrets = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_same =
            |known: &&Arc<BrokeredSecret>| known.name == name && known.value == value && known.hosts == hosts;
        if let Some(known) = secrets.iter().find(is_same) {
            return Ok(known.placeholder.clone());
        }
        let placeholder = placeholder::generate(value)?;
        secrets.push(Arc::new(BrokeredSecret {
            name: name.to_owned(),
            value: value.to_owned(),
            placeholder: placeholder.clone(),
            hosts: hosts.to_vec(),
        }));
        Ok(placeholder)
    }

    /// What a host may see at this port.
    pub fn for_host(&self, host: &str, port: u16) -> HostSecrets {
        let secrets = self.secrets();
        let (own, foreign) =
            secrets.iter().cloned().partition::<Vec<_>, _>(|secret| secret.is_for(host, port));
        let filling = own.iter().flat_map(|secret| pairs(&secret.placeholder, &secret.value));
        let hiding = secrets.iter().flat_map(|secret| {
            let encoded = base64_forms(&secret.value).into_iter().zip(base64_forms(&secret.placeholder));
            pairs(&secret.value, &secret.placeholder).into_iter().chain(encoded)
        });
        HostSecrets { filling: Replacement::new(filling), hiding: Replacement::new(hiding), foreign }
    }

    /// Whether a secret is for this host at this port.
    pub fn has_secret_for(&self, host: &str, port: u16) -> bool {
        self.secrets().iter().any(|secret| secret.is_for(host, port))
    }

    /// The hosts of all secrets, without their ports.
    pub fn host_names(&self) -> Vec<String> {
        let secrets = self.secrets();
        let hosts = secrets.iter().flat_map(|secret| &secret.hosts);
        let mut names: Vec<String> = hosts
            .filter_map(|scope| HostScope::parse(scope).ok().map(|scope| scope.host.to_owned()))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The names of the secrets whose placeholders are in these bytes.
    pub fn placeholders_in(&self, bytes: &[u8]) -> Vec<String> {
        names_in(&self.secrets(), bytes, |secret| &secret.placeholder)
    }

    fn secrets(&self) -> Vec<Arc<BrokeredSecret>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl BrokeredSecret {
    fn is_for(&self, host: &str, port: u16) -> bool {
        self.hosts.iter().filter_map(|scope| HostScope::parse(scope).ok()).any(|scope| {
            let is_address = || scope.address().is_some_and(|own| host.parse() == Ok(own));
            scope.port.unwrap_or(DEFAULT_PORT) == port
                && (scope.host.eq_ignore_ascii_case(host) || is_address())
        })
    }
}

impl HostSecrets {
    /// Whether a secret is for this host.
    pub fn has_secrets(&self) -> bool {
        !self.filling.is_empty()
    }

    /// Puts the values in place of the placeholders; returns whether there was one.
    pub fn fill(&self, bytes: &mut [u8]) -> bool {
        self.filling.replace(bytes)
    }

    /// The value of a header with the values of the secrets. Credentials of the scheme Basic are base64.
    pub fn fill_header(&self, name: &str, value: &mut Vec<u8>) -> bool {
        const BASIC: &[u8] = b"basic ";
        let is_basic = name.eq_ignore_ascii_case("authorization")
            && value.get(..BASIC.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(BASIC));
        if is_basic && let Ok(mut plain) = STANDARD.decode(value[BASIC.len()..].trim_ascii()) {
            if !self.fill(&mut plain) {
                return false;
            }
            value.truncate(BASIC.len());
            value.extend(STANDARD.encode(plain).into_bytes());
            return true;
        }
        self.fill(value)
    }

    /// Puts placeholders in place of the values of all secrets of the run; returns whether there was one.
    pub fn hide(&self, bytes: &mut [u8]) -> bool {
        self.hiding.replace(bytes)
    }

    /// The same as [`fill`](Self::fill) for bytes that come piece by piece.
    pub fn fill_stream(&self) -> StreamReplacement {
        StreamReplacement::new(self.filling.clone())
    }

    /// The same as [`hide`](Self::hide) for bytes that come piece by piece.
    pub fn hide_stream(&self) -> StreamReplacement {
        StreamReplacement::new(self.hiding.clone())
    }

    /// The names of the secrets that are for other hosts and whose placeholders are in these bytes.
    pub fn misplaced(&self, bytes: &[u8]) -> Vec<String> {
        names_in(&self.foreign, bytes, |secret| &secret.placeholder)
    }

    /// Whether the value of a secret that is for another host is in these bytes.
    pub fn holds_foreign_value(&self, bytes: &[u8]) -> bool {
        !names_in(&self.foreign, bytes, |secret| &secret.value).is_empty()
    }
}

/// The names of the secrets of which a text is in these bytes, in a form in which requests have it.
fn names_in(secrets: &[Arc<BrokeredSecret>], bytes: &[u8], text: fn(&BrokeredSecret) -> &str) -> Vec<String> {
    let is_there = |secret: &&Arc<BrokeredSecret>| {
        let text = text(secret);
        forms(text)
            .into_iter()
            .chain(base64_forms(text))
            .any(|form| memchr::memmem::find(bytes, form.as_bytes()).is_some())
    };
    secrets.iter().filter(is_there).map(|secret| secret.name.clone()).collect()
}

/// Each form of the first text with the same form of the second one, which has the same punctuation.
fn pairs(from: &str, to: &str) -> Vec<(String, String)> {
    forms(from).into_iter().zip(forms(to)).collect()
}

/// A text as requests and answers have it: unchanged, in addresses and forms, in JSON, in HTML. Two texts of the same length and
/// punctuation have as many forms, of the same lengths, in the same order.
fn forms(text: &str) -> Vec<String> {
    /// The characters besides letters and digits that encoders leave as they are: RFC 3986, JavaScript, Python, HTML forms.
    const UNENCODED: [&str; 4] = ["-._~", "-._~!*'()", "-._~/", "-._*"];
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        return vec![text.to_owned()];
    }
    let mut forms = vec![text.to_owned()];
    for plain in UNENCODED {
        let encoded = percent_encoding::encode(text.as_bytes(), plain);
        forms.push(with_small_digits(&encoded));
        forms.push(encoded);
    }
    let in_json = text.replace('\\', "\\\\").replace('"', "\\\"");
    forms.push(in_json.replace('/', "\\/"));
    forms.push(in_json);
    forms.push(text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;"));
    forms
}

/// A text as base64 has it, of both alphabets and wherever it stands there.
fn base64_forms(text: &str) -> Vec<String> {
    let parts = base64_parts(text);
    let for_addresses = parts.clone().map(|part| part.replace('+', "-").replace('/', "_"));
    parts.into_iter().chain(for_addresses).collect()
}

/// The same with the digits of encoded bytes in small letters.
fn with_small_digits(encoded: &str) -> String {
    let mut left = 0_u8;
    let small = encoded.chars().map(|c| {
        let is_digit = left > 0;
        left = if c == '%' { 2 } else { left.saturating_sub(1) };
        if is_digit { c.to_ascii_lowercase() } else { c }
    });
    small.collect()
}
