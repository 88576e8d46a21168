//! The messages between the host and the compiler process: a request with a module and its name, and a response with machine
//! code or an error.
//!
//! The compiler parses untrusted input, so the host validates every part of the form of its response.

use serde::{Deserialize, Serialize};

use super::compilation::CompiledModule;
use crate::error::{ErrorKind, Location, Result, SkillError};
use crate::executor::Script;
use crate::runtimes::wasm::cache_entry::compiler_fingerprint;
use crate::runtimes::wasm::metadata::ModuleMetadata;

/// The maximum size of a response in bytes. Machine code is a few times as large as a module, which has 16 MiB at most.
pub(super) const MAX_RESPONSE_BYTES: usize = 192 << 20;

/// The maximum size in bytes of a response without its machine code.
const MAX_TEXT_BYTES: usize = 1 << 20;

#[derive(Serialize, Deserialize)]
struct RequestHeader {
    path: String,
    function: Option<String>,
    counts: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorMessage {
    kind: String,
    message: String,
    help: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
}

/// Encodes a request to the compiler.
pub(super) fn encode_request(script: &Script, counts: bool) -> Vec<u8> {
    let head = RequestHeader { path: script.path.clone(), function: script.function.clone(), counts };
    let head = serde_json::to_vec(&head).unwrap_or_default();
    let mut request = Vec::with_capacity(head.len() + script.source.len() + 16);
    for part in [&head, &*script.source] {
        request.extend_from_slice(&length_prefix(part));
        request.extend_from_slice(part);
    }
    request
}

/// Decodes a request of the host.
pub(super) fn decode_request(request: &[u8]) -> Option<(Script, bool)> {
    let [head, source] = split_parts(request)?;
    let RequestHeader { path, function, counts } = serde_json::from_slice(head).ok()?;
    Some((Script { skill: String::new(), path, folder: None, source: source.into(), function }, counts))
}

/// Encodes the response to the host, in pieces: the compiler's fingerprint, the module's metadata or its error, and its
/// machine code.
pub(super) fn encode_response(compiled: Result<CompiledModule>, counts: bool) -> Vec<Vec<u8>> {
    let (text, code) = match compiled {
        Ok((facts, code)) => (facts.to_json(), code),
        Err(error) => (serde_json::to_vec(&ErrorMessage::from_error(&error)).unwrap_or_default(), Vec::new()),
    };
    let maker = compiler_fingerprint(counts).to_vec();
    [maker, text, code].into_iter().flat_map(|part| [length_prefix(&part).to_vec(), part]).collect()
}

/// Decodes the response of the compiler: the module, or its error. Any other response is rejected.
pub(super) fn decode_response(answer: &[u8], script: &Script, counts: bool) -> Result<CompiledModule> {
    let broken = |what: &str| {
        let sentence = format!("failed to compile {}: the compiler's process {what}", script.path);
        SkillError::new(ErrorKind::Unavailable, sentence)
    };
    let [maker, text, code] = split_parts(answer).ok_or_else(|| broken("answered with something else"))?;
    if maker != compiler_fingerprint(counts) {
        let help = "build the helper program and this one from the same version of metier";
        return Err(broken("is another build").with_help(help));
    }
    if text.len() > MAX_TEXT_BYTES {
        return Err(broken("answered with something else"));
    }
    if code.is_empty() {
        let fault: ErrorMessage =
            serde_json::from_slice(text).map_err(|_| broken("answered with something else"))?;
        return Err(fault.into_error(&script.path));
    }
    let facts = ModuleMetadata::from_json(text).ok_or_else(|| broken("answered with something else"))?;
    Ok((facts, code.to_vec()))
}

impl ErrorMessage {
    fn from_error(error: &SkillError) -> Self {
        let location = error.location();
        Self {
            kind: error.kind().name().to_owned(),
            message: error.message().to_owned(),
            help: error.help().map(str::to_owned),
            line: location.and_then(|location| location.line),
            column: location.and_then(|location| location.column),
        }
    }

