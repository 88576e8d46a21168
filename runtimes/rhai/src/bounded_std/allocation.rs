//! Functions that create much data in one step: padding, replacing and splitting.

use rhai::{Array, Blob, Dynamic, ImmutableString, Map, Module, NativeCallContext};

use crate::run_slot::{RhaiError, check_stop, data_too_large, remaining_memory, require_memory};

type Text = ImmutableString;
type Call<'a> = NativeCallContext<'a>;

/// The memory of a piece of text besides its characters: its place in the list and its own allocation.
const VALUE_OVERHEAD: u64 = 96;
/// The number of values that are put into a list between two checks for a stop.
const VALUES_PER_CHECK: usize = 16 << 10;

/// Registers the bounded functions.
pub(super) fn install(module: &mut Module) {
    register_pad(module);
    register_replace(module);
    register_split(module);
}

fn register_pad(module: &mut Module) {
    module.set_native_fn("blob", |call: Call, length: i64| blob(&call, length, 0));
    module.set_native_fn("blob", |call: Call, length: i64, value: i64| blob(&call, length, value));
    module.set_native_fn("pad", |call: Call, bytes: &mut Blob, length: i64, value: i64| {
        let length = checked_length(&call, length, 1)?;
        if length > bytes.len() {
            bytes.resize(length, byte(value));
        }
        Ok(())
    });
    module.set_native_fn("pad", |call: Call, list: &mut Array, length: i64, item: Dynamic| {
        let length = checked_length(&call, length, value_bytes(&item))?;
        if length > list.len() {
            list.resize(length, item);
        }
        Ok(())
    });
    module.set_native_fn("pad", |call: Call, text: &mut Text, length: i64, with: char| {
        pad(&call, text, length, with.encode_utf8(&mut [0; 4]))
    });
    module.set_native_fn("pad", |call: Call, text: &mut Text, length: i64, with: &str| {
        pad(&call, text, length, with)
    });
    module.set_native_fn("to_array", |call: Call, bytes: &mut Blob| {
        require_memory(&call, bytes.len(), size_of::<Dynamic>() as u64)?;
        collect_values(&call, bytes.iter().map(|byte| Dynamic::from_int(i64::from(*byte))))
    });
}

fn register_replace(module: &mut Module) {
    module.set_native_fn("replace", |call: Call, text: &mut Text, from: &str, to: &str| {
        replace(&call, text, from, to)
    });
    module.set_native_fn("replace", |call: Call, text: &mut Text, from: &str, to: char| {
        replace(&call, text, from, to.encode_utf8(&mut [0; 4]))
    });
    module.set_native_fn("replace", |call: Call, text: &mut Text, from: char, to: &str| {
        replace(&call, text, from.encode_utf8(&mut [0; 4]), to)
    });
    module.set_native_fn("replace", |call: Call, text: &mut Text, from: char, to: char| {
        replace(&call, text, from.encode_utf8(&mut [0; 4]), to.encode_utf8(&mut [0; 4]))
    });
}

fn register_split(module: &mut Module) {
    module
        .set_native_fn("split", |call: Call, text: &mut Text| collect_pieces(&call, text.split_whitespace()));
    module.set_native_fn("split", |call: Call, text: &mut Text, at: &str| {
        collect_pieces(&call, text.split(at))
    });
    module.set_native_fn("split", |call: Call, text: &mut Text, at: char| {
        collect_pieces(&call, text.split(at))
    });
    module.set_native_fn("split", |call: Call, text: &mut Text, at: &str, max: i64| {
        collect_pieces(&call, text.splitn(at_least_one(max), at))
    });
    module.set_native_fn("split", |call: Call, text: &mut Text, at: char, max: i64| {
        collect_pieces(&call, text.splitn(at_least_one(max), at))
    });
    module.set_native_fn("split_rev", |call: Call, text: &mut Text, at: &str| {
        collect_pieces(&call, text.rsplit(at))
    });
    module.set_native_fn("split_rev", |call: Call, text: &mut Text, at: char| {
        collect_pieces(&call, text.rsplit(at))
    });
    module.set_native_fn("split_rev", |call: Call, text: &mut Text, at: &str, max: i64| {
        collect_pieces(&call, text.rsplitn(at_least_one(max), at))
    });
    module.set_native_fn("split_rev", |call: Call, text: &mut Text, at: char, max: i64| {
        collect_pieces(&call, text.rsplitn(at_least_one(max), at))
    });
    module.set_native_fn("to_chars", |call: Call, text: &str| {
        require_memory(&call, text.len(), size_of::<Dynamic>() as u64)?;
        collect_values(&call, text.chars().map(Dynamic::from_char))
    });
}

