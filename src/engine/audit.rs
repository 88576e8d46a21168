//! What the engine records: where it goes, who is named in it, questions to approvers, secrets and refusals.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;

use crate::audit::{
    AuditActor, AuditClient, AuditFace, AuditKind, AuditLog, AuditRecord, AuditSecret, AuditWho, AuditWriter,
    BrokenSink,
};
use crate::config::Configuration;
use metier_core::error::{ErrorContext, ErrorKind, Hint, Result, SkillError};
use metier_core::host::{
    AccessListener, ApprovalNeed, ApprovalRequest, Extensions, LogLevel, RunContext, RunMessages,
    SecretOrigin, SkillContext,
};
use metier_core::policy::Approval;

/// Permissions, hosts and names that are longer, in characters, are cut.
const MAX_TEXT: usize = 500;

/// What the builder of an engine says about its records.
#[derive(Default)]
pub(super) struct AuditOptions {
    pub(super) writer: Option<AuditWriter>,
    pub(super) is_required: bool,
    pub(super) client: Option<AuditClient>,
}

impl AuditOptions {
    /// Where records go: to the sink of the program, or to the log of the user if it is required or the configuration says so.
    pub(super) fn into_writer(self, configuration: Option<&Configuration>) -> Option<AuditWriter> {
        let is_required = self.is_required || configuration.is_some_and(Configuration::requires_audit);
        let is_on = is_required || configuration.is_some_and(Configuration::audits);
        let user_log = || match AuditLog::user() {
            Ok(log) => AuditWriter::new(log),
            // Each run says so.
            Err(error) => AuditWriter::new(BrokenSink(error)),
        };
        let writer = self.writer.or_else(|| is_on.then(user_log))?.required(is_required);
        Some(match self.client {
            Some(client) => writer.client(client),
            None => writer,
        })
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
    if let ApprovalNeed::Review { changes, .. } = &request.need {
        record.change_set = Some(changes.digest.clone());
    }
    if let Some(warning) = writer.write_before(&record)? {
        ctx.log_once(LogLevel::Warn, warning)?;
    }
    let approval = ask();
    record.time = SystemTime::now();
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
pub(super) fn run_listener(writer: &AuditWriter) -> Arc<dyn AccessListener> {
    Arc::new(Listener(writer.clone()))
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
    let mut record = AuditRecord::new(kind, who(writer, ctx.extensions(), ctx.facts().is_for_model));
    record.run = Some(ctx.run_id());
    record.parent = ctx.caller().map(SkillContext::run_id);
    record.skill = Some(ctx.qualified_name().unwrap_or(ctx.skill()).to_owned());
    record
}

/// Writes a record of what has happened already.
pub(super) fn write_after(writer: &AuditWriter, record: &AuditRecord) {
    if let Err(error) = writer.write(record) {
        tracing::warn!(kind = record.kind.name(), %error, "the audit log was not written");
    }
}

/// Who called, as far as the invocation says.
pub(super) fn who(writer: &AuditWriter, extensions: &Extensions, is_for_model: bool) -> AuditWho {
    let client = extensions.get::<AuditClient>().unwrap_or(writer.default_client()).clone();
    let actor = match client.face {
        _ if is_for_model => AuditActor::Model,
        AuditFace::Cli => AuditActor::Person,
        AuditFace::Mcp => AuditActor::Model,
        AuditFace::Library => AuditActor::Program,
    };
    AuditWho::new(actor, client)
}

/// What refused a run or a call, by its error.
pub(super) fn gate(error: &SkillError) -> &'static str {
    match (error.kind(), error.hint()) {
        (ErrorKind::Untrusted, _) => "trust",
        (ErrorKind::Denied, Some(Hint::Confirm)) => "confirmation",
        (ErrorKind::Denied, _) => "permission",
        (kind, _) => kind.name(),
    }
}

pub(super) fn redacted(context: &SkillContext, texts: impl Iterator<Item = impl ToString>) -> Vec<String> {
    texts.map(|text| redacted_text(context, text.to_string())).collect()
}

pub(super) fn redacted_text(context: &SkillContext, text: String) -> String {
    cut(&context.redaction().text(text).into_inner())
}

pub(super) fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}
