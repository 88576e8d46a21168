//! What is protected for what it is and not for its name: where a `.git` leads, what git takes for a repository, what its
//! configuration names, and secrets by their other names.
//!
//! Looked up once a run where it is read, and never where nothing hints at it: a folder is looked at once, a file only when it
//! has several names.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use cap_fs_ext::MetadataExt;

use super::attempt::Attempt;
use super::door::{Count, Named};
use super::walk::{EntryKind, Tidy, Walk};
use super::{Files, View, names};
use crate::error::{ErrorKind, Result};
use crate::host::git;
use crate::host::memory::{Held, is_own, through_io};
use crate::policy::{CancelToken, Permissions, Protection};

/// Device and number.
type Identity = (u64, u64);

/// Folders that are remembered; what comes then is looked at anew.
const REMEMBERED: usize = 1 << 12;

/// What is known of the protected things in a project. Lives as long as a run.
#[derive(Default)]
pub(super) struct Known {
    folders: Mutex<HashMap<String, Arc<Folder>>>,
    /// Folders in which nothing is protected but by its name.
    plain: Mutex<HashSet<String>>,
    secrets: OnceLock<Option<Linked>>,
    links: OnceLock<Arc<[Alias]>>,
    shared: SecretLinks,
}

/// The links at the top of a project that have the name of a secret. Kept between runs as long as nothing has come or gone there,
/// which no script can hide.
#[derive(Clone, Default)]
pub(crate) struct SecretLinks(Arc<Mutex<Option<Seen>>>);

/// When the top of a project had changed last, and what was seen there.
struct Seen {
    top: Top,
    links: Arc<[Alias]>,
}

/// A folder and the moment of its last change, by a clock that nobody can set for it.
type Top = (Identity, i64, i64);

/// What a folder is, and where its `.git` leads.
#[derive(Default)]
struct Folder {
    is_repository: bool,
    has_git: bool,
    leads_to: Vec<Alias>,
    /// What the configuration names, where somebody asked.
    configured: OnceLock<Vec<Alias>>,
}

/// The secrets that have other names, by what they are.
struct Linked {
    secrets: HashMap<Identity, String>,
    /// The memory that they take.
    _held: Held,
}

/// Another place of what is protected by its name.
#[derive(Clone)]
struct Alias {
    /// From the root, without links.
    path: String,
    identity: Option<Identity>,
    /// The protected path that leads there; a permission for it opens this as well.
    stands_for: String,
    guards_read: bool,
}

