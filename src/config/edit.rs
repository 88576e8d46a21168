//! Changes one value of a configuration file; comments and the order of the lines stay.

use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use toml_edit::{DocumentMut, Item, Key, Table, TableLike, Value};

use super::configuration::Configuration;
use super::key_path::{KeyPath, PathMatch};
use super::load::{MAX_FILE_SIZE, checked_user_file, project_file, read_project_text, read_user_text};
use super::toml_file::{Owner, TomlFile};
use super::unknown_key;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::Files;
use metier_core::host::files::FilesView;
use metier_core::toml_nesting::check_nesting;

/// The file that is changed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EditTarget {
    /// The file of the user.
    User,
    /// The file of the project with this root, for this product.
    Project {
        /// The root of the project.
        root: PathBuf,
        /// The product.
        product: String,
    },
}

/// Sets a key in a file, which is created if it is missing. The value is TOML, or a text where it is none. The file is checked as
/// when it is read, and written only if nothing is wrong with it, or less than before. Returns the path of the file.
pub fn set(target: &EditTarget, key: &str, value: &str) -> Result<PathBuf> {
    let words = parse_key(key)?;
    edit(target, Change::Value, |document| {
        let parsed = check_nesting(value).ok().and_then(|()| value.parse::<Value>().ok());
        let mut value = parsed.unwrap_or_else(|| Value::from(value));
        value.decor_mut().clear();
        check_value(&words, &value)?;
        insert(document.as_table_mut(), &words, value).ok_or_else(|| {
            SkillError::new(
                ErrorKind::Usage,
                format!("failed to set `{key}`: a part of it is not a table in the file"),
            )
            .with_help("correct the file by hand")
        })
    })
}

/// Removes a key from a file, also one that metier does not know; `usage` if it is not in it. Returns the path of the file.
pub fn unset(target: &EditTarget, key: &str) -> Result<PathBuf> {
    let words = parse_words(key)?;
    if matches!(KeyPath::find(&words), PathMatch::Section) {
        return Err(section_error(key));
    }
    edit(target, Change::Removal, |document| {
        remove(document.as_table_mut(), &words).ok_or_else(|| {
            SkillError::new(ErrorKind::Usage, format!("the configuration file does not set `{key}`"))
        })
    })
}

/// What happens to a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Value,
    Removal,
}

/// The words of any key.
fn parse_words(key: &str) -> Result<Vec<String>> {
    let words = Key::parse(key).map_err(|_| {
        SkillError::new(ErrorKind::Usage, format!("`{key}` is not a key: write words with dots between them"))
    })?;
    Ok(words.iter().map(|word| word.get().to_owned()).collect())
}

fn section_error(key: &str) -> SkillError {
    SkillError::new(ErrorKind::Usage, format!("`{key}` is a section and no key"))
        .with_help("name one of its keys")
}

/// The words of a key of the table.
fn parse_key(key: &str) -> Result<Vec<String>> {
    let words = parse_words(key)?;
    match KeyPath::find(&words) {
        PathMatch::Key(_) => Ok(words),
        PathMatch::Section => Err(section_error(key)),
        PathMatch::Unknown { at, known } => {
            let help = unknown_key::suggestion(&words, at, &known);
            Err(SkillError::new(ErrorKind::Usage, format!("the configuration has no key `{key}`"))
                .with_help(help.unwrap_or_else(|| "docs/configuration.md lists the keys".into())))
        }
    }
}

/// Refuses a value that the key cannot have, whatever file it is for: no line of a file is wrong yet.
fn check_value(words: &[String], value: &Value) -> Result<()> {
    let mut document = DocumentMut::new();
    insert(document.as_table_mut(), words, value.clone());
    let nowhere = (Path::new(""), PathBuf::new());
    let text = document.to_string();
    let read = TomlFile::read(&text, Owner::User, nowhere, &mut Configuration::new());
    let Some(error) = read.errors.first() else { return Ok(()) };
    let place = error.location().map_or(String::new(), |place| {
        format!(":{}:{}: ", place.line.unwrap_or_default(), place.column.unwrap_or_default())
    });
    let reason = error.message().strip_prefix(&place).unwrap_or(error.message());
    Err(SkillError::new(ErrorKind::Usage, reason))
}

