//! The executor of a declared call: reads the settings and secrets that it sends, sends the request, and makes the value.

use serde_json::{Map, Value, json};

use super::paging::{PageReader, PageState};
use super::request::{BuiltRequest, RequestValues, build_request};
use super::response::{
    ResultBudget, Scope, check_fields, check_status, check_success, json_memory, read_response,
};
use super::retry::{NextTry, Tries, wait};
use metier_core::error::{ErrorContext, ErrorKind, Result, SkillError};
use metier_core::executor::{Script, SkillExecutor, SkillInput, SkillOutput};
use metier_core::host::{
    HostMemoryReservation, LogLevel, RunContext, RunMessages, RunReporting, SandboxReport, SkillContext,
    has_secret_instead_of, require_setting_variable,
};
use metier_core::template::{Reference, Template};
use metier_skill::contract::{
    self, CONFIG, CallDefinition, PagePlace, Paging, ParsedContract, ResolvedBaseUrl, SECRETS,
    call_definition, named_value,
};
use metier_skill::formats;

/// The least bytes of a part of a secret address that is a secret by itself; shorter ones are words such as `services`.
const MIN_SECRET_PART: usize = 16;

/// A call of one tool.
struct HttpCallExecutor {
    tool: String,
    call: CallDefinition,
    /// The settings and the secrets that it sends, each once.
    config: Vec<String>,
    secrets: Vec<String>,
}

/// Reads the declaration of a tool in the contract; `invalid-skill` for a script of another kind.
pub fn load(script: &Script) -> Result<Box<dyn SkillExecutor>> {
    let tool = script.function.as_deref().unwrap_or_default();
    let declared = |parsed: ParsedContract| parsed.contract?.tool(tool)?.http().map(call_definition).cloned();
    let in_contract = declared(contract::load(&script.source));
    let Some(call) = in_contract.or_else(|| declared(formats::load(&script.path, &script.source, None)))
    else {
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
        let settings = json!({
            CONFIG: self.read_settings(ctx)?,
            SECRETS: read_secrets(ctx, &self.secrets)?,
        });
        let run = CallRun::new(self, ctx, &input, &settings)?;
        match &self.call.paging {
            Some(paging) => run.read_pages(paging),
            None => run.read(),
        }
        .map(SkillOutput::from)
    }
}

/// One call, with the values that it sends.
struct CallRun<'r> {
    tool: &'r str,
    call: &'r CallDefinition,
    ctx: &'r SkillContext,
    input: &'r Value,
    settings: &'r Value,
    base: ResolvedBaseUrl,
    /// What errors call the service.
    service: String,
}

impl<'r> CallRun<'r> {
    fn new(
        executor: &'r HttpCallExecutor,
        ctx: &'r SkillContext,
        input: &'r Value,
        settings: &'r Value,
    ) -> Result<Self> {
        let HttpCallExecutor { tool, call, .. } = executor;
        let lookup = |reference: &Reference| reference.resolve_in(settings.get(named_value(reference)?.0)?);
        let base = call.base_url.resolve(lookup).map_err(|reason| {
            SkillError::new(ErrorKind::Unavailable, format!("tool {tool}: {reason}"))
                .with_help("set the address, such as https://api.example.com")
        })?;
        let service = call.service.clone().unwrap_or_else(|| base.authority().to_owned());
        Ok(Self { tool, call, ctx, input, settings, base, service })
    }

    /// The value of one request.
    fn read(&self) -> Result<Value> {
        let (mut response, _reservation) = self.request(None)?;
        let Some(template) = &self.call.result else { return Ok(response["body"].take()) };
        let scope = Scope::new(self.input, &response);
        scope.value(template, &mut ResultBudget::new(self.ctx)).map_err(|error| self.with_tool_name(&error))
    }

    /// The items of several pages, and where a later call goes on.
    fn read_pages(&self, paging: &Paging) -> Result<Value> {
        let (mut pages, mut place) = PageReader::new(paging, self.input, ResultBudget::new(self.ctx))
            .map_err(|error| self.with_tool_name(&error))?;
        let (response, _reservation, next) = loop {
            let (response, reservation) = self.request(place.as_ref().map(|place| (&paging.into, place)))?;
            let scope = Scope::new(self.input, &response);
            match pages.add(&scope).map_err(|error| self.with_tool_name(&error))? {
                PageState::Next(next) => place = Some(next),
                PageState::Ended(next) => break (response, reservation, next),
            }
        };
        let (items, omitted) = pages.into_items();
        if omitted > 0 {
            let text =
                format!("tool {}: {omitted} items of a page were left out; ask for smaller pages", self.tool);
            self.ctx.log(LogLevel::Warn, text)?;
        }
        let Some(template) = &self.call.result else {
            return Ok(json!({Paging::ITEMS: items, Paging::NEXT: next}));
        };
        let scope = Scope::new(self.input, &response);
        let scope = scope.with(Paging::ITEMS, &items).with(Paging::NEXT, &next);
        scope.value(template, &mut ResultBudget::new(self.ctx)).map_err(|error| self.with_tool_name(&error))
    }

