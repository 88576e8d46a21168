//! The state of one run: its memory, its output and error, the host errors it received, and the error with which the host
//! ended it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::budget::{BYTES_PER_CHECK, PluginBudget, json_cost};
use super::extism_response::LatestResponse;
use super::plugin_settings::PluginSettings;
use super::text_abi;
use crate::extism_memory::ExtismMemory;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{HostFunction, LogLevel, SkillContext, function};
use metier_core::strict_json;

/// The state of a run, during and after it.
pub(super) struct RunState {
    context: SkillContext,
    settings: Arc<PluginSettings>,
    pub(super) memory: ExtismMemory,
    budget: PluginBudget,
    /// The text of the input, until the entry begins.
    input: String,
    /// Offset and length of the input.
    input_range: (u64, u64),
    /// Offset and length of the output; empty until the plug-in sets it.
    output_range: (u64, u64),
    /// The offset of the error that the plug-in set; 0 if it set none.
    error_offset: u64,
    variables: BTreeMap<String, Vec<u8>>,
    /// The bytes that the variables take.
    variable_bytes: u64,
    pub(super) response: LatestResponse,
    host_errors: Vec<(String, SkillError)>,
    /// The error with which the host ended the run.
    end_error: Option<SkillError>,
}

/// The latest errors of host functions are kept, so that a plug-in can pass them on.
const MAX_HOST_ERRORS: usize = 8;

/// The maximum size of all variables in bytes, that of Extism.
const MAX_VARIABLE_BYTES: u64 = 1 << 20;

/// What sending a body takes for each of its bytes. The function that sends it reserves the rest by itself.
const BODY_COPIES: u64 = 3;

/// The maximum size of an argument's text in bytes.
const MAX_ARGUMENT_BYTES: u64 = 64 << 20;

/// What a variable takes besides its own bytes, as Extism counts.
const VARIABLE_OVERHEAD: u64 = 48;

impl RunState {
    /// The state of a run that is about to begin.
    pub(super) fn new(
        context: &SkillContext,
        budget: PluginBudget,
        input: String,
        settings: Arc<PluginSettings>,
    ) -> Self {
        Self {
            context: context.clone(),
            settings,
            memory: ExtismMemory::new(),
            budget,
            input,
            input_range: (0, 0),
            output_range: (0, 0),
            error_offset: 0,
            variables: BTreeMap::new(),
            variable_bytes: 0,
            response: LatestResponse::none(),
            host_errors: Vec::new(),
            end_error: None,
        }
    }

    /// Begins the entry: stores the input, and forgets blocks, output and error from before, as Extism does. Fails with
    /// `memory` if the input does not fit.
    pub(super) fn begin(&mut self) -> Result<u64> {
        self.memory.reset(&mut self.budget);
        (self.output_range, self.error_offset) = ((0, 0), 0);
        let input = std::mem::take(&mut self.input);
        let offset = self.memory.store(input.as_bytes(), &mut self.budget)?;
        self.input_range = (offset, input.len() as u64);
        Ok(0)
    }

    /// Offset and length of the input.
    pub(super) fn input(&self) -> (u64, u64) {
        self.input_range
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
        // Another block may take the place of the input or the error.
        if offset == self.input_range.0 {
            self.input_range.1 = 0;
        }
        if offset == self.error_offset {
            self.error_offset = 0;
        }
        Ok(0)
    }

    #[allow(clippy::unnecessary_wraps)] // as above
    pub(super) fn save(&mut self, offset: u64, length: usize, number: u64) -> Result<u64> {
        self.memory.save(offset, length, number);
        Ok(0)
    }

