//! What the engine writes to the audit log: the start and the end of each run, its questions, its secrets and its refusals.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::{Invocation, Outcome};
use crate::audit::{
    AuditActor, AuditClient, AuditFace, AuditKind, AuditRecord, AuditResources, AuditSecret, AuditWho,
    AuditWriter,
};
use crate::engine::run_start::FoundSkill;
use metier_core::error::{ErrorKind, Hint, Result, SkillError};
use metier_core::executor::{ForModel, SkillInput};
use metier_core::host::{
    AccessListener, ApprovalRequest, Environment, Extensions, LogLevel, RefusedConnection, RunId,
    RunListener, SecretOrigin, SkillContext,
};
use metier_core::policy::{Approval, GrantOrigin, GrantReport, SkillDigest};

/// Input and arguments that are larger, in bytes of JSON, are not recorded.
const MAX_INPUT: usize = 16 << 10;
/// Permissions, hosts and names that are longer, in characters, are cut.
const MAX_TEXT: usize = 500;

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
        let mut common = AuditRecord::new(AuditKind::RunRefused, who(writer, &invocation.extensions));
        common.run = Some(run);
        common.parent = invocation.caller.as_ref().map(SkillContext::run_id);
        let name = found.map(|found| found.skill.qualified_name());
        common.skill = Some(name.unwrap_or_else(|| cut(&invocation.skill)));
        common.tool = invocation.tool.as_deref().map(cut);
        let selected = found.and_then(|found| found.script.as_ref().ok());
        common.script = selected.map(|(selected, _)| selected.path.clone());
        let state = RunState { common, input: None, has_started: false, is_cached: false };
        Self { writer: writer.clone(), state: Mutex::new(state) }
    }

    /// Records that the run starts now. Fails if that is required and not possible.
    pub(super) fn start(
        &self,
        (context, input): (&SkillContext, &SkillInput),
        invocation: &Invocation,
        digest: Option<SkillDigest>,
        is_confirmed: bool,
    ) -> Result<()> {
        let record = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let common = &mut state.common;
            common.digest = digest.map(|digest| digest.to_string());
            common.project = context.project_root().map(PathBuf::from);
            let mut record = common.clone();
            record.time = std::time::SystemTime::now();
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
            record.grants = grants(context, invocation);
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
        record.time = std::time::SystemTime::now();
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

/// Records a question and its answer. Fails if that is required and not possible, which is a no.
pub(super) fn record_question(
    writer: Option<&AuditWriter>,
    ctx: &SkillContext,
    request: &ApprovalRequest,
    ask: impl FnOnce() -> Result<Approval>,
) -> Result<Approval> {
    let Some(writer) = writer else { return ask() };
    let mut record = record_of_run(writer, AuditKind::Question, ctx);
    record.digest.clone_from(&request.digest);
    record.tool = request.tool.as_ref().map(|tool| tool.name.clone());
    record.permissions = redacted(ctx, request.need.permissions().unwrap_or_default().iter());
    // The need in JSON is an object with its name as the only key.
    let need = serde_json::to_value(&request.need).ok();
    let need = need.as_ref().and_then(Value::as_object).and_then(|need| need.iter().next());
    record.gate = need.map(|(name, _)| name.clone());
    let target = need.and_then(|(_, about)| about.get("target").or_else(|| about.get("step")));
    record.target = target.and_then(Value::as_str).map(|target| redacted_text(ctx, target.to_owned()));
    if let Some(warning) = writer.write_before(&record)? {
        ctx.log_once(LogLevel::Warn, warning)?;
    }
    let approval = ask();
    record.time = std::time::SystemTime::now();
    record.kind = AuditKind::Answer;
    record.outcome = Some(match &approval {
        Ok(Approval::No) => "no".to_owned(),
        Ok(Approval::Once) => "once".to_owned(),
        Ok(Approval::Session) => "session".to_owned(),
        Ok(Approval::Always(_)) => "always".to_owned(),
        Ok(_) => "yes".to_owned(),
        Err(error) => error.kind().name().to_owned(),
    });
    write_after(writer, &record);
    approval
}

/// Records what a run and those that it calls read and are refused.
pub(super) fn run_listener(writer: &AuditWriter) -> RunListener {
    RunListener(Arc::new(Listener(writer.clone())))
}

struct Listener(AuditWriter);

impl AccessListener for Listener {
    fn on_secret(&self, ctx: &SkillContext, name: &str, origin: &SecretOrigin) -> Result<()> {
        let mut record = record_of_run(&self.0, AuditKind::SecretRead, ctx);
        record.secret = Some(AuditSecret::new(cut(name), redacted_text(ctx, origin.to_string())));
        match self.0.write_before(&record)? {
            Some(warning) => ctx.log_once(LogLevel::Warn, warning),
            None => Ok(()),
        }
    }

    fn on_refusal(&self, ctx: &SkillContext, function: &'static str, error: &SkillError) {
        let mut record = record_of_run(&self.0, AuditKind::AccessRefused, ctx);
        record.target = Some(function.to_owned());
        record.gate = Some(gate(error).to_owned());
        record.outcome = Some(error.kind().name().to_owned());
        record.permissions = redacted(ctx, error.missing_permission().into_iter());
        write_after(&self.0, &record);
    }
}

fn record_of_run(writer: &AuditWriter, kind: AuditKind, ctx: &SkillContext) -> AuditRecord {
    let mut record = AuditRecord::new(kind, who(writer, ctx.extensions()));
    record.run = Some(ctx.run_id());
    record.parent = ctx.caller().map(SkillContext::run_id);
    record.skill = Some(ctx.qualified_name().unwrap_or(ctx.skill()).to_owned());
    record
}

fn refused_connection(mut record: AuditRecord, refused: &RefusedConnection) -> AuditRecord {
    record.time = std::time::SystemTime::now();
    record.kind = AuditKind::AccessRefused;
    (record.input, record.args, record.withheld) = (None, Vec::new(), None);
    let port = refused.port.map_or_else(String::new, |port| format!(":{port}"));
    record.target = Some(cut(&format!("{}{port}", refused.host)));
    record.gate = Some("permission".to_owned());
    record.outcome = Some(ErrorKind::Denied.name().to_owned());
    record.permissions = refused.permission.as_deref().map(cut).into_iter().collect();
    record
}

/// Writes a record of what has happened already.
fn write_after(writer: &AuditWriter, record: &AuditRecord) {
    if let Err(error) = writer.write(record) {
        tracing::warn!(kind = record.kind.name(), %error, "the audit log was not written");
    }
}

fn who(writer: &AuditWriter, extensions: &Extensions) -> AuditWho {
    let client = extensions.get::<AuditClient>().unwrap_or(writer.default_client()).clone();
    let actor = match client.face {
        _ if extensions.get::<ForModel>().is_some() => AuditActor::Model,
        AuditFace::Cli => AuditActor::Person,
        AuditFace::Mcp => AuditActor::Model,
        AuditFace::Library => AuditActor::Program,
    };
    AuditWho::new(actor, client)
}

/// What refused a run or a call, by its error.
fn gate(error: &SkillError) -> &'static str {
    match (error.kind(), error.hint()) {
        (ErrorKind::Untrusted, _) => "trust",
        (ErrorKind::Denied, Some(Hint::Confirm)) => "confirmation",
        (ErrorKind::Denied, _) => "permission",
        (kind, _) => kind.name(),
    }
}

/// What was granted to the invoked run, with its origin. Skills that it calls have no grants of their own.
fn grants(context: &SkillContext, invocation: &Invocation) -> Vec<GrantReport> {
    if context.caller().is_some() {
        return Vec::new();
    }
    let granted = invocation.grants.iter().cloned();
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
    let has_environment = context.extension::<Environment>().is_some();
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

fn redacted(context: &SkillContext, texts: impl Iterator<Item = impl ToString>) -> Vec<String> {
    texts.map(|text| redacted_text(context, text.to_string())).collect()
}

fn redacted_text(context: &SkillContext, text: String) -> String {
    cut(&context.redaction().text(text).into_inner())
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}
