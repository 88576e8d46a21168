//! The hint for a script that looked for a file of the user in its own home, which is another one.

use std::path::{Component, Path, PathBuf};

use crate::audience::is_for_person;
use crate::error_line::error_line;
use crate::hints::denied_file::{denied_file, missing_file};
use crate::hints::permission_hint::{Help, permission_hint};
use crate::hints::script_text::ScriptText;
use crate::hints::shown_path::{is_typable, shown_path};
use crate::home_files::HomeFile;
use metier_core::host::{Files, SkillContext};
use metier_core::policy::{Access, is_within, secret_paths_in_folders};

/// What says, in lower case, that a file is not there.
const ABSENCE_WORDS: [&str; 10] = [
    "can't find",
    "cannot find",
    "could not find",
    "does not exist",
    "doesn't exist",
    "enoent",
    "missing",
    "no such file",
    "not found",
    "unable to find",
];

/// What says that something is not there, or not switched on, without a file.
const LACK_WORDS: [&str; 9] = ["disabled", "empty", "no ", "no_", "none", "not ", "off ", "off)", "without"];

/// Words that are parts of many paths, and say nothing about which is meant.
const COMMON_WORDS: [&str; 14] = [
    "config", "data", "file", "home", "json", "local", "main", "script", "share", "skill", "text", "toml",
    "user", "yaml",
];

/// Folders and files of a home that are for secrets. Others are known by their names anywhere.
const SECRET_PATHS: [&str; 24] = [
    ".Xauthority",
    ".aws",
    ".azure",
    ".bitcoin",
    ".cache/huggingface/token",
    ".claude.json",
    ".claude/.credentials.json",
    ".config/BraveSoftware",
    ".config/chromium",
    ".config/gcloud",
    ".config/google-chrome",
    ".config/microsoft-edge",
    ".config/solana",
    ".docker",
    ".electrum",
    ".ethereum",
    ".gemini/oauth_creds.json",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".mozilla",
    ".password-store",
    ".ssh",
    ".thunderbird",
];

/// The hint for a file that the script looked for in its home, and that is in the home of the user. What is there is only for the
/// person who runs the script: no model is told, and no script that called this one.
pub(crate) fn user_home_hint(ctx: &SkillContext, home: Option<&Path>, text: &str) -> Option<Help> {
    let homes = Homes::new(ctx, home?)?;
    // A remark before the error is not its reason.
    let line = error_line(text)?;
    let small = line.to_lowercase();
    let is_about_absence =
        ABSENCE_WORDS.iter().any(|words| small.contains(words)) || requires_setting(&small);
    let rest = path_below(line, &[homes.script, &homes.user])
        .filter(|rest| is_about_absence && homes.is_of_user(rest))?;
    Some(home_help(ctx, &rest, ""))
}

/// Whether a line in lower case asks to set something in a file of the home: `set x.enabled in ~/.app/config.json`.
fn requires_setting(small: &str) -> bool {
    let before = small.split_once("~/").map(|(before, _)| before.trim_end());
    before.is_some_and(|before| {
        before.ends_with(" in")
            && ["set ", "enable ", "add ", "configure "].iter().any(|verb| before.contains(verb))
    })
}

/// The hint for a script that says that something is not there, and whose text names a path below its home that has this in its name
/// and is in the home of the user. Only for the person who runs the script, too.
pub(crate) fn named_home_hint(
    ctx: &SkillContext,
    home: Option<&Path>,
    script: &ScriptText<'_>,
    text: &str,
) -> Option<Help> {
    let homes = Homes::new(ctx, home?)?;
    let line = error_line(text)?;
    let small = line.to_lowercase();
    let is_about_absence = says_absence(&small);
    // An error about another file is about that one.
    if !is_about_absence || missing_file(line).is_some_and(|file| file.contains('/')) {
        return None;
    }
    let named = script.home_paths();
    let meant = named.iter().find(|path| shares_word(&small, path) && homes.is_of_user(Path::new(path)))?;
    let folder = named_folder(ctx, &homes, &named, meant);
    Some(home_help(ctx, Path::new(folder), ", which the script names,"))
}

/// The outermost of the named paths that holds this one and can be granted: the folder of the program, in which a script finds its files
/// behind the link that leads to what is granted, as `find` does not behind a link that it is given.
fn named_folder<'a>(ctx: &SkillContext, homes: &Homes<'_>, named: &'a [String], path: &'a str) -> &'a str {
    let outer = named.iter().filter(|outer| is_within(path, outer) && homes.is_of_user(Path::new(outer)));
    let mut outer: Vec<&str> = outer.map(String::as_str).collect();
    outer.sort_by_key(|outer| outer.len());
    outer.into_iter().find(|outer| grant(ctx, outer, false).is_some()).unwrap_or(path)
}

