//! The file of a project can only narrow: each of its values is compared with the one that counts without it.

use super::configuration::{Configuration, Setting};
use super::key_path::KeyPath;
use super::keys::{Key, ProjectRule};
use super::value::{ConfigValue, KeyType};
use metier_core::policy::Limits;

impl Configuration {
    /// Adds a value of the project's file, or says why it may not have it.
    pub(super) fn add_of_project(&mut self, path: KeyPath, setting: Setting) -> Result<(), String> {
        check(self, &path, &setting.value)?;
        self.add(path, setting);
        Ok(())
    }
}

/// Why the project's file may not set this key to this value. What a project may set is compared with what the user's file or
/// the default says: an option or a variable that somebody sets for one run is stronger in any case.
fn check(base: &Configuration, path: &KeyPath, value: &ConfigValue) -> Result<(), String> {
    let key = path.key();
    match key.project {
        ProjectRule::Add => Ok(()),
        ProjectRule::Never => Err("the file of a project cannot set it".into()),
        ProjectRule::Only(only) if *value == ConfigValue::Flag(only) => Ok(()),
        ProjectRule::Only(only) => Err(format!("the file of a project can only set it to `{only}`")),
        ProjectRule::Lower => match bounds(base, path).into_iter().find(|bound| is_more(value, bound)) {
            Some(bound) => Err(format!("the file of a project can only lower it, to at most {bound}")),
            None => Ok(()),
        },
        ProjectRule::Strengthen => {
            let KeyType::Word(words) = key.value_type else { return Ok(()) };
            let strictness =
                |value: &ConfigValue| words.iter().position(|word| value.as_text() == Some(word));
            let bound = bounds(base, path).into_iter().next();
            match bound.filter(|bound| strictness(value) > strictness(bound)) {
                Some(bound) => Err(format!("the file of a project can only make it stricter than {bound}")),
                None => Ok(()),
            }
        }
    }
}

/// The values that count without the project's file: the user's for this key and, for a key of one skill, for all skills; each
/// with its default.
fn bounds(base: &Configuration, path: &KeyPath) -> Vec<ConfigValue> {
    let general = path.key().general();
    let of_user = |path: Option<KeyPath>| {
        let values = base.values(path.as_ref()).iter();
        values.filter(|setting| setting.origin.rank() == 1).map(|setting| setting.value.clone()).next()
    };
    let own = of_user(Some(path.clone()));
    let general_value = general.and_then(|key| of_user(KeyPath::plain(key.name)));
    let default = || default_bound(general.unwrap_or(path.key()));
    match (own, general) {
        (Some(own), None) => vec![own],
        (None, None) => default().into_iter().collect(),
        // What all skills are held to holds this one as well.
        (own, Some(_)) => own.into_iter().chain(general_value.or_else(default)).collect(),
    }
}

/// The default of a key, where it bounds anything.
fn default_bound(key: &Key) -> Option<ConfigValue> {
    Some(match (key.name, key.value_type) {
        ("limits.timeout", _) => ConfigValue::Duration(Limits::default().timeout),
        ("limits.memory", _) => ConfigValue::Number(Limits::DEFAULT_MEMORY_PROCESS),
        ("limits.output", _) => ConfigValue::Number(Limits::default().output),
        ("limits.file_size", _) => ConfigValue::Number(Limits::DEFAULT_FILE_SIZE),
        ("limits.state_size", _) => ConfigValue::Number(Limits::default().state_size),
        ("limits.open_files", _) => ConfigValue::Number(Limits::DEFAULT_OPEN_FILES),
        ("limits.operations", _) => ConfigValue::Number(Limits::OPERATIONS),
        (_, KeyType::Word(_)) => ConfigValue::Text(key.default.to_owned()),
        _ => return None,
    })
}

fn is_more(value: &ConfigValue, bound: &ConfigValue) -> bool {
    match (value, bound) {
        (ConfigValue::Duration(value), ConfigValue::Duration(bound)) => value > bound,
        (ConfigValue::Number(value), ConfigValue::Number(bound)) => value > bound,
        _ => true,
    }
}
