//! Answers the requests of a client, in every revision of the protocol that it may speak.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
    CustomRequest, CustomResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, GetSkillRequestParams,
    GetSkillResult, Implementation, JsonObject, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListSkillsResult, ListToolsResult, MetaObject, PaginatedRequestParams,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, ReadResourceDirectoryRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, SKILLS_EXTENSION_ID, ServerCapabilities, ServerConfig,
    SubscriptionFilter, Tool, ToolAnnotations,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, SubscriptionContext};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::approval::{ElicitingApprover, PostponingApprover, can_ask};
use super::call::{Calls, ProgressListener};
use super::caller::Caller;
use super::changes::Offer;
use super::disclosure::{self, ActivatedSkills};
use super::inventory::{Inventory, ServedTool};
use super::request_state::StateOwner;
use super::results::{Audience, MAX_TEXT, call_result, output_schema_for};
use super::{completion, prompts, resources, skills_extension};
use crate::engine::Engine;
use crate::error::{ErrorKind, SkillError};
use crate::host::{Approver, Progress};

/// The revisions of the protocol that are spoken. In older ones there is neither structured content nor a link.
const REVISIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];
/// How long a client may use a list without asking again; it is told of changes.
const LIST_LIFETIME_MS: u64 = 60_000;
/// By which a client learns that a tool has results larger than it takes otherwise.
const MAX_RESULT_SIZE: &str = "anthropic/maxResultSizeChars";
/// Reports of progress that wait to be sent; further ones are left out.
const MAX_PROGRESS: usize = 32;
/// What is said about the server where it introduces itself.
const INSTRUCTIONS: &str = "Skills: instructions for tasks, and scripts that run in a sandbox. Each skill that can run is a tool. \
     skills_list finds skills, activate_skill returns the instructions of one, read_skill_file returns its files.";

/// One client of a server.
pub(super) struct Handler {
    engine: Engine,
    name: String,
    calls: Arc<Calls>,
    offers: watch::Receiver<Offer>,
    /// What belongs to this client alone.
    session: Arc<Session>,
}

#[derive(Default)]
struct Session {
    caller: Arc<Caller>,
    activated: ActivatedSkills,
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
    ) -> Self {
        Self { engine, name, calls, offers, session: Arc::default() }
    }

    /// The same for one of several callers.
    pub(super) fn with_caller(mut self, caller: Arc<Caller>) -> Self {
        self.session =
            Arc::new(Session { caller, activated: ActivatedSkills::default(), announcing: OnceLock::new() });
        self
    }

    fn inventory(&self) -> Arc<Inventory> {
        self.offers.borrow().inventory.clone()
    }

    /// Work that reads files, on a thread for it.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Engine, &Inventory, &Session) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let (engine, inventory, session) = (self.engine.clone(), self.inventory(), self.session.clone());
        let result = tokio::task::spawn_blocking(move || work(&engine, &inventory, &session)).await;
        result.map_err(|_| ErrorData::internal_error("the request failed", None))
    }

    async fn call_skill(
        &self,
        tool: &ServedTool,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let needs_objects = needs_objects(&context);
        let arguments = request.arguments.unwrap_or_default();
        let states = self.calls.request_states().filter(|_| can_ask(&context));
        let client = context.client_info().map(|client| client.name).unwrap_or_default();
        let values = Value::Object(arguments.clone());
        let owner = StateOwner {
            caller: self.session.caller.number,
            client: &client,
            tool: &request.name,
            arguments: &values,
        };
        let RequestContext { ct, peer, meta, id, .. } = context;
        let (mut approver, mut postponing): (Option<Arc<dyn Approver>>, _) = (None, None);
        match states {
            None => {}
            Some(_) if needs_objects => approver = Some(Arc::new(ElicitingApprover::new(peer.clone(), id))),
            Some(states) => {
                let postponed = match request.request_state.map(|state| states.open(&state, &owner)) {
                    None => PostponingApprover::default(),
                    Some(Ok(question)) => {
                        PostponingApprover::with_answer(question, request.input_responses.as_ref())
                    }
                    Some(Err(error)) => return Err(request_error(&error)),
                };
                let postponed = Arc::new(postponed);
                approver = Some(postponed.clone());
                postponing = Some((postponed, states));
            }
        }
        let (listener, mut reports) = match meta.get_progress_token() {
            Some(token) => progress_channel(token),
            None => (None, None),
        };
        let run = self.calls.run(tool, arguments, ct.cancelled(), listener, approver);
        let outcome = match &mut reports {
            None => run.await,
            Some(reports) => {
                let mut run = std::pin::pin!(run);
                let outcome = loop {
                    tokio::select! {
                        outcome = &mut run => break outcome,
                        Some(report) = reports.recv() => drop(peer.notify_progress(report).await),
                    }
                };
                while let Ok(report) = reports.try_recv() {
                    peer.notify_progress(report).await.ok();
                }
                outcome
            }
        };
        let question = postponing.and_then(|(approver, states)| approver.input_required(states, &owner));
        if let Some(question) = question {
            return Ok(question.into());
        }
        let max_text = tool.tool.max_result_size.unwrap_or(MAX_TEXT);
        let audience = Audience { max_text, needs_objects, store: &self.session.caller.results };
        Ok(call_result(outcome, tool.tool.output_schema.as_ref(), &audience).into())
    }
}

