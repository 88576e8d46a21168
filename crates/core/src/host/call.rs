//! A call of a host function: its arguments and permissions are checked, then its body runs.

use std::borrow::Cow;
use std::time::Instant;

use serde_json::Value;

use super::args::{Args, MAX_SHOWN_CHARS, whole_number};
use super::context::SkillContext;
use super::event::EventKind;
use super::files::relative_path;
use super::function::{AccessRule, HostFunction, Param, ValueType};
use super::functions::{function, is_own_tool};
use super::http::url_host_and_port;
use super::log::LogLevel;
use super::memory::check_memory_reserve;
use super::read_record::ReadRecord;
use crate::alloc_counter::is_reserve_released;
use crate::error::{ErrorKind, Hint, Result, SkillError};
use crate::host::{RunContext, RunMessages, RunReporting};
use crate::policy::{Access, RunPermissions, runs_on_build};

/// Maximum characters in the name of a tool, a skill, a secret or a store.
const MAX_NAME_CHARS: usize = 200;

/// The function that reads the files of the skill, which takes no permission.
const ASSET: &str = "asset";

impl SkillContext {
    /// Calls a host function by name, as a script would.
    pub fn call(&self, name: &str, arguments: Vec<Value>) -> Result<Value> {
        let function = function(name).ok_or_else(|| {
            SkillError::new(ErrorKind::InvalidArgument, format!("ctx has no function `{name}`"))
                .with_help("call one that the documentation of the host API lists")
                .with_hint(Hint::ListFunctions)
        })?;
        function.call(self, arguments)
    }
}

/// Whether this run, which has the permissions of the recorded one, would read the same. The calls are made again, and log nothing.
pub fn reads_the_same(ctx: &SkillContext, reads: &ReadRecord) -> bool {
    let ctx = ctx.clone().without_log();
    reads.is_current(|name, args| {
        ctx.cancel().check()?;
        let gone = || SkillError::new(ErrorKind::InvalidArgument, name);
        (function(name).ok_or_else(gone)?.body)(&ctx, args)
    })
}

impl HostFunction {
    /// Calls the function: checks arguments, checks permissions, runs the body. `null` stands for an omitted optional argument.
    ///
    /// Fails with `invalid-argument`, `denied`, or what the body fails with.
    pub fn call(&self, ctx: &SkillContext, arguments: Vec<Value>) -> Result<Value> {
        ctx.cancel().check()?;
        if is_reserve_released() {
            check_memory_reserve()?;
        }
        if let Some(host) = ctx.host_api_client() {
            return host.call(self.name, arguments);
        }
        let result = if ctx.is_observed() {
            self.call_observed(ctx, arguments)
        } else {
            self.check_arguments(ctx, arguments).and_then(|args| self.call_with(ctx, &args))
        };
        if let Err(error) = &result {
            ctx.report_refusal(self.name, error);
        }
        result
    }

    /// The same, and notifies the observer of the end of the call.
    fn call_observed(&self, ctx: &SkillContext, arguments: Vec<Value>) -> Result<Value> {
        let started = Instant::now();
        let args = self.check_arguments(ctx, arguments);
        let access = args.as_ref().ok().and_then(|args| self.required_access(ctx, args).ok().flatten());
        let permission = access.map(|(access, ..)| access.to_string());
        let result = args.and_then(|args| self.call_with(ctx, &args));
        ctx.notify(|| EventKind::HostCall {
            function: self.name,
            permission,
            step: ctx.step(),
            error: result.as_ref().err().map(SkillError::kind),
            duration: started.elapsed(),
        });
        result
    }

    /// Checks permissions and runs the body.
    fn call_with(&self, ctx: &SkillContext, args: &Args) -> Result<Value> {
        self.check_permission(ctx, args)?;
        let answer = (self.body)(ctx, args);
        if let Some(reads) = ctx.reads() {
            match self.access {
                AccessRule::Read(_) | AccessRule::ReadRoot => reads.add(self.name, args, &answer),
                AccessRule::Unrestricted if self.name == ASSET => reads.add(self.name, args, &answer),
                // It says nothing that the run did not say before.
                AccessRule::Unrestricted => {}
                _ => reads.add_unknown(),
            }
        }
        let answer = answer?;
        if let AccessRule::Write(at) = self.access {
            warn_about_autorun(ctx, args.text(at));
        }
        Ok(answer)
    }

