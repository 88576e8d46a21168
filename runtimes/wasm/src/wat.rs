//! Reads a module from the skill's folder: a binary is used as it is, the text format is translated.

use std::borrow::Cow;

use wast::Wat;
use wast::parser::{ParseBuffer, parse};

use crate::module_source::ModuleSource;
use metier_core::byte_order_mark::bytes_without_mark;
use metier_core::error::{ErrorKind, Location, Result, SkillError};

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
