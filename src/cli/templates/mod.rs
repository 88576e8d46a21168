//! The skills `metier new` starts from: a folder beside this file and a row here for each.

use metier::executor::SkillRuntime;
use metier::skill::contract::CONTRACT_FILES;

/// A skill to start from.
pub struct Template {
    /// The runtime it is for.
    pub runtime: SkillRuntime,
    /// What its script is called when nobody says.
    pub script_name: &'static str,
    /// The ending of its script; tells templates of one runtime apart.
    pub extension: &'static str,
    /// What it does, as a description.
    pub description: &'static str,
    /// What to write after `metier run NAME` to see it run.
    pub example: &'static str,
    skill_md: &'static str,
    contract: Option<&'static str>,
    script: &'static str,
    case: &'static str,
}

const LIST_DESCRIPTION: &str =
    "Lists the files of the project that match a pattern. Use when asked which files of some kind there are.";
const COUNT_DESCRIPTION: &str = "Counts the files of the project that match a pattern. Use when asked how many files of some kind there are.";

/// The templates; the first of a runtime is its default.
pub static TEMPLATES: [Template; 6] = [
    Template {
        runtime: SkillRuntime::Lua,
        script_name: "main.lua",
        extension: "lua",
        description: LIST_DESCRIPTION,
        example: r#"--input '{"pattern": "*"}'"#,
        skill_md: include_str!("lua/SKILL.md"),
        contract: None,
        script: include_str!("lua/scripts/main.lua"),
        case: include_str!("lua/cases/basic.json"),
    },
    Template {
        runtime: SkillRuntime::Rhai,
        script_name: "main.rhai",
        extension: "rhai",
        description: LIST_DESCRIPTION,
        example: r#"--input '{"pattern": "*"}'"#,
        skill_md: include_str!("rhai/SKILL.md"),
        contract: None,
        script: include_str!("rhai/scripts/main.rhai"),
        case: include_str!("rhai/cases/basic.json"),
    },
    Template {
        runtime: SkillRuntime::Wasm,
        script_name: "main.wat",
        extension: "wat",
        description: LIST_DESCRIPTION,
        example: r#"--input '"*"'"#,
        skill_md: include_str!("wasm/SKILL.md"),
        contract: None,
        script: include_str!("wasm/scripts/main.wat"),
        case: include_str!("wasm/cases/basic.json"),
    },
    Template {
        runtime: SkillRuntime::ToolSequence,
        script_name: "sequence.json",
        extension: "json",
        description: LIST_DESCRIPTION,
        example: r#"--input '{"pattern": "*"}'"#,
        skill_md: include_str!("sequence/SKILL.md"),
        contract: Some(include_str!("sequence/skill.yaml")),
        script: include_str!("sequence/scripts/sequence.json"),
        case: include_str!("sequence/cases/basic.json"),
    },
    Template {
        runtime: SkillRuntime::External,
        script_name: "main.py",
        extension: "py",
        description: LIST_DESCRIPTION,
        example: r#"--input '{"pattern": "*"}'"#,
        skill_md: include_str!("python/SKILL.md"),
        contract: None,
        script: include_str!("python/scripts/main.py"),
        case: include_str!("python/cases/basic.json"),
    },
    Template {
        runtime: SkillRuntime::External,
        script_name: "main.sh",
        extension: "sh",
        description: COUNT_DESCRIPTION,
        example: "-- '*'",
        skill_md: include_str!("shell/SKILL.md"),
        contract: None,
        script: include_str!("shell/scripts/main.sh"),
        case: include_str!("shell/cases/basic.json"),
    },
];

/// A file to write: its path in the skill's folder, its text. The SKILL.md comes first.
pub type TemplateFile = (String, String);

impl Template {
    /// The files of a skill of this name.
    pub fn files(&self, name: &str, description: &str, script: &str) -> Vec<TemplateFile> {
        let (quoted, description) = (yaml_scalar(name), yaml_scalar(description));
        let values =
            [("name", quoted.as_str()), ("description", &description), ("title", name), ("script", script)];
        let skill = ("SKILL.md".to_owned(), fill_placeholders(self.skill_md, &values));
        let contract = self.contract.map(|text| (CONTRACT_FILES[0].to_owned(), text.to_owned()));
        let script = (format!("scripts/{script}"), self.script.to_owned());
        let case = ("cases/basic.json".to_owned(), self.case.to_owned());
        [skill].into_iter().chain(contract).chain([script, case]).collect()
    }
}

/// The text with `{{key}}` replaced by its value, in one pass, so values are not searched.
fn fill_placeholders(template: &str, values: &[(&str, &str)]) -> String {
    let mut parts = template.split("{{");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (key, rest) = part.split_once("}}").unwrap_or(("", part));
        text.extend(values.iter().find(|(known, _)| *known == key).map(|(_, value)| *value));
        text.push_str(rest);
    }
    text
}

/// A string as YAML: plain where no reader can take it for anything else, otherwise quoted as JSON does, which YAML reads.
fn yaml_scalar(text: &str) -> String {
    const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let is_plain = text.starts_with(char::is_alphabetic)
        && text.chars().all(|c| c.is_alphanumeric() || " -.,;()/'".contains(c))
        && !text.ends_with(' ')
        && !WORDS.contains(&text.to_lowercase().as_str());
    if is_plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_fills_all_its_places() {
        for template in &TEMPLATES {
            for (path, text) in template.files("my-skill", "does: {{script}} things", "main.x") {
                assert!(!text.contains("{{n") && !path.contains('{'), "{path}: {text}");
            }
        }
    }

    #[test]
    fn strings_are_quoted_where_yaml_would_read_something_else() {
        assert_eq!(yaml_scalar("word-count"), "word-count");
        for text in ["null", "12", "a: b", "a #b", "", "\u{1b}", "é\n", "x "] {
            assert!(yaml_scalar(text).starts_with('"'), "{text}");
        }
    }

    #[test]
    fn each_case_is_json_of_the_form_that_runs() {
        for template in &TEMPLATES {
            let case: serde_json::Value = serde_json::from_str(template.case).unwrap();
            for key in ["input", "args", "files", "allow", "expect"] {
                assert!(case.get(key).is_some(), "{key}");
            }
        }
    }
}
