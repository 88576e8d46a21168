//! Answers the requests of a client, in every revision of the protocol that it may speak.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

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
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::backlog::{Answer, LIST_BYTES, READ_BYTES, json_size};
use super::call::Calls;
use super::call_errors::gone_error;
use super::caller::Caller;
#[cfg(unix)]
use super::change_results;
use super::changes::Offer;
use super::disclosure::{self, ActivatedSkills};
use super::elicitation::can_ask;
use super::inventory::{Inventory, ServedTool};
use super::list_changes::{ListChanges, WatchedFiles, accepted_filter, announce_changes};
use super::paging::page;
use super::results::{Audience, MAX_TEXT, error_result, output_schema_for};
use super::task_messages::task_filter;
use super::tools::is_change_tool;
#[cfg(unix)]
use super::tools::title_from_names;
use super::{completion, prompts, resources, skills_extension};
use crate::engine::Engine;
use crate::registry::Skill;
use metier_core::error::{ErrorKind, SkillError};

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
    tools.extend(runs_in_copies.then(change_results::tools).into_iter().flatten());
    #[cfg(not(unix))]
    let _ = runs_in_copies;
    tools
}

/// One client of a server.
pub(super) struct Handler {
    engine: Engine,
    name: String,
    calls: Arc<Calls>,
    offers: watch::Receiver<Offer>,
    /// What belongs to this client alone.
    session: Arc<Session>,
}

pub(super) struct Session {
    pub(super) caller: Arc<Caller>,
    activated: ActivatedSkills,
    watched: Arc<WatchedFiles>,
    /// The task that tells the client what changed; it ends with the session.
    announcing: OnceLock<AbortHandle>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(task) = self.announcing.get() {
            task.abort();
        }
    }
}

impl Handler {
    pub(super) fn new(
        engine: Engine,
        name: String,
        calls: Arc<Calls>,
        offers: watch::Receiver<Offer>,
        caller: Arc<Caller>,
    ) -> Self {
        let (activated, watched, announcing) = Default::default();
        let session = Session { caller, activated, watched, announcing };
        Self { engine, name, calls, offers, session: Arc::new(session) }
    }

    pub(super) fn offers(&self) -> watch::Receiver<Offer> {
        self.offers.clone()
    }

    pub(super) fn inventory(&self) -> Arc<Inventory> {
        self.offers.borrow().inventory.clone()
    }

    /// Work that reads files, on a thread for it. The answer takes the space of a list then; for more, its size is to be set.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        context: Option<&RequestContext<RoleServer>>,
        work: impl FnOnce(&Engine, &Inventory, &Session) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let readers = self.caller().readers.acquire();
        let _place = match context {
            Some(context) => {
                let place = uncancelled(context, readers).await?;
                reserve(context, READ_BYTES).await?;
                place
            }
            None => readers.await,
        };
        let (engine, inventory, session) = (self.engine.clone(), self.inventory(), self.session.clone());
        let result = tokio::task::spawn_blocking(move || work(&engine, &inventory, &session)).await;
        if let Some(answer) = context.and_then(answer_of) {
            answer.set_size(LIST_BYTES);
        }
        result.map_err(|_| ErrorData::internal_error("the request failed", None))
    }

    #[cfg(unix)]
    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn calls(&self) -> &Arc<Calls> {
        &self.calls
    }

    pub(super) fn caller(&self) -> &Arc<Caller> {
        &self.session.caller
    }

    /// Whether a tool of this name runs a skill.
    pub(super) fn is_skill_tool(&self, name: &str) -> bool {
        self.inventory().tool(name).is_some()
    }
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
        config.server_info = Implementation::new(self.name.clone(), env!("CARGO_PKG_VERSION"));
        let copies = if self.calls.runs_in_copies() { COPY_INSTRUCTIONS } else { "" };
        config.instructions = Some(format!("{INSTRUCTIONS}{copies}"));
        config
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(const { &REVISIONS })
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let changes = || announce_changes(context.peer, self.offers(), self.session.watched.clone());
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
        let asks = self.calls.request_states().is_some() && can_ask(&context);
        let mut listed: Vec<ListedTool> = server_tools(&inventory, self.calls.runs_in_copies())
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
        let inventory = self.inventory();
        if let Some(tool) = inventory.tool(&request.name) {
            return self.call_skill(tool, request, context).await;
        }
        #[cfg(unix)]
        if self.calls.runs_in_copies() && is_change_tool(&request.name) {
            return self.call_change_tool(request, &context).await;
        }
        let arguments = request.arguments.unwrap_or_default();
        let needs_objects = needs_objects(&context);
        let has_session = needs_objects;
        let name = request.name.into_owned();
        let shown = metier_core::excerpt::shorten(&super::skill_content::shown_line(&name), 80);
        let calls = self.calls.clone();
        let work = move |engine: &Engine, inventory: &Inventory, session: &Session| {
            let audience = Audience { max_text: MAX_TEXT, needs_objects, store: &session.caller.results };
            let activated = has_session.then_some(&session.activated);
            let result = disclosure::call(&name, &arguments, (engine, inventory), activated, &audience);
            result.or_else(|| {
                let gone = inventory.gone.get(&name)?;
                let error = gone_error((engine, inventory), gone);
                Some(error_result(&calls.with_help((&gone.skill, &gone.address), error)))
            })
        };
        let result = self.read(Some(&context), work).await?;
        result
            .map(Into::into)
            .ok_or_else(|| ErrorData::invalid_params(format!("there is no tool {shown}"), None))
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
            completion::complete(engine, inventory, &request)
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
        let mut changes = ListChanges::new(self.offers());
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
        let method = metier_core::excerpt::shorten(&super::skill_content::shown_line(&request.method), 80);
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

/// The answer to this request, where it counts.
pub(super) fn answer_of(context: &RequestContext<RoleServer>) -> Option<&Arc<Answer>> {
    let of_http = || context.extensions.get::<::http::request::Parts>()?.extensions.get();
    context.extensions.get().or_else(of_http)
}

/// Waits until the caller has space for so many bytes more of the answer to this request.
pub(super) async fn reserve(context: &RequestContext<RoleServer>, bytes: usize) -> Result<(), ErrorData> {
    match answer_of(context) {
        Some(answer) => uncancelled(context, answer.reserve(bytes)).await,
        None => Ok(()),
    }
}

/// What is waited for, unless the request is cancelled before: nobody reads its answer then.
async fn uncancelled<T>(
    context: &RequestContext<RoleServer>,
    awaited: impl Future<Output = T>,
) -> Result<T, ErrorData> {
    tokio::select! {
        biased;
        value = awaited => Ok(value),
        () = context.ct.cancelled() => Err(ErrorData::internal_error("the request was cancelled", None)),
    }
}

/// The result, whose answer has so many bytes.
pub(super) fn set_size<T>(context: &RequestContext<RoleServer>, bytes: usize, result: T) -> T {
    if let Some(answer) = answer_of(context) {
        answer.set_size(bytes);
    }
    result
}

/// Whether the client speaks a revision with sessions, in which structured content is always an object.
pub(super) fn needs_objects(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_none_or(|version| version.has_initialize())
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

pub(super) fn request_error(error: &SkillError) -> ErrorData {
    let sentence = super::skill_content::shown_text(error.message());
    match error.kind() {
        ErrorKind::Io => ErrorData::internal_error(sentence, None),
        _ => ErrorData::invalid_params(sentence, Some(json!({"kind": error.kind().name()}))),
    }
}
