//! What is left of a journal: taken up, or refused, and mended once.

use std::path::Path;

use metier::error::{Result, SkillError};
use metier::plan::{Journal, Plan};
use metier::policy::CancelToken;
use metier_plan::{JournaledRun, NoCallees, from_sequence, open_journal};
use serde_json::json;
use sha2::{Digest, Sha256};

/// Any lines behind the head of a journal. One that begins with `=` gets the checksum that makes it whole.
pub fn journal(source: &[u8]) {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("a folder: {error}"));
    let file = folder.path().join("x.journal");
    let plan = from_sequence(br#"[{"tool": "a"}, {"tool": "b"}]"#, "scripts/sequence.json");
    let plan = plan.unwrap_or_else(|found| panic!("{found:?}"));
    let (head, rest) = if let Some(rest) = source.strip_prefix(b"^") {
        // Without a head: whatever begins like this.
        (Vec::new(), rest)
    } else {
        drop(open(&file, &plan).unwrap_or_else(|error| panic!("{error}")));
        (read(&file), source)
    };
    let lines = rest.split_inclusive(|&byte| byte == b'\n').flat_map(|line| match line.strip_prefix(b"=") {
        Some(content) => {
            [checksum(content.strip_suffix(b"\n").unwrap_or(content)), content.to_vec()].concat()
        }
        None => line.to_vec(),
    });
    let whole: Vec<u8> = head.iter().copied().chain(lines).collect();
    write(&file, &whole);
    match open(&file, &plan) {
        Err(error) => {
            assert!(!error.message().is_empty());
            assert!(whole.starts_with(&read(&file)), "a journal that is refused is not written to");
        }
        Ok(journal) => {
            drop(journal);
            let mended = read(&file);
            assert!(head.is_empty() || (mended.starts_with(&head) && whole.starts_with(&mended)));
            drop(
                open(&file, &plan).unwrap_or_else(|error| panic!("taken up once and then refused: {error}")),
            );
            assert_eq!(read(&file), mended, "what was mended is whole");
        }
    }
}

fn open(file: &Path, plan: &Plan) -> Result<Journal, SkillError> {
    let (input, token) = (json!({}), CancelToken::new());
    let run = JournaledRun {
        project_identity: None,
        skill: "x",
        identity: "x",
        qualified_name: None,
        project: None,
        plan,
        input: &input,
        saves_input: true,
        callees: &NoCallees,
        token: &token,
    };
    open_journal(file, &run)
}

/// As a line begins.
fn checksum(content: &[u8]) -> Vec<u8> {
    let digits =
        Sha256::digest(content)[..8].iter().fold(String::new(), |sum, byte| format!("{sum}{byte:02x}"));
    format!("{digits} ").into_bytes()
}

fn read(file: &Path) -> Vec<u8> {
    std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn write(file: &Path, bytes: &[u8]) {
    std::fs::write(file, bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}
