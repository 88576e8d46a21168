//! What a script left in its home and in `/tmp`: reported, and copied into the project where the caller wants it.

use std::io;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirEntry};

use crate::audience::is_for_person;
use crate::permission_hint::permission_hint;
use crate::private_home::is_mount_point;
use crate::shown_path::is_typable;
use metier_core::error::{ErrorKind, Hint, LimitKind, Result, SkillError};
use metier_core::host::files::FilesView;
use metier_core::host::{
    Leftover, LeftoverPath, LeftoverPlace, MAX_LEFTOVERS, RunContext, RunMessages, RunReporting,
    SkillContext, leftover,
};
use metier_core::policy::{Access, Limits, RunPermissions};
use metier_state::files_left_in;

/// What tools make for themselves, by its path from the top of the home or of `/tmp`: nobody misses it.
const TOOL_PATHS: [&str; 24] = [
    ".bash_history",      // what was typed
    ".bun",               // packages of Bun
    ".cargo/registry",    // packages of Rust
    ".config/matplotlib", // the fonts that it found
    ".deno",              // packages of Deno
    ".dotnet",            // a mark that it was started, and tools
    ".gradle",            // packages of Gradle
    ".ipython",           // a profile and a history
    ".java",              // fonts and preferences
    ".lesshst",           // what was searched for
    ".local/state",       // logs and histories, by the rules of XDG
    ".m2",                // packages of Maven
    ".node_repl_history", // what was typed
    ".npm",               // packages of Node
    ".nuget",             // packages of .NET
    ".nv",                // shaders that were compiled
    ".pki",               // an empty store of certificates
    ".python_history",    // what was typed
    ".viminfo",           // what was edited
    ".wget-hsts",         // which hosts want TLS
    ".yarn",              // packages of Yarn
    "jiti",               // modules that were compiled
    "node-compile-cache", // the same
    "v8-compile-cache",   // the same
];

/// Names of caches at any depth.
const CACHE_NAMES: [&str; 4] = [".cache", "__pycache__", ".pytest_cache", ".ruff_cache"];

/// Names in `/tmp` begin so that programs choose for themselves: counters of Java, and compilers of Node.
const TOOL_PREFIXES: [&str; 4] = ["hsperfdata_", "tsx-", "bunx-", "v8-compile-cache-"];

/// How many files the log names.
const MAX_NAMED: usize = 3;

/// How many files and folders a folder may hold to be copied, and how deep.
const MAX_COPIED: usize = 10_000;
const MAX_DEPTH: usize = 48;

/// Whether this file was made by a tool for itself, or has a name that nobody looks for.
pub(crate) fn is_of_tool(place: LeftoverPlace, path: &str) -> bool {
    let below =
        |outer: &str| path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let top = path.split('/').next().unwrap_or_default();
    let is_temporary = || TOOL_PREFIXES.iter().any(|prefix| top.starts_with(prefix)) || has_random_name(top);
    TOOL_PATHS.iter().any(|known| below(known))
        || path.split('/').any(|part| CACHE_NAMES.contains(&part))
        || place == LeftoverPlace::Tmp && is_temporary()
}

