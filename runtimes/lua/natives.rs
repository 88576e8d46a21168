//! Luau's own functions, so that none of them keeps a stopped run: each asks first whether the run may go on, and what would be
//! much work between two such questions is done in steps instead, by `natives.luau`.
//!
//! A call that is not much work goes straight on to the function itself, which is what nearly all do.

use std::ffi::CStr;
use std::sync::Arc;

use mlua::{Function, IntoLua, IntoLuaMulti, Lua, LuaString, MultiValue, Table, Value};

use super::host::Slot;
use super::interrupt::{self, Arguments, Element, Weigh};
use super::matcher::{self, Capture, Fault, Match, Steps};

/// Which functions of which library ask, and when a call is much work.
const SUPERVISED: &[(&str, &[(&CStr, Weigh)])] = &[
    (
        "string",
        &[
            (c"find", is_long_search),
            (c"format", is_long_format),
            (c"gmatch", is_long_search),
            (c"gsub", is_long_replacement),
            (c"lower", is_huge_text),
            (c"match", is_long_search),
            (c"pack", is_long_packing),
            (c"packsize", is_long_layout),
            (c"rep", is_never),
            (c"reverse", is_huge_text),
            (c"split", is_long_split),
            (c"unpack", is_long_layout),
            (c"upper", is_huge_text),
        ],
    ),
    (
        "table",
        &[
            (c"clear", is_never),
            (c"clone", is_never),
            (c"concat", is_long_concat),
            (c"create", is_never),
            (c"find", is_long_find),
            (c"foreach", calls_native),
            (c"foreachi", calls_native),
            (c"insert", is_long_insert),
            (c"maxn", is_in_much_memory),
            (c"move", is_long_move),
            (c"pack", is_never),
            (c"remove", is_long_remove),
            (c"sort", is_long_sort),
            (c"unpack", is_never),
        ],
    ),
    (
        "utf8",
        &[(c"char", is_never), (c"codepoint", is_never), (c"len", is_long_text), (c"offset", is_long_text)],
    ),
    (
        "buffer",
        &[
            (c"copy", is_large_buffer),
            (c"create", is_never),
            (c"fill", is_large_buffer),
            (c"fromstring", is_never),
            (c"readstring", is_never),
            (c"tostring", is_never),
            (c"writestring", is_never),
        ],
    ),
    ("os", &[(c"date", is_long_date)]),
];

/// Steps of a search, each a nanosecond or two: a few hundredths of a second at most.
const SEARCH: usize = 16 << 20;
/// Bytes of a text that is gone through once.
const TEXT: usize = 4 << 20;
/// Elements of a table that is gone through once, where each may have to be hashed.
const ELEMENTS: usize = 1 << 18;

/// Puts the functions that ask in the place of Luau's own. To be called before anything else is taken out of the libraries.
pub(super) fn install(lua: &Lua, slot: &Arc<Slot>) -> mlua::Result<()> {
    let careful = careful(lua, slot)?;
    let never = lua.create_function(|_, ()| Ok(()))?;
    for (library, functions) in SUPERVISED {
        let table: Table = lua.globals().get(*library)?;
        let careful: Table = careful.get(*library)?;
        for (name, weigh) in *functions {
            let key = name.to_bytes();
            let key = lua.create_string(key)?;
            let careful: Option<Function> = careful.get(&key)?;
            let careful = careful.as_ref().unwrap_or(&never);
            let native: Function = table.get(&key)?;
            table.raw_set(&key, interrupt::supervised(lua, name, &native, *weigh, careful)?)?;
        }
    }
    // The same function by an older name.
    lua.globals().raw_set("unpack", lua.globals().get::<Table>("table")?.get::<Function>("unpack")?)
}

/// What stands in for Luau's functions where they are much work, by library and name.
pub(super) fn careful(lua: &Lua, slot: &Arc<Slot>) -> mlua::Result<Table> {
    let chunk = lua.load(include_str!("natives.luau")).set_name("=[host]");
    chunk.call((search(lua, slot)?, find_pattern(lua, slot)?, interrupt::less(lua)?))
}

