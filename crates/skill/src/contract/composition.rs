//! Several personas as one, by the rules of AgentsKit: texts in sections, names once each, and the last word where one is needed.

use serde::Serialize;
use serde_json::{Map, Value as Json};

use super::Persona;
use metier_core::error::{ErrorKind, Result, SkillError};

/// The most characters of a name.
const MAX_NAME: usize = 64;
/// Digits of a number to the base 36, as they are written.
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// A persona, and the facts beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct NamedPersona {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What a model becomes.
    #[serde(flatten)]
    pub persona: Persona,
    /// Facts that nothing reads.
    pub metadata: Map<String, Json>,
}

impl NamedPersona {
    /// A persona with this name and description, and no facts.
    pub fn new(name: impl Into<String>, description: impl Into<String>, persona: Persona) -> Self {
        Self { name: name.into(), description: description.into(), persona, metadata: Map::new() }
    }

    /// The same with these facts.
    pub fn metadata(self, metadata: Map<String, Json>) -> Self {
        Self { metadata, ..self }
    }
}

/// One persona that is all of these: `usage` for none of them, and the same one for a single one.
///
/// Its instructions are theirs in sections, its tools and delegates theirs in the order in which they are first named, and its examples
/// all of theirs. The last temperature counts, and the last fact of each name.
pub fn compose(personas: &[NamedPersona]) -> Result<NamedPersona> {
    let [first, _, ..] = personas else {
        return personas.first().cloned().ok_or_else(|| {
            SkillError::new(ErrorKind::Usage, "AK_CONFIG_INVALID: there are no skills to compose")
                .with_help("name one skill at least")
        });
    };
    let mut composed = NamedPersona::new(first.name.clone(), "", Persona::default());
    let names: Vec<&str> = personas.iter().map(|part| part.name.as_str()).collect();
    composed.name = composed_name(&names);
    composed.description = format!("Composed skill: {}", names.join(", "));
    let section = |part: &NamedPersona| format!("--- {} ---\n{}", part.name, part.persona.instructions);
    composed.persona.instructions = personas.iter().map(section).collect::<Vec<_>>().join("\n\n");
    for part in personas {
        let Persona { examples, tools, delegates, temperature, .. } = &part.persona;
        composed.persona.examples.extend(examples.iter().cloned());
        add_names(&mut composed.persona.tools, tools);
        add_names(&mut composed.persona.delegates, delegates);
        composed.persona.temperature = temperature.or(composed.persona.temperature);
        composed.metadata.extend(part.metadata.clone());
    }
    Ok(composed)
}

fn add_names(known: &mut Vec<String>, more: &[String]) {
    for name in more {
        if !known.contains(name) {
            known.push(name.clone());
        }
    }
}

/// The names with `_` between them; if that is not a name, its beginning and a digest of all of it.
fn composed_name(names: &[&str]) -> String {
    let joined = names.join("_");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let begins_like_name = joined.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if joined.len() <= MAX_NAME && begins_like_name && joined.chars().all(is_plain) {
        return joined;
    }
    // Of the names apart: `a_b` and `c` are not `a` and `b_c`.
    let digest = base_36(fnv_1a(names.join("\0").as_bytes()));
    let plain: String = joined.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let start = if begins_like_name { "" } else { "_" };
    let length = MAX_NAME - start.len() - 1 - digest.len();
    let beginning: String = plain.chars().take(length).collect();
    format!("{start}{}_{digest}", beginning.trim_end_matches('_'))
}

fn fnv_1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn base_36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from(DIGITS[(number % 36) as usize]));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Turn;
    use super::*;

    fn part(name: &str, tools: &[&str], temperature: Option<f64>) -> NamedPersona {
        let persona = Persona {
            instructions: format!("You are {name}."),
            examples: vec![Turn::new(name.to_owned(), "x".to_owned())],
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            delegates: vec!["critic".to_owned()],
            temperature,
        };
        let metadata = json!({"shared": name, name: 1});
        NamedPersona::new(name, "d", persona).metadata(metadata.as_object().unwrap().clone())
    }

    #[test]
    fn ak_a12_personas_are_one() {
        let (a, b) = (
            part("a", &["web_search", "read_file"], Some(0.1)),
            part("b", &["read_file", "shell"], Some(0.9)),
        );
        let both = compose(&[a.clone(), b.clone(), part("c", &[], None)]).unwrap();
        assert_eq!((both.name.as_str(), both.description.as_str()), ("a_b_c", "Composed skill: a, b, c"));
        assert_eq!(
            both.persona.instructions,
            "--- a ---\nYou are a.\n\n--- b ---\nYou are b.\n\n--- c ---\nYou are c."
        );
        assert_eq!(both.persona.tools, ["web_search", "read_file", "shell"]);
        assert_eq!((both.persona.delegates.len(), both.persona.examples.len()), (1, 3));
        assert_eq!(both.persona.temperature, Some(0.9));
        assert_eq!(both.metadata["shared"], "c");
        assert_eq!(both.metadata.len(), 4);
        assert_eq!(compose(std::slice::from_ref(&a)).unwrap(), a);
        assert!(compose(&[]).unwrap_err().message().starts_with("AK_CONFIG_INVALID"));
    }

    #[test]
    fn ak_a13_long_names_become_a_stable_name() {
        let long = "x".repeat(40);
        let composed = |names: &[&str]| composed_name(names);
        for names in [&[long.as_str(), long.as_str()][..], &["é", "b"], &["1a", "b"], &["+", "+"], &["", ""]]
        {
            let name = composed(names);
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
            assert!(name.len() <= MAX_NAME && name.chars().all(is_plain), "{name}");
            assert!(!name.starts_with(|c: char| c.is_ascii_digit() || c == '-'), "{name}");
            assert_eq!(composed(names), name);
        }
        let (middle, end) = (format!("h{}i", "_".repeat(40)), "i".repeat(31));
        assert_ne!(
            composed(&[&middle, &end, "s"]),
            composed(&["h", &format!("{}i_{end}", "_".repeat(39)), "s"])
        );
        assert_eq!(
            composed(&[&"t".repeat(64), "c"]),
            format!("{}_1p26oms", "t".repeat(56)),
            "as AgentsKit does"
        );
        let other = format!("{}y", &long[1..]);
        assert_ne!(composed(&[&long, &long]), composed(&[&long, &other]), "told apart by the digest");
        // The published test vectors of FNV-1a.
        assert_eq!((fnv_1a(b""), fnv_1a(b"a"), fnv_1a(b"foobar")), (0x811c_9dc5, 0xe40c_292c, 0xbf9c_f968));
        assert_eq!(
            (base_36(0), base_36(35), base_36(36), base_36(u32::MAX)),
            ("0".into(), "z".into(), "10".into(), "1z141z3".into())
        );
    }
}
