//! A `SKILL.md` read once: its manifest, its diagnostics, and the verdicts.

use std::ops::Range;

use super::diagnostic::{Diagnostic, Severity};
use super::frontmatter::{self, Cut, Frontmatter, MAX_HEAD};
use super::manifest::{self, Manifest};
use super::profile::Profile;
use super::report::{Report, control_character};
use super::rule;
use super::yaml::{self, Fault, Tree, Value};
use super::{repair, skills_ref};

/// Where a `SKILL.md` lies, as far as the rules look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The name of the skill's folder; a caller given `.` finds out the real one first.
    pub directory: &'a str,
    /// The name of the file, `SKILL.md` as a rule.
    pub file: &'a str,
}

/// What a `SKILL.md` says and what is wrong with it.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// What the skill says about itself; there exactly when the skill loads.
    pub manifest: Option<Manifest>,
    /// What the specification's profile finds, in the file's order as far as that is known.
    pub diagnostics: Vec<Diagnostic>,
    reference: Vec<Diagnostic>,
}

impl Parsed {
    /// Whether the skill is valid as the profile reads the specification.
    pub fn valid(&self, profile: Profile) -> bool {
        self.found(profile).iter().all(|diagnostic| diagnostic.severity < Severity::Error)
    }

    /// Whether a lenient client loads the skill: a description is there and the YAML can be read, if need be after
    /// quoting values. Everything else only warns.
    pub fn loads(&self) -> bool {
        self.manifest.is_some()
    }

    /// What the profile has to say. An [error](Severity::Error) among it is what makes the skill invalid.
    pub fn diagnostics(&self, profile: Profile) -> impl Iterator<Item = &Diagnostic> {
        self.found(profile).iter()
    }

    fn found(&self, profile: Profile) -> &[Diagnostic] {
        match profile {
            Profile::Spec => &self.diagnostics,
            Profile::SkillsRef => &self.reference,
        }
    }
}

/// What loading a skill takes of its `SKILL.md`: no verdicts but this one.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What the skill says about itself; there exactly when the skill loads.
    pub manifest: Option<Manifest>,
    /// What the specification's profile finds.
    pub diagnostics: Vec<Diagnostic>,
}

/// Parses a `SKILL.md`: the whole file, or at least its head as [`head_len`](super::head_len) measures it.
///
/// Never fails and never reads more than [`MAX_HEAD`] bytes of frontmatter; hostile text ends in a diagnostic.
pub fn parse(source: &[u8], place: Place<'_>) -> Parsed {
    let Examined { text, reading, diagnostics } = examine(source, place);
    let (manifest, reference) = match reading {
        Reading::Refused => (None, diagnostics.clone()),
        Reading::WithoutYaml => (None, skills_ref::check(text, place, None, &diagnostics)),
        Reading::Yaml(yaml) => {
            let known = (&yaml.at, yaml.tree.as_ref());
            let reference = skills_ref::check(text, place, Some(known), &diagnostics);
            (yaml.manifest, reference)
        }
    };
    Parsed { manifest, diagnostics, reference }
}

/// As [`parse`], for those who load a skill and hold it against no other profile.
pub fn load(source: &[u8], place: Place<'_>) -> Loaded {
    let Examined { reading, diagnostics, .. } = examine(source, place);
    let manifest = if let Reading::Yaml(yaml) = reading { yaml.manifest } else { None };
    Loaded { manifest, diagnostics }
}

/// A `SKILL.md` with everything said that the specification has to say.
struct Examined<'a> {
    text: &'a str,
    reading: Reading,
    diagnostics: Vec<Diagnostic>,
}

fn examine<'a>(source: &'a [u8], place: Place<'_>) -> Examined<'a> {
    let cut = frontmatter::cut(source);
    let text = valid_prefix(source, &cut);
    let mut report = Report::on(text);
    check_file_name(place.file, &mut report);
    let reading = match cut {
        Cut::TooLarge(at) => {
            let message = format!("frontmatter is not closed within {} KiB", MAX_HEAD / 1024);
            let help = "move the long text below the closing `---`";
            report.add(&rule::FRONTMATTER_TOO_LARGE, &at, message).help(help);
            Reading::Refused
        }
        _ if text.len() < source.len() => {
            refuse_encoding(source, text.len(), &mut report);
            Reading::Refused
        }
        Cut::Missing(at) => {
            let message = "SKILL.md must start with YAML frontmatter (---)";
            let help = "put `---`, name, description and `---` on lines of their own before the text";
            report.add(&rule::FRONTMATTER_MISSING, &at, message).help(help);
            Reading::WithoutYaml
        }
        Cut::Unclosed(at) => {
            let message = "frontmatter is not properly closed with ---";
            let help = "put `---` on a line of its own after the last key";
            report.add(&rule::FRONTMATTER_UNCLOSED, &at, message).help(help);
            Reading::WithoutYaml
        }
        Cut::Found(found) => read(text, &found, place, &mut report),
    };
    Examined { text, reading, diagnostics: report.finish() }
}

