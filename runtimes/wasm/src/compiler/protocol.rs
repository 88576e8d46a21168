//! The messages between the host and the compiler process: a request with a module and its name, and a response with machine
//! code or an error.
//!
//! The compiler parses untrusted input, so the host validates every part of the form of its response.

use serde::{Deserialize, Serialize};

use super::compilation::CompiledModule;
use crate::cache_entry::compiler_fingerprint;
use crate::message_parts::{length_prefix, split_parts};
use crate::metadata::ModuleMetadata;
use crate::module_source::{ModuleRole, ModuleSource};
use metier_core::error::{ErrorKind, Location, Result, SkillError};

/// The maximum size of a response in bytes. Machine code is a few times as large as a module, which has 16 MiB at most.
pub(super) const MAX_RESPONSE_BYTES: usize = 192 << 20;

/// The maximum size in bytes of a response without its machine code.
const MAX_TEXT_BYTES: usize = 1 << 20;

#[derive(Serialize, Deserialize)]
struct RequestHeader {
    label: String,
    role: ModuleRole,
    libraries: Vec<String>,
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
pub(super) fn encode_request(source: &ModuleSource, counts: bool) -> Vec<u8> {
    let ModuleSource { label, bytes, role, libraries } = source.clone();
    let head = serde_json::to_vec(&RequestHeader { label, role, libraries, counts }).unwrap_or_default();
    let mut request = Vec::with_capacity(head.len() + bytes.len() + 16);
    for part in [&head, &*bytes] {
        request.extend_from_slice(&length_prefix(part));
        request.extend_from_slice(part);
    }
    request
}

/// Decodes a request of the host.
pub(super) fn decode_request(request: &[u8]) -> Option<(ModuleSource, bool)> {
    let [head, bytes] = split_parts(request)?;
    let RequestHeader { label, role, libraries, counts } = serde_json::from_slice(head).ok()?;
    Some((ModuleSource { label, bytes: bytes.into(), role, libraries }, counts))
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
pub(super) fn decode_response(answer: &[u8], source: &ModuleSource, counts: bool) -> Result<CompiledModule> {
    let broken = |what: &str| {
        let sentence = format!("failed to compile {}: the compiler's process {what}", source.label);
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
        return Err(fault.into_error(&source.label));
    }
    let facts = ModuleMetadata::from_json(text, &source.libraries)
        .ok_or_else(|| broken("answered with something else"))?;
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
            let place = Location::new(file, self.line, self.column);
            error = error.with_location(place);
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imports::ResolvedImport;

    fn source() -> ModuleSource {
        ModuleSource {
            label: "a.wasm".into(),
            bytes: (*b"\0asm").into(),
            role: ModuleRole::Library { name: "a".into() },
            libraries: vec!["a".into(), "b".into()],
        }
    }

    fn answered(compiled: Result<CompiledModule>) -> Vec<u8> {
        encode_response(compiled, false).concat()
    }

    fn machined() -> CompiledModule {
        (
            ModuleMetadata {
                imports: vec![ResolvedImport::Wasi, ResolvedImport::Library("b".into())],
                first_added_function: 7,
                memories: 1,
                tables: 1,
                largest_table_elements: 2,
                initial_bytes: 3,
            },
            b"code".to_vec(),
        )
    }

    #[test]
    fn what_is_asked_arrives_and_so_does_the_answer() {
        let (asked, counts) = decode_request(&encode_request(&source(), true)).unwrap();
        assert_eq!((asked.label.as_str(), &*asked.bytes, counts), ("a.wasm", &b"\0asm"[..], true));
        assert_eq!((asked.library_name(), asked.libraries.len()), (Some("a"), 2));
        let (facts, code) = decode_response(&answered(Ok(machined())), &source(), false).unwrap();
        assert_eq!((facts.first_added_function, code.as_slice()), (7, &b"code"[..]));
        let place = Location::new("a.wasm", Some(3), None);
        let error = SkillError::new(ErrorKind::InvalidSkill, "no").with_help("do").with_location(place);
        let error = decode_response(&answered(Err(error)), &source(), false).err().unwrap();
        assert_eq!((error.message(), error.help()), ("no", Some("do")));
        assert_eq!((error.kind(), error.location().unwrap().line), (ErrorKind::InvalidSkill, Some(3)));
    }

    #[test]
    fn an_answer_of_any_other_form_is_none() {
        let whole = answered(Ok(machined()));
        let refused = |answer: &[u8]| {
            let error = decode_response(answer, &source(), false).err().unwrap();
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
        let facts = |import: &str, imports: usize, numbers: [u64; 5]| {
            let imports = vec![import; imports].join(",");
            let [first, memories, tables, elements, bytes] = numbers;
            format!(
                r#"{{"imports":[{imports}],"first_added":{first},"memories":{memories},"tables":{tables},"elements":{elements},"bytes":{bytes}}}"#
            )
        };
        let accepted = |text: String| decode_response(&with(text.as_bytes()), &source(), false).is_ok();
        let (wasi, library) = (r#""wasi""#, r#"{"library":"b"}"#);
        assert!(accepted(facts(wasi, 1, [7, 1, 1, 2, 3])) && accepted(facts(library, 1, [7, 0, 1, 2, 3])));
        for text in [
            facts(wasi, 1001, [7, 1, 1, 2, 3]),
            facts(wasi, 1, [1 << 31, 1, 1, 2, 3]),
            facts(wasi, 1, [7, 2, 1, 2, 3]),
            facts(wasi, 1, [7, 1, 17, 2, 3]),
            facts(wasi, 1, [7, 1, 1, 1 << 40, 3]),
            facts(wasi, 1, [7, 1, 1, 2, 1 << 50]),
            facts(r#"{"library":"c"}"#, 1, [7, 1, 1, 2, 3]),
            facts(r#"{"library":"main"}"#, 1, [7, 1, 1, 2, 3]),
            facts(r#"{"library":"extism:host/env"}"#, 1, [7, 1, 1, 2, 3]),
            facts(r#"{"host":["extism:host/env","nothing",1]}"#, 1, [7, 1, 1, 2, 3]),
            facts(r#"{"host":["b","alloc",1]}"#, 1, [7, 1, 1, 2, 3]),
            "null".into(),
            "[".repeat(1 << 20),
            "x".repeat(2 << 20),
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
            assert_eq!(decode_response(&answer, &source(), false).err().unwrap().kind(), meant);
        }
    }
}
