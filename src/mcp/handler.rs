//! Answers the requests of a client, in every revision of the protocol that it may speak: what each method leads to.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, CustomRequest, CustomResult, ErrorCode, GetPromptRequestParams, GetPromptResponse,
    GetSkillRequestParams, GetSkillResult, GetTaskParams, GetTaskResult, Implementation, JsonObject,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListSkillsResult, ListToolsResult,
    MetaObject, PaginatedRequestParams, ProtocolVersion, ReadResourceDirectoryRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, Resource, SKILLS_EXTENSION_ID, ServerCapabilities,
    ServerConfig, SubscribeRequestParams, SubscriptionFilter, TASKS_EXTENSION_ID, Tool, ToolAnnotations,
    UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;

use super::backlog::{LIST_BYTES, json_size};
#[cfg(unix)]
use super::change_sets;
use super::client::{Handler, Session, needs_objects, request_error, reserve};
use super::elicitation::can_ask;
use super::inventory::{Inventory, ServedTool};
use super::paging::page;
use super::results::output_schema_for;
use super::skill_content::shown_line;
use super::subscriptions::{ListChanges, accepted_filter, announce_changes};
use super::task_messages::task_filter;
use super::tools::title_from_names;
use super::{disclosure, prompts, resources, skills_extension};
use crate::engine::Engine;
use crate::registry::Skill;
use metier_core::excerpt::shorten;

/// The revisions of the protocol that are spoken. In older ones there is neither structured content nor a link.
const REVISIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];
/// How long a client may use a list without asking again; it is told of changes.
const LIST_LIFETIME_MS: u64 = 60_000;
/// By which a client learns that a tool has results larger than it takes otherwise.
const MAX_RESULT_SIZE: &str = "anthropic/maxResultSizeChars";
/// What is said about the server where it introduces itself.
const INSTRUCTIONS: &str = "Skills: instructions for tasks, and scripts that run in a sandbox. Each skill that can run is a tool. \
     skills_list finds skills, activate_skill returns the instructions of one, read_skill_file returns its files.";

/// What is said besides where calls run in a copy of the project.
const COPY_INSTRUCTIONS: &str = " Calls run in a copy of the project: results say what they would change, and apply_changes applies it \
                                 when a person agrees.";

