//! What TOML says about packages: the block of a script ([PEP 723](https://peps.python.org/pep-0723/)), `pyproject.toml`, and the
//! configuration of uv.

use toml_edit::{Document, Item, TableLike};

use super::declarations::{DeclaredRequirements, UvSettings};
use super::requirements_file::LineError;
use super::version_range::VersionRange;
use metier_core::toml_nesting::check_nesting;

const UNREADABLE_RANGE: &str =
    "requires-python must be comparisons that all hold, such as `>=3.11,<4`; PEP 440 has no `||`";

/// The requirements of the block of a script, without its comment signs.
pub(super) fn read_script_block(text: &str) -> Result<DeclaredRequirements, LineError> {
    with_document(text, |top| {
        refuse_uv(text, top)?;
        declared(text, top)
    })
}

/// The requirements of a project; `None` if it declares none.
pub(super) fn read_pyproject(text: &str) -> Result<Option<DeclaredRequirements>, LineError> {
    with_document(text, |top| {
        let Some(item) = top.get("project") else { return Ok(None) };
        let project = item.as_table_like().ok_or_else(|| error_at(text, item, "project is not a table"))?;
        let is_dynamic = |item: &Item| {
            let mut names = item.as_array().into_iter().flat_map(toml_edit::Array::iter);
            names.any(|name| name.as_str() == Some("dependencies"))
        };
        if let Some(dynamic) = project.get("dynamic").filter(|item| is_dynamic(item)) {
            return Err(error_at(
                text,
                dynamic,
                "its dependencies are dynamic, so only its own code could tell them",
            ));
        }
        if project.get("dependencies").is_none() {
            return Ok(None);
        }
        refuse_uv(text, top)?;
        declared(text, project).map(Some)
    })
}

/// `requires-python` of the block of a script; nothing where it is absent, or where the text cannot be read.
pub(super) fn read_script_python(text: &str) -> Option<String> {
    with_document(text, |top| Ok(python_range(top))).ok().flatten()
}

/// The same of a project.
pub(super) fn read_project_python(text: &str) -> Option<String> {
    let range = with_document(text, |top| {
        Ok(top.get("project").and_then(Item::as_table_like).and_then(python_range))
    });
    range.ok().flatten()
}

fn python_range(table: &dyn TableLike) -> Option<String> {
    table.get("requires-python")?.as_str().map(str::to_owned)
}

