//! Compares two versions of a skill by their contracts, and says how large the change of the version must be.
//!
//! A *major* change may break a caller, or asks whoever runs the skill for something more. With a *minor* change callers go on as
//! before, and can do more. A *patch* changes what people read, or nothing that a contract says. What cannot be decided is `unknown`.

mod facts;
mod finding;
mod host_requirements;
mod schema;
mod skill;
#[cfg(test)]
#[cfg(feature = "json-schema")]
mod tests;
mod tools;
mod version;

use semver::Version;

pub use self::finding::{Change, Finding};
use self::finding::{FindingList, NamedPair, named_pairs, pointer};
use self::schema::{Direction, WorkBudget};
pub use self::skill::contract_of_skill;
pub use self::version::VersionChange;
use crate::contract::{Contract, Entrypoint, Example};

/// What is different between two versions of a skill, and what that means for the number of the version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comparison {
    /// The differences, those first that need the largest change.
    pub findings: Vec<Finding>,
    /// How many more differences there are than the findings list.
    pub left_out: usize,
    /// How many differences are [`Change::Unknown`].
    pub unknown: usize,
    /// The change that the differences need, without those that are unknown.
    pub required: VersionChange,
    /// The change from the old version to the new one; `None` if one of the two has no version.
    pub declared: Option<VersionChange>,
    /// The lowest release that is enough after the old version; `None` if that has no version, or no number is left.
    pub needed_version: Option<Version>,
}

impl Comparison {
    /// Whether the declared change is large enough; `None` if a version is missing. What is unknown does not count.
    pub fn is_sufficient(&self) -> Option<bool> {
        self.declared.map(|declared| declared >= self.required)
    }
}

/// Compares an old version of a contract with a new one.
///
/// What only a `SKILL.md` says is no part of it, such as the permissions of `allowed-tools`. A version `0.0.0` is that of a skill
/// without one. The work is bounded: of very large schemas it says that it cannot tell.
///
/// ```
/// # mod metier { pub use metier_skill as skill; }
/// use metier::skill::comparison::{Change, VersionChange, compare};
/// use metier::skill::contract::parse;
///
/// let contract = |text: &str| parse(text.as_bytes()).contract.unwrap();
/// let old = contract("{name: forecast, version: 1.2.0, inputs: {city: {type: string, required: true}}}");
/// let new = contract("{name: forecast, version: 1.2.1, inputs: {city: {type: [string, integer], required: true}}}");
///
/// let comparison = compare(&old, &new);
/// assert_eq!(comparison.findings[0].path, "/inputs/properties/city/type");
/// assert_eq!(comparison.findings[0].change, Change::Minor);
/// assert_eq!((comparison.declared, comparison.required), (Some(VersionChange::Patch), VersionChange::Minor));
/// assert_eq!(comparison.needed_version.unwrap().to_string(), "1.3.0");
/// ```
pub fn compare(old: &Contract, new: &Contract) -> Comparison {
    let (mut list, mut budget) = (FindingList::default(), WorkBudget::default());
    compare_identity(old, new, &mut list);
    let inputs = (old.inputs.as_ref(), new.inputs.as_ref());
    schema::compare(inputs, Direction::Inputs, "/inputs", &mut budget, &mut list);
    let outputs = (old.outputs.as_ref(), new.outputs.as_ref());
    schema::compare(outputs, Direction::Outputs, "/outputs", &mut budget, &mut list);
    compare_entrypoints(old, new, &mut list);
    host_requirements::compare_permissions(old, new, &mut list);
    host_requirements::compare_settings(&old.config, &new.config, &mut list);
    host_requirements::compare_dependencies(&old.dependencies, &new.dependencies, &mut list);
    facts::compare(old, new, &mut list);
    tools::compare(old, new, &mut budget, &mut list);
    compare_resources(old, new, &mut list);
    compare_host_needs(old, new, &mut list);
    compare_rest(old, new, &mut list);
    finish(old, new, list)
}

