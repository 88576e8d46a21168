//! The listings of a project's folders in a cache of the user's on disk, so that another process need not read the folders again.
//!
//! No script can see the cache or its key, and an entry without the MAC of that key is not read. What it says of a folder holds for one
//! mount, until the machine restarts or its clock is set. What is damaged, or of something else, is as if it were not there.

use std::ffi::OsStr;
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

use crate::protected::folder_stamp::{FolderStamp, MIN_AGE, MountId};
use crate::protected::listing::{ListedEntry, Listing};
use metier_core::host::metier_dirs::{LISTINGS_CACHE_DIR, cache_dir, resolve_existing};
use metier_core::host::visibility_lock::is_visible_to_scripts;
use metier_core::host::{CacheLimits, FileId, UserCache, file_id};
use metier_core::policy::PathProtection;

/// The start of every entry; the number changes with the layout.
const MAGIC: &[u8; 16] = b"metier folder 01";

const LIMITS: CacheLimits = CacheLimits { entries: 64, bytes: 64 << 20, entry_bytes: 16 << 20 };

/// How far the clock may move on its own against the time since the machine started; less than a remembered folder is old.
const MAX_CLOCK_DRIFT: Duration = Duration::from_secs(2);
const _: () = assert!(cfg!(test) || MAX_CLOCK_DRIFT.as_millis() < MIN_AGE.as_millis());

#[derive(Serialize, Deserialize)]
struct SavedListings<'a> {
    /// The time at which the machine started, by its clock.
    started: Duration,
    #[serde(borrow)]
    folders: Vec<SavedFolder<'a>>,
}

#[derive(Serialize, Deserialize)]
struct SavedFolder<'a> {
    path: &'a str,
    inode: u64,
    changed: (i64, u32),
    count: usize,
    is_repository: bool,
    #[serde(borrow)]
    entries: Vec<SavedEntry<'a>>,
}

#[derive(Serialize, Deserialize)]
struct SavedEntry<'a> {
    name: &'a [u8],
    mode: u32,
    is_protected: bool,
}

/// The listings that an earlier process saved; `None` if there are none for the project as it is mounted now.
pub(super) fn load(project: &Path, protection: &PathProtection) -> Option<Vec<(String, Arc<Listing>)>> {
    let context = Context::of_project(project, protection)?;
    // The user of small projects has no cache, and gets none here.
    cache_dir()?.join(LISTINGS_CACHE_DIR).join(&context.name).symlink_metadata().ok()?;
    let cache = user_cache().filter(|cache| context.is_lasting_in(cache))?;
    context.decode(&cache.read_entry(&context.name)?, cache)
}

/// Saves these listings, by their paths in the project, for other processes.
pub(super) fn save<'l>(
    project: &Path,
    protection: &PathProtection,
    folders: impl Iterator<Item = (&'l str, &'l Listing)>,
) {
    let Some(context) = Context::of_project(project, protection) else { return };
    let Some(cache) = user_cache().filter(|cache| context.is_lasting_in(cache)) else { return };
    // A script that runs sees what appears in a folder that it was granted.
    let is_visible = || cache_dir().is_none_or(|own| is_visible_to_scripts(&resolve_existing(&own)));
    if let Some(entry) = context.encode(folders, cache).filter(|_| !is_visible()) {
        cache.store_entry(&context.name, &entry);
    }
}

/// The cache of the user; `None` if nothing may be cached on disk.
fn user_cache() -> Option<&'static UserCache> {
    static CACHE: LazyLock<Option<UserCache>> = LazyLock::new(|| {
        let opened = UserCache::open(LISTINGS_CACHE_DIR, LIMITS);
        opened.inspect_err(|reason| tracing::debug!("folders are not remembered on disk: {reason}")).ok()
    });
    CACHE.as_ref()
}

/// What the listings of a project hold for.
struct Context {
    /// A hash of the project, its protected names, this program, the mount and this start of the machine.
    key: blake3::Hash,
    /// The file name of the entry.
    name: String,
    device: u64,
    mount: MountId,
    started: Duration,
}

impl Context {
    /// `None` where that is not known.
    fn of_project(project: &Path, protection: &PathProtection) -> Option<Self> {
        let stamp = FolderStamp::at(project).ok()?;
        // Another program may protect other names.
        let program = fs::metadata("/proc/self/exe").ok()?;
        let program = (file_id(&program), program.size(), program.ctime(), program.ctime_nsec());
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let mut hasher = KeyHasher(blake3::Hasher::new());
        (project, protection, program, env!("CARGO_PKG_VERSION"), boot).hash(&mut hasher);
        (stamp.file.dev, stamp.mount.number, stamp.mount.is_unique).hash(&mut hasher);
        let key = hasher.0.finalize();
        Some(Self {
            key,
            name: key.to_hex().to_string(),
            device: stamp.file.dev,
            mount: stamp.mount,
            started: start_of_machine()?,
        })
    }

