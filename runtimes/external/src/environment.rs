//! The environment variables that scripts inherit from the host.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The variables inherited from the host, with these folders as `PATH`.
pub(super) fn inherited_variables(path_dirs: &[PathBuf]) -> impl Iterator<Item = (OsString, OsString)> {
    // Folders that came from a PATH can be joined to one without a check.
    let path = std::env::join_paths(path_dirs).ok().map(|path| ("PATH".into(), path));
    inherited_except_path().chain(path)
}

/// The same without `PATH`.
pub(super) fn inherited_except_path() -> impl Iterator<Item = (OsString, OsString)> {
    // A copy of the whole environment takes longer.
    let named = INHERITED_VARIABLES.iter();
    let set = named.filter_map(|(name, _)| Some((OsString::from(name), std::env::var_os(name)?)));
    set.filter(|(name, value)| is_inherited(name, value))
}

pub(super) fn is_inherited(name: &OsStr, value: &OsStr) -> bool {
    let known = INHERITED_VARIABLES.iter().find(|(known, _)| name == *known);
    known.is_some_and(|(_, form)| form.is_none_or(|fits| value.to_str().is_some_and(fits)))
}

/// The variables a script inherits. All others are removed: secrets, and everything that changes how an
/// interpreter or a tool behaves (`LD_*`, `PYTHON*`, `NODE_OPTIONS`, `BASH_ENV`, `GIT_*`). `PATH` is rebuilt. A value that does
/// not have the expected format is removed too, and so is one that contains a secret which the run received.
const INHERITED_VARIABLES: [(&str, ValueFormat); 20] = [
    ("HOME", None),                // Tools keep their settings and caches there.
    ("USER", Some(is_user)),       // Who runs this.
    ("LOGNAME", Some(is_user)),    // The same, under the name POSIX gives it.
    ("LANG", Some(is_locale)),     // Language and encoding.
    ("LC_ALL", Some(is_locale)),   // The same, before all others.
    ("LC_CTYPE", Some(is_locale)), // The categories of POSIX, and those that the GNU C library has besides.
    ("LC_COLLATE", Some(is_locale)),
    ("LC_MESSAGES", Some(is_locale)),
    ("LC_MONETARY", Some(is_locale)),
    ("LC_NUMERIC", Some(is_locale)),
    ("LC_TIME", Some(is_locale)),
    ("LC_ADDRESS", Some(is_locale)),
    ("LC_IDENTIFICATION", Some(is_locale)),
    ("LC_MEASUREMENT", Some(is_locale)),
    ("LC_NAME", Some(is_locale)),
    ("LC_PAPER", Some(is_locale)),
    ("LC_TELEPHONE", Some(is_locale)),
    ("LANGUAGE", Some(is_locale_list)), // Further languages, in order.
    ("TZ", Some(is_time_zone)),         // What time it is here.
    ("TMPDIR", None),                   // Where temporary files belong, where that is not /tmp.
];

/// Checks that a value has the expected format; `None` if any value is allowed.
type ValueFormat = Option<fn(&str) -> bool>;

/// The name of an account, or of the user's home folder.
fn is_user(value: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let has_form = (1..=32).contains(&value.len())
        && value.bytes().all(is_of_name)
        && value.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    has_form
        && (accounts().contains(value) || home().is_some_and(|home| home.file_name() == Some(value.as_ref())))
}

/// The accounts of this machine, by their names; looked up once.
fn accounts() -> &'static BTreeSet<String> {
    /// Maximum bytes read of the list of accounts.
    const MAX_PASSWD_BYTES: u64 = 1 << 20;
    static ACCOUNTS: OnceLock<BTreeSet<String>> = OnceLock::new();
    ACCOUNTS.get_or_init(|| {
        let mut text = String::new();
        let file = std::fs::File::open("/etc/passwd");
        // What was read before an error is used.
        file.and_then(|file| file.take(MAX_PASSWD_BYTES).read_to_string(&mut text)).ok();
        text.lines().filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
    })
}

/// Encodings of locales, in lower case and without separators. Those of ISO 8859 and of Windows also have a number.
const ENCODINGS: [&str; 22] = [
    "utf8",
    "ascii",
    "usascii",
    "ansix341968",
    "koi8r",
    "koi8u",
    "koi8t",
    "gbk",
    "gb2312",
    "gb18030",
    "big5",
    "big5hkscs",
    "eucjp",
    "euckr",
    "euctw",
    "euccn",
    "sjis",
    "shiftjis",
    "tis620",
    "armscii8",
    "georgianps",
    "tcvn57121",
];

/// Variants that locales are named after.
const VARIANTS: [&str; 10] =
    ["euro", "latin", "cyrillic", "devanagari", "iqtelif", "valencia", "saaho", "abegede", "heploc", "phone"];

