//! The base URL of declared calls: written in the contract, or made of settings.

use std::fmt;

use metier_core::policy::Permission;
use metier_core::template::{Reference, Resolver, Template, TemplatePiece};
use serde_json::Value as Json;

use super::references::{SECRETS, named_value};

/// The most bytes of a base URL.
const MAX_BYTES: u64 = 8 << 10;

/// The base URL of declared calls.
#[derive(Clone, Debug, PartialEq)]
pub struct BaseUrl(pub(super) Template);

/// A base URL with the values of its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedBaseUrl {
    /// The URL, without a slash at its end and without parameters.
    pub url: String,
    /// The parameters behind it, as they are written in the setting: addresses of webhooks have some.
    pub query: Option<String>,
}

impl BaseUrl {
    /// The URL, if it needs no setting.
    pub fn literal(&self) -> Option<&str> {
        match &self.0 {
            Template::Literal(url) => Some(url),
            _ => None,
        }
    }

    /// The permission to reach its host, if no setting decides which one that is.
    pub fn written_host(&self) -> Option<Permission> {
        let written = match &self.0 {
            Template::Literal(url) => url,
            Template::Pieces(pieces) => match pieces.first()? {
                TemplatePiece::Text(text)
                    if text.split_once("://").is_some_and(|(_, rest)| rest.contains('/')) =>
                {
                    text
                }
                _ => return None,
            },
            Template::Reference(_) => return None,
        };
        host_permission(written)
    }

    /// The references to settings and secrets in it.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.0.references()
    }

    /// Whether it is made of a secret, so that its host is known only to those who read it.
    pub fn has_secret(&self) -> bool {
        self.references().filter_map(named_value).any(|(root, _)| root == SECRETS)
    }

    /// The URL with the values that `lookup` finds. The error is a sentence that names the setting and never its value.
    pub fn resolve<'v>(
        &self,
        lookup: impl Fn(&Reference) -> Option<&'v Json>,
    ) -> Result<ResolvedBaseUrl, String> {
        let names: Vec<String> =
            self.references().filter_map(named_value).map(|it| it.1.to_owned()).collect();
        let of = if names.is_empty() { String::new() } else { format!(" of {}", names.join(" and ")) };
        let url = Resolver::new(lookup, MAX_BYTES).text(&self.0).ok().flatten();
        let url = url.as_ref().and_then(Json::as_str).map(str::trim).filter(|url| !url.is_empty());
        let Some(url) = url else { return Err(format!("the address{of} is not set")) };
        ResolvedBaseUrl::parse(url).ok_or_else(|| {
            format!(
                "the address{of} must be http:// or https://, a host and a plain path, without a user name"
            )
        })
    }
}

/// As it is written in a contract.
impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ResolvedBaseUrl {
    /// Parses a URL; `None` for one that a reader could take for another host or path.
    pub fn parse(url: &str) -> Option<Self> {
        let is_plain = |c: char| c.is_ascii_graphic() && !"\\#\"<>^`{|}".contains(c);
        let (address, query) = url.split_once('?').map_or((url, None), |(url, query)| (url, Some(query)));
        let address = address.trim_end_matches('/');
        let authority = url_authority(address)?;
        let path = address.split_once("://").map_or("", |(_, rest)| &rest[authority.len()..]);
        let is_path = path.split('/').skip(1).all(|segment| !matches!(segment, "" | "." | ".."));
        let is_valid = url.chars().all(is_plain)
            && !authority.contains('@')
            && is_path
            && !path.to_ascii_lowercase().contains("%2e")
            && Permission::net(authority).is_ok();
        is_valid.then(|| Self { url: address.to_owned(), query: query.map(str::to_owned) })
    }

    /// Its host, and the port if it is written.
    pub fn authority(&self) -> &str {
        url_authority(&self.url).unwrap_or(&self.url)
    }

    /// The path behind the host, without the slash at its beginning.
    pub fn path(&self) -> &str {
        let rest = self.url.split_once("://").map_or("", |(_, rest)| rest);
        rest.split_once('/').map_or("", |(_, path)| path)
    }

    /// The permission to reach its host.
    pub fn host_permission(&self) -> Option<Permission> {
        host_permission(&self.url)
    }
}

/// The permission to reach the host of a URL.
pub fn host_permission(url: &str) -> Option<Permission> {
    Permission::net(url_authority(url)?).ok()
}

/// The host, and the port if it is written, of a URL of the web.
pub(super) fn url_authority(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    rest.split('/').next().filter(|authority| !authority.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resolved(template: &str) -> Result<ResolvedBaseUrl, String> {
        let values = json!({
            "config": {
                "url": "https://ghe.example.com/api/v3/", "site": "datadoghq.eu", "number": 1, "empty": " ",
                "bare": "api.example.com", "user": "https://a@b.test", "up": "https://a.test/x/../y",
            },
            "secrets": {"hook": "https://hooks.test/T/B@1/x?sig=a%2Fb&v=1"},
        });
        let lookup = |reference: &Reference| {
            let (root, _) = named_value(reference)?;
            reference.resolve_in(&values[root])
        };
        BaseUrl(template.parse().unwrap()).resolve(lookup)
    }

    #[test]
    fn a_base_url_has_the_values_of_settings() {
        for (template, url, query) in [
            ("https://a.test/v1", "https://a.test/v1", None),
            ("$config.url", "https://ghe.example.com/api/v3", None),
            ("https://api.${config.site}/api", "https://api.datadoghq.eu/api", None),
            ("$secrets.hook", "https://hooks.test/T/B@1/x", Some("sig=a%2Fb&v=1")),
        ] {
            let expected = ResolvedBaseUrl { url: url.into(), query: query.map(str::to_owned) };
            assert_eq!(resolved(template), Ok(expected), "{template}");
        }
    }

    #[test]
    fn a_host_is_written_up_to_the_first_slash() {
        for (template, host) in [
            ("https://a.test/v1", Some("net:a.test")),
            ("https://a.test/orgs/${config.org}", Some("net:a.test")),
            ("https://a.test:8443/${config.org}", Some("net:a.test:8443")),
            ("https://a.test${config.rest}", None),
            ("https://a.${config.site}/x", None),
            ("$config.url", None),
        ] {
            let written = BaseUrl(template.parse().unwrap()).written_host();
            assert_eq!(written.map(|it| it.to_string()).as_deref(), host, "{template}");
        }
    }

    #[test]
    fn what_could_be_read_as_another_host_or_path_is_none() {
        for (template, words) in [
            ("$config.absent", "the address of absent is not set"),
            ("$config.empty", "the address of empty is not set"),
            ("$config.number", "the address of number is not set"),
            ("$config.bare", "the address of bare must be"),
            ("$config.user", "without a user name"),
            ("$config.up", "a plain path"),
            ("https://${config.user}", "a plain path"),
        ] {
            let error = resolved(template).unwrap_err();
            assert!(error.contains(words) && !error.contains("b.test"), "{template}: {error}");
        }
        for url in [
            "",
            "https://",
            "ftp://a.test",
            "https://a.test\\@b.test",
            "https://a.test/%2e%2e/x",
            "https://a.test#x",
            "https://a.test//x",
            "https://a .test",
            "https://a.test/\u{e9}",
            "https://a.test:99999",
        ] {
            assert_eq!(ResolvedBaseUrl::parse(url), None, "{url}");
        }
    }
}
