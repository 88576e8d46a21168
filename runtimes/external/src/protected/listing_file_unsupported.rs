//! Where no script is started in a sandbox, no folder is looked at, and nothing is remembered.

use std::path::Path;
use std::sync::Arc;

use crate::protected::listing::Listing;
use metier_core::policy::PathProtection;

pub(super) fn load(_: &Path, _: &PathProtection) -> Option<Vec<(String, Arc<Listing>)>> {
    None
}

pub(super) fn save<'l>(_: &Path, _: &PathProtection, _: impl Iterator<Item = (&'l str, &'l Listing)>) {}
