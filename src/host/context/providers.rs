//! Traits that an embedder implements: tools, other skills, a model, configuration, secrets, an HTTP client. All are small, and
//! may block; [`Async`](crate::host::Async) makes them of asynchronous ones.
//!
//! A provider's result counts against the memory of the run once it is complete: only the provider can keep it from becoming too
//! large while it is built, and nothing counts the other memory that it takes.
//!
//! Permissions are checked before a provider is called. Every method but those of [`SkillProvider`] is called on a thread of its
//! own: when its run stops, the run ends without waiting for it, and what it returns later is dropped. A method that waits should
//! still listen to `ctx.cancel()`, so that its thread ends. A panic fails the call and nothing else.
//!
//! A provider gets the arguments as the script passed them, including secrets: tools and web pages need them.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::SkillContext;
use super::approver::Approver;
use super::sampling::{SampleRequest, SampleResponse};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::files::{ChangeDecision, FileChange};

/// The services that the host of a run offers besides files. Absent ones are `unavailable` to scripts.
///
/// ```
/// use metier::engine::Invocation;
/// use metier::host::{ClosureTools, Providers};
/// use serde_json::json;
///
/// let tools = ClosureTools::new().tool("now", "The time", json!({}), |_, _| Ok(json!("12:00")));
/// let invocation = Invocation::new("word-count").providers(Providers::default().tools(tools));
/// # let _ = invocation;
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Providers {
    /// Tools of the embedder, for `ctx.tool`.
    pub tools: Option<Arc<dyn ToolProvider>>,
    /// Other skills, for `ctx.skill`. The engine sets itself here.
    pub skills: Option<Arc<dyn SkillProvider>>,
    /// A model, for `ctx.sample`.
    pub sampling: Option<Arc<dyn SamplingProvider>>,
    /// Settings, for `ctx.config`; without a provider no skill has any.
    pub config: Option<Arc<dyn ConfigProvider>>,
    /// Secrets, for `ctx.secret`.
    pub secrets: Option<Arc<dyn SecretProvider>>,
    /// HTTP requests, for `ctx.http`.
    pub http: Option<Arc<dyn HttpClient>>,
    /// Decides about permissions that nobody granted; without one, they are refused.
    pub approver: Option<Arc<dyn Approver>>,
    /// The view of an editor over the files of the project.
    pub files: Option<Arc<dyn FileProvider>>,
}

impl Providers {
    /// The same with these tools.
    pub fn tools(self, tools: impl ToolProvider + 'static) -> Self {
        Self { tools: Some(Arc::new(tools)), ..self }
    }

    /// The same with this provider of other skills.
    pub fn skills(self, skills: impl SkillProvider + 'static) -> Self {
        Self { skills: Some(Arc::new(skills)), ..self }
    }

    /// The same with this model.
    pub fn sampling(self, model: impl SamplingProvider + 'static) -> Self {
        Self { sampling: Some(Arc::new(model)), ..self }
    }

    /// The same with these settings.
    pub fn config(self, settings: impl ConfigProvider + 'static) -> Self {
        Self { config: Some(Arc::new(settings)), ..self }
    }

    /// The same with these secrets.
    pub fn secrets(self, secrets: impl SecretProvider + 'static) -> Self {
        Self { secrets: Some(Arc::new(secrets)), ..self }
    }

    /// The same with this HTTP client.
    pub fn http(self, client: impl HttpClient + 'static) -> Self {
        Self { http: Some(Arc::new(client)), ..self }
    }

    /// The same with this approver.
    pub fn approver(self, approver: impl Approver + 'static) -> Self {
        Self { approver: Some(Arc::new(approver)), ..self }
    }

    /// The same with this view of an editor.
    pub fn files(self, editor: impl FileProvider + 'static) -> Self {
        Self { files: Some(Arc::new(editor)), ..self }
    }

    /// These providers, with those of `others` in place of the same ones here.
    pub(crate) fn overridden_by(&self, others: &Self) -> Self {
        Self {
            tools: others.tools.as_ref().or(self.tools.as_ref()).cloned(),
            skills: others.skills.as_ref().or(self.skills.as_ref()).cloned(),
            sampling: others.sampling.as_ref().or(self.sampling.as_ref()).cloned(),
            config: others.config.as_ref().or(self.config.as_ref()).cloned(),
            secrets: others.secrets.as_ref().or(self.secrets.as_ref()).cloned(),
            http: others.http.as_ref().or(self.http.as_ref()).cloned(),
            approver: others.approver.as_ref().or(self.approver.as_ref()).cloned(),
            files: others.files.as_ref().or(self.files.as_ref()).cloned(),
        }
    }
}

/// Tools of the embedder.
pub trait ToolProvider: Send + Sync {
    /// All tools.
    fn tools(&self) -> Vec<Tool>;