fn finish(old: &Contract, new: &Contract, list: FindingList) -> Comparison {
    let changes = [
        (Change::Major, VersionChange::Major),
        (Change::Minor, VersionChange::Minor),
        (Change::Patch, VersionChange::Patch),
    ];
    let largest = changes.into_iter().find(|(change, _)| list.count(*change) > 0);
    let required = largest.map_or(VersionChange::None, |(_, required)| required);
    let unknown = list.count(Change::Unknown);
    let (findings, left_out) = list.finish();
    let (old, new) = (stated_version(old), stated_version(new));
    Comparison {
        findings,
        left_out,
        unknown,
        required,
        declared: old.zip(new).map(|(old, new)| VersionChange::between(old, new)),
        needed_version: old.and_then(|old| version::needed_version(old, required)),
    }
}

/// The version of a contract that has one.
fn stated_version(contract: &Contract) -> Option<&Version> {
    contract.version.as_ref().filter(|version| **version != Version::new(0, 0, 0))
}

fn compare_identity(old: &Contract, new: &Contract, list: &mut FindingList) {
    if let (Some(old), Some(new)) = (&old.name, &new.name)
        && old != new
    {
        list.add("/name", Change::Major, format!("the skill is called `{new}`; it was `{old}`"));
    }
    let descriptions = (&old.description, &new.description);
    list.add_if_changed("/description", descriptions, Change::Patch, "the description is different");
    list.add_if_changed(
        "/format",
        (&old.format, &new.format),
        Change::Patch,
        "the format of the file is different",
    );
}

/// The scripts, by the names that callers use.
fn compare_entrypoints(old: &Contract, new: &Contract, list: &mut FindingList) {
    match (old.main_entrypoint(), new.main_entrypoint()) {
        (Some(_), None) => {
            let message = "cannot tell what runs: no main script is named any more";
            list.add("/entrypoint", Change::Unknown, message);
        }
        (None, Some(_)) => list.add("/entrypoint", Change::Minor, "the main script is named"),
        (old, new) => {
            let message = "the main script is another file or function";
            list.add_if_changed(
                "/entrypoint",
                (&old.map(Entrypoint::target), &new.map(Entrypoint::target)),
                Change::Patch,
                message,
            );
        }
    }
    if let (Some(one), Some(other)) = (old.main_entrypoint(), new.main_entrypoint()) {
        compare_languages("/entrypoint", (one, other), new, list);
    }
    list.add_if_changed("/runtime", (&old.runtime, &new.runtime), Change::Patch, "the runtime is different");
    for NamedPair { name, old: one, new: other } in
        named_pairs(&old.entrypoints, &new.entrypoints, |(name, _)| name)
    {
        let at = pointer("/entrypoints", name);
        // `main` names the main script, too.
        match (one, other) {
            (None, Some(_)) if old.entrypoint_by_name(name).is_none() => {
                list.add(at, Change::Minor, format!("the script `{name}` is new"));
            }
            (Some(_), None) if new.entrypoint_by_name(name).is_none() => {
                list.add(at, Change::Major, format!("the script `{name}` is gone"));
            }
            (Some((_, one)), Some((_, other))) => {
                let message = format!("the script `{name}` is another file or function");
                list.add_if_changed(&at, (&one.target(), &other.target()), Change::Patch, &message);
                compare_languages(&at, (one, other), new, list);
            }
            _ => {}
        }
    }
}

/// A script in another language may request all that is granted, unless the contract lists what it requests.
fn compare_languages(
    at: &str,
    (old, new): (&Entrypoint, &Entrypoint),
    of: &Contract,
    list: &mut FindingList,
) {
    let extension =
        |script: &Entrypoint| script.path.rsplit_once('.').map(|(_, extension)| extension.to_owned());
    let is_other = extension(old) != extension(new) || old.runtime != new.runtime;
    if is_other && of.permissions.is_none() {
        let message = "cannot tell what the script requests in another language: list `permissions`";
        list.add(at, Change::Unknown, message);
    }
}

