//! `metier export --as` a form of another system: the definition of each skill, and what that form loses.

use std::fs;
use std::path::Path;

use metier::error::{ErrorKind, Result, SkillError};
use metier::formats::{ExportFormat, ExportSource, Exported, export};
use metier::registry::Skill;
use serde_json::json;

use super::output;
use super::session::Session;
use super::terminal::escape_line;

/// The words for the forms.
pub(super) fn forms() -> impl Iterator<Item = &'static str> {
    ExportFormat::ALL.into_iter().map(|(word, _)| word)
}

/// Writes the definitions to a folder for each skill below `out`; without it, one definition to standard output.
pub(super) fn run(names: &[String], form: &str, out: Option<&Path>, session: &Session) -> Result<u8> {
    let unknown = || SkillError::new(ErrorKind::Usage, format!("{} is not a form", escape_line(form)));
    let found = ExportFormat::ALL.into_iter().find(|(word, _)| *word == form);
    let (_, format) = found.ok_or_else(unknown)?;
    let engine = session.engine()?;
    let registry = engine.registry();
    let skills = names.iter().map(|name| registry.find(name)).collect::<Result<Vec<_>>>()?;
    if out.is_none() && skills.len() > 1 {
        return Err(SkillError::new(ErrorKind::Usage, "standard output holds one definition")
            .with_help("name one skill, or a folder with --out"));
    }
    let exported =
        skills.iter().map(|skill| Ok((*skill, export_skill(format, skill)?))).collect::<Result<Vec<_>>>()?;
    if let Some(out) = out {
        exported
            .iter()
            .try_for_each(|(skill, written)| write(out, skill, format.file_name(), &written.text))?;
    }
    session.exit_watchdog().finish();
    if session.json() {
        let record = |(skill, written): &(&Skill, Exported)| json!({"name": skill.name(), "file": format.file_name(), "text": written.text, "losses": written.losses});
        output::print_json(&exported.iter().map(record).collect::<Vec<_>>())?;
        return Ok(0);
    }
    for (skill, Exported { text, losses, .. }) in &exported {
        match out {
            Some(out) => output::print(&format!("wrote {}", shown_path(out, skill, format.file_name())))?,
            None => output::print(text.trim_end())?,
        }
        if !losses.is_empty() {
            output::eprint(&format!(
                "{form} loses of {}: {}",
                escape_line(skill.name()),
                escape_line(&losses.join("; "))
            ));
        }
    }
    Ok(0)
}

fn export_skill(format: ExportFormat, skill: &Skill) -> Result<Exported> {
    if let Some(error) = skill.contract_error() {
        return Err(error);
    }
    let text = skill.body()?;
    Ok(export(format, ExportSource { manifest: skill.manifest(), contract: skill.contract(), text: &text }))
}

/// Never in the place of another file.
fn write(out: &Path, skill: &Skill, file: &str, text: &str) -> Result<()> {
    let folder = out.join(skill.name());
    let path = folder.join(file);
    let failed = |error| SkillError::io(format_args!("failed to write {}", path.display()), error);
    fs::create_dir_all(&folder).map_err(failed)?;
    let created = fs::OpenOptions::new().write(true).create_new(true).open(&path);
    created.and_then(|mut created| std::io::Write::write_all(&mut created, text.as_bytes())).map_err(failed)
}

fn shown_path(out: &Path, skill: &Skill, file: &str) -> String {
    escape_line(&out.join(skill.name()).join(file).display().to_string())
}
