//! What is recorded about one run: that it starts, that it has ended, or that nothing of it has run.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde_json::Value;

use super::{Invocation, Outcome};
use crate::audit::{AuditKind, AuditRecord, AuditResources, AuditWriter};
use crate::engine::audit::{cut, gate, redacted, redacted_text, who, write_after};
use crate::engine::run_terms::FoundSkill;
use metier_core::error::{ErrorContext, ErrorKind, Result};
use metier_core::executor::SkillInput;
use metier_core::host::{LogLevel, RefusedConnection, RunContext, RunId, RunMessages, SkillContext};
use metier_core::policy::{GrantOrigin, GrantReport, Permission, RunPermissions, SkillDigest};

/// Input and arguments that are larger, in bytes of JSON, are not recorded.
const MAX_INPUT: usize = 16 << 10;

/// What is recorded about one run.
pub(super) struct RunAudit {
    writer: AuditWriter,
    state: Mutex<RunState>,
}

struct RunState {
    /// What all records of the run have.
    common: AuditRecord,
    /// The input and the arguments, until they are without secrets.
    input: Option<(Option<Value>, Vec<String>)>,
    has_started: bool,
    is_cached: bool,
}

impl RunAudit {
    /// Nothing is written yet.
    pub(super) fn new(
        writer: &AuditWriter,
        run: RunId,
        found: Option<&FoundSkill>,
        invocation: &Invocation,
    ) -> Self {
        let who = who(writer, &invocation.extensions, invocation.facts.is_for_model);
        let mut common = AuditRecord::new(AuditKind::RunRefused, who);
        common.run = Some(run);
        common.parent = invocation.caller.as_ref().map(SkillContext::run_id);
        let name = found.map(|found| found.skill.qualified_name());
        common.skill = Some(name.unwrap_or_else(|| cut(&invocation.skill)));
        common.tool = invocation.tool.as_deref().map(cut);
        let selected = found.and_then(|found| found.script.selected());
        common.script = selected.map(|selected| selected.path.clone());
        let state = RunState { common, input: None, has_started: false, is_cached: false };
        Self { writer: writer.clone(), state: Mutex::new(state) }
    }

    /// Records that the run starts now. Fails if that is required and not possible.
    pub(super) fn start(
        &self,
        (context, input): (&SkillContext, &SkillInput),
        granted: &[(Permission, GrantOrigin)],
        digest: Option<SkillDigest>,
        is_confirmed: bool,
    ) -> Result<()> {
        let record = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let common = &mut state.common;
            common.digest = digest.map(|digest| digest.to_string());
            common.project = context.project_root().map(PathBuf::from);
            let mut record = common.clone();
            record.time = SystemTime::now();
            record.kind = AuditKind::RunStarted;
            let permissions = context.permissions();
            record.permissions = redacted(context, permissions.effective().iter());
            record.gate = Some(
                match (is_confirmed, permissions.has_decisions()) {
                    (true, _) => "confirmed",
                    (false, true) => "approved",
                    (false, false) => "granted",
                }
                .to_owned(),
            );
            record.grants = grants(context, granted);
            let input = (input.value.clone(), input.args.clone());
            if may_learn_secrets(context) {
                record.withheld = Some("secrets".to_owned());
                state.input = Some(input);
            } else {
                add_input(&mut record, input, context);
            }
            record
        };
        if let Some(warning) = self.writer.write_before(&record)? {
            context.log_once(LogLevel::Warn, warning)?;
        }
        self.state.lock().unwrap_or_else(PoisonError::into_inner).has_started = true;
        Ok(())
    }

    /// Says that the value of the run is that of an equal one.
    pub(super) fn set_cached(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_cached = true;
    }

    /// Takes the secrets that the run has learned out of what is recorded at its end.
    pub(super) fn redact_input(&self, context: &SkillContext) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(input) = state.input.take() {
            add_input(&mut state.common, input, context);
        }
    }

    /// Records the end of the run, or that nothing of it has run. What cannot be recorded is a warning.
    pub(super) fn finish(self, outcome: &Outcome) {
        let RunState { common, has_started, is_cached, .. } =
            self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let error = outcome.result.as_ref().err();
        let network = outcome.process.as_ref().and_then(|process| process.network.as_ref());
        let mut records: Vec<AuditRecord> = network
            .into_iter()
            .flat_map(|network| &network.refused)
            .filter(|refused| refused.permission.is_some())
            .map(|refused| refused_connection(common.clone(), refused))
            .collect();
        let mut record = common;
        record.time = SystemTime::now();
        record.outcome = Some(match error {
            None if is_cached => "cached".to_owned(),
            None => "ok".to_owned(),
            Some(error) => error.kind().name().to_owned(),
        });
        if has_started {
            record.kind = AuditKind::RunEnded;
            let usage = outcome.process.as_ref().map(|process| &process.usage);
            let memory = usage.and_then(|usage| usage.tree_memory_bytes.or(usage.memory_bytes));
            let cpu = usage.and_then(|usage| usage.cpu);
            record.resources = Some(AuditResources::new(outcome.duration, cpu, memory));
        } else if let Some(error) = error {
            record.digest = record.digest.or_else(|| outcome.digest.map(|digest| digest.to_string()));
            record.gate = Some(gate(error).to_owned());
            record.permissions = error.missing_permission().map(cut).into_iter().collect();
        }
        records.push(record);
        for record in &records {
            write_after(&self.writer, record);
        }
    }
}