impl View<'_> {
    /// Refuses what takes a permission for what it is, whatever its name. Nothing is asked where nobody asks.
    pub(super) fn permit(&self, attempt: Attempt<'_>, path: &str) -> Result<()> {
        let Some(permissions) = self.permissions else { return Ok(()) };
        match self.files.protected_at(attempt, path, self.links(attempt)?) {
            Some(alias) => alias.require(permissions, attempt, path),
            None => Ok(()),
        }
    }

    /// Refuses a file that is a secret by another name, once it is open: only now is it known to have several.
    pub(super) fn permit_opened(
        &self,
        attempt: Attempt<'_>,
        path: &str,
        about: &impl MetadataExt,
    ) -> Result<()> {
        let Some(permissions) = self.permissions.filter(|_| about.nlink() > 1) else { return Ok(()) };
        if permissions.protection().guards_read(path) {
            // Permitted by this name already.
            return Ok(());
        }
        let identity = (about.dev(), about.ino());
        let known = &self.files.known.secrets;
        if known.get().is_none() {
            // What stopped the search is no answer to the next one who asks.
            let links = self.links(attempt)?;
            let found = self.linked_secrets(permissions.protection(), links);
            let found = found.map_err(|error| attempt.own(error))?;
            known.set(found).ok();
        }
        let stands_for = match known.get().and_then(Option::as_ref) {
            Some(linked) => match linked.secrets.get(&identity) {
                Some(secret) => secret.clone(),
                None => return Ok(()),
            },
            // Nobody could look everywhere.
            None => path.to_owned(),
        };
        let alias = Alias { path: path.to_owned(), identity: None, stands_for, guards_read: true };
        alias.require(permissions, attempt, path)
    }

    /// The secrets of the project that have other names, those included to which links lead; nothing where nobody could look
    /// everywhere.
    fn linked_secrets(&self, protection: &Protection, links: &[Alias]) -> Result<Option<Linked>> {
        let never = CancelToken::new();
        let cancel = self.bounds.map_or(&never, |bounds| bounds.cancel);
        let walk = Walk { cancel, tidy: Tidy::Nothing, depth: None };
        let files = View { permissions: None, ..*self };
        let (mut secrets, mut held) = (HashMap::new(), self.hold());
        let walked = files.walk("", &walk, |entry| {
            let is_led_to = |link: &&Alias| crate::policy::within(&entry.path, &link.path);
            let stands_for = if protection.guards_read(&entry.path) {
                Some(&entry.path)
            } else {
                links.iter().find(is_led_to).map(|link| &link.stands_for)
            };
            if entry.kind == EntryKind::File
                && let Some(stands_for) = stands_for
                && let Ok(about) = self.files.about(&names::os(&entry.path))
                && about.nlink() > 1
            {
                held.grow(entry.weight())?;
                secrets.insert((about.dev(), about.ino()), stands_for.clone());
            }
            Ok(())
        });
        match walked {
            Ok(_) => Ok(Some(Linked { secrets, _held: held })),
            Err(error) if stops(error.kind()) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Whether a walk may enter a folder with these names in it.
    pub(super) fn may_look_among(&self, path: &str, has: impl Fn(&str) -> bool) -> Result<bool> {
        let Some(permissions) = self.permissions else { return Ok(true) };
        let attempt = Attempt::look("search", path);
        let is_found = git::is_repository(has);
        let found = is_found.then(|| Alias::repository(path.to_owned()));
        let alias = self.files.alias_of(attempt, path, self.links(attempt)?);
        Ok(found.into_iter().chain(alias).all(|alias| alias.require(permissions, attempt, path).is_ok()))
    }

    /// Whether a walk may name what is in this file.
    pub(super) fn may_look_at(&self, path: &str) -> Result<bool> {
        let Some(permissions) = self.permissions else { return Ok(true) };
        let attempt = Attempt::look("search", path);
        let alias = self.files.alias_among(self.links(attempt)?, path);
        Ok(alias.is_none_or(|alias| alias.require(permissions, attempt, path).is_ok()))
    }

    /// Where the links at the top lead that have the name of a secret.
    fn links(&self, attempt: Attempt<'_>) -> Result<&[Alias]> {
        let known = &self.files.known.links;
        if known.get().is_none() {
            let mut held = self.hold();
            let mut count = |length: usize| {
                let bytes = (length + size_of::<Named>()) as u64 + 32;
                self.check().and_then(|()| held.grow(bytes)).map_err(through_io)
            };
            let links = self.files.links_now(&mut count).map_err(|error| attempt.io(error))?;
            known.set(links).ok();
        }
        Ok(known.get().map_or(&[], |links| links))
    }
}

impl Files {
    /// The same files, with what is known of the links at the top of their project by whoever opened it before.
    pub(crate) fn remembering(mut self, links: &SecretLinks) -> Self {
        self.known.shared = links.clone();
        self
    }

    /// What makes a path take a permission that its name does not.
    fn protected_at(&self, attempt: Attempt<'_>, path: &str, links: &[Alias]) -> Option<Alias> {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_file = attempt.opens_a_file();
        if is_file && self.plain().contains(folder) {
            return None;
        }
        let found = self.alias_of(attempt, path, links).or_else(|| self.repository_of(attempt, path));
        if is_file && found.is_none() && links.is_empty() {
            let leads_nowhere = |folder: &str| self.folder(folder).leads_to.is_empty();
            if folders_of(path, true).all(leads_nowhere) && self.plain().len() < REMEMBERED {
                self.plain().insert(folder.to_owned());
            }
        }
        found
    }

    fn plain(&self) -> MutexGuard<'_, HashSet<String>> {
        self.known.plain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The repository that a path lies in, or makes of a folder.
    fn repository_of(&self, attempt: Attempt<'_>, path: &str) -> Option<Alias> {
        let mut folders = folders_of(path, attempt.opens_a_file());
        let found = folders.find(|folder| {
            if attempt.changes {
                self.is_or_becomes_repository(folder, path)
            } else {
                self.folder(folder).is_repository
            }
        });
        found.map(|folder| Alias::repository(folder.to_owned()))
    }

    /// Whether a path is, or lies in, what a protected name leads to.
    fn alias_of(&self, attempt: Attempt<'_>, path: &str, links: &[Alias]) -> Option<Alias> {
        if let Some(alias) = self.alias_among(links, path) {
            return Some(alias);
        }
        folders_of(path, attempt.opens_a_file()).find_map(|folder| {
            let known = self.folder(folder);
            let configured = if attempt.changes { self.configured(folder, &known) } else { &[] };
            self.alias_among(known.leads_to.iter().chain(configured), path)
        })
    }

    fn alias_among<'a>(&self, aliases: impl IntoIterator<Item = &'a Alias>, path: &str) -> Option<Alias> {
        let mut way: Option<Vec<Option<Identity>>> = None;
        let mut is_on_the_way = |alias: &&Alias| {
            crate::policy::within(path, &alias.path)
                || alias.identity.is_some_and(|identity| {
                    let identities = way.get_or_insert_with(|| {
                        folders_of(path, false).map(|part| self.identity(&names::os(part)).ok()).collect()
                    });
                    identities.contains(&Some(identity))
                })
        };
        aliases.into_iter().find(|alias| is_on_the_way(alias)).cloned()
    }

    /// What a folder is, looked up once.
    fn folder(&self, path: &str) -> Arc<Folder> {
        let mut folders = self.known.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = folders.get(path) {
            return known.clone();
        }
        if folders.len() >= REMEMBERED {
            folders.clear();
        }
        let found = Arc::new(self.look_at_folder(path));
        folders.insert(path.to_owned(), found.clone());
        found
    }

    fn look_at_folder(&self, path: &str) -> Folder {
        let place = names::os(path);
        let has = |name: &str| (self.door.is_there)(&self.dir, &place.join(name));
        let is_repository = git::is_repository(has);
        if !has(".git") {
            return Folder { is_repository, ..Folder::default() };
        }
        // Most have a folder there that leads nowhere.
        let is_own =
            self.about(&place.join(".git")).is_ok_and(|about| about.is_dir()) && !has(".git/commondir");
        let stands_for = super::walk::below(path, ".git");
        let elsewhere = || git::elsewhere(&self.root.join(&place).join(".git"));
        let leads_to = if is_own { Vec::new() } else { self.aliases(elsewhere(), &stands_for, true) };
        Folder { is_repository, has_git: true, leads_to, configured: OnceLock::new() }
    }

    /// What git runs and reads in a folder because a configuration says so.
    fn configured<'a>(&self, path: &str, folder: &'a Folder) -> &'a [Alias] {
        if !folder.has_git {
            return &[];
        }
        folder.configured.get_or_init(|| {
            let place = self.root.join(names::os(path));
            let named = git::named_by_configuration(&place.join(".git"), &place);
            self.aliases(named, &super::walk::below(path, ".git"), false)
        })
    }

    /// Those of these places that lie in the project and take no permission by their name.
    fn aliases(&self, places: Vec<PathBuf>, stands_for: &str, guards_read: bool) -> Vec<Alias> {
        let inside = |place: PathBuf| {
            let path = place.strip_prefix(&self.root).ok()?;
            let identity = self.identity(path).ok();
            let path: Vec<_> = path.iter().map(names::text).collect();
            let path = path.join("/");
            let is_own = crate::policy::within(&path, stands_for);
            let stands_for = stands_for.to_owned();
            (!is_own && !path.is_empty()).then_some(Alias { path, identity, stands_for, guards_read })
        };
        places.into_iter().filter_map(inside).collect()
    }

    /// Whether a folder is a repository, or would be one with what a change to `path` makes.
    fn is_or_becomes_repository(&self, folder: &str, path: &str) -> bool {
        let below = path.get(folder.len()..).unwrap_or_default().trim_start_matches('/');
        let next = below.split('/').next().unwrap_or_default();
        let place = names::os(folder);
        git::is_repository(|name| {
            next.eq_ignore_ascii_case(name) || (self.door.is_there)(&self.dir, &place.join(name))
        })
    }

    /// The links at the top that have the name of a secret, as they were seen last or are seen now.
    fn links_now(&self, count: &mut Count<'_>) -> io::Result<Arc<[Alias]>> {
        let top = self.top();
        let mut seen = self.known.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = seen.as_ref().filter(|known| Some(known.top) == top) {
            return Ok(known.links.clone());
        }
        let links: Arc<[Alias]> = self.links_at_the_top(count)?.into();
        // What changes within one tick of the clock looks the same.
        let settled = top.filter(|(_, seconds, nanos)| is_settled(*seconds, *nanos));
        *seen = settled.map(|top| Seen { top, links: links.clone() });
        Ok(links)
    }

    fn links_at_the_top(&self, count: &mut Count<'_>) -> io::Result<Vec<Alias>> {
        let entries = match (self.door.entries)(&self.dir, Path::new(""), count) {
            Err(error) if is_own(&error) => return Err(error),
            entries => entries.unwrap_or_default(),
        };
        let secrets = Protection::default();
        let links = entries.into_iter().filter(|(_, kind)| *kind == EntryKind::Link);
        let named = links.map(|(name, _)| names::text(&name).into_owned());
        let named = named.filter(|name| secrets.guards_read(name) && !name.eq_ignore_ascii_case(".git"));
        let aliases = named.flat_map(|name| {
            let real = std::fs::canonicalize(self.root.join(names::os(&name)));
            self.aliases(real.into_iter().collect(), &name, true)
        });
        Ok(aliases.collect())
    }

    /// What the system says about a place, with no link on the way.
    fn about(&self, path: &Path) -> io::Result<cap_std::fs::Metadata> {
        let Some(name) = path.file_name() else { return self.dir.dir_metadata() };
        (self.door.dir)(&self.dir, path.parent().unwrap_or(Path::new("")))?.symlink_metadata(name)
    }

    #[cfg(unix)]
    fn top(&self) -> Option<Top> {
        use cap_std::fs::MetadataExt as _;
        let about = self.dir.dir_metadata().ok()?;
        Some(((MetadataExt::dev(&about), MetadataExt::ino(&about)), about.ctime(), about.ctime_nsec()))
    }

    #[cfg(not(unix))]
    fn top(&self) -> Option<Top> {
        None
    }
}

/// Whether an error says nothing of the files, but of the run that asks.
fn stops(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Memory | ErrorKind::Cancelled | ErrorKind::Deadline)
}

fn is_settled(seconds: i64, nanos: i64) -> bool {
    const TICK: Duration = Duration::from_millis(100);
    let age = || {
        let since = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.checked_sub(since)
    };
    age().is_some_and(|age| age > TICK)
}

impl Alias {
    fn repository(path: String) -> Self {
        Self { stands_for: path.clone(), path, identity: None, guards_read: true }
    }

    /// Takes a permission that names it, or the protected path that leads to it.
    fn require(&self, permissions: &Permissions, attempt: Attempt<'_>, path: &str) -> Result<()> {
        if self.stands_for != self.path && permissions.allows(&attempt.need(&self.stands_for)) {
            return Ok(());
        }
        permissions.protecting(&self.path, self.guards_read).require(&attempt.need(path), attempt)
    }
}

/// The folders that a path lies in, the root first; and the path itself, unless it is a file that is opened.
fn folders_of(path: &str, is_file: bool) -> impl Iterator<Item = &str> {
    let own = (!is_file && !path.is_empty()).then_some(path);
    let above = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
    std::iter::once("").chain(above).chain(own)
}
