//! One key with the names in it: `skills.deploy.config.region`.

use std::fmt;

use unicode_normalization::UnicodeNormalization;

use super::keys::{KEYS, Key};

/// A key of the table, with the skill and the entry that it names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPath {
    row: usize,
    skill: Option<String>,
    entry: Option<String>,
}

/// What a path of words means.
pub(super) enum PathMatch {
    /// A key.
    Key(KeyPath),
    /// The beginning of several keys.
    Section,
    /// No key: the part that is wrong, and the words that could be in its place.
    Unknown { at: usize, known: Vec<&'static str> },
}

const SKILL: &str = "NAME";
const ENTRY: &str = "ENTRY";

impl KeyPath {
    /// The row of the table.
    pub fn key(&self) -> &'static Key {
        &KEYS[self.row]
    }

    /// The skill that it names.
    pub fn skill(&self) -> Option<&str> {
        self.skill.as_deref()
    }

    /// The word of the user at its end: a name of a value or a secret.
    pub fn entry(&self) -> Option<&str> {
        self.entry.as_deref()
    }

    /// The path of a key without names in it.
    pub(super) fn plain(name: &str) -> Option<Self> {
        let row = KEYS.iter().position(|key| key.name == name)?;
        Some(Self { row, skill: None, entry: None })
    }

    /// The path of a key of this skill: `limits.timeout`.
    pub(super) fn of_skill(skill: &str, name: &str) -> Option<Self> {
        let row = KEYS
            .iter()
            .position(|key| key.name.strip_prefix("skills.NAME.").is_some_and(|own| own == name))?;
        Some(Self { row, skill: Some(skill.to_owned()), entry: None })
    }

    /// What these words mean, compared exactly.
    pub(super) fn find<W: AsRef<str>>(words: &[W]) -> PathMatch {
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        let is_variable = |part: &str| part == SKILL || part == ENTRY;
        let fits = |(part, word): &(&str, &&str)| part == *word || is_variable(part) && !word.is_empty();
        let fitting = |key: &Key| key.name.split('.').zip(&words).take_while(fits).count();
        let mut at = 0;
        for (row, key) in KEYS.iter().enumerate() {
            let count = fitting(key);
            at = at.max(count);
            if count == words.len() && key.name.split('.').count() == count {
                return PathMatch::Key(Self::of_row(row, &words));
            }
        }
        if at == words.len() {
            return PathMatch::Section;
        }
        let rows = KEYS.iter().filter(|key| fitting(key) == at);
        let parts = rows.filter_map(|key| key.name.split('.').nth(at));
        let known = parts.filter(|part| !is_variable(part)).collect();
        PathMatch::Unknown { at, known }
    }

    fn of_row(row: usize, words: &[&str]) -> Self {
        let named = |name: &str| {
            let at = KEYS[row].name.split('.').position(|part| part == name)?;
            Some(words[at].to_owned())
        };
        // As names of skills are compared.
        let skill = named(SKILL).map(|name| name.trim().nfkc().collect());
        Self { row, skill, entry: named(ENTRY) }
    }

    /// The words of the path.
    pub(super) fn words(&self) -> Vec<&str> {
        let word = |part: &'static str| match part {
            SKILL => self.skill.as_deref().unwrap_or(part),
            ENTRY => self.entry.as_deref().unwrap_or(part),
            _ => part,
        };
        self.key().name.split('.').map(word).collect()
    }
}

impl fmt::Display for KeyPath {
    /// As TOML writes it: words with other characters than letters, digits, `-` and `_` are quoted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().into_iter().map(toml_word).collect::<Vec<_>>().join("."))
    }
}

/// A word of a key as TOML writes it.
pub(super) fn toml_word(word: &str) -> String {
    let is_bare =
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if is_bare { word.to_owned() } else { serde_json::Value::from(word).to_string() }
}
