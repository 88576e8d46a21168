//! Reads the configuration of the command: options, environment variables, the file of the project, the file of the user.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::configuration::Configuration;
use super::environment::read_environment;
use super::open::open_regular;
use super::toml_file::{Owner, TomlFile};
use crate::error::{ErrorKind, Location, Result, SkillError};
use crate::host::Files;
use crate::host::metier_dirs::config_dir;

/// Maximum bytes of a configuration file.
pub(super) const MAX_FILE_SIZE: usize = 256 << 10;

/// The name of configuration files.
pub(super) const FILE_NAME: &str = "config.toml";

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
    load_with_user_file(user_file().as_deref(), flags, find_project)
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
    }
    loaded.configuration = std::mem::take(&mut loaded.configuration).merged_with(stronger);
    loaded
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
    Some(config_dir()?.join(FILE_NAME))
}

/// The configuration file of a project, relative to it.
pub fn project_file(product: &str) -> PathBuf {
    Path::new(&format!(".{product}")).join(FILE_NAME)
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
    let real = std::fs::canonicalize(path).map_err(|error| unreadable(path, &error.to_string()))?;
    if let Some(reason) = foreign_reason(&file, &real) {
        return Err(
            unreadable(path, &reason).with_help("make it yours, and writable by nobody else: chmod go-w")
        );
    }
    let mut bytes = Vec::new();
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
    let view = files.unrestricted().with_label("the project");
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

/// Why somebody else may have written the user's file: it or a folder above belongs to another user, or others may write there.
#[cfg(unix)]
fn foreign_reason(file: &std::fs::File, real: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    const BY_OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let trusted =
        [Some(rustix::process::geteuid().as_raw()), Path::new("/").metadata().ok().map(|root| root.uid())];
    let check = |found: std::fs::Metadata, what: &str| {
        if !trusted.contains(&Some(found.uid())) {
            return Some(format!("{what} belongs to somebody else"));
        }
        let is_open = found.mode() & BY_OTHERS != 0 && !(found.is_dir() && found.mode() & STICKY != 0);
        is_open.then(|| format!("{what} can be written by others"))
    };
    let own = file.metadata().ok().and_then(|found| check(found, "it"));
    own.or_else(|| {
        let mut folders = real.ancestors().skip(1);
        folders.find_map(|folder| check(folder.metadata().ok()?, &folder.display().to_string()))
    })
}

#[cfg(not(unix))]
fn foreign_reason(_: &std::fs::File, _: &Path) -> Option<String> {
    None
}
