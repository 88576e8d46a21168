//! How calls authenticate: the schemes of a description that a header or a parameter can carry, each with a secret.

use serde_json::{Map, Value as Json};

use super::document::{Document, fields, items, text};
use super::operation::Operation;
use metier_core::excerpt::shorten;
use metier_core::policy::is_script_header;

/// The most schemes that a description declares, and that one operation lists.
const MAX_SCHEMES: usize = 50;
const MAX_LISTED: usize = 50;
/// Why an operation is left out that needs a token which calls do not get by themselves.
pub(super) const OAUTH: &str = "it needs OAuth 2";
pub(super) const OPENID_CONNECT: &str = "it needs OpenID Connect";
/// The most bytes of the name of a header, a parameter or a scheme.
const MAX_NAME: usize = 80;

/// Where a call carries a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenApiAuthentication {
    /// `Authorization: Bearer SECRET`.
    Bearer,
    /// `Authorization: Basic SECRET`; the secret is `user:password` in base64.
    Basic,
    /// The secret alone, in the header of that name.
    Header(String),
    /// The secret alone, in the parameter of that name after the path.
    Query(String),
}

impl OpenApiAuthentication {
    /// Whether a call can carry a secret there.
    pub(super) fn is_possible(&self) -> bool {
        match self {
            Self::Bearer | Self::Basic => true,
            Self::Header(name) => name.len() <= MAX_NAME && is_script_header(name) && !name.contains('$'),
            Self::Query(name) => (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control),
        }
    }

    /// The end of the name of its secret.
    fn suffix(&self) -> &'static str {
        match self {
            Self::Bearer => "TOKEN",
            Self::Basic => "CREDENTIALS",
            Self::Header(_) | Self::Query(_) => "API_KEY",
        }
    }
}

/// A secret that calls carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Credential {
    /// The name of the secret.
    pub(super) secret: String,
    pub(super) place: OpenApiAuthentication,
}

impl Credential {
    /// What the secret is, for whoever sets it.
    pub(super) fn description(&self, service: &str) -> String {
        match &self.place {
            OpenApiAuthentication::Bearer => format!("A token for {service}"),
            OpenApiAuthentication::Basic => format!("`user:password` for {service}, in base64"),
            OpenApiAuthentication::Header(name) => format!("A key for {service}: the whole header {name}"),
            OpenApiAuthentication::Query(name) => format!("A key for {service}: the parameter {name}"),
        }
    }
}

/// The schemes of a description.
pub(super) struct SecuritySchemes<'d> {
    document: &'d Document,
    /// By their names: what calls carry, or why they cannot.
    schemes: Vec<(&'d str, Result<Credential, String>)>,
    /// What all calls carry, whatever is written.
    stated: Option<Credential>,
}

impl<'d> SecuritySchemes<'d> {
    /// `prefix` begins the names of secrets.
    pub(super) fn read(document: &'d Document, prefix: &str, stated: Option<&OpenApiAuthentication>) -> Self {
        let written = document.map(&["components", "securitySchemes"]).iter().take(MAX_SCHEMES);
        let places: Vec<(&str, Result<OpenApiAuthentication, String>)> = written
            .map(|(name, scheme)| {
                (
                    name.as_str(),
                    document.resolve(scheme).map_or_else(|fault| Err(fault.reason().to_owned()), place),
                )
            })
            .collect();
        let count = |suffix: &str| {
            places
                .iter()
                .filter(|(_, place)| place.as_ref().is_ok_and(|place| place.suffix() == suffix))
                .count()
        };
        let mut schemes: Vec<(&str, Result<Credential, String>)> = Vec::new();
        for (name, place) in &places {
            let credential = place.clone().map(|place| {
                let word =
                    if count(place.suffix()) == 1 { place.suffix().to_owned() } else { variable_name(name) };
                let secret = format!("{prefix}_{word}");
                let is_used = |secret: &str| {
                    schemes.iter().any(|(_, other)| other.as_ref().is_ok_and(|other| other.secret == secret))
                };
                let numbered =
                    std::iter::once(secret.clone()).chain((2..).map(|number| format!("{secret}_{number}")));
                let secret = numbered.into_iter().find(|secret| !is_used(secret)).unwrap_or(secret);
                Credential { secret, place }
            });
            schemes.push((name, credential));
        }
        let stated = stated
            .map(|place| Credential { secret: format!("{prefix}_{}", place.suffix()), place: place.clone() });
        Self { document, schemes, stated }
    }

