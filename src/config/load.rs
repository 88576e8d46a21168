//! Reads the configuration of the command: options, environment variables, the file of the project, the file of the user.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::configuration::Configuration;
use super::environment::read_environment;
use super::origin::ValueOrigin;
use super::toml_file::{MAX_REPORTS, Owner, TomlFile};
use metier_core::error::{ErrorKind, Location, Result, SkillError};
use metier_core::host::canonical_folder::canonical_folder;
use metier_core::host::files::FilesView;
use metier_core::host::metier_dirs::{CONFIG_FILE, config_dir};
use metier_core::host::{Files, open_regular};
use metier_core::suggestion::{closest, did_you_mean};

/// Maximum bytes of a configuration file.
pub(super) const MAX_FILE_SIZE: usize = 256 << 10;

/// The configuration, and what is wrong with its sources.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadedConfiguration {
    /// The values of all sources, without those that are wrong. Nothing may run with it while there are errors.
    pub configuration: Configuration,
    /// The files that were looked for, of the user and of the project.
    pub files: Vec<ConfigFile>,
    /// Values that cannot count, and files that cannot be read.
    pub errors: Vec<SkillError>,
    /// Unknown keys.
    pub warnings: Vec<SkillError>,
    /// The project whose file was looked for.
    pub project: Option<PathBuf>,
}

/// A configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigFile {
    /// Its path.
    pub path: PathBuf,
    /// Whether it is the file of the project.
    pub is_project: bool,
    /// Whether it exists.
    pub exists: bool,
}

/// Reads all sources. The flags are values with the origin [`ValueOrigin::Flag`](super::ValueOrigin::Flag); `find_project` gets the
/// product and returns the root of the project.
pub fn load(flags: Configuration, find_project: impl FnOnce(&str) -> Option<PathBuf>) -> LoadedConfiguration {
    match checked_user_file() {
        Ok(file) => load_with_user_file(file.as_deref(), flags, find_project),
        Err(error) => {
            let mut loaded = load_with_user_file(None, flags, find_project);
            loaded.errors.insert(0, error);
            loaded
        }
    }
}

/// The same with this file of the user, if any.
pub fn load_with_user_file(
    user_file: Option<&Path>,
    flags: Configuration,
    find_project: impl FnOnce(&str) -> Option<PathBuf>,
) -> LoadedConfiguration {
    let mut loaded = LoadedConfiguration::default();
    if let Some(path) = user_file {
        loaded.read_user_file(path);
    }
    // The product, which says where the project's file is, is never set by it.
    let mut stronger = flags;
    let (errors, warnings) = read_environment(&mut stronger);
    loaded.errors.extend(errors);
    loaded.warnings.extend(warnings);
    let product = [&stronger, &loaded.configuration].into_iter().find(|known| known.get("product").is_some());
    let product = product.map_or("metier", Configuration::product).to_owned();
    if let Some(project) = find_project(&product) {
        loaded.read_project_file(&project, &product);
        loaded.project = Some(project);
    }
    loaded.configuration = std::mem::take(&mut loaded.configuration).merged_with(stronger);
    let unknown = loaded.configuration.disabled_runtimes().filter(|(name, _)| !RUNTIMES.contains(name));
    let unknown: Vec<SkillError> = unknown.map(|(name, origin)| unknown_runtime(name, origin)).collect();
    loaded.warnings.extend(unknown.into_iter().take(MAX_REPORTS));
    loaded
}

/// The runtimes that metier brings. A program may have others, so a name that is none of them is not an error.
const RUNTIMES: [&str; 6] = ["external", "http-call", "lua", "rhai", "tool-sequence", "wasm"];

fn unknown_runtime(name: &str, origin: &ValueOrigin) -> SkillError {
    let help = closest(name, RUNTIMES)
        .map_or_else(|| format!("the runtimes are {}", RUNTIMES.join(", ")), did_you_mean);
    let sentence = format!("{origin}: metier has no runtime `{name}` to switch off");
    let error = SkillError::new(ErrorKind::Usage, sentence).with_help(help);
    match origin {
        ValueOrigin::User { file, line } | ValueOrigin::Project { file, line } => {
            error.with_location(Location::new(file.display().to_string(), Some(*line), None))
        }
        _ => error,
    }
}

