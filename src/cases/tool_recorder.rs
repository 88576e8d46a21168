//! Tools that return what a case declares, and record their calls.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{LayeredTools, SkillContext, ToolLayer, ToolProvider};

/// The maximum number of recorded calls; further calls are refused.
const MAX_CALLS: usize = 10_000;

/// The calls of one run, in order: `{"tool", "args"}` each.
#[derive(Clone, Default)]
pub(super) struct RecordedCalls(Arc<Mutex<Vec<Value>>>);

impl RecordedCalls {
    /// The same tools, with their calls recorded.
    pub(super) fn wrap(&self, tools: Arc<dyn ToolProvider>) -> Arc<dyn ToolProvider> {
        Arc::new(LayeredTools(RecordingTools { tools, calls: self.clone() }))
    }

    /// Takes the calls so far; the list is empty afterwards.
    pub(super) fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn record(&self, name: &str, args: &Value) -> Result<()> {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() == MAX_CALLS {
            return Err(SkillError::new(
                ErrorKind::Tool,
                format!("a case takes at most {MAX_CALLS} calls of tools"),
            ));
        }
        calls.push(json!({"tool": name, "args": args}));
        Ok(())
    }
}

struct RecordingTools {
    tools: Arc<dyn ToolProvider>,
    calls: RecordedCalls,
}

impl ToolLayer for RecordingTools {
    fn inner(&self) -> &dyn ToolProvider {
        self.tools.as_ref()
    }

    fn call(&self, ctx: &SkillContext, name: &str, args: &Value) -> Result<Value> {
        self.calls.record(name, args)?;
        self.tools.call(ctx, name, args)
    }
}
