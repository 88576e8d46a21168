//! Errors that pass through Rhai: the error of a host function keeps its kind, a script's own error gets file, line and
//! column.

use rhai::{Dynamic, EvalAltResult, FuncRegistration, Map, Module, Position};

use super::from_rhai;
use metier_core::error::{ErrorKind, Hint, LimitKind, Location, SkillError};
use metier_core::executor::json_boundary::out_of_memory;

/// The value that `catch (e)` gives a script when a host function failed: `.kind`, `.message`, `.help`, `.output`, and a text
/// where one is needed.
#[derive(Clone)]
pub(super) struct HostFailure(SkillError);

impl From<SkillError> for HostFailure {
    fn from(error: SkillError) -> Self {
        Self(error)
    }
}

impl HostFailure {
    /// The error as Rhai throws it; the engine adds the position of the call.
    pub(super) fn into_rhai_error(self) -> EvalAltResult {
        EvalAltResult::ErrorRuntime(Dynamic::from(self), Position::NONE)
    }

    /// Registers the properties that scripts may read of an error.
    pub(super) fn install(module: &mut Module) {
        module.set_custom_type::<Self>("error");
        module.set_getter_fn("kind", |this: &mut Self| Ok(this.0.kind().name()));
        module.set_getter_fn("message", |this: &mut Self| Ok(this.0.message().to_owned()));
        module.set_getter_fn("help", |this: &mut Self| {
            Ok(this.0.help().map_or(Dynamic::UNIT, |help| help.to_owned().into()))
        });
        module.set_getter_fn("output", |this: &mut Self| {
            Ok(this.0.output().map_or(Dynamic::UNIT, |output| {
                let number =
                    |value: Option<i32>| value.map_or(Dynamic::UNIT, |value| i64::from(value).into());
                let mut fields = Map::new();
                fields.insert("exit_code".into(), number(output.exit_code));
                fields.insert("signal".into(), number(output.signal));
                fields.insert("stdout".into(), output.stdout.clone().into());
                fields.insert("stderr".into(), output.stderr.clone().into());
                fields.into()
            }))
        });
        for name in ["to_string", "to_debug", "print", "debug"] {
            FuncRegistration::new(name)
                .in_global_namespace()
                .set_into_module(module, |this: &mut Self| this.0.message().to_owned());
        }
    }
}

/// The error for the way in which a script ended.
pub(super) fn from_rhai(thrown: EvalAltResult, file: &str, memory: u64) -> SkillError {
    let (innermost, calls) = unwind(thrown);
    let mut frames = Frames::new(file);
    for (position, function) in calls.iter().rev() {
        frames.push(*position, function);
    }
    let at = innermost.position();
    let error = innermost_error(innermost, memory);
    let error = match location(file, at) {
        Some(at) => error.with_location(at),
        None => error,
    };
    error.with_traceback(frames.innermost_first(at))
}

/// The innermost error, and the calls that led to it, outermost first: the position and the function's name.
fn unwind(thrown: EvalAltResult) -> (EvalAltResult, Vec<(Position, String)>) {
    let (mut error, mut calls) = (thrown, Vec::new());
    loop {
        match error {
            EvalAltResult::ErrorInFunctionCall(name, _, inner, at) => {
                calls.push((at, name));
                error = *inner;
            }
            EvalAltResult::ErrorInModule(_, inner, _) => error = *inner,
            other => return (other, calls),
        }
    }
}

fn innermost_error(mut error: EvalAltResult, memory: u64) -> SkillError {
    let script = |sentence: String| SkillError::new(ErrorKind::Script, sentence);
    match error {
        EvalAltResult::ErrorRuntime(value, _) => thrown_value_error(value),
        EvalAltResult::ErrorDataTooLarge(..) => out_of_memory(memory),
        EvalAltResult::ErrorTooManyOperations(_) => {
            SkillError::new(ErrorKind::Operations, "the script executed more operations than it may")
                .with_help("make it do less; work over much data is faster in host functions")
                .with_hint(Hint::Limit(LimitKind::Operations))
        }
        EvalAltResult::ErrorStackOverflow(_) => script("the script's calls are nested too deep".into()),
        _ => {
            error.clear_position();
            script(error.to_string())
        }
    }
}

/// The error for a value that a script threw, or with which a host function failed.
fn thrown_value_error(value: Dynamic) -> SkillError {
    let value = match value.try_cast_result::<HostFailure>() {
        Ok(failure) => return failure.0,
        Err(value) => value,
    };
    let sentence = match (value.as_immutable_string_ref(), from_rhai::value(&value, 4096)) {
        (Ok(text), _) => text.to_string(),
        (_, Ok(json)) => format!("the script raised {json}"),
        (_, Err(_)) => format!("the script raised a {}", from_rhai::type_name(&value)),
    };
    SkillError::new(ErrorKind::Script, sentence)
}

/// The location in the file; Rhai has none for errors outside of any statement.
pub(super) fn location(file: &str, position: Position) -> Option<Location> {
    let number = |count: Option<usize>| count.and_then(|count| u32::try_from(count).ok());
    let line = number(position.line())?;
    Some(Location::new(file, Some(line), number(position.position())))
}

/// The frames for a reader, in the form of the other languages: `scripts/main.rhai:2 function f`.
struct Frames<'a> {
    file: &'a str,
    /// Innermost first: the position of a call, and the function that it calls.
    calls: Vec<(Position, &'a str)>,
}

impl<'a> Frames<'a> {
    const MAX: usize = 12;

    fn new(file: &'a str) -> Self {
        Self { file, calls: Vec::new() }
    }

    fn push(&mut self, position: Position, function: &'a str) {
        self.calls.push((position, function));
    }

    fn innermost_first(&self, at: Position) -> Vec<String> {
        let places = std::iter::once(at).chain(self.calls.iter().map(|(position, _)| *position));
        let functions = self.calls.iter().map(|(_, function)| Some(*function)).chain([None]);
        let frame = |(place, function): (Position, Option<&str>)| {
            let line = place.line()?;
            Some(match function {
                Some(name) if name.starts_with("anon$") => format!("{}:{line} closure", self.file),
                Some(name) => format!("{}:{line} function {name}", self.file),
                None => format!("{}:{line}", self.file),
            })
        };
        places.zip(functions).filter_map(frame).take(Self::MAX).collect()
    }
}
