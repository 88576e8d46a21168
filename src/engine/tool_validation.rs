//! Validates the arguments of the embedder's tools against their schemas; a call that does not match never reaches the tool.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};

use crate::engine::contract_validation::tool_input_error;
use crate::error::{ErrorKind, Result};
use crate::host::{SkillContext, Tool, ToolProvider, catch_panic};
use crate::skill::Schema;

/// Maximum number of cached compiled schemas; beyond it, every schema is compiled again.
const MAX_SCHEMAS: usize = 1_000;

/// Tools whose arguments are validated against the schema of each.
pub(super) struct ValidatedTools {
    tools: Arc<dyn ToolProvider>,
    schemas: Mutex<HashMap<String, CachedSchema>>,
}

/// A tool's schema as described, and compiled; `None` where it cannot be used for validation.
struct CachedSchema {
    source: Value,
    schema: Option<Schema>,
}

impl ValidatedTools {
    pub(super) fn new(tools: Arc<dyn ToolProvider>) -> Self {
        Self { tools, schemas: Mutex::default() }
    }

    fn validate_args(&self, tool: Tool, args: &Value) -> Result<()> {
        let (name, takes_object) = (tool.name.clone(), tool.input_schema["type"] == "object");
        let Some(schema) = self.schema(tool) else { return Ok(()) };
        let nothing = Value::Object(Map::new());
        let args = if takes_object && args.is_null() { &nothing } else { args };
        let refused = schema.validate(args).err().and_then(|unfit| tool_input_error(&name, unfit));
        refused.map_or(Ok(()), Err)
    }

    /// The compiled schema of the tool as it is described now.
    fn schema(&self, tool: Tool) -> Option<Schema> {
        let Tool { name, input_schema: described, .. } = tool;
        let ready = || self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = ready().get(&name).filter(|known| known.source == described) {
            return known.schema.clone();
        }
        // The lock is released while the schema compiles, so nobody waits for another tool's schema.
        let schema = Schema::parse(described.clone());
        if let Err(why) = &schema {
            tracing::debug!(
                tool = name,
                why,
                "the schema of a tool cannot be held; the tool judges by itself"
            );
        }
        let schema = schema.ok();
        let mut ready = ready();
        if ready.len() >= MAX_SCHEMAS {
            ready.clear();
        }
        ready.insert(name, CachedSchema { source: described, schema: schema.clone() });
        schema
    }
}

impl ToolProvider for ValidatedTools {
    fn tools(&self) -> Vec<Tool> {
        self.tools.tools()
    }

    fn tool(&self, name: &str) -> Option<Tool> {
        self.tools.tool(name)
    }

    fn has(&self, name: &str) -> bool {
        self.tools.has(name)
    }

    fn check(&self, name: &str, args: &Value) -> Result<()> {
        if let Some(tool) = self.tools.tool(name) {
            catch_panic("the schema of a tool", ErrorKind::Unavailable, || self.validate_args(tool, args))?;
        }
        self.tools.check(name, args)
    }

    fn call(&self, ctx: &SkillContext, name: &str, args: &Value) -> Result<Value> {
        self.tools.call(ctx, name, args)
    }
}
