//! The tools that a skill offers, and the names by which they are found.

use std::collections::BTreeSet;

use super::facts::{compare_limit, compare_risk};
use super::finding::{Change, FindingList, NamedPair, named_pairs, pointer};
use super::host_requirements::permissions_of_tool;
use super::schema::{self, Direction, WorkBudget};
use crate::contract::{
    CallDefinition, Contract, Entrypoint, ProvidedTool, SECRETS, ToolHandler, call_definition, named_value,
};

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
    for NamedPair { name, old, new } in
        named_pairs(&old.internal_tools, &new.internal_tools, |tool| &tool.name)
    {
        compare_internal((old, new), name, list);
    }
    compare_aliases(&old.tool_aliases, &new.tool_aliases, list);
}

/// Nobody calls an internal tool but the skill, so that only what it may do without asking counts.
fn compare_internal(
    (old, new): (Option<&ProvidedTool>, Option<&ProvidedTool>),
    name: &str,
    list: &mut FindingList,
) {
    let at = pointer("/tools", name);
    let json = |tool: Option<&ProvidedTool>| tool.map(|tool| serde_json::to_value(tool).unwrap_or_default());
    let message = format!("the internal tool `{name}` is different");
    list.add_if_changed(&at, (&json(old), &json(new)), Change::Patch, &message);
    if let (Some(old), Some(new)) = (old, new) {
        compare_handlers((old, new), &at, list);
        compare_risk(&pointer(&at, "risk_level"), (old.risk_score, new.risk_score), list);
        compare_confirmation(&at, (old, new), list);
    }
}

/// What a call of one version does that one of the other does not.
fn compare_handlers((old, new): (&ProvidedTool, &ProvidedTool), at: &str, list: &mut FindingList) {
    let (old, new) = (old.http().map(call_definition), new.http().map(call_definition));
    let (Some(old), Some(new)) = (old, new) else { return };
    let at = pointer(at, "http");
    let is_known = |call: &CallDefinition| call.base_url.literal().is_some();
    if old.base_url != new.base_url && !(is_known(old) && is_known(new)) {
        let message = "cannot tell which host it reaches: the address is made of other settings";
        list.add(pointer(&at, "base_url"), Change::Unknown, message);
    }
    if old.is_safe() && !new.is_safe() {
        list.add(pointer(&at, "method"), Change::Minor, "it may change something now");
    }
    let sent = secrets(old);
    for name in secrets(new).difference(&sent) {
        let at = pointer(&pointer(&at, "secrets"), name);
        list.add(at, Change::Minor, format!("it sends the secret `{name}` now"));
    }
}

fn secrets(call: &CallDefinition) -> BTreeSet<String> {
    let references = call.sent_references().into_iter().filter_map(named_value);
    references.filter(|(root, _)| *root == SECRETS).map(|(_, name)| name.to_owned()).collect()
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
    compare_handlers((old, new), at, list);
    compare_risk(&below("risk_level"), (old.risk_score, new.risk_score), list);
    compare_confirmation(at, (old, new), list);
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

fn compare_confirmation(at: &str, (old, new): (&ProvidedTool, &ProvidedTool), list: &mut FindingList) {
    let below = |key: &str| pointer(at, key);
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
}

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