    /// What a call of the operation carries: the first alternative that calls can have. Or why there is none.
    pub(super) fn of_operation(&self, operation: &Operation<'d>) -> Result<Vec<&Credential>, String> {
        if let Some(stated) = &self.stated {
            return Ok(vec![stated]);
        }
        let alternatives = operation.get("security").or_else(|| self.document.root().get("security"));
        let alternatives = items(alternatives);
        let mut reasons = Vec::new();
        for alternative in alternatives.iter().take(MAX_LISTED) {
            match self.of_alternative(fields(Some(alternative))) {
                Ok(credentials) => return Ok(credentials),
                Err(reason) => reasons.push(reason),
            }
        }
        reasons.into_iter().next().map_or_else(|| Ok(Vec::new()), Err)
    }

    fn of_alternative(&self, schemes: &Map<String, Json>) -> Result<Vec<&Credential>, String> {
        let mut credentials: Vec<&Credential> = Vec::new();
        for name in schemes.keys().take(MAX_LISTED) {
            let Some((_, scheme)) = self.schemes.iter().find(|(known, _)| known == name) else {
                return Err("it needs an authentication that the description does not define".to_owned());
            };
            let credential = scheme.as_ref().map_err(Clone::clone)?;
            if credentials.iter().any(|other| is_same_place(&other.place, &credential.place)) {
                return Err("it needs two secrets in the same place".to_owned());
            }
            credentials.push(credential);
        }
        Ok(credentials)
    }
}

/// Whether two secrets would stand in one header or parameter.
fn is_same_place(one: &OpenApiAuthentication, other: &OpenApiAuthentication) -> bool {
    let place = |at: &OpenApiAuthentication| match at {
        OpenApiAuthentication::Bearer | OpenApiAuthentication::Basic => (true, "authorization".to_owned()),
        OpenApiAuthentication::Header(name) => (true, name.to_ascii_lowercase()),
        OpenApiAuthentication::Query(name) => (false, name.clone()),
    };
    place(one) == place(other)
}

/// Where a scheme puts its secret, or why calls cannot.
fn place(scheme: &Json) -> Result<OpenApiAuthentication, String> {
    let scheme = fields(Some(scheme));
    let name = || text(scheme, "name").unwrap_or_default().to_owned();
    let place = match (text(scheme, "type").unwrap_or_default(), text(scheme, "in")) {
        ("http", _) => match text(scheme, "scheme").unwrap_or_default().to_ascii_lowercase().as_str() {
            "bearer" => OpenApiAuthentication::Bearer,
            "basic" => OpenApiAuthentication::Basic,
            other => return Err(format!("it needs the HTTP authentication {}", excerpt(other))),
        },
        ("apiKey", Some("header")) => OpenApiAuthentication::Header(name()),
        ("apiKey", Some("query")) => OpenApiAuthentication::Query(name()),
        ("apiKey", Some("cookie")) => return Err("it needs a key in a cookie".to_owned()),
        ("oauth2", _) => return Err(OAUTH.to_owned()),
        ("openIdConnect", _) => return Err(OPENID_CONNECT.to_owned()),
        ("mutualTLS", _) => return Err("it needs a certificate of the caller".to_owned()),
        (other, _) => return Err(format!("it needs an authentication of the type {}", excerpt(other))),
    };
    if place.is_possible() {
        return Ok(place);
    }
    Err("it needs a key in a header or parameter that calls cannot set".to_owned())
}

/// A text as a part of the name of a variable: `apiKeyAuth` is `API_KEY_AUTH`.
pub(super) fn variable_name(text: &str) -> String {
    let mut name = String::new();
    let mut was_lower = false;
    for c in text.chars().take(MAX_NAME) {
        if !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && was_lower) {
            name.extend((!name.is_empty() && !name.ends_with('_')).then_some('_'));
        }
        name.extend(c.is_ascii_alphanumeric().then_some(c.to_ascii_uppercase()));
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    let name = name.trim_end_matches('_').chars().take(40).collect::<String>();
    if name.is_empty() { "SECRET".to_owned() } else { name }
}

