//! Host functions for log lines and progress.

use serde_json::Value;

use crate::error::{ErrorKind, Result, SkillError};
use crate::host::function::{AccessRule, FunctionExample, HostFunction, Param, ValueType};
use crate::host::log::{LogLevel, Progress};
use crate::host::{Args, SkillContext};

pub(super) const LOG: HostFunction = HostFunction {
    name: "log",
    aliases: &["host_log"],
    params: &[
        Param {
            name: "level",
            value_type: ValueType::Text,
            required: true,
            doc: "error, warn, info, debug or trace; anything else is info",
        },
        Param { name: "message", value_type: ValueType::Text, required: true, doc: "what to say" },
    ],
    returns: ValueType::Null,
    access: AccessRule::Unrestricted,
    doc: "Writes a line to the log of the run.",
    example: FunctionExample {
        files: &[],
        fixtures: "",
        grants: &[],
        args: r#"["info", "halfway there"]"#,
        answer: "null",
    },
    body: log,
};

pub(super) const PROGRESS: HostFunction = HostFunction {
    name: "progress",
    aliases: &["host_progress"],
    params: &[
        Param { name: "message", value_type: ValueType::Text, required: true, doc: "what is being done" },
        Param { name: "done", value_type: ValueType::Number, required: false, doc: "units done so far" },
        Param { name: "total", value_type: ValueType::Number, required: false, doc: "units in all" },
    ],
    returns: ValueType::Null,
    access: AccessRule::Unrestricted,
    doc: "Tells whoever watches the run how far it has come.",
    example: FunctionExample {
        files: &[],
        fixtures: "",
        grants: &[],
        args: r#"["reading", 3, 10]"#,
        answer: "null",
    },
    body: progress,
};

fn log(ctx: &SkillContext, args: &Args) -> Result<Value> {
    // Checked before it is copied.
    ctx.check_line_fits(args.text(1).len())?;
    ctx.log(LogLevel::from_name(args.text(0)), args.text(1))?;
    Ok(Value::Null)
}

fn progress(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let (bytes, most) = (args.text(0).len() as u64, ctx.limits().output);
    if bytes > most {
        let sentence = format!("progress: the message has {bytes} bytes; the maximum is {most}");
        return Err(
            SkillError::new(ErrorKind::Output, sentence).with_help("shorten it, or raise the output limit")
        );
    }
    ctx.progress(&Progress { message: args.text(0).to_owned(), done: args.number(1), total: args.number(2) });
    Ok(Value::Null)
}
