//! Links on the way: where they lead, and whether the run may go there.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::attempt::Attempt;
use super::{Files, View, names};
use crate::error::{ErrorKind, Result, SkillError};

/// Whether the last name of a path is followed when it is a link.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Last {
    Followed,
    Itself,
}

/// Links one path may lead through; Linux's own limit.
const MOST_LINKS: usize = 40;

impl View<'_> {
    /// Does `act` to the path. `act` must refuse every link; when it fails and links are in the way, it is tried once more
    /// on the path they lead to, if the run may do this there.
    pub(super) fn reach<T>(
        &self,
        attempt: Attempt<'_>,
        last: Last,
        act: impl Fn(&str) -> io::Result<T>,
    ) -> Result<T> {
        self.open_to_scripts(attempt, attempt.path)?;
        self.permit(attempt, attempt.path)?;
        let refused = match act(attempt.path) {
            Ok(done) => return Ok(done),
            Err(refused) => refused,
        };
        let real = match self.files.real_path(attempt.path, last) {
            Ok(real) => real,
            Err(Lost::Outside) => return Err(self.outside(attempt)),
            Err(Lost::Failed(error)) => return Err(attempt.io(error)),
        };
        if real == attempt.path {
            return Err(attempt.io(refused));
        }
        self.open_to_scripts(attempt, &real)?;
        if let Some(permissions) = self.permissions {
            permissions.require(&attempt.need(&real), attempt)?;
        }
        self.permit(attempt, &real)?;
        act(&real).map_err(|error| attempt.io(error))
    }

    /// Refuses what is metier's own: other runs rely on it.
    pub(super) fn open_to_scripts(&self, attempt: Attempt<'_>, path: &str) -> Result<()> {
        if self.files.is_closed(path) {
            return Err(SkillError::new(
                ErrorKind::Denied,
                format!("{attempt}: it is metier's own, for other runs"),
            ));
        }
        Ok(())
    }

    fn outside(&self, attempt: Attempt<'_>) -> SkillError {
        let place = self.place;
        SkillError::new(ErrorKind::Denied, format!("{attempt}: a link leads outside {place}"))
    }
}

/// Why a path with links leads nowhere.
enum Lost {
    Outside,
    Failed(io::Error),
}

impl Files {
    /// The path with every link replaced by what it points to. What does not exist is kept, unless a link points to it.
    ///
    /// This is only text: it is opened afterwards with no link on the way.
    fn real_path(&self, path: &str, last: Last) -> Result<String, Lost> {
        let mut ahead = Ahead::of(&names::os(path));
        let mut real = PathBuf::new();
        let mut links = 0;
        while let Some((part, from_link)) = ahead.next() {
            if part == ".." {
                if !real.pop() {
                    return Err(Lost::Outside);
                }
                continue;
            }
            real.push(part);
            if last == Last::Itself && ahead.is_empty() && !from_link {
                break;
            }
            let Some(target) = self.link_at(&real, from_link).map_err(Lost::Failed)? else { continue };
            links += 1;
            if links > MOST_LINKS {
                return Err(Lost::Failed(io::Error::other("too many links on the way")));
            }
            if target.has_root() {
                ahead.add(target.strip_prefix(&self.root).map_err(|_| Lost::Outside)?);
                real.clear();
            } else {
                ahead.add(&target);
                real.pop();
            }
        }
        Ok(as_text(&real))
    }

    /// Where the link at `path` points, or nothing when there is none. It is an error when a link led here and nothing is.
    fn link_at(&self, path: &Path, from_link: bool) -> io::Result<Option<PathBuf>> {
        match self.dir.symlink_metadata(path) {
            Ok(found) if found.is_symlink() => self.dir.read_link_contents(path).map(Some),
            Err(error) if from_link && error.kind() == io::ErrorKind::NotFound => {
                Err(io::Error::new(error.kind(), "a link on the way leads to nothing"))
            }
            // Whatever else is wrong here, opening the path will say.
            _ => Ok(None),
        }
    }
}

/// The names still to go, nearest last, and how many of them a link put there.
struct Ahead {
    parts: Vec<OsString>,
    own: usize,
}

impl Ahead {
    fn of(path: &Path) -> Self {
        let mut ahead = Self { parts: Vec::new(), own: 0 };
        ahead.add(path);
        ahead.own = ahead.parts.len();
        ahead
    }

    fn add(&mut self, path: &Path) {
        let parts =
            path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
        let place = self.parts.len();
        self.parts.extend(parts.map(|part| part.as_os_str().to_owned()));
        self.parts[place..].reverse();
    }

    fn next(&mut self) -> Option<(OsString, bool)> {
        let from_link = self.parts.len() > self.own;
        let part = self.parts.pop()?;
        self.own = self.own.min(self.parts.len());
        Some((part, from_link))
    }

    fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

fn as_text(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(names::text).collect();
    parts.join("/")
}
