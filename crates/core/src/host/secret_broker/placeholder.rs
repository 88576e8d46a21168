//! What a script is given in place of a secret.

use crate::secret_family::known_prefix;

/// The fewest random bits of a placeholder: no other text is one, and nobody guesses the secret by asking for answers.
const MIN_BITS: f64 = 64.0;

/// The longest secret that goes into a request.
const MAX_BYTES: usize = 4 << 10;

/// How hosts end that stand in for others: by RFC 6761 there is none of such a name.
const PLACEHOLDER_DOMAIN: &str = ".placeholder.invalid";

const DIGITS: &[u8] = b"0123456789";
const HEX: &[u8] = b"0123456789abcdef";
const CAPITAL_HEX: &[u8] = b"0123456789ABCDEF";
const SMALL: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const CAPITAL: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const ALL: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A text of the same form as the value: its length, its known prefix and its punctuation, and random letters and digits of the smallest
/// alphabet that the value fits. The error says why there is none, as the end of a sentence.
pub(super) fn generate(value: &str) -> Result<String, String> {
    if value.len() > MAX_BYTES {
        return Err(format!("has more than {MAX_BYTES} bytes"));
    }
    if !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("has white space or characters beyond ASCII, which no request can have everywhere".into());
    }
    let (prefix, rest) = value.split_at(known_prefix(value).map_or(0, str::len));
    let random = match randomize(rest)? {
        Some(rest) => Some(format!("{prefix}{rest}")),
        None => randomize(value)?,
    };
    random.ok_or_else(|| "is too short to be told from other texts".into())
}

/// What a script is given in the place of a secret that it was not granted and that goes nowhere: a placeholder, or if the secret can have
/// none, a random text. Of an address only the scheme stays; its host is one that cannot exist. `None` for a path, which would be one of
/// nothing, and if the system has no random numbers.
pub fn random_stand_in(value: &str) -> Option<String> {
    const LABEL: &str = "0123456789abcdefghij";
    const TOKEN: &str = "0123456789ABCDEFGHIJ0123456789abcdefghij";
    if value.is_empty() || value.starts_with(['/', '~', '.']) {
        return None;
    }
    let random = |form: &str| randomize(form).ok().flatten();
    if let Some((scheme, rest)) = value.split_once("://") {
        // Anything else may be the secret itself.
        let is_scheme = (1..=12).contains(&scheme.len())
            && scheme.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'+');
        let scheme = if is_scheme { scheme } else { "https" };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let user = authority.contains('@').then(|| Some(format!("{}:{}@", random(LABEL)?, random(LABEL)?)));
        let user = user.map_or(Some(String::new()), |user| user)?;
        return Some(format!("{scheme}://{user}{}{PLACEHOLDER_DOMAIN}/{}", random(LABEL)?, random(LABEL)?));
    }
    generate(value).ok().or_else(|| random(TOKEN))
}

/// Whether this is the host of an address that stands in for another one.
pub fn is_placeholder_host(host: &str) -> bool {
    host.trim_end_matches('.').to_ascii_lowercase().ends_with(PLACEHOLDER_DOMAIN)
}

/// The text with other letters and digits; `None` if it has too few of them, and an error if the system has no random numbers.
fn randomize(text: &str) -> Result<Option<String>, String> {
    let fits = |alphabet: &&[u8]| {
        text.bytes().filter(u8::is_ascii_alphanumeric).all(|byte| alphabet.contains(&byte))
    };
    let alphabet = [DIGITS, HEX, CAPITAL_HEX, SMALL, CAPITAL].into_iter().find(fits).unwrap_or(ALL);
    let count = text.bytes().filter(u8::is_ascii_alphanumeric).count();
    let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    if number(count) * number(alphabet.len()).log2() < MIN_BITS {
        return Ok(None);
    }
    let mut random = RandomBytes::default();
    let letters = text.bytes().map(|byte| {
        let letter = if byte.is_ascii_alphanumeric() { random.pick(alphabet)? } else { byte };
        Some(char::from(letter))
    });
    let letters = letters.collect::<Option<String>>();
    letters.map(Some).ok_or_else(|| "has no placeholder, since the system has no random numbers".into())
}