    /// Sets the error to the text of a block; 0 takes it back, and an offset outside of Extism memory changes nothing.
    #[allow(clippy::unnecessary_wraps)] // as above
    pub(super) fn set_error(&mut self, offset: u64) -> Result<u64> {
        if self.memory.slice(offset, 1).is_some() {
            self.error_offset = offset;
        }
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

    /// Reads this many bytes of the input; 0 if they are not all of it.
    pub(super) fn load_input(&mut self, at: u64, length: usize) -> u64 {
        let (offset, size) = self.input_range;
        match at.checked_add(length as u64) {
            Some(end) if end <= size => self.memory.load(offset + at, length),
            _ => 0,
        }
    }

    /// Sets the output, unless it lies outside of Extism memory, as in Extism.
    #[allow(clippy::unnecessary_wraps)] // as above
    pub(super) fn set_output(&mut self, offset: u64, length: u64) -> Result<u64> {
        if offset != 0 && self.memory.slice(offset, length).is_some() {
            self.output_range = (offset, length);
        }
        Ok(0)
    }

    /// A copy of a variable; 0 if there is none. The block of the name belongs to the host from here on, as in Extism.
    pub(super) fn load_variable(&mut self, name: u64) -> Result<u64> {
        let key = name_in(&self.memory, name, "variable")?;
        let value = key.and_then(|key| self.variables.get(key)).cloned();
        self.release(name)?;
        value.map_or(Ok(0), |value| self.store_block(&value))
    }

    /// Stores a variable for this run, or removes it if there is no value. The blocks belong to the host from here on.
    pub(super) fn set_variable(&mut self, name: u64, value: u64) -> Result<u64> {
        let most = MAX_VARIABLE_BYTES.min(self.settings.max_variable_bytes.unwrap_or(u64::MAX));
        let full = || {
            let sentence = format!("the plug-in's variables take more than the {most} bytes they may");
            SkillError::new(ErrorKind::Memory, sentence).with_help("remove those that it needs no longer")
        };
        let key = name_in(&self.memory, name, "variable")?;
        let cost = |key: &str, value: u64| key.len() as u64 + value + VARIABLE_OVERHEAD;
        if value == 0 {
            let removed = key.and_then(|key| self.variables.remove_entry(key));
            self.forget(removed.map_or(0, |(key, value)| cost(&key, value.len() as u64)));
        } else {
            let content = self.memory.block(value).ok_or_else(|| no_block("the value of a variable"))?;
            let key = key.ok_or_else(full)?;
            let cost_of_new = cost(key, content.len() as u64);
            // The old value counts while it is replaced, as in Extism.
            if self.variable_bytes + cost_of_new > most {
                return Err(full());
            }
            self.budget.spend(cost_of_new)?;
            self.variable_bytes += cost_of_new;
            let old = self.variables.insert(key.to_owned(), content.to_vec());
            let cost_of_old = old.map_or(0, |old| cost(key, old.len() as u64));
            self.forget(cost_of_old);
            self.release(value)?;
        }
        self.release(name)
    }

    fn forget(&mut self, variable_bytes: u64) {
        self.variable_bytes -= variable_bytes;
        self.budget.refund(variable_bytes);
    }

    /// A setting of the skill: a text as it is, any other value as JSON; 0 if it is not set. The block of the name belongs to
    /// the host from here on.
    pub(super) fn load_setting(&mut self, name: u64) -> Result<u64> {
        let key = name_in(&self.memory, name, "setting")?.map(str::to_owned);
        self.release(name)?;
        let (Some(key), Some(config)) = (key, function("config")) else { return Ok(0) };
        match config.call(&self.context, vec![key.as_str().into()])? {
            Value::Null => match self.settings.clone().config.get(&key) {
                Some(text) => self.store_block(text.as_bytes()),
                None => Ok(0),
            },
            Value::String(text) => self.store_block(text.as_bytes()),
            other => self.store_block(other.to_string().as_bytes()),
        }
    }

    /// The most bytes that the body of a response may have, if the plug-in's manifest says so.
    pub(super) fn max_response_bytes(&self) -> Option<u64> {
        self.settings.max_response_bytes
    }

    /// The headers of the latest response, as JSON text.
    pub(super) fn load_headers(&mut self) -> Result<u64> {
        self.memory.store(self.response.headers.as_bytes(), &mut self.budget)
    }

    /// Allocates a block with this content.
    pub(super) fn store_block(&mut self, content: &[u8]) -> Result<u64> {
        self.memory.store(content, &mut self.budget)
    }

    /// Writes to the run's log. The block belongs to the host from here on.
    pub(super) fn log(&mut self, level: LogLevel, message: u64) -> Result<u64> {
        // One byte more than a log may contain, so that the log can detect the excess.
        let most = self.context.limits().output.saturating_add(1);
        if message != 0 && self.memory.block(message).is_none() {
            return Err(no_block("a message for the log"));
        }
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
        self.release(offset)?;
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
            let value_type = function.params.get(param).map(|param| param.value_type);
            let parsed = match value_type.filter(|_| self.settings.passes_text) {
                Some(value_type) => text_abi::argument(value_type, self.memory.block(*offset), *offset),
                None => self.parse_argument(*offset),
            };
            parsed.map_err(|reason| {
                let name = function.params.get(param).map_or("an argument", |param| param.name);
                let sentence = format!("{}: {name} {reason}", function.signature());
                SkillError::new(ErrorKind::InvalidArgument, sentence)
                    .with_help("arguments are handed over as the offset of their JSON text")
            })
        };
        offsets.iter().enumerate().map(read).collect()
    }

