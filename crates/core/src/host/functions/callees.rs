//! Host functions that call a tool of the embedder, another skill, or a model.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::provider_call::{call_provider, catch_provider_panic, unavailable};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::RunThreadGuard;
use crate::host::function::{AccessRule, FunctionExample, HostFunction, Param, ValueType};
use crate::host::{
    Args, RunContext, SampleMessage, SampleRequest, SampleRole, SkillContext, ToolProvider, catch_panic,
    memory_size,
};
use crate::policy::split_tool_name;
use crate::suggestion::{closest, did_you_mean};

pub(super) const TOOL: HostFunction = HostFunction {
    name: "tool",
    aliases: &["host_tool"],
    params: &[
        Param { name: "name", value_type: ValueType::Text, required: true, doc: "the tool" },
        Param {
            name: "args",
            value_type: ValueType::Any,
            required: false,
            doc: "what the tool takes; null by default",
        },
    ],
    returns: ValueType::Any,
    access: AccessRule::Tool(0),
    doc: "Calls a tool that the host offers, or that a skill offers (`SKILL.TOOL`), and answers with its value. `.TOOL` is a tool of the skill itself, also an internal one, and needs no permission. Arguments that do not fit the schema by which the host \
          describes the tool are `invalid-input`, with every violation, and the tool is not called; where it takes an object, \
          null counts as an empty one. A skill's tool runs as a called skill does.",
    example: FunctionExample {
        files: &[],
        fixtures: r#"{"tools": {"add": {"sum": 3}}}"#,
        grants: &["tool:add"],
        args: r#"["add", {"a": 1, "b": 2}]"#,
        answer: r#"{"sum": 3}"#,
    },
    body: tool,
};

pub(super) const SKILL: HostFunction = HostFunction {
    name: "skill",
    aliases: &["host_skill"],
    params: &[
        Param {
            name: "name",
            value_type: ValueType::Text,
            required: true,
            doc: "the skill, plain or qualified",
        },
        Param {
            name: "input",
            value_type: ValueType::Any,
            required: false,
            doc: "its input; none by default",
        },
    ],
    returns: ValueType::Any,
    access: AccessRule::Skill(0),
    doc: "Runs another skill to its end and answers with its value. It may do what it asks for and this run may do too, \
          and it ends with this run; what it logs is in this run's log. Skills may call one another 8 deep.",
    example: FunctionExample {
        files: &[],
        fixtures: r#"{"skills": {"greet": "hello, Ada"}}"#,
        grants: &["skill:greet"],
        args: r#"["greet", {"name": "Ada"}]"#,
        answer: r#""hello, Ada""#,
    },
    body: skill,
};

pub(super) const SAMPLE: HostFunction = HostFunction {
    name: "sample",
    aliases: &["host_sample"],
    params: &[
        Param {
            name: "system",
            value_type: ValueType::Text,
            required: false,
            doc: "what the model is told before; null or \"\" for nothing",
        },
        Param { name: "prompt", value_type: ValueType::Text, required: true, doc: "what to ask" },
        Param {
            name: "max_tokens",
            value_type: ValueType::Count,
            required: false,
            doc: "tokens the answer may take; the host's own limit by default, and for 0",
        },
        Param {
            name: "options",
            value_type: ValueType::Record(SAMPLE_OPTIONS),
            required: false,
            doc: "what else to ask, and how to answer",
        },
    ],
    returns: ValueType::OneOf(&[ValueType::Text, ValueType::Record(SAMPLE_RESPONSE)]),
    access: AccessRule::Sample,
    doc: "Asks the model that the host offers and answers with its text, or with `response` with an object.",
    example: FunctionExample {
        files: &[],
        fixtures: r#"{"model": "Paris"}"#,
        grants: &["sample"],
        args: r#"[null, "What is the capital of France?", 10]"#,
        answer: r#""Paris""#,
    },
    body: sample,
};

const SAMPLE_OPTIONS: &[Param] = &[
    Param {
        name: "messages",
        value_type: ValueType::List(&ValueType::Record(SAMPLE_MESSAGE)),
        required: false,
        doc: "the conversation before the prompt, oldest message first",
    },
    Param {
        name: "temperature",
        value_type: ValueType::Number,
        required: false,
        doc: "how random the answer is; the host's own by default",
    },
    Param {
        name: "stop",
        value_type: ValueType::List(&ValueType::Text),
        required: false,
        doc: "texts at which the model stops",
    },
    Param {
        name: "model",
        value_type: ValueType::Text,
        required: false,
        doc: "a model to prefer, by its name or a part of it; the host decides",
    },
    Param {
        name: "response",
        value_type: ValueType::Boolean,
        required: false,
        doc: "answer with an object in place of the text; false by default",
    },
];