impl LoadedConfiguration {
    /// The first error, with the number of the others.
    pub fn check(&self) -> Result<()> {
        let Some(first) = self.errors.first() else { return Ok(()) };
        let others = self.errors.len() - 1;
        if others == 0 {
            return Err(first.clone());
        }
        let sentence = format!("{}; and {others} more in the configuration", first.message());
        Err(SkillError::new(first.kind(), sentence)
            .with_help(first.help().unwrap_or("correct each of them"))
            .with_location(first.location().cloned().unwrap_or_else(|| Location::new("", None, None))))
    }

    fn read_user_file(&mut self, path: &Path) {
        let text = read_user_text(path);
        let exists = !matches!(text, Ok(None));
        self.files.push(ConfigFile { path: path.to_owned(), is_project: false, exists });
        match text {
            Ok(Some(text)) => self.read_text(&text, Owner::User, (path, path.to_owned())),
            Ok(None) => {}
            Err(error) => self.errors.push(error),
        }
    }

    fn read_project_file(&mut self, project: &Path, product: &str) {
        let name = project_file(product);
        let path = project.join(&name);
        let text = read_project_text(project, &name);
        let exists = !matches!(text, Ok(None));
        self.files.push(ConfigFile { path: path.clone(), is_project: true, exists });
        match text {
            Ok(Some(text)) => self.read_text(&text, Owner::Project, (&name, path)),
            Ok(None) => {}
            Err(error) => self.errors.push(error),
        }
    }

    fn read_text(&mut self, text: &str, owner: Owner, names: (&Path, PathBuf)) {
        let file = TomlFile::read(text, owner, names, &mut self.configuration);
        self.errors.extend(file.errors);
        self.warnings.extend(file.warnings);
    }
}

/// The configuration file of the user: `$METIER_CONFIG_DIR/config.toml`, or `metier/config.toml` in the platform's folder.
pub fn user_file() -> Option<PathBuf> {
    Some(config_dir()?.join(CONFIG_FILE))
}

/// The same; `usage` where it would depend on the current folder, and so on a project.
pub(super) fn checked_user_file() -> Result<Option<PathBuf>> {
    let named = std::env::var_os("METIER_CONFIG_DIR").filter(|folder| !folder.is_empty());
    if named.is_some_and(|folder| Path::new(&folder).is_relative()) {
        let sentence = "the environment variable METIER_CONFIG_DIR does not name an absolute folder";
        return Err(SkillError::new(ErrorKind::Usage, sentence)
            .with_help("set it to an absolute path outside of any project, or unset it"));
    }
    Ok(user_file())
}

/// The configuration file of a project, relative to it.
pub fn project_file(product: &str) -> PathBuf {
    Path::new(&format!(".{product}")).join(CONFIG_FILE)
}

/// The text of the user's file; `None` if there is none.
pub(super) fn read_user_text(path: &Path) -> Result<Option<String>> {
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && path.symlink_metadata().is_err() => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(path, &error.to_string())),
    };
    let failed = |error: std::io::Error| unreadable(path, &error.to_string());
    let folder = canonical_folder(path.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
    let real = match path.file_name() {
        Some(name) if !path.is_symlink() => folder.join(name),
        _ => std::fs::canonicalize(path).map_err(failed)?,
    };
    if let Some((reason, help)) = unsafe_reason(&file, &real, &folder) {
        return Err(unreadable(path, &reason).with_help(help));
    }
    let size = file.metadata().map_or(0, |found| found.len()).min(MAX_FILE_SIZE as u64);
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default() + 1);
    file.take(MAX_FILE_SIZE as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(path, &error.to_string()))?;
    to_text(path, bytes).map(Some)
}

/// The text of the project's file, through a handle of the project; `None` if there is none.
pub(super) fn read_project_text(project: &Path, name: &Path) -> Result<Option<String>> {
    if project.join(name).symlink_metadata().is_err_and(|error| is_absence(error.kind())) {
        return Ok(None);
    }
    let files = Files::open(project)?;
    let view = FilesView::unrestricted(&files).with_label("the project");
    let bytes = view.read(&name.to_string_lossy()).map_err(|error| unreadable(name, error.message()))?;
    to_text(name, bytes).map(Some)
}