/// `search(text, wanted, from, is_plain)`: what `string.find` answers; `false` and a sentence where the pattern is none.
fn search(lua: &Lua, slot: &Arc<Slot>) -> mlua::Result<Function> {
    let slot = slot.clone();
    lua.create_function(move |lua, (text, wanted, from, is_plain): (LuaString, LuaString, usize, bool)| {
        const SPECIAL: &[u8] = b"^$*+?.([%-";
        let (bytes, needle) = (text.as_bytes(), wanted.as_bytes());
        if !is_plain && needle.iter().any(|byte| SPECIAL.contains(byte)) {
            return found(lua, &slot, &bytes, &needle, from, Kind::Find);
        }
        let token = slot.token().map_err(mlua::Error::external)?;
        match matcher::plain(&bytes, &needle, from.saturating_sub(1), &mut Steps::new(&token)) {
            Ok(Some(start)) => (start + 1, start + needle.len()).into_lua_multi(lua),
            Ok(None) => Value::Nil.into_lua_multi(lua),
            Err(fault) => refused(lua, fault),
        }
    })
}

/// What a pattern is looked for.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Once; a pattern may say that it begins where the search does.
    Find,
    /// Again and again.
    Iterate,
    /// To put something in its place, which may not need what was captured: `false` stands for a capture left open.
    Replace,
}

/// `match(text, pattern, from, kind)`: from where to where, and what was captured; else as `search`.
fn find_pattern(lua: &Lua, slot: &Arc<Slot>) -> mlua::Result<Function> {
    let slot = slot.clone();
    lua.create_function(move |lua, (text, pattern, from, kind): (LuaString, LuaString, usize, LuaString)| {
        let kind = match &*kind.as_bytes() {
            b"iterate" => Kind::Iterate,
            b"replace" => Kind::Replace,
            _ => Kind::Find,
        };
        found(lua, &slot, &text.as_bytes(), &pattern.as_bytes(), from, kind)
    })
}

fn found(
    lua: &Lua,
    slot: &Slot,
    text: &[u8],
    pattern: &[u8],
    from: usize,
    kind: Kind,
) -> mlua::Result<MultiValue> {
    let token = slot.token().map_err(mlua::Error::external)?;
    let anchored = pattern.strip_prefix(b"^").filter(|_| kind != Kind::Iterate);
    let start = from.saturating_sub(1);
    let mut steps = Steps::new(&token);
    match matcher::pattern(text, anchored.unwrap_or(pattern), start, anchored.is_some(), &mut steps) {
        Ok(Some(found)) => answered(lua, text, &found, kind),
        Ok(None) => Value::Nil.into_lua_multi(lua),
        Err(fault) => refused(lua, fault),
    }
}

fn answered(lua: &Lua, text: &[u8], found: &Match, kind: Kind) -> mlua::Result<MultiValue> {
    let mut values = MultiValue::with_capacity(found.captures.len() + 2);
    values.push_back((found.start + 1).into_lua(lua)?);
    values.push_back(found.end.into_lua(lua)?);
    for capture in &found.captures {
        values.push_back(match *capture {
            Capture::Text(start, end) => Value::String(lua.create_string(&text[start..end])?),
            Capture::Position(at) => (at + 1).into_lua(lua)?,
            Capture::Unfinished if kind == Kind::Replace => Value::Boolean(false),
            Capture::Unfinished => {
                return refused(lua, Fault::Malformed("unfinished capture".into()));
            }
        });
    }
    Ok(values)
}

fn refused(lua: &Lua, fault: Fault) -> mlua::Result<MultiValue> {
    match fault {
        Fault::Malformed(sentence) => (false, sentence).into_lua_multi(lua),
        Fault::Stopped(error) => Err(mlua::Error::external(error)),
    }
}

fn is_never(_: &Arguments) -> bool {
    false
}

/// A pattern is gone through at most once for each byte of the text before the next question; one of a byte is no work.
fn is_long_search(arguments: &Arguments) -> bool {
    let (Some(text), Some(wanted)) = (arguments.text(1), arguments.text(2)) else { return false };
    wanted > 1 && text.saturating_mul(wanted - 1) > SEARCH
}

fn is_long_replacement(arguments: &Arguments) -> bool {
    let (text, replacement) = (arguments.text(1).unwrap_or(0), arguments.text(3).unwrap_or(0));
    is_long_search(arguments)
        || (replacement > 1 << 10 && text.saturating_mul(replacement) > SEARCH)
        || replacement > 1 << 18
}

