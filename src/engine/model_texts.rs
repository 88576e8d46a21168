//! What a model reads of a run: its texts without what a model must not get, and how many places that changed.

use std::sync::Arc;

use super::Outcome;
use super::invocation::Invocation;
use metier_core::host::{
    Event, EventKind, LogLine, Observer, ProcessReport, Redacted, RefusedAccess, RunContext, RunMessages,
    SkillContext, StepReport, refused_texts,
};
use metier_core::sanitizer::{SanitizeProfile, Sanitizer};
use serde_json::Value;

/// The sanitizer of a run that a model chose; without one, all texts stay as they are.
pub(super) struct ModelTexts {
    sanitizer: Option<Sanitizer>,
    /// Whether a model reads its value. Otherwise that goes to the skill that called it.
    is_read: bool,
}

impl ModelTexts {
    pub(super) fn for_run(context: &SkillContext, profile: Option<SanitizeProfile>) -> Self {
        let is_for_model = context.facts().is_for_model;
        let sanitizer = || Sanitizer::for_secrets_of(context.redaction()).with_profile(profile);
        Self { sanitizer: is_for_model.then(sanitizer), is_read: context.caller().is_none() }
    }

    /// The value as the model reads it; `is_cut` if it is a text that was cut at its end.
    pub(super) fn value(&self, value: Redacted<Value>, is_cut: bool) -> Redacted<Value> {
        match &self.sanitizer {
            Some(sanitizer) if self.is_read => value.map(|value| sanitizer.cut_value(value, is_cut)),
            _ => value,
        }
    }

    /// The report of a process, of which the error of a failed run repeats a part.
    pub(super) fn process(&self, report: Redacted<ProcessReport>) -> Redacted<ProcessReport> {
        self.change(report, Sanitizer::process)
    }

    pub(super) fn log(&self, log: Redacted<Vec<LogLine>>) -> Redacted<Vec<LogLine>> {
        self.change(log, Sanitizer::log)
    }

    pub(super) fn steps(&self, steps: Redacted<Vec<StepReport>>) -> Redacted<Vec<StepReport>> {
        self.change(steps, Sanitizer::steps)
    }

    /// What was refused, whose names the script chose.
    pub(super) fn refused_accesses(
        &self,
        refused: Redacted<Vec<RefusedAccess>>,
    ) -> Redacted<Vec<RefusedAccess>> {
        self.change(refused, |sanitizer, mut refused| {
            for text in refused.iter_mut().flat_map(refused_texts) {
                *text = sanitizer.text(std::mem::take(text));
            }
            refused
        })
    }

    /// How many places were changed.
    pub(super) fn changes(&self) -> u64 {
        self.sanitizer.as_ref().map_or(0, Sanitizer::changes)
    }

    fn change<T>(&self, texts: Redacted<T>, change: impl FnOnce(&Sanitizer, T) -> T) -> Redacted<T> {
        match &self.sanitizer {
            Some(sanitizer) => texts.map(|texts| change(sanitizer, texts)),
            None => texts,
        }
    }
}

/// Whether a model reads the outcome of this invocation.
pub(super) fn is_read_by_model(invocation: &Invocation) -> bool {
    invocation.caller.is_none() && invocation.facts.is_for_model
}

/// The outcome with an error that a model may read, also where nothing has run.
pub(super) fn with_error_for_model(mut outcome: Outcome, profile: Option<SanitizeProfile>) -> Outcome {
    let sanitizer = Sanitizer::default().with_profile(profile);
    outcome.result = outcome.result.map_err(|error| sanitizer.error(error));
    outcome.sanitized += sanitizer.changes();
    outcome
}

/// The observer of a run that a model chose, which may show the events to it.
pub(super) struct SanitizedObserver(pub(super) Arc<dyn Observer>);

impl Observer for SanitizedObserver {
    fn on_event(&self, event: &Event) {
        let sanitizer = Sanitizer::default();
        let kind = sanitized_kind(&sanitizer, &event.kind);
        match kind.filter(|_| sanitizer.changes() > 0) {
            Some(kind) => {
                let mut event = event.clone();
                event.kind = kind;
                self.0.on_event(&event);
            }
            None => self.0.on_event(event),
        }
    }
}

/// The event with texts for a model, if it has texts.
fn sanitized_kind(sanitizer: &Sanitizer, kind: &EventKind) -> Option<EventKind> {
    let mut kind = match kind {
        EventKind::Log(_)
        | EventKind::Progress(_)
        | EventKind::SampleText { .. }
        | EventKind::Output { .. }
        | EventKind::StepFinished { .. } => kind.clone(),
        _ => return None,
    };
    let change = |text: &mut String| *text = sanitizer.text(std::mem::take(text));
    match &mut kind {
        EventKind::Log(line) => change(&mut line.message),
        EventKind::Progress(progress) => change(&mut progress.message),
        EventKind::SampleText { text, .. } => change(text),
        EventKind::Output { line, .. } => change(line),
        EventKind::StepFinished { value, error, .. } => {
            *value = value.take().map(|value| sanitizer.value(value));
            error.iter_mut().for_each(change);
        }
        _ => {}
    }
    Some(kind)
}
