//! A tool provider whose tools are closures.

use std::sync::Arc;

use serde_json::Value;

use super::context::SkillContext;
use super::context::{Tool, ToolProvider};
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