    /// The tool of that name. Called before every tool call, so a provider with many tools should answer without building the
    /// list.
    fn tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    /// Whether a tool of that name exists, even one without a description. Also called before every tool call.
    fn has(&self, name: &str) -> bool {
        self.tool(name).is_some()
    }

    /// Refuses arguments that the tool does not accept, before it is called: scripts see the error as it is. An engine also
    /// validates them against [`Tool::input_schema`], whatever this returns.
    fn check(&self, name: &str, args: &Value) -> Result<()> {
        let _ = (name, args);
        Ok(())
    }

    /// Calls a tool. Scripts see a failure as an error of kind `tool` with this error's message; the kinds of limits stay. The
    /// result counts against the memory of the run once it is complete, so bound here what a script can make large.
    fn call(&self, ctx: &SkillContext, name: &str, args: &Value) -> Result<Value>;
}

/// A tool as its provider describes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Tool {
    /// The name scripts call it by.
    pub name: String,
    /// Its description, for models and people.
    pub description: String,
    /// Its input, as a JSON Schema; `{}` accepts any. An engine never calls the tool with other arguments: `invalid-input`, with
    /// every violation. Omitted arguments (`null`) count as `{}` for a schema whose `type` is `object`, and reach the tool as
    /// they are. A schema that cannot be enforced (one that refers to itself, uses look-around in a pattern, or is larger than
    /// the inputs of a skill may be) refuses nothing: the tool validates by itself.
    pub input_schema: Value,
}

impl Tool {
    /// A tool with that name, description and JSON Schema of its input.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: Value) -> Self {
        Self { name: name.into(), description: description.into(), input_schema }
    }
}

/// Runs other skills for a skill.
pub trait SkillProvider: Send + Sync {
    /// Runs the skill of that name to its end and returns its value. Its permissions are limited to those of the caller. The
    /// input `null` means no input.
    fn run(&self, ctx: &SkillContext, name: &str, input: Value) -> Result<Value>;

    /// Whether a skill that the running one may see offers a tool of that name, `SKILL.TOOL`. Asked where the tools of the host have
    /// none of that name.
    fn has_tool(&self, ctx: &SkillContext, name: &str) -> bool {
        let _ = (ctx, name);
        false
    }

    /// Calls the tool of a skill, by `SKILL.TOOL`, to its end and returns its value. Its permissions are limited to those of the caller.
    /// The input `null` means no input.
    fn call_tool(&self, ctx: &SkillContext, name: &str, input: Value) -> Result<Value> {
        let _ = (ctx, input);
        Err(SkillError::new(ErrorKind::Tool, format!("no tool is called `{name}`")))
    }

    /// The digest of the files of the skill that runs, as text, for an approver; `None` if they are unknown or cannot be read: then
    /// the engine computes it, and where it cannot, the answer is no.
    fn digest(&self, ctx: &SkillContext) -> Option<String> {
        let _ = ctx;
        None
    }
}

/// A model that continues a text.
pub trait SamplingProvider: Send + Sync {
    /// The model's answer. What comes of it earlier may be handed on with [`SkillContext::stream_sample`].
    fn sample(&self, ctx: &SkillContext, request: &SampleRequest) -> Result<SampleResponse>;
}

/// Settings of skills.
pub trait ConfigProvider: Send + Sync {
    /// The settings of the skill that runs; empty if there are none. A skill of a project may have the name of another one:
    /// [`SkillContext::qualified_name`] tells them apart.
    fn config(&self, ctx: &SkillContext) -> Result<Map<String, Value>>;
}

/// Secrets of skills.
pub trait SecretProvider: Send + Sync {
    /// The secret of this name for the skill that runs, or `None`. Blank secrets are refused. A skill of a project may have the
    /// name of another one: [`SkillContext::qualified_name`] tells them apart.
    fn secret(&self, ctx: &SkillContext, name: &str) -> Result<Option<String>>;

    /// Whether there is a secret of this name, without reading it: asked before a run, and in lists of what can run. `None`, the default,
    /// if only reading it would tell.
    fn has(&self, ctx: &SkillContext, name: &str) -> Option<bool> {
        let _ = (ctx, name);
        None
    }
}

