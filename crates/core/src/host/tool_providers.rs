//! Providers of tools: tools that are closures, and a layer around the tools of another provider.

use std::sync::Arc;

use serde_json::Value;

use super::context::{SkillContext, Tool, ToolProvider};
use crate::error::{ErrorKind, Result, SkillError};

/// Tools implemented as closures, for `EngineBuilder::tools`.
///
/// A script calls it with `ctx.tool("add", {a = 1, b = 2})`: its skill must list `tool:add` under `allowed-tools`, and the caller
/// must grant it.
#[derive(Clone, Default)]
pub struct ClosureTools(Vec<(Tool, ToolFn)>);

type ToolFn = Arc<dyn Fn(&SkillContext, &Value) -> Result<Value> + Send + Sync>;

impl ClosureTools {
    /// No tools yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool: its name, description, input as a JSON Schema (`{}` accepts any input), and the closure that runs it. An
    /// engine calls the closure only with arguments that match the schema; see [`Tool::input_schema`].
    pub fn tool(
        mut self,
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
        body: impl Fn(&SkillContext, &Value) -> Result<Value> + Send + Sync + 'static,
    ) -> Self {
        let tool = Tool { name: name.into(), description: description.into(), input_schema };
        self.0.retain(|(known, _)| known.name != tool.name);
        self.0.push((tool, Arc::new(body)));
        self
    }

    fn tool_fn(&self, name: &str) -> Option<&ToolFn> {
        self.0.iter().find(|(tool, _)| tool.name == name).map(|(_, body)| body)
    }
}

impl ToolProvider for ClosureTools {
    fn tools(&self) -> Vec<Tool> {
        self.0.iter().map(|(tool, _)| tool.clone()).collect()
    }

    fn tool(&self, name: &str) -> Option<Tool> {
        self.0.iter().find(|(tool, _)| tool.name == name).map(|(tool, _)| tool.clone())
    }

    fn has(&self, name: &str) -> bool {
        self.tool_fn(name).is_some()
    }

    fn call(&self, ctx: &SkillContext, name: &str, args: &Value) -> Result<Value> {
        match self.tool_fn(name) {
            Some(body) => body(ctx, args),
            None => Err(SkillError::new(ErrorKind::Tool, format!("no tool is called `{name}`"))),
        }
    }
}

/// A layer around other tools; [`LayeredTools`] makes a provider of it.
pub trait ToolLayer: Send + Sync {
    /// The tools around which this layer is.
    fn inner(&self) -> &dyn ToolProvider;

    /// As [`ToolProvider::check`].
    fn check(&self, name: &str, args: &Value) -> Result<()> {
        self.inner().check(name, args)
    }

    /// As [`ToolProvider::call`].
    fn call(&self, ctx: &SkillContext, name: &str, args: &Value) -> Result<Value> {
        self.inner().call(ctx, name, args)
    }
}

/// Tools with a layer around them.
pub struct LayeredTools<L>(pub L);

impl<L: ToolLayer> ToolProvider for LayeredTools<L> {
    fn tools(&self) -> Vec<Tool> {
        self.0.inner().tools()
    }

    fn tool(&self, name: &str) -> Option<Tool> {
        self.0.inner().tool(name)
    }

    fn has(&self, name: &str) -> bool {
        self.0.inner().has(name)
    }

    fn check(&self, name: &str, args: &Value) -> Result<()> {
        self.0.check(name, args)
    }

    fn call(&self, ctx: &SkillContext, name: &str, args: &Value) -> Result<Value> {
        self.0.call(ctx, name, args)
    }
}
