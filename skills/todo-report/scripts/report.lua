-- Lists notes such as TODO by file and line. SKILL.md says what comes in and what goes out.

local DEEPEST = 256

local function refuse(sentence)
	error(sentence, 0)
end

local function given_or(value, default)
	return if value == nil or value == null then default else value
end

local function checked_words(words)
	if type(words) ~= "table" or #words == 0 then
		refuse("words must be a list of words, at least one")
	end
	local unique, seen = {}, {}
	for _, word in words do
		if type(word) ~= "string" or not string.find(word, "^[%w_]+$") then
			refuse(`words must be made of letters, digits and _, not {json.encode(word)}`)
		end
		if not seen[word] then
			seen[word] = true
			table.insert(unique, word)
		end
	end
	return unique
end

local function checked(given)
	if type(given) ~= "table" then
		refuse(`the input must be an object, got a {type(given)}`)
	end
	for name in given do
		if name ~= "path" and name ~= "words" and name ~= "max" then
			refuse(`the input has no field {name}; the fields are path, words and max`)
		end
	end
	local path, max = given_or(given.path, "."), given_or(given.max, math.huge)
	if type(path) ~= "string" then
		refuse(`path must be a string, got a {type(path)}`)
	end
	if type(max) ~= "number" or max < 0 or (max ~= math.huge and max % 1 ~= 0) then
		refuse("max must be a whole number, zero or more")
	end
	return path, checked_words(given_or(given.words, { "TODO", "FIXME" })), max
end

local function files_at(path)
	if ctx.stat(path).is_file then
		return 1
	end
	local files = 0
	for _, row in ctx.tree(path, DEEPEST) do
		files += if row.is_dir then 0 else 1
	end
	return files
end

-- What a note says: the line after its word, without the colon, the dash, and the end of the comment around it.
local function said(line, word)
	local _, last = string.find(line, `%f[%w_]{word}%f[^%w_]`)
	if not last then
		return "" -- the word stands beyond what grep answers of a very long line
	end
	local text = string.gsub(string.sub(line, last + 1), "^[%s:%-]+", "")
	for _, ending in { "%*+/%s*$", "%-%->%s*$" } do
		text = string.gsub(text, ending, "")
	end
	return (string.gsub(text, "%s+$", ""))
end

local function notes(path, words)
	local found, by_word = {}, {}
	for position, word in words do
		ctx.progress(`looking for {word}`, position, #words)
		local rows = ctx.grep(`(?-u:\\b){word}(?-u:\\b)`, path, { regex = true })
		by_word[word] = #rows
		for _, row in rows do
			local item = { line = row.line, word = word, text = said(row.content, word) }
			table.insert(found, { file = row.file, item = item })
		end
	end
	table.sort(found, function(one, other)
		if one.file ~= other.file then
			return one.file < other.file
		end
		if one.item.line ~= other.item.line then
			return one.item.line < other.item.line
		end
		return one.item.word < other.item.word
	end)
	return found, by_word
end

local function by_file(found, max)
	local files = array {}
	for position, note in found do
		if position > max then
			break
		end
		local last = files[#files]
		if not last or last.file ~= note.file then
			last = { file = note.file, items = {} }
			table.insert(files, last)
		end
		table.insert(last.items, note.item)
	end
	return files
end

local path, words, max = checked(input)
local found, by_word = notes(path, words)
return { total = #found, by_word = by_word, searched = files_at(path), files = by_file(found, max) }
