//! Wraps Luau's own functions so that none of them delays a stop: each first checks whether the run may go on, and a call
//! that would be expensive between two such checks runs in steps instead, in `natives.luau`.
//!
//! A call that is not expensive goes directly to the native function, which is true of nearly all calls.

use std::ffi::CStr;
use std::sync::Arc;

use mlua::{Function, IntoLua, IntoLuaMulti, Lua, LuaString, MultiValue, Table, Value};

use super::interrupt::{self, Arguments, Element, IsExpensive};
use super::matcher::{self, Capture, Match, MatchError, StepCounter};
use crate::run_slot::RunSlot;

/// The wrapped functions of each library, and when a call is expensive.
const INTERRUPTIBLE: &[(&str, &[(&CStr, IsExpensive)])] = &[
    (
        "string",
        &[
            (c"find", is_long_search),
            (c"format", is_long_format),
            (c"gmatch", is_long_search),
            (c"gsub", is_long_replacement),
            (c"lower", is_huge_text),
            (c"match", is_long_search),
            (c"pack", is_long_pack),
            (c"packsize", is_long_pack_format),
            (c"rep", is_never_expensive),
            (c"reverse", is_huge_text),
            (c"split", is_long_split),
            (c"unpack", is_long_pack_format),
            (c"upper", is_huge_text),
        ],
    ),
    (
        "table",
        &[
            (c"clear", is_never_expensive),
            (c"clone", is_never_expensive),
            (c"concat", is_long_concat),
            (c"create", is_never_expensive),
            (c"find", is_long_find),
            (c"foreach", calls_native),
            (c"foreachi", calls_native),
            (c"insert", is_long_insert),
            (c"maxn", has_large_heap),
            (c"move", is_long_move),
            (c"pack", is_never_expensive),
            (c"remove", is_long_remove),
            (c"sort", is_long_sort),
            (c"unpack", is_never_expensive),
        ],
    ),
    (
        "utf8",
        &[
            (c"char", is_never_expensive),
            (c"codepoint", is_never_expensive),
            (c"len", is_long_text),
            (c"offset", is_long_text),
        ],
    ),
    (
        "buffer",
        &[
            (c"copy", is_large_buffer),
            (c"create", is_never_expensive),
            (c"fill", is_large_buffer),
            (c"fromstring", is_never_expensive),
            (c"readstring", is_never_expensive),
            (c"tostring", is_never_expensive),
            (c"writestring", is_never_expensive),
        ],
    ),
    ("os", &[(c"date", is_long_date)]),
];

/// The maximum steps of a search, each a nanosecond or two: a few hundredths of a second at most.
const MAX_SEARCH_STEPS: usize = 16 << 20;
/// The maximum bytes of a text that is read once.
const MAX_TEXT_BYTES: usize = 4 << 20;
/// The maximum elements of a table that is read once, where each may have to be hashed.
const MAX_ELEMENTS: usize = 1 << 18;

/// The registry key of the libraries as they were before their functions were wrapped.
const NATIVE_KEY: &str = "native";
/// The registry key of the functions that work in steps, once they are loaded.
const STEPWISE_KEY: &str = "stepwise";

/// Replaces Luau's own functions by the wrapped ones. Must be called before anything else is removed from the libraries.
pub(super) fn install(lua: &Lua, slot: &Arc<RunSlot>) -> mlua::Result<()> {
    let finder = stepwise_finder(lua, slot)?;
    let natives = lua.create_table()?;
    let clone: Function = lua.globals().get::<Table>("table")?.get("clone")?;
    for (library, functions) in INTERRUPTIBLE {
        let table: Table = lua.globals().get(*library)?;
        natives.raw_set(*library, clone.call::<Table>(&table)?)?;
        for (name, is_expensive) in *functions {
            let key = lua.create_string(name.to_bytes())?;
            let path = lua.create_string([library.as_bytes(), b".", name.to_bytes()].concat())?;
            let native: Function = table.get(&key)?;
            let wrapped = interrupt::make_interruptible(lua, name, &native, *is_expensive, &finder, &path)?;
            table.raw_set(&key, wrapped)?;
        }
    }
    lua.set_named_registry_value(NATIVE_KEY, natives)?;
    // The same function by an older name.
    lua.globals().raw_set("unpack", lua.globals().get::<Table>("table")?.get::<Function>("unpack")?)
}

