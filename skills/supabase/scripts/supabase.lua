-- The guards of the tools: which tables and functions they touch, and which filters are sent.

-- Parameters of PostgREST that are no columns. `and` and `or` are none either: a group of conditions can match every row, which nothing
-- here could see.
local RESERVED = {}
for name in string.gmatch("select order limit offset on_conflict columns and or", "%S+") do
	RESERVED[name] = true
end

-- The operators of PostgREST, and what may stand in parentheses behind them: a language, or `any` or `all`.
local OPERATORS = {}
for name in string.gmatch("neq in is isdistinct cs cd ov sl sr nxr nxl adj", "%S+") do
	OPERATORS[name] = "nothing"
end
for name in string.gmatch("eq gt gte lt lte like ilike match imatch", "%S+") do
	OPERATORS[name] = "quantifier"
end
for name in string.gmatch("fts plfts phfts wfts", "%S+") do
	OPERATORS[name] = "language"
end

local function excerpt(text)
	return json.encode(if #text > 200 then string.sub(text, 1, (utf8.offset(text, 100) or 101) - 1) .. "…" else text)
end

-- The names of a list, as a set; nothing where no list is set.
local function allowed_names(setting)
	local is_read, list = pcall(ctx.config, setting)
	if not is_read then
		-- A list that is set and withheld from a skill that nobody trusts is a list.
		if list.kind == "unavailable" and string.find(list.message, "is not set", 1, true) then
			return nil
		end
		error(list, 0)
	end
	local names = {}
	for entry in string.gmatch(tostring(list), "[^,]+") do
		names[string.match(entry, "^%s*(.-)%s*$")] = true
	end
	return names
end

local function check_allowed(what, name, setting)
	local names = allowed_names(setting)
	if names and not names[name] then
		error(`the {what} {excerpt(name)} is not allowed: it is not in {setting}`, 0)
	end
	return name
end

local function checked_table(name)
	return check_allowed("table", name, "SUPABASE_ALLOWED_TABLES")
end

local function checked_function(name)
	return check_allowed("function", name, "SUPABASE_ALLOWED_FUNCTIONS")
end

-- The operator of a filter, what stands in parentheses behind it, its value, and whether it is negated.
local function parse_condition(condition)
	local positive = string.match(condition, "^not%.(.*)$")
	local name, in_parentheses, value = string.match(positive or condition, "^(%l+)%((%w+)%)%.(.*)$")
	if not name then
		name, value = string.match(positive or condition, "^(%l+)%.(.*)$")
	end
	local takes = OPERATORS[name]
	local is_quantifier = in_parentheses == "any" or in_parentheses == "all"
	if takes and in_parentheses and not (takes == "language" or (takes == "quantifier" and is_quantifier)) then
		takes = nil
	end
	if takes then
		return {operator = name, value = value, is_negated = positive ~= nil}
	end
	return nil
end

-- A filter as one parameter: whatever stands behind the first `=` is its value.
local function parse_filter(filter)
	local column, condition = string.match(filter, "^([^=]*)=(.*)$")
	if not column then
		error(`the filter {excerpt(filter)} is not column=operator.value, such as id=eq.1`, 0)
	end
	if not string.find(column, "^[%w_]+$") then
		error(`the column {excerpt(column)} of a filter is no identifier: it has letters, digits and _ alone`, 0)
	end
	if RESERVED[column] then
		error(`a filter of {column} is not accepted: {column} is a parameter of PostgREST and no column; give one filter for each column`, 0)
	end
	local parsed = parse_condition(condition)
	if not parsed then
		error(`the filter {excerpt(filter)} has no operator of PostgREST; write column=operator.value, such as id=eq.1 or name=not.is.null`, 0)
	end
	parsed.column, parsed.condition = column, condition
	return parsed
end

local COMPARISONS = {eq = true, gt = true, gte = true, ["in"] = true, lt = true, lte = true}

-- Whether a filter says by itself which rows are meant: by a value or a range, or by at least two letters or digits of a text. One that
-- says only what rows are not does not, nor does an expression or a search, which can be written so that they fit every row.
local function names_rows(filter)
	local operator, value = filter.operator, filter.value
	if filter.is_negated or string.find(filter.condition, "^%l+%(") then
		return false
	elseif operator == "like" or operator == "ilike" then
		return string.find(value, "%w%w") ~= nil
	elseif operator == "is" then
		return string.lower(value) ~= "not_null"
	end
	return COMPARISONS[operator] == true
end

-- The parameters of the filters: for each column the list of its conditions.
local function filter_parameters(filters)
	local parameters = {}
	for _, text in filters do
		local filter = parse_filter(text)
		local conditions = parameters[filter.column] or array({})
		table.insert(conditions, filter.condition)
		parameters[filter.column] = conditions
	end
	return parameters
end

-- The same for what changes rows: whole tables are refused.
local function narrowing_parameters(filters, tool)
	local parameters = filter_parameters(filters)
	for _, text in filters do
		if names_rows(parse_filter(text)) then
			return parameters
		end
	end
	error(`Filters are required for {tool}: one at least must say which rows are meant, such as id=eq.1; negations and patterns for every text do not`, 0)
end

local AGGREGATES = {avg = true, count = true, max = true, min = true, sum = true}

-- The related table before a parenthesis in `select`, as in `name:customers!inner(…)`; nothing for an aggregate such as `total.sum()`.
local function related_table(before, is_empty)
	local written = string.match(before, "^[%w_]+:([^:].*)$") or before
	local is_aggregate = written == "count" or AGGREGATES[string.match(written, "^[%w_>:-]+%.(%l+)$")]
	if is_empty and is_aggregate then
		return nil
	end
	return string.match(written, "^%.*([%w_]+)$") or string.match(written, "^%.*([%w_]+)![%w_!]+$") or written
end

-- A list of tables holds for related tables as well.
local function check_related_tables(columns)
	if not allowed_names("SUPABASE_ALLOWED_TABLES") then
		return
	end
	for before, behind in string.gmatch(columns, "([^,() ]*) *%( *(%)?)") do
		local name = related_table(before, behind == ")")
		if name then
			checked_table(name)
		end
	end
end

-- Integers of JSON that Lua would round, as texts.
local function with_large_integers_as_texts(source)
	local parts, at = {}, 1
	while at <= #source do
		local quote = string.find(source, '"', at, true) or #source + 1
		local between = string.gsub(string.sub(source, at, quote - 1), "%-?%d[%w.+-]*", function(number)
			local is_large = string.find(number, "^%-?%d+$") and math.abs(tonumber(number) or 0) >= 2 ^ 53
			return if is_large then `"{number}"` else number
		end)
		local last = quote
		while last < #source do
			last = string.find(source, '["\\]', last + 1) or #source
			if string.sub(source, last, last) == '"' then
				break
			end
			last += 1
		end
		table.insert(parts, between)
		table.insert(parts, string.sub(source, quote, last))
		at = last + 1
	end
	return table.concat(parts)
end

local function read_json(text)
	if not string.find(text, "%S") then
		return null
	end
	local is_exact, value = pcall(json.decode, text)
	if is_exact then
		return value
	end
	local is_json, other = pcall(json.decode, with_large_integers_as_texts(text))
	return if is_json then other else error(`[Supabase] the body of the response is no JSON: {value}`, 0)
end

local tools = {}

function tools.query(input)
	local name = checked_table(input.table)
	check_related_tables(input.select)
	local parameters = filter_parameters(input.filters)
	parameters.select, parameters.order, parameters.limit = input.select, input.order, input.limit
	return read_json(ctx.tool(".read_rows", {table = name, parameters = parameters}))
end

function tools.count(input)
	local name = checked_table(input.table)
	local parameters = filter_parameters(input.filters)
	parameters.select = "count"
	local range = ctx.tool(".count_rows", {table = name, parameters = parameters}).content_range
	local total = string.match(tostring(range), "/(%d+)$")
	if not total then
		error("[Supabase] the response has no total in its header content-range", 0)
	end
	return {table = name, count = tonumber(total)}
end

function tools.insert(input)
	local resolution = if input.upsert then "merge-duplicates" else nil
	local rows = {table = checked_table(input.table), rows = input.rows, resolution = resolution}
	return read_json(ctx.tool(".insert_rows", rows))
end

function tools.update(input)
	local name = checked_table(input.table)
	local parameters = narrowing_parameters(input.filters, "update")
	return read_json(ctx.tool(".update_rows", {table = name, parameters = parameters, data = input.data}))
end

function tools.delete(input)
	local name = checked_table(input.table)
	return read_json(ctx.tool(".delete_rows", {table = name, parameters = narrowing_parameters(input.filters, "delete")}))
end

function tools.rpc(input)
	local name = checked_function(input.function_name)
	return read_json(ctx.tool(".call_database_function", {function_name = name, params = input.params}))
end

function tools.invoke_function(input)
	local name = checked_function(input.function_name)
	local response = ctx.tool(".call_edge_function", {function_name = name, body = input.body})
	if string.find(tostring(response.content_type), "json", 1, true) then
		return read_json(response.text)
	end
	return if response.text == "" then null else response.text
end

-- The tables of the project that are allowed.
local function allowed_tables(rows)
	local names = allowed_names("SUPABASE_ALLOWED_TABLES")
	if not names or type(rows) ~= "table" then
		return rows
	end
	local allowed = array({})
	for _, row in rows do
		if type(row) == "table" and names[row.table_name or row.tablename or row.name] then
			table.insert(allowed, row)
		end
	end
	return allowed
end

function tools.list_tables()
	local response = ctx.tool(".count_tables", {})
	local answer = read_json(response.text)
	if response.status ~= 404 then
		return {tables = allowed_tables(answer)}
	end
	local says = if type(answer) == "table" then answer else {}
	if says.code ~= "PGRST202" then
		error(`[Supabase] {says.message or "Not Found"} (HTTP 404)`, 0)
	end
	return {
		tables = array({}),
		note = "The project has no database function get_table_counts. Create one that returns table_name and row_count for each table, or name a table in query.",
	}
end

return tools
