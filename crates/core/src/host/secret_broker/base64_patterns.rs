//! What base64 makes of a secret, wherever the secret begins in what is encoded.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::forms::{Unit, forms};

/// The characters of base64 that have bits of a secret, at each of the three places that the secret may have there: in the first and the last
/// one there may also be bits of what stands beside it. With those of the forms that the secret has in addresses and JSON.
pub(super) fn base64_patterns(value: &str, placeholder: &str) -> Vec<Vec<Unit>> {
    let mut pairs: Vec<(String, String)> = forms(value).into_iter().zip(forms(placeholder)).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let pairs = pairs.into_iter();
    pairs
        .flat_map(|(value, placeholder)| [0, 1, 2].map(|before| pattern(&value, &placeholder, before)))
        .collect()
}

fn pattern(value: &str, placeholder: &str, before: usize) -> Vec<Unit> {
    let encode = |text: &str| STANDARD_NO_PAD.encode([&vec![0; before], text.as_bytes()].concat());
    let (own, other) = (encode(value), encode(placeholder));
    let bits = (before * 8, (before + value.len()) * 8);
    let units = own.bytes().zip(other.bytes()).enumerate().filter_map(|(at, (own, other))| {
        let (first, last) = (at * 6, at * 6 + 6);
        let is_touched = last > bits.0 && first < bits.1;
        let is_whole = first >= bits.0 && last <= bits.1;
        is_touched.then_some(Unit {
            value: is_whole.then_some(own),
            placeholder: if is_whole { other } else { b'A' },
        })
    });
    units.collect()
}
