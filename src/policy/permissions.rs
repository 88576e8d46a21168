//! What a run may do: what the skill asks for, held against what the caller grants.

use std::fmt;

use super::permission::{Need, Permission};
use super::protected::{Protection, within};
use crate::error::{ErrorKind, Result, SkillError};

/// What a skill asks for. Reading the project is always asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// An external script in a skill that names no permission of ours: the caller's grants alone decide.
    Everything,
    /// These, and reading the project.
    These(Vec<Permission>),
}

/// The permissions of one run: a need is allowed when the skill asked for it *and* the caller granted it. Where skills called
/// one another to get here, each of them must have asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// The skill the caller invoked first; the names are known once one calls another.
    askers: Vec<Asker>,
    granted: Vec<Permission>,
    protection: Protection,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Asker {
    skill: String,
    asked: Asked,
    /// The file in which it lists what it asks for, and the key.
    list: (&'static str, &'static str),
}

/// Where skills list what they ask for, as long as no contract does.
const ALLOWED_TOOLS: (&str, &str) = ("SKILL.md", "allowed-tools");

impl Permissions {
    /// Holds what was asked against what was granted; reading the project is in both.
    pub fn new(asked: Asked, granted: impl IntoIterator<Item = Permission>, protection: Protection) -> Self {
        let only = Asker { skill: String::new(), asked, list: ALLOWED_TOOLS };
        Self { askers: vec![only], granted: granted.into_iter().collect(), protection }
    }

    /// What another skill may do when `caller`, whose permissions these are, runs it: what it asks, and no more than its caller
    /// may.
    pub fn handed_on(&self, caller: &str, to: &str, asked: Asked) -> Self {
        let mut narrowed = self.clone();
        if let Some(last) = narrowed.askers.last_mut() {
            caller.clone_into(&mut last.skill);
        }
        narrowed.askers.push(Asker { skill: to.to_owned(), asked, list: ALLOWED_TOOLS });
        narrowed
    }

    /// The same for a skill that lists what it asks for under `permissions` in this file, so that refusals say so.
    pub fn listed_in(mut self, contract: &'static str) -> Self {
        if let Some(last) = self.askers.last_mut() {
            last.list = (contract, "permissions");
        }
        self
    }

    /// Reading the project and nothing else.
    pub fn read_only() -> Self {
        Self::new(Asked::These(Vec::new()), [], Protection::default())
    }

    /// These permissions without the grants that name nothing, such as plain `net`: for what must be granted by its name.
    pub fn by_name(&self) -> Self {
        let granted = self.granted.iter().filter(|permission| permission.is_scoped()).cloned().collect();
        Self { granted, ..self.clone() }
    }

    /// These permissions where another path is protected, for what it is: reading it as well, or changing it alone.
    pub(crate) fn protecting(&self, path: &str, guards_read: bool) -> Self {
        let mut narrowed = self.clone();
        narrowed.protection = narrowed.protection.with_found(path, guards_read);
        narrowed
    }

    /// Whether the run may do this.
    pub fn allows(&self, need: &Need) -> bool {
        self.askers.iter().all(|asker| self.is_asked(asker, need)) && self.is_granted(need)
    }

    /// Refuses with a sentence that starts with `attempt` (`failed to write out/a.txt`) and names the way out.
    pub fn require(&self, need: &Need, attempt: impl fmt::Display) -> Result<()> {
        if self.allows(need) {
            return Ok(());
        }
        let way_out = self.way_out(need);
        Err(SkillError::new(ErrorKind::Denied, format!("{attempt}: not permitted; {way_out}"))
            .with_help(way_out))
    }

    /// Who has to say the missing word, and where.
    fn way_out(&self, need: &Need) -> String {
        let permission = need.remedy(&self.protection);
        let silent = self.askers.iter().filter(|asker| !self.is_asked(asker, need));
        let lists = self.lists(silent);
        let list = format!("list {permission} {lists}");
        let run = format!("run with --allow {permission}");
        match (lists.is_empty(), self.is_granted(need)) {
            (true, _) => run,
            (false, true) => list,
            (false, false) => format!("{list} and {run}"),
        }
    }

