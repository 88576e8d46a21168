//! A module of a plug-in before it is compiled: its bytes, what the plug-in uses it for, and what it may import from. A binary is
//! used as it is, the text format is translated.

use std::borrow::Cow;
use std::sync::Arc;

use metier_core::byte_order_mark::bytes_without_mark;
use metier_core::error::{ErrorContext, ErrorKind, Location, Result, SkillError};
use metier_core::executor::Script;
use serde::{Deserialize, Serialize};
use wast::Wat;
use wast::parser::{ParseBuffer, parse};

/// The name of the module that has the entry function, as Extism calls it. No module imports from it.
pub(super) const MAIN_MODULE: &str = "main";

#[derive(Clone)]
pub(super) struct ModuleSource {
    /// What messages call it: the file of the script, with the module's name if the plug-in has several.
    pub(super) label: String,
    /// Binary, or the text format.
    pub(super) bytes: Arc<[u8]>,
    pub(super) role: ModuleRole,
    /// The names of all libraries of the plug-in, sorted.
    pub(super) libraries: Vec<String>,
}

/// What a plug-in uses a module for.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ModuleRole {
    /// It has the entry function, of this name.
    Main { function: String },
    /// The other modules may import its functions from this name.
    Library { name: String },
}

impl ModuleSource {
    /// The only module of a plug-in.
    pub(super) fn single(script: &Script, bytes: Arc<[u8]>) -> Self {
        Self { label: script.path.clone(), bytes, role: ModuleRole::main(script), libraries: Vec::new() }
    }

    /// The error, with the module in its sentence if the plug-in has several.
    pub(super) fn name_module(&self, error: SkillError) -> SkillError {
        if self.libraries.is_empty() {
            return error;
        }
        error.with_message(format!("{}: {}", self.label, error.message()))
    }

    /// The name of the library; `None` for the main module.
    pub(super) fn library_name(&self) -> Option<&str> {
        match &self.role {
            ModuleRole::Main { .. } => None,
            ModuleRole::Library { name } => Some(name),
        }
    }
}

impl ModuleRole {
    /// The main module of a script, with the function that the contract names, or else `run`.
    pub(super) fn main(script: &Script) -> Self {
        Self::Main { function: script.function.clone().unwrap_or_else(|| "run".into()) }
    }
}

/// The maximum size of a module in bytes, as text and as binary.
const MAX_MODULE_BYTES: usize = 16 << 20;

/// The start of a binary module.
const MAGIC: &[u8] = b"\0asm";

/// The module as binary. Its content decides the format, not its file name.
pub(super) fn to_binary(source: &ModuleSource) -> Result<Cow<'_, [u8]>> {
    let module = if source.bytes.starts_with(MAGIC) {
        Cow::Borrowed(&*source.bytes)
    } else {
        check_size(&source.bytes, &source.label)?;
        Cow::Owned(encode(&source.bytes, &source.label)?)
    };
    check_size(&module, &source.label)?;
    Ok(module)
}

fn check_size(module: &[u8], file: &str) -> Result<()> {
    if module.len() <= MAX_MODULE_BYTES {
        return Ok(());
    }
    let sentence = format!("{file} has {} bytes; a module may have {MAX_MODULE_BYTES}", module.len());
    Err(SkillError::new(ErrorKind::InvalidSkill, sentence))
}

fn encode(source: &[u8], file: &str) -> Result<Vec<u8>> {
    let text = std::str::from_utf8(bytes_without_mark(source)).ok();
    // Text begins with a bracket or a comment, whatever is wrong behind it.
    let text = text.filter(|text| text.trim_start().starts_with(['(', ';'])).ok_or_else(|| {
        SkillError::new(ErrorKind::InvalidSkill, format!("{file} is no WebAssembly module"))
            .with_help("a module begins with the bytes \\0asm, or is text that begins with (module")
    })?;
    let module = ParseBuffer::new(text).and_then(|buffer| parse::<Wat>(&buffer)?.encode());
    module.map_err(|error| {
        let (line, column) = error.span().linecol_in(text);
        let count = |from_zero: usize| u32::try_from(from_zero + 1).ok();
        SkillError::new(ErrorKind::InvalidSkill, error.message()).with_location(Location::new(
            file,
            count(line),
            count(column),
        ))
    })
}
