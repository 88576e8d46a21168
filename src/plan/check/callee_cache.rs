//! Callees that were looked up, each name once: looking one up may mean reading its plan.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::Value;

use crate::plan::callees::{Callee, CalleeLookup, Callees};
use crate::plan::check::schema_query;
use crate::skill::Schema;

/// What there is to call, as far as somebody asked.
pub(in crate::plan) struct CalleeCache<'a> {
    pub(in crate::plan) callees: &'a dyn Callees,
    skills: HashMap<String, Rc<CalleeLookup<Callee>>>,
    tools: HashMap<String, Rc<CalleeLookup<CallInputSchema>>>,
}

/// What a call is given, as a schema.
#[derive(Clone, Debug)]
pub(in crate::plan) struct CallInputSchema {
    pub(in crate::plan) json: Value,
    /// Compiled to hold values against, where that is possible.
    pub(in crate::plan) schema: Option<Schema>,
    /// The names that the caller must give.
    pub(in crate::plan) required: Vec<String>,
}

impl CallInputSchema {
    /// What a function or tool takes, which gets nothing filled in.
    pub(in crate::plan) fn new(json: Value) -> Self {
        let required = schema_query::required_names(&json).map(str::to_owned).collect();
        Self { schema: Schema::parse(json.clone()).ok(), required, json }
    }

    /// What a skill takes, where defaults stand in for what is not given.
    pub(in crate::plan) fn for_skill(json: Value) -> Self {
        let required =
            schema_query::required_names(&json).filter(|name| !schema_query::has_default(&json, name));
        let required = required.map(str::to_owned).collect();
        Self { schema: Schema::parse_inputs(json.clone()).ok(), required, json }
    }
}

impl<'a> CalleeCache<'a> {
    pub(in crate::plan) fn new(callees: &'a dyn Callees) -> Self {
        Self { callees, skills: HashMap::new(), tools: HashMap::new() }
    }

    /// The skill of that name.
    pub(in crate::plan) fn skill(&mut self, name: &str) -> Rc<CalleeLookup<Callee>> {
        if let Some(known) = self.skills.get(name) {
            return known.clone();
        }
        let found = Rc::new(self.callees.skill(name));
        self.skills.insert(name.to_owned(), found.clone());
        found
    }

    /// What the embedder's tool of that name takes.
    pub(in crate::plan) fn tool(&mut self, name: &str) -> Rc<CalleeLookup<CallInputSchema>> {
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
