//! Functions of the standard library that make much out of little in one step, held to the memory of the run.
//!
//! They take the place of the library's own, under the same names and with the same answers.

use rhai::{Array, Blob, Dynamic, EvalAltResult, ImmutableString, Map, Module, NativeCallContext, Position};

use super::host::Ctx;

type Text = ImmutableString;
pub(super) type Thrown = Box<EvalAltResult>;
type Call<'a> = NativeCallContext<'a>;

/// Bytes a piece of text takes beside its letters: its place in the list and its own allocation.
const PIECE: u64 = 96;
/// Values put into a list between two questions whether the run goes on.
const ASK_EVERY: usize = 16 << 10;

/// Registers the guarded functions.
pub(super) fn install(module: &mut Module) {
    pads(module);
    replaces(module);
    splits(module);
}

fn pads(module: &mut Module) {
    module.set_native_fn("blob", |call: Call, length: i64| blob(&call, length, 0));
    module.set_native_fn("blob", |call: Call, length: i64, value: i64| blob(&call, length, value));
    module.set_native_fn("pad", |call: Call, bytes: &mut Blob, length: i64, value: i64| {
        let length = fitting(&call, length, 1)?;
        if length > bytes.len() {
            bytes.resize(length, byte(value));
        }
        Ok(())
    });
    module.set_native_fn("pad", |call: Call, list: &mut Array, length: i64, item: Dynamic| {
        let length = fitting(&call, length, weight(&item))?;
        if length > list.len() {
            list.resize(length, item);
        }
        Ok(())
    });
    module.set_native_fn("pad", |call: Call, text: &mut Text, length: i64, with: char| {
        padded(&call, text, length, with.encode_utf8(&mut [0; 4]))
    });
    module.set_native_fn("pad", |call: Call, text: &mut Text, length: i64, with: &str| {
        padded(&call, text, length, with)
    });
    module.set_native_fn("to_array", |call: Call, bytes: &mut Blob| {
        room(&call, bytes.len(), size_of::<Dynamic>() as u64)?;
        listed(&call, bytes.iter().map(|byte| Dynamic::from_int(i64::from(*byte))))
    });
}

fn replaces(module: &mut Module) {
    module.set_native_fn("replace", |call: Call, text: &mut Text, from: &str, to: &str| {
        replaced(&call, text, from, to)
    });
    module.set_native_fn("replace", |call: Call, text: &mut Text, from: &str, to: char| {
        replaced(&call, text, from, to.encode_utf8(&mut [0; 4]))
    });
    module.set_native_fn("replace", |call: Call, text: &mut Text, from: char, to: &str| {
        replaced(&call, text, from.encode_utf8(&mut [0; 4]), to)
    });
    module.set_native_fn("replace", |call: Call, text: &mut Text, from: char, to: char| {
        replaced(&call, text, from.encode_utf8(&mut [0; 4]), to.encode_utf8(&mut [0; 4]))
    });
}

fn splits(module: &mut Module) {
    module.set_native_fn("split", |call: Call, text: &mut Text| pieces(&call, text.split_whitespace()));
    module.set_native_fn("split", |call: Call, text: &mut Text, at: &str| pieces(&call, text.split(at)));
    module.set_native_fn("split", |call: Call, text: &mut Text, at: char| pieces(&call, text.split(at)));
    module.set_native_fn("split", |call: Call, text: &mut Text, at: &str, most: i64| {
        pieces(&call, text.splitn(at_least_one(most), at))
    });
    module.set_native_fn("split", |call: Call, text: &mut Text, at: char, most: i64| {
        pieces(&call, text.splitn(at_least_one(most), at))
    });
    module.set_native_fn("split_rev", |call: Call, text: &mut Text, at: &str| pieces(&call, text.rsplit(at)));
    module.set_native_fn("split_rev", |call: Call, text: &mut Text, at: char| pieces(&call, text.rsplit(at)));
    module.set_native_fn("split_rev", |call: Call, text: &mut Text, at: &str, most: i64| {
        pieces(&call, text.rsplitn(at_least_one(most), at))
    });
    module.set_native_fn("split_rev", |call: Call, text: &mut Text, at: char, most: i64| {
        pieces(&call, text.rsplitn(at_least_one(most), at))
    });
    module.set_native_fn("to_chars", |call: Call, text: &str| {
        room(&call, text.len(), size_of::<Dynamic>() as u64)?;
        listed(&call, text.chars().map(Dynamic::from_char))
    });
}

