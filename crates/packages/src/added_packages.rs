//! The packages that a person adds to those of a skill without changing its files. They lie in the store, and count for exactly these files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::requirement::normalize_name;
use super::requirements::{Ecosystem, Requirements};
use metier_core::error::Result;

/// The packages by their names: each as it was written, such as `docx==1.1.0`, and the range of a package of npm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AddedPackages {
    python: BTreeMap<String, String>,
    npm: BTreeMap<String, String>,
}

impl AddedPackages {
    /// Adds a package, in place of one of the same name. `NAME@VERSION` is a package of npm; what may be one of both is of this ecosystem.
    /// `usage` for anything but a package with versions.
    pub fn add(&mut self, text: &str, ecosystem: Ecosystem) -> Result<()> {
        let text = text.trim();
        // The first character of `@scope/name` separates nothing.
        let at = text.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| at);
        let is_npm = at.is_some() || text.starts_with('@') || ecosystem == Ecosystem::Npm;
        if is_npm {
            let (name, range) = at.map_or((text, ""), |at| (&text[..at], text[at..].trim_start_matches('@')));
            Requirements::of_added_npm(&BTreeMap::from([(name.to_owned(), range.to_owned())]))?;
            self.npm.insert(name.to_owned(), range.to_owned());
        } else {
            Requirements::of_added_python([text])?;
            let end =
                text.find(|c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c)).unwrap_or(text.len());
            self.python.insert(normalize_name(&text[..end]), text.to_owned());
        }
        Ok(())
    }

    /// What a run needs because of them: a set for each ecosystem that has some.
    pub fn requirements(&self) -> Result<Vec<Requirements>> {
        let python = Requirements::of_added_python(self.python.values().map(String::as_str))?;
        let npm = Requirements::of_added_npm(&self.npm)?;
        Ok([python, npm].into_iter().filter(|requirements| !requirements.is_empty()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_core::error::ErrorKind;

    fn names(added: &AddedPackages) -> Vec<String> {
        added.requirements().unwrap().iter().flat_map(Requirements::names).collect()
    }

    #[test]
    fn a_package_is_added_in_place_of_one_of_its_name() {
        let mut added = AddedPackages::default();
        for text in ["Docx==1.0", "docx == 1.1.0", "rich[jupyter]>=13", "@a/b@^2", "c@1", "c@2"] {
            added.add(text, Ecosystem::Python).unwrap();
        }
        added.add("left-pad", Ecosystem::Npm).unwrap();
        assert_eq!(names(&added), ["docx == 1.1.0", "rich[jupyter]>=13", "@a/b@^2", "c@2", "left-pad@"]);
    }

    #[test]
    fn what_names_a_place_or_an_option_is_not_added() {
        for text in [
            "",
            "-r x.txt",
            "--index-url=http://evil",
            "evil @ https://evil/x.whl",
            "git+https://evil/x",
            "./x.whl",
            "x@file:../x",
            "x@https://evil/x.tgz",
            "x@github:evil/x",
            "@../x@1",
            "a\n--index-url=http://evil",
        ] {
            let mut added = AddedPackages::default();
            let error = added.add(text, Ecosystem::Python).unwrap_err();
            assert_eq!((error.kind(), added), (ErrorKind::Usage, AddedPackages::default()), "{text}");
        }
    }
}
