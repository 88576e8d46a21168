//! What stays known of a module when it has been checked, given its new form and compiled.

use serde::{Deserialize, Serialize};

use super::imports::Import;
use super::module::{FUNCTIONS, IMPORTS, MOST_BYTES, MOST_ELEMENTS, Module, TABLES};
use super::rewrite::first_added;

/// What the engine and the runs of a module need to know of it.
pub(super) struct Facts {
    /// Its imports, in order; nothing for those of WASI.
    pub(super) imports: Vec<Option<Import>>,
    /// The index of the first function that was put in; the module's own lie before it.
    pub(super) first_added: u32,
    pub(super) tables: u32,
    /// Elements of its largest table.
    pub(super) elements: u64,
    /// Bytes its memory and tables have from the beginning.
    pub(super) bytes: u64,
}

/// The same as it is written down: an import by its names and the number of its parameters.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    imports: Vec<Option<(String, String, usize)>>,
    first_added: u32,
    tables: u32,
    elements: u64,
    bytes: u64,
}

impl Facts {
    pub(super) fn of(module: Module) -> Self {
        Self {
            first_added: first_added(&module),
            tables: u32::try_from(module.tables.len()).unwrap_or(u32::MAX),
            elements: module.elements,
            bytes: module.bytes,
            imports: module.imports,
        }
    }

    pub(super) fn uses_wasi(&self) -> bool {
        self.imports.iter().any(Option::is_none)
    }

    /// As JSON.
    pub(super) fn written(&self) -> Vec<u8> {
        let named =
            |import: &Import| (import.namespace.to_owned(), import.name.to_owned(), import.params().len());
        let written = Written {
            imports: self.imports.iter().map(|import| import.as_ref().map(named)).collect(),
            first_added: self.first_added,
            tables: self.tables,
            elements: self.elements,
            bytes: self.bytes,
        };
        serde_json::to_vec(&written).unwrap_or_default()
    }

    /// What was written down; nothing where it cannot be read, or an import is no longer offered as it was.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let written: Written = serde_json::from_slice(text).ok()?;
        let is_bounded = written.imports.len() <= IMPORTS as usize
            && written.first_added <= IMPORTS + FUNCTIONS + 1
            && written.tables <= TABLES
            && written.elements <= MOST_ELEMENTS
            && written.bytes <= MOST_BYTES;
        if !is_bounded {
            return None;
        }
        let again = |import: Option<(String, String, usize)>| match import {
            Some((namespace, name, params)) => Import::again(&namespace, &name, params).map(Some),
            None => Some(None),
        };
        Some(Self {
            imports: written.imports.into_iter().map(again).collect::<Option<_>>()?,
            first_added: written.first_added,
            tables: written.tables,
            elements: written.elements,
            bytes: written.bytes,
        })
    }
}
