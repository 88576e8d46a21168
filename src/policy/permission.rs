//! One permission, `name` or `name:scope`, and the need it answers.

mod reading;

use std::fmt;

use super::protected::{Protection, within};

/// A permission a skill asks for or a caller grants, such as `read`, `write:out` or `tool:search`.
///
/// Names are compared whole; `rewrite` is not `write`. Path scopes are relative to the project and cover what lies below.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Permission {
    word: Word,
    scope: Option<String>,
}

/// What one call is about to do, to be held against the permissions of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    word: Word,
    target: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Word {
    Read,
    Write,
    Exec,
    Net,
    Tool,
    Skill,
    Secret,
    Sample,
    Shm,
    Wasi,
}

/// What may follow the colon.
#[derive(Clone, Copy)]
enum Rule {
    Nothing,
    MaybePath,
    MaybeHost,
    MaybeUnsandboxed,
    Name,
}

/// Word, spelling, rule for the scope; in the order of the enum.
const WORDS: [(Word, &str, Rule); 10] = [
    (Word::Read, "read", Rule::MaybePath),
    (Word::Write, "write", Rule::MaybePath),
    (Word::Exec, "exec", Rule::MaybeUnsandboxed),
    (Word::Net, "net", Rule::MaybeHost),
    (Word::Tool, "tool", Rule::Name),
    (Word::Skill, "skill", Rule::Name),
    (Word::Secret, "secret", Rule::Name),
    (Word::Sample, "sample", Rule::Nothing),
    (Word::Shm, "shm", Rule::Nothing),
    (Word::Wasi, "wasi", Rule::Nothing),
];

/// Names other clients use in `allowed-tools` that plainly mean one of ours.
const FOREIGN: [(&str, Word); 9] = [
    ("Read", Word::Read),
    ("Grep", Word::Read),
    ("Glob", Word::Read),
    ("LS", Word::Read),
    ("Write", Word::Write),
    ("Edit", Word::Write),
    ("MultiEdit", Word::Write),
    ("Bash", Word::Exec),
    ("WebFetch", Word::Net),
];

const UNSANDBOXED: &str = "unsandboxed";

impl Permission {
    /// Reading the project, protected paths excepted: what every skill has.
    pub const READ: Self = Self { word: Word::Read, scope: None };
    /// Changing files of the project, protected paths excepted.
    pub const WRITE: Self = Self { word: Word::Write, scope: None };
    /// Being run as a process: skills may ask for it, and nothing needs it, since processes run in a cage. What leads out of
    /// the cage is `exec:unsandboxed`.
    pub const EXEC: Self = Self { word: Word::Exec, scope: None };

    /// Calling the embedder's tool of that name, where it can be one.
    pub fn tool(name: &str) -> Option<Self> {
        (!name.is_empty()).then(|| Self { word: Word::Tool, scope: Some(name.to_owned()) })
    }

    /// The permission another client's tool name plainly means (`Bash(git:*)` is `exec`), or nothing.
    pub fn from_foreign(tool: &str) -> Option<Self> {
        let name = tool.split('(').next().unwrap_or(tool).trim();
        let (_, word) = FOREIGN.into_iter().find(|(known, _)| *known == name)?;
        Some(Self { word, scope: None })
    }

    /// Whether the permission names what it covers, as `net:example.com` does and `net` does not.
    pub fn is_scoped(&self) -> bool {
        self.scope.is_some()
    }

    /// Whether it leads to more than reading the project and running in a cage.
    pub(super) fn does_more_than_read(&self) -> bool {
        !matches!(self.word, Word::Read | Word::Wasi | Word::Exec) || self.counts_unasked()
    }

    /// Whether a caller's grant of it holds for every skill of the run, ask or not: `exec:unsandboxed`.
    pub(super) fn counts_unasked(&self) -> bool {
        self.word == Word::Exec && self.is_scoped()
    }