const SAMPLE_MESSAGE: &[Param] = &[
    Param {
        name: "role",
        value_type: ValueType::Text,
        required: true,
        doc: "who says it: `user` or `assistant`",
    },
    Param { name: "content", value_type: ValueType::Text, required: true, doc: "the text" },
];

const SAMPLE_RESPONSE: &[Param] = &[
    Param { name: "text", value_type: ValueType::Text, required: true, doc: "the text" },
    Param {
        name: "model",
        value_type: ValueType::Text,
        required: false,
        doc: "the model that answered, when the host says so",
    },
    Param {
        name: "stop_reason",
        value_type: ValueType::Text,
        required: false,
        doc: "why the text ends: `end_turn`, `max_tokens`, `stop_sequence` or `other`, when the host says so",
    },
    Param {
        name: "usage",
        value_type: ValueType::Record(SAMPLE_USAGE),
        required: false,
        doc: "what it cost, when the host says so",
    },
];

const SAMPLE_USAGE: &[Param] = &[
    Param {
        name: "input_tokens",
        value_type: ValueType::Count,
        required: true,
        doc: "tokens of the request",
    },
    Param {
        name: "output_tokens",
        value_type: ValueType::Count,
        required: true,
        doc: "tokens of the answer",
    },
];

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SampleOptions {
    messages: Vec<SampleMessage>,
    temperature: Option<f64>,
    stop: Vec<String>,
    model: Option<String>,
    response: bool,
}

/// Tools an error lists before it stops.
const MAX_SHOWN_TOOLS: usize = 8;

/// A tool of the host comes first, so that no skill takes its name.
fn tool(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let mut reservation = ctx.host_memory().empty_reservation();
    reservation.add(memory_size(args.value(1)))?;
    if is_own_tool(args.text(0)) {
        let answer = call_own_tool(ctx, args)?;
        reservation.add(memory_size(&answer))?;
        return Ok(answer);
    }
    let tools = ctx.providers().tools.as_ref();
    let answer = match tools.map(|tools| call_host_tool(ctx, tools, args)).transpose()?.flatten() {
        Some(answer) => answer,
        None => match call_skill_tool(ctx, args)? {
            Some(answer) => answer,
            None => {
                return Err(
                    tools.map_or_else(|| unavailable("tools"), |tools| unknown_tool(&**tools, args.text(0)))
                );
            }
        },
    };
    reservation.add(memory_size(&answer))?;
    Ok(answer)
}

/// The answer of the host's tool of that name, if the host has one.
fn call_host_tool(ctx: &SkillContext, tools: &Arc<dyn ToolProvider>, args: &Args) -> Result<Option<Value>> {
    let (name, arguments) = (args.text(0).to_owned(), args.value(1).clone());
    call_provider(ctx, tools, "tools", move |tools, ctx| {
        if !tools.has(&name) {
            return Ok(None);
        }
        tools.check(&name, &arguments)?;
        catch_panic("its provider", ErrorKind::Tool, || tools.call(ctx, &name, &arguments))
            .map(Some)
            .map_err(|error| tool_failure(ctx, &name, error))
    })
}

/// Whether this names a tool of the skill that calls it: `.TOOL`.
pub(in crate::host) fn is_own_tool(name: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    name.strip_prefix('.').is_some_and(|own| !own.is_empty() && own.chars().all(is_of_name))
}

fn call_own_tool(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let skills = ctx.providers().skills.as_ref().ok_or_else(|| unavailable("tools of skills"))?;
    catch_provider_panic("skills", || {
        let _for_run = RunThreadGuard::enter();
        skills.call_tool(ctx, args.text(0), args.value(1).clone())
    })
}

/// The answer of a skill's tool of that name, if a skill offers one.
fn call_skill_tool(ctx: &SkillContext, args: &Args) -> Result<Option<Value>> {
    let name = args.text(0);
    let skills = ctx.providers().skills.as_ref().filter(|_| split_tool_name(name).is_some());
    let Some(skills) = skills else { return Ok(None) };
    catch_provider_panic("skills", || {
        let _for_run = RunThreadGuard::enter();
        if !skills.has_tool(ctx, name) {
            return Ok(None);
        }
        skills.call_tool(ctx, name, args.value(1).clone()).map(Some)
    })
}

