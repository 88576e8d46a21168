//! The names that a script has looked up, each with an address of its own that stays the same in a run.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::dns_message::{Answer, QueryType};
use super::network_log::NetworkLog;
use super::rules::EgressRules;
use metier_core::policy::DEFAULT_PORTS;

/// The maximum number of names with an address.
const MAX_NAMES: usize = 1024;

/// The address before the first, from the range that the sandbox routes to its listeners.
const BASE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);

/// Every name that was looked up and is granted, or may be after a question, shared by the thread that answers and the run.
#[derive(Default)]
pub(super) struct NameTable(Mutex<Names>);

#[derive(Default)]
struct Names {
    names: Vec<String>,
    positions: HashMap<String, usize>,
}

impl NameTable {
    /// Answers a question for a name in lower case. A name that is not granted is logged.
    pub(super) fn resolve(
        &self,
        name: &str,
        kind: QueryType,
        rules: &EgressRules,
        log: &NetworkLog,
    ) -> Answer {
        if name == "localhost" {
            let address = Answer::Address(Ipv4Addr::LOCALHOST);
            return if kind == QueryType::A { address } else { Answer::Empty };
        }
        if !rules.names(name) && !rules.is_open_question(name, DEFAULT_PORTS[0]) {
            // Programs look up addresses by themselves, and further types only beside those.
            if kind != QueryType::Other {
                log.refuse_name(name, rules);
            }
            return Answer::NoSuchName;
        }
        if kind != QueryType::A {
            return Answer::Empty;
        }
        match self.lock().position(name).and_then(|position| u32::try_from(position).ok()) {
            Some(position) => Answer::Address(Ipv4Addr::from_bits(BASE.to_bits() + 1 + position)),
            None => Answer::Refused,
        }
    }

    /// The name that has this address in the network of the script, or the address itself.
    pub(super) fn host_at(&self, address: IpAddr) -> String {
        let name = match address {
            IpAddr::V4(address) => self.lock().name(address),
            IpAddr::V6(_) => None,
        };
        name.unwrap_or_else(|| address.to_string())
    }

    fn lock(&self) -> MutexGuard<'_, Names> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names {
    fn name(&self, address: Ipv4Addr) -> Option<String> {
        let position = address.to_bits().checked_sub(BASE.to_bits() + 1)?;
        self.names.get(usize::try_from(position).ok()?).cloned()
    }

    fn position(&mut self, name: &str) -> Option<usize> {
        if let Some(position) = self.positions.get(name) {
            return Some(*position);
        }
        let position = self.names.len();
        if position == MAX_NAMES {
            return None;
        }
        self.names.push(name.to_owned());
        self.positions.insert(name.to_owned(), position);
        Some(position)
    }
}
