//! The hint for a script that missed the network: which host it tried, and which grant would open that.

use crate::egress::NOT_GRANTED;
use crate::hints::permission_hint::{Help, permission_hint};
use crate::hints::script_text::ScriptText;
use crate::hints::words::{MAX_LAST_BYTES, contains_word, last_lines, matches_any, searched_end};
use metier_core::host::{NetworkReport, RefusedConnection, SkillContext};
use metier_core::policy::{Access, Permission};

/// How programs report that there is no network.
pub(crate) const NETWORK_TEXTS: &[&[&str]] = &[
    &["could not resolve host"],
    &["couldn't resolve host"],
    &["couldn't connect to server"],
    &["name resolution"],
    &["name or service not known"],
    &["gaierror"],
    &["eai_again"],
    &["getaddrinfo enotfound"],
    &["code: 'enotfound'"],
    &["failed to establish a new connection"],
    &["urlopen error"],
    &["/dev/tcp/"],
    &["/dev/udp/"],
    &["connect eperm"],
    &["listen eperm"],
    &["bind eperm"],
    &["operation not permitted", "socket"],
    &["operation not permitted", "connect"],
    &["operation not permitted", "dial tcp"],
    &["uv_interface_addresses"],
    &["typeerror: fetch failed"],
];

/// How programs report a connection that a network with granted hosts only does not have, besides those of `NETWORK_TEXTS`.
const UNREACHABLE_TEXTS: &[&[&str]] = &[
    &["network is unreachable"],
    &["enetunreach"],
    &["connection refused"],
    &["econnrefused"],
    &["connection reset"],
    &["econnreset"],
    &["fetch failed"],
    &["failed to connect"],
    &["could not connect"],
];

/// The words that programs write where they have no network and for no other reason, besides `fetch failed`.
const NO_NETWORK_TEXTS: &[&[&str]] = &[
    &["could not resolve host"],
    &["couldn't resolve host"],
    &["eai_again"],
    &["getaddrinfo enotfound"],
    &["temporary failure in name resolution"],
    &["name or service not known"],
    &["gaierror"],
    &["failed to establish a new connection"],
    &["urlopen error"],
];

/// What the end of an output has in it if it has one of these texts, as programs write them.
const NO_NETWORK_ENDS: [&[u8]; 9] = [
    b"fetch failed",
    b"resolve host",
    b"EAI_AGAIN",
    b"ENOTFOUND",
    b"name resolution",
    b"service not known",
    b"gaierror",
    b"new connection",
    b"urlopen error",
];

/// The network of a run, as far as hints have to know it.
#[derive(Clone, Copy)]
pub(crate) struct RunNetwork<'a> {
    /// What the run did in a network of its own, with granted hosts only or with none.
    pub(crate) report: Option<&'a NetworkReport>,
    /// Whether a script here could reach single hosts.
    pub(crate) can_name_hosts: bool,
}

impl RunNetwork<'_> {
    /// Whether it could reach hosts that were granted.
    pub(crate) fn has_hosts(self) -> bool {
        self.report.is_some_and(|report| !report.hosts.is_empty())
    }

    /// Whether nothing is known of what it tried.
    pub(crate) fn is_unobserved(self) -> bool {
        self.report.is_none_or(|report| report.hosts.is_empty() && report.refused.is_empty())
    }
}

