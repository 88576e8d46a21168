//! The client for shell scripts: the command `metier ctx read_file README.md`.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::compat::MSG_NOSIGNAL;
use metier_core::error::{ErrorContext, ErrorKind, ErrorOutput, Result, SkillError};
use metier_core::host::{Param, ValueType, function, functions};
use metier_core::strict_json;
use metier_sandbox::inherited_fd;

const USAGE: &str = "usage: metier ctx [--json] FUNCTION [ARGUMENT]...
       metier ctx [--json] FUNCTION --args JSON
       metier ctx [--json] input

Calls a function of the host API. Text is printed as it is, other values as JSON, null not at all; --json prints JSON
always. An argument that is not text or path is JSON; a text given as - is read from standard input; --args gives all
arguments as one JSON list. The exit code is that of the error's kind, as for `metier run`.

";

/// If this program was started as `metier ctx` by a script that can call the host, calls it and exits.
pub fn client_main() {
    let mut arguments = std::env::args_os();
    let is_metier = arguments.next().is_some_and(|program| program.as_encoded_bytes().ends_with(b"metier"));
    let is_client = is_metier && arguments.next().as_deref() == Some(OsStr::new("ctx"));
    if let Some(number) = std::env::var_os("METIER_API_FD").filter(|_| is_client) {
        std::process::exit(run_command(&number, arguments.collect()));
    }
}

/// Prints the answer or the error. Returns the exit code.
fn run_command(number: &OsStr, arguments: Vec<OsString>) -> i32 {
    let printed = CtxArgs::parse(arguments).and_then(|args| match args {
        CtxArgs::Usage => print(&usage()),
        CtxArgs::Call { function, args, json } => {
            let value = HostClient::connect(number)?.call(&function, &args)?;
            match &value {
                Value::Null if !json => Ok(()),
                Value::String(text) if !json => print(text),
                value => print(&format!("{value}\n")),
            }
        }
    });
    let Err(error) = printed else { return 0 };
    // What the process of a skill wrote says more than that it failed.
    for text in error.output().into_iter().flat_map(|output| [&output.stdout, &output.stderr]) {
        if !text.trim().is_empty() {
            writeln!(io::stderr(), "{}", text.trim_end()).ok();
        }
    }
    let help = error.help().filter(|help| !error.message().contains(help));
    let help = help.map(|help| format!("; {help}")).unwrap_or_default();
    writeln!(io::stderr(), "metier: {}{help}", error.message()).ok();
    error.kind().exit_code().into()
}

fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // The reader needs no more.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|error| SkillError::io("failed to write to standard output", error)),
    }
}

fn usage() -> String {
    let rows = functions().iter().map(|function| {
        let words = function.params.iter().map(|param| {
            let name = param.name.to_uppercase();
            if param.required { format!(" {name}") } else { format!(" [{name}]") }
        });
        format!("  {}{}\n      {}\n", function.name, words.collect::<String>(), function.doc)
    });
    USAGE.chars().chain(rows.collect::<String>().chars()).collect()
}

/// The parsed command line.
enum CtxArgs {
    Usage,
    Call { function: String, args: Value, json: bool },
}

impl CtxArgs {
    fn parse(arguments: Vec<OsString>) -> Result<Self> {
        let text = |argument: OsString| {
            argument
                .into_string()
                .map_err(|argument| usage_error(format!("{} is not UTF-8", argument.display())))
        };
        let words: Vec<String> = arguments.into_iter().map(text).collect::<Result<_>>()?;
        let json = words.first().is_some_and(|word| word == "--json");
        match words.get(usize::from(json)..).unwrap_or_default() {
            [] => Ok(Self::Usage),
            [help, ..] if help == "--help" || help == "-h" => Ok(Self::Usage),
            [name, flag, list] if flag == "--args" => {
                let args = strict_json::parse_repaired(list)
                    .map_err(|reason| usage_error(format!("--args is no JSON: {reason}")))?;
                Ok(Self::Call { function: name.clone(), args, json })
            }
            [name, args @ ..] => {
                let params = function(name).map_or(&[][..], |function| function.params);
                let kinds = params.iter().map(Some).chain(std::iter::repeat(None));
                let args: Result<Vec<Value>> =
                    args.iter().zip(kinds).map(|(arg, param)| parse_argument(arg, param)).collect();
                Ok(Self::Call { function: name.clone(), args: args?.into(), json })
            }
        }
    }
}

