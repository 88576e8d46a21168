-- Sends one statement that reads the tables of one source. The connection for queries should be one that may only read; these checks are a
-- second line, and refuse what they cannot read as ClickHouse does.

local MAX_ROWS = 500

local function set(names)
	local found = {}
	for name in string.gmatch(names, "%S+") do
		found[name] = true
	end
	return found
end

-- Functions that read files, other hosts or other tables. All of them are refused, wherever they stand.
local READERS = set(
	"arrowflight catboostevaluate cluster clusterallreplicas cosn executable executablepool file filecluster gcs hascolumnintable hive input jdbc joinget joingetornull loop merge "
		.. "mergetreeindex mergetreeprojection odbc oss prometheusquery prometheusqueryrange redis remotesecure s3 sqlite timeseriesdata "
		.. "timeseriesmetrics timeseriestags url urlcluster viewifpermitted ytsaurus"
)
local READER_FAMILIES = {"azureblobstorage", "deltalake", "dict", "hdfs", "hudi", "iceberg", "mongodb", "mysql", "paimon", "postgresql"}

-- What may stand with arguments behind FROM, besides the two that read the source.
local TABLE_FUNCTIONS = set("remote s3cluster format generate_series generateseries null numbers numbers_mt values view zeros zeros_mt")

local STATEMENTS = set("ALTER ATTACH BACKUP CREATE DELETE DETACH DROP GRANT INSERT KILL OPTIMIZE RENAME RESTORE REVOKE SELECT SET SYSTEM TRUNCATE UPDATE USE")
local SET_OPERATIONS = set("EXCEPT INTERSECT UNION")
local CLOSING = {["("] = ")", ["["] = "]", ["{"] = "}"}
local IS_CLOSING = {[")"] = true, ["]"] = true, ["}"] = true}

local function refuse(reason)
	error(reason, 0)
end