/// The hint for a script with a network of its own that failed with an error of the network: what it tried, and which grant would open
/// that. `text` is in lower case.
pub(crate) fn hosts_hint(ctx: &SkillContext, text: &str, network: &NetworkReport) -> Option<Help> {
    let is_about_network = matches_any(text, NETWORK_TEXTS) || matches_any(text, UNREACHABLE_TEXTS);
    // A name without a dot may be any other word.
    let is_named = |refused: &&RefusedConnection| {
        refused.host.contains('.') && contains_word(text, &refused.host.to_lowercase())
    };
    let named = network.refused.iter().rev().find(is_named);
    let refused = named.or_else(|| network.refused.last().filter(|_| is_about_network));
    if refused.is_some_and(is_ungranted) {
        return refused_hosts_hint(ctx, network);
    }
    if let Some(refused) = refused {
        let Some(permission) = &refused.permission else {
            return Some((format!("the script tried {refused}, and was refused: {}", refused.reason), None));
        };
        let need = permission.parse::<Permission>().ok()?.as_access();
        let (help, hint) = permission_hint(ctx, &need)?;
        let reason = &refused.reason;
        return Some((format!("the script tried {refused}: {reason}; if the script needs it, {help}"), hint));
    }
    (is_about_network && !network.hosts.is_empty()).then(|| {
        let hosts = network.hosts.join(", ");
        let text = format!(
            "the script reaches only the hosts that are granted ({hosts}), at the ports 80 and 443 unless the grant names one; the \
             permission net:HOST opens another host, and net:HOST:PORT another port"
        );
        (text, None)
    })
}

