//! Reads a configuration file in TOML: every value with its line, and everything that is wrong with it.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use toml_edit::{Document, Item, TableLike};

use super::configuration::{Configuration, Setting};
use super::key_path::{KeyPath, PathMatch};
use super::origin::ValueOrigin;
use super::unknown_key;
use metier_core::error::{ErrorKind, Location, SkillError};
use metier_core::toml_nesting::{MAX_DEPTH, check_nesting};

/// Maximum number of values in a file.
const MAX_VALUES: usize = 2_000;

/// Maximum number of errors and of warnings that are reported.
pub(super) const MAX_REPORTS: usize = 100;

/// Words that a project's file may not have at its top, but for keys of the table, whatever a later version makes of them.
const FORBIDDEN_IN_PROJECT: [&str; 6] = ["allow", "env", "environment", "grants", "secrets", "trust"];

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    User,
    Project,
}

/// A text that is read, and what is found in it.
pub(super) struct TomlFile<'t> {
    text: &'t str,
    /// As people call it.
    name: &'t Path,
    /// Absolute.
    path: PathBuf,
    owner: Owner,
    count: usize,
    pub(super) errors: Vec<SkillError>,
    pub(super) warnings: Vec<SkillError>,
}

impl<'t> TomlFile<'t> {
    /// Adds the values of a text to a configuration.
    pub(super) fn read(
        text: &'t str,
        owner: Owner,
        (name, path): (&'t Path, PathBuf),
        configuration: &mut Configuration,
    ) -> Self {
        let mut file = Self { text, name, path, owner, count: 0, errors: Vec::new(), warnings: Vec::new() };
        // The parser itself recurses.
        if let Err((at, reason)) = check_nesting(text) {
            file.fail(at, reason, None);
            return file;
        }
        match Document::parse(text) {
            Ok(document) => file.read_table(document.as_table(), &mut Vec::new(), configuration),
            Err(error) => {
                let at = error.span().map_or(text.len(), |span| span.start);
                file.fail(at, &format!("invalid TOML: {}", error.message()), None);
            }
        }
        file
    }

    fn read_table(&mut self, table: &dyn TableLike, path: &mut Vec<String>, into: &mut Configuration) {
        for (word, item) in table.iter() {
            let at = table.key(word).and_then(toml_edit::Key::span).or_else(|| item.span());
            let at = at.map_or(0, |span| span.start);
            self.count += 1;
            if self.count > MAX_VALUES {
                self.fail(at, &format!("the file has more than {MAX_VALUES} values"), None);
                return;
            }
            path.push(word.to_owned());
            match KeyPath::find(path) {
                PathMatch::Key(key) => self.read_value(key, item, at, into),
                PathMatch::Section => match item.as_table_like() {
                    Some(table) => self.read_table(table, path, into),
                    None => {
                        self.fail(at, &format!("`{}` is a section, and so a table", key_text(path)), None);
                    }
                },
                PathMatch::Unknown { at: wrong, known } => self.report_unknown(path, (wrong, &known), at),
            }
            path.pop();
        }
    }

    fn read_value(&mut self, key: KeyPath, item: &Item, at: usize, into: &mut Configuration) {
        let value = self.read_json(item, 0).and_then(|value| key.key().value_type.parse(&value));
        let value = match value {
            Ok(value) => value,
            Err(reason) => {
                let at = item.span().map_or(at, |span| span.start);
                return self.fail(at, &format!("invalid value of `{key}`: {reason}"), None);
            }
        };
        let line = self.position(at).0;
        match self.owner {
            Owner::User => {
                into.add(key, Setting { value, origin: ValueOrigin::User { file: self.path.clone(), line } });
            }
            Owner::Project => {
                let origin = ValueOrigin::Project { file: self.name.to_owned(), line };
                if let Err(reason) = into.add_of_project(key.clone(), Setting { value, origin }) {
                    let sentence = format!("`{key}` is refused: {reason}");
                    self.fail(
                        at,
                        &sentence,
                        Some("remove the line, or set it in your own configuration file"),
                    );
                }
            }
        }
    }

    /// A value in JSON; dates have no place in it.
    fn read_json(&mut self, item: &Item, depth: usize) -> Result<Value, String> {
        match item {
            Item::None => Ok(Value::Null),
            Item::Value(value) => self.read_json_value(value, depth),
            Item::Table(table) => self.read_json_table(table, depth),
            Item::ArrayOfTables(tables) => {
                let tables = tables.iter().map(|table| self.read_json_table(table, depth + 1));
                tables.collect::<Result<_, _>>().map(Value::Array)
            }
        }
    }

    fn read_json_table(&mut self, table: &dyn TableLike, depth: usize) -> Result<Value, String> {
        let entries =
            table.iter().map(|(word, item)| Ok((word.to_owned(), self.read_json(item, depth + 1)?)));
        entries.collect::<Result<Map<_, _>, String>>().map(Value::Object)
    }

    fn read_json_value(&mut self, value: &toml_edit::Value, depth: usize) -> Result<Value, String> {
        // The value of a key was counted with it.
        self.count += usize::from(depth > 0);
        if self.count > MAX_VALUES {
            return Err(format!("the file has more than {MAX_VALUES} values"));
        }
        if depth > MAX_DEPTH {
            return Err(format!("it nests deeper than {MAX_DEPTH} levels"));
        }
        Ok(match value {
            toml_edit::Value::String(text) => Value::from(text.value().as_str()),
            toml_edit::Value::Integer(number) => Value::from(*number.value()),
            toml_edit::Value::Float(number) => serde_json::Number::from_f64(*number.value())
                .map(Value::Number)
                .ok_or("it is not a finite number")?,
            toml_edit::Value::Boolean(is_set) => Value::from(*is_set.value()),
            toml_edit::Value::Datetime(_) => return Err("a date is written as a text, in quotes".into()),
            toml_edit::Value::Array(values) => {
                let values = values.iter().map(|value| self.read_json_value(value, depth + 1));
                Value::Array(values.collect::<Result<_, _>>()?)
            }
            toml_edit::Value::InlineTable(table) => self.read_json_table(table, depth)?,
        })
    }

    fn report_unknown(&mut self, path: &[String], (wrong, known): (usize, &[&'static str]), at: usize) {
        let is_forbidden = self.owner == Owner::Project
            && FORBIDDEN_IN_PROJECT.iter().any(|word| path[0].eq_ignore_ascii_case(word));
        if is_forbidden {
            let sentence = format!("`{}` is refused: the file of a project cannot set it", key_text(path));
            return self.fail(
                at,
                &sentence,
                Some("remove the line, or set it in your own configuration file"),
            );
        }
        if self.warnings.len() < MAX_REPORTS {
            let help = unknown_key::suggestion(path, wrong, known);
            let help = help.unwrap_or_else(|| "remove it; docs/configuration.md lists the keys".into());
            let error = self.error(at, &format!("unknown key `{}`", key_text(path)));
            self.warnings.push(error.with_help(help));
        }
    }

    fn fail(&mut self, at: usize, sentence: &str, help: Option<&str>) {
        if self.errors.len() < MAX_REPORTS {
            let error = self.error(at, sentence);
            self.errors.push(error.with_help(help.unwrap_or("correct it")));
        }
    }

    fn error(&self, at: usize, sentence: &str) -> SkillError {
        let (line, column) = self.position(at);
        let file = self.name.display().to_string();
        let location = Location::new(&file, Some(line), Some(column)).with_path(Some(self.path.clone()));
        SkillError::new(ErrorKind::Usage, format!("{file}:{line}:{column}: {sentence}"))
            .with_location(location)
    }

    /// The line and the column in characters, from 1.
    fn position(&self, at: usize) -> (u32, u32) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
    }
}

fn key_text(path: &[String]) -> String {
    path.iter().map(|word| super::key_path::toml_word(word)).collect::<Vec<_>>().join(".")
}
