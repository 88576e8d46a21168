//! Writes lists, maps, blobs and quoted strings as text. A list may contain one long string a thousand times, so the text is
//! limited to the memory that is left.

use std::fmt::{self, Write};

use rhai::{Array, Blob, Dynamic, FnPtr, FuncRegistration, ImmutableString, Map, Module, NativeCallContext};

use crate::run_slot::{check_stop, end_out_of_memory, remaining_memory};

/// The functions by which scripts and Rhai itself convert a value to text.
const FUNCTION_NAMES: [&str; 4] = ["print", "to_string", "debug", "to_debug"];

/// The maximum nesting that is written; a reader could not follow more.
const MAX_DEPTH: usize = 500;

/// Registers the functions for values that may be large; the text of any other value is hardly larger than the value.
pub(super) fn install(module: &mut Module) {
    for name in FUNCTION_NAMES {
        let named = || FuncRegistration::new(name).in_global_namespace().with_purity(true);
        named().set_into_module(module, |call: NativeCallContext, list: &mut Array| {
            display(&call, |text| text.list(list, 0))
        });
        named().set_into_module(module, |call: NativeCallContext, map: &mut Map| {
            display(&call, |text| text.map(map, 0))
        });
        named().set_into_module(module, |call: NativeCallContext, bytes: &mut Blob| {
            display(&call, |text| text.blob(bytes))
        });
        // Without the values it contains, which may be large, or the function itself.
        named().set_into_module(module, |function: &mut FnPtr| format!("Fn({})", function.fn_name()));
    }
    for name in ["debug", "to_debug"] {
        let named = FuncRegistration::new(name).in_global_namespace().with_purity(true);
        named.set_into_module(module, |call: NativeCallContext, string: &mut ImmutableString| {
            display(&call, |text| text.quote(string))
        });
    }
}

/// The text, or a part of it if the memory ran out. In Rhai these functions cannot fail, so the slot ends the run at its next
/// operation.
fn display(call: &NativeCallContext, write: impl FnOnce(&mut BoundedText) -> fmt::Result) -> String {
    let mut text =
        BoundedText { call, out: String::new(), remaining: remaining_memory(call), bytes_since_check: 0 };
    if write(&mut text).is_err() && check_stop(call).is_ok() {
        end_out_of_memory(call);
    }
    text.out
}

struct BoundedText<'a, 'b> {
    call: &'a NativeCallContext<'b>,
    out: String,
    remaining: u64,
    /// Bytes written since the last check for a stop.
    bytes_since_check: usize,
}

/// Bytes between two checks, and of a string that is quoted at once.
const BYTES_PER_CHECK: usize = 64 << 10;

impl BoundedText<'_, '_> {
    fn list(&mut self, list: &[Dynamic], depth: usize) -> fmt::Result {
        self.write_str("[")?;
        for (position, item) in list.iter().enumerate() {
            self.write_str(if position > 0 { ", " } else { "" })?;
            self.value(item, depth + 1)?;
        }
        self.write_str("]")
    }

    fn map(&mut self, map: &Map, depth: usize) -> fmt::Result {
        self.write_str("#{")?;
        for (position, (key, field)) in map.iter().enumerate() {
            self.write_str(if position > 0 { ", " } else { "" })?;
            write!(self, "{key:?}: ")?;
            self.value(field, depth + 1)?;
        }
        self.write_str("}")
    }

    /// In groups of eight, as in the library.
    fn blob(&mut self, bytes: &[u8]) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.write_str("[")?;
        let mut group = String::new();
        for (position, eight) in bytes.chunks(8).enumerate() {
            group.clear();
            if position > 0 {
                group.push(' ');
            }
            for byte in eight {
                group.push(char::from(DIGITS[usize::from(byte >> 4)]));
                group.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
            self.write_str(&group)?;
        }
        self.write_str("]")
    }

    /// In pieces: the quoted form of a character does not depend on its neighbours.
    fn quote(&mut self, mut string: &str) -> fmt::Result {
        self.write_str("\"")?;
        let mut piece = String::new();
        while !string.is_empty() {
            let (first, rest) = string.split_at(string.floor_char_boundary(BYTES_PER_CHECK));
            piece.clear();
            write!(piece, "{first:?}")?;
            self.write_str(&piece[1..piece.len() - 1])?;
            string = rest;
        }
        self.write_str("\"")
    }

    fn value(&mut self, value: &Dynamic, depth: usize) -> fmt::Result {
        if depth > MAX_DEPTH {
            return self.write_str("…");
        }
        if let Ok(list) = value.as_array_ref() {
            return self.list(&list, depth);
        }
        if let Ok(map) = value.as_map_ref() {
            return self.map(&map, depth);
        }
        if let Ok(text) = value.as_immutable_string_ref() {
            return self.quote(&text);
        }
        if let Ok(bytes) = value.as_blob_ref() {
            return self.blob(&bytes);
        }
        let written = self.call.call_native_fn_raw("to_debug", true, &mut [&mut value.clone()]);
        match written.ok().and_then(|written| written.into_immutable_string().ok()) {
            Some(text) => self.write_str(&text),
            None => Err(fmt::Error),
        }
    }
}

impl Write for BoundedText<'_, '_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.bytes_since_check += part.len();
        if self.bytes_since_check > BYTES_PER_CHECK {
            self.bytes_since_check = 0;
            check_stop(self.call).map_err(|_| fmt::Error)?;
        }
        // A growing string is copied to an allocation of twice the size.
        self.remaining = self.remaining.checked_sub(2 * part.len() as u64).ok_or(fmt::Error)?;
        self.out.push_str(part);
        Ok(())
    }
}
