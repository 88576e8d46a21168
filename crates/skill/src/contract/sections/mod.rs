//! The readers of a contract, one file for each section of `skill.yaml`.

pub(super) mod config;
pub(super) mod dependencies;
pub(super) mod entrypoints;
pub(super) mod examples;
pub(super) mod forms;
pub(super) mod http;
pub(super) mod limits;
pub(super) mod metadata;
pub(super) mod permissions;
pub(super) mod resource_uri;
pub(super) mod resources;
pub(super) mod state;
pub(super) mod tools;
