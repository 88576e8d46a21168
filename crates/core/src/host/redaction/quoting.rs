//! How languages, shells and addresses quote a text: a row for each notation.

use std::fmt::Write as _;

use crate::unicode::is_invisible;

/// How a notation with backslashes writes a character that it does not write as it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escape {
    AsItIs,
    /// `\x1b`, for each byte beyond ASCII.
    HexBytes,
    /// `\x1B`, for each byte beyond ASCII.
    CapitalHexBytes,
    /// `\033`, for each byte beyond ASCII.
    OctalBytes,
    /// `\33`, and `\033` before a digit.
    ShortOctalBytes,
    /// `\27`, and `\027` before a digit.
    DecimalBytes,
    /// `\xe4`, `\u20ac` or `\U0001f600`.
    Shortest,
    /// The same in capitals.
    CapitalShortest,
    /// `\u00e4` or `\U0001f600`.
    Unicode,
    /// `\x{e4}`.
    Braced,
}

/// A notation with backslashes.
struct BackslashNotation {
    /// The characters that get a backslash.
    quoted_chars: &'static str,
    /// Control characters with a letter of their own.
    escapes: EscapeTable,
    controls: Escape,
    beyond_ascii: Escape,
}

/// Characters, and what is written for each: after a backslash, or in place of it.
type EscapeTable = &'static [(char, &'static str)];

const COMMON_ESCAPES: EscapeTable = &[('\n', "n"), ('\r', "r"), ('\t', "t")];
const C_ESCAPES: EscapeTable =
    &[('\n', "n"), ('\r', "r"), ('\t', "t"), ('\x07', "a"), ('\x08', "b"), ('\x0b', "v"), ('\x0c', "f")];
const SHELL_ESCAPES: EscapeTable = &[
    ('\n', "n"),
    ('\r', "r"),
    ('\t', "t"),
    ('\x07', "a"),
    ('\x08', "b"),
    ('\x0b', "v"),
    ('\x0c', "f"),
    ('\x1b', "E"),
];
const PERL_ESCAPES: EscapeTable =
    &[('\n', "n"), ('\r', "r"), ('\t', "t"), ('\x07', "a"), ('\x08', "b"), ('\x0c', "f"), ('\x1b', "e")];
const YAML_ESCAPES: EscapeTable = &[
    ('\n', "n"),
    ('\r', "r"),
    ('\t', "t"),
    ('\x07', "a"),
    ('\x08', "b"),
    ('\x0b', "v"),
    ('\x0c', "f"),
    ('\x1b', "e"),
    ('\0', "0"),
];
const JAVASCRIPT_ESCAPES: EscapeTable =
    &[('\n', "n"), ('\r', "r"), ('\t', "t"), ('\x08', "b"), ('\x0b', "v"), ('\x0c', "f")];

const fn row(
    quoted_chars: &'static str,
    escapes: EscapeTable,
    controls: Escape,
    beyond_ascii: Escape,
) -> BackslashNotation {
    BackslashNotation { quoted_chars, escapes, controls, beyond_ascii }
}

