//! Lists, maps, blobs and quoted strings as text. A list may name one long string a thousand times, so what is written is
//! held to the memory left.
//!
//! Takes the place of the library's own functions, with the same answers.

use std::fmt::{self, Write};

use rhai::{Array, Blob, Dynamic, FnPtr, FuncRegistration, ImmutableString, Map, Module, NativeCallContext};

use super::growth::{go_on, left};
use super::host::run_out;

/// What scripts and Rhai itself call to see a value written.
const NAMES: [&str; 4] = ["print", "to_string", "debug", "to_debug"];

/// Nesting of what is written; deeper, a reader is lost as well.
const DEPTH: usize = 500;

/// Registers them for what may be large; every other value is written in little more space than it takes.
pub(super) fn install(module: &mut Module) {
    for name in NAMES {
        let named = || FuncRegistration::new(name).in_global_namespace().with_purity(true);
        named().set_into_module(module, |call: NativeCallContext, list: &mut Array| {
            written(&call, |text| text.list(list, 0))
        });
        named().set_into_module(module, |call: NativeCallContext, map: &mut Map| {
            written(&call, |text| text.map(map, 0))
        });
        named().set_into_module(module, |call: NativeCallContext, bytes: &mut Blob| {
            written(&call, |text| text.blob(bytes))
        });
        // Without what it holds, which may be much, or itself.
        named().set_into_module(module, |function: &mut FnPtr| format!("Fn({})", function.fn_name()));
    }
    for name in ["debug", "to_debug"] {
        let named = FuncRegistration::new(name).in_global_namespace().with_purity(true);
        named.set_into_module(module, |call: NativeCallContext, string: &mut ImmutableString| {
            written(&call, |text| text.quoted(string))
        });
    }
}

/// The text, or what there is of it when the memory ran out. Rhai does not let these functions fail, so the run is ended
/// from its slot, at its next operation.
fn written(call: &NativeCallContext, write: impl FnOnce(&mut Text) -> fmt::Result) -> String {
    let mut text = Text { call, out: String::new(), left: left(call), unasked: 0 };
    if write(&mut text).is_err() && go_on(call).is_ok() {
        run_out(call);
    }
    text.out
}

struct Text<'a, 'b> {
    call: &'a NativeCallContext<'b>,
    out: String,
    left: u64,
    /// Bytes written since the run was last asked whether it goes on.
    unasked: usize,
}

/// Bytes between two questions, and of a string that is quoted at once.
const ASK_EVERY: usize = 64 << 10;

impl Text<'_, '_> {
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

    /// Piece by piece: what a letter becomes does not depend on those beside it.
    fn quoted(&mut self, mut string: &str) -> fmt::Result {
        self.write_str("\"")?;
        let mut piece = String::new();
        while !string.is_empty() {
            let (first, rest) = string.split_at(string.floor_char_boundary(ASK_EVERY));
            piece.clear();
            write!(piece, "{first:?}")?;
            self.write_str(&piece[1..piece.len() - 1])?;
            string = rest;
        }
        self.write_str("\"")
    }

    fn value(&mut self, value: &Dynamic, depth: usize) -> fmt::Result {
        if depth > DEPTH {
            return self.write_str("…");
        }
        if let Ok(list) = value.as_array_ref() {
            return self.list(&list, depth);
        }
        if let Ok(map) = value.as_map_ref() {
            return self.map(&map, depth);
        }
        if let Ok(text) = value.as_immutable_string_ref() {
            return self.quoted(&text);
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

impl Write for Text<'_, '_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.unasked += part.len();
        if self.unasked > ASK_EVERY {
            self.unasked = 0;
            go_on(self.call).map_err(|_| fmt::Error)?;
        }
        // A growing string is copied to where there is twice the room.
        self.left = self.left.checked_sub(2 * part.len() as u64).ok_or(fmt::Error)?;
        self.out.push_str(part);
        Ok(())
    }
}
