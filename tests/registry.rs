//! What discovery promises: which skills are found, whose name reaches which, and what is said about the rest.
#![cfg(unix)]
#![allow(missing_docs)]

#[path = "registry/catalog.rs"]
mod catalog;
#[path = "registry/disk.rs"]
mod disk;
#[path = "registry/found.rs"]
mod found;
#[path = "registry/names.rs"]
mod names;
#[path = "registry/project.rs"]
mod project;
#[path = "registry/roots.rs"]
mod roots;
