//! One run of a tool: the invocation that its call means, and the journal that a plan keeps.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::inventory::ServedTool;
use super::options::McpOptions;
use super::plan_journals::{PlanJournal, PlanJournals};
use crate::audit::{AuditClient, AuditFace};
use crate::engine::{Engine, Invocation, Outcome, Preview};
use metier_core::error::{ErrorKind, Hint, Result, SkillError};
use metier_core::host::{
    Approver, Event, EventKind, Observer, Progress, Providers, RunOwner, SamplingProvider,
};
use metier_core::policy::CancelToken;

/// Receives the progress of a call.
pub(super) type ProgressListener = Arc<dyn Fn(&Progress) + Send + Sync>;

/// A tool with the arguments of a call, and what its run may use.
pub(super) struct ToolRun<'a> {
    pub(super) engine: &'a Engine,
    pub(super) options: &'a McpOptions,
    pub(super) tool: &'a ServedTool,
    pub(super) arguments: Map<String, Value>,
    /// Ends the run.
    pub(super) token: CancelToken,
    pub(super) observer: Option<Arc<dyn Observer>>,
    pub(super) approver: Option<Arc<dyn Approver>>,
    pub(super) sampling: Option<Arc<dyn SamplingProvider>>,
    pub(super) owner: RunOwner,
    /// The name by which the client calls itself.
    pub(super) client: String,
}

/// Passes on what a run reports about its progress.
pub(super) struct ProgressObserver(pub(super) ProgressListener);

impl Observer for ProgressObserver {
    fn on_event(&self, event: &Event) {
        if let EventKind::Progress(progress) = &event.kind {
            (self.0)(progress);
        }
    }
}

impl ToolRun<'_> {
    /// What the engine is to run, with what the server allows all calls.
    pub(super) fn invocation(&self) -> Result<Invocation> {
        let ServedTool { tool, address, .. } = self.tool;
        let mut invocation = tool
            .invocation(address, self.arguments.clone())?
            .for_model()
            .with_facts(|facts| facts.owner = Some(self.owner))
            .extension(AuditClient::new(AuditFace::Mcp).with_name(&self.client))
            .cancel(self.token.clone())
            .tool_filter(self.options.tool_filter.clone());
        for permission in &self.options.grants {
            invocation = invocation.grant(permission.clone());
        }
        if let Some(limits) = &self.options.limits {
            invocation = invocation.limits(limits.clone());
        }
        if let Some(mode) = self.options.sandbox_mode {
            invocation = invocation.sandbox_mode(mode);
        }
        if let Some(mode) = self.options.execution_mode {
            invocation = invocation.execution_mode(mode);
        }
        if let Some(observer) = &self.observer {
            invocation = invocation.observer(observer.clone());
        }
        if self.options.previews {
            invocation = invocation.preview(Preview::Store);
        }
        if self.options.parks {
            invocation = invocation.park(format!("the client {:?}", self.client));
        }
        let asks = self.approver.is_some();
        if asks || self.sampling.is_some() {
            let mut providers = Providers::default();
            providers.approver.clone_from(&self.approver);
            providers.sampling.clone_from(&self.sampling);
            invocation = invocation.providers(providers);
        }
        Ok(if asks { invocation.ask_first() } else { invocation })
    }

    /// Runs this invocation to its end.
    pub(super) async fn run(&self, invocation: Invocation) -> Outcome {
        self.engine.run_async(invocation).await
    }

    /// Runs a plan to its end with a journal, so that the same call goes on where an interrupted one stopped.
    pub(super) async fn run_with_journal(
        &self,
        invocation: Invocation,
        journals: &PlanJournals,
        owner: &str,
    ) -> Outcome {
        let Some(journal) = self.open_journal(journals, owner).await else {
            return self.run(invocation).await;
        };
        let mut outcome = self.run(invocation.journal(journal.folder())).await;
        let mut started_over = journal.damage().map(str::to_owned);
        if let Some(error) = outdated_error(&outcome) {
            // Nothing has run: the plan, a skill that it calls, or what they had, has changed since.
            started_over = Some(journal.without_folder(error.message()));
            in_background(&journal, PlanJournal::discard).await;
            outcome = match self.invocation() {
                Ok(invocation) => self.run(invocation).await,
                Err(error) => Outcome::failed(self.tool.skill.clone(), error),
            };
        }
        outcome.started_over = started_over;
        // What the end of the server interrupted goes on with the next one, and what waits for a person goes on with its decision.
        let is_pending = outcome.result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Pending);
        if !self.options.cancel.is_cancelled() && !is_pending {
            // A call that was refused or answered with a question left the plan where it is.
            let has_run = !outcome.steps.is_empty() || self.token.is_cancelled();
            in_background(&journal, if has_run { PlanJournal::discard } else { PlanJournal::discard_empty })
                .await;
        }
        outcome
    }

    async fn open_journal(&self, journals: &PlanJournals, owner: &str) -> Option<Arc<PlanJournal>> {
        let (journals, project) = (journals.clone(), self.engine.project().to_owned());
        let (tool, arguments) = (self.tool.clone(), self.arguments.clone());
        let owner = owner.to_owned();
        let open = move || journals.open(&owner, &project, &tool, &arguments);
        tokio::task::spawn_blocking(open).await.ok()?.map(Arc::new)
    }
}

async fn in_background(journal: &Arc<PlanJournal>, work: fn(&PlanJournal)) {
    let journal = journal.clone();
    tokio::task::spawn_blocking(move || work(&journal)).await.ok();
}

/// The error of a run that did nothing because its journal belongs to the plan as it was before.
fn outdated_error(outcome: &Outcome) -> Option<&SkillError> {
    let error = outcome.result.as_ref().err().filter(|_| outcome.steps.is_empty())?;
    matches!(error.hint(), Some(Hint::Journal)).then_some(error)
}