    /// `under allowed-tools in the SKILL.md of x and the SKILL.md of y`
    fn lists<'a>(&self, askers: impl Iterator<Item = &'a Asker>) -> String {
        let mut last = None;
        let place = |asker: &Asker| {
            let (file, key) = asker.list;
            let under =
                if last.replace(key) == Some(key) { String::new() } else { format!("under {key} in ") };
            match self.askers.len() {
                1 => format!("{under}{file}"),
                _ => format!("{under}the {file} of {}", asker.skill),
            }
        };
        askers.map(place).collect::<Vec<_>>().join(" and ")
    }

    /// Whether the caller granted this, whatever the skill asks.
    pub fn grants(&self, need: &Need) -> bool {
        self.is_granted(need)
    }

    /// Whether the run can do nothing but read: no permission that leads to more is both granted and asked, whatever its scope,
    /// and none that a grant alone gives.
    pub fn only_reads(&self) -> bool {
        let may_be_asked = |granted: &Permission| {
            self.askers.iter().all(|asker| match &asker.asked {
                Asked::Everything => true,
                Asked::These(asked) => asked.iter().any(|permission| permission.is_alike(granted)),
            })
        };
        !self.granted.iter().any(|permission| {
            permission.counts_unasked() || permission.does_more_than_read() && may_be_asked(permission)
        })
    }

    /// What the run may do: what was granted and every skill asked for, or what those asked for and the grants cover, sorted.
    pub fn held(&self) -> Vec<Permission> {
        let asked = self.askers.iter().flat_map(|asker| match &asker.asked {
            Asked::Everything => &[],
            Asked::These(asked) => asked.as_slice(),
        });
        let mut held: Vec<Permission> =
            [Permission::READ].iter().chain(&self.granted).chain(asked).cloned().collect();
        held.retain(|permission| self.allows(&permission.own_need()));
        held.sort_unstable();
        held.dedup();
        held
    }

    /// The paths below which the run may write, relative to the project; the project itself is empty. Protected paths lie
    /// below some of them all the same.
    pub fn writable(&self) -> Vec<String> {
        let granted = self.granted.iter().filter_map(Permission::writes).map(str::to_owned).collect();
        let mut paths: Vec<String> = self.askers.iter().fold(granted, |paths, asker| match &asker.asked {
            Asked::Everything => paths,
            Asked::These(asked) => common(&paths, asked),
        });
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// Which paths need a permission that names them.
    pub fn protection(&self) -> &Protection {
        &self.protection
    }

    fn is_asked(&self, asker: &Asker, need: &Need) -> bool {
        match &asker.asked {
            Asked::Everything => true,
            Asked::These(permissions) => self.any_covers(permissions, need),
        }
    }

    fn is_granted(&self, need: &Need) -> bool {
        self.any_covers(&self.granted, need)
    }

    fn any_covers(&self, permissions: &[Permission], need: &Need) -> bool {
        Permission::READ.covers(need, &self.protection)
            || permissions.iter().any(|permission| permission.covers(need, &self.protection))
    }
}