/// `find("string.rep")`: the function that does in steps what that one does.
fn stepwise_finder(lua: &Lua, slot: &Arc<RunSlot>) -> mlua::Result<Function> {
    let slot = slot.clone();
    lua.create_function(move |lua, path: LuaString| {
        let path = path.to_str()?;
        let (library, name) = path.split_once('.').unwrap_or((&path, ""));
        loaded_functions(lua, &slot)?.get::<Table>(library)?.get::<Function>(name)
    })
}

/// The functions that work in steps. They are loaded at the first expensive call: most runs make none, and loading takes as
/// long as the rest of a new state.
fn loaded_functions(lua: &Lua, slot: &Arc<RunSlot>) -> mlua::Result<Table> {
    if let Some(loaded) = lua.named_registry_value(STEPWISE_KEY)? {
        return Ok(loaded);
    }
    let native: Table = lua.named_registry_value(NATIVE_KEY)?;
    // Only the first run of a state loads them, so they are not counted.
    let loaded = interrupt::without_counting(|| stepwise_functions(lua, slot, &native))?;
    lua.set_named_registry_value(STEPWISE_KEY, &loaded)?;
    Ok(loaded)
}

/// The replacements of Luau's functions for expensive calls, by library and name; `native` holds the libraries of Luau.
pub(super) fn stepwise_functions(lua: &Lua, slot: &Arc<RunSlot>, native: &Table) -> mlua::Result<Table> {
    let chunk = lua.load(include_str!("natives.luau")).set_name("=[host]");
    chunk.call((native, search(lua, slot)?, find_pattern(lua, slot)?, interrupt::less(lua)?))
}

/// `search(text, wanted, from, is_plain)`: the results of `string.find`; `false` and a message if the pattern is invalid.
fn search(lua: &Lua, slot: &Arc<RunSlot>) -> mlua::Result<Function> {
    let slot = slot.clone();
    lua.create_function(move |lua, (text, wanted, from, is_plain): (LuaString, LuaString, usize, bool)| {
        const SPECIAL: &[u8] = b"^$*+?.([%-";
        let (bytes, needle) = (text.as_bytes(), wanted.as_bytes());
        if !is_plain && needle.iter().any(|byte| SPECIAL.contains(byte)) {
            return match_pattern(lua, &slot, &bytes, &needle, from, SearchMode::Find);
        }
        let token = slot.cancel_token().map_err(mlua::Error::external)?;
        match matcher::find_plain(&bytes, &needle, from.saturating_sub(1), &mut StepCounter::new(&token)) {
            Ok(Some(start)) => (start + 1, start + needle.len()).into_lua_multi(lua),
            Ok(None) => Value::Nil.into_lua_multi(lua),
            Err(error) => match_error(lua, error),
        }
    })
}

/// The purpose of a search.
#[derive(Clone, Copy, PartialEq)]
enum SearchMode {
    /// Finds one match; a pattern may be anchored to the start of the search.
    Find,
    /// Finds all matches in turn.
    Iterate,
    /// Replaces matches, for which captures may not be needed: `false` stands for an unfinished capture.
    Replace,
}

/// `match(text, pattern, from, kind)`: the start and end of the match, and its captures; on failure as `search`.
fn find_pattern(lua: &Lua, slot: &Arc<RunSlot>) -> mlua::Result<Function> {
    let slot = slot.clone();
    lua.create_function(move |lua, (text, pattern, from, kind): (LuaString, LuaString, usize, LuaString)| {
        let kind = match &*kind.as_bytes() {
            b"iterate" => SearchMode::Iterate,
            b"replace" => SearchMode::Replace,
            _ => SearchMode::Find,
        };
        match_pattern(lua, &slot, &text.as_bytes(), &pattern.as_bytes(), from, kind)
    })
}

