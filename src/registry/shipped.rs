//! The skills inside the program: a row for each file below `skills/`.

/// A skill that ships, whole.
#[derive(Debug)]
pub struct Shipped {
    /// Its name, which is its folder's.
    pub name: &'static str,
    /// Its files: path in the skill's folder, content.
    pub files: &'static [(&'static str, &'static [u8])],
}

/// Every skill that ships.
pub(super) const SHIPPED: &[Shipped] = &[
    Shipped {
        name: "changelog",
        files: &[
            ("SKILL.md", include_bytes!("../../skills/changelog/SKILL.md")),
            ("scripts/changelog.py", include_bytes!("../../skills/changelog/scripts/changelog.py")),
        ],
    },
    Shipped {
        name: "todo-report",
        files: &[
            ("SKILL.md", include_bytes!("../../skills/todo-report/SKILL.md")),
            ("scripts/report.lua", include_bytes!("../../skills/todo-report/scripts/report.lua")),
        ],
    },
    Shipped {
        name: "word-count",
        files: &[
            ("SKILL.md", include_bytes!("../../skills/word-count/SKILL.md")),
            ("scripts/count.lua", include_bytes!("../../skills/word-count/scripts/count.lua")),
        ],
    },
];

impl Shipped {
    /// The content of one file.
    pub fn file(&self, path: &str) -> Option<&'static [u8]> {
        self.files.iter().find(|(known, _)| *known == path).map(|(_, content)| *content)
    }
}