/// Whether a program chose this name by chance: `tmp.V3d9XkQa1b` of `mktemp`, `tmpk3x9_v1d` of Python. Who wants to find a file names it.
fn has_random_name(name: &str) -> bool {
    let rest = name.strip_prefix("tmp.").filter(|rest| rest.len() == 10);
    let rest = rest.or_else(|| name.strip_prefix("tmp").filter(|rest| rest.len() >= 8));
    // The ending is up to the program.
    let random = |rest: &str| rest.split('.').next().map_or(0, str::len) >= 8;
    rest.is_some_and(|rest| {
        random(rest) && rest.bytes().take(8).all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// The files that a script left in a folder, at most some; without those of tools.
fn leftovers_in(place: LeftoverPlace, folder: &Path) -> Vec<Leftover> {
    let is_news =
        |path: &str, mode: u32, bytes: u64| !is_mount_point(mode, bytes) && !is_of_tool(place, path);
    let found = files_left_in(folder, MAX_LEFTOVERS, &is_news);
    found.into_iter().map(|(path, bytes)| leftover(place, path, bytes)).collect()
}

/// Copies what the caller wants of these folders, reports what the script left in them, and warns of what is thrown away. The error is that
/// of a copy.
pub(super) fn report_leftovers(
    ctx: &SkillContext,
    name: &str,
    home: Option<&Path>,
    state_home: Option<&Path>,
    tmp: &Path,
) -> Result<()> {
    let (copies, failure) = copy_all(ctx, home.or(state_home), tmp);
    let mut left: Vec<Leftover> =
        home.into_iter().flat_map(|home| leftovers_in(LeftoverPlace::Home, home)).collect();
    left.extend(leftovers_in(LeftoverPlace::Tmp, tmp));
    let is_copied = |file: &Leftover| {
        copies.iter().any(|copy| {
            copy.place == file.place
                && file
                    .path
                    .strip_prefix(&copy.path)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    left.retain(|file| !is_copied(file));
    warn_of_leftovers(ctx, name, &left);
    let mut all = copies;
    all.extend(left);
    all.truncate(MAX_LEFTOVERS);
    ctx.report_leftovers(all);
    failure.map_or(Ok(()), Err)
}

/// Fails if the caller wants something copied of a run that has no folders of its own.
pub(super) fn require_none_wanted(ctx: &SkillContext) -> Result<()> {
    if ctx.facts().leftovers_to_copy.is_empty() || ctx.caller().is_some() {
        return Ok(());
    }
    let sentence = "failed to copy what the script leaves: without a sandbox it has no folders of its own";
    let help = "run it in a sandbox, or copy the files by hand";
    Err(SkillError::new(ErrorKind::Usage, sentence).with_help(help))
}

/// One line for all of them.
fn warn_of_leftovers(ctx: &SkillContext, name: &str, left: &[Leftover]) {
    if left.is_empty() {
        return;
    }
    let has = |place: LeftoverPlace| left.iter().any(|file| file.place == place);
    let places = match (has(LeftoverPlace::Home), has(LeftoverPlace::Tmp)) {
        (true, true) => "its home folder and in /tmp",
        (true, false) => "its home folder",
        _ => "/tmp",
    };
    let shown = |file: &Leftover| match file.place {
        LeftoverPlace::Tmp => format!("/tmp/{}", file.path),
        _ => file.path.clone(),
    };
    let names: Vec<String> = left.iter().take(MAX_NAMED).map(shown).collect();
    let more = if left.len() > MAX_NAMED { " and more" } else { "" };
    let state = has(LeftoverPlace::Home).then(|| permission_hint(ctx, &Access::state())).flatten();
    let state = state.map(|(help, _)| format!("; to keep them, {help}"));
    // Only the caller can want a copy, which is refused of what programs run or obey.
    let is_callers = state.is_none() && ctx.caller().is_none() && is_for_person(ctx);
    let can_be_copied = |file: &&Leftover| {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        is_callers && is_typable(&file.path) && !ctx.permissions().protection().protects_write(name)
    };
    let keep = left.iter().find(can_be_copied).map(|file| {
        format!("; keep {}:{} to have a copy of it in the project", file.place.name(), file.path)
    });
    ctx.warn(format!(
        "{name} left files in {places}, which were thrown away: {}{more}{}",
        names.join(", "),
        state.or(keep).unwrap_or_default()
    ));
}

/// Copies what the caller wants; the first error.
fn copy_all(ctx: &SkillContext, home: Option<&Path>, tmp: &Path) -> (Vec<Leftover>, Option<SkillError>) {
    let wanted = ctx.facts().leftovers_to_copy.iter().filter(|_| ctx.caller().is_none());
    let (mut copies, mut failure) = (Vec::new(), None);
    for wanted in wanted {
        let folder = match wanted.place {
            LeftoverPlace::Tmp => Some(tmp),
            _ => home,
        };
        match Copy::new(ctx, wanted).and_then(|copy| copy.run(folder)) {
            Ok(copy) => copies.push(copy),
            Err(error) => drop(failure.get_or_insert(error)),
        }
    }
    (copies, failure)
}

/// A copy of something that a script left, in the folder of the project.
struct Copy<'a> {
    ctx: &'a SkillContext,
    wanted: &'a LeftoverPath,
    /// Bytes that may still be copied.
    rest_bytes: u64,
    rest_entries: usize,
}

impl<'a> Copy<'a> {
    /// Fails if something has the name in the project.
    fn new(ctx: &'a SkillContext, wanted: &'a LeftoverPath) -> Result<Self> {
        let rest_bytes = ctx.limits().file_size.unwrap_or(Limits::DEFAULT_FILE_SIZE);
        let copy = Self { ctx, wanted, rest_bytes, rest_entries: MAX_COPIED };
        if ctx.project()?.has(wanted.file_name()) {
            return Err(copy.refusal(
                ErrorKind::Io,
                "the project has something of this name",
                "move that away first",
            ));
        }
        Ok(copy)
    }

    fn run(mut self, folder: Option<&Path>) -> Result<Leftover> {
        let wanted = self.wanted;
        let absent = || {
            let reason = "the script left nothing there";
            self.refusal(ErrorKind::Io, reason, "look at what the log says that it left")
        };
        let opened = folder.and_then(|folder| Dir::open_ambient_dir(folder, ambient_authority()).ok());
        let opened = opened.ok_or_else(absent)?;
        let mut path = std::path::PathBuf::new();
        for part in Path::new(&wanted.path) {
            path.push(part);
            let found = opened.symlink_metadata(&path).map_err(|_| absent())?;
            if found.is_symlink() {
                let reason = "a link is on the path";
                return Err(self.refusal(ErrorKind::Denied, reason, "name the file to which it leads"));
            }
        }
        let found = opened.symlink_metadata(&path).map_err(|_| absent())?;
        let before = self.rest_bytes;
        if found.is_dir() {
            let inner = opened.open_dir(&path).map_err(|error| self.failed(error))?;
            self.copy_dir(&inner, wanted.file_name(), 0)?;
        } else if found.is_file() {
            self.copy_file(&opened, &path, wanted.file_name())?;
        } else {
            return Err(self.refusal(
                ErrorKind::Denied,
                "it is neither a file nor a folder",
                "name another path",
            ));
        }
        let mut copied = leftover(wanted.place, wanted.path.clone(), before - self.rest_bytes);
        copied.copied_to = Some(wanted.file_name().to_owned());
        Ok(copied)
    }

    /// Links, pipes and the like are left out.
    fn copy_dir(&mut self, from: &Dir, to: &str, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(self.too_large());
        }
        self.require_unprotected(to)?;
        FilesView::with_permissions(self.ctx.project()?, self.ctx.permissions()).create_dir(to)?;
        let entries = from.entries().and_then(Iterator::collect::<io::Result<Vec<DirEntry>>>);
        for entry in entries.map_err(|error| self.failed(error))? {
            self.ctx.cancel().check()?;
            self.rest_entries = self.rest_entries.checked_sub(1).ok_or_else(|| self.too_large())?;
            let name = entry.file_name();
            let kind = entry.file_type().map_err(|error| self.failed(error))?;
            let Some(text) = name.to_str() else {
                let reason = "a name in it is not UTF-8";
                return Err(self.refusal(ErrorKind::Io, reason, "let the script pack it into an archive"));
            };
            let inner = format!("{to}/{text}");
            if kind.is_dir() {
                let opened = entry.open_dir().map_err(|error| self.failed(error))?;
                self.copy_dir(&opened, &inner, depth + 1)?;
            } else if kind.is_file() {
                self.copy_file(from, Path::new(&name), &inner)?;
            }
        }
        Ok(())
    }

    fn copy_file(&mut self, from: &Dir, path: &Path, to: &str) -> Result<()> {
        self.require_unprotected(to)?;
        let file = from.open(path).map_err(|error| self.failed(error))?;
        let bytes = file.metadata().map_err(|error| self.failed(error))?.len();
        self.rest_bytes = self.rest_bytes.checked_sub(bytes).ok_or_else(|| self.too_large())?;
        let files = FilesView::with_permissions(self.ctx.project()?, self.ctx.permissions());
        files.create_file(to, file.into_std(), bytes)
    }

    /// Fails for what programs run or obey, which a script could have made: the caller has named the copy, and not what is in it.
    fn require_unprotected(&self, to: &str) -> Result<()> {
        if !self.ctx.permissions().protection().protects_write(to) {
            return Ok(());
        }
        let reason = format!("{} is protected in the project", to.escape_debug());
        Err(self.refusal(ErrorKind::Denied, &reason, "look at the file, and copy it by hand"))
    }

    fn too_large(&self) -> SkillError {
        let reason = "it is larger than a file may be, or has too many files";
        self.refusal(ErrorKind::Output, reason, "raise the limit of a file's size")
            .with_hint(Hint::Limit(LimitKind::FileSize))
    }

    fn failed(&self, error: io::Error) -> SkillError {
        SkillError::io(self.attempt(), error)
    }

    fn refusal(&self, kind: ErrorKind, reason: &str, help: &str) -> SkillError {
        SkillError::new(kind, format!("{}: {reason}", self.attempt())).with_help(help)
    }

    fn attempt(&self) -> String {
        let to = self.wanted.file_name().escape_debug();
        format!("failed to copy {} to {to} in the project", self.wanted.to_string().escape_debug())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tools_make_for_themselves_is_no_news() {
        use LeftoverPlace::{Home, Tmp};
        for (place, path) in [
            (Home, ".cache/x"),
            (Home, "a/__pycache__/b.pyc"),
            (Home, ".config/matplotlib/fontlist.json"),
            (Home, ".python_history"),
            (Home, ".local/state/app/log"),
            (Tmp, "tmp.V3d9XkQa1b"),
            (Tmp, "tmpk3x9_v1d/part"),
            (Tmp, "tmpk3x9_v1d.json"),
            (Tmp, "hsperfdata_root"),
            (Tmp, "node-compile-cache/v22/x"),
            (Tmp, "tsx-0/x"),
        ] {
            assert!(is_of_tool(place, path), "{path}");
        }
        for (place, path) in [
            (Home, ".npmrc"),
            (Home, ".config/app.json"),
            (Home, "tmpk3x9_v1d"),
            (Tmp, "report.svg"),
            (Tmp, "tmp.txt"),
            (Tmp, "tmpfile"),
            (Tmp, "out/tmp.V3d9XkQa1b"),
            (Tmp, "template-1.html"),
        ] {
            assert!(!is_of_tool(place, path), "{path}");
        }
    }
}
