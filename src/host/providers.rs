//! What an embedder hands in: tools, other skills, a model, configuration, secrets, a client for the web. Small sync traits.
//!
//! What a provider answers counts with the memory of the run once it is there: nobody but the provider can keep it from becoming
//! too large while it is made, and nothing counts what it takes besides.
//!
//! Permissions are checked before a provider is asked. Every method runs on the run's own thread (a skill that another one
//! calls has one to itself); one that waits should listen to `ctx.cancel()` and give up when it stops. One that panics fails
//! the call and nothing else.
//!
//! What a provider is handed is what the script handed over, secrets included: tools and pages are what secrets are for.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::context::SkillContext;
use crate::error::Result;

/// What the host of a run offers beside files. What is absent is `unavailable` to scripts.
#[derive(Clone, Default)]
pub struct Providers {
    /// Tools of the embedder, for `ctx.tool`.
    pub tools: Option<Arc<dyn ToolProvider>>,
    /// Other skills, for `ctx.skill`. The engine puts itself here.
    pub skills: Option<Arc<dyn SkillProvider>>,
    /// A model, for `ctx.sample`.
    pub sampling: Option<Arc<dyn SamplingProvider>>,
    /// Settings, for `ctx.config`; without a provider no skill has any.
    pub config: Option<Arc<dyn ConfigProvider>>,
    /// Secrets, for `ctx.secret`.
    pub secrets: Option<Arc<dyn SecretProvider>>,
    /// The web, for `ctx.http`.
    pub http: Option<Arc<dyn HttpClient>>,
}

/// Tools of the embedder.
pub trait ToolProvider: Send + Sync {
    /// The tools there are.
    fn tools(&self) -> Vec<Tool>;

    /// The tool of that name. Asked before every call, so whoever has many tools answers it without a list.
    fn tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    /// Whether there is a tool of that name, which may be known of one that is not described. Asked before every call too.
    fn has(&self, name: &str) -> bool {
        self.tool(name).is_some()
    }

    /// Refuses arguments that the tool does not take, before it is called: scripts see the error as it is. An engine holds
    /// them against [`Tool::input_schema`] besides, whatever this says.
    fn check(&self, name: &str, args: &Value) -> Result<()> {
        let _ = (name, args);
        Ok(())
    }

    /// Calls a tool. Scripts see a failure as an error of kind `tool` with this one's sentence; the kinds of limits stay.
    /// The answer counts with the memory of the run once it is there, so bound here what a script can make large.
    fn call(&self, ctx: &SkillContext, name: &str, args: &Value) -> Result<Value>;
}

/// A tool as its provider describes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tool {
    /// The name scripts call it by.
    pub name: String,
    /// What it does, for models and people.
    pub description: String,
    /// What it takes, as a JSON Schema; `{}` takes anything. An engine calls the tool with nothing else: `invalid-input`, with
    /// every violation. Arguments left out (`null`) count as `{}` for a schema whose `type` is `object`, and reach the tool as
    /// they are. A schema that cannot be held (one that refers to itself, looks around in a pattern, or is larger than the
    /// inputs of a skill may be) refuses nothing: the tool judges by itself.
    pub input_schema: Value,
}

/// Runs other skills for a skill.
pub trait SkillProvider: Send + Sync {
    /// Runs the skill of that name to its end and answers with its value. What it may do is held to what the caller may.
    /// The input `null` is none.
    fn run(&self, ctx: &SkillContext, name: &str, input: Value) -> Result<Value>;
}

/// A model that continues a text.
pub trait SamplingProvider: Send + Sync {
    /// The model's answer.
    fn sample(&self, ctx: &SkillContext, request: &SampleRequest) -> Result<String>;
}

/// What a script asks a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleRequest {
    /// What the model is told before, where the script says so.
    pub system: Option<String>,
    /// What the script asks.
    pub prompt: String,
    /// Tokens the answer may take; the provider's own limit when absent.
    pub max_tokens: Option<u64>,
}

/// Settings of skills.
pub trait ConfigProvider: Send + Sync {
    /// The settings of that skill, empty where there are none.
    fn config(&self, skill: &str) -> Result<Map<String, Value>>;
}

/// Secrets of skills.
pub trait SecretProvider: Send + Sync {
    /// The secret that skill knows by this name, or nothing. Blank ones are refused.
    fn secret(&self, skill: &str, name: &str) -> Result<Option<String>>;
}

/// A client for the web.
pub trait HttpClient: Send + Sync {
    /// Sends a request and reads the answer. `net` of the URL's host was checked already; a client that follows a redirect
    /// checks the next host by `ctx.permissions()`.
    fn send(&self, ctx: &SkillContext, request: HttpRequest) -> Result<HttpResponse>;
}

/// A request, its arguments checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// `GET`, `POST` and so on, in capitals.
    pub method: String,
    /// Where to: `http` or `https`.
    pub url: String,
    /// Headers, in the script's order.
    pub headers: Vec<(String, String)>,
    /// The body, where there is one.
    pub body: Option<Vec<u8>>,
    /// The most time it may take; the run's deadline holds in any case.
    pub timeout: Option<Duration>,
    /// The most bytes the answer's body may have.
    pub max_bytes: u64,
}

/// An answer from the web.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status code; one that says failure is an answer like any other.
    pub status: u16,
    /// Where the answer came from, redirects followed.
    pub url: String,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}