/// The tools of the server itself.
pub(super) fn server_tools(inventory: &Inventory, runs_in_copies: bool) -> Vec<Tool> {
    #[cfg_attr(not(unix), allow(unused_mut, reason = "nothing runs in a copy there"))]
    let mut tools = disclosure::tools(inventory);
    #[cfg(unix)]
    tools.extend(runs_in_copies.then(change_sets::tools).into_iter().flatten());
    #[cfg(not(unix))]
    let _ = runs_in_copies;
    tools
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let mut skills = JsonObject::new();
        skills.insert("directoryRead".to_owned(), json!(true));
        let capabilities = ServerCapabilities::builder()
            .enable_extensions_with(BTreeMap::from([
                (SKILLS_EXTENSION_ID.to_owned(), skills),
                (TASKS_EXTENSION_ID.to_owned(), JsonObject::new()),
            ]))
            .enable_completions()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .build();
        let mut config = ServerConfig::new(capabilities);
        config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        config.server_info = Implementation::new(self.server.options.name.clone(), env!("CARGO_PKG_VERSION"));
        let copies = if self.server.options.previews { COPY_INSTRUCTIONS } else { "" };
        config.instructions = Some(format!("{INSTRUCTIONS}{copies}"));
        config
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(const { &REVISIONS })
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let changes =
            || announce_changes(context.peer, self.server.offers.clone(), self.session.watched.clone());
        self.session.announcing.get_or_init(|| tokio::spawn(changes()).abort_handle());
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.inventory().tool(name).map(|served| tool_definition(served, false))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        reserve(&context, LIST_BYTES).await?;
        let inventory = self.inventory();
        let needs_objects = needs_objects(&context);
        let asks = self.server.request_states.is_some() && can_ask(&context);
        let mut listed: Vec<ListedTool> = server_tools(&inventory, self.server.options.previews)
            .into_iter()
            .map(|tool| ListedTool::OfServer(Box::new(tool)))
            .collect();
        listed.extend(inventory.tools.iter().map(ListedTool::OfSkill));
        listed.sort_by(|a, b| a.name().cmp(b.name()));
        let definition = |listed: &ListedTool<'_>| match listed {
            ListedTool::OfServer(tool) => Tool::clone(tool),
            ListedTool::OfSkill(served) => {
                let definition = tool_definition(served, needs_objects);
                if asks { with_forms(definition, served) } else { definition }
            }
        };
        let (page, next) = page(&listed, request, |listed| Some(definition(listed)), json_size)?;
        let mut result = ListToolsResult::with_all_items(page)
            .with_ttl_ms(LIST_LIFETIME_MS)
            .with_cache_scope(CacheScope::Private);
        result.next_cursor = next;
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.answer_call(request, context).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let task = self.task(&request.task_id, &context)?;
        reserve(&context, task.result_size()).await?;
        Ok(GetTaskResult::new(task.details()))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.task(&request.task_id, &context)?.answer(request.input_responses);
        Ok(())
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.task(&request.task_id, &context)?.stop();
        Ok(())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        reserve(&context, LIST_BYTES).await?;
        let inventory = self.inventory();
        let listed: Vec<_> = prompts::listed_skills(&inventory).collect();
        let (page, next) = page(&listed, request, |served| Some(prompts::listed_prompt(served)), json_size)?;
        let mut result = ListPromptsResult::with_all_items(page)
            .with_ttl_ms(LIST_LIFETIME_MS)
            .with_cache_scope(CacheScope::Private);
        result.next_cursor = next;
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.answer_prompt(request, &context).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let work = move |engine: &Engine, inventory: &Inventory, _: &Session| {
            resources::page(engine, inventory, request.and_then(|request| request.cursor))
        };
        Ok(resource_list(self.read(Some(&context), work).await??))
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        reserve(&context, LIST_BYTES).await?;
        let templates = resources::templates(&self.inventory());
        let (page, next) = page(&templates, request, |template| Some(template.clone()), json_size)?;
        let mut result = ListResourceTemplatesResult::with_all_items(page)
            .with_ttl_ms(LIST_LIFETIME_MS)
            .with_cache_scope(CacheScope::Private);
        result.next_cursor = next;
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.answer_resource(request, &context).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.session.watched.add(request.uri) {
            return Ok(());
        }
        let sentence = "a session is told of at most 1,000 resources, with addresses of at most 4,096 bytes";
        Err(ErrorData::invalid_params(sentence, None))
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.session.watched.remove(&request.uri);
        Ok(())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let work = move |engine: &Engine, inventory: &Inventory, _: &Session| {
            resources::complete(engine, inventory, &request)
        };
        Ok(CompleteResult::new(self.read(Some(&context), work).await?))
    }

    async fn list_skills(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        let work = move |engine: &Engine, inventory: &Inventory, _: &Session| {
            let skills: Vec<&Skill> = inventory.for_models().collect();
            page(&skills, request, |skill| skills_extension::listed_entry(engine, skill), json_size)
        };
        let (page, next) = self.read(Some(&context), work).await??;
        let mut result = ListSkillsResult::with_all_items(page)
            .with_ttl_ms(LIST_LIFETIME_MS)
            .with_cache_scope(CacheScope::Private);
        result.next_cursor = next;
        Ok(result)
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        let work = move |engine: &Engine, inventory: &Inventory, _: &Session| {
            skills_extension::entry_at(engine, inventory, &request.uri)
        };
        let entry = self.read(Some(&context), work).await?.map_err(|error| request_error(&error))?;
        Ok(GetSkillResult::new(entry).with_ttl_ms(0).with_cache_scope(CacheScope::Private))
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = PaginatedRequestParams::default().with_cursor(request.cursor.clone());
        let work = move |engine: &Engine, inventory: &Inventory, _: &Session| {
            skills_extension::folder(engine, inventory, &request.uri)
        };
        let found = self.read(Some(&context), work).await?.map_err(|error| request_error(&error))?;
        let page = page(&found, Some(cursor), |resource| Some(resource.clone()), json_size)?;
        Ok(resource_list(page))
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(accepted_filter(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = ListChanges::new(self.server.offers.clone());
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.next() => change,
            };
            let Some(change) = change else { return Ok(()) };
            for notice in change.notices(context.accepted()) {
                // A subscription that cannot be served any more has ended, and `cancelled` says so.
                context.sink().send(notice).await.ok();
            }
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        /// The methods that this server has, and whose parameters were not what they must be.
        const METHODS: [&str; 15] = [
            "completion/complete",
            "initialize",
            "tools/call",
            "tools/list",
            "prompts/get",
            "prompts/list",
            "resources/read",
            "resources/list",
            "resources/directory/read",
            "skills/get",
            "skills/list",
            "subscriptions/listen",
            "tasks/cancel",
            "tasks/get",
            "tasks/update",
        ];
        if let Some(answer) = self.session_request(&request, &context).await {
            return answer.map(CustomResult::new);
        }
        if let Some(filter) = task_filter(&request) {
            return self.listen_to_tasks(filter, &context).await.map(CustomResult::new);
        }
        let method = shorten(&shown_line(&request.method), 80);
        let has_session = needs_objects(&context);
        let is_removed = match request.method.as_str() {
            "initialize" => !has_session,
            "subscriptions/listen" | "tasks/update" => has_session,
            _ => false,
        };
        Err(if METHODS.contains(&request.method.as_str()) && !is_removed {
            ErrorData::invalid_params(format!("the parameters do not fit {method}"), None)
        } else {
            ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method {method}"), None)
        })
    }
}

