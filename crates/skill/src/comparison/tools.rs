//! The tools that a skill offers, and the names by which they are found.

use super::facts::{compare_limit, compare_risk};
use super::finding::{Change, FindingList, pointer};
use super::named_pairs::{NamedPair, named_pairs};
use super::permissions::permissions_of_tool;
use super::schema::{self, Direction, WorkBudget};
use crate::contract::{Contract, Entrypoint, ProvidedTool, ToolHandler};

pub(super) fn compare(old: &Contract, new: &Contract, budget: &mut WorkBudget, list: &mut FindingList) {
    for NamedPair { name, old, new } in named_pairs(&old.tools, &new.tools, |tool| &tool.name) {
        let at = pointer("/tools", name);
        match (old, new) {
            (Some(old), Some(new)) => compare_tools((old, new), &at, budget, list),
            (None, Some(_)) => list.add(at, Change::Minor, format!("the tool `{name}` is new")),
            (Some(_), None) => list.add(at, Change::Major, format!("the tool `{name}` is gone")),
            (None, None) => {}
        }
    }
    compare_aliases(&old.tool_aliases, &new.tool_aliases, list);
}

fn compare_tools(
    (old, new): (&ProvidedTool, &ProvidedTool),
    at: &str,
    budget: &mut WorkBudget,
    list: &mut FindingList,
) {
    let below = |key: &str| pointer(at, key);
    let inputs = (old.input_schema.as_ref(), new.input_schema.as_ref());
    schema::compare(inputs, Direction::Inputs, &below("inputs"), budget, list);
    let outputs = (old.output_schema.as_ref(), new.output_schema.as_ref());
    schema::compare(outputs, Direction::Outputs, &below("outputs"), budget, list);
    match (&old.handler, &new.handler) {
        (Some(_), None) => list.add(at, Change::Major, "nothing runs when it is called"),
        (None, Some(_)) => list.add(at, Change::Minor, "it can be called now"),
        (Some(ToolHandler::Http(old)), Some(ToolHandler::Http(new))) => {
            list.add_if_changed(&below("http"), (old, new), Change::Patch, "the call is different");
        }
        _ => {
            let scripts = (&old.script().map(Entrypoint::target), &new.script().map(Entrypoint::target));
            let message = "something else runs when it is called";
            list.add_if_changed(&below("entrypoint"), scripts, Change::Patch, message);
        }
    }
    compare_risk(&below("risk_level"), (old.risk_score, new.risk_score), list);
    match (old.requires_confirmation, new.requires_confirmation) {
        (false, true) => {
            list.add(below("requires_confirmation"), Change::Major, "a person must agree to each call now");
        }
        (true, false) => {
            list.add(
                below("requires_confirmation"),
                Change::Minor,
                "nobody has to agree to each call any more",
            );
        }
        _ => {}
    }
    compare_limit(&below("timeout"), (old.timeout, new.timeout), list);
    let permissions = (&permissions_of_tool(old), &permissions_of_tool(new));
    let message = "it has other permissions of the skill";
    list.add_if_changed(&below("permissions"), permissions, Change::Minor, message);
    let descriptions = (&old.description, &new.description);
    list.add_if_changed(&below("description"), descriptions, Change::Patch, "the description is different");
    list.add_if_changed(&below("tags"), (&old.tags, &new.tags), Change::Patch, "the tags are different");
    list.add_if_changed(
        &below("category"),
        (&old.category, &new.category),
        Change::Patch,
        "the category is different",
    );
}

type Aliases = [(String, Vec<String>)];

fn compare_aliases(old: &Aliases, new: &Aliases, list: &mut FindingList) {
    for NamedPair { name, old, new } in named_pairs(old, new, |(name, _)| name) {
        let others = |aliases: Option<&(String, Vec<String>)>| aliases.map(|(_, others)| others.clone());
        let (old, new) = (others(old).unwrap_or_default(), others(new).unwrap_or_default());
        for NamedPair { name: other, old, new } in named_pairs(&old, &new, |other| other) {
            let at = pointer(&pointer("/tool_aliases", name), other);
            match (old, new) {
                (None, Some(_)) => list.add(at, Change::Minor, format!("`{other}` means `{name}`, too")),
                (Some(_), None) => list.add(at, Change::Major, format!("`{other}` no longer means `{name}`")),
                _ => {}
            }
        }
    }
}
