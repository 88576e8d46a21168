//! Passwords in addresses and in the settings of a connection, by which a value of the environment is known to be secret.

use crate::percent_encoding::decode_lenient;

/// The ends of names, without case and signs, whose values are passwords.
const PASSWORD_NAMES: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "pass",
    "pwd",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "accountkey",
    "secretkey",
    "privatekey",
    "signature",
    "credential",
];

/// Names that are such a name only as a whole.
const WHOLE_PASSWORD_NAMES: [&str; 2] = ["key", "sig"];

/// The passwords in a value: before the `@` of an address, and in pairs such as `password=x` of its query or of the settings of a
/// connection.
pub(super) fn passwords(value: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in value.match_indices("://") {
        let rest = &value[at + 3..];
        let authority = rest.split(['/', '?', '#', ' ']).next().unwrap_or(rest);
        // A password that nobody encoded may have these characters.
        let whole = rest.split([' ', '"', '\'', ',']).next().unwrap_or(rest);
        let userinfo = authority.rsplit_once('@').or_else(|| whole.rsplit_once('@'));
        let Some((userinfo, _)) = userinfo else { continue };
        match userinfo.split_once(':') {
            // The `@` is in a path.
            Some((user, password)) if user.contains(['/', '?', '#']) || is_port_and_path(password) => {}
            Some((user, password)) if !password.is_empty() => {
                found.push(password);
                if password == "x-oauth-basic" {
                    found.push(user);
                }
            }
            // A token alone: of the web nobody names a user without a password.
            Some((user, _)) if is_web(&value[..at]) => found.push(user),
            None if is_web(&value[..at]) && !userinfo.contains(['/', '?', '#']) => found.push(userinfo),
            _ => {}
        }
    }
    // `user/password@host`, as Oracle has it.
    if let Some((_, login)) = value.split_once("jdbc:oracle:thin:")
        && let Some((_, password)) = login.split('@').next().and_then(|user| user.split_once('/'))
    {
        found.push(password);
    }
    let is_separator = |c: char| matches!(c, '?' | '&' | ';' | '#' | ',') || c.is_whitespace();
    for pair in value.split(is_separator) {
        let Some((name, password)) = pair.split_once('=') else { continue };
        if is_password_name(name) {
            found.push(password.trim_matches(['"', '\'']));
        }
    }
    found.retain(|password| !password.is_empty());
    found
}

/// A part of an address as its program reads it: with the characters that `%` and two digits stand for.
pub(super) fn percent_decoded(text: &str) -> String {
    String::from_utf8_lossy(&decode_lenient(text.as_bytes())).into_owned()
}

/// Whether what follows a host and a colon begins with a port, so that the `@` is in the path.
fn is_port_and_path(text: &str) -> bool {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    end > 0 && text[end..].starts_with(['/', '?', '#'])
}

fn is_web(before: &str) -> bool {
    let start =
        before.rfind(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))).map_or(0, |at| at + 1);
    let scheme = before.get(start..).unwrap_or_default().to_ascii_lowercase();
    scheme.split('+').any(|part| ["http", "https", "ws", "wss"].contains(&part))
}

fn is_password_name(name: &str) -> bool {
    let name: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    PASSWORD_NAMES.iter().any(|known| name.ends_with(known)) || WHOLE_PASSWORD_NAMES.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_addresses_and_connections_are_found() {
        for (value, expected) in [
            ("postgres://me:hunter2@db/x", &["hunter2"][..]),
            ("redis://:hunter2@db/1", &["hunter2"]),
            ("https://TOKEN@host/x", &["TOKEN"]),
            ("git+https://TOKEN@host/x.git", &["TOKEN"]),
            ("https://TOKEN:@host", &["TOKEN"]),
            ("https://TOKEN:x-oauth-basic@host", &["x-oauth-basic", "TOKEN"]),
            ("jdbc:postgresql://db/x?user=me&password=hunter2&ssl=true", &["hunter2"]),
            ("jdbc:sqlserver://db;user=me;Password=hunter2;encrypt=true", &["hunter2"]),
            ("jdbc:oracle:thin:me/hunter2@//db:1521/x", &["hunter2"]),
            ("Server=db;User Id=me;Password=hunter2;", &["hunter2"]),
            ("Server=db;Uid=me;Pwd=hunter2", &["hunter2"]),
            ("host=db user=me password='hunter2' dbname=x", &["hunter2"]),
            ("DefaultEndpointsProtocol=https;AccountName=me;AccountKey=aHVudGVyMg==", &["aHVudGVyMg=="]),
            ("Endpoint=sb://x;SharedAccessKeyName=me;SharedAccessKey=hunter2", &["hunter2"]),
            ("https://store/x?sv=1&sig=hunter2", &["hunter2"]),
            ("https://hooks/x?api_key=hunter2", &["hunter2"]),
            ("postgres://me:hun/ter2@db/x", &["hun/ter2"]),
            ("mongodb://a:hunter2@one,two/x", &["hunter2"]),
            ("amqp://me:hunter2@one,amqp://me:hunter3@two", &["hunter2", "hunter3"]),
        ] {
            assert_eq!(passwords(value), expected, "{value}");
        }
        for value in [
            "postgres://me@db/x",
            "ssh://git@host/x.git",
            "https://example.com/a:b@c",
            "https://example.com:8080/a@c",
            "https://example.com/@me",
            "max_tokens=500;keyboard=de",
            "--monkey=1",
            "a@b",
            "password",
            "8080",
        ] {
            assert_eq!(passwords(value), [""; 0], "{value}");
        }
        for (text, expected) in [("hunter%2F2%40%c3%a4", "hunter/2@ä"), ("100%", "100%"), ("%zz%4", "%zz%4")]
        {
            assert_eq!(percent_decoded(text), expected);
        }
    }
}
