//! The title of a tool, which clients show to people in place of its name.

/// The names of a skill and of a tool or an entrypoint of it as words: `Open tasks`, `Github: list issues`.
pub(super) fn title_from_names(skill: &str, part: Option<&str>) -> String {
    let words = |name: &str| name.replace(['-', '_'], " ").trim().to_owned();
    let title = match part {
        Some(part) => format!("{}: {}", words(skill), words(part)),
        None => words(skill),
    };
    let mut letters = title.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_the_words_of_the_names() {
        for (skill, part, title) in [
            ("word-count", None, "Word count"),
            ("github", Some("list_issues"), "Github: list issues"),
            ("éa", None, "Éa"),
            ("", None, ""),
        ] {
            assert_eq!(title_from_names(skill, part), title);
        }
    }
}