    /// Charges the memory of an argument's value to the budget. Its size is bounded, since creating it cannot be interrupted.
    pub(super) fn charge_argument(&mut self, offset: u64) -> Result<u64> {
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

    /// Charges what sending the bytes of a block takes: their text in base64, a copy of it, and the bytes again.
    pub(super) fn charge_body(&mut self, offset: u64) -> Result<u64> {
        let length = self.memory.length(offset);
        if length > MAX_ARGUMENT_BYTES {
            return Err(too_large("a body", MAX_ARGUMENT_BYTES));
        }
        self.budget.spend(BODY_COPIES * length)?;
        Ok(BODY_COPIES * length)
    }

    fn parse_argument(&self, offset: u64) -> Result<Value, String> {
        if offset == 0 {
            return Ok(Value::Null);
        }
        let block = self.memory.block(offset).ok_or("is not the offset of a block")?;
        let text = std::str::from_utf8(block).map_err(|_| "is not UTF-8")?;
        strict_json::parse_repaired(text).map_err(|reason| format!("is not JSON: {reason}"))
    }

    /// Whether the plug-in passes text and not JSON.
    pub(super) fn passes_text(&self) -> bool {
        self.settings.passes_text
    }

    /// Stores the result as the text that a plug-in of Synwire expects and returns its offset. An error that has no such text ends
    /// the run.
    pub(super) fn store_text(&mut self, function: &HostFunction, answer: Result<Value>) -> Result<u64> {
        let text = text_abi::answer(function, answer)?;
        self.memory.store(text.as_bytes(), &mut self.budget)
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

/// The name that a block holds, empty at offset 0; `None` if it is longer than any that is kept.
fn name_in<'m>(memory: &'m ExtismMemory, offset: u64, of: &str) -> Result<Option<&'m str>> {
    if offset == 0 {
        return Ok(Some(""));
    }
    let name = memory.block(offset).ok_or_else(|| no_block(&format!("the name of a {of}")))?;
    if name.len() as u64 > MAX_VARIABLE_BYTES {
        return Ok(None);
    }
    std::str::from_utf8(name).map(Some).map_err(|_| {
        SkillError::new(ErrorKind::Script, format!("the plug-in gave a name of a {of} that is not UTF-8"))
    })
}

fn no_block(what: &str) -> SkillError {
    SkillError::new(ErrorKind::Script, format!("the plug-in gave an offset that is not a block as {what}"))
}

fn too_large(what: &str, most: u64) -> SkillError {
    SkillError::new(ErrorKind::Memory, format!("{what} of a host function is larger than {} MiB", most >> 20))
        .with_help("hand it over in parts")
}
