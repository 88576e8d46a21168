//! What a contract says about runs: limits, risk, and whether a call may be repeated.

use super::finding::{Change, FindingList, pointer};
use crate::contract::{Contract, ContractLimits, ContractMetadata, Sensitivity};

pub(super) fn compare(old: &Contract, new: &Contract, list: &mut FindingList) {
    compare_limits(&old.limits, &new.limits, list);
    compare_metadata(&old.metadata, &new.metadata, list);
    if old.sensitivity != new.sensitivity {
        let (change, message) = match new.sensitivity {
            Sensitivity::Elevated => (Change::Major, "a person must agree to each call of a model now"),
            Sensitivity::Normal => (Change::Minor, "a model may call it without a person now"),
        };
        list.add("/sensitivity", change, message);
    }
    let message = "what a model reads of a run is changed in another way";
    list.add_if_changed("/sanitize", (&old.sanitize, &new.sanitize), Change::Minor, message);
}

/// A limit that became lower, or is new, may end runs that did not end before; nothing here says how much they take.
pub(super) fn compare_limit<T: PartialOrd>(
    at: &str,
    (old, new): (Option<T>, Option<T>),
    list: &mut FindingList,
) {
    let is_lower = match (&old, &new) {
        (Some(old), Some(new)) => new < old,
        (None, Some(_)) => true,
        _ => false,
    };
    if is_lower {
        list.add(at, Change::Unknown, "cannot tell whether runs reach the limit, which is lower or new");
    } else if old != new {
        list.add(at, Change::Minor, "the limit is higher or gone");
    }
}

/// A risk that became higher is allowed anew by whoever allowed the old one.
pub(super) fn compare_risk(at: &str, (old, new): (Option<u8>, Option<u8>), list: &mut FindingList) {
    match (old, new) {
        (Some(old), Some(new)) if new > old => list.add(at, Change::Major, "the risk is higher"),
        (Some(old), Some(new)) if new < old => list.add(at, Change::Minor, "the risk is lower"),
        (Some(_), None) => list.add(at, Change::Unknown, "cannot tell: no risk is stated any more"),
        (None, Some(_)) => list.add(at, Change::Unknown, "cannot tell: a risk is stated, and none was"),
        _ => {}
    }
}

fn compare_limits(old: &ContractLimits, new: &ContractLimits, list: &mut FindingList) {
    compare_limit("/limits/timeout", (old.timeout, new.timeout), list);
    compare_limit("/limits/memory", (old.memory, new.memory), list);
    compare_limit("/limits/operations", (old.operations, new.operations), list);
    compare_limit("/limits/output", (old.output, new.output), list);
}

fn compare_metadata(old: &ContractMetadata, new: &ContractMetadata, list: &mut FindingList) {
    let at = |key: &str| pointer("/metadata", key);
    compare_risk(&at("risk_level"), (old.risk_score, new.risk_score), list);
    match (old.idempotent == Some(true), new.idempotent == Some(true)) {
        (true, false) => {
            list.add(
                at("idempotent"),
                Change::Major,
                "a call may no longer be repeated without further effects",
            );
        }
        (false, true) => {
            list.add(at("idempotent"), Change::Minor, "a call may be repeated without further effects");
        }
        _ => {}
    }
    match (old.cacheable == Some(true), new.cacheable == Some(true)) {
        (false, true) => list.add(at("cacheable"), Change::Minor, "a value may be used again"),
        (true, false) => list.add(at("cacheable"), Change::Patch, "a value is no longer used again"),
        _ => {}
    }
    list.add_if_changed(&at("cost"), (&old.cost, &new.cost), Change::Minor, "the stated cost is different");
    let durations = (&old.estimated_duration, &new.estimated_duration);
    list.add_if_changed(
        &at("estimated_duration"),
        durations,
        Change::Patch,
        "the stated duration is different",
    );
    let message = "the time for which a value may be used again is different";
    list.add_if_changed(&at("cache_ttl"), (&old.cache_ttl, &new.cache_ttl), Change::Patch, message);
    let sizes = (&old.max_result_size, &new.max_result_size);
    list.add_if_changed(
        &at("max_result_size"),
        sizes,
        Change::Patch,
        "the size of whole results is different",
    );
    list.add_if_changed(
        "/metadata",
        (&old.unknown, &new.unknown),
        Change::Patch,
        "other facts are different",
    );
}
