//! Packages: prepared from the registries of the user by the real package managers, and then found by scripts without a network.
//!
//! The registries are small servers on loopback with packages that are made here. Every attack leaves no mark.

mod added;
mod archives;
mod attacks;
mod availability;
mod child_processes;
mod environments;
mod fixture;
mod npm;
mod python;
mod refusals;
mod registries;
mod registry;
mod runs_for_a_model;
mod store;
