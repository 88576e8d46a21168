//! A command line that cannot be read: what is wrong with it, in JSON where an outcome was asked for.

use metier::engine::Outcome;
use metier::error::{ErrorKind, Result, SkillError};

use super::output;
use super::terminal::{visible, visible_line};

/// Answers with help, with the version, or with what is wrong.
pub(super) fn answer(error: &clap::Error) -> Result<u8> {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let shown = shown(error, &words);
    if !error.use_stderr() {
        output::say(&shown)?;
        return Ok(0);
    }
    match skill_of_json_run(&words) {
        Some(skill) => output::say_json(&Outcome::failed(skill, usage(error)))?,
        None => output::talk(&shown),
    }
    Ok(ErrorKind::Usage.exit_code())
}

/// The sentences with their colours; without them where an argument they may quote could hide among colours.
fn shown(error: &clap::Error, words: &[String]) -> String {
    let rendered = error.render();
    let text = if words.iter().any(|word| visible_line(word) != *word) {
        visible(&rendered.to_string())
    } else {
        rendered.ansi().to_string()
    };
    text.trim_end().to_owned()
}

/// The skill's name, as far as it can be told, of a `run` whose answer a program waits for.
fn skill_of_json_run(words: &[String]) -> Option<&str> {
    let ours: Vec<&str> = words.iter().map(String::as_str).take_while(|word| *word != "--").collect();
    let run = ours.iter().position(|word| *word == "run")?;
    let is_json = ours.contains(&"--json");
    is_json.then(|| ours[run + 1..].iter().find(|word| !word.starts_with('-')).copied().unwrap_or_default())
}

/// The first paragraph as the sentence, the tips as the way out.
fn usage(error: &clap::Error) -> SkillError {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or(&text);
    let sentence = first.strip_prefix("error: ").unwrap_or(first);
    let tips: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("tip: ")).collect();
    let help = if tips.is_empty() { "`metier run --help` lists the options".into() } else { tips.join("; ") };
    SkillError::new(ErrorKind::Usage, one_line(sentence)).with_help(help)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