/// The view of an editor over the files of the project: what it has not saved is read in place of the disk, and changes are shown
/// to it before they are made.
///
/// It is asked about nothing that the run could not read or change without it: permissions, protected paths, links and limits were
/// checked, and hold for an unsaved content as for a file. Paths are relative to the project and contain no symbolic links, so each
/// file has one. The process of an external script reads and writes the disk itself; only what it does through `ctx` comes here.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Mutex;
///
/// use metier::engine::Engine;
/// use metier::error::Result;
/// use metier::host::{ChangeDecision, FileChange, FileChangeKind, FileProvider, SkillContext};
///
/// #[derive(Default)]
/// struct Buffers(Mutex<BTreeMap<String, Vec<u8>>>);
///
/// impl FileProvider for Buffers {
///     fn unsaved(&self, _: &SkillContext, path: &str) -> Result<Option<Vec<u8>>> {
///         Ok(self.0.lock().unwrap().get(path).cloned())
///     }
///
///     fn unsaved_paths(&self, _: &SkillContext) -> Result<Vec<String>> {
///         Ok(self.0.lock().unwrap().keys().cloned().collect())
///     }
///
///     fn before_change(&self, _: &SkillContext, change: &FileChange) -> Result<ChangeDecision> {
///         match (&change.kind, self.0.lock().unwrap().get_mut(&change.path)) {
///             (FileChangeKind::Write { content, .. }, Some(open)) => {
///                 open.clone_from(content);
///                 Ok(ChangeDecision::Applied)
///             }
///             _ => Ok(ChangeDecision::Proceed),
///         }
///     }
/// }
///
/// # fn main() -> Result<()> {
/// let engine = Engine::builder(".").files(Buffers::default()).build()?;
/// # let _ = engine;
/// # Ok(())
/// # }
/// ```
pub trait FileProvider: Send + Sync {
    /// The unsaved content of a file, which need not exist on the disk; `None` if the disk has what is to be read. Asked at every
    /// read of a file.
    fn unsaved(&self, ctx: &SkillContext, path: &str) -> Result<Option<Vec<u8>>>;

    /// The paths of all files that have an unsaved content, at most 10,000, so that searches and lists ask for no other file.
    /// They are absolute or relative to the project, and without symbolic links; paths outside the project are left out.
    fn unsaved_paths(&self, ctx: &SkillContext) -> Result<Vec<String>>;

    /// Decides about a change. An error refuses it, as do a panic and an answer that takes longer than
    /// [`time_limit`](Self::time_limit) (`denied`); then nothing is changed. Nothing tells the provider that its time is over:
    /// it looks at its own clock, and at `ctx.cancel()` for a run that was stopped.
    ///
    /// The deadlines of the run stand still meanwhile: for the first 64 decisions in an invoked run with all that it calls, but for
    /// none that begins after they have stood still for one time limit in all. Then a deadline also stops a run that waits.
    fn before_change(&self, ctx: &SkillContext, change: &FileChange) -> Result<ChangeDecision> {
        let _ = (ctx, change);
        Ok(ChangeDecision::Proceed)
    }

    /// A change was made on the disk, after `before_change` answered [`ChangeDecision::Proceed`].
    fn changed(&self, ctx: &SkillContext, change: &FileChange) {
        let _ = (ctx, change);
    }

    /// The time that a decision may take; 5 minutes by default. After one that took longer, the invoked run and all that it calls
    /// are refused every change.
    fn time_limit(&self) -> Duration {
        Duration::from_mins(5)
    }
}

/// An HTTP client.
pub trait HttpClient: Send + Sync {
    /// Sends a request and reads the response. `net` of the URL's host was checked already; a client that follows a redirect
    /// checks the next host with `ctx.permissions()`.
    fn send(&self, ctx: &SkillContext, request: HttpRequest) -> Result<HttpResponse>;
}

/// A request with validated arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpRequest {
    /// `GET`, `POST` and so on, in capitals.
    pub method: String,
    /// The URL: `http` or `https`.
    pub url: String,
    /// Headers, in the script's order.
    pub headers: Vec<(String, String)>,
    /// The body, if there is one.
    pub body: Option<Vec<u8>>,
    /// Timeout of the request; the run's deadline applies in any case.
    pub timeout: Option<Duration>,
    /// Maximum bytes of the response body.
    pub max_bytes: u64,
    /// The URL below which the request and every redirect must stay, if there is one. The URL of the request was checked already; a client
    /// that follows a redirect refuses one that leads elsewhere, and what it returns from elsewhere is dropped.
    pub base_url: Option<String>,
}

/// An HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpResponse {
    /// The status code; an error status is returned like any other.
    pub status: u16,
    /// The URL of the response, after redirects.
    pub url: String,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// A request with that method, in capitals, for that URL, whose response has at most this many bytes. It has no headers, no
    /// body and no timeout.
    pub fn new(method: impl Into<String>, url: impl Into<String>, max_bytes: u64) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: None,
            timeout: None,
            max_bytes,
            base_url: None,
        }
    }
}

impl HttpResponse {
    /// A response with that status, from that URL; it has no headers.
    pub fn new(status: u16, url: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self { status, url: url.into(), headers: Vec::new(), body: body.into() }
    }

    /// Adds a header, whose name is in lower case.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}
