//! Which functions a script calls on `ctx` that are not there, and whether it calls `require`: Luau only says that it called nil.

use metier_core::error::{ErrorKind, Hint, SkillError};
use metier_core::host::{function, functions};
use metier_core::suggestion::{closest, did_you_mean};

/// More are not remembered of a script.
const MAX_CALLS: usize = 64;

/// What Luau says of such a call.
const NIL_CALL: &str = "attempt to call a nil value";

/// The calls of a script of what is not there, each with its line, from 1.
#[derive(Default)]
pub(super) struct MissingFunctions(Vec<(u32, String)>);

impl MissingFunctions {
    /// Those in the text of a script. A line with several of them has only the first.
    pub(super) fn new(source: &[u8]) -> Self {
        let text = String::from_utf8_lossy(source);
        let calls = text.lines().zip(1..).filter_map(|(line, number)| Some((number, missing_call(line)?)));
        Self(calls.take(MAX_CALLS).collect())
    }

    /// The error with the name of the function, if it is that of such a call.
    pub(super) fn explain(&self, error: SkillError) -> SkillError {
        let is_nil_call = error.kind() == ErrorKind::Script && error.message() == NIL_CALL;
        let Some(place) = error.location().filter(|_| is_nil_call).cloned() else { return error };
        let Some((_, name)) = self.0.iter().find(|(line, _)| Some(*line) == place.line) else { return error };
        let frames = error.traceback().to_vec();
        let explained = if name == REQUIRE {
            let help = "put the code into this file, or call another skill with ctx.skill";
            SkillError::new(ErrorKind::Script, "there is no require: a script is one file").with_help(help)
        } else {
            let near = closest(name.as_str(), functions().iter().map(|function| function.name));
            let error = SkillError::new(ErrorKind::Script, format!("ctx has no function `{name}`"));
            match near {
                Some(near) => error.with_help(did_you_mean(near)),
                None => error
                    .with_help("call one that the documentation of the host API lists")
                    .with_hint(Hint::ListFunctions),
            }
        };
        explained.with_location(place).with_traceback(frames)
    }
}

const REQUIRE: &str = "require";

/// The function that a line calls and that is not there.
fn missing_call(line: &str) -> Option<String> {
    let of_ctx =
        line.match_indices("ctx.").filter(|(at, _)| begins_word(line, *at)).find_map(|(at, sign)| {
            let name = called_name(&line[at + sign.len()..])?;
            function(name).is_none().then(|| name.to_owned())
        });
    of_ctx.or_else(|| {
        let mut words = line.match_indices(REQUIRE).filter(|(at, _)| begins_word(line, *at));
        words.any(|(at, _)| called_name(&line[at..]) == Some(REQUIRE)).then(|| REQUIRE.to_owned())
    })
}

/// Whether what stands there is no part of a longer name, nor a field.
fn begins_word(line: &str, at: usize) -> bool {
    !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':'))
}

/// The name at the beginning of a text that calls it.
fn called_name(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
    let (name, rest) = text.split_at(end);
    let is_call = rest.trim_start().starts_with(['(', '"', '\'', '{', '[']);
    (!name.is_empty() && is_call).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_core::error::Location;

    fn explained(script: &str, line: u32) -> (String, String) {
        let error = SkillError::new(ErrorKind::Script, NIL_CALL).with_location(Location::new(
            "scripts/main.lua",
            Some(line),
            None,
        ));
        let error = MissingFunctions::new(script.as_bytes()).explain(error);
        assert_eq!(error.location().unwrap().line, Some(line));
        (error.message().to_owned(), error.help().unwrap_or_default().to_owned())
    }

    #[test]
    fn a_call_of_what_ctx_does_not_have_names_it() {
        let (sentence, help) = explained("local a = 1\nreturn ctx.readfile(\"a\")", 2);
        assert_eq!((&*sentence, &*help), ("ctx has no function `readfile`", "did you mean `read_file`?"));
        let (sentence, help) = explained("return ctx.read_file('a') .. ctx.frobnicate 'b'", 1);
        assert_eq!(sentence, "ctx has no function `frobnicate`");
        assert!(help.contains("the documentation of the host API"), "{help}");
        let (sentence, help) = explained("local x = require(\"x\")", 1);
        assert!(sentence.contains("there is no require") && help.contains("ctx.skill"), "{sentence} {help}");
    }

    #[test]
    fn other_calls_stay_as_they_are() {
        for script in [
            "return f()",
            "return myctx.readfile()",
            "return ctx.readfile",
            "local t = {} t.require()",
            "ctx.read_file('a')()",
        ] {
            assert_eq!(explained(script, 1), (NIL_CALL.to_owned(), String::new()), "{script}");
        }
    }
}