fn skill(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let skills = ctx.providers().skills.as_ref().ok_or_else(|| unavailable("other skills"))?;
    let mut reservation = ctx.host_memory().empty_reservation();
    reservation.add(memory_size(args.value(1)))?;
    let answer = catch_provider_panic("skills", || {
        let _for_run = RunThreadGuard::enter();
        skills.run(ctx, args.text(0), args.value(1).clone())
    })?;
    reservation.add(memory_size(&answer))?;
    Ok(answer)
}

fn sample(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let model = ctx.providers().sampling.as_ref().ok_or_else(|| unavailable("a model"))?;
    let mut reservation = ctx.host_memory().empty_reservation();
    reservation.add((args.text(0).len() + args.text(1).len()) as u64 + memory_size(args.value(3)))?;
    let SampleOptions { mut messages, temperature, stop, model: preferred, response } = args.options(3)?;
    messages.push(SampleMessage { role: SampleRole::User, content: args.text(1).to_owned() });
    let request = SampleRequest {
        messages,
        system: args.optional_text(0).filter(|system| !system.is_empty()).map(str::to_owned),
        max_tokens: args.count(2).filter(|tokens| *tokens > 0),
        temperature,
        stop,
        model: preferred,
    };
    let own = ctx.with_sample_stream();
    let answer = call_provider(&own, model, "the model", move |model, ctx| model.sample(ctx, &request));
    own.close_sample_stream(answer.is_ok());
    let answer = answer?;
    reservation.add((answer.text.len() + answer.model.as_ref().map_or(0, String::len)) as u64)?;
    if !response {
        return Ok(answer.text.into());
    }
    serde_json::to_value(answer).map_err(|error| SkillError::new(ErrorKind::Unavailable, error.to_string()))
}

/// The script's view of a tool's failure: what stopped the run stays what it is, the rest is the tool's.
fn tool_failure(ctx: &SkillContext, name: &str, error: SkillError) -> SkillError {
    if let Err(stopped) = ctx.cancel().check() {
        return stopped;
    }
    if error.kind().is_limit() || error.kind() == ErrorKind::Cancelled {
        return error;
    }
    let failure = SkillError::new(ErrorKind::Tool, format!("tool {name} failed: {error}"));
    match error.help().map(str::to_owned) {
        Some(help) => failure.with_help(help).with_source(error),
        None => failure.with_source(error),
    }
}

fn unknown_tool(tools: &dyn ToolProvider, name: &str) -> SkillError {
    let error = SkillError::new(ErrorKind::Tool, format!("no tool is called `{name}`"));
    let names: Vec<String> = tools.tools().into_iter().map(|tool| tool.name).collect();
    match closest(name, &names) {
        Some(near) => error.with_help(did_you_mean(near)),
        None if names.is_empty() => error.with_help("this host has no tools"),
        None => {
            let shown = names[..names.len().min(MAX_SHOWN_TOOLS)].join(", ");
            let more = names.len().saturating_sub(MAX_SHOWN_TOOLS);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            error.with_help(format!("the tools are {shown}{more}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::ClosureTools;

    #[test]
    fn an_unknown_tool_is_reported_with_a_suggestion_or_the_list() {
        let tools = ["search", "add", "subtract"].iter().fold(ClosureTools::new(), |tools, name| {
            tools.tool(*name, "d", Value::Null, |_, _| Ok(Value::Null))
        });
        let help = |name: &str| unknown_tool(&tools, name).help().unwrap().to_owned();
        assert_eq!(help("serach"), "did you mean `search`?");
        assert_eq!(help("ad"), "did you mean `add`?");
        assert_eq!(help("frobnicate"), "the tools are search, add, subtract");
        assert_eq!(unknown_tool(&ClosureTools::new(), "x").help(), Some("this host has no tools"));
        let many = (0..10).fold(ClosureTools::new(), |tools, at| {
            tools.tool(format!("tool-number-{at}"), "d", Value::Null, |_, _| Ok(Value::Null))
        });
        assert!(unknown_tool(&many, "x").help().unwrap().ends_with("tool-number-7 and 2 more"));
    }
}
