//! What skills keep from one run to the next: the permission `state`, its bounds, values under keys, and `metier state`.

mod attacks;
mod command;
mod crashes;
mod home;
mod home_write;
mod keeping;
mod leftovers;
mod limits;
mod own_folder;
mod private_home;
mod values;

use std::path::PathBuf;

use crate::support::cli::{Answer, Project};

/// The levels of the sandbox in which each promise is tried.
const LEVELS: [&str; 2] = ["namespaces", "landlock"];

/// A script that adds its argument to a list in its home, and prints the list.
const ADD: &str = "echo \"$1\" >> \"$HOME/list\"; cat \"$HOME/list\"";

/// Runs `metier` at this level of the sandbox.
fn metier_at(project: &Project, level: &str, args: &[&str]) -> Answer {
    project.command(args).env("METIER_SANDBOX_LEVEL", level).output().unwrap().into()
}

/// Where the skills of the project's user keep their state.
fn store(project: &Project) -> PathBuf {
    project.home().join(".local/share/metier/skill-state")
}

/// The only folder with the state of a skill.
fn only_state(project: &Project) -> PathBuf {
    let only = |folder: PathBuf| {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries.remove(0)
    };
    only(only(store(project)))
}