const BACKSLASH_NOTATIONS: [BackslashNotation; 31] = [
    // Python's `repr`, where the quotes are others than those in the text, and where both are in it.
    row("\\", COMMON_ESCAPES, Escape::HexBytes, Escape::AsItIs),
    row("\\'", COMMON_ESCAPES, Escape::HexBytes, Escape::AsItIs),
    // Its `ascii`, and its `repr` of bytes.
    row("\\", COMMON_ESCAPES, Escape::HexBytes, Escape::Shortest),
    row("\\'", COMMON_ESCAPES, Escape::HexBytes, Escape::Shortest),
    row("\\", COMMON_ESCAPES, Escape::HexBytes, Escape::HexBytes),
    row("\\'", COMMON_ESCAPES, Escape::HexBytes, Escape::HexBytes),
    // Its error handler `backslashreplace`.
    row("", &[], Escape::AsItIs, Escape::Shortest),
    // What is between double quotes in shells, PHP and Perl.
    row("\\\"$`", &[], Escape::AsItIs, Escape::AsItIs),
    row("\\\"$`!", &[], Escape::AsItIs, Escape::AsItIs),
    row("\\\"$", C_ESCAPES, Escape::OctalBytes, Escape::AsItIs),
    // What is between single quotes in fish, PHP, SQL and Ruby.
    row("\\'", &[], Escape::AsItIs, Escape::AsItIs),
    row("\\'\"", &[], Escape::AsItIs, Escape::AsItIs),
    // `$'…'` in shells: in any language of the machine, and in C.
    row("\\'", SHELL_ESCAPES, Escape::OctalBytes, Escape::AsItIs),
    row("\\'", SHELL_ESCAPES, Escape::OctalBytes, Escape::OctalBytes),
    row("\\'", C_ESCAPES, Escape::OctalBytes, Escape::OctalBytes),
    // C, git, and the tools that list files.
    row("\\\"", C_ESCAPES, Escape::OctalBytes, Escape::AsItIs),
    row("\\\"", C_ESCAPES, Escape::OctalBytes, Escape::OctalBytes),
    row("\\\"", C_ESCAPES, Escape::HexBytes, Escape::HexBytes),
    row("\\\"", C_ESCAPES, Escape::CapitalHexBytes, Escape::CapitalHexBytes),
    row("\\", C_ESCAPES, Escape::OctalBytes, Escape::OctalBytes),
    // Perl.
    row("\\\"$@", PERL_ESCAPES, Escape::ShortOctalBytes, Escape::AsItIs),
    row("\\\"$@", PERL_ESCAPES, Escape::ShortOctalBytes, Escape::OctalBytes),
    row("\\\"$@", PERL_ESCAPES, Escape::ShortOctalBytes, Escape::Braced),
    // JavaScript.
    row("\\", JAVASCRIPT_ESCAPES, Escape::CapitalHexBytes, Escape::AsItIs),
    row("\\'", JAVASCRIPT_ESCAPES, Escape::CapitalHexBytes, Escape::AsItIs),
    // Ruby, Go, and YAML.
    row("\\\"", YAML_ESCAPES, Escape::CapitalHexBytes, Escape::AsItIs),
    row("\\\"", C_ESCAPES, Escape::HexBytes, Escape::AsItIs),
    row("\\\"", C_ESCAPES, Escape::HexBytes, Escape::Unicode),
    row("\\\"", YAML_ESCAPES, Escape::CapitalHexBytes, Escape::CapitalShortest),
    // Lua's `%q`, where a line break has a backslash before it.
    row("\\\"\n", &[('\r', "r"), ('\0', "000")], Escape::AsItIs, Escape::AsItIs),
    row("\\\"\n", &[], Escape::DecimalBytes, Escape::AsItIs),
];

/// The text as each notation with backslashes writes it, without the quotes around it.
pub(super) fn backslashed(text: &str) -> impl Iterator<Item = String> {
    BACKSLASH_NOTATIONS.iter().map(|notation| notation.write(text))
}

impl BackslashNotation {
    fn write(&self, text: &str) -> String {
        let mut written = String::with_capacity(text.len());
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            let letter = self.escapes.iter().find(|(control, _)| *control == c);
            if let Some((_, letter)) = letter {
                written.push('\\');
                written.push_str(letter);
            } else if self.quoted_chars.contains(c) {
                written.extend(['\\', c]);
            } else if c.is_ascii_control() {
                let is_before_digit = rest.peek().is_some_and(char::is_ascii_digit);
                write_escape(&mut written, c, self.controls, is_before_digit);
            } else if c.is_ascii() {
                written.push(c);
            } else if self.beyond_ascii == Escape::AsItIs && (c.is_control() || is_invisible(c)) {
                // Python shows it by its number, and not byte for byte.
                let is_number = self.controls == Escape::HexBytes;
                write_escape(
                    &mut written,
                    c,
                    if is_number { Escape::Shortest } else { Escape::AsItIs },
                    false,
                );
            } else {
                write_escape(&mut written, c, self.beyond_ascii, false);
            }
        }
        written
    }
}