/// The hint with the grants for all hosts that a script tried and that are not granted.
pub(crate) fn refused_hosts_hint(ctx: &SkillContext, network: &NetworkReport) -> Option<Help> {
    let (tried, grants) = tried_hosts(network)?;
    let ungranted = || network.refused.iter().filter(|refused| is_ungranted(refused));
    let needs = ungranted().filter_map(|refused| refused.permission.as_ref()?.parse::<Permission>().ok());
    let mut helps = needs.filter_map(|need| permission_hint(ctx, &need.as_access()));
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

/// The hint for a script without network that says which host it did not reach.
pub(crate) fn named_host_hint(ctx: &SkillContext, text: &str) -> Option<Help> {
    let (host, port) = text.lines().rev().find_map(unreached_host)?;
    host_hint(ctx, host, port)
}

/// The hint for a script without network that says no more than Node does: `fetch failed`, at the end of a line.
pub(crate) fn fetch_hint(ctx: &SkillContext, text: &str) -> Option<Help> {
    if last_lines(text).any(is_failed_fetch) { no_network_hint(ctx) } else { None }
}

/// The hint for a script without a network that needs this host; `None` if it has it.
pub(crate) fn host_hint(ctx: &SkillContext, host: &str, port: u16) -> Option<Help> {
    let (help, hint) = permission_hint(ctx, &Access::connection(host.to_ascii_lowercase(), port))?;
    Some((format!("the sandbox allows no network; if the script needs {host}, {help}"), hint))
}

/// The hint for a script that needs a network and has none, whatever host it tried; `None` if it has one.
pub(crate) fn no_network_hint(ctx: &SkillContext) -> Option<Help> {
    let (help, hint) = permission_hint(ctx, &Access::network())?;
    Some((format!("the sandbox allows no network; if the script needs it, {help}"), hint))
}

/// Whether an output may say that there is no network, before anything is done with it.
pub(crate) fn mentions_no_network(output: &[u8]) -> bool {
    let end = &output[output.len().saturating_sub(MAX_LAST_BYTES)..];
    NO_NETWORK_ENDS.iter().any(|words| memchr::memmem::find(end, words).is_some())
}

/// The hint for a script without a network, of the last lines of an output that may be any data: of words that nothing but a missing
/// network produces, and if the script uses a network at all.
pub(crate) fn lost_network_hint(
    ctx: &SkillContext,
    script: &ScriptText<'_>,
    text: &str,
    network: RunNetwork<'_>,
) -> Option<Help> {
    let is_certain = |line: &&str| {
        matches_any(&line.to_lowercase(), NO_NETWORK_TEXTS)
            || is_failed_fetch(line)
            || line.contains("\"fetch failed\"")
    };
    let line = last_lines(searched_end(text)).find(is_certain)?;
    if let Some(report) = network.report.filter(|report| !report.refused.is_empty()) {
        return refused_hosts_hint(ctx, report);
    }
    let without_name = no_network_hint(ctx).filter(|_| network.is_unobserved() && script.uses_network())?;
    named_host_hint(ctx, line).filter(|_| network.can_name_hosts).or(Some(without_name))
}

/// Whether a line ends with the message of Node for each failure of `fetch`, and is not about what git fetches.
fn is_failed_fetch(line: &str) -> bool {
    let line = line.trim_end_matches(['.', ',', '"', '\'', ')', '}', ']']);
    let is_of_git = |before: &str| before.trim_end().ends_with("git");
    line.strip_suffix("fetch failed").is_some_and(|before| {
        !is_of_git(before) && !before.ends_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_')
    })
}

/// The host, and its port, that a line says could not be looked up or connected to.
fn unreached_host(line: &str) -> Option<(&str, u16)> {
    const HTTPS: u16 = 443;
    const SSH: u16 = 22;
    /// What stands before the name in the texts of Node, curl, git, wget, Go, `requests` and `ssh`, and the port of what connects.
    const BEFORE: [(&str, u16); 8] = [
        ("getaddrinfo EAI_AGAIN ", HTTPS),
        ("getaddrinfo ENOTFOUND ", HTTPS),
        ("ould not resolve host: ", HTTPS),
        ("unable to resolve host address ", HTTPS),
        ("dial tcp: lookup ", HTTPS),
        ("HTTPSConnectionPool(host=", HTTPS),
        ("HTTPConnectionPool(host=", HTTPS),
        ("ssh: Could not resolve hostname ", SSH),
    ];
    let (rest, usual_port) =
        BEFORE.iter().find_map(|(words, port)| line.split_once(words).map(|(_, rest)| (rest, *port)))?;
    let rest = rest.trim_start_matches(['\'', '"', '‘', '`']);
    let is_part = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
    let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let host = rest[..end].trim_end_matches('.');
    let port = rest[end..].strip_prefix("', port=").and_then(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    });
    // A name without a dot may be any other word.
    (host.contains('.') && host.len() <= 253).then_some((host, port.unwrap_or(usual_port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unreached_host_is_found_in_the_words_of_many_tools() {
        for (line, host) in [
            ("Error: getaddrinfo EAI_AGAIN api.x.com", ("api.x.com", 443)),
            ("  [cause]: Error: getaddrinfo ENOTFOUND api.x.com", ("api.x.com", 443)),
            ("curl: (6) Could not resolve host: api.x.com", ("api.x.com", 443)),
            ("fatal: unable to access 'https://x.com/a/': Could not resolve host: x.com", ("x.com", 443)),
            ("wget: unable to resolve host address ‘x.com’", ("x.com", 443)),
            ("dial tcp: lookup api.x.com: Temporary failure in name resolution", ("api.x.com", 443)),
            ("HTTPSConnectionPool(host='api.x.com', port=8443): Max retries exceeded", ("api.x.com", 8443)),
            ("HTTPConnectionPool(host='api.x.com', port=80): Max retries exceeded", ("api.x.com", 80)),
            ("ssh: Could not resolve hostname x.com: Temporary failure in name resolution", ("x.com", 22)),
        ] {
            assert_eq!(unreached_host(line), Some(host), "{line}");
        }
        for line in
            ["", "getaddrinfo EAI_AGAIN", "Could not resolve host: localhost", "socket.gaierror: [Errno -3]"]
        {
            assert_eq!(unreached_host(line), None, "{line}");
        }
    }

    #[test]
    fn a_failed_fetch_is_the_one_of_node() {
        for line in [
            "fetch failed",
            "TypeError: fetch failed",
            "Error: fetch failed.",
            "{\"error\":\"fetch failed\"}",
            "  \"error\": \"fetch failed\",",
        ] {
            assert!(is_failed_fetch(line), "{line}");
        }
        for line in ["prefetch failed", "git fetch failed", "fetch failed: HTTP 404", "pre-fetch failed", ""]
        {
            assert!(!is_failed_fetch(line), "{line}");
        }
    }
}
