//! The tools of the server itself, by which a model finds skills, and reads their text and files when it needs them.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::inventory::{Inventory, gone_error};
use super::results::{Audience, MAX_TEXT, ResultStore, error_result, shortened_text};
use super::skill_content::{activation, invisible_characters, read_file, shown_line, shown_text};
use super::tools::{ACTIVATE, LIST, READ_FILE, READ_RESULT, title_from_names};
use crate::engine::Engine;
use crate::registry::Skill;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::sanitizer::text_for_model;

/// Maximum bytes of a list of skills.
const MAX_LIST: usize = 20_000;
/// Maximum characters of a description in it.
const MAX_LISTED_DESCRIPTION: usize = 200;

/// The skills whose text the client has, where the revision of the protocol has sessions.
#[derive(Default)]
pub(super) struct ActivatedSkills(Mutex<HashSet<(String, u64)>>);

/// The tools as a client lists them.
pub(super) fn tools(inventory: &Inventory) -> Vec<Tool> {
    let names: Vec<String> = inventory.for_models().map(|skill| text_for_model(skill.name())).collect();
    let text = |about: &str| json!({"type": "string", "description": about});
    let mut tools = vec![tool(
        LIST,
        "Lists the skills, or those that fit a search: instructions for tasks, of which some are also tools. Activate one to read it.",
        &json!({"query": text("Words to look for in names and descriptions.")}),
        &[],
    )];
    if !names.is_empty() {
        let name = json!({"type": "string", "enum": names, "description": "The name of the skill."});
        let again =
            json!({"type": "boolean", "description": "Return the text even if it was returned before."});
        tools.push(tool(
            ACTIVATE,
            "Returns the instructions of a skill, its folder and the list of its files. Call it before working on a task that a skill describes.",
            &json!({"name": name, "again": again}),
            &["name"],
        ));
        tools.push(tool(
            READ_FILE,
            "Returns a file of a skill, by its path in the list that activate_skill returns.",
            &json!({"skill": name, "path": text("The path of the file.")}),
            &["skill", "path"],
        ));
    }
    let offset =
        json!({"type": "integer", "minimum": 0, "description": "The byte to begin with, 0 if absent."});
    tools.push(tool(
        READ_RESULT,
        "Returns a part of a result that was too large for an answer.",
        &json!({"uri": text("The address of the result."), "offset": offset}),
        &["uri"],
    ));
    tools
}

fn tool(name: &'static str, description: &'static str, properties: &Value, required: &[&str]) -> Tool {
    let schema = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    });
    let schema: JsonObject = schema.as_object().cloned().unwrap_or_default();
    let annotations =
        ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false);
    Tool::new(name, description, schema)
        .with_title(title_from_names(name, None))
        .with_annotations(annotations)
}

/// The result of one of these tools; `None` for any other name. Reads files.
pub(super) fn call(
    name: &str,
    arguments: &Map<String, Value>,
    (engine, inventory): (&Engine, &Inventory),
    activated: Option<&ActivatedSkills>,
    audience: &Audience<'_>,
) -> Option<CallToolResult> {
    let text = |argument: &str| arguments.get(argument).and_then(Value::as_str);
    let result = match name {
        LIST => Ok(list(inventory, text("query").unwrap_or_default())),
        ACTIVATE => required_text(text("name"), "name").and_then(|name| {
            let again = arguments.get("again").and_then(Value::as_bool).unwrap_or_default();
            activate(engine, find((engine, inventory), name)?, activated.filter(|_| !again))
        }),
        READ_FILE => {
            let file = required_text(text("skill"), "skill").and_then(|skill| {
                let path = required_text(text("path"), "path")?;
                read_file(engine, find((engine, inventory), skill)?, path)
            });
            return Some(tool_result(file.and_then(|content| file_blocks(content, audience))));
        }
        READ_RESULT => {
            let offset = arguments.get("offset").and_then(Value::as_u64).unwrap_or_default();
            let part =
                required_text(text("uri"), "uri").and_then(|uri| part_of_result(audience.store, uri, offset));
            return Some(tool_result(part.map(|part| vec![ContentBlock::text(part)])));
        }
        _ => return None,
    };
    Some(tool_result(result.map(|text| shortened_text(&text, "text/plain", audience))))
}

