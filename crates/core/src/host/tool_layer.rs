//! A layer around the tools of another provider: it changes what happens at a call, and passes everything else on.

use serde_json::Value;

use super::context::{SkillContext, Tool, ToolProvider};
use crate::error::Result;

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
