//! One run: its memory, what it set as output and error, what it was refused, and what the host ended it with.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::budget::{BYTES_PER_CHECK, PluginBudget};
use super::json_cost::json_cost;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{HostFunction, LogLevel, SkillContext};
use crate::runtimes::wasm::extism_memory::ExtismMemory;
use crate::strict_json;

/// What is known of a run while it is under way, and when it is over.
pub(super) struct RunState {
    context: SkillContext,
    pub(super) memory: ExtismMemory,
    budget: PluginBudget,
    /// The offset of the input.
    pub(super) input_offset: u64,
    /// Offset and length of the output; empty until it is set.
    output_range: (u64, u64),
    /// The offset of the error the plug-in set; 0 when it set none.
    error_offset: u64,
    variables: BTreeMap<Vec<u8>, Vec<u8>>,
    host_errors: Vec<(String, SkillError)>,
    /// What the host ended the run with.
    end_error: Option<SkillError>,
}

/// The latest refusals are remembered, for a plug-in to hand on.
const MAX_HOST_ERRORS: usize = 8;

/// Bytes of a variable's name, and how many there may be: what is there when a run is over has to go within its time.
const MAX_NAME_BYTES: u64 = 64 << 10;
const MAX_VARIABLES: usize = 65_536;

/// Bytes of an argument's text.
const MAX_ARGUMENT_BYTES: u64 = 64 << 20;

/// Bytes of the host that a variable costs beside its own.
const VARIABLE_OVERHEAD: usize = 64;

impl RunState {
    /// A run about to begin; `memory` when its input does not fit.
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

    /// What the host ended the run with, or else the error the plug-in set.
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

    /// Frees a block. Like all that a table of functions names, it answers with a number, here with none to speak of.
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

    /// Gives back what was taken of the budget.
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

    /// A copy of a variable. The name's block is the host's from here on, as Extism has it.
    pub(super) fn load_variable(&mut self, name: u64) -> Result<u64> {
        let name = self.take_block(name, MAX_NAME_BYTES)?;
        match self.variables.get(&name) {
            Some(value) => self.memory.store(value, &mut self.budget),
            None => Ok(0),
        }
    }

    /// Keeps a variable for this run; without a value it is forgotten.
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

    /// Writes to the run's log. The block is the host's from here on.
    pub(super) fn log(&mut self, level: LogLevel, message: u64) -> Result<u64> {
        // One byte beyond what a log may hold: that is how it is known to be too much.
        let most = self.context.limits().output.saturating_add(1);
        let message = self.take_block(message, most)?;
        self.context.log(level, String::from_utf8_lossy(&message)).map(|()| 0)
    }

    /// What a block holds, up to so many bytes. The block is free from here on.
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

    /// The values whose texts lie at these offsets.
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

    /// Takes what the argument's value needs from the budget. How much that may be is bounded, for nobody can stop it being made.
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

    /// The offset of the answer's text.
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

    /// The error the plug-in set: the host's own where it hands one on, its own words otherwise, whole: they are cut when they
    /// leave the run, without secrets.
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
