//! Which arguments of a run an approval or a remembered grant is for.

use globset::GlobBuilder;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{ErrorKind, Result, SkillError};

/// A pattern that the input and the arguments of a run fit, or do not.
///
/// An empty pattern fits every run. Any other describes all arguments: the input has exactly the members that the pattern has,
/// with equal values, and as many arguments as the pattern lists. A text in the pattern, also in nested values, is a glob: `*`
/// and `?` stay within one part of a path, `**` crosses parts. What a glob with wildcards fits has no part `.` or `..`, does not
/// begin with `/` or `-` unless the glob does, and has no control characters. A class of characters such as `[!a]` or `[+-9]`, which
/// would fit `/`, is refused.
///
/// ```
/// # use metier_core as metier;
/// use metier::policy::ArgumentPattern;
/// use serde_json::json;
///
/// # fn main() -> metier::error::Result<()> {
/// let pattern = ArgumentPattern::from_json(json!({"input": {"path": "docs/*.md", "force": false}}))?;
/// assert!(pattern.fits(Some(&json!({"path": "docs/a.md", "force": false})), &[]));
/// assert!(!pattern.fits(Some(&json!({"path": "docs/../a.md", "force": false})), &[]));
/// assert!(!pattern.fits(Some(&json!({"path": "docs/a.md", "force": true})), &[]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArgumentPattern {
    /// The members of the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<Map<String, Value>>,
    /// One glob for each argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    args: Option<Vec<String>>,
}

/// The longest pattern, as JSON.
const MAX_PATTERN_BYTES: usize = 16 << 10;

impl ArgumentPattern {
    /// The pattern that every run fits.
    pub fn any() -> Self {
        Self::default()
    }

    /// The pattern that only these arguments fit; `usage` if the input is not an object, or is too large to be remembered.
    pub fn exactly(input: Option<&Value>, args: &[String]) -> Result<Self> {
        let input = match input {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(members)) => {
                members.iter().map(|(k, v)| (k.clone(), map_texts(v, &globset::escape))).collect()
            }
            Some(_) => return Err(invalid("an input that is not an object cannot be remembered")),
        };
        let args = args.iter().map(|arg| globset::escape(arg)).collect();
        Self { input: Some(input), args: Some(args) }.checked()
    }

    /// The pattern that this JSON describes: an object that may have `input`, an object, and `args`, a list of texts. `usage` if
    /// it has anything else, if a glob cannot be read, or if it is too large.
    pub fn from_json(json: Value) -> Result<Self> {
        if !json.is_object() {
            return Err(invalid("a pattern of arguments is an object"));
        }
        let pattern: Self = serde_json::from_value(json)
            .map_err(|error| invalid(&format!("a pattern of arguments cannot be read: {error}")))?;
        pattern.checked()
    }

    /// The pattern as JSON, for [`from_json`](Self::from_json); `{}` for the empty one.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Whether every run fits it.
    pub fn is_any(&self) -> bool {
        self.input.is_none() && self.args.is_none()
    }

    /// Whether a run with this input and these arguments fits it.
    pub fn fits(&self, input: Option<&Value>, args: &[String]) -> bool {
        let no_members = Map::new();
        let members = match input {
            None | Some(Value::Null) => Some(&no_members),
            Some(Value::Object(members)) => Some(members),
            Some(_) => None,
        };
        let (expected, globs) =
            (self.input.as_ref().unwrap_or(&no_members), self.args.as_deref().unwrap_or_default());
        self.is_any()
            || members.is_some_and(|members| members_fit(expected, members))
                && globs.len() == args.len()
                && globs.iter().zip(args).all(|(glob, arg)| text_fits(glob, arg))
    }

    fn checked(self) -> Result<Self> {
        if self.to_json().to_string().len() > MAX_PATTERN_BYTES {
            return Err(invalid(&format!("a pattern of arguments has at most {MAX_PATTERN_BYTES} bytes")));
        }
        let globs = self.args.iter().flatten().try_for_each(|glob| matcher(glob).map(drop));
        globs?;
        self.input.iter().flat_map(Map::values).try_for_each(check_globs)?;
        Ok(self)
    }
}

/// A pattern as JSON, with characters that it escapes as they are.
pub fn plain_json(pattern: &ArgumentPattern) -> Value {
    map_texts(&pattern.to_json(), &unescape)
}

fn invalid(sentence: &str) -> SkillError {
    SkillError::new(ErrorKind::Usage, sentence)
        .with_help("approve the run without a pattern, or for this run only")
}

fn check_globs(pattern: &Value) -> Result<()> {
    match pattern {
        Value::String(glob) => matcher(glob).map(drop),
        Value::Array(items) => items.iter().try_for_each(check_globs),
        Value::Object(members) => members.values().try_for_each(check_globs),
        _ => Ok(()),
    }
}