/// The paths that lie below both: of a folder and one inside it, the inner one.
fn common(paths: &[String], asked: &[Permission]) -> Vec<String> {
    let both = |path: &String, asked: &str| {
        let inner = if within(path, asked) { path.as_str() } else { asked };
        (within(inner, path) && within(inner, asked)).then(|| inner.to_owned())
    };
    let asked: Vec<&str> = asked.iter().filter_map(Permission::writes).collect();
    paths
        .iter()
        .flat_map(|path| asked.iter().filter_map(|asked| both(path, asked)).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(texts: &[&str]) -> Vec<Permission> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn run(asked: &[&str], granted: &[&str]) -> Permissions {
        Permissions::new(Asked::These(parsed(asked)), parsed(granted), Protection::default())
    }

    #[test]
    fn a_need_must_be_asked_and_granted() {
        let write = Need::write("out/a.txt");
        assert!(run(&["write"], &["write:out"]).allows(&write));
        assert!(!run(&["write"], &["write:src"]).allows(&write));
        assert!(run(&[], &[]).allows(&Need::read("src/main.rs")));
        assert!(!run(&["read:.env"], &[]).allows(&Need::read(".env")));
        assert!(run(&["read:.env"], &["read:.env"]).allows(&Need::read(".env")));
    }

    #[test]
    fn what_must_be_named_is_not_opened_by_a_plain_grant() {
        let inside = Need::net("10.0.0.1");
        assert!(run(&["net"], &["net:10.0.0.1"]).by_name().allows(&inside));
        assert!(!run(&["net"], &["net", "net:10.0.0.10"]).by_name().allows(&inside));
        assert!(!run(&["net:example.com"], &["net:10.0.0.1"]).by_name().allows(&inside));
        let refused = run(&["net"], &["net"]).by_name().require(&inside, "failed to reach it").unwrap_err();
        assert_eq!(refused.help(), Some("run with --allow net:10.0.0.1"));
    }

    #[test]
    fn what_may_be_written_is_what_was_asked_and_granted() {
        for (asked, granted, writable) in [
            (&["write"][..], &["write"][..], &[""][..]),
            (&["write"], &["write:out", "write:docs/a"], &["docs/a", "out"]),
            (&["write:out/deep", "write:other"], &["write:out"], &["out/deep"]),
            (&["write:out"], &["write:output"], &[]),
            (&[], &["write"], &[]),
            (&["write"], &["read", "exec"], &[]),
        ] {
            assert_eq!(run(asked, granted).writable(), writable, "{asked:?} {granted:?}");
        }
        let everything = Permissions::new(Asked::Everything, parsed(&["write:a"]), Protection::default());
        assert_eq!(everything.writable(), ["a"]);
        assert_eq!(everything.handed_on("a", "b", Asked::These(parsed(&["write:a/b"]))).writable(), ["a/b"]);
    }

    #[test]
    fn a_run_only_reads_where_nothing_else_is_both_asked_and_granted() {
        for (asked, granted, only_reads) in [
            (&[][..], &[][..], true),
            (&["read", "exec", "wasi"], &["read:.env", "exec", "wasi"], true),
            (&["write"], &[], true),
            (&[], &["write", "net", "tool:x"], true),
            (&[], &["exec:unsandboxed"], false),
            (&["write:a"], &["write:b"], false),
            (&["net:a.example"], &["net"], false),
            (&["tool:x"], &["tool:x"], false),
            (&["skill:x"], &["skill:x"], false),
            (&["secret:x"], &["secret:x"], false),
            (&["sample"], &["sample"], false),
            (&["shm"], &["shm"], false),
            (&["exec:unsandboxed"], &["exec:unsandboxed"], false),
            (&["exec"], &["exec:unsandboxed"], false),
        ] {
            assert_eq!(run(asked, granted).only_reads(), only_reads, "{asked:?} {granted:?}");
        }
        let everything = Permissions::new(Asked::Everything, parsed(&["write"]), Protection::default());
        assert!(!everything.only_reads());
        assert!(everything.handed_on("a", "b", Asked::These(Vec::new())).only_reads());
        assert!(!everything.handed_on("a", "b", Asked::Everything).only_reads());
    }

    #[test]
    fn what_a_run_holds_is_no_more_than_the_narrower_word() {
        for (asked, granted, held) in [
            (&[][..], &[][..], &["read"][..]),
            (&["write"], &["write:out"], &["read", "write:out"]),
            (&["write:out", "tool:a"], &["write", "tool:a", "tool:b"], &["read", "write:out", "tool:a"]),
            (&["net:example.com"], &["net"], &["read", "net:example.com"]),
            (&["net"], &["net:example.com"], &["read", "net:example.com"]),
            (&["read:.env", "sample"], &["read:.env"], &["read", "read:.env"]),
            (&["write"], &["write", "write:.git"], &["read", "write"]),
        ] {
            let held: Vec<Permission> = parsed(held);
            assert_eq!(run(asked, granted).held(), held, "{asked:?} {granted:?}");
        }
    }

    #[test]
    fn a_refusal_names_whose_word_is_missing() {
        let sentence = |asked: &[&str], granted: &[&str]| {
            let refused = run(asked, granted).require(&Need::write("a.txt"), "failed to write a.txt");
            refused.unwrap_err().to_string()
        };
        assert_eq!(sentence(&["write"], &[]), "failed to write a.txt: not permitted; run with --allow write");
        assert_eq!(
            sentence(&[], &["write"]),
            "failed to write a.txt: not permitted; list write under allowed-tools in SKILL.md"
        );
        assert!(sentence(&[], &[]).ends_with("SKILL.md and run with --allow write"));
    }

    #[test]
    fn a_callee_may_what_it_asks_and_every_caller_asked_and_was_granted() {
        let may = |chain: &[&[&str]], granted: &[&str], need: &Need| {
            let first = run(chain[0], granted);
            let last = chain[1..].iter().fold(first, |permissions, asked| {
                permissions.handed_on("caller", "callee", Asked::These(parsed(asked)))
            });
            last.allows(need)
        };
        let write = Need::write("out/a.txt");
        assert!(may(&[&["write"], &["write"], &["write:out"]], &["write"], &write));
        for chain in
            [[&["write"][..], &["write"], &[]], [&["write"], &[], &["write"]], [&[], &["write"], &["write"]]]
        {
            assert!(!may(&chain, &["write"], &write), "{chain:?}");
        }
        assert!(!may(&[&["write"], &["write"]], &[], &write));
        assert!(!may(&[&["write:src"], &["write"]], &["write"], &write));
        assert!(!may(&[&["write"], &["write:.git"]], &["write:.git"], &Need::write(".git/config")));
        let everything = run(&[], &["exec"]).handed_on("x", "y", Asked::Everything);
        assert!(
            !everything.allows(&Need::exec()),
            "a script that asks for everything has what its caller asked"
        );
    }

    #[test]
    fn a_refusal_among_several_skills_names_those_that_do_not_ask() {
        let nested = run(&[], &[]).handed_on("x", "y", Asked::These(parsed(&["write"]))).handed_on(
            "y",
            "z",
            Asked::These(Vec::new()),
        );
        let refused = nested.require(&Need::write("a.txt"), "failed to write a.txt").unwrap_err();
        assert_eq!(
            refused.help(),
            Some(
                "list write under allowed-tools in the SKILL.md of x and the SKILL.md of z and run with --allow write"
            )
        );
    }
}
