//! The catalog of skills for a model: name, description, location, and as data what a contract says for choosing one. Everything else is
//! read when a skill is called.

use std::time::Duration;

use serde_json::{Value, json};

use super::skill::Skill;
use metier_core::sanitizer::{json_for_model, without_known_secrets};
use metier_core::unicode::mark_escapes;
use metier_skill::contract::{ContractMetadata, ProvidedTool, Schema};

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

    /// `[{name, version, description, location, input_schema, output_schema, estimated_duration, estimated_duration_ms, cost, risk_level,
    /// tools}]`: the location is [`Skill::path`]. The schemas and facts are those of the contract, and `null` where it states none; the
    /// duration is a text such as `5-30s`, and the same as `[least, most]` in milliseconds. The tools are those that something runs for:
    /// `[{name, description, input_schema, output_schema, risk_level}]`.
    pub fn json(&self) -> Value {
        self.skills.iter().map(|skill| entry(skill)).collect()
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

fn entry(skill: &Skill) -> Value {
    let contract = skill.contract();
    let facts = contract.map(|contract| &contract.metadata);
    let fact = |text: fn(&ContractMetadata) -> Option<&str>| facts.and_then(text).map(escape_invisible);
    json!({
        "name": escape_invisible(skill.name()),
        "version": skill.version().to_string(),
        "description": escape_invisible(skill.description()),
        "location": skill.path(),
        "input_schema": contract.and_then(|contract| shown_schema(contract.inputs.as_ref())),
        "output_schema": contract.and_then(|contract| shown_schema(contract.outputs.as_ref())),
        "estimated_duration": fact(|facts| facts.estimated_duration.as_deref()),
        "estimated_duration_ms": facts.and_then(|facts| facts.duration_range).map(milliseconds),
        "cost": fact(|facts| facts.cost.as_deref()),
        "risk_level": fact(|facts| facts.risk_level.as_deref()),
        "tools": tools(skill),
    })
}

fn tools(skill: &Skill) -> Value {
    let offered = skill.contract().map_or(&[][..], |contract| &contract.tools);
    let entry = |tool: &ProvidedTool| {
        json!({
            "name": tool.name,
            "description": tool.description.as_deref().map(escape_invisible),
            "input_schema": shown_schema(tool.input_schema.as_ref()),
            "output_schema": shown_schema(tool.output_schema.as_ref()),
            "risk_level": tool.risk_level.as_deref().map(escape_invisible),
        })
    };
    offered.iter().filter(|tool| tool.handler.is_some()).map(entry).collect()
}

fn milliseconds((least, most): (Duration, Duration)) -> [u64; 2] {
    [least, most].map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

fn shown_schema(schema: Option<&Schema>) -> Option<Value> {
    schema.map(|schema| json_for_model(schema.json().clone()))
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
