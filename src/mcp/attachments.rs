//! The files that the prompt of a skill has with it: pictures and sounds as such, and all others as resources.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{ContentBlock, PromptMessage, Role};

use super::resources::{contents, invisible_notice};
use super::skill_content::{file_uri, mime_type, read_file, shown_line};
use crate::engine::Engine;
use crate::registry::Skill;
use metier_core::error::{ErrorKind, Result, SkillError};

/// The most bytes of all files of one prompt.
const MAX_BYTES: usize = 8 << 20;
/// The pictures that models look at; others are files.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A message for each file, and one about its invisible characters. Reads them; `output` if they are too large together.
pub(super) fn attachments(engine: &Engine, skill: &Skill) -> Result<Vec<PromptMessage>> {
    let paths = skill.contract().map_or(&[][..], |contract| &contract.attachments);
    let (mut messages, mut size) = (Vec::new(), 0);
    for path in paths {
        let content = read_file(engine, skill, path)?;
        size += content.len();
        if size > MAX_BYTES {
            let sentence = format!(
                "the files of the prompt {} have more than {} MiB, up to {}",
                shown_line(skill.name()),
                MAX_BYTES >> 20,
                shown_line(path)
            );
            return Err(SkillError::new(ErrorKind::Output, sentence));
        }
        let (kind, notice) = (mime_type(path), invisible_notice(&content));
        let block = if PICTURES.contains(&kind) {
            ContentBlock::image(STANDARD.encode(content), kind)
        } else if kind.starts_with("audio/") {
            ContentBlock::audio(STANDARD.encode(content), kind)
        } else {
            let uri = file_uri(skill.name(), path);
            ContentBlock::resource(contents(content, &uri).with_mime_type(kind))
        };
        messages.push(PromptMessage::new(Role::User, block));
        messages.extend(notice.map(|notice| PromptMessage::new_text(Role::User, notice)));
    }
    Ok(messages)
}
