//! Parts of a text, its characters, and its other forms, without an intermediate list of four bytes for every character. Also
//! base64 and percent-encoding, which Rhai has not by itself.

use std::any::TypeId;
use std::ops::{Range, RangeInclusive};

use metier_core::text_encoding::{
    MAX_GROWTH, decode_base64, decode_url_part, encode_base64, encode_url_part,
};
use rhai::{Blob, Dynamic, FuncRegistration, ImmutableString, Module, NativeCallContext};

use crate::run_slot::{RhaiError, require_memory};

type Text = ImmutableString;
type Call<'a> = NativeCallContext<'a>;

/// The maximum growth in bytes of a character whose case changes, and of a byte that is not UTF-8 in text.
const MAX_EXPANSION: u64 = 3;

/// Registers the functions.
pub(super) fn install(module: &mut Module) {
    register_substrings(module);
    register_chars(module);
    register_case(module);
    register_blobs(module);
}

/// Registers the four ways to name a part, for a function of that part.
fn register_substrings(module: &mut Module) {
    type MakeValue = fn(&mut Text, &dyn Fn(&str) -> &str) -> Dynamic;
    fn install(module: &mut Module, name: &str, make: MakeValue) {
        module.set_native_fn(name, move |text: &mut Text, start: i64| {
            Ok(make(text, &|text| substring(text, start, i64::MAX)))
        });
        module.set_native_fn(name, move |text: &mut Text, start: i64, length: i64| {
            Ok(make(text, &|text| substring(text, start, length)))
        });
        module.set_native_fn(name, move |text: &mut Text, range: Range<i64>| {
            Ok(make(text, &|text| substring_range(text, range.start, range.end)))
        });
        module.set_native_fn(name, move |text: &mut Text, range: RangeInclusive<i64>| {
            Ok(make(text, &|text| substring_range(text, *range.start(), range.end().saturating_add(1))))
        });
    }
    install(module, "sub_string", |text, part| part(text).into());
    install(module, "chars", |text, part| Dynamic::from(Chars::new(part(text).into())));
    install(module, "crop", |text, part| {
        *text = part(text).into();
        Dynamic::UNIT
    });
}

fn register_chars(module: &mut Module) {
    module.set_custom_type::<Chars>("CharsStream");
    module.set_iterator::<Chars>();
    module.set_iter(TypeId::of::<Text>(), |text: Dynamic| {
        Box::new(Chars::new(text.into_immutable_string().unwrap_or_default()).map(Dynamic::from_char))
    });
    module.set_getter_fn("chars", |text: &mut Text| Ok(Chars::new(text.clone())));
    module.set_native_fn("chars", |text: Text| Ok(Chars::new(text)));
}

fn register_case(module: &mut Module) {
    fn changed(call: &Call, text: &str, change: fn(&str) -> String) -> Result<Text, RhaiError> {
        let worst = if text.is_ascii() { 1 } else { MAX_EXPANSION };
        require_memory(call, text.len(), worst)?;
        Ok(change(text).into())
    }
    for (pure_name, in_place_name, change) in [
        ("to_upper", "make_upper", str::to_uppercase as fn(&str) -> String),
        ("to_lower", "make_lower", str::to_lowercase),
    ] {
        let pure = || FuncRegistration::new(pure_name).with_purity(true);
        pure().set_into_module(module, move |call: Call, text: &mut Text| changed(&call, text, change));
        module.set_native_fn(in_place_name, move |call: Call, text: &mut Text| {
            *text = changed(&call, text, change)?;
            Ok(())
        });
    }
}

fn register_blobs(module: &mut Module) {
    fn read(call: &Call, bytes: &[u8]) -> Result<String, RhaiError> {
        require_memory(call, bytes.len(), MAX_EXPANSION)?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
    module.set_native_fn("as_string", |call: Call, bytes: Blob| read(&call, &bytes));
    module.set_native_fn("+", |call: Call, text: Text, bytes: Blob| Ok(text + read(&call, &bytes)?));
    module.set_native_fn("+", |call: Call, bytes: Blob, text: &str| Ok(read(&call, &bytes)? + text));
    for name in ["+=", "append"] {
        module.set_native_fn(name, |call: Call, text: &mut Text, bytes: Blob| {
            *text += read(&call, &bytes)?;
            Ok(())
        });
    }
}

/// This many characters from the one at `start`; a negative start counts from the end.
fn substring(text: &str, start: i64, length: i64) -> &str {
    let from = match usize::try_from(start) {
        Ok(start) => char_offset(text, start),
        Err(_) => match start.checked_neg().and_then(|back| usize::try_from(back).ok()) {
            Some(back) => text.char_indices().rev().nth(back - 1).map_or(0, |(at, _)| at),
            None => 0,
        },
    };
    let rest = &text[from..];
    &rest[..char_offset(rest, usize::try_from(length).unwrap_or(0))]
}

/// The characters from one index to before another.
fn substring_range(text: &str, start: i64, end: i64) -> &str {
    let start = start.max(0);
    substring(text, start, end.max(start) - start)
}

/// The byte offset of the character with this index, or the end if there is none.
fn char_offset(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}

/// The characters of a text, which is shared and not copied.
#[derive(Clone)]
struct Chars {
    text: Text,
    offset: usize,
}

impl Chars {
    fn new(text: Text) -> Self {
        Self { text, offset: 0 }
    }
}

impl Iterator for Chars {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let letter = self.text[self.offset..].chars().next()?;
        self.offset += letter.len_utf8();
        Some(letter)
    }
}

/// Registers `base64_encode`, `base64_decode`, `base64_decode_blob`, `url_encode` and `url_decode`.
pub(super) fn install_encodings(module: &mut Module) {
    module.set_native_fn("base64_encode", |call: NativeCallContext, text: &str| {
        encode(&call, text.as_bytes(), encode_base64)
    });
    module.set_native_fn("base64_encode", |call: NativeCallContext, bytes: Blob| {
        encode(&call, &bytes, encode_base64)
    });
    module.set_native_fn("base64_decode", |call: NativeCallContext, text: &str| {
        text_of(decode(&call, ("base64_decode", text), decode_base64)?, "base64_decode")
    });
    module.set_native_fn("base64_decode_blob", |call: NativeCallContext, text: &str| {
        decode(&call, ("base64_decode_blob", text), decode_base64)
    });
    module.set_native_fn("url_encode", |call: NativeCallContext, text: &str| {
        encode(&call, text.as_bytes(), encode_url_part)
    });
    module.set_native_fn("url_decode", |call: NativeCallContext, text: &str| {
        text_of(decode(&call, ("url_decode", text), decode_url_part)?, "url_decode")
    });
}

fn encode(
    call: &NativeCallContext<'_>,
    bytes: &[u8],
    encode: fn(&[u8]) -> String,
) -> Result<String, RhaiError> {
    require_memory(call, bytes.len(), MAX_GROWTH)?;
    Ok(encode(bytes))
}

fn decode(
    call: &NativeCallContext<'_>,
    (name, text): (&str, &str),
    decode: fn(&[u8]) -> Result<Vec<u8>, String>,
) -> Result<Blob, RhaiError> {
    require_memory(call, text.len(), MAX_GROWTH)?;
    decode(text.as_bytes()).map_err(|reason| format!("{name}: {reason}").into())
}

fn text_of(bytes: Blob, name: &str) -> Result<String, RhaiError> {
    String::from_utf8(bytes).map_err(|_| format!("{name}: the bytes are not UTF-8 text").into())
}