    /// Whether both are about the same kind of thing.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.word == other.word
    }

    /// The need that this permission names, and no narrower one.
    pub(super) fn own_need(&self) -> Need {
        Need { word: self.word, target: self.scope.clone().unwrap_or_default() }
    }

    /// Whether its name is this, whatever its scope: `write:out` is a `write`.
    pub fn is_called(&self, name: &str) -> bool {
        self.word.name() == name
    }

    /// The path below which this permission lets a script write: the root is empty.
    pub(super) fn writes(&self) -> Option<&str> {
        (self.word == Word::Write).then(|| self.scope.as_deref().unwrap_or_default())
    }

    /// Whether this permission answers the need. Protected paths are covered only by a scope that is itself protected,
    /// so neither `write` nor `write:.` reaches `.git`.
    pub fn covers(&self, need: &Need, protection: &Protection) -> bool {
        self.word == need.word
            && match (self.word.rule(), &self.scope) {
                (Rule::MaybePath, None) => !need.is_protected(protection),
                (Rule::MaybePath, Some(scope)) => {
                    within(&need.target, scope)
                        && (!need.is_protected(protection) || need.at(scope).is_protected(protection))
                }
                (Rule::MaybeUnsandboxed, None) => need.target.is_empty(),
                (Rule::MaybeHost | Rule::Nothing, None) | (Rule::MaybeUnsandboxed, Some(_)) => true,
                (Rule::MaybeHost, Some(host)) => host.eq_ignore_ascii_case(&need.target),
                (_, Some(name)) => *name == need.target,
                (Rule::Name, None) => false,
            }
    }
}

impl Need {
    /// Reading `path`, relative to the project, `/`-separated, with no `.` or `..` in it.
    pub fn read(path: impl Into<String>) -> Self {
        Self { word: Word::Read, target: path.into() }
    }

    /// Changing, creating or removing `path`.
    pub fn write(path: impl Into<String>) -> Self {
        Self { word: Word::Write, target: path.into() }
    }

    /// Starting a process.
    pub fn exec() -> Self {
        Self { word: Word::Exec, target: String::new() }
    }

    /// Starting a process outside of any cage.
    pub fn unsandboxed() -> Self {
        Self { word: Word::Exec, target: UNSANDBOXED.to_owned() }
    }

    /// Sharing memory with other programs by name.
    pub fn shm() -> Self {
        Self { word: Word::Shm, target: String::new() }
    }

    /// Reaching any host at all.
    pub fn network() -> Self {
        Self::net(String::new())
    }

    /// Calling the embedder's tool of that name.
    pub fn tool(name: impl Into<String>) -> Self {
        Self { word: Word::Tool, target: name.into() }
    }

    /// Running the skill of that name.
    pub fn skill(name: impl Into<String>) -> Self {
        Self { word: Word::Skill, target: name.into() }
    }

    /// Reading the secret of that name.
    pub fn secret(name: impl Into<String>) -> Self {
        Self { word: Word::Secret, target: name.into() }
    }

    /// Asking the model.
    pub fn sample() -> Self {
        Self { word: Word::Sample, target: String::new() }
    }

    /// Reaching that host, by name or address.
    pub fn net(host: impl Into<String>) -> Self {
        Self { word: Word::Net, target: host.into() }
    }

    /// Starting a WebAssembly plug-in that imports WASI: its clock and its random numbers, no files.
    pub fn wasi() -> Self {
        Self { word: Word::Wasi, target: String::new() }
    }

    /// Whether only a permission that names the path answers this need.
    pub fn is_protected(&self, protection: &Protection) -> bool {
        match self.word {
            Word::Read => protection.guards_read(&self.target),
            Word::Write => protection.guards_write(&self.target),
            _ => false,
        }
    }

    /// The narrowest permission that answers this need and that a person would sensibly grant.
    pub fn remedy(&self, protection: &Protection) -> Permission {
        let named = matches!(self.word.rule(), Rule::Name | Rule::MaybeHost | Rule::MaybeUnsandboxed)
            || self.is_protected(protection);
        let scope = (named && !self.target.is_empty()).then(|| self.target.clone());
        Permission { word: self.word, scope }
    }

    fn at(&self, target: &str) -> Self {
        Self { word: self.word, target: target.to_owned() }
    }
}

