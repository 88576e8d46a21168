//! Skills as the extension of the protocol has them: typed frontmatter, and every file with its digest.

use serde_json::{Value, json};

use crate::support::cli::Project;

fn project() -> Project {
    let text = "---\nname: typed\ndescription: d\nlicense: MIT\nversion: 1.0\nquoted: \"1.0\"\nmetadata:\n  n: \"3\"\n---\nbody\n";
    Project::new()
        .lua("typed", "return 1")
        .file(".metier/skills/typed/SKILL.md", text)
        .file(".metier/skills/typed/references/deep/a.md", "a")
        .lua("Wrong_Name", "return 'still a tool'")
        .lua("number", "return 'too'")
        .file(
            ".metier/skills/number/SKILL.md",
            "---\nname: number\ndescription: d\nmetadata: {version: 1.0}\n---\n",
        )
        .lua("技能", "return 'and this'")
        .trusted()
}

fn own(result: &Value) -> Vec<Value> {
    let skills = result["skills"].as_array().unwrap().clone();
    skills
        .into_iter()
        .filter(|skill| {
            ["typed", "Wrong_Name", "number", "技能"]
                .contains(&skill["frontmatter"]["name"].as_str().unwrap())
        })
        .collect()
}

#[test]
fn only_valid_skills_are_listed_with_typed_values_and_all_their_files() {
    let project = project();
    let mut client = project.modern_client(&[]);
    let list = client.result("skills/list", json!({}));
    assert_eq!((&list["resultType"], list["ttlMs"].is_u64()), (&json!("complete"), true));
    let [entry] = &own(&list)[..] else { panic!("{list}") };
    assert_eq!(entry["uri"], "skill://typed/SKILL.md");
    let frontmatter = json!({
        "name": "typed", "description": "d", "license": "MIT", "version": 1.0, "quoted": "1.0", "metadata": {"n": "3"},
    });
    assert_eq!(entry["frontmatter"], frontmatter);
    for file in entry["resources"].as_array().unwrap() {
        let read = client.result("resources/read", json!({"uri": file["uri"]}));
        let text = read["contents"][0]["text"].as_str().unwrap();
        assert_eq!(file["size"], text.len());
        assert_eq!(file["digest"], sha256(text));
    }
    let uris: Vec<&Value> = entry["resources"].as_array().unwrap().iter().map(|file| &file["uri"]).collect();
    assert_eq!(
        uris,
        ["skill://typed/SKILL.md", "skill://typed/references/deep/a.md", "skill://typed/scripts/main.lua"]
    );
    assert_eq!(client.result("skills/get", json!({"uri": "skill://typed/SKILL.md"}))["skill"], *entry);
    assert_eq!(
        client.request("skills/get", json!({"uri": "skill://Wrong_Name/SKILL.md"}))["error"]["code"],
        -32602
    );
    assert_eq!(client.text("Wrong_Name", json!({})), "still a tool");
    assert_eq!(client.text("number", json!({})), "too");
}

#[test]
fn folders_are_read_level_by_level() {
    let project = project();
    let mut client = project.modern_client(&[]);
    let mut children = |uri: &str| -> Vec<(String, String)> {
        let found = client.result("resources/directory/read", json!({"uri": uri}));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let resources = found["resources"].as_array().unwrap();
        resources.iter().map(|resource| (text(&resource["uri"]), text(&resource["mimeType"]))).collect()
    };
    let folder = |uri: &str| (uri.to_owned(), "inode/directory".to_owned());
    let found = children("skill://typed/");
    assert_eq!(found[..2], [folder("skill://typed/references/"), folder("skill://typed/scripts/")]);
    assert_eq!(found[2].0, "skill://typed/SKILL.md");
    assert_eq!(children("skill://typed"), found);
    assert_eq!(children("skill://typed/references"), [folder("skill://typed/references/deep/")]);
    assert_eq!(children("skill://typed/references/deep/")[0].0, "skill://typed/references/deep/a.md");
}

fn sha256(text: &str) -> String {
    use sha2::Digest;
    use std::fmt::Write;
    let digest = sha2::Sha256::digest(text);
    digest.iter().fold("sha256:".to_owned(), |mut shown, byte| {
        write!(shown, "{byte:02x}").unwrap();
        shown
    })
}
