//! Converts Lua values into JSON. A value without a JSON form is an error that names its place, never changed silently.

use mlua::{Table, Value};
use serde_json::{Map, Number, Value as Json};

use super::value_path::{elide_long_name, field_segment, index_segment};
use metier_core::executor::json_boundary::{ConversionError, MAX_DEPTH, OutputBudget, spend_memory};
use metier_core::policy::CancelToken;

/// The budget of conversions: the bytes of JSON that a run may output, and the memory that the script has left, for as long
/// as the run is not stopped. It is spent before anything is created.
pub(super) struct ConversionBudget<'a> {
    output: OutputBudget,
    memory: u64,
    token: &'a CancelToken,
    /// Values that were read since the token was last checked.
    values_since_check: u32,
}

impl<'a> ConversionBudget<'a> {
    pub(super) fn new(bytes: u64, memory: u64, token: &'a CancelToken) -> Self {
        Self { output: OutputBudget::new(bytes), memory, token, values_since_check: 0 }
    }

    /// Allows this many bytes for another value, in the memory that is left.
    pub(super) fn reset_output(&mut self, bytes: u64) {
        self.output = OutputBudget::new(bytes);
    }

    /// The memory that is left.
    pub(super) fn remaining_memory(&self) -> u64 {
        self.memory
    }

    #[inline]
    fn spend(&mut self, bytes: u64, memory: u64) -> Result<(), ConversionError> {
        self.values_since_check += 1;
        if self.values_since_check >= 1 << 12 {
            self.values_since_check = 0;
            self.token
                .check()
                .map_err(|stopped| ConversionError::with_kind(stopped.kind(), "was not read to its end"))?;
        }
        self.output.spend(bytes)?;
        spend_memory(&mut self.memory, memory)
    }
}

/// The memory that a JSON value takes where it is stored, and as a field of an object, in a table that may be half empty and has
/// room for a few fields at least.
const VALUE_BYTES: u64 = size_of::<Json>() as u64;
const FIELD_BYTES: u64 = 240;
const OBJECT_BYTES: u64 = 160;
/// The allocator's overhead of each allocation.
const ALLOCATION_OVERHEAD: u64 = 16;

/// The JSON of a Lua value.
pub(super) fn value<'a>(
    value: &Value,
    array_meta: impl Into<Option<&'a Table>>,
    budget: &mut ConversionBudget,
) -> Result<Json, ConversionError> {
    Reader { array_meta: array_meta.into(), budget }.read(value, 0)
}

struct Reader<'a, 'b, 't> {
    array_meta: Option<&'a Table>,
    budget: &'b mut ConversionBudget<'t>,
}