/// The warning for a script that replaced a granted file of the home by a new one, which is not there after the run.
pub(crate) fn replaced_home_warning(ctx: &SkillContext, path: &str) -> String {
    let folder = path.rsplit_once('/').map(|(folder, _)| folder).filter(|_| is_for_person(ctx));
    let way_out = folder.and_then(|folder| Some(grant(ctx, folder, true)?.0));
    let way_out = way_out.map(|way_out| format!("; for that it needs the folder: {way_out}"));
    format!(
        "the script replaced {} by a new file, and the old one stays in your home folder{}",
        shown_path(&format!("~/{path}")),
        way_out.unwrap_or_default()
    )
}

/// The hint for a script that could not replace a granted file of the user's home, on which a file is mounted.
fn mounted_file_hint(ctx: &SkillContext, homes: &Homes<'_>, line: &str) -> Option<Help> {
    let small = line.to_ascii_lowercase();
    let is_named = |path: &String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        line.contains(name) && homes.user.join(path).is_file()
    };
    let granted = ctx.permissions().home_paths();
    let is_busy = ["resource busy", "ebusy"].iter().any(|words| small.contains(words));
    let path = granted.iter().find(|path| is_busy && is_named(path))?;
    let (way_out, hint) = grant(ctx, path.rsplit_once('/')?.0, true)?;
    let shown = shown_path(&format!("~/{path}"));
    Some((format!("no new file can replace {shown}; for that the script needs the folder: {way_out}"), hint))
}

/// The hint for a script that tried to change what it was granted of the user's home.
pub(crate) fn read_only_home_hint(ctx: &SkillContext, home: Option<&Path>, text: &str) -> Option<Help> {
    let homes = Homes::new(ctx, home?)?;
    let line = error_line(text)?;
    if let Some(help) = mounted_file_hint(ctx, &homes, line) {
        return Some(help);
    }
    let file = Path::new(denied_file(line)?);
    let below = file.strip_prefix(homes.script).or_else(|_| file.strip_prefix(&homes.user)).ok();
    // A script that works in its home names a path that the project does not have.
    let is_of_project =
        || ctx.project_root().is_some_and(|root| root.join(file).parent().is_some_and(Path::exists));
    let rest = below.or_else(|| (file.is_relative() && !is_of_project()).then_some(file))?.to_str()?;
    if ctx.permissions().writable_home_paths().iter().any(|writable| is_within(rest, writable)) {
        return None;
    }
    let granted = ctx.permissions().home_paths().into_iter().find(|granted| is_within(rest, granted))?;
    let (way_out, hint) = grant(ctx, &granted, true).unwrap_or_else(|| {
        let way_out = "no grant lets a script change that; let it work on a copy in the project";
        (way_out.to_owned(), None)
    });
    let shown = shown_path(&format!("~/{granted}"));
    Some((format!("{shown} is granted for reading only; {way_out}"), hint))
}

/// The warning for a script that ended well without a file of the user's home: one of its arguments, or one that its text names and
/// that it says is not there, or says nothing at all. Only for the person who runs the script, too.
pub(crate) fn unread_home_warning(
    ctx: &SkillContext,
    home: &Path,
    script: &ScriptText<'_>,
    said: &str,
) -> Option<String> {
    let (named, passed) = (script.home_paths(), script.home_arguments());
    if named.is_empty() && passed.is_empty() {
        return None;
    }
    let said = said.to_lowercase();
    let complaints: Vec<&str> = said.lines().filter(|line| says_absence(line)).collect();
    let homes = Homes::new(ctx, home)?;
    let is_silent = said.trim().is_empty();
    let is_missed = |path: &String| is_silent || complaints.iter().any(|line| shares_word(line, path));
    let mut paths = passed.iter().chain(named.iter().filter(|path| is_missed(path)));
    let path = paths.find(|path| homes.is_of_user(Path::new(path)))?;
    let path = named_folder(ctx, &homes, &named, path);
    let (help, _) = grant(ctx, path, false)?;
    Some(format!(
        "~/{path} is in your home folder, and the script has a home of its own; if it is to read that, {help}"
    ))
}

/// Whether a line in lower case says that something is not there.
pub(crate) fn says_absence(small: &str) -> bool {
    ABSENCE_WORDS.iter().chain(&LACK_WORDS).any(|words| small.contains(words))
}

/// The grant that lets a script read this absolute path, if it is in the home of the user; only for the person who runs the script.
pub(crate) fn home_grant(ctx: &SkillContext, path: &Path) -> Option<Help> {
    let home = std::env::home_dir().filter(|_| is_for_person(ctx))?.canonicalize().ok()?;
    grant(ctx, path.strip_prefix(home).ok()?.to_str()?, false)
}

/// The grant that lets a script read a folder of the user's home, if it is one and there is such a grant.
pub(crate) fn folder_grant(ctx: &SkillContext, folder: &Path) -> Option<Help> {
    let home = std::env::home_dir()?.canonicalize().ok()?;
    let folder = folder.canonicalize().ok()?;
    grant(ctx, folder.strip_prefix(&home).ok()?.to_str()?, false)
}

