//! Parses a `SKILL.md` to its manifest, its diagnostics and the verdicts.

use std::ops::Range;

use super::diagnostic::{Diagnostic, Severity};
use super::frontmatter::{self, Frontmatter, FrontmatterMatch, MAX_FRONTMATTER};
use super::manifest::{self, Manifest, SkillLocation};
use super::profile::Profile;
use super::yaml::{self, Entry, Tree, Value, YamlError};
use super::{dropped_text, repair, skills_ref, untitled};
use crate::diagnostic_sink::{DiagnosticSink, find_control_character};
use crate::lint;

/// A parsed `SKILL.md`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ParsedSkill {
    /// The frontmatter; present exactly when the skill loads.
    pub manifest: Option<Manifest>,
    /// The diagnostics under the profile `spec`, in the order of the file as far as that is known.
    pub diagnostics: Vec<Diagnostic>,
    skills_ref_diagnostics: Vec<Diagnostic>,
}

impl ParsedSkill {
    /// Whether the skill is valid as the profile reads the specification.
    pub fn is_valid(&self, profile: Profile) -> bool {
        !has_error(self.diagnostics_of(profile))
    }

    /// Whether a lenient client loads the skill: it has a description, and its YAML can be read, perhaps only after quotes
    /// were added; or it has no frontmatter, and its text begins with what describes it. Everything else is only a warning.
    pub fn is_loadable(&self) -> bool {
        self.manifest.is_some()
    }

    /// The diagnostics under a profile. An [error](Severity::Error) among them makes the skill invalid.
    pub fn diagnostics(&self, profile: Profile) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics_of(profile).iter()
    }

    fn diagnostics_of(&self, profile: Profile) -> &[Diagnostic] {
        match profile {
            Profile::Spec => &self.diagnostics,
            Profile::AgentPlugins if has_error(&self.diagnostics) => &self.diagnostics,
            Profile::SkillsRef | Profile::AgentPlugins => &self.skills_ref_diagnostics,
        }
    }
}

fn has_error(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|diagnostic| diagnostic.severity >= Severity::Error)
}

/// A `SKILL.md` parsed only to load the skill, without the verdict of other profiles.
#[derive(Debug, Clone)]
pub struct LoadedSkill {
    /// The frontmatter; present exactly when the skill loads.
    pub manifest: Option<Manifest>,
    /// The diagnostics under the profile `spec`.
    pub diagnostics: Vec<Diagnostic>,
}

/// Parses a `SKILL.md`: the whole file, or at least as much as [`frontmatter_len`](super::frontmatter_len) asks for.
///
/// Never fails and never reads more than [`MAX_FRONTMATTER`] bytes of frontmatter; hostile text results in a diagnostic.
pub fn parse(source: &[u8], place: SkillLocation<'_>) -> ParsedSkill {
    let Examination { text, reading, diagnostics } = examine(source, place);
    let (manifest, reference) = match reading {
        ParseProgress::Rejected => (None, diagnostics.clone()),
        ParseProgress::NoYaml => (None, skills_ref::check(text, place, None, &diagnostics)),
        ParseProgress::NoFrontmatter(manifest) => {
            (manifest.map(|manifest| *manifest), skills_ref::check(text, place, None, &diagnostics))
        }
        ParseProgress::Yaml(yaml) => {
            let known = (&yaml.range, yaml.tree.as_ref());
            let reference = skills_ref::check(text, place, Some(known), &diagnostics);
            (yaml.manifest, reference)
        }
    };
    ParsedSkill { manifest, diagnostics, skills_ref_diagnostics: reference }
}

/// Like [`parse`], without the verdict of other profiles.
pub fn load(source: &[u8], place: SkillLocation<'_>) -> LoadedSkill {
    let Examination { reading, diagnostics, .. } = examine(source, place);
    let manifest = match reading {
        ParseProgress::Yaml(yaml) => yaml.manifest,
        ParseProgress::NoFrontmatter(manifest) => manifest.map(|manifest| *manifest),
        ParseProgress::Rejected | ParseProgress::NoYaml => None,
    };
    LoadedSkill { manifest, diagnostics }
}