/// A listener for the progress of a run, and the notifications that it makes.
fn progress_channel(
    token: ProgressToken,
) -> (Option<ProgressListener>, Option<mpsc::Receiver<ProgressNotificationParam>>) {
    let (sender, receiver) = mpsc::channel(MAX_PROGRESS);
    let last = std::sync::Mutex::new(0.0_f64);
    let listener = move |progress: &Progress| {
        let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // The protocol demands that it grows. A script may report what it likes, or nothing but texts.
        let done = progress
            .done
            .filter(|done| done.is_finite() && *done > *last)
            .unwrap_or(*last + f64::EPSILON.max(*last * 1e-9));
        let mut report = ProgressNotificationParam::new(token.clone(), done).with_message(
            crate::excerpt::shorten(&super::skill_content::shown_text(&progress.message), 2_000),
        );
        if let Some(total) = progress.total.filter(|total| total.is_finite()) {
            report = report.with_total(total);
        }
        if sender.try_send(report).is_ok() {
            *last = done;
        }
    };
    (Some(Box::new(listener)), Some(receiver))
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let mut skills = JsonObject::new();
        skills.insert("directoryRead".to_owned(), json!(true));
        let capabilities = ServerCapabilities::builder()
            .enable_extensions_with(BTreeMap::from([(SKILLS_EXTENSION_ID.to_owned(), skills)]))
            .enable_completions()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .build();
        let mut config = ServerConfig::new(capabilities);
        config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        config.server_info = Implementation::new(self.name.clone(), env!("CARGO_PKG_VERSION"));
        config.instructions = Some(INSTRUCTIONS.to_owned());
        config
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(const { &REVISIONS })
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.session
            .announcing
            .get_or_init(|| tokio::spawn(announce_changes(context.peer, self.offers.clone())).abort_handle());
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.inventory().tool(name).map(|served| tool_definition(served, false))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let inventory = self.inventory();
        let needs_objects = needs_objects(&context);
        let mut tools = disclosure::tools(&inventory);
        tools.extend(inventory.tools.iter().map(|served| tool_definition(served, needs_objects)));
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        let (page, next) = page(tools, request)?;
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
        let arguments = request.arguments.unwrap_or_default();
        let needs_objects = needs_objects(&context);
        let has_session = needs_objects;
        let name = request.name.into_owned();
        let shown = crate::excerpt::shorten(&super::skill_content::shown_line(&name), 80);
        let work = move |engine: &Engine, inventory: &Inventory, session: &Session| {
            let audience = Audience { max_text: MAX_TEXT, needs_objects, store: &session.caller.results };
            let activated = has_session.then_some(&session.activated);
            disclosure::call(&name, &arguments, (engine, inventory), activated, &audience)
        };
        let result = self.read(work).await?;
        result
            .map(Into::into)
            .ok_or_else(|| ErrorData::invalid_params(format!("there is no tool {shown}"), None))
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let (page, next) = page(prompts::prompts(&self.inventory()), request)?;
        let mut result = ListPromptsResult::with_all_items(page)
            .with_ttl_ms(LIST_LIFETIME_MS)
            .with_cache_scope(CacheScope::Private);
        result.next_cursor = next;
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let work = move |engine: &Engine, inventory: &Inventory, _: &Session| {
            prompts::prompt(engine, inventory, &request.name, request.arguments.as_ref())
        };
        self.read(work).await?.map(Into::into).map_err(|error| request_error(&error))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let found = self.read(|engine, inventory, _| resources::resources(engine, inventory)).await?;
        resource_page(found, request)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let result = ListResourceTemplatesResult::with_all_items(resources::templates());
        Ok(result.with_ttl_ms(LIST_LIFETIME_MS).with_cache_scope(CacheScope::Public))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let work = move |engine: &Engine, inventory: &Inventory, session: &Session| {
            let result = resources::read(engine, inventory, &session.caller.results, &request.uri);
            result.map_err(|error| resource_error(&error, &request.uri))
        };
        let result = self.read(work).await??;
        Ok(result.with_ttl_ms(0).with_cache_scope(CacheScope::Private).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let work = move |engine: &Engine, inventory: &Inventory, _: &Session| {
            completion::complete(engine, inventory, &request)
        };
        Ok(CompleteResult::new(self.read(work).await?))
    }

    async fn list_skills(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        let entries = self.read(|engine, inventory, _| skills_extension::entries(engine, inventory)).await?;
        let (page, next) = page(entries, request)?;
        let mut result = ListSkillsResult::with_all_items(page)
            .with_ttl_ms(LIST_LIFETIME_MS)
            .with_cache_scope(CacheScope::Private);
        result.next_cursor = next;
        Ok(result)
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        let work = move |engine: &Engine, inventory: &Inventory, _: &Session| {
            skills_extension::entry_at(engine, inventory, &request.uri)
        };
        let entry = self.read(work).await?.map_err(|error| request_error(&error))?;
        Ok(GetSkillResult::new(entry).with_ttl_ms(0).with_cache_scope(CacheScope::Private))
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = PaginatedRequestParams::default().with_cursor(request.cursor.clone());
        let work = move |engine: &Engine, inventory: &Inventory, _: &Session| {
            skills_extension::folder(engine, inventory, &request.uri)
        };
        let found = self.read(work).await?.map_err(|error| request_error(&error))?;
        resource_page(found, Some(cursor))
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        accepted.resource_subscriptions = None;
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut offers = self.offers.clone();
        let mut before = offers.borrow_and_update().clone();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = offers.changed() => if changed.is_err() { return Ok(()) },
            }
            let now = offers.borrow_and_update().clone();
            let (sink, accepted) = (context.sink(), context.accepted());
            // A subscription that cannot be served any more has ended, and `cancelled` says so.
            if before.tools != now.tools && accepted.tools_list_changed == Some(true) {
                sink.notify_tool_list_changed().await.ok();
            }
            if before.prompts != now.prompts && accepted.prompts_list_changed == Some(true) {
                sink.notify_prompt_list_changed().await.ok();
            }
            if before.resources != now.resources && accepted.resources_list_changed == Some(true) {
                sink.notify_resource_list_changed().await.ok();
            }
            before = now;
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        /// The methods that this server has, and whose parameters were not what they must be.
        const METHODS: [&str; 11] = [
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
        ];
        let method = crate::excerpt::shorten(&super::skill_content::shown_line(&request.method), 80);
        let is_removed = request.method == "initialize" && !needs_objects(&context);
        Err(if METHODS.contains(&request.method.as_str()) && !is_removed {
            ErrorData::invalid_params(format!("the parameters do not fit {method}"), None)
        } else {
            ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method {method}"), None)
        })
    }
}

