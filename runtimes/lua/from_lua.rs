//! Lua into JSON. What has no JSON form is an error that names its place, never a silent change.

use mlua::{Table, Value};
use serde_json::{Map, Number, Value as Json};

use super::super::border::{Budget, DEPTH, Fault};
use super::failure;
use crate::error::ErrorKind;
use crate::policy::CancelToken;

/// What may be made of values: as many bytes of JSON as a run may put out, in as much memory as the script has left, for as
/// long as the run goes on. All is spent before it is made.
pub(super) struct Bounds<'a> {
    bytes: Budget,
    memory: u64,
    token: &'a CancelToken,
    /// Parts that were read since the token was asked.
    read: u32,
}

impl<'a> Bounds<'a> {
    pub(super) fn new(bytes: u64, memory: u64, token: &'a CancelToken) -> Self {
        Self { bytes: Budget::new(bytes), memory, token, read: 0 }
    }

    /// So many bytes for another value, in the memory that is left.
    pub(super) fn renew(&mut self, bytes: u64) {
        self.bytes = Budget::new(bytes);
    }

    /// The memory that is left.
    pub(super) fn memory(&self) -> u64 {
        self.memory
    }

    fn spend(&mut self, bytes: u64, memory: u64) -> Result<(), Fault> {
        self.read += 1;
        if self.read >= 1 << 12 {
            self.read = 0;
            self.token
                .check()
                .map_err(|stopped| Fault::of_kind(stopped.kind(), "was not read to its end"))?;
        }
        self.bytes.spend(bytes)?;
        self.memory = self
            .memory
            .checked_sub(memory)
            .ok_or_else(|| Fault::of_kind(ErrorKind::Memory, "takes more memory than the script has left"))?;
        Ok(())
    }
}

/// What a JSON value takes where it stands, and what it takes besides as a field of an object, its share of the tree included.
const ITEM: u64 = size_of::<Json>() as u64;
const FIELD: u64 = 160;
/// What the system keeps of each piece of memory.
const PIECE: u64 = 16;

/// The JSON for a Lua value.
pub(super) fn value<'a>(
    value: &Value,
    array_meta: impl Into<Option<&'a Table>>,
    bounds: &mut Bounds,
) -> Result<Json, Fault> {
    Reader { array_meta: array_meta.into(), bounds }.read(value, 0)
}

struct Reader<'a, 'b, 't> {
    array_meta: Option<&'a Table>,
    bounds: &'b mut Bounds<'t>,
}

