//! What the parser promises, as sentences.

mod hostile;
mod lenient;
mod reference;
mod spec;

use super::{Manifest, ParsedSkill, Profile, Severity, SkillLocation, parse};

/// A `SKILL.md` with this text, in a folder of this name.
fn read(directory: &str, text: impl AsRef<[u8]>) -> ParsedSkill {
    parse(text.as_ref(), SkillLocation { directory, file_name: "SKILL.md" })
}

/// The same in a folder called `pdf`, from its frontmatter.
fn pdf(frontmatter: &str) -> ParsedSkill {
    read("pdf", format!("---\n{frontmatter}\n---\n# Body\n"))
}

/// A valid `pdf` with further lines.
fn pdf_with(lines: &str) -> ParsedSkill {
    pdf(&format!("name: pdf\ndescription: Reads PDF files.\n{lines}"))
}

fn manifest(parsed: ParsedSkill) -> Manifest {
    parsed.manifest.expect("the skill loads")
}

/// The codes of the errors a profile finds.
fn errors(parsed: &ParsedSkill, profile: Profile) -> Vec<&'static str> {
    let of = |severity| parsed.diagnostics(profile).filter(move |found| found.severity == severity);
    of(Severity::Error).map(|found| found.code).collect()
}

/// All codes the specification's profile finds.
fn codes(parsed: &ParsedSkill) -> Vec<&'static str> {
    parsed.diagnostics.iter().map(|found| found.code).collect()
}

/// Code, line and column of what the specification's profile finds.
fn places(parsed: &ParsedSkill) -> Vec<(&'static str, u32, u32)> {
    parsed.diagnostics.iter().map(|found| (found.code, found.line, found.column)).collect()
}

/// Each anchor eight times the one before: 8^26 values.
pub(super) fn billion_laughs() -> String {
    let first = "a: &a [lol, lol, lol, lol, lol, lol, lol, lol]".to_owned();
    let rest = ('a'..='y').zip('b'..='z').map(|(before, next)| {
        let copies = vec![format!("*{before}"); 8].join(", ");
        format!("{next}: &{next} [{copies}]")
    });
    std::iter::once(first).chain(rest).collect::<Vec<_>>().join("\n")
}
