//! Lua into JSON. What has no JSON form is an error that names its place, never a silent change.

use mlua::{Table, Value};
use serde_json::{Map, Number, Value as Json};

use super::super::border::{Budget, DEPTH, Fault};

/// The JSON for a Lua value, of at most `cap` bytes.
pub(super) fn value<'a>(
    value: &Value,
    array_meta: impl Into<Option<&'a Table>>,
    cap: u64,
) -> Result<Json, Fault> {
    Reader { array_meta: array_meta.into(), budget: Budget::new(cap) }.read(value, 0)
}

struct Reader<'a> {
    array_meta: Option<&'a Table>,
    budget: Budget,
}

impl Reader<'_> {
    fn read(&mut self, value: &Value, depth: usize) -> Result<Json, Fault> {
        match value {
            Value::Nil => self.budget.spend(4).map(|()| Json::Null),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.budget.spend(4).map(|()| Json::Null),
            Value::Boolean(flag) => self.budget.spend(4).map(|()| Json::Bool(*flag)),
            Value::Integer(integer) => self.budget.spend(1).map(|()| Json::from(*integer)),
            Value::Number(double) => self.budget.spend(1).and_then(|()| number(*double)),
            Value::String(text) => self.text(&text.as_bytes()).map(Json::String),
            Value::Table(table) if depth < DEPTH => self.table(table, depth + 1),
            Value::Table(_) => Err(Fault::too_deep()),
            other => Err(Fault::new(format!("is a {}, which has no JSON form", other.type_name()))),
        }
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<Json, Fault> {
        self.budget.spend(2)?;
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
        let mut items = Vec::with_capacity(length);
        let (mut fault, mut out_of_order, budget) = (None, false, self.budget);
        let walked = table.for_each(|key: Value, item: Value| {
            let position = items.len() + 1;
            let step = match key {
                Value::Integer(at) if usize::try_from(at) == Ok(position) => {
                    let item = self.budget.spend(1).and_then(|()| self.read(&item, depth));
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
            self.budget = budget;
            return self.list_by_position(table, length, depth);
        }
        ended(walked, fault)?;
        if items.len() < length { Err(holes()) } else { Ok(Json::Array(items)) }
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
        let mut items = Vec::with_capacity(length);
        for position in 1..=length {
            self.budget.spend(1)?;
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
                Value::String(key) => self.text(&key.as_bytes()).and_then(|key| {
                    let field =
                        self.read(&field, depth).map_err(|fault| fault.below(|| format!(".{key}")))?;
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

    fn text(&mut self, bytes: &[u8]) -> Result<String, Fault> {
        self.budget.spend(bytes.len() as u64 + 2)?;
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
            key.to_string_lossy()
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
