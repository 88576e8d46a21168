//! Parses the text of a `SKILL.md` to a [`Manifest`] and the text of a `skill.yaml` to a [`Contract`](contract::Contract), each with
//! [`Diagnostic`]s. Nothing here accesses the disk.
//!
//! A skill gets two verdicts. [`ParsedSkill::is_valid`] applies the specification, as a [`Profile`] reads it.
//! [`ParsedSkill::is_loadable`] is lenient, as clients are advised to be, so that a cosmetic error never hides a skill.

#[doc(inline)]
pub use metier_skill::{
    Diagnostic, KeyClass, Manifest, ParsedSkill, Profile, RULES, Rule, Severity, SkillLocation, UnknownKey,
    UnknownProfile, parse, suggested_name,
};

pub mod comparison {
    //! Compares two versions of a skill by their contracts, and says how large the change of the version must be.
    //!
    //! A *major* change may break a caller, or asks whoever runs the skill for something more. With a *minor* change callers go on as
    //! before, and can do more. A *patch* changes what people read, or nothing that a contract says. What cannot be decided is
    //! `unknown`.

    #[doc(inline)]
    pub use metier_skill::comparison::{Change, Comparison, Finding, VersionChange, compare};
}

pub mod contract {
    //! A skill's contract: the `skill.yaml` or `skill.json` beside a `SKILL.md`, or alone.
    //!
    //! A model reads `SKILL.md`, which is enough for a skill. The contract is for programs: it declares inputs, outputs, scripts,
    //! limits, permissions and dependencies. Its keys stand below one key `skill` or at the top of the file; [`Contract`] lists them.
    //! All are optional, and unknown ones are kept.
    //!
    //! Parsing gives the [`Contract`] and its [`Diagnostic`](super::Diagnostic)s. With a diagnostic that blocks there is no contract;
    //! the skill is still listed, but does not run, because its input could not be validated. If both files name the same thing, they
    //! must agree, except for descriptions.

    #[doc(inline)]
    pub use metier_core::sanitizer::SanitizeProfile;
    #[doc(inline)]
    pub use metier_skill::contract::{
        Contract, ContractLimits, ContractMetadata, DefinitionFormat, Dependencies, Dependency, Enrichment,
        Entrypoint, Example, HostNeeds, HttpCall, Infrastructure, InfrastructureKind, InputForm,
        McpServerAddress, NamedPersona, ParsedContract, PermissionRequest, Persona, ProvidedResource,
        ProvidedTool, Publication, ResourceSource, ResourceUri, Schema, Sensitivity, StepsForm, ToolAliases,
        ToolHandler, Turn, ValidationFailure, compose, parse, parse_with_manifest,
    };
}
