//! Whose form a person is shown: that of a skill that is trusted now, with the files that it has now.

use rmcp::ErrorData;
use sha2::{Digest, Sha256};

use super::forms::Form;
use super::handler::Handler;
use metier_core::policy::SkillDigest;

/// What a form is bound to.
#[derive(Default)]
pub(super) struct FormTrust {
    /// Whether its skill is still trusted; the form of another is not shown.
    pub(super) is_trusted: bool,
    /// What its answers are for: the digest of the files of the skill, if it has one, and the forms that are shown.
    pub(super) digest: Option<String>,
}

impl Handler {
    /// Reads the files of the skill, if it has forms.
    pub(super) async fn form_trust(&self, skill: &str, forms: &[Form]) -> Result<FormTrust, ErrorData> {
        if forms.is_empty() {
            return Ok(FormTrust { is_trusted: true, digest: None });
        }
        let (name, shown) = (skill.to_owned(), SkillDigest::new(Sha256::digest(format!("{forms:?}")).into()));
        self.read(None, move |engine, inventory, _| {
            let Some(served) = inventory.skill(&name) else { return FormTrust::default() };
            match engine.trusted_files(&served.skill) {
                Ok(trusted) => {
                    FormTrust { is_trusted: true, digest: Some(format!("{} {shown}", trusted.digest)) }
                }
                // A skill may have no digest, because of what else lies in its folder.
                Err(_) => FormTrust {
                    is_trusted: engine.trust_state(&served.skill).is_trusted(),
                    digest: Some(shown.to_string()),
                },
            }
        })
        .await
    }
}