    /// Whether no other file system can have been mounted in the place of the project's without notice: its mount has a number of its own,
    /// or the cache would have gone with it.
    fn is_lasting_in(&self, cache: &UserCache) -> bool {
        self.mount.is_unique || cache.device() == Some(self.device)
    }

    fn encode<'l>(
        &self,
        folders: impl Iterator<Item = (&'l str, &'l Listing)>,
        cache: &UserCache,
    ) -> Option<Vec<u8>> {
        let folders = folders.filter_map(|(path, listing)| self.saved_folder(path, listing)).collect();
        let content = postcard::to_stdvec(&SavedListings { started: self.started, folders }).ok()?;
        let mac = cache.mac_key().authenticate(MAGIC, &[self.key.as_bytes(), &content]);
        Some([&MAGIC[..], mac.as_bytes(), &content].concat())
    }

    /// `None` if the folder is not to be remembered, or lies in another mount than the project.
    fn saved_folder<'l>(&self, path: &'l str, listing: &'l Listing) -> Option<SavedFolder<'l>> {
        let is_here = |stamp: &FolderStamp| (stamp.file.dev, stamp.mount) == (self.device, self.mount);
        let stamp = listing.stamp.filter(is_here)?;
        let entry = |entry: &'l ListedEntry| SavedEntry {
            name: entry.name.as_bytes(),
            mode: entry.kind.as_raw_mode(),
            is_protected: entry.is_protected,
        };
        Some(SavedFolder {
            path,
            inode: stamp.file.ino,
            changed: (stamp.seconds, stamp.nanos),
            count: listing.count,
            is_repository: listing.is_repository,
            entries: listing.entries.iter().map(entry).collect(),
        })
    }

    /// The listings of an entry; `None` if it is incomplete, of something else, or not authenticated with the key of this cache.
    fn decode(&self, entry: &[u8], cache: &UserCache) -> Option<Vec<(String, Arc<Listing>)>> {
        let (mac, content) = entry.strip_prefix(MAGIC)?.split_first_chunk::<32>()?;
        if cache.mac_key().authenticate(MAGIC, &[self.key.as_bytes(), content]) != *mac {
            return None;
        }
        let saved: SavedListings<'_> = postcard::from_bytes(content).ok()?;
        if saved.started.abs_diff(self.started) > MAX_CLOCK_DRIFT {
            return None;
        }
        Some(saved.folders.into_iter().map(|folder| self.listing(folder)).collect())
    }

    fn listing(&self, saved: SavedFolder<'_>) -> (String, Arc<Listing>) {
        let stamp = FolderStamp {
            file: FileId { dev: self.device, ino: saved.inode },
            mount: self.mount,
            seconds: saved.changed.0,
            nanos: saved.changed.1,
        };
        let entry = |entry: SavedEntry<'_>| ListedEntry {
            name: OsStr::from_bytes(entry.name).to_owned(),
            kind: FileType::from_raw_mode(entry.mode),
            is_protected: entry.is_protected,
        };
        let entries = saved.entries.into_iter().map(entry).collect();
        let listing = Listing::remembered(stamp, entries, saved.count, saved.is_repository);
        (saved.path.to_owned(), Arc::new(listing))
    }
}

/// The time at which the machine started, by its clock as it is set now. It changes only when the clock is set.
fn start_of_machine() -> Option<Duration> {
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime = Duration::try_from_secs_f64(uptime.split(' ').next()?.parse().ok()?).ok()?;
    SystemTime::now().duration_since(UNIX_EPOCH).ok()?.checked_sub(uptime)
}

