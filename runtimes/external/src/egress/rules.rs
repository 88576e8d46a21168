//! Which hosts and ports a script may connect to.

use std::net::IpAddr;
use std::sync::Arc;

use super::host_approvals::HostApprovals;

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{
    HostLookup, RootCertificates, RunAuthority, RunSecrets, SkillContext, non_public_kind,
};
use metier_core::policy::{Access, DEFAULT_PORTS, HostScope, Permission, Permissions, RunPermissions};
use metier_sandbox::{EgressSockets, MAX_EGRESS_PORTS};

/// The hosts of a process whose permissions name hosts and do not open the whole network.
#[derive(Clone)]
pub(crate) struct EgressRules {
    permissions: Permissions,
    /// The grants that name hosts.
    granted: Vec<Permission>,
    pub(super) lookup: HostLookup,
    /// Hosts of the user's own configuration, whose addresses are not judged.
    configured: Vec<String>,
    /// The secrets that are put into requests to some of the hosts.
    pub(super) secrets: Option<RunSecrets>,
    /// The authorities that certify those hosts.
    pub(super) roots: RootCertificates,
    /// By which their connections over TLS are opened, if they are.
    pub(super) authority: Option<Arc<RunAuthority>>,
    /// The answers about hosts that are not granted, where a person is asked.
    pub(super) approvals: Option<Arc<HostApprovals>>,
}

impl EgressRules {
    /// `None` if these permissions open the whole network. Fails if they name too many ports.
    pub(crate) fn new(permissions: &Permissions, lookup: &HostLookup) -> Result<Option<Self>> {
        if permissions.allows(&Access::network()) {
            return Ok(None);
        }
        let granted = granted_hosts(permissions);
        let rules = Self {
            permissions: permissions.frozen(),
            granted,
            lookup: lookup.clone(),
            configured: Vec::new(),
            secrets: None,
            roots: RootCertificates::default(),
            authority: None,
            approvals: None,
        };
        let count = rules.ports().len();
        if count > MAX_EGRESS_PORTS {
            let sentence = format!(
                "the grants name hosts at {count} ports; an external script can be given at most {MAX_EGRESS_PORTS}"
            );
            return Err(SkillError::new(ErrorKind::Usage, sentence)
                .with_help("grant fewer ports, or the whole network with net"));
        }
        Ok(Some(rules))
    }

    /// The same where these hosts may be at any address, also on this machine or in its network.
    pub(crate) fn with_configured_hosts(self, hosts: Vec<String>) -> Self {
        Self { configured: hosts, ..self }
    }

    /// The same where the approver of this run is asked about other hosts, if it is one in which hosts are asked about.
    pub(crate) fn with_approvals(self, ctx: &SkillContext) -> Self {
        Self { approvals: HostApprovals::new(ctx), ..self }
    }

    /// The same with secrets that are put into requests, to hosts which these authorities certify.
    pub(crate) fn with_secrets(self, secrets: RunSecrets, roots: RootCertificates) -> Self {
        Self { secrets: Some(secrets), roots, ..self }
    }

    /// The same with an authority by which connections over TLS to hosts of secrets are opened.
    pub(crate) fn set_authority(&mut self, authority: Arc<RunAuthority>) {
        self.authority = Some(authority);
    }

    /// The hosts as they were granted, with their ports where they have any.
    pub(crate) fn host_names(&self) -> Vec<String> {
        let granted = self.granted.iter().filter_map(|permission| permission.scope().map(str::to_owned));
        granted.chain(self.approvals.iter().flat_map(|approvals| approvals.allowed_hosts())).collect()
    }

    /// The ports of all hosts, in their order.
    fn ports(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = self
            .scopes()
            .flat_map(|scope| scope.port.map_or(DEFAULT_PORTS.to_vec(), |port| vec![port]))
            .chain(self.approvals.iter().flat_map(|_| DEFAULT_PORTS))
            .collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// What is listened on for them.
    pub(crate) fn sockets(&self) -> EgressSockets {
        let is_host = |address: &IpAddr| !address.is_unspecified() && !address.is_multicast();
        EgressSockets {
            ports: self.ports(),
            addresses: self.scopes().filter_map(|scope| scope.address()).filter(is_host).collect(),
        }
    }

    /// Whether this host may be connected to at this port.
    pub(super) fn allows(&self, host: &str, port: u16) -> bool {
        self.permissions.allows(&Access::connection(host, port))
            || self.approvals.as_ref().is_some_and(|approvals| approvals.is_allowed(host, port))
    }

    /// Whether a person may be asked about this host at this port.
    pub(super) fn is_open_question(&self, host: &str, port: u16) -> bool {
        self.approvals.as_ref().is_some_and(|approvals| approvals.is_open(host, port))
    }

    /// The granted host that this name, its address and this port stand for.
    pub(super) fn granted_host(&self, host: &str, address: IpAddr, port: u16) -> Option<String> {
        if self.allows(host, port) {
            return Some(host.to_owned());
        }
        let is_own_name = address.is_loopback() && self.allows("localhost", port);
        is_own_name.then(|| "localhost".to_owned())
    }

    /// Whether this host may be connected to at any port.
    pub(super) fn names(&self, host: &str) -> bool {
        self.scopes().any(|scope| match scope.port {
            Some(port) => self.allows(host, port),
            None => DEFAULT_PORTS.into_iter().any(|port| self.allows(host, port)),
        })
    }

    /// What lies at an address of this host, in words, if it is not the public internet and no grant names it: `localhost` also
    /// opens to its own name.
    pub(super) fn refused_kind(&self, host: &str, address: IpAddr, port: u16) -> Option<&'static str> {
        if self.configured.iter().any(|known| host.eq_ignore_ascii_case(known)) {
            return None;
        }
        let kind = non_public_kind(address)?;
        let by_name = self.permissions.scoped_only();
        let is_own_name = host.eq_ignore_ascii_case("localhost") && address.to_canonical().is_loopback();
        let is_granted = by_name.allows(&Access::connection(address.to_string(), port))
            || is_own_name && by_name.allows(&Access::connection(host, port));
        (!is_granted).then_some(kind)
    }

    /// The permission that would allow a connection; to the ports of the web if the port is not known.
    pub(super) fn permission_for(&self, host: &str, port: Option<u16>) -> String {
        let need = Access::connection(host, port.unwrap_or(DEFAULT_PORTS[0]));
        need.narrowest_permission(self.permissions.protection()).to_string()
    }

    fn scopes(&self) -> impl Iterator<Item = HostScope<'_>> {
        self.granted.iter().filter_map(HostScope::from_permission)
    }
}

/// The permissions that name hosts.
fn granted_hosts(permissions: &Permissions) -> Vec<Permission> {
    let is_host = |permission: &Permission| HostScope::from_permission(permission).is_some();
    permissions.effective().into_iter().filter(is_host).collect()
}