local function excerpt(text)
	return json.encode(if #text > 60 then string.sub(text, 1, (utf8.offset(text, 40) or 41) - 1) .. "…" else text)
end

-- The text without blanks around it, and without semicolons at its end.
local function trim(text)
	local first, last = string.find(text, "%S") or #text + 1, #text
	while last >= first and string.find(string.sub(text, last, last), "[%s;]") do
		last -= 1
	end
	return string.sub(text, first, last)
end

-- Where the text in quotes ends that begins here. A backslash takes the next character with it, and two quotes are one that is a part.
local function quoted_end(sql, first)
	local quote, at = string.sub(sql, first, first), first + 1
	while true do
		at = string.find(sql, "[\\" .. quote .. "]", at)
		if not at then
			refuse(`the query has a quote {quote} that is not closed`)
		elseif string.sub(sql, at, at) == "\\" or string.sub(sql, at + 1, at + 1) == quote then
			at += 2
		else
			return at
		end
	end
end

-- Where the comment ends that begins here. Comments may stand in one another.
local function comment_end(sql, first)
	if string.sub(sql, first, first) == "-" then
		return (string.find(sql, "\n", first, true) or #sql + 1) - 1
	end
	local depth, at = 0, first
	repeat
		at = string.find(sql, "[/*]", at)
		local pair = at and string.sub(sql, at, at + 1)
		if not at then
			refuse("the query has a comment that is not closed")
		elseif pair == "/*" or pair == "*/" then
			depth += if pair == "/*" then 1 else -1
			at += 2
		else
			at += 1
		end
	until depth == 0
	return at - 1
end

-- What begins here, and where it ends: a "blank", a "comment", a "word", a "text" or a "name" in quotes, or a "sign".
local function read_token(sql, at)
	local char, pair = string.sub(sql, at, at), string.sub(sql, at, at + 1)
	if string.find(char, "[ \t\r\n]") then
		return "blank", select(2, string.find(sql, "^[ \t\r\n]+", at))
	elseif pair == "--" or pair == "/*" then
		return "comment", comment_end(sql, at)
	elseif char == "'" then
		return "text", quoted_end(sql, at)
	elseif char == '"' or char == "`" then
		return "name", quoted_end(sql, at)
	elseif string.find(char, "[%w_]") then
		return "word", select(2, string.find(sql, "^[%w_]+", at))
	elseif string.find(char, "[()%[%]{},.;+*/%%<>=!?:@|&^~-]") then
		return "sign", at
	end
	local letter = string.match(sql, "^[^\128-\191][\128-\191]*", at) or "?"
	return refuse(`the query has {excerpt(letter)} outside of quotes, which is not accepted`)
end

-- The tokens of a query with the number of brackets around each, and its text with a blank in place of each comment: what ClickHouse does not
-- get, it cannot read in another way.
local function read_tokens(sql)
	if string.find(sql, "[^%C\t\r\n]") then
		refuse("the query has a control character, which is not accepted")
	end
	local tokens, parts, open, at = {}, {}, {}, 1
	while at <= #sql do
		local kind, last = read_token(sql, at)
		local text = string.sub(sql, at, last)
		if IS_CLOSING[text] and table.remove(open) ~= text then
			refuse(`the query has a bracket {text} that was not opened`)
		end
		if kind ~= "blank" and kind ~= "comment" then
			local upper = if kind == "word" then string.upper(text) else text
			table.insert(tokens, {kind = kind, text = text, upper = upper, depth = #open})
		end
		if CLOSING[text] then
			table.insert(open, CLOSING[text])
		end
		-- ClickHouse reads x'..' and b'..' by other rules.
		if kind == "word" and string.find(sql, "^['\"`]", last + 1) then
			refuse(`the query has a quote right behind {excerpt(text)}; write a blank between them`)
		end
		table.insert(parts, if kind == "comment" then " " else text)
		at = last + 1
	end
	if #open > 0 then
		refuse(`the query has no {open[#open]} for a bracket that was opened`)
	end
	return tokens, trim(table.concat(parts))
end

-- One statement that reads: its tokens, without semicolons at the end.
local function check_statement(tokens)
	while #tokens > 0 and tokens[#tokens].upper == ";" do
		table.remove(tokens)
	end
	local first = if tokens[1] then tokens[1].upper else ""
	if first ~= "SELECT" and first ~= "WITH" and first ~= "DESCRIBE" then
		refuse("only read-only queries are accepted: one that begins with SELECT, WITH or DESCRIBE")
	end
	local statement = first
	for at, token in tokens do
		local following = if tokens[at + 1] then tokens[at + 1].upper else ""
		local behind = if tokens[at + 2] then tokens[at + 2].upper else ""
		if token.upper == ";" then
			refuse("multi-statement queries are not accepted; send a single statement")
		elseif (token.upper == "INSERT" and following == "INTO") or (token.upper == "INTO" and following == "OUTFILE") then
			refuse(`only read-only queries are accepted, without {token.upper} {following}`)
		elseif token.upper == "SETTINGS" and tokens[at + 1] and tokens[at + 1].kind ~= "sign" and behind == "=" then
			refuse("the query has SETTINGS, which are not accepted")
		elseif token.upper == "FORMAT" and token.depth == 0 and at == #tokens - 1 and tokens[at + 1].kind == "word" then
			refuse("the query has a FORMAT, and the rows are always read as JSON; remove it")
		elseif statement == "WITH" and token.depth == 0 and STATEMENTS[token.upper] then
			statement = token.upper
		end
	end
	if first == "WITH" and statement ~= "SELECT" then
		refuse("only read-only queries are accepted: behind WITH stands a SELECT")
	end
end

-- Whether this is a table of the source: its name with a suffix such as _logs, and perhaps with the number of the team before it.
local function is_of_source(name, source)
	local function has_suffix(text)
		return string.sub(text, 1, #source + 1) == source .. "_" and string.find(text, "^%a%w*$", #source + 2) ~= nil
	end
	return name == source or has_suffix(name) or has_suffix(string.match(name, "^t%d+_(.+)$") or "")
end

-- `remote(TABLE)` and `s3Cluster(primary, TABLE)` read the source; with any other argument they can read other hosts.
local function check_source(tokens, at, source)
	local is_cluster = tokens[at].upper == "S3CLUSTER"
	local wanted = at + if is_cluster then 4 else 2
	local name = tokens[wanted]
	local is_plain = name and name.kind == "word" and tokens[wanted + 1].upper == ")"
	if is_cluster then
		is_plain = is_plain and tokens[at + 2].text == "primary" and tokens[at + 3].text == ","
	end
	if not is_plain then
		refuse("tables are read as remote(TABLE_logs) or s3Cluster(primary, TABLE_s3), with a plain name and nothing else in the parentheses")
	elseif not is_of_source(name.text, source) then
		refuse(`the query reads {excerpt(name.text)}, which is no table of {source}; call the tool once for each source`)
	end
end

-- Words that begin a part of a query. Tables stand in what FROM and JOIN begin, also behind a comma.
local CLAUSES = set("EXCEPT FROM GROUP HAVING INTERSECT JOIN LIMIT OFFSET ON ORDER PREWHERE QUALIFY SELECT SETTINGS UNION USING WHERE WINDOW WITH")
local TABLE_CLAUSES = {FROM = true, JOIN = true, ON = true, USING = true}

-- Whether a table stands here: behind FROM and JOIN of a query, and at the beginning of DESCRIBE.
local function is_table_place(tokens, at, is_query, clause)
	local before = tokens[at - 1]
	if before and before.text == "," and is_query and TABLE_CLAUSES[clause] then
		return true
	end
	local ahead = if tokens[at - 2] then tokens[at - 2].upper else ""
	if not before or before.kind ~= "word" then
		return false
	end
	return (before.upper == "FROM" and is_query)
		or (before.upper == "JOIN" and ahead ~= "ARRAY")
		or (before.upper == "DESCRIBE" and at == 2)
		or (before.upper == "TABLE" and at == 3)
end

local function is_reader(name)
	if READERS[name] then
		return true
	end
	for _, family in READER_FAMILIES do
		if string.sub(name, 1, #family) == family then
			return true
		end
	end
	return false
end

-- Every function that could read something else than the source is refused, in every part of the query.
local function check_reads(tokens, source)
	-- Which of the brackets around a token hold a query.
	local is_query, clauses = {[0] = true}, {}
	for at, token in tokens do
		local following = if tokens[at + 1] then tokens[at + 1].upper else ""
		if CLOSING[token.text] and token.kind == "sign" then
			is_query[token.depth + 1] = following == "SELECT" or following == "WITH"
			clauses[token.depth + 1] = nil
		elseif token.kind == "word" and CLAUSES[token.upper] then
			clauses[token.depth] = token.upper
		end
		local name = string.lower(if token.kind == "name" then string.sub(token.text, 2, -2) else token.text)
		if token.kind == "name" and (following == "(" or string.find(name, "\\", 1, true)) then
			refuse(`the query has {token.text}, which is not accepted; write the name of a function without quotes, and no backslash in a name`)
		elseif (name == "system" or name == "information_schema") and following == "." and token.kind ~= "text" then
			refuse(`the query reads {name}, which is no source`)
		elseif token.kind == "word" and following == "(" then
			if name == "remote" or name == "s3cluster" then
				check_source(tokens, at, source)
			elseif is_reader(name) or (is_table_place(tokens, at, is_query[token.depth], clauses[token.depth]) and not TABLE_FUNCTIONS[name]) then
				refuse(`the function {excerpt(token.text)} is not accepted, since it can read something else than the source; use remote(TABLE_logs) or s3Cluster(primary, TABLE_s3)`)
			end
		end
	end
end

local function is_number(token)
	return token ~= nil and token.kind == "word" and string.find(token.text, "^%d") ~= nil
end

-- Whether rows of the whole statement are limited, and whether some are skipped. LIMIT 1 BY host limits the rows of each host alone.
local function row_limit(tokens)
	local is_limited, is_skipped = false, false
	for at, token in tokens do
		if token.depth == 0 and token.kind == "word" and is_number(tokens[at + 1]) then
			if token.upper == "LIMIT" then
				local behind = at + 2
				if tokens[behind] and (tokens[behind].upper == "," or tokens[behind].upper == "OFFSET") then
					behind += 2
				end
				is_limited = is_limited or not (tokens[behind] and tokens[behind].upper == "BY")
			elseif token.upper == "OFFSET" and not (at > 2 and tokens[at - 2].upper == "LIMIT") then
				is_skipped = true
			elseif (token.upper == "FIRST" or token.upper == "NEXT") and at > 1 and tokens[at - 1].upper == "FETCH" then
				is_limited = true
			end
		end
	end
	return is_limited, is_skipped
end

-- Whether the statement joins several by UNION and the like, so that a LIMIT at its end is that of the last one.
local function has_set_operation(tokens)
	for at, token in tokens do
		if token.depth == 0 and token.kind == "word" and SET_OPERATIONS[token.upper] then
			local behind = at + 1
			if tokens[behind] and (tokens[behind].upper == "ALL" or tokens[behind].upper == "DISTINCT") then
				behind += 1
			end
			local second = if tokens[behind] and tokens[behind].upper == "(" then tokens[behind + 1] else tokens[behind]
			if second and (second.upper == "SELECT" or second.upper == "WITH" or second.upper == "(") then
				return true
			end
		end
	end
	return false
end

local function with_limit(sql, tokens)
	if tokens[1].upper == "DESCRIBE" then
		return sql
	end
	local is_limited, is_skipped = row_limit(tokens)
	if has_set_operation(tokens) or (is_skipped and not is_limited) then
		return `SELECT * FROM ({sql}) LIMIT {MAX_ROWS}`
	end
	return if is_limited then sql else `{sql} LIMIT {MAX_ROWS}`
end

-- The statement as it is sent.
local function prepare(query, source)
	local tokens, sql = read_tokens(query)
	check_statement(tokens)
	check_reads(tokens, source)
	return with_limit(sql, tokens)
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

local function read_row(line)
	local is_exact, row = pcall(json.decode, line)
	if is_exact then
		return row
	end
	local is_json, other = pcall(json.decode, with_large_integers_as_texts(line))
	-- ClickHouse writes an error that comes late behind the rows.
	return if is_json then other else refuse(`[Better Stack] the response has a line that is no JSON: {excerpt(line)}`)
end

local tools = {}

function tools.query(input)
	local answer = ctx.tool(".send_query", {sql = prepare(input.query, input.table)})
	local rows = array({})
	for line in string.gmatch(answer, "[^\r\n]+") do
		if string.find(line, "%S") then
			table.insert(rows, read_row(line))
		end
	end
	return rows
end

return tools
