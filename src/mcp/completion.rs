//! Suggestions for what a person types: the names of skills and the paths of their files, in the address of a resource.

use rmcp::model::{CompleteRequestParams, CompletionInfo, Reference};

use super::inventory::Inventory;
use super::resources::{TEMPLATE, skill_files};
use crate::engine::Engine;

/// The values that begin with what was typed. What is asked of a prompt is free text, for which there is none.
pub(super) fn complete(
    engine: &Engine,
    inventory: &Inventory,
    request: &CompleteRequestParams,
) -> CompletionInfo {
    let mut values = match &request.r#ref {
        Reference::Resource(reference) if reference.uri == TEMPLATE => values(engine, inventory, request),
        _ => Vec::new(),
    };
    values.retain(|value| value.starts_with(&request.argument.value));
    let total = u32::try_from(values.len()).unwrap_or(u32::MAX);
    let has_more = values.len() > CompletionInfo::MAX_VALUES;
    values.truncate(CompletionInfo::MAX_VALUES);
    CompletionInfo::with_pagination(values, Some(total), has_more).unwrap_or_default()
}

fn values(engine: &Engine, inventory: &Inventory, request: &CompleteRequestParams) -> Vec<String> {
    match request.argument.name.as_str() {
        "name" => inventory.for_models().map(|skill| skill.name().to_owned()).collect(),
        "path" => {
            let context = request.context.as_ref().and_then(|context| context.arguments.as_ref());
            let name = context.and_then(|arguments| arguments.get("name"));
            let served = name.and_then(|name| inventory.skill(name)).filter(|served| served.is_for_models);
            let files = served.and_then(|served| skill_files(engine, &served.skill).ok());
            files.unwrap_or_default().into_iter().map(|file| file.path).collect()
        }
        _ => Vec::new(),
    }
}
