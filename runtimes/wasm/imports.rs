//! What a module may import: Extism's functions, the host API, WASI where it is permitted, and nothing else.

use extism::ValType;

use super::kernel::{ENV, KernelFunction, REPLACED};
use crate::error::{ErrorKind, SkillError};
use crate::host::{HostFunction, functions};

pub(super) const ENV_NAMESPACE: &str = "extism:host/env";
pub(super) const USER_NAMESPACE: &str = "extism:host/user";
pub(super) const WASI_NAMESPACE: &str = "wasi_snapshot_preview1";

/// Parameters a host function may have here.
pub(super) const MOST_PARAMS: usize = 8;

/// A function for a module to import.
#[derive(Clone)]
pub(super) struct Import {
    pub(super) namespace: &'static str,
    pub(super) name: &'static str,
    pub(super) body: Body,
    /// Optional parameters it goes without: a function may have more of them than when the plug-in was compiled.
    left_out: usize,
}

#[derive(Clone, Copy)]
pub(super) enum Body {
    /// One of Extism's, or one of WASI's that we answer in its place.
    Kernel(&'static KernelFunction),
    /// A row of the host's table.
    Host(&'static HostFunction),
}

impl Import {
    /// What the import of that name is, or the sentence that nothing offers it.
    pub(super) fn of(namespace: &str, name: &str) -> Result<Self, SkillError> {
        let mut offers = offers(namespace);
        if offers.is_empty() {
            let sentence = format!("nothing offers the import {namespace:?} {name:?}");
            let help = format!("functions are imported from {ENV_NAMESPACE} and {USER_NAMESPACE}");
            return Err(SkillError::new(ErrorKind::InvalidSkill, sentence).with_help(help));
        }
        match offers.iter().position(|offer| offer.name == name) {
            Some(at) => Ok(offers.swap_remove(at)),
            None => Err(unknown(namespace, name, &offers)),
        }
    }

    /// One of Extism's, under a namespace of its own.
    pub(super) fn kernel(namespace: &'static str, function: &'static KernelFunction) -> Self {
        Self { namespace, name: function.name, body: Body::Kernel(function), left_out: 0 }
    }

    /// The import with so many parameters, where those that are left out are optional.
    pub(super) fn with_params(self, count: usize) -> Option<Self> {
        let (all, required) = match self.body {
            Body::Kernel(function) => (function.params.len(), function.params.len()),
            Body::Host(function) => {
                let required = function.params.iter().filter(|param| param.required).count();
                (function.params.len(), required)
            }
        };
        (required..=all).contains(&count).then(|| Self { left_out: all - count, ..self })
    }

    pub(super) fn params(&self) -> Vec<ValType> {
        match self.body {
            Body::Kernel(function) => function.params.to_vec(),
            Body::Host(function) => vec![ValType::I64; function.params.len() - self.left_out],
        }
    }

    pub(super) fn results(&self) -> Vec<ValType> {
        match self.body {
            Body::Kernel(function) => function.result.into_iter().cloned().collect(),
            Body::Host(_) => vec![ValType::I64],
        }
    }
}

/// The functions of WASI that are answered here: there are no files to read and write, and nothing may wait past a deadline.
pub(super) fn replaced() -> impl Iterator<Item = Import> {
    kernel(WASI_NAMESPACE, REPLACED)
}

fn offers(namespace: &str) -> Vec<Import> {
    match namespace {
        ENV_NAMESPACE => kernel(ENV_NAMESPACE, ENV).collect(),
        USER_NAMESPACE => functions().iter().flat_map(|function| host(function)).collect(),
        _ => Vec::new(),
    }
}

fn kernel(namespace: &'static str, table: &'static [KernelFunction]) -> impl Iterator<Item = Import> {
    table.iter().map(move |function| Import::kernel(namespace, function))
}

fn host(function: &'static HostFunction) -> impl Iterator<Item = Import> {
    let names = std::iter::once(&function.name).chain(function.aliases);
    names.map(move |name| Import { namespace: USER_NAMESPACE, name, body: Body::Host(function), left_out: 0 })
}

fn unknown(namespace: &str, name: &str, offers: &[Import]) -> SkillError {
    let sentence = format!("nothing offers the import {name:?} of {namespace}");
    let error = SkillError::new(ErrorKind::InvalidSkill, sentence);
    let likeness = |offer: &Import| strsim::jaro_winkler(offer.name, name);
    let nearest = offers.iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    match nearest.filter(|offer| likeness(offer) > 0.8) {
        Some(offer) => error.with_help(format!("did you mean `{}`?", offer.name)),
        None => error.with_help("`metier api` lists the functions of the host"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_function_has_more_parameters_than_a_call_carries() {
        let all = offers(USER_NAMESPACE).into_iter().chain(offers(ENV_NAMESPACE)).chain(replaced());
        for import in all {
            assert!(import.params().len() <= MOST_PARAMS, "{}", import.name);
        }
    }

    #[test]
    fn aliases_are_offered_and_near_misses_named() {
        assert!(Import::of(USER_NAMESPACE, "vfs_read_file").is_ok());
        assert!(Import::of(USER_NAMESPACE, "host_log").is_ok());
        let error = Import::of(USER_NAMESPACE, "read_fil").err().unwrap();
        assert_eq!(error.help(), Some("did you mean `read_file`?"));
        assert_eq!(Import::of("env", "abort").err().unwrap().kind(), ErrorKind::InvalidSkill);
    }
}
