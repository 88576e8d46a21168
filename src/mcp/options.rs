//! What a server allows the skills that it runs.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::notices::{McpNotice, NoticeListener};
use metier_core::error::SkillError;
use metier_core::host::metier_dirs;
use metier_core::policy::{CancelToken, ExecutionMode, Limits, Permission, SandboxMode, ToolFilter};

/// Adds to the error of a skill, by the name that finds it, how a person can allow what it lacked.
pub(super) type ErrorHelp = Arc<dyn Fn(&str, SkillError) -> SkillError + Send + Sync>;

/// The options of a server. By default nothing is granted, besides what the engine's trust store remembers.
#[derive(Clone)]
#[must_use]
pub struct McpOptions {
    pub(super) grants: Vec<Permission>,
    pub(super) limits: Option<Limits>,
    pub(super) sandbox_mode: Option<SandboxMode>,
    pub(super) execution_mode: Option<ExecutionMode>,
    pub(super) max_calls: usize,
    pub(super) cancel: CancelToken,
    pub(super) error_help: Option<ErrorHelp>,
    pub(super) name: String,
    pub(super) asks_clients: bool,
    pub(super) parks: bool,
    pub(super) previews: bool,
    pub(super) task_after: Duration,
    pub(super) plan_journals: Option<PathBuf>,
    pub(super) tool_filter: ToolFilter,
    pub(super) notice_listener: Option<NoticeListener>,
}

impl McpOptions {
    /// Nothing granted, the limits of the engine, and sixteen calls at a time.
    pub fn new() -> Self {
        Self {
            grants: Vec::new(),
            limits: None,
            sandbox_mode: None,
            execution_mode: None,
            max_calls: 16,
            cancel: CancelToken::new(),
            error_help: None,
            name: "metier".to_owned(),
            asks_clients: true,
            parks: false,
            previews: false,
            task_after: Duration::from_secs(5),
            plan_journals: None,
            tool_filter: ToolFilter::default(),
            notice_listener: None,
        }
    }

    /// Grants a permission to every call. It takes effect where the skill requests it.
    pub fn grant(mut self, permission: Permission) -> Self {
        self.grants.push(permission);
        self
    }

    /// The limits of each call, in place of the engine's.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// How strictly the sandbox of a process is required, in place of the engine's setting.
    pub fn sandbox_mode(mut self, mode: SandboxMode) -> Self {
        self.sandbox_mode = Some(mode);
        self
    }

    /// Where scripts of embedded languages run, in place of the engine's setting.
    pub fn execution_mode(mut self, mode: ExecutionMode) -> Self {
        self.execution_mode = Some(mode);
        self
    }

    /// How many calls run at a time, at least one. Further ones wait, and their time limits start when they start.
    pub fn max_calls(mut self, max: usize) -> Self {
        self.max_calls = max.clamp(1, 1024);
        self
    }

    /// The token that ends the server: its calls are cancelled, and it returns.
    pub fn cancel(mut self, token: CancelToken) -> Self {
        self.cancel = token;
        self
    }

    /// Changes the error of a call before a model reads it, by the name of the skill: to say how a person can allow what was
    /// missing, in the words of the program around the server.
    pub fn error_help(
        mut self,
        change: impl Fn(&str, SkillError) -> SkillError + Send + Sync + 'static,
    ) -> Self {
        self.error_help = Some(Arc::new(change));
        self
    }

    /// Whether the person behind a client is asked about what a skill requests and nobody granted, if the client can ask. By default
    /// yes, in place of the engine's approver.
    pub fn ask_clients(mut self, asks: bool) -> Self {
        self.asks_clients = asks;
        self
    }

    /// Lets a call [wait for a person](crate::engine::Invocation::park) where its client cannot ask one. By default it is refused.
    pub fn park(mut self) -> Self {
        self.parks = true;
        self
    }

    /// Runs every call [in a copy](crate::engine::Invocation::preview) of its project. The result has what it would change, and the tool
    /// `apply_changes` applies it after the person behind the client has agreed to exactly these changes. Plans keep no journals.
    #[cfg(unix)]
    pub fn preview(mut self) -> Self {
        self.previews = true;
        self
    }

    /// How long a call waits for its result before it is answered with a task, if the client supports tasks: 5 seconds unless it is
    /// set. A call that has to ask the client something does not wait.
    pub fn task_after(mut self, time: Duration) -> Self {
        self.task_after = time;
        self
    }

    /// Keeps the journals of plans in the user's data folder, if the client supports tasks, so that the same call goes on where the
    /// plan stopped when the server was ended. No script can read or write them.
    pub fn keep_plan_journals(mut self) -> Self {
        self.plan_journals = metier_dirs::plan_journal_dir();
        self
    }

    /// Offers and calls only the tools that this filter leaves: `SKILL`, and `SKILL.NAME` for a tool or an entrypoint of the skill. A
    /// call of a tool by a skill is held to it too.
    pub fn tool_filter(mut self, filter: ToolFilter) -> Self {
        self.tool_filter = filter;
        self
    }

    /// Is called with what the server says to the person who started it: what it serves when it starts, and what of it changes while it
    /// runs. It must not wait, and not write to standard output while that is the connection to the client.
    pub fn on_notice(mut self, listener: impl Fn(&McpNotice) + Send + Sync + 'static) -> Self {
        self.notice_listener = Some(Arc::new(listener));
        self
    }

    /// The name by which the server introduces itself: `metier` unless it is set.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }
}

impl Default for McpOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for McpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpOptions")
            .field("name", &self.name)
            .field("grants", &self.grants)
            .field("limits", &self.limits)
            .field("max_calls", &self.max_calls)
            .finish_non_exhaustive()
    }
}