/// A separator of one byte is found fast, but each piece is a text to make.
fn is_long_split(arguments: &Arguments) -> bool {
    let Some(text) = arguments.text(1) else { return false };
    let separator = if arguments.is_absent(2) { Some(1) } else { arguments.text(2) };
    separator.is_some_and(|separator| text > 1 << 18 || text.saturating_mul(separator) > SEARCH)
}

fn is_long_text(arguments: &Arguments) -> bool {
    arguments.text(1).is_some_and(|text| text > TEXT)
}

/// Where a text is made, steps take more memory than one, so only what is larger than the memory by default allows is done in steps.
fn is_huge_text(arguments: &Arguments) -> bool {
    arguments.text(1).is_some_and(|text| text > 32 << 20)
}

fn is_long_format(arguments: &Arguments) -> bool {
    arguments.count() > 4097 || arguments.text(1).is_some_and(|format| format > 1 << 20)
}

fn is_long_layout(arguments: &Arguments) -> bool {
    arguments.text(1).is_some_and(|layout| layout > 1 << 16)
}

/// Fields of a fixed length are filled up byte by byte.
fn is_long_packing(arguments: &Arguments) -> bool {
    if is_long_layout(arguments) {
        return true;
    }
    let (mut fixed, mut field) = (0_usize, None);
    for byte in arguments.bytes(1) {
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
    arguments.text(1).is_some_and(|format| format > 1 << 10)
}

fn is_large_buffer(arguments: &Arguments) -> bool {
    arguments.buffer(1).is_some_and(|bytes| bytes > TEXT)
}

fn is_long_concat(arguments: &Arguments) -> bool {
    let Some(length) = arguments.table(1) else { return false };
    let first = arguments.number(3).unwrap_or(1.0);
    let last = arguments.number(4).unwrap_or(bounded(length));
    last - first >= 65_536.0
}

/// The list is gone through until something is missing, which may be far behind where it is said to end.
fn is_long_find(arguments: &Arguments) -> bool {
    let Some(length) = arguments.table(1) else { return false };
    let most = if arguments.may_compare(2) { 1 << 10 } else { ELEMENTS * 4 };
    length > most || arguments.number(3).is_some_and(|from| from > bounded(length) + 1.0)
}

fn calls_native(arguments: &Arguments) -> bool {
    arguments.table(1).is_some() && arguments.is_native(2)
}

fn is_long_insert(arguments: &Arguments) -> bool {
    let Some(length) = arguments.table(1).filter(|_| arguments.count() == 3) else { return false };
    arguments.number(2).is_some_and(|at| at >= 1.0 && bounded(length) - at > bounded(ELEMENTS))
        && !arguments.is_frozen(1)
}

fn is_long_remove(arguments: &Arguments) -> bool {
    let Some(length) = arguments.table(1) else { return false };
    arguments.number(2).is_some_and(|at| at >= 1.0 && bounded(length) - at > bounded(ELEMENTS))
        && !arguments.is_frozen(1)
}

fn is_long_move(arguments: &Arguments) -> bool {
    let (Some(from), Some(to), Some(_)) = (arguments.number(2), arguments.number(3), arguments.number(4))
    else {
        return false;
    };
    let target = if arguments.is_absent(5) { 1 } else { 5 };
    let are_tables = arguments.table(1).is_some() && arguments.table(target).is_some();
    let is_short = to - from <= bounded(ELEMENTS);
    // What is no number is not short either.
    !is_short && are_tables && !arguments.is_frozen(target)
}

fn is_in_much_memory(arguments: &Arguments) -> bool {
    arguments.table(1).is_some() && arguments.memory() > 16 << 20
}

/// Numbers are compared at once, texts as long as they are alike; what else there is compares by functions of its own.
fn is_long_sort(arguments: &Arguments) -> bool {
    const NUMBERS: usize = 1 << 17;
    let Some(length) = arguments.table(1).filter(|_| !arguments.is_frozen(1)) else { return false };
    if !arguments.is_absent(2) {
        return arguments.is_native(2);
    }
    if length > NUMBERS {
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
    // Of texts, some sixteen bytes are compared in the time of a number.
    let comparisons = length * (length.max(2).ilog2() as usize + 1);
    comparisons.saturating_mul(1 + longest / 32) > 4 << 20
}

/// What is counted here stays far below what a number cannot hold.
#[allow(clippy::cast_precision_loss)]
fn bounded(count: usize) -> f64 {
    count as f64
}