/// The value of an argument for its parameter.
fn parse_argument(argument: &str, param: Option<&Param>) -> Result<Value> {
    match param.map(|param| param.value_type) {
        Some(ValueType::Text) if argument == "-" => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => usage_error("standard input is not UTF-8"),
                _ => SkillError::io("failed to read standard input", error),
            })?;
            Ok(text.into())
        }
        Some(ValueType::Text | ValueType::Path) | None => Ok(argument.into()),
        Some(ValueType::Any) => {
            let repaired = strict_json::replace_half_surrogates(argument);
            let argument = repaired.as_deref().unwrap_or(argument);
            Ok(strict_json::parse_bare(argument).unwrap_or_else(|_| argument.into()))
        }
        // The host refuses an argument that is not JSON, with the same error in every language.
        Some(_) => Ok(strict_json::parse_repaired(argument).unwrap_or_else(|_| argument.into())),
    }
}

fn usage_error(sentence: impl Into<String>) -> SkillError {
    SkillError::new(ErrorKind::InvalidArgument, sentence.into())
}

/// A connection to the host.
struct HostClient(BufReader<UnixStream>);

impl HostClient {
    fn connect(number: &OsStr) -> Result<Self> {
        let connect = || -> io::Result<UnixStream> {
            let number = number.to_str().and_then(|number| number.parse().ok());
            let shared = inherited_fd(number.ok_or(io::ErrorKind::InvalidInput)?)?;
            let (own_end, host_end) = UnixStream::pair()?;
            let rights = [host_end.as_fd()];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(&rights));
            sendmsg(&shared, &[IoSlice::new(b"\0")], &mut ancillary, MSG_NOSIGNAL)?;
            Ok(own_end)
        };
        let failed = |error| {
            let sentence = format!("descriptor {} does not lead to the host: {error}", number.display());
            SkillError::new(ErrorKind::Unavailable, sentence)
        };
        connect().map(|socket| Self(BufReader::new(socket))).map_err(failed)
    }

    /// The answer to a call. If it is an error, reports to the host that this process exits because of it.
    fn call(&mut self, function: &str, args: &Value) -> Result<Value> {
        let answered = self.request(1, function, args)?;
        if let Err(error) = &answered {
            self.request(2, "fail", &json!([1, error.kind().exit_code()]))?.ok();
        }
        answered
    }

    fn request(&mut self, id: u32, call: &str, args: &Value) -> Result<Result<Value>> {
        let mut text = String::new();
        let request = format!("{}\n", json!({"id": id, "call": call, "args": args}));
        let exchanged =
            self.0.get_mut().write_all(request.as_bytes()).and_then(|()| self.0.read_line(&mut text));
        exchanged.map_err(|error| SkillError::io("the host does not answer", error))?;
        let hung_up = || SkillError::new(ErrorKind::Unavailable, "the host has hung up");
        let mut answer: Value = serde_json::from_str(&text).map_err(|_| hung_up())?;
        let part = |key: &str| answer.pointer(key).and_then(Value::as_str).map(str::to_owned);
        let Some(kind) = part("/error/kind").and_then(|name| ErrorKind::from_name(&name)) else {
            return Ok(Ok(answer["ok"].take()));
        };
        let error = SkillError::new(kind, part("/error/message").unwrap_or_default());
        let output = answer.pointer("/error/output").and_then(|output| ErrorOutput::deserialize(output).ok());
        let error = match output {
            Some(output) => error.with_output(output),
            None => error,
        };
        Ok(Err(match part("/error/help") {
            Some(help) => error.with_help(help),
            None => error,
        }))
    }
}