    /// The only place that checks permissions before a call. Files behind symbolic links are checked again when they are opened.
    fn check_permission(&self, ctx: &SkillContext, args: &Args) -> Result<()> {
        let Some((need, verb, target)) = self.required_access(ctx, args)? else { return Ok(()) };
        let shown = if target.is_empty() { "." } else { &target };
        match ctx.permissions().require(&need, format_args!("failed to {verb} {shown}")) {
            Err(_) if ctx.ask_for_access(&need, &target)? => Ok(()),
            checked => checked,
        }
    }

    /// The access that a call needs, and what it does, for an error: the verb and its object. `None` if it needs no permission.
    fn required_access<'a>(
        &self,
        ctx: &SkillContext,
        args: &'a Args,
    ) -> Result<Option<(Access, &'static str, Cow<'a, str>)>> {
        let text = |position| args.optional_text(position).unwrap_or_default();
        let (need, verb, target) = match self.access {
            AccessRule::Unrestricted => return Ok(None),
            AccessRule::Read(at) => (Access::read(text(at)), "read", text(at)),
            AccessRule::ReadRoot => (Access::read(""), "read", ""),
            AccessRule::Write(at) => (Access::write(text(at)), "write", text(at)),
            // A tool of the skill itself does nothing that the skill may not do.
            AccessRule::Tool(at) if is_own_tool(text(at)) => {
                self.check_name(text(at))?;
                return Ok(None);
            }
            AccessRule::Tool(at) => (Access::tool(self.check_name(text(at))?), "call the tool", text(at)),
            AccessRule::Skill(at) => (Access::skill(self.check_name(text(at))?), "run the skill", text(at)),
            AccessRule::Secret(at) => {
                let name = self.check_name(text(at))?;
                (ctx.permissions().secret_access(name), "read the secret", text(at))
            }
            AccessRule::Store(at) => match args.optional_text(at) {
                Some(name) => (Access::store(self.check_name(name)?), "use the store", name),
                None => (Access::state(), "use", "the store of the skill"),
            },
            AccessRule::Sample => (Access::sample(), "ask", "the model"),
            AccessRule::Net(at) => {
                // The rest of the URL may contain a secret.
                let (host, port) = url_host_and_port(text(at))?;
                return Ok(Some((Access::url(host.as_str(), port), "reach", host.into())));
            }
        };
        Ok(Some((need, verb, target.into())))
    }

    /// The arguments, one for each parameter, each of the type of its parameter and paths relative to the project.
    fn check_arguments(&self, ctx: &SkillContext, mut arguments: Vec<Value>) -> Result<Args> {
        let params = self.params;
        let refused = |what: String| {
            let sentence = format!("{}: {what}", self.signature());
            Err(SkillError::new(ErrorKind::InvalidArgument, sentence))
        };
        while arguments.len() > params.len() && arguments.last() == Some(&Value::Null) {
            arguments.pop();
        }
        self.check_arity(arguments.len())?;
        arguments.resize(params.len(), Value::Null);
        for (param, value) in params.iter().zip(&mut arguments) {
            if value.is_null() && !matches!(param.value_type, ValueType::Any | ValueType::Null) {
                if param.required {
                    return refused(format!("{} is missing", param.name));
                }
                continue;
            }
            if let Err(expected) = check_type(&param.value_type, value) {
                return refused(format!("{} must be {expected}, got {}", param.name, short_text(value)));
            }
            if let (ValueType::Path, Value::String(path)) = (&param.value_type, &mut *value) {
                let inside = relative_path(path, ctx.project_root())?;
                if inside != *path {
                    *path = inside;
                }
            }
        }
        Ok(Args::new(arguments))
    }

    /// Checks a name that errors and permissions may repeat; `invalid-argument` if it is not valid.
    fn check_name<'a>(&self, name: &'a str) -> Result<&'a str> {
        let is_name =
            !name.is_empty() && name.chars().count() <= MAX_NAME_CHARS && !name.contains(char::is_control);
        is_name.then_some(name).ok_or_else(|| {
            let sentence = format!(
                "{}: a name has 1 to {MAX_NAME_CHARS} characters and no control characters",
                self.signature()
            );
            SkillError::new(ErrorKind::InvalidArgument, sentence)
        })
    }

    /// Checks that the function accepts this number of arguments.
    pub fn check_arity(&self, given: usize) -> Result<()> {
        let most = self.params.len();
        if given <= most {
            return Ok(());
        }
        let sentence =
            format!("{}: takes at most {}, got {given}", self.signature(), argument_count_text(most));
        Err(SkillError::new(ErrorKind::InvalidArgument, sentence))
    }
}