fn compare_resources(old: &Contract, new: &Contract, list: &mut FindingList) {
    for NamedPair { name, old, new } in
        named_pairs(&old.resources, &new.resources, |resource| resource.uri.as_str())
    {
        let at = pointer("/resources", name);
        match (old, new) {
            (None, _) => list.add(at, Change::Minor, format!("the resource `{name}` is new")),
            (_, None) => list.add(at, Change::Major, format!("the resource `{name}` is gone")),
            (Some(old), Some(new)) if old.mime_type != new.mime_type => {
                list.add(
                    pointer(&at, "mime_type"),
                    Change::Minor,
                    format!("the type of `{name}` is different"),
                );
            }
            (Some(old), Some(new)) => {
                let rest = (
                    &(&old.name, &old.description, &old.source),
                    &(&new.name, &new.description, &new.source),
                );
                list.add_if_changed(
                    &at,
                    rest,
                    Change::Patch,
                    &format!("`{name}` is described or read differently"),
                );
            }
        }
    }
    for NamedPair { name, old, new } in named_pairs(&old.forms, &new.forms, |form| &form.name) {
        let at = pointer("/forms", name);
        match (old, new) {
            (None, _) => list.add(at, Change::Minor, format!("the form `{name}` is new")),
            (_, None) => list.add(at, Change::Minor, format!("the form `{name}` is gone")),
            (old, new) => {
                list.add_if_changed(
                    &at,
                    (&old, &new),
                    Change::Patch,
                    &format!("the form `{name}` is different"),
                );
            }
        }
    }
    let attachments = (&old.attachments, &new.attachments);
    list.add_if_changed("/attachments", attachments, Change::Patch, "the attachments are others");
}

fn compare_host_needs(old: &Contract, new: &Contract, list: &mut FindingList) {
    let (old, new) = (&old.host_needs, &new.host_needs);
    let lists = [
        ("/host_needs/capabilities", "the capability", &old.capabilities, &new.capabilities),
        ("/host_needs/secrets", "the secret", &old.secrets, &new.secrets),
        ("/host_needs/timestamps", "a point in time in", &old.timestamps, &new.timestamps),
    ];
    for (place, what, old, new) in lists {
        for NamedPair { name, old, new } in named_pairs(old, new, |name| name) {
            match (old, new) {
                (None, _) => {
                    list.add(pointer(place, name), Change::Major, format!("{what} `{name}` is needed"));
                }
                (_, None) => {
                    list.add(
                        pointer(place, name),
                        Change::Minor,
                        format!("{what} `{name}` is no longer needed"),
                    );
                }
                _ => {}
            }
        }
    }
    let enrichments = (&old.enrichment, &new.enrichment);
    let message = "the host adds something else to the input";
    list.add_if_changed("/host_needs/enrichment", enrichments, Change::Minor, message);
    let descriptions = (&old.output_descriptions, &new.output_descriptions);
    let message = "the output is described differently";
    list.add_if_changed("/host_needs/output_descriptions", descriptions, Change::Patch, message);
}

/// What no caller relies on, or nothing here can judge.
fn compare_rest<'c>(old: &'c Contract, new: &'c Contract, list: &mut FindingList) {
    match (&old.persona, &new.persona) {
        (None, Some(_)) => list.add("/persona", Change::Minor, "it can be activated now"),
        (Some(_), None) => list.add("/persona", Change::Major, "it can no longer be activated"),
        (old, new) => {
            list.add_if_changed("/persona", (old, new), Change::Patch, "what a model becomes is different");
        }
    }
    match (&old.mcp, &new.mcp) {
        (None, Some(_)) => list.add("/mcp", Change::Minor, "it brings a server"),
        (Some(_), None) => list.add("/mcp", Change::Major, "it brings no server any more"),
        (old, new) => {
            let message = "cannot tell which tools the server has, which is reached in another way";
            list.add_if_changed("/mcp", (old, new), Change::Unknown, message);
        }
    }
    let states = (&old.state, &new.state);
    list.add_if_changed("/state", states, Change::Minor, "it writes in other places of its folder");
    list.add_if_changed(
        "/steps",
        (&old.steps, &new.steps),
        Change::Patch,
        "its steps are written in another form",
    );
    list.add_if_changed(
        "/base_url",
        (&old.base_url, &new.base_url),
        Change::Patch,
        "its calls go to another address",
    );
    let examples = |contract: &'c Contract| contract.examples.iter().map(Example::call).collect::<Vec<_>>();
    let examples = (&examples(old), &examples(new));
    list.add_if_changed("/examples", examples, Change::Patch, "the examples are different");
    let publications = (&old.publication, &new.publication);
    list.add_if_changed("/publication", publications, Change::Patch, "the facts of catalogs are different");
    list.add_if_changed(
        "",
        (&old.unknown, &new.unknown),
        Change::Patch,
        "keys without a meaning are different",
    );
}
