//! What a script does by its text: the variables that it reads, and the files that it names.
//!
//! The text is searched, not parsed: what is found in it decides about a hint only together with the output of the run.

use std::cell::OnceCell;
use std::io::Read;
use std::path::Path;

use crate::hints::variable_use::{is_comment, reads_variable};
use crate::hints::words::contains_any;
use metier_core::host::files::FilesView;
use metier_core::host::{Files, RunContext, SkillContext};
use metier_core::policy::CancelToken;

/// How much of one text is searched.
const MAX_TEXT_BYTES: usize = 256 << 10;

/// How much of the other files of the skill is searched, and among how many files and folders they are looked for.
const MAX_OTHER_BYTES: usize = 512 << 10;
const MAX_ENTRIES: usize = 1000;
const MAX_OTHERS: usize = 64;

/// How many arguments of a command may name its script.
const MAX_ARGS: usize = 8;

/// The endings of files that a script may call or import.
const SCRIPT_ENDINGS: [&str; 12] =
    [".bash", ".cjs", ".cts", ".js", ".mjs", ".mts", ".pl", ".py", ".rb", ".sh", ".ts", ".zsh"];

/// The text of a script that ended.
pub(crate) struct ScriptText<'a> {
    ctx: &'a SkillContext,
    text: String,
    /// The other files of its skill that it names, or that one of those names, read when they are first asked for.
    others: OnceCell<Vec<String>>,
}

impl<'a> ScriptText<'a> {
    /// The script of this name in the folder of its skill; what was loaded of it, if that is known.
    pub(crate) fn new(ctx: &'a SkillContext, name: &str, source: &[u8], args: &[String]) -> Self {
        let mut text = lossy_beginning(source);
        if source.is_empty() {
            text.extend(ctx.skill_files().ok().and_then(|files| file_text(files, name)));
        }
        // A script that runs its arguments is what they name.
        if text.contains("exec \"$@\"") {
            text.push_str(&lossy_beginning(format!("\n{}", args.join("\n")).as_bytes()));
            text.extend(args.iter().take(MAX_ARGS).filter_map(|arg| file_text(ctx.project().ok()?, arg)));
        }
        Self { ctx, text, others: OnceCell::new() }
    }

    /// The text of the script itself.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether the script, or a file of its skill, reads this environment variable.
    pub(crate) fn reads_variable(&self, name: &str) -> bool {
        self.has_text(|text| reads_variable(text, name))
    }

    /// Whether the text of the script, which need not be read for that, or of what a shell includes in it, reads this environment
    /// variable.
    pub(crate) fn reads_variable_itself(&self, name: &str) -> bool {
        let reads = |text: &str| text.contains(name) && reads_variable(text, name);
        reads(&self.text) || self.includes_files() && self.other_texts().iter().any(|text| reads(text))
    }

    /// Whether a shell reads other files into the script.
    fn includes_files(&self) -> bool {
        self.text.lines().any(|line| ["source ", ". "].iter().any(|word| line.trim_start().starts_with(word)))
    }

    /// Whether the script, or what it includes, may name a path below the home folder.
    pub(crate) fn may_name_home(&self) -> bool {
        let names = |line: &str| contains_any(&line.to_ascii_lowercase(), "~/|home|expanduser");
        self.includes_files() || self.text.lines().filter(|line| !is_comment(line)).any(names)
    }

    /// Whether a line that is no comment, of the script or of a file of its skill that it may call or import, is like this.
    pub(crate) fn any_line(&self, is_like: impl Fn(&str) -> bool) -> bool {
        self.has_text(|text| text.lines().any(|line| !is_comment(line) && is_like(line)))
    }

    /// Whether the script, or a file of its skill that it may call or import, is like this.
    fn has_text(&self, is_like: impl Fn(&str) -> bool) -> bool {
        is_like(&self.text) || self.other_texts().iter().any(|text| is_like(text))
    }

    fn other_texts(&self) -> &[String] {
        self.others.get_or_init(|| named_texts(&self.text, other_texts(self.ctx)))
    }
}

fn lossy_beginning(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_TEXT_BYTES)]).into_owned()
}

/// The text of a script among these files, by its path; `None` if it is none, or large.
fn file_text(files: &Files, path: &str) -> Option<String> {
    let inside =
        Path::new(path).strip_prefix(files.root()).map_or(path, |inside| inside.to_str().unwrap_or(path));
    if !is_script_name(inside) {
        return None;
    }
    let files = FilesView::unrestricted(files);
    let is_small = files.stat(inside).ok()?.size <= MAX_TEXT_BYTES as u64;
    let bytes = is_small.then(|| files.read(inside).ok()).flatten()?;
    Some(format!("\n{}", lossy_beginning(&bytes)))
}

/// The texts whose names stand in this one, or in one of those.
fn named_texts(text: &str, others: Vec<(String, String)>) -> Vec<String> {
    let mut named: Vec<String> = Vec::new();
    let mut left = others;
    let mut at = 0;
    loop {
        let text = if at == 0 { text } else { &named[at - 1] };
        let (new, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(|(name, _)| text.contains(name));
        left = rest;
        named.extend(new.into_iter().map(|(_, text)| text));
        if at == named.len() {
            return named;
        }
        at += 1;
    }
}

/// By which name a script calls or imports the one at this path: that of the file without its ending, or of the folder that the file
/// stands for.
fn imported_name(path: &str) -> &str {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let name = file.split('.').next().unwrap_or_default();
    if ["__init__", "index", "mod"].contains(&name) {
        folder.rsplit('/').next().unwrap_or_default()
    } else {
        name
    }
}

/// The names and the texts of the scripts in the folder of the skill.
fn other_texts(ctx: &SkillContext) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    let mut left = MAX_OTHER_BYTES;
    let Ok(files) = ctx.skill_files() else { return texts };
    // What was read before an error is used.
    let _ = files.walk_tree(MAX_ENTRIES, &CancelToken::new(), |entry| {
        let name = imported_name(&entry.path);
        let is_wanted = is_script_name(&entry.path) && !name.is_empty() && texts.len() < MAX_OTHERS;
        if let Some((file, _)) = is_wanted.then(|| entry.open().ok()).flatten() {
            let mut bytes = Vec::new();
            file.take(left.min(MAX_TEXT_BYTES) as u64).read_to_end(&mut bytes).ok();
            left -= bytes.len();
            texts.push((name.to_owned(), lossy_beginning(&bytes)));
        }
        Ok(!entry.path.ends_with("node_modules") && left > 0)
    });
    texts
}

fn is_script_name(path: &str) -> bool {
    SCRIPT_ENDINGS.iter().any(|ending| path.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_counts_if_the_script_names_it_or_one_that_it_names() {
        let others = ["lib/settings.py", "lib/net/__init__.py", "other.py"].map(|path| {
            let text = if path.ends_with("settings.py") { "from net import call" } else { "" };
            (imported_name(path).to_owned(), format!("# {path}\n{text}"))
        });
        let named = named_texts("from lib.settings import read", others.to_vec());
        assert_eq!(named, ["# lib/settings.py\nfrom net import call", "# lib/net/__init__.py\n"]);
        assert_eq!(named_texts("print(1)", others.to_vec()), [""; 0]);
    }
}