/// How far reading went.
enum Reading {
    /// No validator can say more.
    Refused,
    /// No YAML between delimiters; the reference may look for it elsewhere.
    WithoutYaml,
    /// To the end.
    Yaml(Box<Yaml>),
}

/// The YAML between the delimiters as it stands, and the manifest it gave, perhaps after repair.
struct Yaml {
    at: Range<usize>,
    tree: Result<Tree, Fault>,
    manifest: Option<Manifest>,
}

fn read(text: &str, found: &Frontmatter, place: Place<'_>, report: &mut Report<'_>) -> Reading {
    report.open_at(found.opening.clone());
    note_surroundings(text, found, report);
    if let Some(at) = control_character(&text[..found.end]) {
        let character = text[at..].chars().next().map_or(0, u32::from);
        let message = format!("the frontmatter holds the control character U+{character:04X} at byte {at}");
        report.add(&rule::CONTROL_CHARACTER, &(at..at + 1), message).help("remove it");
        return Reading::WithoutYaml;
    }
    let at = found.yaml.clone();
    let tree = yaml::parse_within(text, &at);
    let manifest = match &tree {
        Ok(tree) => read_tree(tree, found, place, report),
        Err(fault) => {
            repair(text, &at, fault, report).and_then(|tree| read_tree(&tree, found, place, report))
        }
    };
    Reading::Yaml(Box::new(Yaml { at, tree, manifest }))
}

fn read_tree(
    tree: &Tree,
    found: &Frontmatter,
    place: Place<'_>,
    report: &mut Report<'_>,
) -> Option<Manifest> {
    match &tree.root {
        Some(yaml::Node { value: Value::Map(entries), .. }) => {
            manifest::read(entries, place.directory, found.end, report)
        }
        root => {
            let at = root.as_ref().map_or_else(|| found.opening.clone(), |root| root.span.clone());
            let message = "frontmatter must be a YAML mapping";
            report.add(&rule::NOT_A_MAP, &at, message).help("write `name:` and `description:` lines");
            None
        }
    }
}

/// The faults that quotes may mend: plain text is often taken for flow style.
const REPAIRABLE: [rule::Rule; 2] = [rule::YAML_INVALID, rule::YAML_KEY_NOT_TEXT];

/// A second try with quotes around the values that are not YAML; says what became of it.
fn repair(text: &str, yaml: &Range<usize>, fault: &Fault, report: &mut Report<'_>) -> Option<Tree> {
    let tree = if REPAIRABLE.contains(fault.rule) {
        repair::quote_values(&text[yaml.clone()]).and_then(|repaired| {
            let mut tree = yaml::parse(&repaired.text).ok()?;
            tree.relocate(&|offset| yaml.start + repaired.original(offset));
            Some(tree)
        })
    } else {
        None
    };
    if tree.is_some() {
        let message = format!("Invalid YAML in frontmatter: {}; read with quotes put in", fault.message);
        report.add(&rule::YAML_REPAIRED, &fault.span, message).help("put quotes around the value");
    } else {
        let message = format!("Invalid YAML in frontmatter: {}", fault.message);
        report.add(fault.rule, &fault.span, message).help(fault.help());
    }
    tree
}

fn check_file_name(file: &str, report: &mut Report<'_>) {
    let rule = match file {
        "SKILL.md" => return,
        "skill.md" => &rule::FILE_NAME_LOWERCASE,
        _ => &rule::FILE_NAME,
    };
    report.add(rule, &(0..0), format!("the file is called `{file}`")).help("rename it to `SKILL.md`");
}

/// What is odd around the frontmatter, and costs nothing here.
fn note_surroundings(text: &str, found: &Frontmatter, report: &mut Report<'_>) {
    if found.has_byte_order_mark {
        let message = "the file starts with a byte order mark";
        report.add(&rule::BYTE_ORDER_MARK, &(0..0), message).help("save it as UTF-8 without one");
    }
    if !found.blank.is_empty() {
        let message = "blank lines stand before the frontmatter";
        report.add(&rule::LEADING_BLANK_LINES, &found.blank, message).help("start the file with `---`");
    }
    if let Some(at) = text[..found.end].find("\r\n") {
        report.add(&rule::CRLF, &(at..at), "lines end in CR LF");
    }
    if let Some(at) = control_character(&text[found.end..]) {
        let at = found.end + at;
        let message = format!("the body holds a control character at byte {at}");
        report.add(&rule::BODY_CONTROL_CHARACTER, &(at..at + 1), message).help("remove it");
    }
}

fn refuse_encoding(source: &[u8], at: usize, report: &mut Report<'_>) {
    let byte = source.get(at).copied().unwrap_or_default();
    let message = format!("the file is not UTF-8: byte 0x{byte:02X} at offset {at}");
    report.add(&rule::NOT_UTF8, &(at..at), message).help("save it as UTF-8");
}

/// The text up to the first byte that is not UTF-8, and no further than a head may reach.
fn valid_prefix<'a>(source: &'a [u8], cut: &Cut) -> &'a str {
    let reach = if matches!(cut, Cut::TooLarge(_)) { MAX_HEAD } else { source.len() };
    let within = &source[..source.len().min(reach)];
    within.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}