/// The registries in the user's configuration of uv.
pub(super) fn read_uv_settings(text: &str) -> Result<UvSettings, LineError> {
    with_document(text, |top| {
        let pip = top.get("pip").and_then(Item::as_table_like);
        let string = |key: &str| {
            let mut tables = [Some(top), pip].into_iter().flatten();
            tables.find_map(|table| table.get(key)?.as_str()).map(str::to_owned)
        };
        let list = |key: &str| {
            let tables = [Some(top), pip].into_iter().flatten();
            let values =
                tables.filter_map(|table| table.get(key)?.as_array()).flat_map(toml_edit::Array::iter);
            values.filter_map(toml_edit::Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let mut settings = UvSettings {
            index: string("index-url"),
            extra_indexes: list("extra-index-url"),
            find_links: list("find-links"),
        };
        for table in top.get("index").and_then(Item::as_array_of_tables).into_iter().flatten() {
            let Some(url) = table.get("url").and_then(Item::as_str) else { continue };
            let is = |key: &str| table.get(key).and_then(Item::as_bool) == Some(true);
            match (is("explicit"), is("default")) {
                (true, _) => {}
                (false, true) => settings.index = Some(url.to_owned()),
                (false, false) => settings.extra_indexes.push(url.to_owned()),
            }
        }
        Ok(settings)
    })
}

fn declared(text: &str, table: &dyn TableLike) -> Result<DeclaredRequirements, LineError> {
    let mut found = DeclaredRequirements::default();
    if let Some(item) = table.get("requires-python") {
        let range = item.as_str().ok_or_else(|| error_at(text, item, "requires-python is not a string"))?;
        if VersionRange::parse(range).is_none() {
            return Err(error_at(text, item, UNREADABLE_RANGE));
        }
        found.requires_python = Some(range.to_owned());
    }
    let Some(item) = table.get("dependencies") else { return Ok(found) };
    let list = item.as_array().ok_or_else(|| error_at(text, item, "dependencies is not a list"))?;
    for value in list {
        let line = line_at(text, value.span());
        let requirement = value
            .as_str()
            .ok_or_else(|| LineError { line, reason: "a dependency is not a string".to_owned() })?;
        found.dependencies.push((line, requirement.trim().to_owned()));
    }
    Ok(found)
}

/// The settings of uv name sources, registries and builds, which are the user's to name.
fn refuse_uv(text: &str, top: &dyn TableLike) -> Result<(), LineError> {
    let Some(tools) = top.get("tool").and_then(Item::as_table_like) else { return Ok(()) };
    let Some((key, item)) = tools.get_key_value("uv") else { return Ok(()) };
    let span = item.span().or_else(|| key.span());
    Err(LineError { line: line_at(text, span), reason: "the section [tool.uv] is not used".to_owned() })
}

fn with_document<T>(
    text: &str,
    read: impl FnOnce(&dyn TableLike) -> Result<T, LineError>,
) -> Result<T, LineError> {
    // The parser itself recurses.
    if let Err((at, reason)) = check_nesting(text) {
        return Err(LineError { line: line_at(text, Some(at..at)), reason: reason.to_owned() });
    }
    match Document::parse(text) {
        Ok(document) => read(document.as_table()),
        Err(error) => {
            let reason =
                format!("it is not valid TOML: {}", error.message().lines().next().unwrap_or_default());
            Err(LineError { line: line_at(text, error.span()), reason })
        }
    }
}

fn error_at(text: &str, item: &Item, reason: &str) -> LineError {
    LineError { line: line_at(text, item.span()), reason: reason.to_owned() }
}

fn line_at(text: &str, span: Option<std::ops::Range<usize>>) -> usize {
    let at = span.map_or(0, |span| span.start).min(text.len());
    text.get(..at).map_or(0, |before| before.matches('\n').count()) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_names_packages_and_versions_of_python() {
        let text =
            "requires-python = \">=3.11\"\ndependencies = [\n  \"requests<3\",\n  \"rich\", # why\n]\n";
        let found = read_script_block(text).unwrap();
        assert_eq!(found.requires_python.as_deref(), Some(">=3.11"));
        assert_eq!(found.dependencies, [(3, "requests<3".into()), (4, "rich".into())]);
        assert_eq!(read_script_block("").unwrap(), DeclaredRequirements::default());
    }

    #[test]
    fn settings_of_uv_are_refused_with_their_line() {
        for text in [
            "dependencies = []\n[tool.uv]\nexclude-newer = \"2024\"",
            "dependencies = []\ntool.uv.sources.six = {git = \"x\"}",
            "dependencies = []\n[tool.uv.sources]\nsix = {path = \"x\"}",
            "dependencies = []\n[[tool.uv.index]]\nurl = \"https://evil.example\"",
        ] {
            let error = read_script_block(text).unwrap_err();
            assert!(error.line == 2 && error.reason.contains("[tool.uv]"), "{text}: {error:?}");
            let project = format!("[project]\n{text}");
            assert!(read_pyproject(&project).is_err() || text.contains("tool.uv.sources.six"), "{project}");
        }
        let other = "dependencies = [\"six\"]\n[tool.black]\nline-length = 3";
        assert_eq!(read_script_block(other).unwrap().dependencies.len(), 1);
    }

    #[test]
    fn a_project_is_read_only_where_it_is_static() {
        let project =
            "[build-system]\nrequires = [\"evil\"]\n[project]\nname = \"x\"\ndependencies = [\"six\"]";
        assert_eq!(read_pyproject(project).unwrap().unwrap().dependencies, [(5, "six".into())]);
        assert_eq!(read_pyproject("[project]\nname = \"x\"").unwrap(), None);
        assert_eq!(read_pyproject("[tool.uv]\n").unwrap(), None);
        let dynamic = "[project]\ndynamic = [\"version\", \"dependencies\"]";
        let error = read_pyproject(dynamic).unwrap_err();
        assert!(error.line == 2 && error.reason.contains("dynamic"), "{error:?}");
    }

    #[test]
    fn other_forms_are_errors_with_a_line_and_never_an_end_of_the_host() {
        for (text, line) in [
            ("dependencies = \"six\"", 1),
            ("\ndependencies = [1]", 2),
            ("requires-python = 3", 1),
            ("dependencies = [\"six\"]\nrequires-python = \">=3.13 || >=3.11\"", 2),
            ("\nrequires-python = \"^3.9\"", 2),
            ("x = ", 1),
            ("a = 1\nb = [[", 2),
        ] {
            assert_eq!(read_script_block(text).unwrap_err().line, line, "{text}");
        }
        let deep = format!("a = {}", "[".repeat(100_000));
        assert!(read_script_block(&deep).is_err());
    }

    #[test]
    fn registries_of_uv_are_read_as_uv_reads_them() {
        let text = "[pip]\nindex-url = \"https://pip.example\"\nfind-links = [\"/wheels\"]\n[[index]]\nurl = \"https://a.example\"\n[[index]]\nurl = \"https://b.example\"\ndefault = true\n[[index]]\nurl = \"https://c.example\"\nexplicit = true";
        let found = read_uv_settings(text).unwrap();
        assert_eq!(found.index.as_deref(), Some("https://b.example"));
        assert_eq!(
            (found.extra_indexes, found.find_links),
            (vec!["https://a.example".into()], vec!["/wheels".into()])
        );
    }
}
