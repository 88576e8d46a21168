//! The rules of the `.gitignore` files of a tree, from its root down. Files above the root and the user's own are not read.

use std::io::{self, Read};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::error::{Result, SkillError};
use crate::host::files::operation::not_regular_file;
use crate::host::files::view::FilesView;
use crate::host::files::{Files, name_encoding};
use crate::host::io_error::into_io_error;
use crate::host::memory::HostMemoryReservation;

/// The name of the rule files.
pub(super) const FILE_NAME: &str = ".gitignore";

/// Maximum bytes of one rule file; compiling rules takes time and memory.
const MAX_RULES_BYTES: u64 = 64 << 10;

/// Approximate compiled bytes per byte of rules.
const MEMORY_PER_RULE_BYTE: u64 = 200;

/// The rules of one folder, on top of those of its parents.
#[derive(Clone, Default)]
pub(super) struct IgnoreRules(Option<Arc<Layer>>);

struct Layer {
    rules: Gitignore,
    /// Length in bytes of this folder's path prefix.
    prefix: usize,
    parent: IgnoreRules,
    /// The memory of the rules, held as long as a folder below may still be searched.
    _reservation: HostMemoryReservation,
}

impl IgnoreRules {
    /// Whether a path below this folder is ignored: the nearest folder with a matching rule decides.
    pub(super) fn ignores(&self, path: &str, is_dir: bool) -> bool {
        let mut layer = self.0.as_deref();
        while let Some(Layer { rules: own, prefix, parent, .. }) = layer {
            match own.matched(&path[*prefix..], is_dir) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => layer = parent.0.as_deref(),
            }
        }
        false
    }

    /// The rules that apply in `folder`, including those of the folders above it.
    pub(super) fn inherited(view: &FilesView<'_>, folder: &str) -> Result<Self> {
        let ends = folder.match_indices('/').map(|(at, _)| at);
        let mut above = std::iter::once(0).chain(ends).filter(|_| !folder.is_empty());
        above.try_fold(Self::default(), |rules, end| {
            match rules.clone().with_folder(view, &folder[..end]).map_err(io::Error::downcast::<SkillError>) {
                Ok(rules) => Ok(rules),
                Err(Ok(own)) => Err(own),
                Err(Err(_)) => Ok(rules),
            }
        })
    }

    /// These rules and those in `folder`'s own file, which must be a regular file of limited size.
    pub(super) fn with_folder(self, view: &FilesView<'_>, folder: &str) -> io::Result<Self> {
        let text = read_rules(view.files, folder)?;
        let mut reservation = view.empty_reservation();
        reservation.grow(text.len() as u64 * MEMORY_PER_RULE_BYTE).map_err(into_io_error)?;
        let mut builder = GitignoreBuilder::new(".");
        for line in text.trim_start_matches('\u{feff}').lines() {
            // Git also skips a line that is not a valid pattern.
            let _ = builder.add_line(None, line);
        }
        let own = builder.build().map_err(io::Error::other)?;
        let prefix = if folder.is_empty() { 0 } else { folder.len() + 1 };
        Ok(Self(Some(Arc::new(Layer { rules: own, prefix, parent: self, _reservation: reservation }))))
    }
}

fn read_rules(files: &Files, folder: &str) -> io::Result<String> {
    let file = files.open_file(&name_encoding::decode(folder).join(FILE_NAME))?;
    if !file.metadata()?.is_file() {
        return Err(not_regular_file());
    }
    let mut bytes = Vec::new();
    file.take(MAX_RULES_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_RULES_BYTES {
        return Err(io::Error::other(format!(
            "it has more than {MAX_RULES_BYTES} bytes, so its rules are not applied"
        )));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
