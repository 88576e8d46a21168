//! The executor of a declared call: reads the settings and secrets that it sends, sends the request, and makes the value.

use serde_json::{Map, Value, json};

use super::request::{BuiltRequest, build_request};
use super::response::{check_status, result_value};
use super::retry::{NextTry, Tries, wait};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::{Script, SkillExecutor, SkillInput, SkillOutput};
use metier_core::host::{LogLevel, SandboxReport, SkillContext};
use metier_skill::contract::{self, CONFIG, HttpCall, SECRETS, named_value};

/// A call of one tool.
struct HttpCallExecutor {
    tool: String,
    call: HttpCall,
    /// The settings and the secrets that it sends, each once.
    config: Vec<String>,
    secrets: Vec<String>,
}

/// Reads the declaration of a tool in the contract; `invalid-skill` for a script of another kind.
pub fn load(script: &Script) -> Result<Box<dyn SkillExecutor>> {
    let parsed = contract::load(&script.source);
    let tool = script.function.as_deref().unwrap_or_default();
    let declared = parsed.contract.as_ref().and_then(|contract| contract.tool(tool)?.http());
    let Some(call) = declared.cloned() else {
        let sentence = format!("{} declares no HTTP call of a tool here", script.path);
        return Err(SkillError::new(ErrorKind::InvalidSkill, sentence)
            .with_help("declare it under `tools` in skill.yaml; no script is written in this runtime"));
    };
    let names = |root: &str| {
        let mut names: Vec<String> = Vec::new();
        for (_, key) in call.sent_references().into_iter().filter_map(named_value).filter(|it| it.0 == root) {
            if !names.iter().any(|known| known == key) {
                names.push(key.to_owned());
            }
        }
        names
    };
    Ok(Box::new(HttpCallExecutor {
        tool: tool.to_owned(),
        config: names(CONFIG),
        secrets: names(SECRETS),
        call,
    }))
}

impl SkillExecutor for HttpCallExecutor {
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        let Some(ctx) = context else {
            let sentence = format!("the tool {} sends a request, which needs a context", self.tool);
            return Err(SkillError::new(ErrorKind::Unavailable, sentence));
        };
        ctx.report_sandbox(SandboxReport::IN_PROCESS);
        let input = input.value_or_empty();
        let values = json!({
            CONFIG: read_values(ctx, "config", &self.config)?,
            SECRETS: read_values(ctx, "secret", &self.secrets)?,
        });
        let request = build_request(&self.call, (&input, &values), ctx.limits().output)
            .map_err(|error| error.with_message(format!("tool {}: {error}", self.tool)))?;
        let response = self.send(ctx, &request)?;
        check_status(&self.call, &response)?;
        let value = result_value(&self.call, &input, &response, ctx.limits().output)
            .map_err(|error| error.with_message(format!("tool {}: {error}", self.tool)))?;
        Ok(value.into())
    }
}

impl HttpCallExecutor {
    /// The response, of the last of several tries where earlier ones may be repeated.
    fn send(&self, ctx: &SkillContext, request: &BuiltRequest) -> Result<Value> {
        let mut tries = Tries::new(&self.call, &request.options["headers"], ctx);
        loop {
            let sent = ctx.call("http", vec![request.url.as_str().into(), request.options.clone()]);
            let (next, what) = match &sent {
                Ok(response) => (tries.after_response(response), format!("status {}", response["status"])),
                Err(error) => (tries.after_error(error), "broken connection".to_owned()),
            };
            match next {
                NextTry::None => return sent,
                NextTry::After(pause) => {
                    let text =
                        format!("tool {}: {what}; the request is made again in {pause:.1?}", self.tool);
                    ctx.log(LogLevel::Info, text)?;
                    wait(ctx, pause)?;
                }
                NextTry::TooLate(pause) => {
                    return sent.and_then(|response| {
                        check_status(&self.call, &response).map_err(|error| {
                            error.with_help(format!("call it again in {} seconds", pause.as_secs().max(1)))
                        })?;
                        Ok(response)
                    });
                }
            }
        }
    }
}

/// The settings or secrets of these names, as a script reads them.
fn read_values(ctx: &SkillContext, function: &str, names: &[String]) -> Result<Value> {
    let mut values = Map::new();
    for name in names {
        values.insert(name.clone(), ctx.call(function, vec![name.as_str().into()])?);
    }
    Ok(values.into())
}