fn blob(call: &Call, length: i64, value: i64) -> Result<Blob, Thrown> {
    Ok(vec![byte(value); fitting(call, length, 1)?])
}

fn padded(call: &Call, text: &mut Text, length: i64, with: &str) -> Result<(), Thrown> {
    let length = fitting(call, length, with.len() as u64)?;
    let missing = length.saturating_sub(text.chars().count());
    let letters = with.chars().count();
    if missing > 0 && letters > 0 {
        let mut padding = with.repeat(missing / letters);
        padding.extend(with.chars().take(missing % letters));
        *text += padding;
    }
    Ok(())
}

fn replaced(call: &Call, text: &mut Text, from: &str, to: &str) -> Result<(), Thrown> {
    let found = text.matches(from).count() as u64;
    let length = (to.len() as u64).checked_mul(found).and_then(|added| added.checked_add(text.len() as u64));
    if length.is_none_or(|length| length > left(call)) {
        return Err(too_large("The string").into());
    }
    if found > 0 {
        *text = text.replace(from, to).into();
    }
    Ok(())
}

fn pieces<'a>(call: &Call, pieces: impl Iterator<Item = &'a str>) -> Result<Array, Thrown> {
    let most = usize::try_from(left(call) / PIECE).unwrap_or(usize::MAX);
    let mut list = Array::new();
    for piece in pieces {
        if list.len() == most {
            return Err(too_large("The array").into());
        }
        if list.len().is_multiple_of(ASK_EVERY) {
            go_on(call)?;
        }
        list.push(piece.into());
    }
    Ok(list)
}

/// A list of small values, for which there is room.
fn listed(call: &Call, values: impl Iterator<Item = Dynamic>) -> Result<Array, Thrown> {
    let mut list = Array::with_capacity(values.size_hint().0);
    for value in values {
        if list.len().is_multiple_of(ASK_EVERY) {
            go_on(call)?;
        }
        list.push(value);
    }
    Ok(list)
}

/// A length of things of this weight, when they fit; zero for a negative one, as in the library.
fn fitting(call: &Call, length: i64, weight: u64) -> Result<usize, Thrown> {
    let length = usize::try_from(length).unwrap_or(0);
    room(call, length, weight)?;
    Ok(length)
}

/// Fails where there is no room for so many things of this weight.
pub(super) fn room(call: &Call, count: usize, weight: u64) -> Result<(), Thrown> {
    let fits = (count as u64).checked_mul(weight).is_some_and(|bytes| bytes <= left(call));
    if fits { Ok(()) } else { Err(too_large("The data").into()) }
}

/// Fails where the run must end. Functions that do much ask it once for each MiB or so.
pub(super) fn go_on(call: &Call) -> Result<(), Thrown> {
    let must_stop = call.tag().and_then(Dynamic::read_lock::<Ctx>).is_none_or(|ctx| ctx.must_stop());
    if must_stop { Err(EvalAltResult::ErrorTerminated(Dynamic::UNIT, Position::NONE).into()) } else { Ok(()) }
}

/// The bytes the run may still allocate; the engine carries its `ctx` as a tag.
pub(super) fn left(call: &Call) -> u64 {
    call.tag().and_then(Dynamic::read_lock::<Ctx>).map_or(0, |ctx| ctx.left())
}

/// The error for data beyond the limit. Scripts cannot catch it.
pub(super) fn too_large(what: &str) -> EvalAltResult {
    EvalAltResult::ErrorDataTooLarge(what.to_owned(), Position::NONE)
}

/// The bytes one more copy of a value takes. Text is shared, not copied, and so is what closures share.
fn weight(value: &Dynamic) -> u64 {
    if value.is_shared() {
        return size_of::<Dynamic>() as u64;
    }
    let inside = if let Ok(list) = value.as_array_ref() {
        PIECE + list.iter().map(weight).sum::<u64>()
    } else if let Ok(map) = value.as_map_ref() {
        let field = |(key, field): (&_, &Dynamic)| PIECE + size_of_val(key) as u64 + weight(field);
        PIECE + Map::iter(&map).map(field).sum::<u64>()
    } else if let Ok(blob) = value.as_blob_ref() {
        PIECE + blob.len() as u64
    } else {
        0
    };
    size_of::<Dynamic>() as u64 + inside
}

fn at_least_one(most: i64) -> usize {
    usize::try_from(most).unwrap_or(0).max(1)
}

/// Only the lower eight bits count, as in the library.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn byte(value: i64) -> u8 {
    value as u8
}
