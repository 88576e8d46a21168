//! The state of one run: its memory, its output and error, the host errors it received, and the error with which the host
//! ended it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::budget::{BYTES_PER_CHECK, PluginBudget};
use super::json_cost::json_cost;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{HostFunction, LogLevel, SkillContext};
use crate::runtimes::wasm::extism_memory::ExtismMemory;
use crate::strict_json;

/// The state of a run, during and after it.
pub(super) struct RunState {
    context: SkillContext,
    pub(super) memory: ExtismMemory,
    budget: PluginBudget,
    /// The offset of the input.
    pub(super) input_offset: u64,
    /// Offset and length of the output; empty until the plug-in sets it.
    output_range: (u64, u64),
    /// The offset of the error that the plug-in set; 0 if it set none.
    error_offset: u64,
    variables: BTreeMap<Vec<u8>, Vec<u8>>,
    host_errors: Vec<(String, SkillError)>,
    /// The error with which the host ended the run.
    end_error: Option<SkillError>,
}

/// The latest errors of host functions are kept, so that a plug-in can pass them on.
const MAX_HOST_ERRORS: usize = 8;

/// The maximum size of a variable's name in bytes, and the maximum number of variables: all that exists when a run is over
/// must be freed within its time.
const MAX_NAME_BYTES: u64 = 64 << 10;
const MAX_VARIABLES: usize = 65_536;

/// The maximum size of an argument's text in bytes.
const MAX_ARGUMENT_BYTES: u64 = 64 << 20;

/// The host memory that a variable takes besides its own bytes.
const VARIABLE_OVERHEAD: usize = 64;

impl RunState {
    /// The state of a run that is about to begin; fails with `memory` if its input does not fit.
    pub(super) fn new(context: &SkillContext, mut budget: PluginBudget, input: &str) -> Result<Self> {
        let mut memory = ExtismMemory::new();
        let input = memory.store(input.as_bytes(), &mut budget)?;
        Ok(Self {
            context: context.clone(),
            memory,
            budget,
            input_offset: input,
            output_range: (0, 0),
            error_offset: 0,
            variables: BTreeMap::new(),
            host_errors: Vec::new(),
            end_error: None,
        })
    }

    pub(super) fn context(&self) -> &SkillContext {
        &self.context
    }

    /// Ends the run with this error, unless it has one already.
    pub(super) fn end_with(&mut self, error: SkillError) {
        self.end_error.get_or_insert(error);
    }

    /// The error with which the host ended the run, or else the error that the plug-in set.
    pub(super) fn take_error(&mut self) -> Option<SkillError> {
        self.end_error.take().or_else(|| self.plugin_error())
    }

    /// The text of the output.
    pub(super) fn output(&self) -> &[u8] {
        self.memory.slice(self.output_range.0, self.output_range.1).unwrap_or_default()
    }

    pub(super) fn allocate(&mut self, length: u64) -> Result<u64> {
        self.memory.allocate(length, &mut self.budget)
    }

    /// Frees a block. Like every function in the table, it returns a number, here one without a meaning.
    #[allow(clippy::unnecessary_wraps)]
    pub(super) fn release(&mut self, offset: u64) -> Result<u64> {
        self.memory.release(offset);
        Ok(0)
    }

    #[allow(clippy::unnecessary_wraps)] // as above
    pub(super) fn set_error(&mut self, offset: u64) -> Result<u64> {
        self.error_offset = offset;
        Ok(0)
    }

    /// Returns bytes to the budget.
    pub(super) fn refund(&mut self, bytes: u64) {
        self.budget.refund(bytes);
    }

    pub(super) fn account_growth(&mut self, bytes: i64) -> Result<u64> {
        if bytes < 0 {
            self.budget.refund(bytes.unsigned_abs());
        } else {
            self.budget.spend(bytes.unsigned_abs())?;
        }
        Ok(0)
    }

    pub(super) fn load_input(&mut self, at: u64, length: usize) -> Result<u64> {
        self.memory.load(self.input_offset.saturating_add(at), length)
    }

    pub(super) fn set_output(&mut self, offset: u64, length: u64) -> Result<u64> {
        if self.memory.slice(offset, length).is_none() {
            let sentence = "the plug-in set an output that lies outside of Extism memory";
            return Err(SkillError::new(ErrorKind::InvalidOutput, sentence));
        }
        self.output_range = (offset, length);
        Ok(0)
    }

    /// A copy of a variable. The block of the name belongs to the host from here on, as in Extism.
    pub(super) fn load_variable(&mut self, name: u64) -> Result<u64> {
        let name = self.take_block(name, MAX_NAME_BYTES)?;
        match self.variables.get(&name) {
            Some(value) => self.memory.store(value, &mut self.budget),
            None => Ok(0),
        }
    }