fn refused_connection(mut record: AuditRecord, refused: &RefusedConnection) -> AuditRecord {
    record.time = SystemTime::now();
    record.kind = AuditKind::AccessRefused;
    (record.input, record.args, record.withheld) = (None, Vec::new(), None);
    let port = refused.port.map_or_else(String::new, |port| format!(":{port}"));
    record.target = Some(cut(&format!("{}{port}", refused.host)));
    record.gate = Some("permission".to_owned());
    record.outcome = Some(ErrorKind::Denied.name().to_owned());
    record.permissions = refused.permission.as_deref().map(cut).into_iter().collect();
    record
}

/// What was granted to the invoked run, with its origin. Skills that it calls have no grants of their own.
fn grants(context: &SkillContext, granted: &[(Permission, GrantOrigin)]) -> Vec<GrantReport> {
    if context.caller().is_some() {
        return Vec::new();
    }
    let granted = granted.iter().cloned();
    let approved = context.permissions().approved().into_iter();
    let all = granted.chain(approved.map(|permission| (permission, GrantOrigin::Approver)));
    all.filter_map(|(permission, origin)| {
        let permission = redacted_text(context, permission.to_string()).parse().ok()?;
        Some(GrantReport::new(permission, origin))
    })
    .collect()
}

/// Whether the run may still learn secrets that its caller has put into the input.
fn may_learn_secrets(context: &SkillContext) -> bool {
    let is_source = |name: &str| ["secret", "env"].contains(&name);
    let has_environment = context.facts().environment.is_some();
    has_environment
        || std::iter::successors(Some(context), |ctx| ctx.caller())
            .any(|ctx| ctx.permissions().effective().iter().any(|permission| is_source(permission.name())))
}

fn add_input(record: &mut AuditRecord, (input, args): (Option<Value>, Vec<String>), context: &SkillContext) {
    let redaction = context.redaction();
    let input = input.map(|input| redaction.value(input).into_inner());
    let args: Vec<String> = args.into_iter().map(|arg| redaction.text(arg).into_inner()).collect();
    let size = |value: Option<&Value>| value.map_or(0, |value| value.to_string().len());
    if size(input.as_ref()) + args.iter().map(String::len).sum::<usize>() > MAX_INPUT {
        record.withheld = Some("size".to_owned());
    } else {
        (record.input, record.args, record.withheld) = (input, args, None);
    }
}