fn map_texts(value: &Value, change: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(items) => items.iter().map(|item| map_texts(item, change)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), map_texts(value, change))).collect()
        }
        other => other.clone(),
    }
}

/// The text of which `globset::escape` made this glob.
fn unescape(glob: &str) -> String {
    let mut text = String::new();
    let mut rest = glob.chars();
    while let Some(c) = rest.next() {
        let mut ahead = rest.clone();
        match (c, ahead.next(), ahead.next()) {
            ('[', Some(escaped), Some(']')) => {
                text.push(escaped);
                rest = ahead;
            }
            _ => text.push(c),
        }
    }
    text
}

fn members_fit(expected: &Map<String, Value>, members: &Map<String, Value>) -> bool {
    expected.len() == members.len()
        && expected
            .iter()
            .all(|(name, value)| members.get(name).is_some_and(|member| value_fits(value, member)))
}

fn value_fits(expected: &Value, value: &Value) -> bool {
    match (expected, value) {
        (Value::String(glob), Value::String(text)) => text_fits(glob, text),
        (Value::Array(expected), Value::Array(items)) => {
            expected.len() == items.len()
                && expected.iter().zip(items).all(|(one, other)| value_fits(one, other))
        }
        (Value::Object(expected), Value::Object(members)) => members_fit(expected, members),
        (expected, value) => expected == value,
    }
}

/// Whether a text is what the glob writes, or fits it without leading elsewhere.
fn text_fits(glob: &str, text: &str) -> bool {
    let is_exact = || globset::escape(text) == glob;
    let is_plain = || {
        let is_step = |part: &str| matches!(part, "." | "..");
        // The first character decides whether a text is a path from the root, an option of a command, or neither.
        let is_special = |text: &str| text.starts_with(['/', '\\', '-']);
        !text.split(['/', '\\']).any(is_step)
            && !text.chars().any(char::is_control)
            && (is_special(glob) || !is_special(text))
    };
    is_exact() || is_plain() && matcher(glob).is_ok_and(|glob| glob.is_match(text))
}

/// Whether a class of characters in the glob, such as `[!a]` or `[+-9]`, fits what separates the parts of a path.
fn has_crossing_class(glob: &str) -> bool {
    let mut rest = glob;
    while let Some((_, class)) = rest.split_once('[') {
        // A `]` that comes first is one of its characters.
        let end = class.char_indices().skip(1).find(|(_, c)| *c == ']').map(|(end, _)| end);
        let Some(end) = end else { return false };
        let chars: Vec<char> = class[..end].chars().collect();
        let fits = |separator: char| {
            let is_between = |ends: &[char]| ends[1] == '-' && (ends[0]..=ends[2]).contains(&separator);
            chars.contains(&separator) || chars.windows(3).any(is_between)
        };
        if chars.starts_with(&['!']) || chars.starts_with(&['^']) || fits('/') || fits('\\') {
            return true;
        }
        rest = &class[end + 1..];
    }
    false
}