/// A BLAKE3 hash of values that implement `Hash`.
struct KeyHasher(blake3::Hasher);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The 64-bit form is never used.
    fn finish(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io;

    use super::*;

    /// A project with a folder `a` whose listing was saved, and a cache of the test's own.
    struct Fixture {
        stage: tempfile::TempDir,
        cache: UserCache,
        entry: Vec<u8>,
    }

    impl Fixture {
        fn new() -> Self {
            let stage = tempfile::tempdir().unwrap();
            fs::create_dir_all(stage.path().join("project/a/b")).unwrap();
            fs::write(stage.path().join("project/a/.env"), "secret").unwrap();
            std::thread::sleep(MIN_AGE);
            let at = |path: &str| stage.path().join(path);
            let cache = UserCache::open_in(&at("cache"), "listings", &at("state"), LIMITS).unwrap();
            let mut fixture = Self { stage, cache, entry: Vec::new() };
            let listing = fixture.read();
            fixture.entry = fixture.context().encode([("a", &listing)].into_iter(), &fixture.cache).unwrap();
            fixture
        }

        fn read(&self) -> Listing {
            let lists = |_: &OsStr, _: FileType| Ok::<_, io::Error>((true, false));
            Listing::read(&self.stage.path().join("project/a"), lists).unwrap()
        }

        fn context(&self) -> Context {
            Context::of_project(&self.stage.path().join("project"), &PathProtection::default()).unwrap()
        }

        fn decode(&self, context: &Context, entry: &[u8]) -> Option<Vec<(String, Arc<Listing>)>> {
            context.decode(entry, &self.cache)
        }
    }

    /// The name, the kind and the protection of each entry, in order.
    fn entries(listing: &Listing) -> Vec<(OsString, FileType, bool)> {
        let entry = |entry: &ListedEntry| (entry.name.clone(), entry.kind, entry.is_protected);
        let mut entries: Vec<_> = listing.entries.iter().map(entry).collect();
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        entries
    }

    #[test]
    fn what_was_saved_is_what_was_read() {
        let fixture = Fixture::new();
        let found = fixture.decode(&fixture.context(), &fixture.entry).unwrap();
        let [(path, found)] = &found[..] else { panic!("{} folders", found.len()) };
        let read = fixture.read();
        assert!(read.stamp.is_some());
        assert_eq!(
            (&**path, found.stamp, found.count, found.is_repository),
            ("a", read.stamp, read.count, read.is_repository)
        );
        assert_eq!(entries(found), entries(&read));
        assert_eq!(found.entries.len(), 2);
    }

    #[test]
    fn what_was_damaged_or_forged_is_not_read() {
        let fixture = Fixture::new();
        let (context, entry) = (fixture.context(), &fixture.entry);
        for end in 0..entry.len() {
            assert!(fixture.decode(&context, &entry[..end]).is_none(), "cut at {end}");
        }
        for bit in 0..entry.len() * 8 {
            let mut changed = entry.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(fixture.decode(&context, &changed).is_none(), "bit {bit}");
        }
        assert!(fixture.decode(&context, &[entry, &b"more"[..]].concat()).is_none());
        let at = |path: &str| fixture.stage.path().join(path);
        let other = UserCache::open_in(&at("other"), "listings", &at("other-state"), LIMITS).unwrap();
        assert!(context.decode(entry, &other).is_none(), "the key of another user");
        // A hash that takes no key.
        let plain = blake3::hash(&entry[48..]);
        assert!(fixture.decode(&context, &[&entry[..16], plain.as_bytes(), &entry[48..]].concat()).is_none());
    }

    #[test]
    fn it_holds_for_one_project_and_its_protected_names_only() {
        let fixture = Fixture::new();
        fs::rename(fixture.stage.path().join("project"), fixture.stage.path().join("moved")).unwrap();
        fs::create_dir(fixture.stage.path().join("project")).unwrap();
        let of = |path: &str, protection: &PathProtection| {
            Context::of_project(&fixture.stage.path().join(path), protection).unwrap()
        };
        assert!(fixture.decode(&of("moved", &PathProtection::default()), &fixture.entry).is_none());
        let other = PathProtection::new(["skills"]);
        assert!(fixture.decode(&of("project", &other), &fixture.entry).is_none());
        assert_eq!(of("project", &other).name.len(), 64);
        assert_ne!(of("project", &other).name, of("project", &PathProtection::default()).name);
    }

    #[test]
    fn it_ends_when_the_clock_is_set() {
        let fixture = Fixture::new();
        let (now, hour) = (fixture.context().started, Duration::from_hours(1));
        let is_used = |started| {
            let context = Context { started, ..fixture.context() };
            fixture.decode(&context, &fixture.entry).is_some()
        };
        assert!(is_used(now + Duration::from_secs(1)));
        assert!(!is_used(now + hour), "ahead");
        assert!(!is_used(now.checked_sub(hour).unwrap()), "back");
    }

    #[test]
    fn another_mount_at_the_same_path_has_nothing_in_common() {
        let fixture = Fixture::new();
        let listing = fixture.read();
        let context = fixture.context();
        // A folder below the project that is another file system, or the same one mounted again.
        for (device, mount) in [
            (context.device + 1, context.mount),
            (context.device, MountId { number: context.mount.number + 1, ..context.mount }),
        ] {
            let other = Context { device, mount, ..fixture.context() };
            assert!(other.saved_folder("a", &listing).is_none());
        }
        assert!(context.saved_folder("a", &listing).is_some());
        // A mount whose number comes back is trusted only where the cache lies.
        let returns = MountId { is_unique: false, ..context.mount };
        let is_used =
            |device| Context { device, mount: returns, ..fixture.context() }.is_lasting_in(&fixture.cache);
        assert!(is_used(context.device) && !is_used(context.device + 1));
        let unique = MountId { is_unique: true, ..context.mount };
        assert!(Context { device: 0, mount: unique, ..fixture.context() }.is_lasting_in(&fixture.cache));
    }
}
