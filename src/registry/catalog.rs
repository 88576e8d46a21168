//! Names and descriptions, for a model to choose from.

use serde_json::{Value, json};

use super::Skill;

/// The visible skills of a registry, by name.
pub struct Catalog<'a>(Vec<&'a Skill>);

impl<'a> Catalog<'a> {
    pub(super) fn new(mut skills: Vec<&'a Skill>) -> Self {
        skills.sort_by(|a, b| a.name().cmp(b.name()));
        Self(skills)
    }

    /// One line a skill: `- name: description`. Empty when there are none.
    pub fn list(&self) -> String {
        let line = |skill: &&Skill| format!("- {}: {}", skill.name(), one_line(skill.description()));
        self.0.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// A list of `{name, description, location}`.
    pub fn json(&self) -> Value {
        self.0
            .iter()
            .map(|skill| json!({"name": skill.name(), "description": skill.description(), "location": skill.path()}))
            .collect()
    }

    /// `<available_skills>`, every value escaped. Empty when there are none, so that nothing is put before the model.
    pub fn xml(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let skills: String = self.0.iter().map(|skill| entry(skill)).collect();
        format!("<available_skills>\n{skills}</available_skills>\n")
    }
}

fn entry(skill: &Skill) -> String {
    format!(
        "<skill>\n<name>{}</name>\n<description>{}</description>\n<location>{}</location>\n</skill>\n",
        escaped(skill.name()),
        escaped(skill.description()),
        escaped(&skill.path())
    )
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text that cannot open or close an element; what XML has no form for becomes U+FFFD.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#x27;"),
            '\n' | '\t' => safe.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}
