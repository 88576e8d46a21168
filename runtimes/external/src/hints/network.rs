//! The hint for a script that missed the network: from what its own network observed, or, without namespaces, from the words of programs.

use crate::egress::NOT_GRANTED;
use crate::hints::words::{last_lines, matches_any};
use crate::permission_hint::{Help, permission_hint};
use metier_core::host::{NetworkReport, RefusedConnection, SkillContext};
use metier_core::policy::{Access, Permission};

/// How programs report that there is no network, in lower case.
const NETWORK_TEXTS: &str = "could not resolve host|couldn't resolve host|couldn't connect to server|name resolution|\
    name or service not known|gaierror|eai_again|enotfound|failed to establish a new connection|urlopen error|\
    /dev/tcp/|/dev/udp/|connect eperm|listen eperm|bind eperm|operation not permitted+socket|\
    operation not permitted+connect|operation not permitted+dial tcp|uv_interface_addresses|\
    typeerror: fetch failed";

/// The network of a run, as far as hints have to know it.
#[derive(Clone, Copy)]
pub(crate) struct RunNetwork<'a> {
    /// What the run did in a network of its own, with granted hosts only or with none.
    pub(crate) report: Option<&'a NetworkReport>,
    /// Whether what it tried was observed, or could have been.
    pub(crate) is_observable: bool,
}

/// The hint about the network for a script of this output, which counts only where nothing was observed.
pub(crate) fn network_hint(ctx: &SkillContext, text: &str, network: RunNetwork<'_>) -> Option<Help> {
    match network.report {
        Some(report) => refused_hosts_hint(ctx, report).or_else(|| other_refusal_hint(ctx, report)),
        None => unobserved_hint(ctx, text, network),
    }
}

/// The hint from the last lines of an output, where nothing could be observed.
pub(crate) fn unobserved_hint(ctx: &SkillContext, text: &str, network: RunNetwork<'_>) -> Option<Help> {
    let is_about_network = || {
        let lines: Vec<&str> = last_lines(text).collect();
        matches_any(&lines.join("\n").to_lowercase(), NETWORK_TEXTS)
    };
    if network.is_observable || !is_about_network() {
        return None;
    }
    let (help, hint) = permission_hint(ctx, &Access::network())?;
    Some((format!("the sandbox allows no network; if the script needs it, {help}"), hint))
}

/// The hint for the last connection that was refused for another reason than a missing grant.
fn other_refusal_hint(ctx: &SkillContext, network: &NetworkReport) -> Option<Help> {
    let refused = network.refused.last()?;
    let reason = &refused.reason;
    let Some(permission) = &refused.permission else {
        return Some((format!("the script tried {refused}, and was refused: {reason}"), None));
    };
    let (help, hint) = permission_hint(ctx, &Access::from(&permission.parse::<Permission>().ok()?))?;
    Some((format!("the script tried {refused}: {reason}; if the script needs it, {help}"), hint))
}

/// The hint with the grants for all hosts that a script tried and that are not granted.
pub(crate) fn refused_hosts_hint(ctx: &SkillContext, network: &NetworkReport) -> Option<Help> {
    let (tried, grants) = tried_hosts(network)?;
    let ungranted = || network.refused.iter().filter(|refused| is_ungranted(refused));
    let needs = ungranted().filter_map(|refused| refused.permission.as_ref()?.parse::<Permission>().ok());
    let mut helps = needs.filter_map(|need| permission_hint(ctx, &Access::from(&need)));
    let (help, hint) = helps.next()?;
    // A skill that lists its permissions has to list these as well.
    let is_plain = help.starts_with("grant ") && helps.all(|(help, _)| help.starts_with("grant "));
    let help = if is_plain { grants } else { help };
    let needed = if ungranted().count() == 1 { "it" } else { "them" };
    Some((format!("the script tried {tried}; if the script needs {needed}, {help}"), hint))
}

/// Whether a grant is all that was missing.
pub(crate) fn is_ungranted(refused: &RefusedConnection) -> bool {
    refused.reason == NOT_GRANTED && refused.permission.is_some()
}

/// What a script tried of hosts that are not granted, and the grants that would open them, as parts of a sentence.
pub(crate) fn tried_hosts(network: &NetworkReport) -> Option<(String, String)> {
    /// More would be a list that nobody reads.
    const MAX_NAMED: usize = 8;
    let ungranted: Vec<_> = network.refused.iter().filter(|refused| is_ungranted(refused)).collect();
    let named = ungranted.iter().take(MAX_NAMED);
    let others = ungranted.len().saturating_sub(MAX_NAMED);
    let others = (others > 0).then(|| format!("{others} more"));
    let tried = named.clone().map(ToString::to_string).chain(others).collect::<Vec<_>>().join(", ");
    let mut permissions: Vec<&str> = named.filter_map(|refused| refused.permission.as_deref()).collect();
    permissions.dedup();
    let reason = match ungranted.len() {
        0 => return None,
        1 => "it is not granted",
        _ => "they are not granted",
    };
    Some((format!("{tried}: {reason}"), format!("grant {}", permissions.join(", "))))
}