impl Reader<'_, '_, '_> {
    fn read(&mut self, value: &Value, depth: usize) -> Result<Json, Fault> {
        let json = match value {
            Value::Nil => Json::Null,
            Value::LightUserData(pointer) if pointer.0.is_null() => Json::Null,
            Value::Boolean(flag) => Json::Bool(*flag),
            Value::Integer(integer) => {
                self.bounds.spend(1, 0)?;
                return Ok(Json::from(*integer));
            }
            Value::Number(double) => {
                self.bounds.spend(1, 0)?;
                return number(*double);
            }
            Value::String(text) => return self.text(&text.as_bytes()).map(Json::String),
            Value::Table(table) if depth < DEPTH => return self.table(table, depth + 1),
            Value::Table(_) => return Err(Fault::too_deep()),
            other => return Err(Fault::new(format!("is a {}, which has no JSON form", other.type_name()))),
        };
        self.bounds.spend(4, 0)?;
        Ok(json)
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<Json, Fault> {
        self.bounds.spend(2, PIECE)?;
        match table.raw_len() {
            0 if self.is_marked(table) => self.list(table, 0, depth),
            0 => self.record(table, depth),
            length => self.list(table, length, depth),
        }
    }

    /// Whether an empty table is an empty list.
    fn is_marked(&self, table: &Table) -> bool {
        self.array_meta.is_some() && table.metatable().as_ref() == self.array_meta
    }

    /// Positions come first and in order as a rule; a list that was filled otherwise is read by position.
    fn list(&mut self, table: &Table, length: usize, depth: usize) -> Result<Json, Fault> {
        let mut items = self.room_for(length)?;
        let (mut fault, mut out_of_order, before) = (None, false, (self.bounds.bytes, self.bounds.memory));
        let walked = table.for_each(|key: Value, item: Value| {
            let position = items.len() + 1;
            let step = match key {
                Value::Integer(at) if usize::try_from(at) == Ok(position) => {
                    let item = self.bounds.spend(1, 0).and_then(|()| self.read(&item, depth));
                    item.map(|item| items.push(item)).map_err(|fault| fault.below(|| format!("[{position}]")))
                }
                Value::Integer(at) if usize::try_from(at).is_ok_and(|at| (1..=length).contains(&at)) => {
                    out_of_order = true;
                    Err(holes())
                }
                other => Err(not_a_list(&other)),
            };
            step.map_err(|found| {
                fault = Some(found);
                mlua::Error::runtime("not a list")
            })
        });
        if out_of_order {
            (self.bounds.bytes, self.bounds.memory) = before;
            return self.list_by_position(table, length, depth);
        }
        ended(walked, fault)?;
        if items.len() < length { Err(holes()) } else { Ok(Json::Array(items)) }
    }

    /// A list of that length with nothing in it yet, each item of which takes two bytes of JSON at least.
    fn room_for(&mut self, length: usize) -> Result<Vec<Json>, Fault> {
        let length = length as u64;
        let mut bytes = self.bounds.bytes;
        bytes.spend(length.saturating_mul(2))?;
        self.bounds.spend(0, length.saturating_mul(ITEM))?;
        Ok(Vec::with_capacity(usize::try_from(length).unwrap_or(0)))
    }

    fn list_by_position(&mut self, table: &Table, length: usize, depth: usize) -> Result<Json, Fault> {
        let mut keys = 0;
        let mut stranger = None;
        let counted = table.for_each(|key: Value, _: Value| {
            keys += 1;
            if matches!(key, Value::Integer(_)) && keys <= length {
                return Ok(());
            }
            stranger = Some(not_a_list(&key));
            Err(mlua::Error::runtime("not a list"))
        });
        ended(counted, stranger)?;
        let mut items = self.room_for(length)?;
        for position in 1..=length {
            self.bounds.spend(1, 0)?;
            match table.raw_get(position).map_err(|error| Fault::new(error.to_string()))? {
                Value::Nil => return Err(holes()),
                item => items
                    .push(self.read(&item, depth).map_err(|fault| fault.below(|| format!("[{position}]")))?),
            }
        }
        Ok(Json::Array(items))
    }

    fn record(&mut self, table: &Table, depth: usize) -> Result<Json, Fault> {
        let mut fields = Map::new();
        let mut fault = None;
        let walked = table.for_each(|key: Value, field: Value| {
            let step = match &key {
                Value::String(key) => self.field(&key.as_bytes()).and_then(|key| {
                    let field = self
                        .read(&field, depth)
                        .map_err(|fault| fault.below(|| format!(".{}", failure::brief(key.as_bytes()))))?;
                    fields.insert(key, field);
                    Ok(())
                }),
                Value::Integer(_) | Value::Number(_) => Err(holes()),
                other => Err(not_a_list(other)),
            };
            step.map_err(|found| {
                fault = Some(found);
                mlua::Error::runtime("stop")
            })
        });
        ended(walked, fault)?;
        Ok(Json::Object(fields))
    }

    fn field(&mut self, key: &[u8]) -> Result<String, Fault> {
        self.bounds.spend(0, FIELD)?;
        self.text(key)
    }

    fn text(&mut self, bytes: &[u8]) -> Result<String, Fault> {
        self.bounds.spend(bytes.len() as u64 + 2, bytes.len() as u64 + PIECE)?;
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|error| Fault::new(format!("is not UTF-8 at byte {}", error.valid_up_to())))
    }
}

fn number(double: f64) -> Result<Json, Fault> {
    Number::from_f64(double)
        .map(Json::Number)
        .ok_or_else(|| Fault::new(format!("is {double}, which JSON has no form for")))
}

fn not_a_list(key: &Value) -> Fault {
    match key {
        Value::String(key) => Fault::new(format!(
            "mixes a list with the key \"{}\"; use one or the other",
            failure::brief(&key.as_bytes())
        )),
        Value::Integer(_) | Value::Number(_) => holes(),
        other => Fault::new(format!("has a {} as a key; JSON keys are strings", other.type_name())),
    }
}

fn holes() -> Fault {
    Fault::new("is a list with holes").with_help("fill them with null, or use string keys")
}

fn ended(walked: mlua::Result<()>, fault: Option<Fault>) -> Result<(), Fault> {
    match (fault, walked) {
        (Some(fault), _) => Err(fault),
        (None, Err(error)) => Err(Fault::new(error.to_string())),
        (None, Ok(())) => Ok(()),
    }
}