fn match_pattern(
    lua: &Lua,
    slot: &RunSlot,
    text: &[u8],
    pattern: &[u8],
    from: usize,
    kind: SearchMode,
) -> mlua::Result<MultiValue> {
    let token = slot.cancel_token().map_err(mlua::Error::external)?;
    let anchored = pattern.strip_prefix(b"^").filter(|_| kind != SearchMode::Iterate);
    let start = from.saturating_sub(1);
    let mut steps = StepCounter::new(&token);
    match matcher::find_pattern(text, anchored.unwrap_or(pattern), start, anchored.is_some(), &mut steps) {
        Ok(Some(found)) => match_values(lua, text, &found, kind),
        Ok(None) => Value::Nil.into_lua_multi(lua),
        Err(error) => match_error(lua, error),
    }
}

fn match_values(lua: &Lua, text: &[u8], found: &Match, kind: SearchMode) -> mlua::Result<MultiValue> {
    let mut values = MultiValue::with_capacity(found.captures.len() + 2);
    values.push_back((found.start + 1).into_lua(lua)?);
    values.push_back(found.end.into_lua(lua)?);
    for capture in &found.captures {
        values.push_back(match *capture {
            Capture::Text(start, end) => Value::String(lua.create_string(&text[start..end])?),
            Capture::Position(at) => (at + 1).into_lua(lua)?,
            Capture::Unfinished if kind == SearchMode::Replace => Value::Boolean(false),
            Capture::Unfinished => {
                return match_error(lua, MatchError::InvalidPattern("unfinished capture".into()));
            }
        });
    }
    Ok(values)
}

fn match_error(lua: &Lua, error: MatchError) -> mlua::Result<MultiValue> {
    match error {
        MatchError::InvalidPattern(sentence) => (false, sentence).into_lua_multi(lua),
        MatchError::Stopped(error) => Err(mlua::Error::external(error)),
    }
}

fn is_never_expensive(_: &Arguments) -> bool {
    false
}

/// A pattern is tried at most once for each byte of the text before the next check; a pattern of one byte is cheap.
fn is_long_search(arguments: &Arguments) -> bool {
    let (Some(text), Some(wanted)) = (arguments.text_length(1), arguments.text_length(2)) else {
        return false;
    };
    wanted > 1 && text.saturating_mul(wanted - 1) > MAX_SEARCH_STEPS
}

fn is_long_replacement(arguments: &Arguments) -> bool {
    let (text, replacement) = (arguments.text_length(1).unwrap_or(0), arguments.text_length(3).unwrap_or(0));
    is_long_search(arguments)
        || (replacement > 1 << 10 && text.saturating_mul(replacement) > MAX_SEARCH_STEPS)
        || replacement > 1 << 18
}

/// A separator of one byte is found fast, but each piece is a text to create.
fn is_long_split(arguments: &Arguments) -> bool {
    let Some(text) = arguments.text_length(1) else { return false };
    let separator = if arguments.is_absent(2) { Some(1) } else { arguments.text_length(2) };
    separator.is_some_and(|separator| text > 1 << 18 || text.saturating_mul(separator) > MAX_SEARCH_STEPS)
}

fn is_long_text(arguments: &Arguments) -> bool {
    arguments.text_length(1).is_some_and(|text| text > MAX_TEXT_BYTES)
}

/// When a text is created, steps take more memory than one call, so only a text larger than the default memory limit is
/// created in steps.
fn is_huge_text(arguments: &Arguments) -> bool {
    arguments.text_length(1).is_some_and(|text| text > 32 << 20)
}

fn is_long_format(arguments: &Arguments) -> bool {
    arguments.count() > 4097 || arguments.text_length(1).is_some_and(|format| format > 1 << 20)
}

fn is_long_pack_format(arguments: &Arguments) -> bool {
    arguments.text_length(1).is_some_and(|layout| layout > 1 << 16)
}

