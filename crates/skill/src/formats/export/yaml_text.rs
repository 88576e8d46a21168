//! YAML that readers of YAML 1.2 and of 1.1 read alike: a text that one of them takes for a number, a date or a truth value is quoted.

use serde_json::{Map, Value as Json};
use serde_yaml::{SerializerOptions, ser_options};

/// How texts of several lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum YamlTexts {
    /// As blocks, which a person reads and edits.
    Blocks,
    /// In quotes, in one line each: some readers of a frontmatter look for lines and not for blocks.
    Lines,
}

/// A map with these keys, in this order. Its texts come back to the byte, and its numbers as what they are.
pub(crate) fn yaml_text<'a>(entries: impl IntoIterator<Item = (&'a str, Json)>, texts: YamlTexts) -> String {
    let mut text = String::new();
    for (key, value) in entries {
        let map = Json::Object(Map::from_iter([(key.to_owned(), value)]));
        // What the writer cannot write is written as JSON, which is YAML too.
        let written = serde_yaml::to_string_with_options(&map, options(texts));
        let written = written.unwrap_or_else(|_| format!("{}: {}", Json::from(key), map[key]));
        // The line breaks at its end may belong to a text.
        text.push_str(&written);
        if !written.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

fn options(texts: YamlTexts) -> SerializerOptions {
    ser_options! {
        compact_list_indent: false,
        // A long text stays in its line: what was folded is hard to edit without a change of what it says.
        folded_wrap_chars: usize::MAX,
        prefer_block_scalars: texts == YamlTexts::Blocks,
    }
}