    /// The response to one request, as references name it, and the memory that it takes.
    fn request(&self, page: Option<(&PagePlace, &Value)>) -> Result<(Value, HostMemoryReservation)> {
        let values = RequestValues { input: self.input, settings: self.settings, base: &self.base, page };
        let request = build_request(self.call, values, self.ctx.limits().output)
            .map_err(|error| self.with_tool_name(&error))?;
        self.learn_credentials(&request);
        let response = self.send(&request)?;
        check_status(self.call, &self.service, &response)?;
        let mut reservation = self.ctx.host_memory().empty_reservation();
        reservation.add(json_memory(response["body"].as_str().unwrap_or_default()))?;
        let response = read_response(self.call, &response).map_err(|error| self.with_tool_name(&error))?;
        check_success(self.call, &self.service, &response)?;
        check_fields(self.call, &response).map_err(|error| self.with_tool_name(&error))?;
        Ok((response, reservation))
    }

    /// What a request has of secrets in another form is redacted like them: the credentials of Basic, and the parts of an address.
    fn learn_credentials(&self, request: &BuiltRequest) {
        let secret = |references: &mut dyn Iterator<Item = &Reference>| {
            let mut named = references.filter_map(named_value).filter(|(root, _)| *root == SECRETS);
            named.next().map(|(_, name)| name.to_owned())
        };
        let basic = self.call.basic.iter().flat_map(|(user, password)| [password, user]);
        let in_basic = secret(&mut basic.flat_map(Template::references));
        let credentials = request.options["headers"]["Authorization"].as_str();
        if let Some((name, text)) = in_basic.zip(credentials.and_then(|text| text.strip_prefix("Basic "))) {
            self.ctx.learn_secret(&name, text);
        }
        let Some(name) = secret(&mut self.call.base_url.references()) else { return };
        let path = self.base.path();
        let query = self.base.query.as_deref().unwrap_or_default();
        let values = query.split('&').filter_map(|pair| Some(pair.split_once('=')?.1));
        let parts = [path, query, &request.url].into_iter().chain(path.split('/')).chain(values);
        for part in parts.filter(|part| part.len() >= MIN_SECRET_PART) {
            self.ctx.learn_secret(&name, part);
        }
    }

    fn with_tool_name(&self, error: &SkillError) -> SkillError {
        error.with_message(format!("tool {}: {error}", self.tool))
    }

    /// The response, of the last of several tries where earlier ones may be repeated.
    fn send(&self, request: &BuiltRequest) -> Result<Value> {
        let ctx = self.ctx;
        let mut tries = Tries::new(self.call, &request.options["headers"], ctx);
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
                        check_status(self.call, &self.service, &response).map_err(|error| {
                            error.with_help(format!("call it again in {} seconds", pause.as_secs().max(1)))
                        })?;
                        Ok(response)
                    });
                }
            }
        }
    }
}

impl HttpCallExecutor {
    /// The settings that it sends. One that is a part of the address is not replaced by its default where a variable is set that the run
    /// may not read.
    fn read_settings(&self, ctx: &SkillContext) -> Result<Value> {
        let in_address: Vec<&str> =
            self.call.base_url.references().filter_map(named_value).map(|it| it.1).collect();
        for name in self.config.iter().filter(|name| in_address.contains(&name.as_str())) {
            require_setting_variable(ctx, name)?;
        }
        read_values(ctx, "config", &self.config)
    }
}

/// The settings or secrets of these names, as a script reads them.
/// Those that the run was granted, where one of several is enough.
fn read_secrets(ctx: &SkillContext, names: &[String]) -> Result<Value> {
    let is_needed = |name: &&String| !has_secret_instead_of(ctx, name);
    let needed: Vec<String> = names.iter().filter(is_needed).cloned().collect();
    read_values(ctx, "secret", &needed)
}

fn read_values(ctx: &SkillContext, function: &str, names: &[String]) -> Result<Value> {
    let mut values = Map::new();
    for name in names {
        values.insert(name.clone(), ctx.call(function, vec![name.as_str().into()])?);
    }
    Ok(values.into())
}