fn excerpt(text: &str) -> String {
    shorten(text, 30).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(schemes: &Json, security: &Json) -> Document {
        let source =
            json!({"openapi": "3.0.0", "components": {"securitySchemes": schemes}, "security": security});
        Document::parse(source.to_string().as_bytes()).unwrap()
    }

    fn credentials(schemes: &Json, security: &Json) -> Result<Vec<String>, String> {
        let document = document(schemes, security);
        let schemes = SecuritySchemes::read(&document, "ACME", None);
        let found = schemes.of_operation(&Operation::default())?;
        Ok(found.iter().map(|it| format!("{} {:?}", it.secret, it.place)).collect())
    }

    #[test]
    fn an_operation_has_the_first_alternative_that_calls_can_carry() {
        let schemes = json!({
            "o": {"type": "oauth2", "flows": {}}, "oidc": {"type": "openIdConnect"}, "mtls": {"type": "mutualTLS"},
            "token": {"type": "http", "scheme": "Bearer"}, "login": {"type": "http", "scheme": "basic"}, "digest": {"type": "http", "scheme": "digest"},
            "apiKeyAuth": {"type": "apiKey", "in": "header", "name": "X-Key"}, "app": {"type": "apiKey", "in": "query", "name": "app key"},
            "c": {"type": "apiKey", "in": "cookie", "name": "s"}, "host": {"type": "apiKey", "in": "header", "name": "Host"},
            "crlf": {"type": "apiKey", "in": "header", "name": "a\r\nb"}, "auth": {"type": "apiKey", "in": "header", "name": "authorization"},
            "ref": {"$ref": "#/components/securitySchemes/login"}, "odd": 7,
        });
        let token = "ACME_TOKEN Bearer";
        let key = "ACME_API_KEY_AUTH Header(\"X-Key\")";
        for (security, expected) in [
            (json!([]), &[][..]),
            (json!([{}]), &[]),
            (json!([{"token": []}]), &[token]),
            (json!([{"o": ["read"]}, {"token": []}]), &[token]),
            (json!([{}, {"token": []}]), &[]),
            (json!([{"apiKeyAuth": [], "app": []}]), &[key, "ACME_APP Query(\"app key\")"]),
            (json!([{"ref": []}]), &["ACME_REF Basic"]),
            (json!([{"login": []}]), &["ACME_LOGIN Basic"]),
        ] {
            assert_eq!(credentials(&schemes, &security).unwrap(), expected, "{security}");
        }
        for (security, reason) in [
            (json!([{"o": []}]), "it needs OAuth 2"),
            (json!([{"oidc": []}]), "it needs OpenID Connect"),
            (json!([{"o": [], "token": []}]), "it needs OAuth 2"),
            (json!([{"mtls": []}]), "it needs a certificate"),
            (json!([{"digest": []}]), "it needs the HTTP authentication digest"),
            (json!([{"c": []}]), "it needs a key in a cookie"),
            (json!([{"host": []}]), "calls cannot set"),
            (json!([{"crlf": []}]), "calls cannot set"),
            (json!([{"auth": [], "token": []}]), "in the same place"),
            (json!([{"none": []}]), "does not define"),
            (json!([{"odd": []}]), "of the type"),
        ] {
            let found = credentials(&schemes, &security);
            assert!(found.as_ref().is_err_and(|found| found.contains(reason)), "{security}: {found:?}");
        }
    }

    #[test]
    fn what_is_stated_stands_for_what_is_written() {
        let document = document(&json!({"o": {"type": "oauth2"}}), &json!([{"o": []}]));
        let schemes = SecuritySchemes::read(&document, "ACME", Some(&OpenApiAuthentication::Bearer));
        assert_eq!(schemes.of_operation(&Operation::default()).unwrap()[0].secret, "ACME_TOKEN");
    }

    #[test]
    fn the_name_of_a_secret_is_that_of_a_variable() {
        for (text, name) in [
            ("apiKeyAuth", "API_KEY_AUTH"),
            ("X-Api-Key", "X_API_KEY"),
            ("$(rm -rf)\u{202e}", "RM_RF"),
            ("", "SECRET"),
            ("é", "SECRET"),
        ] {
            assert_eq!(variable_name(text), name, "{text}");
        }
        assert!(variable_name(&"a".repeat(10_000)).len() <= 40);
    }
}
