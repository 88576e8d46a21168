//! What scripts can do to files, and what they cannot. F-numbers name the cases of the adversarial list they hold.
//!
//! Every case runs twice: with the kernel's own check of whole paths, and component by component as systems without
//! `openat2` do it (F35).
#![cfg(unix)]

mod changing;
mod editor;
mod identity;
mod links;
#[path = "../support/many_names.rs"]
mod many_names;
#[path = "../support/not_run.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod not_run;
mod paths;
mod project;
mod races;
mod reading;
mod searching;
