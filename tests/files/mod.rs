//! What scripts can do to files, and what they cannot. F-numbers name the cases of the adversarial list they hold.
//!
//! Every case runs twice: with the kernel's own check of whole paths, and component by component as systems without
//! `openat2` do it (F35).

mod changing;
mod editor;
mod identity;
mod links;
mod paths;
mod project;
mod races;
mod reading;
mod searching;