/// `de`, `de_DE.UTF-8@euro`, `zh_Hans_CN`, `C.UTF-8`, `POSIX`: a language, a script, a country, an encoding and a variant, each
/// optional, and each either known or as short as such a code: no word fits in.
fn is_locale(value: &str) -> bool {
    let (value, variant) = match value.split_once('@') {
        Some((value, variant)) => (value, Some(variant)),
        None => (value, None),
    };
    let (value, encoding) = match value.split_once('.') {
        Some((value, encoding)) => (value, Some(encoding)),
        None => (value, None),
    };
    let is_code = |part: &str, lengths: RangeInclusive<usize>| {
        lengths.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    let is_number = |part: &str| part.len() == 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_country = |part: &str| is_code(part, 2..=2) || is_number(part);
    let parts: Vec<&str> = value.splitn(4, '_').collect();
    let is_language = match parts[..] {
        ["C" | "POSIX"] => true,
        [language] => is_code(language, 2..=3),
        [language, country] => is_code(language, 2..=3) && is_country(country),
        [language, script, country] => {
            is_code(language, 2..=3) && is_code(script, 4..=4) && is_country(country)
        }
        _ => false,
    };
    is_language
        && encoding.is_none_or(is_encoding)
        && variant.is_none_or(|variant| VARIANTS.contains(&variant))
}

fn is_encoding(value: &str) -> bool {
    let plain = value.to_ascii_lowercase().replace(['-', '_', '.'], "");
    let numbered = ["iso8859", "cp", "windows"].into_iter().find_map(|name| plain.strip_prefix(name));
    let is_number =
        |rest: &str| (1..=4).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_digit());
    ENCODINGS.contains(&plain.as_str()) || numbered.is_some_and(is_number)
}

fn is_locale_list(value: &str) -> bool {
    value.len() <= 128 && value.split(':').all(|part| part.is_empty() || is_locale(part))
}

/// Where systems store time zones.
const ZONEINFO_DIRS: [&str; 4] =
    ["/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/etc/zoneinfo", "/var/db/timezone/zoneinfo"];

/// `Europe/Berlin`, if this machine knows it, `:/etc/localtime`, `<+03>-3`, `CET-1CEST,M3.5.0,M10.5.0/3`.
fn is_time_zone(value: &str) -> bool {
    let plain = value.strip_prefix(':').unwrap_or(value);
    plain.is_empty() || plain == "/etc/localtime" || is_installed_zone(plain) || is_posix_time_zone(plain)
}

fn is_installed_zone(value: &str) -> bool {
    let name =
        ZONEINFO_DIRS.iter().find_map(|zones| value.strip_prefix(zones)?.strip_prefix('/')).unwrap_or(value);
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte);
    name.len() <= 48
        && name.bytes().all(is_of_name)
        && name.starts_with(|first: char| first.is_ascii_uppercase())
        && ZONEINFO_DIRS.iter().any(|zones| Path::new(zones).join(name).is_file())
}

/// `std offset [dst [offset] [,start,end]]` of POSIX, with names no longer than real ones.
fn is_posix_time_zone(value: &str) -> bool {
    let (zone, days) = match value.split_once(',') {
        Some((zone, days)) => (zone, Some(days)),
        None => (value, None),
    };
    let Some(rest) = strip_zone_name(zone) else { return false };
    let time = |text: &str| {
        text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || "+-:".contains(c)).len()
    };
    let (offset, summer) = rest.split_at(time(rest));
    let is_time =
        |text: &str| (1..=10).contains(&text.len()) && text.bytes().any(|byte| byte.is_ascii_digit());
    let is_summer = |summer: &str| {
        strip_zone_name(summer)
            .is_some_and(|rest| rest.is_empty() || (time(rest) == rest.len() && is_time(rest)))
    };
    let is_day = |day: &str| {
        (1..=20).contains(&day.len())
            && day.bytes().all(|byte| byte.is_ascii_digit() || b"MJ./:+-".contains(&byte))
    };
    is_time(offset)
        && (summer.is_empty() || is_summer(summer))
        && days.is_none_or(|days| days.split(',').count() == 2 && days.split(',').all(is_day))
}