/// The text of a file with its invisible characters spelled out, and if there are any, a sentence about them.
fn file_blocks(content: Vec<u8>, audience: &Audience<'_>) -> Result<Vec<ContentBlock>> {
    let text = String::from_utf8(content).map_err(|_| {
        SkillError::new(ErrorKind::InvalidArgument, "the file is not a text, so it cannot be shown")
    })?;
    let notice = invisible_characters(&text).map(|sentence| {
        ContentBlock::text(format!("{sentence} Each is written as its code here, such as \\u{{200b}}."))
    });
    Ok(shortened_text(&shown_text(&text), "text/plain", audience).into_iter().chain(notice).collect())
}

fn tool_result(result: Result<Vec<ContentBlock>>) -> CallToolResult {
    result.map_or_else(|error| error_result(&error), CallToolResult::success)
}

fn required_text<'a>(argument: Option<&'a str>, name: &str) -> Result<&'a str> {
    argument.ok_or_else(|| {
        SkillError::new(ErrorKind::InvalidInput, format!("the argument {name} is missing, or is not text"))
    })
}

fn find<'a>((engine, inventory): (&Engine, &'a Inventory), name: &str) -> Result<&'a Skill> {
    if let Some(gone) = inventory.gone_skill(name) {
        return Err(gone_error((engine, inventory), gone));
    }
    let served = inventory.skill(name).filter(|served| served.is_for_models);
    served.map(|served| &served.skill).ok_or_else(|| {
        let shown = metier_core::excerpt::shorten(&shown_line(name), 80);
        SkillError::new(ErrorKind::UnknownSkill, format!("there is no skill {shown}"))
            .with_help(format!("{LIST} lists the skills"))
    })
}

/// A line for each skill that has all words of the query in its name or description.
fn list(inventory: &Inventory, query: &str) -> String {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let (mut listed, mut left_out) = (String::new(), 0);
    for skill in inventory.for_models() {
        let text = format!("{} {}", skill.name(), skill.description()).to_lowercase();
        if !words.iter().all(|word| text.contains(word.as_str())) {
            continue;
        }
        let description =
            metier_core::excerpt::shorten(&shown_line(skill.description()), MAX_LISTED_DESCRIPTION);
        let reason = inventory.reasons.get(skill.name()).map(|reason| {
            let reason = metier_core::excerpt::shorten(&shown_line(reason), MAX_LISTED_DESCRIPTION);
            format!(" (cannot run at present: {reason})")
        });
        let line = format!("- {}: {description}{}\n", shown_line(skill.name()), reason.unwrap_or_default());
        if listed.len() + line.len() > MAX_LIST {
            left_out += 1;
        } else {
            listed.push_str(&line);
        }
    }
    match (listed.is_empty(), left_out) {
        (true, _) if query.is_empty() => "There are no skills.".to_owned(),
        (true, _) => "No skill has all of these words in its name or description.".to_owned(),
        (false, 0) => listed,
        (false, count) => format!("{listed}and {count} more; search for words to see fewer\n"),
    }
}

fn activate(engine: &Engine, skill: &Skill, activated: Option<&ActivatedSkills>) -> Result<String> {
    let text = activation(engine, skill)?;
    if activated.is_some_and(|activated| !activated.add(skill.name(), &text)) {
        return Ok(format!(
            "The skill {} was activated before in this session, and has not changed since. Call {ACTIVATE} with again: true to read it again.",
            shown_line(skill.name())
        ));
    }
    Ok(text)
}

/// As much of a stored result as fits into an answer, from that byte on.
fn part_of_result(store: &ResultStore, uri: &str, offset: u64) -> Result<String> {
    let (text, _) = store.read(uri)?;
    let start = text.ceil_char_boundary(usize::try_from(offset).unwrap_or(usize::MAX).min(text.len()));
    let end = text.floor_char_boundary(text.len().min(start.saturating_add(MAX_TEXT - 200)));
    let part = text.get(start..end).unwrap_or_default();
    Ok(if end < text.len() {
        format!("{part}\n\n[{} of {} bytes follow; offset: {end}]", text.len() - end, text.len())
    } else {
        part.to_owned()
    })
}

impl ActivatedSkills {
    /// Whether the text was not returned before.
    fn add(&self, skill: &str, text: &str) -> bool {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((skill.to_owned(), hasher.finish()))
    }
}
