//! The skills that `metier new` starts from: a script for each language, and a form that scripts share.

use metier::executor::RuntimeId;
use metier_skill::contract::CONTRACT_FILES;

/// A skill to start from.
pub struct Template {
    /// What `--runtime` calls it; the first name is the usual one.
    pub names: &'static [&'static str],
    /// The runtime that runs its script.
    pub runtime: RuntimeId,
    /// The name of its script if the caller gives none.
    pub script_name: &'static str,
    /// The extensions that its script may have.
    pub extensions: &'static [&'static str],
    script: &'static str,
    form: &'static Form,
}

/// What goes into a skill and what comes out of it.
struct Form {
    /// What to write after `metier run NAME` to see it run.
    example: &'static str,
    skill_md: &'static str,
    contract: Option<&'static str>,
    case: &'static str,
}

/// An object with a pattern goes in, and one with paths comes out.
static LIST: Form = Form {
    example: r#"--input '{"pattern": "*"}'"#,
    skill_md: include_str!("list/SKILL.md"),
    contract: None,
    case: include_str!("list/case.json"),
};

/// A pattern goes in as an argument, for languages that do not read JSON; a list of paths comes out.
static ARGUMENTS: Form = Form {
    example: "-- '*'",
    skill_md: include_str!("arguments/SKILL.md"),
    contract: None,
    case: include_str!("arguments/case.json"),
};

static WASM: Form = Form {
    example: r#"--input '"*"'"#,
    skill_md: include_str!("wasm/SKILL.md"),
    contract: None,
    case: include_str!("wasm/case.json"),
};

static SEQUENCE: Form = Form {
    example: r#"--input '{"pattern": "*"}'"#,
    skill_md: include_str!("sequence/SKILL.md"),
    contract: Some(include_str!("sequence/skill.yaml")),
    case: include_str!("sequence/case.json"),
};

/// What every template does.
const DESCRIPTION: &str =
    "Lists the files of the project that match a pattern. Use when asked which files of some kind there are.";

/// The templates. The first is the default; the first with an extension is the one that a script's name chooses.
pub static TEMPLATES: [Template; 16] = [
    template(RuntimeId::LUA, &["lua"], "main.lua", &["lua", "luau"], include_str!("scripts/lua.lua"), &LIST),
    template(RuntimeId::RHAI, &["rhai"], "main.rhai", &["rhai"], include_str!("scripts/rhai.rhai"), &LIST),
    template(RuntimeId::WASM, &["wasm"], "main.wat", &["wat"], include_str!("scripts/wasm.wat"), &WASM),
    template(
        RuntimeId::TOOL_SEQUENCE,
        &["tool-sequence"],
        "sequence.json",
        &["json"],
        include_str!("scripts/sequence.json"),
        &SEQUENCE,
    ),
    external(&["python", "python3"], "main.py", &["py"], include_str!("scripts/python.py"), &LIST),
    external(&["bash", "shell"], "main.sh", &["sh", "bash"], include_str!("scripts/bash.sh"), &ARGUMENTS),
    external(&["sh"], "main.sh", &["sh"], include_str!("scripts/sh.sh"), &ARGUMENTS),
    external(
        &["node", "javascript", "js"],
        "main.js",
        &["js", "mjs", "cjs"],
        include_str!("scripts/node.js"),
        &LIST,
    ),
    external(
        &["typescript", "ts"],
        "main.ts",
        &["ts", "mts", "cts"],
        include_str!("scripts/typescript.ts"),
        &LIST,
    ),
    external(&["deno"], "main.ts", &["ts"], include_str!("scripts/deno.ts"), &LIST),
    external(&["perl"], "main.pl", &["pl"], include_str!("scripts/perl.pl"), &LIST),
    external(&["ruby"], "main.rb", &["rb"], include_str!("scripts/ruby.rb"), &LIST),
    external(&["php"], "main.php", &["php"], include_str!("scripts/php.php"), &LIST),
    external(&["zsh"], "main.zsh", &["zsh"], include_str!("scripts/zsh.zsh"), &ARGUMENTS),
    external(&["ksh"], "main.ksh", &["ksh"], include_str!("scripts/ksh.ksh"), &ARGUMENTS),
    external(&["fish"], "main.fish", &["fish"], include_str!("scripts/fish.fish"), &ARGUMENTS),
];