/// What follows the name of a zone: three to five letters, or an offset in angle brackets.
fn strip_zone_name(value: &str) -> Option<&str> {
    if let Some(quoted) = value.strip_prefix('<') {
        let (name, rest) = quoted.split_once('>')?;
        let is_offset = (2..=6).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_digit() || b"+-".contains(&byte));
        return is_offset.then_some(rest);
    }
    let rest = value.trim_start_matches(|letter: char| letter.is_ascii_uppercase());
    (3..=5).contains(&(value.len() - rest.len())).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_an_interpreter_is_inherited() {
        for name in [
            "LD_PRELOAD",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "NODE_OPTIONS",
            "BASH_ENV",
            "ENV",
            "GIT_DIR",
            "PERL5OPT",
            "RUBYOPT",
            "AWS_SECRET_ACCESS_KEY",
            "SSH_AUTH_SOCK",
            "BASH_FUNC_ls%%",
            "",
        ] {
            assert!(!is_inherited(OsStr::new(name), OsStr::new("C")), "{name}");
        }
        for (name, value) in [("HOME", "C"), ("LANG", "C"), ("LC_ALL", "C"), ("TZ", "UTC0"), ("USER", "root")]
        {
            assert!(is_inherited(OsStr::new(name), OsStr::new(value)), "{name}");
        }
    }

    #[test]
    fn a_language_is_what_has_the_name_and_the_form_of_one() {
        let passes = |name: &str, value: &str| is_inherited(OsStr::new(name), OsStr::new(value));
        for value in
            ["C", "POSIX", "C.UTF-8", "de", "de_DE", "de_DE.UTF-8", "sr_RS@latin", "ca_ES.ISO-8859-15@euro"]
        {
            assert!(passes("LC_ALL", value) && passes("LC_PAPER", value) && passes("LANG", value), "{value}");
        }
        for name in ["LC_SECRET", "LC_", "LC_ALL_", "lc_all", "LC_TOKEN", "LC_ALLX", "LC_GIT_TOKEN"] {
            assert!(!passes(name, "C"), "{name}");
        }
        for value in [
            "",
            "sk-proj-0123456789abcdef",
            "ghp_0123456789abcdefABCDEF",
            "/etc/locale",
            "../x",
            "de_DE\nX=1",
            "de DE",
            "AKIAIOSFODNN7EXAMPLE",
            "C.0123456789abcdef0",
            "C.secret",
            "en_US.UTF-8@SECRET3",
            "en_US@secret",
            "secret",
            "de_SECRET",
            "de_DE_SECRET",
            "C_DE",
            "POSIX@x",
            "C.UTF-8.secret",
            "en_US.iso8859-secret",
            "en_US.cp12345",
            "en_US@euro@x",
        ] {
            assert!(
                !passes("LC_ALL", value) && !passes("LC_TIME", value) && !passes("LANG", value),
                "{value}"
            );
        }
        for value in
            ["zh_Hans_CN.UTF-8", "es_419", "en_US.utf8", "ja_JP.eucJP", "ru_RU.KOI8-R", "ast_ES.CP1252"]
        {
            assert!(passes("LANG", value), "{value}");
        }
        assert!(passes("LANGUAGE", "de_DE:de:en") && !passes("LANGUAGE", "de:sk-proj-0123456789"));
        assert!(!passes("LANGUAGE", "de:secret"));
    }

    #[test]
    fn a_time_zone_is_one_that_there_is_or_a_rule_for_one() {
        let passes = |value: &str| is_inherited(OsStr::new("TZ"), OsStr::new(value));
        for value in [
            ":/etc/localtime",
            "<+03>-3",
            "<-0330>+3:30",
            "CET-1CEST,M3.5.0,M10.5.0/3",
            "EST5EDT",
            "EST5EDT4,J60/2,J300",
            "UTC0",
            "",
        ] {
            assert!(passes(value), "{value}");
        }
        if Path::new("/usr/share/zoneinfo/Europe/Berlin").is_file() {
            assert!(
                passes("Europe/Berlin")
                    && passes(":Europe/Berlin")
                    && passes("/usr/share/zoneinfo/Europe/Berlin")
            );
        }
        for value in [
            "$(id)",
            "a b",
            "SECRET",
            "secret",
            "Europe/SECRET",
            "Europe",
            "../../etc/passwd",
            "Europe/../../passwd",
            "/etc/passwd",
            "<SECRET>-3",
            "SECRETS5",
            "CET-1SECRETS",
            "CET-1CEST,secret,secret",
            "CET-1CEST,M3.5.0",
            "CET",
            "sk-proj-0123456789",
            "postgres://user:password@host/0123456789012345678901234567890123456789012",
        ] {
            // The machine may have a zone with a short name.
            assert!(!passes(value) || value == "CET" && is_installed_zone(value), "{value}");
        }
    }

    #[test]
    fn a_user_is_one_of_this_machine() {
        let passes = |value: &str| is_inherited(OsStr::new("USER"), OsStr::new(value));
        assert!(passes("root"));
        for value in ["", "sk-proj-0123456789", "SECRET", "ro:ot", "root\n", "../root", "-root", "x:0:0:root"]
        {
            assert!(!passes(value), "{value}");
        }
    }
}
