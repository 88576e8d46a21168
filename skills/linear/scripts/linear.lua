local linear = {}

local function is_absent(value)
	return value == nil or value == null
end

-- Linear answers null for an issue that this key may not see, without an error.
local function require_issue(found, id)
	if is_absent(found) then
		error(`[Linear] there is no issue {id}, or the key may not see it`)
	end
end

function linear.get_issue(request)
	local issue = ctx.tool(".read_issue", { id = request.id })
	require_issue(issue, request.id)
	if not is_absent(issue.labels) then
		issue.labels = issue.labels.nodes
	end
	return issue
end

function linear.list_comments(request)
	local found = ctx.tool(".read_comments", request)
	require_issue(found.issue, request.issueId)
	return found
end

function linear.list_labels(request)
	if is_absent(request.teamId) then
		return ctx.tool(".read_workspace_labels")
	end
	return ctx.tool(".read_team_labels", { teamId = request.teamId })
end

return linear