    /// Stores a variable for this run, or removes it if there is no value.
    pub(super) fn set_variable(&mut self, name: u64, value: u64) -> Result<u64> {
        let name = self.take_block(name, MAX_NAME_BYTES)?;
        let cost = |name: &[u8], length: u64| (name.len() + VARIABLE_OVERHEAD) as u64 + length;
        if let Some(old) = self.variables.remove(&name) {
            self.budget.refund(cost(&name, old.len() as u64));
        }
        if value != 0 {
            if self.variables.len() == MAX_VARIABLES {
                return Err(too_many("variables", MAX_VARIABLES));
            }
            self.budget.spend(cost(&name, self.memory.length(value)))?;
            let value = self.take_block(value, u64::MAX)?;
            self.variables.insert(name, value);
        }
        Ok(0)
    }

    /// Writes to the run's log. The block belongs to the host from here on.
    pub(super) fn log(&mut self, level: LogLevel, message: u64) -> Result<u64> {
        // One byte more than a log may contain, so that the log can detect the excess.
        let most = self.context.limits().output.saturating_add(1);
        let message = self.take_block(message, most)?;
        self.context.log(level, String::from_utf8_lossy(&message)).map(|()| 0)
    }

    /// Takes the content of a block, up to this many bytes, and frees the block.
    fn take_block(&mut self, offset: u64, most: u64) -> Result<Vec<u8>> {
        let block = self.memory.block(offset).unwrap_or_default();
        let block = &block[..block.len().min(usize::try_from(most).unwrap_or(usize::MAX))];
        let mut content = Vec::with_capacity(block.len());
        for part in block.chunks(BYTES_PER_CHECK) {
            self.budget.check_cancel()?;
            content.extend_from_slice(part);
        }
        self.memory.release(offset);
        Ok(content)
    }

    /// The values whose texts are at these offsets.
    pub(super) fn read_arguments(
        &mut self,
        function: &HostFunction,
        offsets: &[u64],
        cost: &mut u64,
    ) -> Result<Vec<Value>> {
        let read = |(param, offset): (usize, &u64)| {
            *cost += self.charge_argument(*offset)?;
            self.parse_argument(*offset).map_err(|reason| {
                let name = function.params.get(param).map_or("an argument", |param| param.name);
                let sentence = format!("{}: {name} {reason}", function.signature());
                SkillError::new(ErrorKind::InvalidArgument, sentence)
                    .with_help("arguments are handed over as the offset of their JSON text")
            })
        };
        offsets.iter().enumerate().map(read).collect()
    }

    /// Charges the memory of an argument's value to the budget. Its size is bounded, since creating it cannot be interrupted.
    fn charge_argument(&mut self, offset: u64) -> Result<u64> {
        let text = self.memory.block(offset).unwrap_or_default();
        if text.len() as u64 > MAX_ARGUMENT_BYTES {
            return Err(too_large("an argument", MAX_ARGUMENT_BYTES));
        }
        let Ok(text) = std::str::from_utf8(text) else { return Ok(0) };
        let cost = json_cost(text, &mut self.budget)?;
        if cost > 2 * MAX_ARGUMENT_BYTES {
            return Err(too_large("an argument's value", 2 * MAX_ARGUMENT_BYTES));
        }
        Ok(cost)
    }

    fn parse_argument(&self, offset: u64) -> Result<Value, String> {
        if offset == 0 {
            return Ok(Value::Null);
        }
        let block = self.memory.block(offset).ok_or("is not the offset of a block")?;
        let text = std::str::from_utf8(block).map_err(|_| "is not UTF-8")?;
        strict_json::parse(text).map_err(|reason| format!("is not JSON: {reason}"))
    }

    /// Stores the text of a result and returns its offset.
    pub(super) fn store_answer(&mut self, answer: Result<Value>) -> Result<u64> {
        let text = match answer {
            Ok(value) => json!({"ok": value}).to_string(),
            Err(error) => self.error_answer(error),
        };
        self.memory.store(text.as_bytes(), &mut self.budget)
    }

    fn error_answer(&mut self, error: SkillError) -> String {
        let mut parts = json!({"kind": error.kind(), "message": error.message()});
        if let Some(help) = error.help() {
            parts["help"] = help.into();
        }
        let text = json!({"error": parts}).to_string();
        if self.host_errors.len() == MAX_HOST_ERRORS {
            self.host_errors.remove(0);
        }
        self.host_errors.push((text.clone(), error));
        text
    }

    /// The error that the plug-in set: the host's own error if the plug-in passes one on, its own message otherwise. The
    /// message is complete: it is redacted and shortened when it leaves the run.
    fn plugin_error(&self) -> Option<SkillError> {
        let text = self.memory.block(self.error_offset)?;
        let handed_on = |(given, error): &&(String, SkillError)| {
            [given, error.message()].map(str::as_bytes).contains(&text)
        };
        let host = self.host_errors.iter().rev().find(handed_on).map(|(_, error)| error.clone());
        Some(host.unwrap_or_else(|| SkillError::new(ErrorKind::Script, String::from_utf8_lossy(text))))
    }
}

fn too_many(what: &str, most: usize) -> SkillError {
    SkillError::new(ErrorKind::Memory, format!("the plug-in keeps more {what} than the {most} it may"))
}

fn too_large(what: &str, most: u64) -> SkillError {
    SkillError::new(ErrorKind::Memory, format!("{what} of a host function is larger than {} MiB", most >> 20))
        .with_help("hand it over in parts")
}