/// Tells a client of a revision with sessions what changed, as long as it is there.
async fn announce_changes(peer: Peer<RoleServer>, mut offers: watch::Receiver<Offer>) {
    let mut before = offers.borrow_and_update().clone();
    while offers.changed().await.is_ok() && !peer.is_transport_closed() {
        let now = offers.borrow_and_update().clone();
        if before.tools != now.tools {
            peer.notify_tool_list_changed().await.ok();
        }
        if before.prompts != now.prompts {
            peer.notify_prompt_list_changed().await.ok();
        }
        if before.resources != now.resources {
            peer.notify_resource_list_changed().await.ok();
        }
        before = now;
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

/// Whether the client speaks a revision with sessions, in which structured content is always an object.
fn needs_objects(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_none_or(|version| version.has_initialize())
}

/// One page of a list, and the cursor of the next one.
fn page<T>(
    items: Vec<T>,
    request: Option<PaginatedRequestParams>,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let start = match request.and_then(|request| request.cursor) {
        None => 0,
        Some(cursor) => match cursor.parse::<usize>() {
            Ok(start) if start <= items.len() => start,
            _ => return Err(ErrorData::invalid_params("the cursor is not one of this list", None)),
        },
    };
    let end = items.len().min(start.saturating_add(resources::PAGE));
    let next = (end < items.len()).then(|| end.to_string());
    Ok((items.into_iter().skip(start).take(end - start).collect(), next))
}

fn resource_page(
    found: Vec<rmcp::model::Resource>,
    request: Option<PaginatedRequestParams>,
) -> Result<ListResourcesResult, ErrorData> {
    let (page, next) = page(found, request)?;
    let mut result = ListResourcesResult::with_all_items(page)
        .with_ttl_ms(LIST_LIFETIME_MS)
        .with_cache_scope(CacheScope::Private);
    result.next_cursor = next;
    Ok(result)
}

fn request_error(error: &SkillError) -> ErrorData {
    let sentence = super::skill_content::shown_text(error.message());
    match error.kind() {
        ErrorKind::Io => ErrorData::internal_error(sentence, None),
        _ => ErrorData::invalid_params(sentence, Some(json!({"kind": error.kind().name()}))),
    }
}

fn resource_error(error: &SkillError, uri: &str) -> ErrorData {
    match error.kind() {
        ErrorKind::InvalidArgument => {
            let sentence = super::skill_content::shown_text(error.message());
            let uri = crate::excerpt::shorten(&super::skill_content::shown_line(uri), 2_000);
            ErrorData::resource_not_found(sentence, Some(json!({"uri": uri})))
        }
        _ => request_error(error),
    }
}
