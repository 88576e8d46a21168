//! Discovery: down the roots, level by level, reading the head of every SKILL.md on the way.

mod manifest_file;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use self::manifest_file::{Found, found_in};
use super::folder::Folder;
use super::problem::Problem;
use super::root::{Root, Roots, Scope};
use super::shipped::{SHIPPED, Shipped};
use super::skill::Skill;
use crate::skill::{Place, parse};

/// Folders deep below a root that skills are looked for.
const DEPTH: usize = 6;
/// Folders one root may have.
const MOST_FOLDERS: usize = 50_000;
/// Folders worth a thread of their own.
const WORTH_A_THREAD: usize = 256;
/// Folders that hold no skills, whoever made them.
const SKIPPED: [&str; 2] = ["node_modules", "target"];

pub(super) fn skills_below(roots: &Roots) -> (Vec<Skill>, Vec<Problem>) {
    let mut scan = Scan::default();
    for (position, root) in roots.iter().enumerate() {
        scan.root(root, position);
    }
    if roots.has_shipped() {
        let position = roots.iter().count();
        scan.skills.extend(SHIPPED.iter().filter_map(|shipped| shipped_skill(shipped, position)));
    }
    (scan.skills, scan.problems)
}

#[derive(Default)]
struct Scan {
    skills: Vec<Skill>,
    problems: Vec<Problem>,
    /// Real paths seen so far: a folder reached twice, through links, counts once, and no link leads in a circle.
    seen: HashSet<PathBuf>,
}

/// What one folder held.
#[derive(Default)]
struct Visited {
    skill: Option<Skill>,
    problems: Vec<Problem>,
    folders: Vec<Ahead>,
}

/// A folder to visit.
struct Ahead {
    path: PathBuf,
    /// Where it really is; known for the folders links lead to, and for those below them by their name.
    real: PathBuf,
}

impl Scan {
    fn root(&mut self, root: &Root, position: usize) {
        let real = match std::fs::canonicalize(&root.place) {
            Ok(real) => real,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => return self.problems.push(Problem::new(&root.place, error.to_string())),
        };
        let mut level = vec![Ahead { path: root.place.clone(), real }];
        let mut folders = 0;
        for _ in 0..=DEPTH {
            level.retain(|folder| self.seen.insert(folder.real.clone()));
            folders += level.len();
            if folders > MOST_FOLDERS {
                let message = format!("has more than {MOST_FOLDERS} folders; the rest was not looked at");
                return self.problems.push(Problem::new(&root.place, message));
            }
            level = self.level(&level, root, position);
            if level.is_empty() {
                return;
            }
        }
        let message = format!("goes deeper than {DEPTH} folders; what lies below was not looked at");
        self.problems.push(Problem::new(&level[0].path, message));
    }

    /// Visits the folders of one level, on several threads when there are many, and answers with the next.
    fn level(&mut self, level: &[Ahead], root: &Root, position: usize) -> Vec<Ahead> {
        let visit = |folder: &Ahead| visited(folder, root, position);
        let threads = available_parallelism().map_or(1, usize::from).min(level.len() / WORTH_A_THREAD).max(1);
        let visited: Vec<Visited> = if threads == 1 {
            level.iter().map(visit).collect()
        } else {
            std::thread::scope(|scope| {
                let parts: Vec<_> = level
                    .chunks(level.len().div_ceil(threads))
                    .map(|part| scope.spawn(move || part.iter().map(visit).collect::<Vec<_>>()))
                    .collect();
                // A panic there is a defect here, and is not hidden.
                parts
                    .into_iter()
                    .flat_map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                    .collect()
            })
        };
        let mut next = Vec::new();
        for folder in visited {
            self.skills.extend(folder.skill);
            self.problems.extend(folder.problems);
            next.extend(folder.folders);
        }
        next
    }
}

fn visited(folder: &Ahead, root: &Root, position: usize) -> Visited {
    let mut visited = Visited::default();
    let entries = match std::fs::read_dir(&folder.path) {
        Ok(entries) => entries,
        Err(error) => {
            visited.problems.push(Problem::new(&folder.path, error.to_string()));
            return visited;
        }
    };
    let mut names = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Ok(kind) = entry.file_type() else { continue };
        let text = name.to_string_lossy();
        if text.eq_ignore_ascii_case("skill.md") {
            names.push(text.into_owned());
        } else if (kind.is_dir() || kind.is_symlink()) && !text.starts_with('.') && !SKIPPED.contains(&&*text)
        {
            let path = folder.path.join(&name);
            let real = if kind.is_dir() { Some(folder.real.join(&name)) } else { linked_folder(&path) };
            visited.folders.extend(real.map(|real| Ahead { path, real }));
        }
    }
    visited.folders.sort_by(|a, b| a.path.cmp(&b.path));
    names.sort();
    if let Some(file) = names.first() {
        match found_in(&folder.path, file) {
            Ok(found) => visited.add(found, folder, root, position),
            Err(problem) => visited.problems.push(problem.skipping()),
        }
    }
    visited
}

/// Where a link leads, when that is a folder.
fn linked_folder(link: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(link).ok().filter(|real| real.is_dir())
}

impl Visited {
    fn add(&mut self, found: Found, folder: &Ahead, root: &Root, position: usize) {
        let Some(manifest) = found.parsed.manifest else {
            let path = folder.path.join(&found.file);
            let blocking = found.parsed.diagnostics.iter().position(|diagnostic| diagnostic.blocks);
            let mut diagnostics = found.parsed.diagnostics;
            diagnostics.rotate_left(blocking.unwrap_or_default());
            let message = diagnostics.first().map_or("does not load", |first| &first.message).to_owned();
            return self.problems.push(Problem { path, message, diagnostics, skipped: true });
        };
        self.skill = Some(Skill {
            manifest,
            diagnostics: found.parsed.diagnostics,
            scope: root.scope,
            root: position,
            label: root.label.clone(),
            folder: Folder::Disk(folder.real.clone()),
            file: found.file,
            shadowed_by: None,
        });
    }
}

fn shipped_skill(shipped: &'static Shipped, position: usize) -> Option<Skill> {
    let file = "SKILL.md";
    let parsed = parse(shipped.file(file)?, Place { directory: shipped.name, file });
    Some(Skill {
        manifest: parsed.manifest?,
        diagnostics: parsed.diagnostics,
        scope: Scope::Shipped,
        root: position,
        label: "metier".into(),
        folder: Folder::Shipped(shipped),
        file: file.into(),
        shadowed_by: None,
    })
}