impl Reader<'_, '_, '_> {
    fn read(&mut self, value: &Value, depth: usize) -> Result<Json, ConversionError> {
        let json = match value {
            Value::Nil => Json::Null,
            Value::LightUserData(pointer) if pointer.0.is_null() => Json::Null,
            Value::Boolean(flag) => Json::Bool(*flag),
            Value::Integer(integer) => {
                self.budget.spend(1, 0)?;
                return Ok(Json::from(*integer));
            }
            Value::Number(double) => {
                self.budget.spend(1, 0)?;
                return number(*double);
            }
            Value::String(text) => return self.text(&text.as_bytes()).map(Json::String),
            Value::Table(table) if depth < MAX_DEPTH => return self.table(table, depth + 1),
            Value::Table(_) => return Err(ConversionError::too_deep()),
            other => {
                return Err(ConversionError::new(format!(
                    "is a {}, which has no JSON form",
                    other.type_name()
                )));
            }
        };
        self.budget.spend(4, 0)?;
        Ok(json)
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<Json, ConversionError> {
        self.budget.spend(2, ALLOCATION_OVERHEAD)?;
        match table.raw_len() {
            0 if self.has_array_meta(table) => self.list(table, 0, depth),
            0 => self.object(table, depth),
            length => self.list(table, length, depth),
        }
    }

    /// Whether an empty table is an empty list.
    fn has_array_meta(&self, table: &Table) -> bool {
        self.array_meta.is_some() && table.metatable().as_ref() == self.array_meta
    }

    /// Usually the positions come first and in order; a list that was filled in another order is read by position.
    fn list(&mut self, table: &Table, length: usize, depth: usize) -> Result<Json, ConversionError> {
        let mut items = self.allocate_list(length)?;
        let (mut error, mut out_of_order, before) = (None, false, (self.budget.output, self.budget.memory));
        let walked = table.for_each(|key: Value, item: Value| {
            let position = items.len() + 1;
            let step = match key {
                Value::Integer(at) if usize::try_from(at) == Ok(position) => {
                    let item = self.budget.spend(1, 0).and_then(|()| self.read(&item, depth));
                    item.map(|item| items.push(item))
                        .map_err(|error| error.with_path_segment(|| index_segment(position)))
                }
                Value::Integer(at) if usize::try_from(at).is_ok_and(|at| (1..=length).contains(&at)) => {
                    out_of_order = true;
                    Err(sparse_list())
                }
                other => Err(not_a_list(&other)),
            };
            step.map_err(|found| {
                error = Some(found);
                mlua::Error::runtime("not a list")
            })
        });
        if out_of_order {
            (self.budget.output, self.budget.memory) = before;
            return self.list_by_position(table, length, depth);
        }
        walk_result(walked, error)?;
        if items.len() < length { Err(sparse_list()) } else { Ok(Json::Array(items)) }
    }

    /// An empty list with this capacity. Each item takes at least two bytes of JSON.
    fn allocate_list(&mut self, length: usize) -> Result<Vec<Json>, ConversionError> {
        let length = length as u64;
        let mut bytes = self.budget.output;
        bytes.spend(length.saturating_mul(2))?;
        self.budget.spend(0, length.saturating_mul(VALUE_BYTES))?;
        Ok(Vec::with_capacity(usize::try_from(length).unwrap_or(0)))
    }

    fn list_by_position(
        &mut self,
        table: &Table,
        length: usize,
        depth: usize,
    ) -> Result<Json, ConversionError> {
        let mut keys = 0;
        let mut other_key = None;
        let counted = table.for_each(|key: Value, _: Value| {
            keys += 1;
            if matches!(key, Value::Integer(_)) && keys <= length {
                return Ok(());
            }
            other_key = Some(not_a_list(&key));
            Err(mlua::Error::runtime("not a list"))
        });
        walk_result(counted, other_key)?;
        let mut items = self.allocate_list(length)?;
        for position in 1..=length {
            self.budget.spend(1, 0)?;
            match table.raw_get(position).map_err(|error| ConversionError::new(error.to_string()))? {
                Value::Nil => return Err(sparse_list()),
                item => items.push(
                    self.read(&item, depth)
                        .map_err(|error| error.with_path_segment(|| index_segment(position)))?,
                ),
            }
        }
        Ok(Json::Array(items))
    }

    /// A table has no order of its own, so its keys are sorted.
    fn object(&mut self, table: &Table, depth: usize) -> Result<Json, ConversionError> {
        if !table.is_empty() {
            self.budget.spend(0, OBJECT_BYTES)?;
        }
        let mut fields = Map::new();
        let mut error = None;
        let walked = table.for_each(|key: Value, field: Value| {
            let step = match &key {
                Value::String(key) => self.key(&key.as_bytes()).and_then(|key| {
                    let field = self
                        .read(&field, depth)
                        .map_err(|error| error.with_path_segment(|| field_segment(key.as_bytes())))?;
                    fields.insert(key, field);
                    Ok(())
                }),
                Value::Integer(_) | Value::Number(_) => Err(sparse_list()),
                other => Err(not_a_list(other)),
            };
            step.map_err(|found| {
                error = Some(found);
                mlua::Error::runtime("stop")
            })
        });
        walk_result(walked, error)?;
        fields.sort_keys();
        Ok(Json::Object(fields))
    }

    fn key(&mut self, key: &[u8]) -> Result<String, ConversionError> {
        self.budget.spend(0, FIELD_BYTES)?;
        self.text(key)
    }

    fn text(&mut self, bytes: &[u8]) -> Result<String, ConversionError> {
        self.budget.spend(bytes.len() as u64 + 2, bytes.len() as u64 + ALLOCATION_OVERHEAD)?;
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|error| ConversionError::new(format!("is not UTF-8 at byte {}", error.valid_up_to())))
    }
}

fn number(double: f64) -> Result<Json, ConversionError> {
    Number::from_f64(double)
        .map(Json::Number)
        .ok_or_else(|| ConversionError::new(format!("is {double}, which JSON has no form for")))
}

fn not_a_list(key: &Value) -> ConversionError {
    match key {
        Value::String(key) => ConversionError::new(format!(
            "mixes a list with the key \"{}\"; use one or the other",
            elide_long_name(&key.as_bytes())
        )),
        Value::Integer(_) | Value::Number(_) => sparse_list(),
        other => ConversionError::new(format!("has a {} as a key; JSON keys are strings", other.type_name())),
    }
}

fn sparse_list() -> ConversionError {
    ConversionError::new("is a list with holes").with_help("fill them with null, or use string keys")
}

fn walk_result(walked: mlua::Result<()>, error: Option<ConversionError>) -> Result<(), ConversionError> {
    match (error, walked) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => Err(ConversionError::new(error.to_string())),
        (None, Ok(())) => Ok(()),
    }
}
