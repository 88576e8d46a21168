//! Validates the arguments of the embedder's tools against their schemas; a call that does not match never reaches the tool.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};

use crate::engine::contract_validation::tool_input_error;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{LayeredTools, Tool, ToolLayer, ToolProvider, catch_panic};
use metier_skill::contract::{Schema, parse_tool_schema};

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
    pub(super) fn wrap(tools: Arc<dyn ToolProvider>) -> Arc<dyn ToolProvider> {
        Arc::new(LayeredTools(Self { tools, schemas: Mutex::default() }))
    }

    fn validate_args(&self, tool: Tool, args: &Value) -> Result<()> {
        let (name, takes_object) = (tool.name.clone(), tool.input_schema["type"] == "object");
        let Some(schema) = self.schema(tool) else { return Ok(()) };
        if let Some(feature) = schema.missing_feature() {
            let sentence = format!("this build cannot validate the arguments of the tool `{name}`");
            let help = format!("build metier with the Cargo feature `{feature}`");
            return Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help(help));
        }
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
        let schema = parse_tool_schema(described.clone());
        if let Err(why) = &schema {
            tracing::debug!(
                tool = name,
                why,
                "the schema of a tool cannot be used; the tool checks its arguments alone"
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

impl ToolLayer for ValidatedTools {
    fn inner(&self) -> &dyn ToolProvider {
        self.tools.as_ref()
    }

    fn check(&self, name: &str, args: &Value) -> Result<()> {
        if let Some(tool) = self.tools.tool(name) {
            catch_panic("the schema of a tool", ErrorKind::Unavailable, || self.validate_args(tool, args))?;
        }
        self.tools.check(name, args)
    }
}