fn write_escape(written: &mut String, c: char, escape: Escape, is_before_digit: bool) {
    let number = u32::from(c);
    let mut units = [0; 4];
    let mut bytes = c.encode_utf8(&mut units).bytes();
    let result = match escape {
        Escape::AsItIs => written.write_char(c),
        Escape::HexBytes => bytes.try_for_each(|byte| write!(written, "\\x{byte:02x}")),
        Escape::CapitalHexBytes => bytes.try_for_each(|byte| write!(written, "\\x{byte:02X}")),
        Escape::ShortOctalBytes if !is_before_digit => {
            bytes.try_for_each(|byte| write!(written, "\\{byte:o}"))
        }
        Escape::OctalBytes | Escape::ShortOctalBytes => {
            bytes.try_for_each(|byte| write!(written, "\\{byte:03o}"))
        }
        Escape::DecimalBytes if !is_before_digit => bytes.try_for_each(|byte| write!(written, "\\{byte}")),
        Escape::DecimalBytes => bytes.try_for_each(|byte| write!(written, "\\{byte:03}")),
        Escape::Shortest if number <= 0xff => write!(written, "\\x{number:02x}"),
        Escape::CapitalShortest if number <= 0xff => write!(written, "\\x{number:02X}"),
        Escape::Shortest | Escape::Unicode if number <= 0xffff => write!(written, "\\u{number:04x}"),
        Escape::CapitalShortest if number <= 0xffff => write!(written, "\\u{number:04X}"),
        Escape::Shortest | Escape::Unicode => write!(written, "\\U{number:08x}"),
        Escape::CapitalShortest => write!(written, "\\U{number:08X}"),
        Escape::Braced => write!(written, "\\x{{{number:x}}}"),
    };
    // Writing to a text does not fail.
    debug_assert!(result.is_ok());
}

/// As `printf %q` of bash writes a text without control characters: a backslash before everything that is special in a shell.
pub(super) fn shell_words(text: &str) -> String {
    let mut written = String::new();
    let mut before = None;
    for c in text.chars() {
        let is_special = match c {
            '#' => before.is_none(),
            '~' => matches!(before, None | Some('=' | ':')),
            c => " \t\n!\"$&'()*,;<>?[\\]^`{|}".contains(c),
        };
        if is_special {
            written.push('\\');
        }
        written.push(c);
        before = Some(c);
    }
    written
}

/// As GNU's `printf %q` and `ls` write it: in single quotes, with each sequence of unprintable bytes in `$'…'`.
pub(super) fn gnu_shell(text: &str, is_ascii_only: bool) -> String {
    let is_unprintable = |c: char| c.is_control() || (is_ascii_only && !c.is_ascii());
    let notation = row("\\'", C_ESCAPES, Escape::OctalBytes, Escape::OctalBytes);
    let mut written = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_unprintable).unwrap_or(rest.len());
        let (printable, others) = rest.split_at(end);
        written.push_str(&printable.replace('\'', "'\\''"));
        let end = others.find(|c| !is_unprintable(c)).unwrap_or(others.len());
        let (unprintable, after) = others.split_at(end);
        if !unprintable.is_empty() {
            written.push_str("'$'");
            written.push_str(&notation.write(unprintable));
            written.push_str("''");
        }
        rest = after;
    }
    written
}

/// The ASCII characters besides letters and digits that an encoder of addresses keeps, and what it makes of a space.
const ADDRESSES: [(&str, &str); 14] = [
    ("-_.~", "%20"),
    ("-_.~/", "%20"),
    ("-_.~", "+"),
    ("-_.~/", "+"),
    ("-_.", "+"),
    ("-_.*", "+"),
    // JavaScript's `encodeURIComponent` and `encodeURI`.
    ("-_.!~*'()", "%20"),
    ("-_.!~*'();:@&=+$,/?#", "%20"),
    // Go's and Java's parts of a path.
    ("-_.~$&+=:@", "%20"),
    ("-_.~!$&'()*+,;=:@", "%20"),
    // A password, a path, a query and a fragment as browsers write them.
    ("-_.~!$&'()*+,%", "%20"),
    ("-_.~!$&'()*+,;=:@/[]|\\%^", "%20"),
    ("-_.~!$&()*+,;=:@/?[]|\\%^`{}", "%20"),
    ("-_.~!$&'()*+,;=:@/?[]|\\%^#{}", "%20"),
];

/// The text as addresses and forms have it, with codes in capitals and in small letters.
pub(super) fn percent_encoded(text: &str) -> impl Iterator<Item = String> {
    let rows = ADDRESSES.iter();
    rows.flat_map(|(kept, space)| [percent(text, kept, space, true), percent(text, kept, space, false)])
}

fn percent(text: &str, kept: &str, space: &str, is_capital: bool) -> String {
    let mut written = String::new();
    for byte in text.bytes() {
        let result = match byte {
            b' ' => written.write_str(space),
            byte if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) => {
                written.write_char(char::from(byte))
            }
            byte if is_capital => write!(written, "%{byte:02X}"),
            byte => write!(written, "%{byte:02x}"),
        };
        debug_assert!(result.is_ok());
    }
    written
}