fn edit(
    target: &EditTarget,
    kind: Change,
    change: impl FnOnce(&mut DocumentMut) -> Result<()>,
) -> Result<PathBuf> {
    let no_folder =
        || SkillError::new(ErrorKind::Usage, "there is no folder for your configuration: HOME is not set");
    let user_path = checked_user_file()?;
    // Until the file is written: of two changes at a time the second one is made to what the first one wrote.
    let _lock = match (target, &user_path) {
        (EditTarget::Project { root, .. }, _) => Some(lock(root)?),
        (EditTarget::User, Some(path)) => Some(lock(&user_folder(path)?)?),
        (EditTarget::User, None) => None,
    };
    let user_text = user_path.as_deref().map_or(Ok(None), read_user_text)?;
    let (name, path, text, owner) = match target {
        EditTarget::User => {
            let path = user_path.clone().ok_or_else(no_folder)?;
            (path.clone(), path, user_text.clone(), Owner::User)
        }
        EditTarget::Project { root, product } => {
            let name = project_file(product);
            if root.join(&name).symlink_metadata().is_ok_and(|found| found.is_symlink()) {
                let sentence = format!("failed to change {}: it is a link", name.display());
                return Err(SkillError::new(ErrorKind::Usage, sentence)
                    .with_help("change the file to which it leads by hand"));
            }
            let text = read_project_text(root, &name)?;
            (name.clone(), root.join(&name), text, Owner::Project)
        }
    };
    let old_text = text.unwrap_or_default();
    let invalid = |reason: &str| {
        let sentence = format!("{} is not valid TOML: {reason}", name.display());
        SkillError::new(ErrorKind::Usage, sentence).with_help("correct the file by hand")
    };
    check_nesting(&old_text).map_err(|(_, reason)| invalid(reason))?;
    let mut document: DocumentMut =
        old_text.parse().map_err(|error: toml_edit::TomlError| invalid(error.message()))?;
    change(&mut document)?;
    let text = document.to_string();
    let errors = |text: &str| {
        // The values of a project are compared with those of the user.
        let mut configuration = Configuration::new();
        if let (Owner::Project, Some(path), Some(text)) = (owner, &user_path, &user_text) {
            TomlFile::read(text, Owner::User, (path, path.clone()), &mut configuration);
        }
        TomlFile::read(text, owner, (&name, path.clone()), &mut configuration).errors
    };
    // A file with several errors is corrected one by one.
    let (found, before) = (errors(&text), errors(&old_text).len());
    let is_better = found.len() < before || kind == Change::Removal && found.len() == before;
    if let Some(error) = found.first().filter(|_| !is_better) {
        return Err(error.clone());
    }
    if text.len() > MAX_FILE_SIZE {
        let sentence = format!("the configuration file would be larger than {MAX_FILE_SIZE} bytes");
        return Err(SkillError::new(ErrorKind::Usage, sentence));
    }
    match target {
        EditTarget::User => write_user_file(&path, &text)?,
        EditTarget::Project { root, .. } => {
            FilesView::unrestricted(&Files::open(root)?).write(&name.to_string_lossy(), text.as_bytes())?;
        }
    }
    Ok(path)
}

/// How long a change waits for another one.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_INTERVAL: Duration = Duration::from_millis(2);

/// Locks a folder against other changes until the file is dropped. A lock in a folder needs no file of its own.
fn lock(folder: &Path) -> Result<Option<File>> {
    if !cfg!(unix) {
        return Ok(None);
    }
    let failed = |error| SkillError::io(format_args!("failed to lock {}", folder.display()), error);
    let file = File::open(folder).map_err(failed)?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_TIMEOUT => {
                std::thread::sleep(LOCK_INTERVAL);
            }
            Err(TryLockError::WouldBlock) => {
                let sentence = format!(
                    "failed to lock {}: another process has held it for 10 seconds",
                    folder.display()
                );
                return Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help("end that process"));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

/// The folder of the user's file, which is created.
fn user_folder(path: &Path) -> Result<PathBuf> {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = real.parent().unwrap_or(Path::new("/"));
    create_private_dir(folder)
        .map_err(|error| SkillError::io(format_args!("failed to create {}", folder.display()), error))?;
    Ok(folder.to_owned())
}

/// Replaces the file at once, so that nobody reads a part of it. A link to it stays.
fn write_user_file(path: &Path, text: &str) -> Result<()> {
    let failed = |error| SkillError::io(format_args!("failed to write {}", path.display()), error);
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = real.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    if let Ok(found) = real.metadata() {
        file.as_file().set_permissions(found.permissions()).map_err(failed)?;
    }
    file.persist(&real).map_err(|error| failed(error.error))?;
    Ok(())
}

fn create_private_dir(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Puts a value at the end of a path of tables, which are created; `None` if there is something else on the way. The comment after
/// an old value stays.
fn insert(table: &mut dyn TableLike, words: &[String], mut value: Value) -> Option<()> {
    let (word, rest) = words.split_first()?;
    if rest.is_empty() {
        if let Some(old) = table.get(word).and_then(Item::as_value) {
            *value.decor_mut() = old.decor().clone();
        }
        match table.get_mut(word) {
            Some(item) => *item = Item::Value(value),
            None => drop(table.insert(word, Item::Value(value))),
        }
        return Some(());
    }
    if !table.contains_key(word) {
        let mut section = Table::new();
        // A table with tables only has no line of its own.
        section.set_implicit(true);
        table.insert(word, Item::Table(section));
    }
    insert(table.get_mut(word)?.as_table_like_mut()?, rest, value)
}

/// Removes what is at the end of a path, and the tables that become empty; not one with a comment.
fn remove(table: &mut dyn TableLike, words: &[String]) -> Option<()> {
    let (word, rest) = words.split_first()?;
    if rest.is_empty() {
        return table.remove(word).map(drop);
    }
    let item = table.get_mut(word)?;
    remove(item.as_table_like_mut()?, rest)?;
    let is_empty = item.as_table_like().is_some_and(TableLike::is_empty);
    if is_empty && !item.as_table().is_some_and(has_comment) {
        table.remove(word);
    }
    Some(())
}

fn has_comment(table: &Table) -> bool {
    let parts = [table.decor().prefix(), table.decor().suffix()];
    parts.into_iter().flatten().any(|part| part.as_str().is_some_and(|text| text.contains('#')))
}
