-- Counts lines, words and characters. SKILL.md says what comes in and what goes out.

local DEEPEST = 256

local function refuse(sentence)
	error(sentence, 0)
end

local function checked(given)
	if type(given) ~= "table" then
		refuse(`the input must be an object with path or text, got a {type(given)}`)
	end
	local checked = {}
	for name, value in given do
		if name ~= "path" and name ~= "text" then
			refuse(`the input has no field {name}; give path or text`)
		end
		if value ~= null and type(value) ~= "string" then
			refuse(`{name} must be a string, got a {type(value)}`)
		end
		checked[name] = if value == null then nil else value
	end
	if checked.path and checked.text then
		refuse("give path or text, not both")
	end
	return checked
end

-- Captures places and not the text there: a large file would otherwise be in memory twice.
local function occurrences(text, pattern)
	local number = 0
	for _ in string.gmatch(text, "()" .. pattern) do
		number += 1
	end
	return number
end

local function count(text)
	local unfinished = text ~= "" and string.sub(text, -1) ~= "\n"
	return {
		lines = occurrences(text, "\n") + (if unfinished then 1 else 0),
		words = occurrences(text, "%S+"),
		characters = utf8.len(text),
	}
end

local function is_file(path)
	local found, facts = pcall(ctx.stat, path)
	return found and facts.is_file and not facts.is_symlink
end

local function files_below(folder)
	local files = {}
	for _, row in ctx.tree(folder, DEEPEST) do
		if not row.is_dir and is_file(row.path) then
			table.insert(files, row.path)
		end
	end
	return files
end

local function files_like(pattern)
	local files = {}
	for _, path in ctx.glob(pattern) do
		if is_file(path) then
			table.insert(files, path)
		end
	end
	return files
end

-- A name that exists wins over the pattern it may also be: `notes[1].md` is a file.
local function files_at(path)
	local found, facts = pcall(ctx.stat, path)
	if not found then
		return if string.find(path, "[*?%[{]") then files_like(path) else error(facts, 0)
	end
	return if facts.is_dir then files_below(path) else { path }
end

local function counted(path)
	local paths = files_at(path)
	local is_named = #paths == 1 and paths[1] == path
	local files, skipped = array {}, array {}
	for position, file in paths do
		ctx.progress("counting", position, #paths)
		local read, text = pcall(ctx.read_file, file)
		if read then
			local row = count(text)
			row.path = file
			table.insert(files, row)
		elseif is_named then
			error(text, 0)
		else
			table.insert(skipped, { path = file, reason = text.message })
		end
	end
	return files, skipped
end

local function sum(rows)
	local total = { lines = 0, words = 0, characters = 0 }
	for _, row in rows do
		for name, so_far in total do
			total[name] = so_far + row[name]
		end
	end
	return total
end

local given = checked(input)
if given.text then
	return { files = array {}, skipped = array {}, total = count(given.text) }
end
local files, skipped = counted(given.path or ".")
return { files = files, skipped = skipped, total = sum(files) }