    /// Converts to an error. Only few error kinds can be the fault of a module.
    fn into_error(self, file: &str) -> SkillError {
        let kind = ErrorKind::from_name(&self.kind).filter(|kind| *kind == ErrorKind::Memory);
        let mut error = SkillError::new(kind.unwrap_or(ErrorKind::InvalidSkill), self.message);
        if let Some(help) = self.help {
            error = error.with_help(help);
        }
        if self.line.is_some() {
            let place = Location { file: file.to_owned(), line: self.line, column: self.column };
            error = error.with_location(place);
        }
        error
    }
}

fn length_prefix(part: &[u8]) -> [u8; 8] {
    (part.len() as u64).to_le_bytes()
}

/// Splits a message into its parts, each preceded by its length, if there are exactly this many and nothing after them.
fn split_parts<const COUNT: usize>(mut message: &[u8]) -> Option<[&[u8]; COUNT]> {
    let mut parts = [&[][..]; COUNT];
    for part in &mut parts {
        let (length, rest) = message.split_first_chunk::<8>()?;
        (*part, message) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    }
    message.is_empty().then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script() -> Script {
        Script {
            skill: "test".into(),
            path: "a.wasm".into(),
            folder: None,
            source: (*b"\0asm").into(),
            function: None,
        }
    }

    fn answered(compiled: Result<CompiledModule>) -> Vec<u8> {
        encode_response(compiled, false).concat()
    }

    fn machined() -> CompiledModule {
        (
            ModuleMetadata {
                imports: vec![None],
                first_added_function: 7,
                tables: 1,
                largest_table_elements: 2,
                initial_bytes: 3,
            },
            b"code".to_vec(),
        )
    }

    #[test]
    fn what_is_asked_arrives_and_so_does_the_answer() {
        let (asked, counts) = decode_request(&encode_request(&script(), true)).unwrap();
        assert_eq!((asked.path.as_str(), &*asked.source, counts), ("a.wasm", &b"\0asm"[..], true));
        let (facts, code) = decode_response(&answered(Ok(machined())), &script(), false).unwrap();
        assert_eq!((facts.first_added_function, code.as_slice()), (7, &b"code"[..]));
        let place = Location { file: "a.wasm".into(), line: Some(3), column: None };
        let error = SkillError::new(ErrorKind::InvalidSkill, "no").with_help("do").with_location(place);
        let error = decode_response(&answered(Err(error)), &script(), false).err().unwrap();
        assert_eq!((error.message(), error.help()), ("no", Some("do")));
        assert_eq!((error.kind(), error.location().unwrap().line), (ErrorKind::InvalidSkill, Some(3)));
    }

    #[test]
    fn an_answer_of_any_other_form_is_none() {
        let whole = answered(Ok(machined()));
        let refused = |answer: &[u8]| {
            let error = decode_response(answer, &script(), false).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        };
        for end in 0..whole.len() {
            refused(&whole[..end]);
        }
        refused(&[&whole[..], b"x"].concat());
        refused(&encode_response(Ok(machined()), true).concat());
        let with = |text: &[u8]| {
            let parts = [&compiler_fingerprint(false)[..], text, b"code"];
            parts
                .iter()
                .flat_map(|part| [length_prefix(part).to_vec(), part.to_vec()])
                .collect::<Vec<_>>()
                .concat()
        };
        let facts = |imports: usize, first: u64, tables: u64, elements: u64, bytes: u64| {
            let imports = vec!["null"; imports].join(",");
            format!(
                r#"{{"imports":[{imports}],"first_added":{first},"tables":{tables},"elements":{elements},"bytes":{bytes}}}"#
            )
        };
        assert!(decode_response(&with(facts(1, 7, 1, 2, 3).as_bytes()), &script(), false).is_ok());
        for text in [
            facts(1001, 7, 1, 2, 3),
            facts(1, 1 << 31, 1, 2, 3),
            facts(1, 7, 17, 2, 3),
            facts(1, 7, 1, 1 << 40, 3),
            facts(1, 7, 1, 2, 1 << 50),
            "null".into(),
            "[".repeat(1 << 20),
            "x".repeat(2 << 20),
            r#"{"imports":[["extism:host/env","nothing",1]],"first_added":1,"tables":0,"elements":0,"bytes":0}"#.into(),
        ] {
            refused(&with(text.as_bytes()));
        }
    }

    #[test]
    fn a_fault_is_of_the_module_or_its_memory_and_nothing_else() {
        for (kind, meant) in [
            (ErrorKind::Memory, ErrorKind::Memory),
            (ErrorKind::Denied, ErrorKind::InvalidSkill),
            (ErrorKind::Cancelled, ErrorKind::InvalidSkill),
        ] {
            let answer = answered(Err(SkillError::new(kind, "x")));
            assert_eq!(decode_response(&answer, &script(), false).err().unwrap().kind(), meant);
        }
    }
}
