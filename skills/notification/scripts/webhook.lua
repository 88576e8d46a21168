-- Posts to the configured webhook, or to an address of the input whose host somebody allowed.

local function default_port(scheme)
	return if scheme == "https" then "443" else "80"
end

-- Where an address leads: "https", "hooks.example.com", "443". Nothing for an address that readers of URLs could understand in different
-- ways: the pattern knows no user name, no backslash, no blank, no control character and no letter outside of ASCII.
local function address_parts(address)
	local scheme, rest = string.match(address, "^([Hh][Tt][Tt][Pp][Ss]?)://(.*)$")
	if not scheme or string.find(rest, "[^%w%-._~:/?%[%]@!$&'()*+,;=%%]") then
		return nil
	end
	local host, behind = string.match(rest, "^([%w.-]+)(.*)$")
	local port, path = string.match(behind or "", "^:(%d+)(.*)$")
	path = path or behind
	if not host or not (path == "" or string.find(path, "^[/?]")) then
		return nil
	end
	scheme = string.lower(scheme)
	port = port or default_port(scheme)
	if not string.find(port, "^[1-9]%d?%d?%d?%d?$") then
		return nil
	end
	return {scheme = scheme, host = string.lower(host), port = port}
end

-- The places to which an address with this scheme may lead, as a set of "host:port".
local function allowed_places(scheme, configured)
	local places = {}
	if configured then
		local is_default = configured.port == default_port(configured.scheme)
		places[`{configured.host}:{if is_default then default_port(scheme) else configured.port}`] = true
	end
	local list = ctx.config("NOTIFICATION_WEBHOOK_ALLOWED_HOSTS")
	for entry in string.gmatch(if type(list) == "string" then list else "", "[^,%s]+") do
		local host, port = string.match(string.lower(entry), "^([%w.-]+):?(%d*)$")
		if host then
			places[`{host}:{if port == "" then default_port(scheme) else port}`] = true
		end
	end
	return places
end

local function is_this_machine(host)
	return host == "localhost" or string.find(host, "^127%.%d+%.%d+%.%d+$") ~= nil
end

-- The address of the configured webhook; nothing where none is set.
local function configured_address()
	local is_read, address = pcall(ctx.secret, "NOTIFICATION_WEBHOOK_URL")
	if is_read then
		return if type(address) == "string" and string.find(address, "%S") then address else nil
	end
	if address.kind ~= "unavailable" then
		error(address, 0)
	end
	return nil
end

-- The origin below which a request to this address has to stay.
local function allowed_origin(address)
	local wanted = address_parts(address)
	if not wanted then
		error("Invalid webhook url override: write https://, a plain host and a path, without a user name", 0)
	end
	local configured = address_parts(configured_address() or "")
	local place = wanted.host .. ":" .. wanted.port
	if not allowed_places(wanted.scheme, configured)[place] then
		error(
			`the host of the webhook url override, {place}, is neither that of NOTIFICATION_WEBHOOK_URL nor in NOTIFICATION_WEBHOOK_ALLOWED_HOSTS`,
			0
		)
	end
	local is_plain_too = configured and configured.scheme == "http"
	if wanted.scheme == "http" and not is_plain_too and not is_this_machine(wanted.host) then
		error("the webhook url override is http://, which everybody on the way can read; write https://", 0)
	end
	return `{wanted.scheme}://{place}`
end

-- The beginning of what the service says about a failure.
local function reason(body)
	local is_json, answer = pcall(json.decode, body)
	local message = if is_json and type(answer) == "table" then answer.message else nil
	local text = string.sub(if type(message) == "string" then message else body, 1, 300)
	return if string.find(text, "%S") then text else "no reason was given"
end

local function notify(input)
	if input.url == nil then
		if not configured_address() then
			error("No webhook URL configured: set NOTIFICATION_WEBHOOK_URL", 0)
		end
		return ctx.tool(".post_to_configured_webhook", {payload = input.payload})
	end
	-- The client reads the address and the origin with one reader, and refuses what it finds elsewhere, also after a redirect.
	local response = ctx.http(input.url, {
		method = "POST",
		base_url = allowed_origin(input.url),
		headers = {["Content-Type"] = "application/json"},
		json = input.payload,
	})
	if response.status > 299 then
		error(`[Notification] {reason(response.body)} (HTTP {response.status})`, 0)
	end
	return {ok = true, status = response.status}
end

return {notify = notify}
