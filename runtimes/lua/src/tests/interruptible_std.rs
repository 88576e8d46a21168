//! Tests that the replacements of Luau's own functions return the same results, errors included.

use std::sync::Arc;

use mlua::{Lua, LuaOptions, StdLib};

use crate::interruptible_std;
use crate::run_slot::RunSlot;
use metier_core::host::SkillContext;

/// Calls each pair with many arguments, and compares the results.
const COMPARE: &str = r#"
local careful, seed = ...
math.randomseed(seed)
local random = math.random

local function pick(list) return list[random(#list)] end
local function text(alphabet, most)
	local bytes = {}
	for i = 1, random(0, most) do bytes[i] = pick(alphabet) end
	return table.concat(bytes)
end
local letters = {"a", "b", "a", "(", ")", "1", " ", ".", "\0"}
local pieces = {"a", "b", ".", "a*", "b+", ".-", "a?", "[ab]", "[^a]*", "[a-b]+", "%a", "%d*", "%s", "%w+", "%b()", "%f[%w]",
	"(", ")", "(a)", "(.-)", "()", "%1", "%2", "$", "^", "%", "[", "]", "%%", "[%a]", "[]]", "[^]a]", "%.", "%z", "%A", "-", "*", "[a", "%f", "%b", "\0"}
local position = {1, 2, 0, -1, -3, 5, 100, -100, 1.7, "2", "x", 2 ^ 40, 0 / 0}
local function place() return if random(3) == 1 then pick(position) else nil end
local replacements = {"x", "%0", "%1", "%2", "[%1%%]", "%", "%a", "", 7, {a = "A", b = false, ["1"] = 5}, {a = {}}, true,
	function(a, b) return b or a end, function() end, function() return {} end}

local function shown(value)
	if type(value) == "table" then
		local parts = {}
		for i = 1, 60 do parts[i] = tostring(value[i]) end
		return table.concat(parts, ",")
	elseif type(value) == "buffer" then
		return buffer.tostring(value)
	elseif type(value) == "string" then
		return value:gsub("^%[?[%w_]*%]?:%d+: ", "")
	end
	return tostring(value)
end
local function outcome(...)
	local results = table.pack(...)
	local parts = {}
	for i = 1, results.n do parts[i] = (shown(results[i])) end
	return table.concat(parts, "|")
end
local function all(iterate, ...)
	local parts = {}
	for a, b in iterate(...) do
		parts[#parts + 1] = `{a}~{b}`
		if #parts > 50 then break end
	end
	return table.concat(parts, ";")
end

local function list()
	local made = {}
	for i = 1, random(0, 12) do made[i] = if random(9) == 1 then pick({"x", 3.5, "yy"}) else random(5) end
	return made
end
local function numbers() local made = {} for i = 1, random(0, 40) do made[i] = random(30) end return made end
local function bytes() return buffer.fromstring(text(letters, 20)) end

local arguments = {
	["string.find"] = function() return {text(letters, 12), text(pieces, 3), place(), if random(4) == 1 then true else nil} end,
	["string.match"] = function() return {text(letters, 12), text(pieces, 4), place()} end,
	["string.gsub"] = function() return {text(letters, 12), text(pieces, 3), pick(replacements), place()} end,
	["string.split"] = function() return {text(letters, 12), pick({"a", "aa", "", "ab", ",", nil})} end,
	["string.lower"] = function() return {"aBc" .. text(letters, 5)} end,
	["string.upper"] = function() return {"aBc" .. text(letters, 5)} end,
	["string.reverse"] = function() return {text(letters, 9)} end,
	["table.concat"] = function() return {list(), pick({",", "", nil, 5}), place(), place()} end,
	["table.find"] = function() return {list(), random(5), place()} end,
	["table.move"] = function() return {list(), random(-2, 8), random(3, 8), random(-2, 9), if random(2) == 1 then list() else nil} end,
	["table.sort"] = function() return {numbers()} end,
	["table.foreachi"] = function() return {list(), rawequal} end,
	["utf8.len"] = function() return {pick({"aéb", "日本語", "a\xffb", "", text(letters, 9), "é\x80\x80"}), place(), place()} end,
	["utf8.offset"] = function() return {pick({"aéb", "日本語", "a\x80\x80", ""}), pick({0, 1, 2, -1, -2, 5, nil}), place()} end,
	["os.date"] = function() return {pick({"%Y", "!%Y-%m %H", "%%", "%", "a%", "!%Q", "x%%%Y*t", ""}), pick({0, 86400, 1e9})} end,
	["buffer.fill"] = function() return {bytes(), pick({0, 1, -1, 30, "x"}), pick({65, "66", nil}), pick({0, 3, -1, 50, nil})} end,
	["buffer.copy"] = function() return {bytes(), pick({0, 1, 3, -1}), bytes(), pick({0, 2, nil}), pick({0, 3, 50, nil})} end,
}

local count = 0
for name, make in arguments do
	local library, short = string.match(name, "(%w+)%.(%w+)")
	local native, own = _G[library][short], careful[library][short]
	for _ = 1, 3000 do
		local given = make()
		local n = 5
		local function copy()
			local out = {}
			for i = 1, n do
				local value = given[i]
				out[i] = if type(value) == "table" then table.clone(value)
					elseif type(value) == "buffer" then buffer.fromstring(buffer.tostring(value)) else value
			end
			return out
		end
		local first, second = copy(), copy()
		local last = 5
		while last > 0 and given[last] == nil do last -= 1 end
		local wanted = outcome(pcall(native, table.unpack(first, 1, last)))
		local got = outcome(pcall(function(...) return own(...) end, table.unpack(second, 1, last)))
		if wanted ~= got or outcome(first[1]) ~= outcome(second[1]) then
			error(`{name}({outcome(table.unpack(given, 1, last))}): wanted {wanted}, got {got}; {outcome(first[1])} and {outcome(second[1])}`)
		end
		count += 1
	end
end

for _ = 1, 3000 do
	local s, p = text(letters, 12), text(pieces, 3)
	local wanted, got = outcome(pcall(all, string.gmatch, s, p)), outcome(pcall(all, careful.string.gmatch, s, p))
	assert(wanted == got, `gmatch({s}, {p}): wanted {wanted}, got {got}`)
end
return count
"#;

#[test]
fn a_replaced_function_returns_what_the_original_returns() {
    let lua = Lua::new_with(StdLib::ALL_SAFE, LuaOptions::default()).unwrap();
    let slot = Arc::new(RunSlot::new("test".into()));
    let context = SkillContext::builder("test").build();
    let _occupied = slot.occupy(&context);
    let careful = interruptible_std::stepwise_functions(&lua, &slot, &lua.globals()).unwrap();
    for seed in 0..2 {
        let count: usize = lua.load(COMPARE).set_name("=compare").call((careful.clone(), seed)).unwrap();
        assert!(count > 10_000);
    }
}

/// The same through scripts: results for large arguments against those for small ones.
#[test]
fn large_arguments_give_the_same_results_as_small_ones() {
    for source in [
        "local s = ('a'):rep(3e6) .. 'b' return s:find('b', 1, true) == 3000001 and s:find('ab', 1, true) == 3000000",
        "local s = ('a'):rep(3.5e6) .. 'bc' return s:find('[b-c]c') == 3500001 and s:match('(b)(c)$') == 'b'",
        "local s = ('ab,'):rep(2e5) local t = s:split(',') return #t == 200001 and t[200000] == 'ab' and t[200001] == ''",
        "local s = ('ab'):rep(2e5) local t = s:split('') return #t == 400000 and t[399999] == 'a' and table.concat(t) == s",
        "local s = ('aab'):rep(2e5) local t = s:split('aa') return #t == 200001 and t[1] == '' and t[2] == 'b'",
        "local s = ('xy '):rep(3e6) local n = 0 for w in s:gmatch('[^ ][^ ]') do n += 1 if n > 9 then break end end return n == 10",
        "local s, n = ('xy '):rep(2e6):gsub('xy', 'z', 5) return n == 5 and s:sub(1, 12) == 'z z z z z xy'",
        "local t = table.create(300000, 1) table.insert(t, 1, 'first') return t[1] == 'first' and t[300001] == 1 and #t == 300001",
        "local t = table.create(300000, 1) t[1] = 'x' t[300000] = 'y' return table.remove(t, 1) == 'x' and #t == 299999 and t[299999] == 'y'",
        "local t = {} for i = 1, 300000 do t[i] = i end table.move(t, 1, 300000, 3) return t[3] == 1 and t[300002] == 300000",
        "local t = {} for i = 1, 200000 do t[i] = (i * 7919) % 200000 end table.sort(t) for i = 2, #t do if t[i - 1] > t[i] then return i end end return true",
        "local t = {} for i = 1, 100000 do t[i] = i end local s = table.concat(t, ', ') return s:sub(-6) == '100000' and s:sub(1, 7) == '1, 2, 3'",
        "return utf8.len(('é'):rep(3e6)) == 3e6 and utf8.offset(('é'):rep(3e6), 1000) == 1999",
        "return ('aB'):rep(3e6):lower() == ('ab'):rep(3e6) and ('ab'):rep(3e6):reverse() == ('ba'):rep(3e6)",
        "local b = buffer.create(9e6) buffer.fill(b, 1, 7) return buffer.readu8(b, 0) == 0 and buffer.readu8(b, 8999999) == 7",
        "local ok, e = pcall(string.find, ('a'):rep(6e6), '[aaa') return e == 'malformed pattern (missing \\']\\')'",
        "local ok, e = pcall(function() return ('a'):rep(6e6):find('[aaa') end) return (e:gsub('^.*:1: ', '')) == 'malformed pattern (missing \\']\\')' and e ~= 'malformed pattern (missing \\']\\')' and e:find('host') == nil",
        "local ok, e = pcall(table.sort, {1, 'x'}) return e == 'attempt to compare string < number' or e == 'attempt to compare number < string' or e",
        "local ok, e = pcall(string.find) return e == \"missing argument #1 to 'find' (string expected)\" or e",
        "return table.foreachi({1, 2}, function(i, v) if i == 2 then return v end end) == 2",
        "return select(2, pcall(string.format, '%d')) == 'missing argument #2' or select(2, pcall(string.format, '%d'))",
    ] {
        assert_eq!(super::run(source, serde_json::Value::Null).unwrap(), serde_json::json!(true), "{source}");
    }
}