/// The grant that lets a script read this path of the home, or also change it; `None` if none does, and for what holds secrets, which
/// a script could name for no good.
fn grant(ctx: &SkillContext, path: &str, is_writable: bool) -> Option<Help> {
    let need = if is_writable { Access::home_write(path) } else { Access::home(path) };
    is_advisable(ctx, path, is_writable).then(|| permission_hint(ctx, &need)).flatten()
}

/// Whether a person may be advised to grant this path of the home, for reading or also for changing.
pub(crate) fn is_advisable(ctx: &SkillContext, path: &str, is_writable: bool) -> bool {
    let own = [ctx.project().ok().map(Files::root), ctx.skill_files().ok().map(Files::root)];
    let own: Vec<&Path> = own.into_iter().flatten().collect();
    is_typable(path)
        && !ctx.permissions().protection().protects_read(path)
        && !SECRET_PATHS.iter().any(|known| is_within(path, known) || is_within(known, path))
        && !secret_paths_in_folders().any(|known| is_within(&known, path))
        && HomeFile::is_grantable(ctx, path, &own, is_writable)
}

fn home_help(ctx: &SkillContext, rest: &Path, remark: &str) -> Help {
    let rest = rest.to_string_lossy();
    let (way_out, hint) = grant(ctx, &rest, false).unwrap_or_else(|| {
        ("copy what it needs into the project, or pass the path of the copy".to_owned(), None)
    });
    let shown = shown_path(&format!("~/{rest}"));
    let text = format!(
        "{shown}{remark} is in your home folder, and a script has a home of its own in the sandbox; {way_out}"
    );
    (text, hint)
}

/// The home that the script had, and that of the user.
struct Homes<'a> {
    script: &'a Path,
    user: PathBuf,
}

impl<'a> Homes<'a> {
    /// `None` if the hint is for nobody who may know what the user has.
    fn new(ctx: &SkillContext, script: &'a Path) -> Option<Self> {
        let user = std::env::home_dir().filter(|_| is_for_person(ctx))?.canonicalize().ok()?;
        Some(Self { script, user })
    }

    /// Whether only the user has what is at this path of a home.
    fn is_of_user(&self, rest: &Path) -> bool {
        let is_new = self.script.join(rest).symlink_metadata().is_err();
        is_new && self.user.join(rest).canonicalize().is_ok_and(|real| real.starts_with(&self.user))
    }
}

/// Whether a line in lower case and a path have a word in common, in the singular or the plural, that is not part of many paths.
fn shares_word(small: &str, path: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).map(|word| word.trim_end_matches('s'));
        words.filter(|word| word.len() >= 4 && !COMMON_WORDS.contains(word)).map(str::to_owned).collect()
    };
    let said = words(small);
    words(&path.to_lowercase()).iter().any(|word| said.contains(word))
}

/// The path below one of these homes that a line names, as a path or with `~`.
fn path_below(line: &str, homes: &[&Path]) -> Option<PathBuf> {
    let written = homes.iter().filter_map(|home| Some(format!("{}/", home.to_str()?)));
    let mut written = written.chain(["~/".to_owned()]);
    let rest = written.find_map(|start| Some(line.split_once(&start)?.1))?;
    let is_end = |c: char| c.is_whitespace() || ['\'', '"', '`', '’', ':', ',', ')', ';'].contains(&c);
    let path = rest[..rest.find(is_end).unwrap_or(rest.len())].trim_end_matches(['.', '/']);
    let is_plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    (is_plain && !path.is_empty()).then(|| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_about_a_path_by_a_word_of_both() {
        for (line, path) in [
            ("{\"error\":\"no_sessions\"}", ".app/x/sessions"),
            ("no session data found", ".app/sessions/a.json"),
        ] {
            assert!(shares_word(line, path), "{line}");
        }
        for (line, path) in
            [("no config found", ".app/config.json"), ("the file is missing", ".app/sessions")]
        {
            assert!(!shares_word(line, path), "{line}");
        }
    }

    #[test]
    fn the_path_below_the_home_is_found_in_a_line() {
        let home = Path::new("/tmp/metier-0/home");
        for (line, path) in [
            (
                "FileNotFoundError: [Errno 2] No such file or directory: '/tmp/metier-0/home/.a/b.json'",
                ".a/b.json",
            ),
            ("ERROR: /tmp/metier-0/home/.a/b.json not found — nothing", ".a/b.json"),
            ("Error: ENOENT: no such file or directory, open '/tmp/metier-0/home/.a/b.json'", ".a/b.json"),
            ("No config at ~/.a/b.json.", ".a/b.json"),
            ("cat: /tmp/metier-0/home/.a: No such file or directory", ".a"),
        ] {
            assert_eq!(path_below(line, &[home]), Some(path.into()), "{line}");
        }
        for line in ["", "see ~/", "~/../x is missing", "/home/me/.a is missing", "~ is missing"] {
            assert_eq!(path_below(line, &[home]), None, "{line}");
        }
    }
}
