//! How much memory JSON values take, as values and as text.

use std::io;

use serde_json::Value;

use super::memory::{HostMemoryReservation, LARGE_ALLOCATION, check_system_memory};
use crate::error::{ErrorKind, Hint, LimitKind, Result, SkillError};
use crate::host::process_host_memory;
use crate::policy::Limits;

/// Texts and values below this many bytes are not measured exactly.
const SMALL_TEXT: u64 = 64 << 10;

/// Approximate bytes of memory that a value takes.
pub fn memory_size(value: &Value) -> u64 {
    const NODE: u64 = size_of::<Value>() as u64;
    let inside: u64 = match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(memory_size).sum(),
        Value::Object(entries) => {
            entries.iter().map(|(key, item)| key.len() as u64 + memory_size(item)).sum::<u64>()
                + memory_size_of_map(entries.len())
        }
        _ => 0,
    };
    NODE + inside
}

/// Approximate bytes that a map with this many entries takes besides the keys and values: a table that has room for three entries
/// at first and doubles when it is full, with a hash and a position for each.
pub(crate) fn memory_size_of_map(entries: usize) -> u64 {
    if entries == 0 { 0 } else { SMALLEST_MAP + entries as u64 * MAP_ENTRY }
}

/// What a map takes besides its entries, and an entry besides the text of its key and its value.
const SMALLEST_MAP: u64 = 160;
const MAP_ENTRY: u64 = 160;

/// Approximate bytes that the value of a JSON text takes, estimated from its text: each value in it takes at least one character.
pub fn memory_size_of_json(text: &[u8]) -> u64 {
    /// A full list doubles its capacity.
    const ITEM: u64 = 3 * size_of::<Value>() as u64;
    if (text.len() as u64) < SMALL_TEXT {
        return text.len() as u64;
    }
    let (mut bytes, mut is_text, mut is_escaped) = (text.len() as u64, false, false);
    for byte in text {
        match (is_text, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => is_text = !is_text,
            (false, b',' | b'[') => bytes += ITEM,
            (false, b'{') => bytes += ITEM + memory_size_of_map(1),
            (false, b':') => bytes += MAP_ENTRY,
            _ => {}
        }
    }
    bytes
}

/// Serializes a value as JSON after reserving the memory for the text.
#[cfg_attr(not(unix), allow(dead_code, reason = "only processes are answered in text"))]
pub fn to_json(value: &Value, held: &mut HostMemoryReservation) -> Result<Vec<u8>> {
    let failed =
        |error| SkillError::new(ErrorKind::InvalidOutput, format!("it cannot be written as JSON: {error}"));
    if memory_size(value) < SMALL_TEXT {
        return serde_json::to_vec(value).map_err(failed);
    }
    let mut length = ByteCounter(0);
    serde_json::to_writer(&mut length, value).map_err(failed)?;
    held.add(length.0)?;
    let mut text = Vec::with_capacity(usize::try_from(length.0).unwrap_or_default());
    serde_json::to_writer(&mut text, value).map_err(failed)?;
    Ok(text)
}

/// Counts the bytes that are written and keeps none.
struct ByteCounter(u64);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The memory limit of a process value in the host, which is far more than its text takes.
const VALUE_MEMORY_FACTOR: u64 = 4;

/// Checks that a run with these limits may build the value of this text, the output of a process.
#[cfg_attr(not(unix), allow(dead_code, reason = "only processes put out text"))]
pub fn check_value_memory(text: &[u8], limits: &Limits) -> Result<()> {
    let bytes = memory_size_of_json(text);
    if bytes < LARGE_ALLOCATION {
        return Ok(());
    }
    let most = process_host_memory(limits).saturating_mul(VALUE_MEMORY_FACTOR);
    if bytes > most {
        let sentence = format!("its value needs up to {bytes} bytes of memory; the maximum is {most}");
        return Err(SkillError::new(ErrorKind::Memory, sentence)
            .with_help("print less, or print it as one string, or give it more memory")
            .with_hint(Hint::Limit(LimitKind::Memory)));
    }
    // It is copied once, when it is redacted or shown.
    check_system_memory(bytes.saturating_mul(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostMemory;

    #[test]
    fn the_value_of_a_text_weighs_no_more_than_its_text_says() {
        let many = |part: &str, end: &str| format!("[{}{end}]", part.repeat(40_000));
        let fields = (0..20_000).map(|at| format!("\"{at}\":{{}}")).collect::<Vec<_>>().join(",");
        for text in [
            many("0,", "0"),
            many("[],", "0"),
            many("{},", "0"),
            many(r#"{"a":0},"#, "0"),
            many(r#""\\\",[[",{"a\"":"{,","b":[{}]},"#, "0"),
            format!("{{{fields}}}"),
        ] {
            let value: Value = serde_json::from_str(&text).unwrap();
            assert!(memory_size(&value) <= memory_size_of_json(text.as_bytes()), "{text:.40}");
            let mut held = HostMemory::new(text.len() as u64).empty_reservation();
            assert_eq!(to_json(&value, &mut held).unwrap().len(), value.to_string().len());
        }
        let text = format!("\"{}\"", ",[{".repeat(100_000));
        assert_eq!(memory_size_of_json(text.as_bytes()), text.len() as u64);
        let control = Value::from("\u{1}".repeat(100_000));
        assert!(to_json(&control, &mut HostMemory::new(500_000).empty_reservation()).is_err());
    }
}
