//! Secrets as a part of base64, which a script makes of them on purpose, as for a header, and which a model can read.

use std::ops::Range;

use super::search::SecretSearch;
use super::secret::Secret;

/// The search for the secrets of a run in what is encoded.
pub struct EncodedSecrets(SecretSearch);

impl EncodedSecrets {
    pub(super) fn new(secrets: &[Secret]) -> Self {
        Self(SecretSearch::for_base64(secrets))
    }

    /// Where they are in a text, in its order, each with its placeholder; `is_cut` if the text was cut at its end.
    pub fn find(&self, text: &str, is_cut: bool) -> Vec<(Range<usize>, String)> {
        let matches = self.0.find_matches(text, is_cut);
        matches.iter().map(|found| (found.start..found.end, self.0.placeholder(found).to_owned())).collect()
    }
}
