//! One look into one folder: the skill it is, and the folders it holds.

use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

use super::beside::{self, Beside};
use super::door::{Kind, Opened};
use super::head;
use super::problem::Problem;
use crate::error::{Result, SkillError};
use crate::skill::contract::CONTRACT_FILES;
use crate::skill::{Loaded, Place, Severity, load};

/// Names one folder may hold; the rest is not looked at.
const MOST_NAMES: usize = 100_000;

/// What the file may be called; the first one there counts.
const SPELLINGS: [&str; 3] = ["SKILL.md", "skill.md", "Skill.md"];
/// Folders that hold other people's files; those with a dot are passed over as well.
const PASSED_OVER: [&str; 2] = ["node_modules", "target"];

/// A folder to look into.
#[derive(Debug)]
pub(super) struct Spot {
    /// As it was reached.
    pub(super) path: PathBuf,
    /// As it is without links on the way; where it is a link itself, that is still to be found out.
    pub(super) real: PathBuf,
    pub(super) is_link: bool,
}

/// What a look found.
#[derive(Default)]
pub(super) struct Looked {
    pub(super) text: Option<Text>,
    pub(super) folders: Vec<Spot>,
    pub(super) names: usize,
    pub(super) problems: Vec<Problem>,
}

/// A `SKILL.md` as far as its head goes, or why it could not be read.
pub(super) struct Text {
    pub(super) file: &'static str,
    pub(super) parsed: Result<Loaded>,
    pub(super) beside: Option<Beside>,
}

/// Looks into a folder. Nothing that is wrong with it or below it is a failure.
pub(super) fn look(spot: &Spot) -> Looked {
    let mut looked = Looked::default();
    let opened = Opened::at(&spot.path);
    if let Err(error) = opened.and_then(|folder| looked.inside(folder, spot)) {
        looked.problems.extend(unreadable(spot, error));
    }
    looked
}

impl Looked {
    fn inside(&mut self, mut folder: Opened, spot: &Spot) -> io::Result<()> {
        let (mut file, mut contracts) = (None, [false; CONTRACT_FILES.len()]);
        let mut misnamed = None;
        folder.names(&mut |name, kind| {
            self.names += 1;
            if self.names > MOST_NAMES {
                let message = format!("it holds more than {MOST_NAMES} names; the rest was not looked at");
                self.problems.push(Problem::skipped(&spot.path, Severity::Warning, message));
                return ControlFlow::Break(());
            }
            let spelling = SPELLINGS.iter().position(|known| name == *known);
            if spelling.is_some() {
                file = file.min(spelling).or(spelling);
            } else if let Some(at) = CONTRACT_FILES.iter().position(|known| name == *known) {
                contracts[at] = true;
            } else if CONTRACT_FILES.iter().any(|known| name.eq_ignore_ascii_case(known)) {
                misnamed = misnamed.take().or_else(|| Some(spot.path.join(name)));
            } else if kind != Kind::Other && !is_passed_over(name) {
                let (path, real) = (spot.path.join(name), spot.real.join(name));
                self.folders.push(Spot { path, real, is_link: kind == Kind::Link });
            }
            ControlFlow::Continue(())
        })?;
        self.folders.sort_unstable_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
        self.problems.extend(misnamed.filter(|_| file.is_some()).map(not_the_contract));
        self.text = file.map(|spelling| read(&folder, spot, SPELLINGS[spelling], contracts));
        Ok(())
    }
}

fn read(folder: &Opened, spot: &Spot, file: &'static str, contracts: [bool; CONTRACT_FILES.len()]) -> Text {
    let directory = spot.path.file_name().unwrap_or_default().to_string_lossy();
    let head = folder.file(file).and_then(head::read);
    let parsed = head.map(|head| load(&head, Place { directory: &directory, file }));
    let manifest = parsed.as_ref().ok().and_then(|loaded| loaded.manifest.as_ref());
    let beside = manifest.and_then(|manifest| beside::on_disk(folder, contracts, manifest));
    Text { file, parsed: parsed.map_err(|error| SkillError::io("it cannot be read", error)), beside }
}

/// Its skill runs, and by no contract.
fn not_the_contract(path: PathBuf) -> Problem {
    let [known, _] = CONTRACT_FILES;
    Problem::noted(path, Severity::Warning, format!("it is not read: a contract is called {known}"))
        .with_help(format!("rename it to {known}"))
}

fn is_passed_over(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".") || PASSED_OVER.iter().any(|passed| name == *passed)
}

fn unreadable(spot: &Spot, error: io::Error) -> Option<Problem> {
    // A link to a file holds no skills, and that is nobody's fault.
    if spot.is_link && error.kind() == io::ErrorKind::NotADirectory {
        return None;
    }
    let message = SkillError::io("failed to look for skills", error).to_string();
    Some(Problem::skipped(&spot.path, Severity::Warning, message))
}