const fn external(
    names: &'static [&'static str],
    script_name: &'static str,
    extensions: &'static [&'static str],
    script: &'static str,
    form: &'static Form,
) -> Template {
    template(RuntimeId::EXTERNAL, names, script_name, extensions, script, form)
}

const fn template(
    runtime: RuntimeId,
    names: &'static [&'static str],
    script_name: &'static str,
    extensions: &'static [&'static str],
    script: &'static str,
    form: &'static Form,
) -> Template {
    Template { names, runtime, script_name, extensions, script, form }
}

/// A file to write: its path in the skill's folder, its text. The SKILL.md comes first.
pub type TemplateFile = (String, String);

impl Template {
    /// The name that `--runtime` usually calls it by.
    pub fn name(&self) -> &'static str {
        self.names[0]
    }

    /// What to write after `metier run NAME` to see it run.
    pub fn example(&self) -> &'static str {
        self.form.example
    }

    /// A script that is a skill by itself: it begins with its description as a comment.
    pub fn drop_in(&self, description: Option<&str>) -> String {
        let sign = match self.extensions[0] {
            "lua" => "--",
            "wat" => ";;",
            "rhai" | "js" | "ts" | "php" => "//",
            _ => "#",
        };
        let described = description.unwrap_or(DESCRIPTION).split_whitespace().collect::<Vec<_>>().join(" ");
        let is_first = |line: &str| line.starts_with("#!") || line.starts_with("<?php");
        let (first, rest) = match self.script.split_once('\n') {
            Some((first, rest)) if is_first(first) => (format!("{first}\n"), rest),
            _ => (String::new(), self.script),
        };
        // A docstring would describe it otherwise.
        let rest = match rest.strip_prefix("\"\"\"").and_then(|rest| rest.split_once("\"\"\"\n")) {
            Some((_, code)) => code.trim_start_matches('\n'),
            None => rest,
        };
        format!("{first}{sign} {described}\n\n{rest}")
    }

    /// The files of a skill with this name, this script and this description, or the description of all templates.
    pub fn files(&self, name: &str, description: Option<&str>, script: &str) -> Vec<TemplateFile> {
        let quoted_name = yaml_scalar(name);
        let values = [
            ("name", quoted_name.as_str()),
            ("description", &yaml_scalar(description.unwrap_or(DESCRIPTION))),
            ("title", name),
            ("runtime", self.runtime.name()),
            ("script", script),
        ];
        let skill = ("SKILL.md".to_owned(), fill_placeholders(self.form.skill_md, &values));
        let contract = self.form.contract.map(|text| (CONTRACT_FILES[0].to_owned(), text.to_owned()));
        let script = (format!("scripts/{script}"), self.script.to_owned());
        let case = ("cases/basic.json".to_owned(), self.form.case.to_owned());
        [skill].into_iter().chain(contract).chain([script, case]).collect()
    }
}

/// The text with `{{key}}` replaced by its value, in one pass, so that a value that holds `{{key}}` stays as it is.
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
    fn every_template_fills_all_its_placeholders() {
        for template in &TEMPLATES {
            for (path, text) in template.files("my-skill", Some("does: {{script}} things"), "main.x") {
                let is_filled = ["{{n", "{{r", "{{t", "{{d"].iter().all(|start| !text.contains(start));
                assert!(is_filled && !path.contains('{'), "{path}: {text}");
            }
        }
    }

    #[test]
    fn each_name_stands_for_one_template_and_each_script_has_an_extension_of_it() {
        let mut names: Vec<&str> = TEMPLATES.iter().flat_map(|template| template.names).copied().collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        for template in &TEMPLATES {
            let (_, extension) = template.script_name.rsplit_once('.').unwrap();
            assert!(template.extensions.contains(&extension), "{}", template.name());
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
            let case: serde_json::Value = serde_json::from_str(template.form.case).unwrap();
            for key in ["input", "args", "files", "allow", "expect"] {
                assert!(case.get(key).is_some(), "{key}");
            }
        }
    }
}