/// Fields of a fixed length are padded byte by byte.
fn is_long_pack(arguments: &Arguments) -> bool {
    if is_long_pack_format(arguments) {
        return true;
    }
    let (mut fixed, mut field) = (0_usize, None);
    for byte in arguments.text_bytes(1) {
        field = match (byte, field) {
            (b'0'..=b'9', Some(length)) => {
                let digit = usize::from(*byte - b'0');
                Some(usize::saturating_add(usize::saturating_mul(length, 10), digit))
            }
            (_, ended) => {
                fixed = fixed.saturating_add(ended.unwrap_or(0));
                (*byte == b'c').then_some(0)
            }
        };
    }
    fixed.saturating_add(field.unwrap_or(0)) > 4 << 20
}

fn is_long_date(arguments: &Arguments) -> bool {
    arguments.text_length(1).is_some_and(|format| format > 1 << 10)
}

fn is_large_buffer(arguments: &Arguments) -> bool {
    arguments.buffer_length(1).is_some_and(|bytes| bytes > MAX_TEXT_BYTES)
}

fn is_long_concat(arguments: &Arguments) -> bool {
    let Some(length) = arguments.table_length(1) else { return false };
    let first = arguments.number(3).unwrap_or(1.0);
    let last = arguments.number(4).unwrap_or(as_float(length));
    last - first >= 65_536.0
}

/// The list is read until an element is missing, which may be far beyond its stated end.
fn is_long_find(arguments: &Arguments) -> bool {
    let Some(length) = arguments.table_length(1) else { return false };
    let max = if arguments.may_have_metamethods(2) { 1 << 10 } else { MAX_ELEMENTS * 4 };
    length > max || arguments.number(3).is_some_and(|from| from > as_float(length) + 1.0)
}

fn calls_native(arguments: &Arguments) -> bool {
    arguments.table_length(1).is_some() && arguments.is_native(2)
}

fn is_long_insert(arguments: &Arguments) -> bool {
    let Some(length) = arguments.table_length(1).filter(|_| arguments.count() == 3) else { return false };
    arguments.number(2).is_some_and(|at| at >= 1.0 && as_float(length) - at > as_float(MAX_ELEMENTS))
        && !arguments.is_frozen(1)
}

fn is_long_remove(arguments: &Arguments) -> bool {
    let Some(length) = arguments.table_length(1) else { return false };
    arguments.number(2).is_some_and(|at| at >= 1.0 && as_float(length) - at > as_float(MAX_ELEMENTS))
        && !arguments.is_frozen(1)
}

fn is_long_move(arguments: &Arguments) -> bool {
    let (Some(from), Some(to), Some(_)) = (arguments.number(2), arguments.number(3), arguments.number(4))
    else {
        return false;
    };
    let target = if arguments.is_absent(5) { 1 } else { 5 };
    let are_tables = arguments.table_length(1).is_some() && arguments.table_length(target).is_some();
    let is_short = to - from <= as_float(MAX_ELEMENTS);
    // A value that is not a number does not make the call short.
    !is_short && are_tables && !arguments.is_frozen(target)
}

fn has_large_heap(arguments: &Arguments) -> bool {
    arguments.table_length(1).is_some() && arguments.heap_bytes() > 16 << 20
}

/// Numbers are compared at once, texts for as long as they are equal; other values are compared by metamethods of their own.
fn is_long_sort(arguments: &Arguments) -> bool {
    const MAX_NUMBERS: usize = 1 << 17;
    let Some(length) = arguments.table_length(1).filter(|_| !arguments.is_frozen(1)) else { return false };
    if !arguments.is_absent(2) {
        return arguments.is_native(2);
    }
    if length > MAX_NUMBERS {
        return true;
    }
    let mut longest = 0;
    for index in 1..=length {
        match arguments.element(1, index) {
            Element::Number => {}
            Element::Text(bytes) => longest = longest.max(bytes + 256),
            Element::Other => return true,
        }
    }
    // For texts, about sixteen bytes are compared in the time of a number.
    let comparisons = length * (length.max(2).ilog2() as usize + 1);
    comparisons.saturating_mul(1 + longest / 32) > 4 << 20
}

/// The counts here are far below the numbers that a float cannot represent.
#[allow(clippy::cast_precision_loss)]
fn as_float(count: usize) -> f64 {
    count as f64
}