fn tool_definition(served: &ServedTool, needs_objects: bool) -> Tool {
    let tool = &served.tool;
    let risk = tool.risk;
    let mut annotations = ToolAnnotations::new()
        .read_only(risk.read_only)
        .destructive(risk.destructive)
        .open_world(risk.open_world);
    annotations.idempotent_hint = risk.idempotent;
    let mut definition = Tool::new(served.name.clone(), tool.description.clone(), tool.input_schema.clone())
        .with_title(title_from_names(&served.skill, tool.part.name()))
        .with_annotations(annotations);
    if let Some(size) = tool.max_result_size {
        let mut meta = MetaObject::new();
        meta.insert(MAX_RESULT_SIZE.to_owned(), json!(size));
        definition.meta = Some(meta);
    }
    match &tool.output_schema {
        Some(schema) => definition.with_raw_output_schema(Arc::new(output_schema_for(schema, needs_objects))),
        None => definition,
    }
}

/// A tool for a client by which a person is asked for what its forms ask for.
fn with_forms(mut definition: Tool, served: &ServedTool) -> Tool {
    if !served.tool.forms.is_empty() {
        definition.input_schema = Arc::new(served.tool.asking_input_schema());
    }
    definition
}

/// A tool in a list, before its definition is written.
enum ListedTool<'a> {
    OfServer(Box<Tool>),
    OfSkill(&'a ServedTool),
}

impl ListedTool<'_> {
    fn name(&self) -> &str {
        match self {
            Self::OfServer(tool) => &tool.name,
            Self::OfSkill(served) => &served.name,
        }
    }
}

fn resource_list((page, next): (Vec<Resource>, Option<String>)) -> ListResourcesResult {
    let mut result = ListResourcesResult::with_all_items(page)
        .with_ttl_ms(LIST_LIFETIME_MS)
        .with_cache_scope(CacheScope::Private);
    result.next_cursor = next;
    result
}
