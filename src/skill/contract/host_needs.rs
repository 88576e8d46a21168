//! What a script expects of the program that hosts it.

use serde::Serialize;

use super::serialize::by_key;

/// What a script expects of its host, beside permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HostNeeds {
    /// Services of the host that the script calls, by their names.
    pub capabilities: Vec<String>,
    /// The secrets that it reads; it can read no others.
    pub secrets: Vec<String>,
    /// The inputs that are points in time: they reach the script in UTC.
    pub timestamps: Vec<String>,
    /// What the host may add to the input.
    pub enrichment: Option<Enrichment>,
    /// The fields of its output, each with what it is. The output is not validated against them.
    #[serde(serialize_with = "by_key")]
    pub output_descriptions: Vec<(String, String)>,
}

/// People or agents whose records the host may add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Enrichment {
    /// The input that names them.
    pub param: String,
    /// Whom it means where the input is absent: `caller` or `agent`.
    pub default: String,
}

impl Enrichment {
    pub(crate) fn new(param: String, default: String) -> Self {
        Self { param, default }
    }
}