/// As `escape` of JavaScript writes it.
pub(super) fn javascript_escape(text: &str) -> String {
    let mut written = String::new();
    for unit in text.encode_utf16() {
        let kept =
            u8::try_from(unit).ok().filter(|byte| byte.is_ascii_alphanumeric() || b"@*_+-./".contains(byte));
        let result = match (kept, unit) {
            (Some(byte), _) => written.write_char(char::from(byte)),
            (None, ..=0xff) => write!(written, "%{unit:02X}"),
            (None, _) => write!(written, "%u{unit:04X}"),
        };
        debug_assert!(result.is_ok());
    }
    written
}

/// What stands for the characters that HTML escapes: the quote, the apostrophe, and others.
const HTML_ESCAPES: [(&str, &str, EscapeTable); 6] = [
    ("&quot;", "&#39;", &[]),
    ("&quot;", "&#x27;", &[]),
    ("&quot;", "&apos;", &[]),
    ("&#34;", "&#39;", &[]),
    ("\"", "'", &[]),
    ("&quot;", "&#39;", &[('/', "&#x2F;"), ('`', "&#x60;"), ('=', "&#x3D;")]),
];

/// The text as pages have it, also with the characters beyond ASCII as numbers.
pub(super) fn html_escaped(text: &str) -> impl Iterator<Item = String> {
    let common = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let only_quotes = text.replace('&', "&amp;").replace('"', "&quot;");
    let pages = HTML_ESCAPES.iter().map(move |(quote, apostrophe, others)| {
        let written = common.replace('"', quote).replace('\'', apostrophe);
        let others = others.iter();
        others.fold(written, |written, (from, to)| written.replace(*from, to))
    });
    let texts: Vec<String> = pages.chain([only_quotes]).collect();
    let numbered: Vec<String> =
        texts.iter().map(String::as_str).chain([text]).map(numbered_references).collect();
    texts.into_iter().chain(numbered)
}

fn numbered_references(text: &str) -> String {
    let mut written = String::new();
    for c in text.chars() {
        let result =
            if c.is_ascii() { written.write_char(c) } else { write!(written, "&#{};", u32::from(c)) };
        debug_assert!(result.is_ok());
    }
    written
}

#[cfg(test)]
mod tests {
    use super::super::forms::encoded_forms;
    use crate::host::redaction::Redaction;

    #[track_caller]
    fn all_are_known(secret: &str, spellings: &[&str]) {
        let redaction = Redaction::default();
        redaction.learn("KEY", secret);
        for spelled in spellings {
            let clean = redaction.text(format!("({spelled})")).into_inner();
            assert_eq!(clean, "([secret:KEY])", "{secret:?} as {spelled}");
        }
    }

    /// What the programs print, and not what our own functions make of it.
    #[test]
    fn what_shells_print_is_known() {
        all_are_known(
            r#"#~a=~b,c^d@e%f+g:~h{}|[]!?*();<>&$`"'-./\_ z"#,
            &[
                // bash: `printf %q`, `declare -p`, `export -p`, `${x@Q}` and `set -x`.
                r#"\#~a=\~b\,c\^d@e%f+g:\~h\{\}\|\[\]\!\?\*\(\)\;\<\>\&\$\`\"\'-./\\_\ z"#,
                r#"#~a=~b,c^d@e%f+g:~h{}|[]!?*();<>&\$\`\"'-./\\_ z"#,
                r#"#~a=~b,c^d@e%f+g:~h{}|[]!?*();<>&$`"'\''-./\_ z"#,
            ],
        );
        all_are_known(
            "a\tb\u{1}é\u{1b}€'7",
            &[
                // bash with the characters of a language, and without.
                r"a\tb\001é\E€\'7",
                r"a\tb\001\303\251\E\342\202\254\'7",
                // GNU's `printf %q`, the same.
                r"a'$'\t''b'$'\001''é'$'\033''€'\''7",
                r"a'$'\t''b'$'\001\303\251\033\342\202\254'''\''7",
            ],
        );
        all_are_known("pa$$w`rd12", &[r"pa\$\$w\`rd12"]);
        all_are_known("pässwörd99", &[r"p\303\244ssw\303\266rd99", r"p'$'\303\244''ssw'$'\303\266''rd99"]);
    }

