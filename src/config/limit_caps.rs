//! Upper bounds for the limits of a run, which narrow them as a contract does.

use std::time::Duration;

use super::value::ConfigValue;
use metier_core::policy::{Limits, OutputPolicy};

/// Upper bounds for limits; what is absent bounds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitCaps {
    timeout: Option<Duration>,
    output: Option<u64>,
    on_output: Option<OutputPolicy>,
    memory: Option<u64>,
    operations: Option<u64>,
    cpu: Option<Duration>,
    file_size: Option<u64>,
    open_files: Option<u64>,
    state_size: Option<u64>,
}

impl LimitCaps {
    /// The bounds with these names.
    pub(super) fn from_values<'v>(value: impl Fn(&str) -> Option<&'v ConfigValue>) -> Self {
        let time = |name| value(name).and_then(ConfigValue::as_duration);
        let number = |name| value(name).and_then(ConfigValue::as_number);
        Self {
            timeout: time("timeout"),
            output: number("output"),
            // The lenient policy bounds nothing.
            on_output: value("on_output")
                .and_then(ConfigValue::as_text)
                .and_then(|word| word.parse().ok())
                .filter(|policy| *policy == OutputPolicy::Kill),
            memory: number("memory"),
            operations: number("operations"),
            cpu: time("cpu"),
            file_size: number("file_size"),
            open_files: number("open_files"),
            state_size: number("state_size"),
        }
    }

    /// The lower one of each bound.
    pub(super) fn min(self, other: Self) -> Self {
        Self {
            timeout: least(self.timeout, other.timeout),
            output: least(self.output, other.output),
            on_output: self.on_output.or(other.on_output),
            memory: least(self.memory, other.memory),
            operations: least(self.operations, other.operations),
            cpu: least(self.cpu, other.cpu),
            file_size: least(self.file_size, other.file_size),
            open_files: least(self.open_files, other.open_files),
            state_size: least(self.state_size, other.state_size),
        }
    }

    /// The limits within these bounds, as far as they do not depend on the runtime.
    pub(crate) fn narrow(&self, mut limits: Limits) -> Limits {
        limits.timeout = self.timeout.map_or(limits.timeout, |cap| cap.min(limits.timeout));
        limits.output = self.output.map_or(limits.output, |cap| cap.min(limits.output));
        limits.state_size = self.state_size.map_or(limits.state_size, |cap| cap.min(limits.state_size));
        limits.on_output = self.on_output.unwrap_or(limits.on_output);
        limits
    }

    /// The same for limits whose defaults depend on the runtime, and which were filled in.
    pub(crate) fn narrow_of_runtime(&self, mut limits: Limits) -> Limits {
        limits.memory = least(self.memory, limits.memory);
        limits.operations = least(self.operations, limits.operations);
        limits.cpu = least(self.cpu, limits.cpu);
        limits.file_size = least(self.file_size, limits.file_size);
        limits.open_files = least(self.open_files, limits.open_files);
        limits
    }
}

/// The lower one of two bounds.
fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
