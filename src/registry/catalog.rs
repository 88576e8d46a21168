//! The catalog of skills for a model: name, description, location. Everything else is read when a skill is called.

use serde_json::{Value, json};

use super::skill::Skill;
use metier_core::sanitizer::{json_for_model, without_known_secrets};
use metier_core::unicode::mark_escapes;
use metier_skill::contract::ProvidedTool;

/// The skills to offer a model, by name. Shadowed skills are left out, and those that only people may call.
#[derive(Clone, Debug)]
pub struct Catalog<'a> {
    skills: Vec<&'a Skill>,
}

impl<'a> Catalog<'a> {
    /// A catalog of these skills, without those that only people may call.
    pub(super) fn new(skills: impl Iterator<Item = &'a Skill>) -> Self {
        Self { skills: skills.filter(|skill| !skill.is_hidden_from_models()).collect() }
    }

    /// The skills in it.
    pub fn skills(&self) -> &[&'a Skill] {
        &self.skills
    }

    /// Keeps only the skills for which this is true, such as those that can run on this machine.
    pub fn retain(&mut self, is_offered: impl Fn(&Skill) -> bool) {
        self.skills.retain(|skill| is_offered(skill));
    }

    /// One line for each skill, `- name: description`; empty when there are none.
    pub fn list(&self) -> String {
        let line = |skill: &&Skill| {
            format!("- {}: {}\n", on_one_line(skill.name()), on_one_line(skill.description()))
        };
        self.skills.iter().map(line).collect()
    }

    /// `[{name, description, location, input_schema, tools}]`: the location is [`Skill::path`], the schema that of the contract's
    /// inputs, `null` where it declares none, and the tools are those that something runs for: `[{name, description, input_schema}]`.
    pub fn json(&self) -> Value {
        let schema = |skill: &Skill| {
            skill.contract()?.inputs.as_ref().map(|inputs| json_for_model(inputs.json().clone()))
        };
        let entry = |skill: &&Skill| {
            json!({
                "name": escape_invisible(skill.name()),
                "description": escape_invisible(skill.description()),
                "location": skill.path(),
                "input_schema": schema(skill),
                "tools": tools(skill),
            })
        };
        self.skills.iter().map(entry).collect()
    }

    /// `<available_skills>` as in the guide for clients, everything escaped; empty when there are none.
    pub fn xml(&self) -> String {
        if self.skills.is_empty() {
            return String::new();
        }
        let entry = |skill: &&Skill| {
            format!(
                "  <skill>\n    <name>{}</name>\n    <description>{}</description>\n    <location>{}</location>\n  </skill>\n",
                escape_xml(skill.name()),
                escape_xml(skill.description()),
                escape_xml(&skill.path()),
            )
        };
        let entries: String = self.skills.iter().map(entry).collect();
        format!("<available_skills>\n{entries}</available_skills>\n")
    }
}

fn tools(skill: &Skill) -> Value {
    let offered = skill.contract().map_or(&[][..], |contract| &contract.tools);
    let entry = |tool: &ProvidedTool| {
        json!({
            "name": tool.name,
            "description": tool.description.as_deref().map(escape_invisible),
            "input_schema": tool.input_schema.as_ref().map(|schema| json_for_model(schema.json().clone())),
        })
    };
    offered.iter().filter(|tool| tool.handler.is_some()).map(entry).collect()
}

/// Line breaks and control characters would let a description draw on the terminal or imitate another skill's line.
fn on_one_line(text: &str) -> String {
    let words = text.split(|letter: char| letter.is_whitespace() || letter.is_control());
    escape_invisible(&words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "))
}

/// Replaces secrets that are known by their form, and spells out invisible characters: a person who reviews a skill must see everything that the model is shown of it.
fn escape_invisible(text: &str) -> String {
    let shown = |(c, is_unseen): (char, bool)| {
        if is_unseen && !c.is_control() { c.escape_unicode().to_string() } else { c.to_string() }
    };
    mark_escapes(&without_known_secrets(text)).map(shown).collect()
}

fn escape_xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in escape_invisible(text).chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(letter),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}