fn matcher(glob: &str) -> Result<globset::GlobMatcher> {
    if has_crossing_class(glob) {
        let sentence = format!("the glob {glob} has a class of characters that fits / or \\");
        return Err(invalid(&sentence));
    }
    let built = GlobBuilder::new(glob).literal_separator(true).backslash_escape(false).build();
    built
        .map(|glob| glob.compile_matcher())
        .map_err(|error| invalid(&format!("the glob {glob} cannot be read: {}", error.kind())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pattern(json: Value) -> ArgumentPattern {
        ArgumentPattern::from_json(json).unwrap()
    }

    fn args(args: &[&str]) -> Vec<String> {
        args.iter().map(|&arg| arg.to_owned()).collect()
    }

    #[test]
    fn a_pattern_fits_what_it_describes_and_nothing_else() {
        let writes =
            pattern(json!({"input": {"path": "out/*.md", "tries": 2, "tags": ["a*", {"deep": "x"}]}}));
        let fitting = json!({"path": "out/a.md", "tries": 2, "tags": ["ab", {"deep": "x"}]});
        assert!(writes.fits(Some(&fitting), &[]));
        for (member, value) in [
            ("path", json!("out/../a.md")),
            ("path", json!("out/..\\a.md")),
            ("path", json!("../out/a.md")),
            ("path", json!("/out/a.md")),
            ("path", json!("out/deep/a.md")),
            ("path", json!("out/a.md\n")),
            ("path", json!("out/a\nb.md")),
            ("path", json!("out/a\u{0}.md")),
            ("path", json!("Out/a.md")),
            ("path", json!(["out/a.md"])),
            ("path", json!(null)),
            ("tries", json!("2")),
            ("tries", json!(2.5)),
            ("tries", json!(true)),
            ("tags", json!(["ab", {"deep": "x"}, "more"])),
            ("tags", json!(["ab"])),
            ("tags", json!([{"deep": "x"}, "ab"])),
            ("tags", json!(["ab", {"deep": "x", "more": 1}])),
            ("tags", json!(["a/b", {"deep": "x"}])),
            ("more", json!(1)),
            ("__proto__", json!({})),
        ] {
            let mut other = fitting.clone();
            other[member] = value;
            assert!(!writes.fits(Some(&other), &[]), "{other}");
        }
        for other in
            [json!({"path": "out/a.md"}), json!({}), json!([fitting]), json!("out/a.md"), json!(null)]
        {
            assert!(!writes.fits(Some(&other), &[]), "{other}");
        }
        assert!(!writes.fits(None, &[]) && !writes.fits(Some(&fitting), &args(&["more"])));
    }

    #[test]
    fn each_argument_fits_its_glob() {
        let log = pattern(json!({"args": ["log", "--since=*", "docs/**"]}));
        for (given, expected) in [
            (&["log", "--since=2 days", "docs/a/b"][..], true),
            (&["log", "--since=/etc/passwd", "docs/a"], false),
            (&["log", "--since=2", "docs/../a"], false),
            (&["log", "--since=2", "docs/./a"], false),
            (&["log", "--since=2"], false),
            (&["log", "--since=2", "docs/a", "--exec"], false),
            (&["--since=2", "log", "docs/a"], false),
            (&["LOG", "--since=2", "docs/a"], false),
        ] {
            assert_eq!(log.fits(None, &args(given)), expected, "{given:?}");
            assert!(!log.fits(Some(&json!({"path": "a"})), &args(given)), "input beside {given:?}");
        }
        for special in ["/etc", "--exec", "-x"] {
            assert!(!pattern(json!({"args": ["**"]})).fits(None, &args(&[special])));
        }
        assert!(pattern(json!({"args": ["/srv/*"]})).fits(None, &args(&["/srv/a"])));
    }

    #[test]
    fn a_class_that_fits_a_separator_is_refused() {
        for glob in
            ["out[!a]x", "out[^a]x", "out[+-9]x", "out[a/]x", "out[--0]x", "out[]!-~]x", "[a]{b,[!c]}"]
        {
            let refused = ArgumentPattern::from_json(json!({"args": [glob]})).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Usage, "{glob}");
            // As in a store that an earlier version wrote.
            let stored = ArgumentPattern { input: None, args: Some(args(&[glob])) };
            assert!(!stored.fits(None, &args(&["out/x"])), "{glob}");
        }
        let digit = pattern(json!({"args": ["out[0-9a-f-]x"]}));
        assert!(digit.fits(None, &args(&["out7x"])) && !digit.fits(None, &args(&["out/x"])));
    }

    #[test]
    fn exact_arguments_fit_themselves_and_no_wildcard_of_theirs_counts() {
        let texts = ["*", "a[b]", "{a,b}", "?", "..", "../x", "a\\b", "a\nb", "", "**", "!x", "[", "\\", "/"];
        for text in texts {
            let input = json!({"text": text, "list": [text, {"deep": text}]});
            let exact = ArgumentPattern::exactly(Some(&input), &args(&[text])).unwrap();
            assert!(exact.fits(Some(&input), &args(&[text])), "{text:?}");
            let read_back = pattern(exact.to_json());
            assert!(read_back.fits(Some(&input), &args(&[text])), "{text:?}");
            for other in texts.iter().chain(&["a", "b", "ab", "x/y"]).filter(|other| **other != text) {
                assert!(!exact.fits(Some(&input), &args(&[other])), "{text:?} {other:?}");
                let changed = json!({"text": other, "list": [text, {"deep": text}]});
                assert!(!exact.fits(Some(&changed), &args(&[text])), "{text:?} {other:?}");
            }
        }
    }

    #[test]
    fn an_empty_pattern_fits_all_and_what_is_no_pattern_is_refused() {
        let any = pattern(json!({}));
        assert!(any.is_any() && any == ArgumentPattern::any() && any.to_json() == json!({}));
        assert!(any.fits(Some(&json!([1])), &args(&["../x"])) && any.fits(None, &[]));
        let nothing = pattern(json!({"input": {}}));
        assert!(nothing.fits(None, &[]) && nothing.fits(Some(&json!({})), &[]));
        assert!(!nothing.is_any() && !nothing.fits(Some(&json!({"a": null})), &[]));
        let long = "x".repeat(MAX_PATTERN_BYTES);
        for wrong in [
            json!(null),
            json!([]),
            json!({"inputs": {}}),
            json!({"input": []}),
            json!({"input": {}, "more": 1}),
            json!({"args": "x"}),
            json!({"args": [1]}),
            json!({"args": ["["]}),
            json!({"input": {"a": [{"b": "{a"}]}}),
            json!({"args": [long]}),
        ] {
            let error = ArgumentPattern::from_json(wrong.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage, "{wrong}");
        }
        assert!(ArgumentPattern::exactly(Some(&json!(3)), &[]).is_err());
    }
}