/// The keys of a frontmatter that [`load`] accepted, with their spans in the text, for what reads more of it.
pub fn frontmatter_entries(source: &[u8]) -> Option<(&str, Vec<Entry>)> {
    let cut = frontmatter::find_frontmatter(source);
    let text = utf8_prefix(source, &cut);
    let FrontmatterMatch::Found(found) = cut else { return None };
    let yaml = text.get(found.yaml.clone())?;
    let tree = yaml::parse_within(text, &found.yaml).ok().or_else(|| {
        let repaired = repair::quote_values(yaml)?;
        let mut tree = yaml::parse(&repaired.text).ok()?;
        tree.relocate(&|offset| found.yaml.start + repaired.original_offset(offset));
        Some(tree)
    });
    match tree?.root {
        Some(yaml::Node { value: Value::Map(entries), .. }) => Some((text, entries)),
        _ => None,
    }
}

/// A `SKILL.md` checked under the profile `spec`.
struct Examination<'a> {
    text: &'a str,
    reading: ParseProgress,
    diagnostics: Vec<Diagnostic>,
}

fn examine<'a>(source: &'a [u8], place: SkillLocation<'_>) -> Examination<'a> {
    let cut = frontmatter::find_frontmatter(source);
    let text = utf8_prefix(source, &cut);
    let mut report = DiagnosticSink::new(text);
    check_file_name(place.file_name, &mut report);
    let reading = match cut {
        FrontmatterMatch::TooLarge(at) => {
            let message = format!("frontmatter is not closed within {} KiB", MAX_FRONTMATTER / 1024);
            let help = "move the long text below the closing `---`";
            report.add(&lint::FRONTMATTER_TOO_LARGE, &at, message).help(help);
            ParseProgress::Rejected
        }
        _ if text.len() < source.len() => {
            report_encoding(source, text.len(), &mut report);
            ParseProgress::Rejected
        }
        FrontmatterMatch::Missing(first) => {
            if let Some(at) = frontmatter::misplaced_frontmatter(source) {
                let message = "there are lines before the frontmatter, so that nothing in it counts";
                let help = "remove all that is above the first `---`";
                report.add(&lint::FRONTMATTER_MISPLACED, &at, message).help(help);
                ParseProgress::NoYaml
            } else {
                let message = "SKILL.md must start with YAML frontmatter (---)";
                let help = "put `---`, name, description and `---` on lines of their own before the text";
                report.add(&lint::FRONTMATTER_MISSING, &first, message).help(help);
                ParseProgress::NoFrontmatter(untitled::read(text, place.directory, &mut report).map(Box::new))
            }
        }
        FrontmatterMatch::Unclosed(at) => {
            let message = "frontmatter is not properly closed with ---";
            let help = "put `---` on a line of its own after the last key";
            report.add(&lint::FRONTMATTER_UNCLOSED, &at, message).help(help);
            ParseProgress::NoYaml
        }
        FrontmatterMatch::Found(found) => read(text, &found, place, &mut report),
    };
    Examination { text, reading, diagnostics: report.finish() }
}

/// How far parsing went.
enum ParseProgress {
    /// The file cannot be read as text, so no other profile can check it either.
    Rejected,
    /// There is no YAML between delimiters; the reference validator may find some elsewhere.
    NoYaml,
    /// The file is text only, which describes the skill.
    NoFrontmatter(Option<Box<Manifest>>),
    /// There is YAML.
    Yaml(Box<ParsedYaml>),
}

/// The YAML between the delimiters as written, and the manifest, perhaps of the repaired text.
struct ParsedYaml {
    range: Range<usize>,
    tree: Result<Tree, YamlError>,
    manifest: Option<Manifest>,
}

fn read(
    text: &str,
    found: &Frontmatter,
    place: SkillLocation<'_>,
    report: &mut DiagnosticSink<'_>,
) -> ParseProgress {
    report.set_opening(found.opening.clone());
    lint_surroundings(text, found, report);
    if let Some(at) = find_control_character(&text[..found.body_start]) {
        let character = text[at..].chars().next().map_or(0, u32::from);
        let message = format!("the frontmatter holds the control character U+{character:04X} at byte {at}");
        report.add(&lint::CONTROL_CHARACTER, &(at..at + 1), message).help("remove it");
        return ParseProgress::NoYaml;
    }
    let at = found.yaml.clone();
    let tree = yaml::parse_within(text, &at);
    let manifest = match &tree {
        Ok(tree) => read_tree(tree, (text, found), place, report),
        Err(fault) => repair_yaml(text, &at, fault, report)
            .and_then(|tree| read_tree(&tree, (text, found), place, report)),
    };
    ParseProgress::Yaml(Box::new(ParsedYaml { range: at, tree, manifest }))
}

