//! The metadata that is kept of a module after it was checked, instrumented and compiled.

use serde::{Deserialize, Serialize};

use super::imports::Import;
use super::module::{
    CheckedModule, MAX_FUNCTIONS, MAX_IMPORTS, MAX_INITIAL_BYTES, MAX_TABLE_ELEMENTS, MAX_TABLES,
};
use crate::runtimes::wasm::instrument::first_added_function;

/// The metadata that the engine and the runs of a module need.
pub(super) struct ModuleMetadata {
    /// Its imports, in order; `None` for those of WASI.
    pub(super) imports: Vec<Option<Import>>,
    /// The index of the first added function; the module's own functions are before it.
    pub(super) first_added_function: u32,
    pub(super) tables: u32,
    /// The number of elements of its largest table.
    pub(super) largest_table_elements: u64,
    /// The initial size of its memory and tables in bytes.
    pub(super) initial_bytes: u64,
}

/// The stored form of the metadata: an import by its names and the number of its parameters.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredMetadata {
    imports: Vec<Option<(String, String, usize)>>,
    first_added: u32,
    tables: u32,
    elements: u64,
    bytes: u64,
}

impl ModuleMetadata {
    pub(super) fn from_module(module: CheckedModule) -> Self {
        Self {
            first_added_function: first_added_function(&module),
            tables: u32::try_from(module.tables.len()).unwrap_or(u32::MAX),
            largest_table_elements: module.largest_table_elements,
            initial_bytes: module.initial_bytes,
            imports: module.imports,
        }
    }

    pub(super) fn uses_wasi(&self) -> bool {
        self.imports.iter().any(Option::is_none)
    }

    /// Serializes the metadata as JSON.
    pub(super) fn to_json(&self) -> Vec<u8> {
        let named =
            |import: &Import| (import.namespace.to_owned(), import.name.to_owned(), import.params().len());
        let written = StoredMetadata {
            imports: self.imports.iter().map(|import| import.as_ref().map(named)).collect(),
            first_added: self.first_added_function,
            tables: self.tables,
            elements: self.largest_table_elements,
            bytes: self.initial_bytes,
        };
        serde_json::to_vec(&written).unwrap_or_default()
    }

    /// Parses stored metadata; `None` if it cannot be parsed, or if an import no longer exists with the same type.
    pub(super) fn from_json(text: &[u8]) -> Option<Self> {
        let written: StoredMetadata = serde_json::from_slice(text).ok()?;
        let is_bounded = written.imports.len() <= MAX_IMPORTS as usize
            && written.first_added <= MAX_IMPORTS + MAX_FUNCTIONS + 1
            && written.tables <= MAX_TABLES
            && written.elements <= MAX_TABLE_ELEMENTS
            && written.bytes <= MAX_INITIAL_BYTES;
        if !is_bounded {
            return None;
        }
        let again = |import: Option<(String, String, usize)>| match import {
            Some((namespace, name, params)) => Import::restore(&namespace, &name, params).map(Some),
            None => Some(None),
        };
        Some(Self {
            imports: written.imports.into_iter().map(again).collect::<Option<_>>()?,
            first_added_function: written.first_added,
            tables: written.tables,
            largest_table_elements: written.elements,
            initial_bytes: written.bytes,
        })
    }
}