    #[test]
    fn what_languages_print_is_known() {
        all_are_known(
            "päss €😀'\"\t\u{1b}9$@",
            &[
                // Python: `ascii`, `repr` of bytes, `backslashreplace`; and YAML.
                r#"p\xe4ss \u20ac\U0001f600\'"\t\x1b9$@"#,
                r#"p\xc3\xa4ss \xe2\x82\xac\xf0\x9f\x98\x80\'"\t\x1b9$@"#,
                "p\\xe4ss \\u20ac\\U0001f600'\"\t\u{1b}9$@",
                r#"p\xE4ss \u20AC\U0001F600'\"\t\e9$@"#,
                // git and C; Perl, of bytes and of characters; Go; JavaScript.
                r#"p\303\244ss \342\202\254\360\237\230\200'\"\t\0339$@"#,
                r#"p\303\244ss \342\202\254\360\237\230\200'\"\t\e9\$\@"#,
                r#"p\x{e4}ss \x{20ac}\x{1f600}'\"\t\e9\$\@"#,
                r#"p\u00e4ss \u20ac\U0001f600'\"\t\x1b9$@"#,
                r#"päss €😀\'"\t\x1B9$@"#,
                // JSON of .NET.
                r"p\u00E4ss \u20AC\uD83D\uDE00\u0027\u0022\t\u001B9$@",
            ],
        );
        // Lua 5.4 and Luau.
        all_are_known(
            "pass\u{1}1\u{2}word\r\"",
            &["pass\\0011\\2word\\13\\\"", "pass\u{1}1\u{2}word\\r\\\""],
        );
        all_are_known("pa\u{ad}ss-wärd", &[r"pa\xadss-wärd"]);
    }

    #[test]
    fn what_addresses_and_pages_hold_is_known() {
        all_are_known(
            "p&ss w(x)rä€!~*'=/+[`<",
            &[
                // JavaScript: `encodeURIComponent`, `encodeURI`, `URLSearchParams`, `escape`.
                "p%26ss%20w(x)r%C3%A4%E2%82%AC!~*'%3D%2F%2B%5B%60%3C",
                "p&ss%20w(x)r%C3%A4%E2%82%AC!~*'=/+%5B%60%3C",
                "p%26ss+w%28x%29r%C3%A4%E2%82%AC%21%7E*%27%3D%2F%2B%5B%60%3C",
                "p%26ss%20w%28x%29r%E4%u20AC%21%7E*%27%3D/+%5B%60%3C",
                // Addresses of browsers: a password, a path, a query.
                "p&ss%20w(x)r%C3%A4%E2%82%AC!~*'%3D%2F+%5B%60%3C",
                "p&ss%20w(x)r%C3%A4%E2%82%AC!~*'=/+[%60%3C",
                "p&ss%20w(x)r%C3%A4%E2%82%AC!~*%27=/+[`%3C",
                // Python's `quote_plus`, and codes in small letters.
                "p%26ss+w%28x%29r%C3%A4%E2%82%AC%21~%2A%27%3D%2F%2B%5B%60%3C",
                "p%26ss+w%28x%29r%c3%a4%e2%82%ac%21~%2a%27%3d%2f%2b%5b%60%3c",
                // Pages, of Python, Go and others, also with characters as numbers.
                "p&amp;ss w(x)rä€!~*&#39;=/+[`&lt;",
                "p&amp;ss w(x)r&#228;&#8364;!~*&#x27;=/+[`&lt;",
                "p&amp;ss w(x)rä€!~*&apos;=/+[`&lt;",
                "p&amp;ss w(x)rä€!~*&#39;&#x3D;&#x2F;+[&#x60;&lt;",
                "p&ss w(x)r&#228;&#8364;!~*'=/+[`<",
                // JSON for pages.
                r"p\u0026ss w(x)rä€!~*'=/+[`\u003c",
                r"p\u0026ss w(x)r\u00E4\u20AC!~*\u0027=/\u002B[\u0060\u003C",
            ],
        );
    }

    #[test]
    fn the_number_of_forms_is_bounded() {
        let long = "ä'\"\\ $`&<\n".repeat(500);
        assert!(encoded_forms(&long).len() < 250, "{}", encoded_forms(&long).len());
        assert_eq!(encoded_forms("plain-A"), ["plain-A"]);
    }
}
