-- Picks the sentences of a text that say the most about it. SKILL.md says what comes in and what goes out.

local COMMON = {}
for word in
	string.gmatch(
		"a about after all also an and any are as at be because been but by can could did do does each for from had has "
			.. "have he her his how i if in into is it its just like more most my no not now of on one only or other our out over "
			.. "she so some such than that the their them then there these they this to too up us was we were what when where "
			.. "which who will with would you your",
		"%a+"
	)
do
	COMMON[word] = true
end

local function words_of(sentence)
	local words = {}
	for word in string.gmatch(string.lower(sentence), "[%w\128-\255]+") do
		if #word > 2 and not COMMON[word] then
			table.insert(words, word)
		end
	end
	return words
end

local function trimmed(text)
	return (string.match(text, "^%s*(.-)%s*$"))
end

-- A line of Markdown as plain text, or nothing where it is no sentence.
local function plain(line)
	if string.match(line, "^%s*#") or string.match(line, "^%s*|") or string.match(line, "^%s*[-=*_]+%s*$") then
		return nil
	end
	local text = string.gsub(line, "^%s*[-*+]%s+", "")
	text = string.gsub(text, "^%s*%d+[.)]%s+", "")
	text = string.gsub(text, "%*%*", "")
	return trimmed(text)
end

local function is_item(line)
	return string.match(line, "^%s*[-*+]%s") ~= nil or string.match(line, "^%s*%d+[.)]%s") ~= nil
end

local sentences = {}

local function split(paragraph)
	for sentence in string.gmatch(paragraph .. " ", "(.-[.!?]+[\"')%]]*)%s") do
		sentence = trimmed(sentence)
		if sentence ~= "" then
			table.insert(sentences, sentence)
		end
	end
	local rest = trimmed(string.match(paragraph .. " ", ".*[.!?]+[\"')%]]*%s(.*)$") or paragraph)
	if rest ~= "" then
		table.insert(sentences, rest)
	end
end

if (input.text == nil) == (input.path == nil) then
	error("give either text or path", 0)
end
local text = input.text or ctx.read_file(input.path)

-- Lines of a paragraph belong together; an item of a list, an empty line and a title end it.
local paragraph = {}
local function finish()
	if #paragraph > 0 then
		split(table.concat(paragraph, " "))
		paragraph = {}
	end
end
local in_code = false
for line in string.gmatch(text .. "\n", "(.-)\r?\n") do
	if string.match(line, "^%s*```") then
		in_code = not in_code
		finish()
	elseif not in_code then
		local said = plain(line)
		if said == nil or said == "" then
			finish()
		else
			if is_item(line) then
				finish()
			end
			table.insert(paragraph, said)
		end
	end
end
finish()

local frequency, order = {}, {}
for _, sentence in sentences do
	for _, word in words_of(sentence) do
		if frequency[word] == nil then
			frequency[word] = 0
			table.insert(order, word)
		end
		frequency[word] += 1
	end
end

-- Long sentences hold more words; what counts is how telling their words are together, so length counts by its root.
local ranked = {}
for position, sentence in sentences do
	local words, weight = words_of(sentence), 0
	for _, word in words do
		weight += frequency[word]
	end
	table.insert(ranked, { position = position, weight = weight / math.sqrt(math.max(#words, 1)) })
end
table.sort(ranked, function(a, b)
	if a.weight ~= b.weight then
		return a.weight > b.weight
	end
	return a.position < b.position
end)

local picked = {}
for rank = 1, math.min(input.sentences or 3, #ranked) do
	table.insert(picked, ranked[rank].position)
end
table.sort(picked)
local said = array {}
for _, position in picked do
	table.insert(said, sentences[position])
end

local first = {}
for place, word in order do
	first[word] = place
end
table.sort(order, function(a, b)
	if frequency[a] ~= frequency[b] then
		return frequency[a] > frequency[b]
	end
	return first[a] < first[b]
end)
local about = array {}
for place = 1, math.min(10, #order) do
	table.insert(about, order[place])
end

return { summary = table.concat(said, " "), sentences = said, of = #sentences, words = about }