/// Without a folder there is no file in it.
fn is_absence(kind: std::io::ErrorKind) -> bool {
    matches!(kind, std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

fn to_text(path: &Path, bytes: Vec<u8>) -> Result<String> {
    if bytes.len() > MAX_FILE_SIZE {
        return Err(unreadable(path, &format!("it is larger than {MAX_FILE_SIZE} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| unreadable(path, "it is not UTF-8"))
}

fn unreadable(path: &Path, reason: &str) -> SkillError {
    let file = path.display().to_string();
    let sentence = format!("failed to read the configuration file {file}: {reason}");
    SkillError::new(ErrorKind::Usage, sentence)
        .with_help("correct the file, or remove it")
        .with_location(Location::new(file, None, None))
}

/// Why somebody else may have written the user's file, and the way out: it or a folder above belongs to another user, others may
/// write there, or the folder is in a project. A link in the folder may lead into a project: its target is closed to scripts.
#[cfg(unix)]
fn unsafe_reason(file: &std::fs::File, real: &Path, folder: &Path) -> Option<(String, String)> {
    let trusted = TrustedOwners::new();
    let own = file.metadata().ok().and_then(|found| foreign_reason(&trusted, &found, "it", real));
    own.or_else(|| {
        let of_folder = |folder: &Path| {
            foreign_reason(&trusted, &folder.metadata().ok()?, &folder.display().to_string(), folder)
        };
        let beside = real.parent().filter(|parent| *parent != folder);
        beside.into_iter().flat_map(Path::ancestors).chain(folder.ancestors()).find_map(of_folder)
    })
    .or_else(|| {
        let reason = metier_core::host::metier_dirs::project_reason(folder)?;
        Some((reason, "use a folder outside of any project, and set METIER_CONFIG_DIR to its path".into()))
    })
}

/// Whose files the user may believe: his own, and those of the system.
#[cfg(unix)]
struct TrustedOwners {
    user: u32,
    system: Option<u32>,
}

#[cfg(unix)]
impl TrustedOwners {
    fn new() -> Self {
        let root = Path::new("/").metadata().ok();
        let system = root.map(|root| std::os::unix::fs::MetadataExt::uid(&root));
        Self { user: rustix::process::geteuid().as_raw(), system }
    }
}

#[cfg(unix)]
fn foreign_reason(
    trusted: &TrustedOwners,
    found: &std::fs::Metadata,
    what: &str,
    path: &Path,
) -> Option<(String, String)> {
    use std::os::unix::fs::MetadataExt;
    const BY_GROUP: u32 = 0o020;
    const BY_ALL: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let user = trusted.user;
    if found.uid() != user && Some(found.uid()) != trusted.system {
        return Some((
            format!("{what} belongs to somebody else"),
            format!("look at {}, and make it yours", path.display()),
        ));
    }
    let is_private = is_private_group(user, found.gid(), rustix::process::getegid().as_raw());
    let by_others = if is_private { BY_ALL } else { BY_GROUP | BY_ALL };
    let is_open = found.mode() & by_others != 0 && !(found.is_dir() && found.mode() & STICKY != 0);
    is_open.then(|| {
        (
            format!("{what} can be written by others"),
            format!("look at it, and run chmod go-w {}", path.display()),
        )
    })
}

/// Whether nobody else is in this group, as far as its number tells: many systems give each user a group of the same number, and
/// files that the group may write.
#[cfg(unix)]
fn is_private_group(user: u32, group: u32, primary: u32) -> bool {
    user != 0 && group == primary && group == user
}

#[cfg(not(unix))]
fn unsafe_reason(_: &std::fs::File, _: &Path, _: &Path) -> Option<(String, String)> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::is_private_group;

    #[test]
    fn only_the_group_of_a_persons_own_number_is_private() {
        assert!(is_private_group(1000, 1000, 1000));
        for (user, group, primary) in [(1000, 100, 100), (1000, 1000, 100), (1000, 1001, 1001), (0, 0, 0)] {
            assert!(!is_private_group(user, group, primary), "{user} {group} {primary}");
        }
    }
}
