//! `metier catalog`: names and descriptions, for a model to choose from.

use std::collections::HashSet;

use metier::engine::Engine;
use metier::error::Result;
use metier::registry::Catalog;
use metier::unicode::mark_escapes;
use serde_json::Value;

use super::output;
use super::session::Session;
use super::skill_record::permission_names;
use super::terminal::{escape_line, escape_text};
use super::trust_words::untrusted_sentence;

/// The options of `metier catalog`.
#[derive(clap::Args)]
pub struct Args {
    /// Print the skills as XML, for the prompt of a model
    #[arg(long, conflicts_with_all = ["json", "all"])]
    xml: bool,
    /// Also print the skills that cannot run on this machine, with the reason
    #[arg(long)]
    all: bool,
    /// Also print the skills that are not trusted
    #[arg(long)]
    trust: bool,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let engine = session.engine()?;
    let registry = engine.registry();
    let everything = registry.catalog();
    let mut catalog = if args.trust { everything.clone() } else { engine.catalog(&registry) };
    let shown: HashSet<String> = catalog.skills().iter().map(|skill| skill.qualified_name()).collect();
    let left_out = everything.skills().iter().filter(|skill| !shown.contains(&skill.qualified_name()));
    let names: Vec<String> = left_out.map(|skill| skill.name().to_owned()).collect();
    // A model chooses from it; with `--trust`, everything in the project is trusted.
    let answers = if args.trust {
        engine.availabilities(catalog.skills())
    } else {
        engine.availabilities_for_model(catalog.skills())
    };
    let mut reasons: Vec<Option<String>> =
        answers.iter().map(|answer| answer.cannot_run().map(ToString::to_string)).collect();
    if !args.all {
        let skills = catalog.skills().iter().zip(&reasons);
        let runnable = skills.filter(|(_, reason)| reason.is_none()).map(|(skill, _)| skill.qualified_name());
        let runnable: HashSet<String> = runnable.collect();
        catalog.retain(|skill| runnable.contains(&skill.qualified_name()));
        reasons.clear();
    }
    let records = session.json().then(|| records(&engine, &catalog, &reasons));
    session.exit_watchdog().finish();
    output::print_problems(&registry);
    if let Some(sentence) = untrusted_sentence(&names) {
        output::print_warning(&sentence);
    }
    if let Some(records) = records {
        output::print_json(&records)?;
    } else if args.xml {
        output::print(escape_xml(&catalog.xml()).trim_end())?;
    } else {
        output::print(escape_text(&lines(&catalog, reasons)).trim_end())?;
    }
    Ok(0)
}

/// The entries of the catalog, each with its requested permissions, and with a `reason` where reasons are given: `null` where the skill
/// can run.
fn records(engine: &Engine, catalog: &Catalog, reasons: &[Option<String>]) -> Value {
    let mut records = catalog.json();
    for (record, skill) in records.as_array_mut().into_iter().flatten().zip(catalog.skills()) {
        let names = permission_names(engine, skill);
        record["permissions"] = names.iter().map(|name| escape_line(name)).collect();
    }
    for (record, reason) in records.as_array_mut().into_iter().flatten().zip(reasons) {
        record["reason"] = reason.clone().into();
    }
    records
}

fn lines(catalog: &Catalog, reasons: Vec<Option<String>>) -> String {
    let reasons = reasons.into_iter().chain(std::iter::repeat(None));
    let line = |(line, reason): (&str, Option<String>)| match reason {
        Some(reason) => format!("{line} (cannot run: {})\n", escape_line(&reason)),
        None => format!("{line}\n"),
    };
    catalog.list().lines().zip(reasons).map(line).collect()
}

/// The same XML, with character references for control and invisible characters.
fn escape_xml(xml: &str) -> String {
    let shown = |(c, is_unseen): (char, bool)| {
        let is_safe = !is_unseen || matches!(c, '\n' | '\t');
        if is_safe { c.to_string() } else { format!("&#x{:X};", u32::from(c)) }
    };
    mark_escapes(xml).map(shown).collect()
}
