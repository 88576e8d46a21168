//! A command line that cannot be parsed: what is wrong with it, in JSON if the caller asked for JSON.

use metier::engine::Outcome;
use metier::error::{ErrorKind, Result, SkillError};

use super::output;
use super::terminal::{escape_line, escape_text};

/// Prints the help, the version, or what is wrong.
pub(super) fn print(error: &clap::Error) -> Result<u8> {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let shown = render(error, &words);
    if !error.use_stderr() {
        output::print(&shown)?;
        return Ok(0);
    }
    match json_skill_name(&words) {
        Some(skill) => output::print_json(&Outcome::failed(skill, to_skill_error(error)))?,
        None => output::eprint(&shown),
    }
    Ok(ErrorKind::Usage.exit_code())
}

/// The text with its colown; without them if an argument that it may quote contains control characters.
fn render(error: &clap::Error, words: &[String]) -> String {
    let rendered = error.render();
    let text = if words.iter().any(|word| escape_line(word) != *word) {
        escape_text(&rendered.to_string())
    } else {
        rendered.ansi().to_string()
    };
    text.trim_end().to_owned()
}

/// The commands that print JSON: about the skill whose name follows, and about none.
const SKILL_COMMANDS: [&str; 4] = ["run", "show", "test", "new"];
const OTHER_COMMANDS: [&str; 6] = ["list", "validate", "api", "catalog", "config", "doctor"];

/// The name of the skill if the command prints JSON, as far as the arguments show it; empty if it is about none.
fn json_skill_name(words: &[String]) -> Option<&str> {
    let own: Vec<&str> = words.iter().map(String::as_str).take_while(|word| *word != "--").collect();
    let is_command = |word: &&str| SKILL_COMMANDS.contains(word) || OTHER_COMMANDS.contains(word);
    let command = own.iter().position(is_command)?;
    let name = own[command + 1..].iter().find(|word| !word.starts_with('-')).copied();
    let skill = name.filter(|_| SKILL_COMMANDS.contains(&own[command])).unwrap_or_default();
    own.contains(&"--json").then_some(skill)
}

/// The first paragraph as the message, the tips as the help.
fn to_skill_error(error: &clap::Error) -> SkillError {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or(&text);
    let sentence = first.strip_prefix("error: ").unwrap_or(first);
    let tips: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("tip: ")).collect();
    let help = if tips.is_empty() {
        "`metier --help` lists the commands, `metier COMMAND --help` the options of one".into()
    } else {
        tips.join("; ")
    };
    SkillError::new(ErrorKind::Usage, one_line(sentence)).with_help(help)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
