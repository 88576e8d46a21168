//! What is started: arguments as an array, the project as working directory, an environment built from nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::super::sandbox::{Cage, Order};
use super::interpreter::{Found, search_path};
use super::reach::{self, Places};
use crate::policy::Limits;

/// The variables a script inherits. Whatever is not here stays outside: secrets, and everything that changes how an
/// interpreter or a tool behaves (`LD_*`, `PYTHON*`, `NODE_OPTIONS`, `BASH_ENV`, `GIT_*`). `PATH` is rebuilt. A value that has
/// not the form of such a value stays outside as well.
const INHERITED: [(&str, Form); 20] = [
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
    ("LANGUAGE", Some(is_list_of_locales)), // Further languages, in order.
    ("TZ", Some(is_time_zone)),             // What time it is here.
    ("TMPDIR", None),                       // Where temporary files belong, where that is not /tmp.
];

/// Whether a value has the form it should have; nothing where any has.
type Form = Option<fn(&str) -> bool>;

fn is_user(value: &str) -> bool {
    value.len() <= 64 && !value.chars().any(|letter| letter.is_control() || letter == '=')
}

/// `de`, `de_DE.UTF-8@euro`, `C.UTF-8`, `POSIX`: a language, a country, an encoding and a variant, as far as they are there.
fn is_locale(value: &str) -> bool {
    let (value, variant) = value.split_once('@').unwrap_or((value, "none"));
    let (value, encoding) = value.split_once('.').unwrap_or((value, "none"));
    let (language, country) = value.split_once('_').unwrap_or((value, "none"));
    let is_word = |text: &str, most: usize, also: fn(u8) -> bool| {
        (1..=most).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || also(byte))
    };
    let letters = language.bytes().all(|byte| byte.is_ascii_alphabetic());
    let nothing: fn(u8) -> bool = |_| false;
    letters
        && is_word(language, 8, nothing)
        && is_word(country, 8, |byte| byte == b'_')
        && is_word(encoding, 16, |byte| byte == b'-')
        && is_word(variant, 16, nothing)
}

fn is_list_of_locales(value: &str) -> bool {
    value.len() <= 128 && value.split(':').all(|part| part.is_empty() || is_locale(part))
}

/// `Europe/Berlin`, `:/etc/localtime`, `<+03>-3`, `CET-1CEST,M3.5.0,M10.5.0/3`.
fn is_time_zone(value: &str) -> bool {
    value.len() <= 64
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_+-,.:<>".contains(&byte))
}

/// The command that runs `script`, absolute, for a skill in `folder` on `project`.
pub(super) fn of(
    interpreter: &Found,
    script: &Path,
    args: &[String],
    folder: &Path,
    project: &Path,
) -> Command {
    let mut command = Command::new(&interpreter.program);
    command.args(&interpreter.args).arg(script).args(args);
    command.current_dir(project);
    command.env_clear().envs(inherited()).envs(told(folder, project));
    command
}

/// The variables that a run has of its own, wherever it runs.
fn told(folder: &Path, project: &Path) -> [(OsString, OsString); 3] {
    [
        ("METIER_SKILL_DIR".into(), folder.into()),
        ("METIER_PROJECT_DIR".into(), project.into()),
        // Running a skill must not change its folder.
        ("PYTHONDONTWRITEBYTECODE".into(), "1".into()),
    ]
}

/// The order for the same script in a cage. Home and temporary files are a folder of the run's own, and `PATH` holds what the
/// cage lets it reach. `InvalidInput` for an argument that no process can have.
pub(super) fn order(
    interpreter: &Found,
    script: &Path,
    args: &[String],
    places: &Places<'_>,
    cage: Cage,
    limits: &Limits,
) -> io::Result<Order> {
    if args.iter().any(|arg| arg.contains('\0')) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let path =
        std::env::join_paths(reach::with_programs(&cage, places.installed)).map_err(io::Error::other)?;
    let mut environment: BTreeMap<OsString, OsString> = inherited_but_path().collect();
    environment.extend(told(places.skill, places.project));
    environment.extend(OWN.iter().map(|name| ((*name).into(), places.scratch.into())));
    environment.insert("PATH".into(), path);
    let before = interpreter.args.iter().map(OsString::from).chain([script.into()]);
    Ok(Order {
        program: interpreter.program.as_os_str().to_owned(),
        args: before.chain(args.iter().map(OsString::from)).collect(),
        environment: environment.into_iter().collect(),
        folder: places.project.into(),
        cage,
        leftovers: vec![places.scratch.into()],
        deadline_ms: u64::try_from(limits.deadline.saturating_add(BACKSTOP).as_millis()).unwrap_or(u64::MAX),
    })
}

/// The host stops a run at its deadline; should it be too busy, the stub does so this much later.
const BACKSTOP: Duration = Duration::from_secs(1);

/// Variables that name a folder to write to: in a cage the run's own.
const OWN: [&str; 2] = ["HOME", "TMPDIR"];

/// The variables that come from the host, `PATH` included.
pub(super) fn inherited() -> impl Iterator<Item = (OsString, OsString)> {
    // Folders that came from a PATH need no further check to be joined to one.
    let path = std::env::join_paths(search_path()).ok().map(|path| ("PATH".into(), path));
    inherited_but_path().chain(path)
}

fn inherited_but_path() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, value)| is_inherited(name, value))
}

pub(super) fn is_inherited(name: &OsStr, value: &OsStr) -> bool {
    let known = INHERITED.iter().find(|(known, _)| name == *known);
    known.is_some_and(|(_, form)| form.is_none_or(|fits| value.to_str().is_some_and(fits)))
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
        for name in ["HOME", "LANG", "LC_ALL", "TZ"] {
            assert!(is_inherited(OsStr::new(name), OsStr::new("C")), "{name}");
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
        ] {
            assert!(!passes("LC_ALL", value) && !passes("LANG", value), "{value}");
        }
        assert!(passes("LANGUAGE", "de_DE:de:en") && !passes("LANGUAGE", "de:sk-proj-0123456789"));
        for value in ["Europe/Berlin", ":/etc/localtime", "<+03>-3", "CET-1CEST,M3.5.0,M10.5.0/3", ""] {
            assert!(passes("TZ", value), "{value}");
        }
        for value in
            ["$(id)", "a b", "postgres://user:password@host/0123456789012345678901234567890123456789012"]
        {
            assert!(!passes("TZ", value), "{value}");
        }
    }
}
