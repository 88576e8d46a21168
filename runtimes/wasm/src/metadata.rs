//! The metadata that is kept of a module after it was checked, instrumented and compiled.

use serde::{Deserialize, Serialize};

use super::imports::{Import, ResolvedImport};
use super::module::{
    CheckedModule, MAX_FUNCTIONS, MAX_IMPORTS, MAX_INITIAL_BYTES, MAX_TABLE_ELEMENTS, MAX_TABLES,
};
use crate::instrument::{ADDED_IMPORTS, first_added_function};

/// The metadata that the engine and the runs of a module need.
pub(super) struct ModuleMetadata {
    /// Its imports, in order.
    pub(super) imports: Vec<ResolvedImport>,
    /// The index of the first added function; the module's own functions are before it.
    pub(super) first_added_function: u32,
    /// 1 if it has a memory.
    pub(super) memories: u32,
    pub(super) tables: u32,
    /// The number of elements of its largest table.
    pub(super) largest_table_elements: u64,
    /// The initial size of its memory and tables in bytes.
    pub(super) initial_bytes: u64,
}

/// The stored form of the metadata.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredMetadata {
    imports: Vec<StoredImport>,
    first_added: u32,
    memories: u32,
    tables: u32,
    elements: u64,
    bytes: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredImport {
    Wasi,
    /// Namespace, name, and the numbers of parameters and results.
    Host(String, String, usize, usize),
    Library(String),
}

impl StoredImport {
    fn new(import: &ResolvedImport) -> Self {
        match import {
            ResolvedImport::Wasi => Self::Wasi,
            ResolvedImport::Host(import) => {
                let (params, results) = (import.params().len(), import.results().len());
                Self::Host(import.namespace.to_owned(), import.name.to_owned(), params, results)
            }
            ResolvedImport::Library(name) => Self::Library(name.clone()),
        }
    }

    /// The import, if it still exists with the same type, or if the plug-in has that library.
    fn restore(self, libraries: &[String]) -> Option<ResolvedImport> {
        match self {
            Self::Wasi => Some(ResolvedImport::Wasi),
            Self::Host(namespace, name, params, results) => {
                Import::restore(&namespace, &name, (params, results)).map(ResolvedImport::Host)
            }
            Self::Library(name) => libraries.contains(&name).then_some(ResolvedImport::Library(name)),
        }
    }
}

impl ModuleMetadata {
    pub(super) fn from_module(module: CheckedModule) -> Self {
        Self {
            first_added_function: first_added_function(&module),
            memories: u32::from(module.has_memory),
            tables: u32::try_from(module.tables.len()).unwrap_or(u32::MAX),
            largest_table_elements: module.largest_table_elements,
            initial_bytes: module.initial_bytes,
            imports: module.imports,
        }
    }

    pub(super) fn uses_wasi(&self) -> bool {
        self.imports.iter().any(|import| matches!(import, ResolvedImport::Wasi))
    }

    /// The names of the libraries that it imports from, in the order of its imports.
    pub(super) fn libraries(&self) -> impl Iterator<Item = &str> {
        self.imports.iter().filter_map(|import| match import {
            ResolvedImport::Library(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Serializes the metadata as JSON.
    pub(super) fn to_json(&self) -> Vec<u8> {
        let written = StoredMetadata {
            imports: self.imports.iter().map(StoredImport::new).collect(),
            first_added: self.first_added_function,
            memories: self.memories,
            tables: self.tables,
            elements: self.largest_table_elements,
            bytes: self.initial_bytes,
        };
        serde_json::to_vec(&written).unwrap_or_default()
    }

    /// Parses stored metadata; `None` if it cannot be parsed, or if an import is none that a module of a plug-in with these
    /// libraries can have.
    pub(super) fn from_json(text: &[u8], libraries: &[String]) -> Option<Self> {
        let written: StoredMetadata = serde_json::from_slice(text).ok()?;
        let is_bounded = written.imports.len() <= MAX_IMPORTS as usize
            && written.first_added <= MAX_IMPORTS + ADDED_IMPORTS + MAX_FUNCTIONS
            && written.memories <= 1
            && written.tables <= MAX_TABLES
            && written.elements <= MAX_TABLE_ELEMENTS
            && written.bytes <= MAX_INITIAL_BYTES;
        if !is_bounded {
            return None;
        }
        let restored = |import: StoredImport| import.restore(libraries);
        Some(Self {
            imports: written.imports.into_iter().map(restored).collect::<Option<_>>()?,
            first_added_function: written.first_added,
            memories: written.memories,
            tables: written.tables,
            largest_table_elements: written.elements,
            initial_bytes: written.bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_module_that_is_accepted_can_be_stored() {
        let largest = ModuleMetadata {
            imports: vec![ResolvedImport::Wasi; MAX_IMPORTS as usize],
            first_added_function: MAX_IMPORTS + ADDED_IMPORTS + MAX_FUNCTIONS,
            memories: 1,
            tables: MAX_TABLES,
            largest_table_elements: MAX_TABLE_ELEMENTS,
            initial_bytes: MAX_INITIAL_BYTES,
        };
        let restored = ModuleMetadata::from_json(&largest.to_json(), &[]).unwrap();
        assert_eq!(restored.first_added_function, largest.first_added_function);
    }
}
