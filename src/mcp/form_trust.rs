//! Whose form a person is shown: that of a skill that is trusted now, with the files that it has now.

use rmcp::ErrorData;

use super::forms::Form;
use super::handler::Handler;
use crate::error::ErrorKind;

/// What a form is bound to.
#[derive(Default)]
pub(super) struct FormTrust {
    /// Whether its skill is still trusted; the form of another is not shown.
    pub(super) is_trusted: bool,
    /// The digest of the files of the skill, if it has one.
    pub(super) digest: Option<String>,
}

impl Handler {
    /// Reads the files of the skill, if it has forms.
    pub(super) async fn form_trust(&self, skill: &str, forms: &[Form]) -> Result<FormTrust, ErrorData> {
        if forms.is_empty() {
            return Ok(FormTrust { is_trusted: true, digest: None });
        }
        let name = skill.to_owned();
        self.read(move |engine, inventory, _| {
            let Some(served) = inventory.skill(&name) else { return FormTrust::default() };
            match engine.trusted_files(&served.skill) {
                Ok(trusted) => FormTrust { is_trusted: true, digest: Some(trusted.digest.to_string()) },
                Err(error) if error.kind() == ErrorKind::Untrusted => FormTrust::default(),
                // A skill without a digest, because of what else lies in its folder.
                Err(_) => FormTrust { is_trusted: true, digest: None },
            }
        })
        .await
    }
}
