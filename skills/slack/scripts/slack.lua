local slack = {}

local MISSING = "No Slack credentials configured: set SLACK_BOT_TOKEN and name a channel, or set SLACK_WEBHOOK_URL"

-- Whether a secret is set, and the failure if this run may not read it: the other one may be enough.
local function has_secret(name)
	local is_read, value = pcall(ctx.secret, name)
	if is_read then
		return value ~= nil and value ~= null and value ~= ""
	end
	if value.kind == "unavailable" then
		return false
	end
	if value.kind == "denied" then
		return false, value
	end
	error(value, 0)
end

function slack.send_message(message)
	local has_channel = message.channel ~= nil and message.channel ~= null
	local has_token, denied = false, nil
	if has_channel then
		has_token, denied = has_secret("SLACK_BOT_TOKEN")
	end
	if has_token then
		return ctx.tool(".post_message", message)
	end
	local has_webhook, also_denied = has_secret("SLACK_WEBHOOK_URL")
	if not has_webhook then
		error(denied or also_denied or MISSING, 0)
	end
	if has_channel then
		ctx.log("warn", `without SLACK_BOT_TOKEN the message goes to the channel of the webhook, not to {message.channel}`)
	end
	return ctx.tool(".post_to_webhook", { text = message.text, blocks = message.blocks })
end

return slack