/// Random bytes of the system.
#[derive(Default)]
struct RandomBytes {
    bytes: [u8; 32],
    left: usize,
}

impl RandomBytes {
    /// One of these letters, each as likely as the others; `None` if the system has no random numbers.
    fn pick(&mut self, alphabet: &[u8]) -> Option<u8> {
        let whole = 256 / alphabet.len() * alphabet.len();
        loop {
            if self.left == 0 {
                getrandom::fill(&mut self.bytes).ok()?;
                self.left = self.bytes.len();
            }
            self.left -= 1;
            let byte = usize::from(self.bytes[self.left]);
            if byte < whole {
                return Some(alphabet[byte % alphabet.len()]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_has_the_form_of_its_secret() {
        for (value, prefix, alphabet) in [
            ("ghp_0123456789abcdefABCDEF0123456789abcd", "ghp_", ALL),
            ("0123456789abcdef0123456789abcdef", "", HEX),
            ("AKIAIOSFODNN7EXAMPLE", "AKIA", CAPITAL),
            ("correct-horse/battery+staple==", "", SMALL),
            ("41111111111111111111", "", DIGITS),
            ("0123456789ABCDEF0123456789ABCDEF", "", CAPITAL_HEX),
        ] {
            let placeholder = generate(value).unwrap();
            assert_eq!(placeholder.len(), value.len(), "{value}");
            assert!(placeholder != value && placeholder.starts_with(prefix), "{value} {placeholder}");
            assert_ne!(placeholder, generate(value).unwrap(), "new each time");
            for (own, other) in value[prefix.len()..].bytes().zip(placeholder[prefix.len()..].bytes()) {
                let fits = if own.is_ascii_alphanumeric() { alphabet.contains(&other) } else { own == other };
                assert!(fits, "{value} {placeholder}");
            }
        }
    }

    #[test]
    fn what_could_be_mistaken_or_not_be_sent_has_none() {
        for value in [
            "",
            "hunter2",
            "1234567890123456789",
            "Ab3Ab3Ab3A",
            "a b c d e f g h i j k",
            "schlüsselschlüssel",
            "a\nb-long-enough-1",
        ] {
            assert!(generate(value).is_err(), "{value:?}");
        }
    }

    #[test]
    fn what_stands_in_for_a_secret_has_nothing_of_it_that_opens_anything() {
        for value in ["hunter2", "a b c", "0123456789abcdef0123456789abcdef", "x", "schlüssel"] {
            let text = random_stand_in(value).unwrap();
            // One letter may stand there by chance.
            assert!(text.len() >= 20 && (value.len() < 5 || !text.contains(value)), "{value} {text}");
            assert_ne!(text, random_stand_in(value).unwrap(), "new each time");
        }
        for (value, start) in [
            ("https://hooks.example.com/services/T0/B0/secret", "https://"),
            ("postgres://me:hunter2@db.internal:5432/x", "postgres://"),
            ("a b://me@host", "https://"),
            ("://x", "https://"),
            ("correctHorse9Battery://z", "https://"),
        ] {
            let text = random_stand_in(value).unwrap();
            let host = text.strip_prefix(start).and_then(|rest| rest.split('/').next()).unwrap();
            assert!(is_placeholder_host(host) && host.contains('@') == value.contains('@'), "{text}");
            for part in ["example", "internal", "hunter2", "secret", "services", "me:"] {
                assert!(!text.contains(part), "{text}");
            }
        }
        for value in ["", "/home/me/key.json", "~/key.json", "./key.json"] {
            assert_eq!(random_stand_in(value), None);
        }
    }

    #[test]
    fn each_letter_of_an_alphabet_is_as_likely() {
        let mut counts = [0_u32; 10];
        let mut chance = RandomBytes::default();
        for _ in 0..20_000 {
            counts[usize::from(chance.pick(DIGITS).unwrap() - b'0')] += 1;
        }
        assert!(counts.iter().all(|count| (1_700..2_300).contains(count)), "{counts:?}");
    }
}