impl Word {
    fn name(self) -> &'static str {
        WORDS[self as usize].1
    }

    fn rule(self) -> Rule {
        WORDS[self as usize].2
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word.name())?;
        match self.scope.as_deref() {
            None => Ok(()),
            // The root: with nothing behind the colon it would not read back.
            Some("") => f.write_str(":."),
            Some(scope) => write!(f, ":{scope}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn permission(text: &str) -> Permission {
        text.parse().unwrap()
    }

    fn covers(text: &str, need: &Need) -> bool {
        permission(text).covers(need, &Protection::new([".metier/skills"]))
    }

    #[test]
    fn the_table_of_words_is_in_the_order_of_the_enum() {
        for (position, (word, name, _)) in WORDS.into_iter().enumerate() {
            assert_eq!((word as usize, word.name()), (position, name));
        }
    }

    #[test]
    fn names_are_exact_and_never_substrings() {
        for text in [
            "rewrite-history",
            "writes",
            "Write",
            "write ",
            "",
            ":",
            "tool",
            "tool:",
            "sample:x",
            "exec:rm",
            "read:",
        ] {
            assert_eq!(text.parse::<Permission>().map_err(|e| e.kind()), Err(ErrorKind::Usage), "{text:?}");
        }
        assert_eq!("wrte".parse::<Permission>().unwrap_err().help(), Some("did you mean `write`?"));
    }

    #[test]
    fn what_is_printed_reads_back_as_the_same() {
        for text in
            ["write:.", "read:./", "write:./out//a/", "net:Example.com", "tool:a:b", "exec:unsandboxed"]
        {
            assert_eq!(permission(&permission(text).to_string()), permission(text), "{text}");
        }
        assert_eq!(permission("write:./").to_string(), "write:.");
    }

    #[test]
    fn a_path_scope_covers_what_lies_below_and_nothing_beside() {
        assert!(covers("write:out", &Need::write("out/deep/a.txt")));
        assert!(covers("write:./out/", &Need::write("out")));
        assert!(!covers("write:out", &Need::write("output/a.txt")));
        assert!(!covers("write:out", &Need::read("out/a.txt")));
        for text in ["write:/etc", "write:../x", "read:a/../../b"] {
            assert!(text.parse::<Permission>().is_err(), "{text}");
        }
    }

    #[test]
    fn protected_paths_need_a_scope_that_is_itself_protected() {
        let hook = Need::write(".git/hooks/post-commit");
        assert!(!covers("write", &hook) && !covers("write:.", &hook));
        assert!(covers("write:.git", &hook) && covers("write:.git/hooks", &hook));
        assert!(!covers("read", &Need::read("sub/.env")));
        assert!(covers("read:sub/.env", &Need::read("sub/.env")));
        let script = Need::write(".metier/skills/x/SKILL.md");
        assert!(!covers("write:.metier", &script) && covers("write:.metier/skills/x", &script));
        assert!(covers("read", &Need::read(".metier/skills/x/SKILL.md")));
    }

    #[test]
    fn a_name_is_covered_whole_and_never_by_its_beginning_or_end() {
        let hosts =
            [Need::net("evil-example.com"), Need::net("example.com.evil"), Need::net("a.example.com")];
        assert!(covers("net:example.com", &Need::net("EXAMPLE.com")));
        assert!(hosts.iter().all(|host| !covers("net:example.com", host) && covers("net", host)));
        for (text, same, others) in [
            (
                "tool:search",
                Need::tool("search"),
                [Need::tool("search_all"), Need::tool("sea"), Need::tool("x.search")],
            ),
            ("skill:a", Need::skill("a"), [Need::skill("ab"), Need::skill("A"), Need::skill("x:a")]),
            (
                "secret:KEY",
                Need::secret("KEY"),
                [Need::secret("KEY2"), Need::secret("KE"), Need::secret("key")],
            ),
        ] {
            assert!(covers(text, &same), "{text}");
            assert!(others.iter().all(|other| !covers(text, other)), "{text}");
        }
        assert!(!covers("tool:a", &Need::skill("a")) && !covers("skill:a", &Need::secret("a")));
        assert!(!covers("write", &Need::read("a")) && !covers("read", &Need::write("a")));
        assert!(covers("exec", &Need::exec()) && !covers("exec", &Need::unsandboxed()));
        assert!(covers("exec:unsandboxed", &Need::unsandboxed()));
    }

    #[test]
    fn the_remedy_answers_the_need() {
        let protection = Protection::default();
        for need in [Need::read(".env"), Need::write("a/b"), Need::write(".git/config"), Need::exec()] {
            assert!(need.remedy(&protection).covers(&need, &protection), "{need:?}");
        }
        assert_eq!(Need::write("a/b").remedy(&protection).to_string(), "write");
    }
}
