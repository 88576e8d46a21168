//! What holds of any description of an API.

use metier::formats::{OpenApiOptions, import_openapi, parse};
use metier::skill::SkillLocation;
use metier_skill::contract::call_definition;

/// Any bytes as a description: it is refused, or becomes a skill that has no fault and calls nothing but its base URL.
pub fn openapi(source: &[u8]) {
    let mut options = OpenApiOptions::default();
    options.name = Some("x".to_owned());
    options.base_url = Some("https://api.test/v1".to_owned());
    let made = match import_openapi("x", source, &options) {
        Ok(made) => made,
        Err(error) => {
            assert!(!error.message().contains("is no contract"), "{error}");
            return;
        }
    };
    let (_, text) = made.skill.files.first().unwrap();
    let parsed = metier::skill::parse(text, SkillLocation { directory: "x", file_name: "SKILL.md" });
    assert!(parsed.diagnostics.is_empty(), "{:?}", parsed.diagnostics);
    let (path, contract) = made.skill.files.last().unwrap();
    assert_eq!((made.skill.name.as_str(), path.as_str()), ("x", "skill.yaml"));
    let parsed = parse(path, contract, None);
    assert!(parsed.diagnostics.is_empty(), "{:?}", parsed.diagnostics);
    let contract = parsed.contract.unwrap();
    assert_eq!(contract.tools.len(), made.tools);
    let left_out: usize = made.left_out.iter().map(|group| group.count).sum();
    assert_eq!(made.tools + left_out, made.chosen);
    for tool in &contract.tools {
        assert_eq!(call_definition(tool.http().unwrap()).base_url.literal(), Some("https://api.test/v1"));
        let safe = tool.http().unwrap().is_safe();
        assert_eq!(tool.risk_score == Some(0), safe, "{}", tool.name);
    }
}
