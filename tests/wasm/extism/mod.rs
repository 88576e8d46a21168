//! What metier makes of plug-ins, compared with what Extism itself answered: output byte for byte, the text that a plug-in fails with,
//! and what it logs.
//!
//! One row of a table is one case. Where metier differs on purpose, the row says why, and `docs/wasm.md` says it too. The answers of Extism
//! are in `recorded.json`; `just oracle` asks it again.

mod executor;
mod kernel;
mod kits;
mod linking;
mod manifest;
mod oracle;
mod server;
mod text;
mod wasi;
#[cfg(feature = "http")]
mod web;

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// What both are asked to run.
#[derive(Clone)]
pub struct Case<'a> {
    /// A module, as text or binary.
    pub module: &'a [u8],
    pub function: &'a str,
    pub input: Value,
    pub config: &'a [(&'a str, &'a str)],
    /// The host that may be reached.
    pub host: Option<&'a str>,
    pub wasi: bool,
    /// Whether it calls functions of the host, for which there is a project with one file.
    pub user: bool,
    /// Whether the module is a manifest that names its modules.
    pub is_manifest: bool,
    /// The address of the server in the input, which is another one each time.
    pub server: Option<&'a str>,
}

/// The project's file and its content.
pub const FILE: (&str, &str) = ("a.txt", "one  two\n\tgrüße \"four\"\r\nfive");

impl<'a> Case<'a> {
    pub fn new(module: &'a [u8]) -> Self {
        Self {
            module,
            function: "run",
            input: Value::Null,
            config: &[],
            host: None,
            wasi: false,
            user: false,
            is_manifest: false,
            server: None,
        }
    }
}

/// What one of them answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The output, or the sentence of the failure.
    pub result: Result<String, String>,
    /// Level and text.
    pub log: Vec<(String, String)>,
}

impl Answer {
    /// With the digest of an output in the place of a long one.
    fn summary(self) -> Self {
        const MAX_BYTES: usize = 500;
        let shorten = |output: String| match output.len() {
            0..=MAX_BYTES => output,
            length => format!("{length} bytes, SHA-256 {}", hex(&Sha256::digest(&output))),
        };
        let log = self.log.into_iter().map(|(level, text)| (level, shorten(text))).collect();
        Self { result: self.result.map(shorten), log }
    }
}

/// How far the answers agree.
#[derive(Clone, Copy, Debug)]
pub enum Agreement {
    /// Both answer with the same output.
    Output,
    /// Both fail with the same text, that of the plug-in.
    Error,
    /// Both fail, each with a sentence of its own.
    Failure,
    /// They differ, on purpose; the reason.
    Differs(&'static str),
}

/// Why the two do not agree as they should; nothing if they do.
pub fn disagreement(case: &Case<'_>, agreement: Agreement) -> Option<String> {
    let (ours, theirs) = (executor::run(case).summary(), oracle::answer(case));
    let is_same = match agreement {
        Agreement::Output => ours == theirs && ours.result.is_ok(),
        Agreement::Error => ours == theirs && ours.result.is_err(),
        Agreement::Failure => ours.result.is_err() && theirs.result.is_err() && ours.log == theirs.log,
        // A reason without a difference is out of date.
        Agreement::Differs(_) => {
            ours.result.is_ok() != theirs.result.is_ok() || ours != theirs && ours.result.is_ok()
        }
    };
    (!is_same).then(|| {
        let expected = match agreement {
            Agreement::Differs(reason) => format!("a difference, because {reason}"),
            agreement => format!("{agreement:?}"),
        };
        format!("expected {expected}\n    metier: {}\n    Extism: {}", shown(&ours), shown(&theirs))
    })
}

fn shown(answer: &Answer) -> String {
    let text: String = format!("{:?} {:?}", answer.result, answer.log);
    text.chars().take(400).collect()
}

/// A module by its bytes, as manifests name it.
fn data_of(module: &str) -> Value {
    json!({"data": STANDARD.encode(module)})
}

fn hex(bytes: &[u8]) -> String {
    let mut digits = String::new();
    for byte in bytes {
        write!(digits, "{byte:02x}").expect("has room");
    }
    digits
}

/// Fails with every row that does not hold.
pub fn hold(rows: impl IntoIterator<Item = (String, Option<String>)>) {
    let wrong: Vec<String> =
        rows.into_iter().filter_map(|(name, wrong)| Some(format!("{name}: {}", wrong?))).collect();
    assert!(wrong.is_empty(), "{} rows do not hold:\n{}", wrong.len(), wrong.join("\n"));
}
