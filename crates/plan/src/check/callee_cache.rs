//! Callees that were already looked up, each name once, since a lookup may mean parsing the plan of the callee.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::Value;

use crate::callees::{Callee, CalleeLookup, Callees};
use crate::check::schema_query;
use metier_skill::contract::{Schema, parse_input_schema, parse_schema};

/// The callees resolved so far, by name.
pub(crate) struct CalleeCache<'a> {
    pub(crate) callees: &'a dyn Callees,
    skills: HashMap<String, Rc<CalleeLookup<Callee>>>,
    tools: HashMap<String, Rc<CalleeLookup<CallInputSchema>>>,
}

/// The input schema of a call.
#[derive(Clone, Debug)]
pub(crate) struct CallInputSchema {
    pub(crate) json: Value,
    /// Compiled to validate values, if that is possible.
    pub(crate) schema: Option<Schema>,
    /// The names that the caller must pass.
    pub(crate) required: Vec<String>,
}

impl CallInputSchema {
    /// The input of a function or a tool, for which no defaults are filled in.
    pub(crate) fn new(json: Value) -> Self {
        let required = schema_query::required_names(&json).map(str::to_owned).collect();
        Self { schema: parse_schema(json.clone()).ok(), required, json }
    }

    /// The input of a skill, for which the run fills in defaults.
    pub(crate) fn for_skill(json: Value) -> Self {
        let required =
            schema_query::required_names(&json).filter(|name| !schema_query::has_default(&json, name));
        let required = required.map(str::to_owned).collect();
        Self { schema: parse_input_schema(json.clone()).ok(), required, json }
    }
}

impl<'a> CalleeCache<'a> {
    pub(crate) fn new(callees: &'a dyn Callees) -> Self {
        Self { callees, skills: HashMap::new(), tools: HashMap::new() }
    }

    /// The skill with this name.
    pub(crate) fn skill(&mut self, name: &str) -> Rc<CalleeLookup<Callee>> {
        if let Some(known) = self.skills.get(name) {
            return known.clone();
        }
        let found = Rc::new(self.callees.skill(name));
        self.skills.insert(name.to_owned(), found.clone());
        found
    }

    /// The input of the embedder's tool with this name.
    pub(crate) fn tool(&mut self, name: &str) -> Rc<CalleeLookup<CallInputSchema>> {
        if let Some(known) = self.tools.get(name) {
            return known.clone();
        }
        let found = Rc::new(match self.callees.tool(name) {
            CalleeLookup::Found(json) => CalleeLookup::Found(CallInputSchema::new(json)),
            CalleeLookup::Missing(why) => CalleeLookup::Missing(why),
            CalleeLookup::Unknown => CalleeLookup::Unknown,
        });
        self.tools.insert(name.to_owned(), found.clone());
        found
    }
}
