//! Files of each format, made from lists of variants, each with the verdict that the rules of the format give.
//!
//! The rules stand here once more, beside the readers: each variant of a key says whether the format accepts it, and a file is
//! accepted if all that is in it is. The lists and the order in which they are combined are fixed.

mod agentskit;
mod article;
mod curia;
mod sweny;

use std::collections::BTreeMap;

use metier::formats::parse;
use serde_json::{Map, Value};

/// A variant of the value of a key, and whether the format accepts it; `None` leaves the key out.
struct Variant {
    value: Option<Value>,
    is_accepted: bool,
}

/// A key and its variants. The first one stands in every file that varies something else.
struct Key {
    name: &'static str,
    variants: Vec<Variant>,
}

/// A format: its file, its keys, and rules that need more than one key.
struct Format {
    file: &'static str,
    keys: Vec<Key>,
    is_consistent: fn(&Map<String, Value>) -> bool,
    /// Puts the keys where the format has them.
    wrap: fn(Map<String, Value>) -> Value,
}

/// A key of which these values are accepted and those are not.
fn key(name: &'static str, accepted: Vec<Option<Value>>, refused: Vec<Option<Value>>) -> Key {
    let accepted = accepted.into_iter().map(|value| Variant { value, is_accepted: true });
    let refused = refused.into_iter().map(|value| Variant { value, is_accepted: false });
    Key { name, variants: accepted.chain(refused).collect() }
}

/// The values of a list as variants.
macro_rules! values {
    ($($value:tt),* $(,)?) => { vec![$(Some(json!($value))),*] };
}
use values;

/// A generator of numbers, always the same ones.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        // The constants of Knuth's MMIX; the high bits are the good ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

impl Format {
    /// The file in which the keys have these variants, and its verdict.
    fn written(&self, chosen: &[usize]) -> (String, bool) {
        let (mut object, mut is_accepted) = (Map::new(), true);
        for (key, variant) in self.keys.iter().zip(chosen) {
            let Variant { value, is_accepted: is_fine } = &key.variants[*variant];
            object.extend(value.clone().map(|value| (key.name.to_owned(), value)));
            is_accepted &= is_fine;
        }
        let is_accepted = is_accepted && (self.is_consistent)(&object);
        ((self.wrap)(object).to_string(), is_accepted)
    }

    /// Every variant of each key alone, and 400 combinations of up to three.
    fn files(&self) -> BTreeMap<String, bool> {
        let first = vec![0; self.keys.len()];
        let mut files = BTreeMap::from([self.written(&first)]);
        for (at, key) in self.keys.iter().enumerate() {
            for variant in 1..key.variants.len() {
                let mut chosen = first.clone();
                chosen[at] = variant;
                files.extend([self.written(&chosen)]);
            }
        }
        let mut numbers = Numbers(19);
        for number in 0..400 {
            let mut chosen = first.clone();
            for _ in 0..=numbers.below(3) {
                let at = numbers.below(self.keys.len());
                let variants = &self.keys[at].variants;
                // Every second one of what is accepted, which would be rare otherwise.
                let accepted = variants.iter().filter(|variant| variant.is_accepted).count();
                chosen[at] = numbers.below(if number % 2 == 0 { accepted } else { variants.len() });
            }
            files.extend([self.written(&chosen)]);
        }
        files.extend(self.hostile());
        files
    }

    /// Texts that are no file of any format, whatever they say.
    fn hostile(&self) -> Vec<(String, bool)> {
        let (fine, is_accepted) = self.written(&vec![0; self.keys.len()]);
        assert!(is_accepted, "{fine}");
        let inner = fine.strip_suffix('}').unwrap();
        let deep = format!("{inner},\"x\":{}1{}}}", "[".repeat(40), "]".repeat(40));
        let wide = format!("{inner},\"x\":[{}1]}}", "1,".repeat(10_001));
        let large = format!("{inner},\"x\":\"{}\"}}", "a".repeat(256 * 1024));
        let cut = (1..20).map(|part| fine[..fine.len() * part / 20].to_owned());
        let twice = format!("{inner},{}", &fine[1..]);
        let mut texts: Vec<String> = cut.collect();
        texts.extend([
            deep,
            wide,
            large,
            twice,
            format!("{fine} {fine}"),
            format!("{fine}\u{1}"),
            format!("[{fine}]"),
        ]);
        texts.extend([String::new(), "null".to_owned(), "[]".to_owned(), "\"x\"".to_owned(), "5".to_owned()]);
        texts.into_iter().map(|text| (text, false)).collect()
    }

    /// Reads every file in the syntaxes of the format, and compares the verdicts.
    fn check(&self) {
        let files = self.files();
        let is_accepted = |file: &str, text: &str| parse(file, text.as_bytes(), None).contract.is_some();
        let wrong: Vec<String> = files
            .iter()
            .filter(|(text, expected)| is_accepted(self.file, text) != **expected)
            .map(|(text, expected)| {
                let start: String = text.chars().take(600).collect();
                let found = parse(self.file, text.as_bytes(), None).diagnostics;
                let found: Vec<_> = found.iter().map(|found| (found.code, &found.message)).collect();
                format!("expected {}: {start} {found:?}", if *expected { "accepted" } else { "refused" })
            })
            .collect();
        assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), files.len(), wrong.join("\n"));
        let accepted = files.values().filter(|accepted| **accepted).count();
        let refused = files.len() - accepted;
        assert!(
            files.len() >= 200 && accepted >= 40 && refused >= 100,
            "{accepted} accepted, {refused} refused"
        );
    }
}

fn any(_: &Map<String, Value>) -> bool {
    true
}

fn unwrapped(object: Map<String, Value>) -> Value {
    Value::Object(object)
}
