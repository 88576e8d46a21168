local github = {}

local function is_table(value)
	return type(value) == "table"
end

-- GitHub writes absent parts as null.
local function field(value, ...)
	for _, key in { ... } do
		if not is_table(value) then
			return nil
		end
		value = value[key]
	end
	return if value == null then nil else value
end

local function pull_request(body, is_reused)
	return {
		number = body.number,
		title = field(body, "title"),
		state = field(body, "state"),
		draft = field(body, "draft"),
		user = field(body, "user", "login"),
		head = field(body, "head", "label") or field(body, "head", "ref"),
		base = field(body, "base", "ref"),
		html_url = field(body, "html_url"),
		reused = is_reused,
	}
end

-- What GitHub says of a refused pull request: `message` names only the kind of error.
local function reasons(body)
	local found = {}
	local message = field(body, "message")
	if type(message) == "string" then
		table.insert(found, message)
	end
	local errors = field(body, "errors")
	for _, one in if is_table(errors) then errors else {} do
		local reason = if type(one) == "string" then one else field(one, "message")
		if type(reason) ~= "string" and is_table(one) then
			reason = `{field(one, "field") or field(one, "resource") or "value"} is {field(one, "code") or "invalid"}`
		end
		if type(reason) == "string" then
			table.insert(found, reason)
		end
	end
	return table.concat(found, ": ")
end

-- The pull request that is there already: an open one, or else any other of the branch.
local function existing(request)
	local head = request.head
	if not string.find(head, ":", 1, true) then
		head = string.match(request.repo, "^[^/]+") .. ":" .. head
	end
	for _, state in { "open", "all" } do
		local wanted = { repo = request.repo, head = head, base = request.base, state = state }
		local is_answered, found = pcall(ctx.tool, ".find_pull_request", wanted)
		if not is_answered then
			-- What matters is why nothing was opened.
			ctx.log("warn", `the pull request that exists was not found: {found}`)
			return nil
		end
		local first = if is_table(found) then found[1] else nil
		local base = field(first, "base", "ref")
		-- GitHub refuses a second one for the same base only.
		if field(first, "number") and (base == nil or base == request.base) then
			return first
		end
	end
	return nil
end

function github.create_pr(request)
	local opened = ctx.tool(".open_pull_request", request)
	local body = opened.body
	if opened.status == 422 then
		local reason = reasons(body)
		local found = if string.find(string.lower(reason), "already exists", 1, true) then existing(request) else nil
		if not found then
			error(`[GitHub] {if reason == "" then "Unprocessable Entity" else reason} (HTTP 422)`)
		end
		return pull_request(found, true)
	end
	if not field(body, "number") then
		error("[GitHub] the response names no pull request")
	end
	if #request.labels > 0 then
		local labels = { repo = request.repo, number = body.number, labels = request.labels }
		local is_labelled, failure = pcall(ctx.tool, ".add_labels", labels)
		if not is_labelled then
			ctx.log("warn", `pull request {body.number} is open, but has no labels: {failure}`)
		end
	end
	return pull_request(body, false)
end

-- The text of a file, or nothing if its bytes are none.
local function decoded(contents)
	if contents.encoding ~= "base64" or type(contents.content) ~= "string" then
		return nil
	end
	local is_base64, text = pcall(base64.decode, contents.content)
	local is_text = is_base64 and utf8.len(text) ~= nil and not string.find(text, "\0", 1, true)
	return if is_text then text else nil
end

local function entry(item)
	return { name = item.name, path = item.path, type = item.type, size = item.size, sha = item.sha }
end

function github.get_file(request)
	local contents = ctx.tool(".read_contents", request)
	if not is_table(contents) then
		error("[GitHub] the response has no contents")
	end
	if contents.type == nil then
		local entries = {}
		for _, item in contents do
			table.insert(entries, entry(item))
		end
		return { type = "dir", path = request.path, entries = array(entries) }
	end
	local file = entry(contents)
	file.html_url = field(contents, "html_url")
	file.download_url = field(contents, "download_url")
	file.target = field(contents, "target")
	file.decoded_content = decoded(contents)
	if not file.decoded_content then
		-- GitHub gives files of more than 1 MB without content.
		file.encoding = field(contents, "encoding")
		file.content = field(contents, "content")
	end
	return file
end

return github
