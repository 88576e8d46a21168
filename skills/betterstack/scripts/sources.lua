-- Lists the sources of all pages, with the names that their tables have in queries.

-- Better Stack gives at most 50 sources of a page.
local MAX_PAGES = 20

-- The first part of the names of a source's tables: `t`, the number of the team, and `table_name`, which alone is no table.
local function table_prefix(attributes)
	if type(attributes.team_id) ~= "number" or type(attributes.table_name) ~= "string" then
		return nil
	end
	return string.format("t%d_%s", attributes.team_id, attributes.table_name)
end

local function described(source)
	local attributes = if type(source.attributes) == "table" then source.attributes else {}
	return {
		id = source.id,
		name = attributes.name,
		table = table_prefix(attributes),
		table_name = attributes.table_name,
		platform = attributes.platform,
	}
end

-- Whether the name of a source has a part, in capitals or not. The service cannot search.
local function has_part(source, part)
	return part == nil or (type(source.name) == "string" and string.find(string.lower(source.name), string.lower(part), 1, true) ~= nil)
end

local tools = {}

function tools.list_sources(input)
	local found = array({})
	for page = 1, MAX_PAGES do
		local answer = ctx.tool(".read_sources", {page = page})
		for _, source in answer.sources do
			local one = described(source)
			if has_part(one, input.name) then
				table.insert(found, one)
			end
		end
		if answer.next == nil or answer.next == null then
			return found
		end
	end
	ctx.log("warn", `only the sources of the first {MAX_PAGES} pages are listed`)
	return found
end

return tools
