//! Answers the reading of a resource: a file of a skill, a stored result, or what a skill offers at an address of its own.

use rmcp::model::{
    CacheScope, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceContents,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use super::backlog::json_size;
use super::call::CallServices;
use super::handler::{Handler, answer_of, request_error, set_size};
use super::inventory::{Inventory, OfferedResource};
use super::resources;
use super::results::is_base64;
use super::skill_content::{read_file, shown_line, shown_text};
use super::tool_calls::client_name;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_skill::contract::ResourceSource;

/// The most bytes of what a tool answers.
const MAX_CONTENT: usize = 8 << 20;

impl Handler {
    pub(super) async fn answer_resource(
        &self,
        request: ReadResourceRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> std::result::Result<ReadResourceResponse, ErrorData> {
        let (inventory, uri) = (self.inventory(), request.uri);
        let result = if let Some(offered) = inventory.resource(&uri) {
            self.read_offered(&inventory, offered, &uri, context).await?
        } else {
            let read = self.read(Some(context), move |engine, inventory, session| {
                let store = &session.caller.results;
                let result = resources::read(engine, inventory, store, &uri);
                result
                    .map(|result| (json_size(&result), result))
                    .map_err(|error| resource_error(&error, &uri))
            });
            let (size, result) = read.await??;
            set_size(context, size, result)
        };
        Ok(result.with_ttl_ms(0).with_cache_scope(CacheScope::Private).into())
    }

    async fn read_offered(
        &self,
        inventory: &Inventory,
        offered: &OfferedResource,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> std::result::Result<ReadResourceResult, ErrorData> {
        let tool = match &offered.resource.source {
            ResourceSource::File(path) => return self.read_offered_file(offered, path, uri, context).await,
            ResourceSource::Tool(tool) => inventory.tool_of_skill(&offered.skill, tool),
            _ => None,
        };
        let (tool, arguments) =
            tool.zip(offered.arguments(uri)).ok_or_else(|| resource_error(&missing(uri), uri))?;
        // Nobody is asked: a client reads resources by itself. A call has the grants that it has if nobody is asked.
        let services = CallServices {
            client: client_name(context),
            answer: answer_of(context).cloned(),
            ..CallServices::default()
        };
        let outcome =
            self.calls().run(self.caller(), tool, arguments, context.ct.cancelled(), services).await;
        let contents = outcome.result.and_then(|value| tool_contents(offered, uri, value));
        let contents = contents.map_err(|error| run_error(&error))?;
        // To measure a large value takes long, and the thread of the server serves everyone.
        let measure = tokio::task::spawn_blocking(move || {
            let result = ReadResourceResult::new(vec![contents]);
            (json_size(&result), result)
        });
        let (size, result) =
            measure.await.map_err(|_| ErrorData::internal_error("the request failed", None))?;
        Ok(set_size(context, size, result))
    }

    async fn read_offered_file(
        &self,
        offered: &OfferedResource,
        path: &str,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> std::result::Result<ReadResourceResult, ErrorData> {
        let (offered, path, uri) = (offered.clone(), path.to_owned(), uri.to_owned());
        let read = self.read(Some(context), move |engine, inventory, _| {
            let served = inventory.skill(&offered.skill).ok_or_else(|| missing(&uri));
            let file = served.and_then(|served| read_file(engine, &served.skill, &path));
            let file = file.map_err(|error| resource_error(&error, &uri))?;
            let result = resources::file_result(file, &uri, offered.mime_type("text/plain"));
            Ok((json_size(&result), result))
        });
        let (size, result) = read.await??;
        Ok(set_size(context, size, result))
    }
}

/// What a tool answered: a text, bytes as `{"blob": BASE64}`, or any other value as JSON.
fn tool_contents(offered: &OfferedResource, uri: &str, value: Value) -> Result<ResourceContents> {
    let blob = value.as_object().filter(|object| object.len() == 1).and_then(|object| object.get("blob"));
    let is_blob = blob.is_some_and(is_base64);
    let (text, found_type) = match value {
        Value::Object(mut object) if is_blob => {
            let blob = object.shift_remove("blob").and_then(|blob| blob.as_str().map(str::to_owned));
            (blob.unwrap_or_default(), "application/octet-stream")
        }
        Value::String(text) => (text, "text/plain"),
        value => (value.to_string(), "application/json"),
    };
    if text.len() > MAX_CONTENT {
        let sentence = format!(
            "the resource has {} bytes, and at most {} MiB can be read",
            text.len(),
            MAX_CONTENT >> 20
        );
        return Err(SkillError::new(ErrorKind::Output, sentence));
    }
    let contents =
        if is_blob { ResourceContents::blob(text, uri) } else { ResourceContents::text(text, uri) };
    Ok(contents.with_mime_type(offered.mime_type(found_type)))
}

/// The error of a resource whose tool failed.
fn run_error(error: &SkillError) -> ErrorData {
    let mut sentence = shown_text(error.message());
    for violation in error.violations() {
        sentence.extend([format!("; {}", shown_line(&violation.to_string()))]);
    }
    let sentence = metier_core::excerpt::shorten(&sentence, 2_000);
    let help = error.help().map(|help| metier_core::excerpt::shorten(&shown_text(help), 2_000));
    let data = Some(json!({"kind": error.kind().name(), "help": help}));
    match error.kind() {
        ErrorKind::InvalidInput => ErrorData::invalid_params(sentence, data),
        _ => ErrorData::internal_error(sentence, data),
    }
}

fn missing(uri: &str) -> SkillError {
    let shown = metier_core::excerpt::shorten(&shown_line(uri), 200);
    SkillError::new(ErrorKind::InvalidArgument, format!("there is no resource {shown}"))
}

fn resource_error(error: &SkillError, uri: &str) -> ErrorData {
    match error.kind() {
        ErrorKind::InvalidArgument => {
            let sentence = shown_text(error.message());
            let uri = metier_core::excerpt::shorten(&shown_line(uri), 2_000);
            ErrorData::resource_not_found(sentence, Some(json!({"uri": uri})))
        }
        _ => request_error(error),
    }
}