fn read_tree(
    tree: &Tree,
    (text, found): (&str, &Frontmatter),
    place: SkillLocation<'_>,
    report: &mut DiagnosticSink<'_>,
) -> Option<Manifest> {
    match &tree.root {
        Some(yaml::Node { value: Value::Map(entries), .. }) => {
            dropped_text::report(text, entries, report);
            manifest::read(entries, place.directory, found.body_start, report)
        }
        root => {
            let at = root.as_ref().map_or_else(|| found.opening.clone(), |root| root.span.clone());
            let message = "frontmatter must be a YAML mapping";
            report.add(&lint::NOT_A_MAP, &at, message).help("write `name:` and `description:` lines");
            None
        }
    }
}

/// The errors that quotes may fix: plain text is often read as flow style.
const REPAIRABLE: [lint::Rule; 2] = [lint::YAML_INVALID, lint::YAML_KEY_NOT_TEXT];

/// Tries again with quotes around the values that are not YAML, and reports the result.
fn repair_yaml(
    text: &str,
    yaml: &Range<usize>,
    fault: &YamlError,
    report: &mut DiagnosticSink<'_>,
) -> Option<Tree> {
    let tree = if REPAIRABLE.contains(fault.rule) {
        repair::quote_values(&text[yaml.clone()]).and_then(|repaired| {
            let mut tree = yaml::parse(&repaired.text).ok()?;
            tree.relocate(&|offset| yaml.start + repaired.original_offset(offset));
            Some(tree)
        })
    } else {
        None
    };
    if tree.is_some() {
        let message = format!("Invalid YAML in frontmatter: {}; read with quotes put in", fault.message);
        let help = fault.layout_help_in(text).unwrap_or_else(|| "put quotes around the value".into());
        report.add(&lint::YAML_REPAIRED, &fault.span, message).help(help);
    } else {
        let message = format!("Invalid YAML in frontmatter: {}", fault.message);
        report.add(fault.rule, &fault.span, message).help(fault.help_in(text));
    }
    tree
}

fn check_file_name(file: &str, report: &mut DiagnosticSink<'_>) {
    let rule = match file {
        "SKILL.md" => return,
        "skill.md" => &lint::FILE_NAME_LOWERCASE,
        _ => &lint::FILE_NAME,
    };
    report.add(rule, &(0..0), format!("the file is called `{file}`")).help("rename it to `SKILL.md`");
}

/// Warns about what stands around the frontmatter.
fn lint_surroundings(text: &str, found: &Frontmatter, report: &mut DiagnosticSink<'_>) {
    if found.has_byte_order_mark {
        let message = "the file starts with a byte order mark";
        report.add(&lint::BYTE_ORDER_MARK, &(0..0), message).help("save it as UTF-8 without one");
    }
    if !found.blank_lines.is_empty() {
        let message = "blank lines stand before the frontmatter";
        report.add(&lint::LEADING_BLANK_LINES, &found.blank_lines, message).help("start the file with `---`");
    }
    if let Some(at) = text[..found.body_start].find("\r\n") {
        report.add(&lint::CRLF, &(at..at), "lines end in CR LF");
    }
    if let Some(at) = find_control_character(&text[found.body_start..]) {
        let at = found.body_start + at;
        let message = format!("the body holds a control character at byte {at}");
        report.add(&lint::BODY_CONTROL_CHARACTER, &(at..at + 1), message).help("remove it");
    }
}

fn report_encoding(source: &[u8], at: usize, report: &mut DiagnosticSink<'_>) {
    let byte = source.get(at).copied().unwrap_or_default();
    let message = format!("the file is not UTF-8: byte 0x{byte:02X} at offset {at}");
    report.add(&lint::NOT_UTF8, &(at..at), message).help("save it as UTF-8");
}

/// The text up to the first byte that is not UTF-8, and at most [`MAX_FRONTMATTER`] bytes if the frontmatter is too large.
fn utf8_prefix<'a>(source: &'a [u8], cut: &FrontmatterMatch) -> &'a str {
    let reach = if matches!(cut, FrontmatterMatch::TooLarge(_)) { MAX_FRONTMATTER } else { source.len() };
    let within = &source[..source.len().min(reach)];
    within.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}
