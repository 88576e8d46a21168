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
pub(super) static SHIPPED: &[Shipped] = &[
    Shipped {
        name: "changelog",
        files: &[
            ("SKILL.md", include_bytes!("../../skills/changelog/SKILL.md")),
            (
                "cases/a-format-nobody-knows.json",
                include_bytes!("../../skills/changelog/cases/a-format-nobody-knows.json"),
            ),
            (
                "cases/a-release-as-json.json",
                include_bytes!("../../skills/changelog/cases/a-release-as-json.json"),
            ),
            (
                "cases/an-option-in-place-of-a-tag.json",
                include_bytes!("../../skills/changelog/cases/an-option-in-place-of-a-tag.json"),
            ),
            ("cases/an-unknown-tag.json", include_bytes!("../../skills/changelog/cases/an-unknown-tag.json")),
            ("cases/no-commits-yet.json", include_bytes!("../../skills/changelog/cases/no-commits-yet.json")),
            ("cases/no-repository.json", include_bytes!("../../skills/changelog/cases/no-repository.json")),
            (
                "cases/nothing-since-the-tag.json",
                include_bytes!("../../skills/changelog/cases/nothing-since-the-tag.json"),
            ),
            (
                "cases/since-the-last-tag.json",
                include_bytes!("../../skills/changelog/cases/since-the-last-tag.json"),
            ),
            (
                "cases/subjects-that-look-like-markup.json",
                include_bytes!("../../skills/changelog/cases/subjects-that-look-like-markup.json"),
            ),
            ("cases/without-tags.json", include_bytes!("../../skills/changelog/cases/without-tags.json")),
            (
                "cases/without-the-grant.json",
                include_bytes!("../../skills/changelog/cases/without-the-grant.json"),
            ),
            ("scripts/changelog.py", include_bytes!("../../skills/changelog/scripts/changelog.py")),
        ],
    },
    Shipped {
        name: "todo-report",
        files: &[
            ("SKILL.md", include_bytes!("../../skills/todo-report/SKILL.md")),
            (
                "cases/a-missing-folder.json",
                include_bytes!("../../skills/todo-report/cases/a-missing-folder.json"),
            ),
            (
                "cases/a-single-file-with-odd-lines.json",
                include_bytes!("../../skills/todo-report/cases/a-single-file-with-odd-lines.json"),
            ),
            (
                "cases/a-word-that-is-a-pattern.json",
                include_bytes!("../../skills/todo-report/cases/a-word-that-is-a-pattern.json"),
            ),
            ("cases/half-an-item.json", include_bytes!("../../skills/todo-report/cases/half-an-item.json")),
            ("cases/no-words.json", include_bytes!("../../skills/todo-report/cases/no-words.json")),
            (
                "cases/notes-by-file-and-line.json",
                include_bytes!("../../skills/todo-report/cases/notes-by-file-and-line.json"),
            ),
            (
                "cases/nothing-left-to-do.json",
                include_bytes!("../../skills/todo-report/cases/nothing-left-to-do.json"),
            ),
            (
                "cases/only-the-first-items.json",
                include_bytes!("../../skills/todo-report/cases/only-the-first-items.json"),
            ),
            (
                "cases/words-of-ones-own.json",
                include_bytes!("../../skills/todo-report/cases/words-of-ones-own.json"),
            ),
            ("scripts/report.lua", include_bytes!("../../skills/todo-report/scripts/report.lua")),
        ],
    },
    Shipped {
        name: "word-count",
        files: &[
            ("SKILL.md", include_bytes!("../../skills/word-count/SKILL.md")),
            (
                "cases/a-file-outside-the-project.json",
                include_bytes!("../../skills/word-count/cases/a-file-outside-the-project.json"),
            ),
            ("cases/a-file.json", include_bytes!("../../skills/word-count/cases/a-file.json")),
            (
                "cases/a-folder-with-all-below.json",
                include_bytes!("../../skills/word-count/cases/a-folder-with-all-below.json"),
            ),
            (
                "cases/a-missing-file.json",
                include_bytes!("../../skills/word-count/cases/a-missing-file.json"),
            ),
            (
                "cases/a-name-that-looks-like-a-pattern.json",
                include_bytes!("../../skills/word-count/cases/a-name-that-looks-like-a-pattern.json"),
            ),
            ("cases/a-pattern.json", include_bytes!("../../skills/word-count/cases/a-pattern.json")),
            (
                "cases/a-picture-among-texts-is-skipped.json",
                include_bytes!("../../skills/word-count/cases/a-picture-among-texts-is-skipped.json"),
            ),
            (
                "cases/a-picture-named-by-its-path.json",
                include_bytes!("../../skills/word-count/cases/a-picture-named-by-its-path.json"),
            ),
            ("cases/a-text.json", include_bytes!("../../skills/word-count/cases/a-text.json")),
            (
                "cases/an-empty-project.json",
                include_bytes!("../../skills/word-count/cases/an-empty-project.json"),
            ),
            (
                "cases/an-unknown-field.json",
                include_bytes!("../../skills/word-count/cases/an-unknown-field.json"),
            ),
            (
                "cases/path-and-text-at-once.json",
                include_bytes!("../../skills/word-count/cases/path-and-text-at-once.json"),
            ),
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::registry::Folder;

    #[test]
    fn every_file_below_skills_has_its_row() {
        let below = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills");
        let mut names: Vec<String> = std::fs::read_dir(&below)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(SHIPPED.iter().map(|shipped| shipped.name).collect::<Vec<_>>(), names);
        for shipped in SHIPPED {
            let on_disk = Folder::Disk(below.join(shipped.name));
            assert_eq!(
                Folder::Shipped(shipped).files().unwrap(),
                on_disk.files().unwrap(),
                "{}",
                shipped.name
            );
        }
    }
}