/// Logs a warning that a run changed a file that a build or a test will run. If the log is full, the run does not fail.
fn warn_about_autorun(ctx: &SkillContext, path: &str) {
    if runs_on_build(path) {
        let sentence =
            format!("{path} was changed, which runs at the next build, test or push; look at it before");
        ctx.log(LogLevel::Warn, sentence).ok();
    }
}

/// Checks that a value has this type; the error says what was expected.
fn check_type(kind: &ValueType, value: &mut Value) -> Result<(), String> {
    let expected = match kind {
        ValueType::Any => return Ok(()),
        ValueType::Record(fields) => return check_record_type(fields, value),
        ValueType::OneOf(types) => return check_one_type(types, value),
        ValueType::List(kind) => {
            let Value::Array(items) = value else { return Err("a list".into()) };
            return items.iter_mut().try_for_each(|item| check_type(kind, item));
        }
        ValueType::Map(kind) => {
            let Value::Object(map) = value else { return Err("an object".into()) };
            return map.values_mut().try_for_each(|item| {
                check_type(kind, item).map_err(|expected| format!("an object, every value of it {expected}"))
            });
        }
        ValueType::Count => {
            if let Some(count) = whole_number(value) {
                *value = count.into();
                return Ok(());
            }
            "a whole number, zero or more"
        }
        ValueType::Null if value.is_null() => return Ok(()),
        ValueType::Text | ValueType::Path if value.is_string() => return Ok(()),
        ValueType::Number if value.is_number() => return Ok(()),
        ValueType::Boolean if value.is_boolean() => return Ok(()),
        ValueType::Null => "null",
        ValueType::Text | ValueType::Path => "a string",
        ValueType::Number => "a number",
        ValueType::Boolean => "true or false",
    };
    Err(expected.into())
}

fn check_one_type(types: &[ValueType], value: &mut Value) -> Result<(), String> {
    let mut expected = Vec::new();
    for kind in types {
        match check_type(kind, value) {
            Ok(()) => return Ok(()),
            Err(fault) => expected.push(fault),
        }
    }
    Err(expected.join(" or "))
}

fn check_record_type(fields: &[Param], value: &mut Value) -> Result<(), String> {
    let Value::Object(record) = value else { return Err("an object of options".into()) };
    let known = || fields.iter().map(|field| field.name).collect::<Vec<_>>().join(", ");
    record.retain(|_, value| !value.is_null());
    for (key, value) in record {
        let Some(field) = fields.iter().find(|field| field.name == key) else {
            return Err(format!("an object with the keys {} only (not `{key:.MAX_SHOWN_CHARS$}`)", known()));
        };
        check_type(&field.value_type, value)
            .map_err(|expected| format!("an object whose `{key}` is {expected}"))?;
    }
    Ok(())
}

fn argument_count_text(params: usize) -> String {
    match params {
        1 => "1 argument".into(),
        count => format!("{count} arguments"),
    }
}

/// A short description of a value for an error: `-1`, `"a string"`, `a list`.
fn short_text(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        Value::String(text) if text.chars().count() > 40 => "a long string".into(),
        short => short.to_string(),
    }
}
