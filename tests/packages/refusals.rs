//! What a skill may not say about its packages, and what a project may not say about registries.

use crate::packages::archives::wheel;
use crate::packages::fixture::{assert_refused, command, has_manager, prepare, project, write};
use crate::packages::registry::Registry;

#[test]
fn everything_but_a_package_with_versions_is_refused_by_name_and_line() {
    let registry = Registry::default().start();
    for (line, words) in [
        (
            "--index-url http://evil.example/simple",
            "requirements.txt, line 2: the option --index-url is not used",
        ),
        ("--extra-index-url=http://evil.example", "line 2: the option --extra-index-url is not used"),
        ("-f http://evil.example", "line 2: the option -f is not used"),
        ("--no-binary :all:", "line 2: the option --no-binary is not used"),
        ("-r other.txt", "line 2: the option -r is not used"),
        ("-e .", "line 2: the option -e is not used"),
        (
            "evil @ http://evil.example/evil-1.0-py3-none-any.whl",
            "line 2: http://evil.example/evil-1.0-py3-none-any.whl is an address",
        ),
        ("git+https://evil.example/evil", "is a source in a repository"),
        ("./evil", "line 2: ./evil is a path"),
        ("evil-1.0-py3-none-any.whl", "is a file"),
    ] {
        let skill = project("main.py", "", &[("requirements.txt", &format!("alpha\n{line}\n"))]);
        assert_refused(&skill, &registry, words);
    }
    for (text, words) in [
        (
            "[project]\ndependencies = []\n[tool.uv]\nindex-url = \"x\"\n",
            "pyproject.toml, line 3: the section [tool.uv] is not used",
        ),
        (
            "[project]\ndependencies = [\n\"a @ file:///a\"]\n",
            "pyproject.toml, line 3: file:///a is an address",
        ),
        ("[project]\ndynamic = [\"dependencies\"]\n", "pyproject.toml, line 2: its dependencies are dynamic"),
    ] {
        assert_refused(&project("main.py", "", &[("pyproject.toml", text)]), &registry, words);
    }
    let block =
        "# /// script\n# dependencies = [\"a\"]\n# [tool.uv.sources]\n# a = { path = \"/a\" }\n# ///\n";
    assert_refused(
        &project("main.py", block, &[]),
        &registry,
        "scripts/main.py, line 3: the section [tool.uv] is not used",
    );
    assert_eq!(registry.asked(), [""; 0]);
}

#[test]
fn no_file_of_a_project_or_a_skill_chooses_the_registry() {
    if !has_manager("uv", "the registry of a project") {
        return;
    }
    let good = Registry::default()
        .python(
            "alpha",
            "alpha-1.0-py3-none-any.whl",
            wheel("alpha", "1.0", &[], &[("alpha.py", "print('good')\n")]),
        )
        .start();
    let evil = Registry::default()
        .python(
            "alpha",
            "alpha-9.0-py3-none-any.whl",
            wheel("alpha", "9.0", &[], &[("alpha.py", "print('evil')\n")]),
        )
        .start();
    let pip = format!("[global]\nindex-url = {0}\nextra-index-url = {0}\n", evil.python_index());
    let uv = format!("index-url = \"{0}\"\n[[index]]\nurl = \"{0}\"\ndefault = true\n", evil.python_index());
    let npm = format!("registry={}\n", evil.npm_registry());
    let mut skill = project("main.py", "import alpha\n", &[("requirements.txt", "alpha\n")]);
    for folder in ["", ".metier/skills/x/", ".metier/skills/x/scripts/"] {
        for (name, text) in [
            ("pip.conf", pip.as_str()),
            ("uv.toml", &uv),
            (".npmrc", &npm),
            (".config/uv/uv.toml", &uv),
            (".venv/pip.conf", &pip),
            (".python-version", "2.7"),
            (".env", &format!("UV_DEFAULT_INDEX={}", evil.python_index())),
        ] {
            skill = skill.file(&format!("{folder}{name}"), text);
        }
    }
    let skill = skill.file("pyproject.toml", format!("[tool.uv]\nindex-url = \"{}\"\n", evil.python_index()));
    prepare(&skill, &good);
    assert_eq!(evil.asked(), [""; 0]);
    let answer = crate::packages::fixture::metier(&skill, None, &["run", "x"]);
    assert_eq!(answer.stdout.trim(), "good", "{answer:?}");
}

#[test]
fn the_registry_is_that_of_the_users_own_files() {
    if !has_manager("uv", "the registry of the user") {
        return;
    }
    let registry = Registry::default()
        .python("alpha", "alpha-1.0-py3-none-any.whl", wheel("alpha", "1.0", &[], &[("alpha.py", "")]))
        .start();
    for (file, text) in [
        (".config/pip/pip.conf", format!("[global]\nindex-url = {}\n", registry.python_index())),
        (".config/uv/uv.toml", format!("index-url = \"{}\"\n", registry.python_index())),
    ] {
        let skill = project("main.py", "import alpha", &[("requirements.txt", "alpha\n")]);
        write(&skill.home().join(file), text);
        let output = command(&skill, None, &["prepare", "x"]).output().unwrap();
        assert!(output.status.success(), "{file}: {output:?}");
    }
    // A file of the project is none of the user's, whoever names it.
    let skill =
        project("main.py", "import alpha", &[("requirements.txt", "alpha\n"), ("pip.conf", "[global]\n")]);
    let named = skill.path(".metier/skills/x/pip.conf");
    let output = command(&skill, None, &["prepare", "x"]).env("PIP_CONFIG_FILE", named).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("lies in a project or a skill"), "{said}");
}