fn blob(call: &Call, length: i64, value: i64) -> Result<Blob, RhaiError> {
    Ok(vec![byte(value); checked_length(call, length, 1)?])
}

fn pad(call: &Call, text: &mut Text, length: i64, with: &str) -> Result<(), RhaiError> {
    let length = checked_length(call, length, with.len() as u64)?;
    let missing = length.saturating_sub(text.chars().count());
    let chars = with.chars().count();
    if missing > 0 && chars > 0 {
        let mut padding = with.repeat(missing / chars);
        padding.extend(with.chars().take(missing % chars));
        *text += padding;
    }
    Ok(())
}

fn replace(call: &Call, text: &mut Text, from: &str, to: &str) -> Result<(), RhaiError> {
    let found = text.matches(from).count() as u64;
    let length = (to.len() as u64).checked_mul(found).and_then(|added| added.checked_add(text.len() as u64));
    if length.is_none_or(|length| length > remaining_memory(call)) {
        return Err(data_too_large("The string").into());
    }
    if found > 0 {
        *text = text.replace(from, to).into();
    }
    Ok(())
}

fn collect_pieces<'a>(call: &Call, pieces: impl Iterator<Item = &'a str>) -> Result<Array, RhaiError> {
    let max = usize::try_from(remaining_memory(call) / VALUE_OVERHEAD).unwrap_or(usize::MAX);
    let mut list = Array::new();
    for piece in pieces {
        if list.len() == max {
            return Err(data_too_large("The array").into());
        }
        if list.len().is_multiple_of(VALUES_PER_CHECK) {
            check_stop(call)?;
        }
        list.push(piece.into());
    }
    Ok(list)
}

/// A list of small values, if there is enough memory.
fn collect_values(call: &Call, values: impl Iterator<Item = Dynamic>) -> Result<Array, RhaiError> {
    let mut list = Array::with_capacity(values.size_hint().0);
    for value in values {
        if list.len().is_multiple_of(VALUES_PER_CHECK) {
            check_stop(call)?;
        }
        list.push(value);
    }
    Ok(list)
}

/// This length as a number, if that many things of this size fit; zero for a negative one, as in the library.
fn checked_length(call: &Call, length: i64, bytes_each: u64) -> Result<usize, RhaiError> {
    let length = usize::try_from(length).unwrap_or(0);
    require_memory(call, length, bytes_each)?;
    Ok(length)
}

/// The memory that one more copy of a value takes. Text is shared, not copied, and so are the variables that closures share.
fn value_bytes(value: &Dynamic) -> u64 {
    if value.is_shared() {
        return size_of::<Dynamic>() as u64;
    }
    let inside = if let Ok(list) = value.as_array_ref() {
        VALUE_OVERHEAD + list.iter().map(value_bytes).sum::<u64>()
    } else if let Ok(map) = value.as_map_ref() {
        let field =
            |(key, field): (&_, &Dynamic)| VALUE_OVERHEAD + size_of_val(key) as u64 + value_bytes(field);
        VALUE_OVERHEAD + Map::iter(&map).map(field).sum::<u64>()
    } else if let Ok(blob) = value.as_blob_ref() {
        VALUE_OVERHEAD + blob.len() as u64
    } else {
        0
    };
    size_of::<Dynamic>() as u64 + inside
}

fn at_least_one(max: i64) -> usize {
    usize::try_from(max).unwrap_or(0).max(1)
}

/// Only the lower eight bits count, as in the library.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn byte(value: i64) -> u8 {
    value as u8
}
