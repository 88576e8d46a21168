//! Errors that pass through Lua: the error of a host function keeps its kind, a script's own error gets its file and line.

use std::sync::Arc;

use mlua::{
    AnyUserData, Function, Lua, LuaString, MetaMethod, UserData, UserDataFields, UserDataMethods, Value,
};

use super::from_lua::{self, ConversionBudget};
use crate::run_slot::RunSlot;
use metier_core::error::{ErrorKind, Location, SkillError};
use metier_core::policy::CancelToken;

/// The value that `pcall` returns to a script when a host function failed: `.kind`, `.message`, `.help`, `.output`, and a text
/// where one is needed.
pub(super) struct HostFailure(SkillError);

impl From<SkillError> for HostFailure {
    fn from(error: SkillError) -> Self {
        Self(error)
    }
}

impl UserData for HostFailure {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("kind", |_, this| Ok(this.0.kind().name()));
        fields.add_field_method_get("message", |_, this| Ok(this.0.message().to_owned()));
        fields.add_field_method_get("help", |_, this| Ok(this.0.help().map(str::to_owned)));
        fields.add_field_method_get("output", |lua, this| {
            let output = this.0.output().map(|output| {
                let table = lua.create_table()?;
                table.raw_set("exit_code", output.exit_code)?;
                table.raw_set("signal", output.signal)?;
                table.raw_set("stdout", output.stdout.as_str())?;
                table.raw_set("stderr", output.stderr.as_str())?;
                Ok::<_, mlua::Error>(table)
            });
            output.transpose()
        });
        fields.add_meta_field(MetaMethod::Type, "error");
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(this.0.message().to_owned()));
        // Concatenated in Lua, which counts the memory.
        methods.add_meta_function(MetaMethod::Concat, |lua, both: (Value, Value)| {
            lua.named_registry_value::<Function>(CONCAT_KEY)?.call::<Value>(both)
        });
    }
}

/// The name in the registry of the function that concatenates two values as texts.
pub(super) const CONCAT_KEY: &str = "metier.joined";

/// `located(failure, file, line)`: the failure, at the script's line that made the call.
pub(super) fn attach_location(lua: &Lua) -> mlua::Result<Function> {
    lua.create_function(|_, (failure, file, line): (AnyUserData, String, i64)| {
        // In a call through `pcall(ctx.f)`, the caller is not a line of the script but C, at line -1.
        if let Ok(line) = u32::try_from(line)
            && let Ok(mut failure) = failure.borrow_mut::<HostFailure>()
        {
            failure.0 = failure.0.clone().with_location(Location::new(file, Some(line), None));
        }
        Ok(failure)
    })
}

/// `caught(raised, traceback)`: keeps what the script ended with for the outcome.
pub(super) fn record_error(lua: &Lua, slot: &Arc<RunSlot>) -> mlua::Result<Function> {
    let slot = slot.clone();
    lua.create_function(move |_, (raised, traceback): (Value, LuaString)| {
        slot.store_error(
            script_error(&raised, &slot.file).with_traceback(script_frames(&traceback.to_string_lossy())),
        );
        Ok(())
    })
}

/// The error for a raised value. No metamethod of the script is called.
pub(super) fn script_error(raised: &Value, file: &str) -> SkillError {
    match raised {
        Value::UserData(data) => match data.borrow::<HostFailure>() {
            Ok(failure) => failure.0.clone(),
            Err(_) => SkillError::new(ErrorKind::Script, "the script raised a userdata value"),
        },
        Value::Error(error) => from_mlua(error, file),
        Value::String(text) => locate_error(ErrorKind::Script, &text.to_string_lossy(), file),
        Value::Nil => SkillError::new(ErrorKind::Script, "the script raised nil"),
        other => {
            match from_lua::value(other, None, &mut ConversionBudget::new(4096, 1 << 20, &CancelToken::new()))
            {
                Ok(value) => SkillError::new(ErrorKind::Script, format!("the script raised {value}")),
                Err(_) => {
                    SkillError::new(ErrorKind::Script, format!("the script raised a {}", other.type_name()))
                }
            }
        }
    }
}

/// The error for an error of mlua.
pub(super) fn from_mlua(error: &mlua::Error, file: &str) -> SkillError {
    match error {
        mlua::Error::MemoryError(_) => SkillError::new(ErrorKind::Memory, "out of memory"),
        mlua::Error::CallbackError { cause, .. } => from_mlua(cause, file),
        mlua::Error::RuntimeError(text) => {
            let (text, trace) = text.split_once("\nstack traceback:\n").unwrap_or((text, ""));
            locate_error(ErrorKind::Script, text, file).with_traceback(script_frames(trace))
        }
        mlua::Error::SyntaxError { .. } => syntax_error(error, file),
        other => SkillError::new(ErrorKind::Script, other.to_string()),
    }
}

/// The error for a script that does not compile: `invalid-skill`, with file and line.
pub(super) fn syntax_error(error: &mlua::Error, file: &str) -> SkillError {
    match error {
        // The compiler omits the file name: `2: Expectation identifier`.
        mlua::Error::SyntaxError { message, .. } if !message.starts_with(file) => locate_error(
            ErrorKind::InvalidSkill,
            &format!("{file}:{}", message.trim_start_matches(':')),
            file,
        ),
        mlua::Error::SyntaxError { message, .. } => locate_error(ErrorKind::InvalidSkill, message, file),
        other => SkillError::new(ErrorKind::InvalidSkill, format!("{file}: {other}")),
    }
}

/// Splits `scripts/main.lua:3: message` into its location and its message. The message stays complete: it is redacted and
/// shortened when it leaves the run.
fn locate_error(kind: ErrorKind, text: &str, file: &str) -> SkillError {
    let placed = text.strip_prefix(file).and_then(|rest| {
        let (line, sentence) = rest.strip_prefix(':')?.split_once(':')?;
        Some((line.parse().ok()?, sentence.trim_start()))
    });
    let sentence = placed.map_or(text, |(_, sentence)| sentence);
    if kind == ErrorKind::Script && sentence == "not enough memory" {
        return SkillError::new(ErrorKind::Memory, "out of memory");
    }
    match placed {
        Some((line, sentence)) => {
            SkillError::new(kind, sentence).with_location(Location::new(file, Some(line), None))
        }
        None => SkillError::new(kind, text),
    }
}

/// The frames for a reader: the script's own, innermost first, and a limited number.
fn script_frames(traceback: &str) -> Vec<String> {
    const MOST: usize = 12;
    let own = |line: &&str| !line.is_empty() && !line.starts_with("[host]") && !line.starts_with("[C]");
    traceback.lines().map(str::trim).filter(own).take(MOST).map(str::to_owned).collect()
}
