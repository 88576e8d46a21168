//! Selects what runs when a tool of a skill is called.

use crate::engine::script_inference::MAX_SHOWN_TOOLS;
use crate::engine::script_selection::{
    LocatedEntrypoint, SelectedScript, declared_runtime, refuse_state, require_contract, select_entrypoint,
};
use crate::registry::{Skill, printable_name};
use crate::runtimes::Runtimes;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::RuntimeId;
use metier_core::host::catch_panic;
use metier_core::suggestion::{closest, did_you_mean};
use metier_skill::contract::{Contract, Entrypoint, ToolHandler};

/// What runs when a tool of the skill is called; `unknown-skill` if the skill does not offer it, `unavailable` for one that is only
/// declared.
pub(super) fn select_tool(runtimes: &Runtimes, skill: &Skill, name: &str) -> Result<SelectedScript> {
    find_tool_script(runtimes, skill, name)
        .and_then(|selected| refuse_state(skill, selected))
        .map_err(|error| skill.with_location_path(error, None))
}

/// `unknown-skill` for an internal tool, unless the skill of this qualified name, which calls it, is its own.
pub(super) fn refuse_internal(
    skill: &Skill,
    selected: SelectedScript,
    caller: Option<&str>,
) -> Result<SelectedScript> {
    match selected.tool.as_deref() {
        Some(tool) if tool.is_internal && caller != Some(skill.qualified_name().as_str()) => {
            Err(unknown_tool_error(skill, &tool.name))
        }
        _ => Ok(selected),
    }
}

/// The plans that run when a tool of the skill is called.
pub(super) fn tool_plans(runtimes: &Runtimes, skill: &Skill) -> Vec<SelectedScript> {
    let tools = skill.contract().into_iter().flat_map(Contract::all_tools);
    let may_be_plan = |script: &Entrypoint| {
        script.runtime.as_deref().map_or_else(
            || runtimes.for_script(&script.path, None, false) == RuntimeId::TOOL_SEQUENCE,
            |name| name == RuntimeId::TOOL_SEQUENCE.name(),
        )
    };
    // A file with another extension is a plan where the skill declares that runtime.
    let is_declared = declared_runtime(runtimes, skill)
        .is_ok_and(|declared| declared.is_some_and(|it| it.runtime == RuntimeId::TOOL_SEQUENCE));
    let planned = tools.filter(|tool| is_declared || tool.script().is_some_and(may_be_plan));
    let selected = planned.filter_map(|tool| select_tool(runtimes, skill, &tool.name).ok());
    selected.filter(|selected| selected.runtime == RuntimeId::TOOL_SEQUENCE).collect()
}

fn find_tool_script(runtimes: &Runtimes, skill: &Skill, name: &str) -> Result<SelectedScript> {
    require_contract(skill)?;
    let tool = skill.contract().and_then(|contract| contract.tool(name));
    let tool = tool.ok_or_else(|| unknown_tool_error(skill, name))?;
    catch_panic("the contract", ErrorKind::InvalidSkill, || {
        skill.tool_schema_error(tool).map_or(Ok(()), Err)
    })?;
    let declared = declared_runtime(runtimes, skill)?;
    let selected = match &tool.handler {
        Some(ToolHandler::Script(script)) => {
            let entered = LocatedEntrypoint::from_contract(skill, script);
            select_entrypoint(runtimes, skill, entered, declared.as_ref(), false)?
        }
        // The contract is what is read and counted as the file that runs.
        Some(ToolHandler::Http(_)) => SelectedScript {
            function: Some(tool.name.clone()),
            ..SelectedScript::new(skill.contract_file().unwrap_or_default().to_owned(), RuntimeId::HTTP_CALL)
        },
        _ => {
            let sentence = format!(
                "the tool {} of skill {} is only declared: its definition says nothing about what runs",
                printable_name(name),
                skill.name()
            );
            return Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help(
                "declare it under `tools` in skill.yaml, with an `entrypoint` or an `http` call",
            ));
        }
    };
    Ok(SelectedScript { tool: Some(Box::new(tool.clone())), ..selected })
}

fn unknown_tool_error(skill: &Skill, name: &str) -> SkillError {
    let tools = skill.contract().map_or(&[][..], |contract| &contract.tools);
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let sentence = format!("skill {} offers no tool called `{}`", skill.name(), printable_name(name));
    let error = SkillError::new(ErrorKind::UnknownSkill, sentence);
    match closest(name, names.iter().copied()) {
        Some(near) => error.with_help(did_you_mean(near)),
        None if names.is_empty() => error.with_help("it offers no tools"),
        None => {
            let shown: Vec<String> =
                names.iter().take(MAX_SHOWN_TOOLS).map(|name| printable_name(name)).collect();
            error.with_help(format!("it offers {}", shown.join(", ")))
        }
    }
}
