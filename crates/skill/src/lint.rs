//! The rules that the parser checks: one row each, with a stable code.

use super::diagnostic::Severity::{self, Error, Info, Warning};

/// What a diagnostic with this code means, and what follows from it.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// The stable name, such as `name-too-long`.
    pub code: &'static str,
    /// Its severity under the profile `spec`.
    pub severity: Severity,
    /// Whether a skill does not load if this is found in its `SKILL.md`, and does not run if it is found in its contract.
    pub blocks: bool,
    /// One sentence for the list of codes.
    pub meaning: &'static str,
}

const LOADS: bool = false;
const BLOCKS: bool = true;

macro_rules! rules {
    ($($name:ident = $code:literal, $severity:ident, $blocks:ident, $meaning:literal;)*) => {
        $(pub(crate) const $name: Rule =
            Rule { code: $code, severity: $severity, blocks: $blocks, meaning: $meaning };)*

        /// All codes, in the order in which a file is read.
        pub const RULES: &[Rule] = &[$($name),*];
    };
}

rules! {
    FILE_NAME = "file-name", Error, LOADS, "The file is called something other than SKILL.md.";
    FILE_NAME_LOWERCASE = "file-name-lowercase", Warning, LOADS, "The file is called skill.md.";
    SCRIPT_UNDESCRIBED = "script-undescribed", Warning, LOADS, "A script that is a skill by itself has no description.";
    NOT_UTF8 = "not-utf8", Error, BLOCKS, "The file is not UTF-8 text.";
    BYTE_ORDER_MARK = "byte-order-mark", Warning, LOADS, "The file starts with a byte order mark.";
    LEADING_BLANK_LINES = "leading-blank-lines", Warning, LOADS, "Blank lines stand before the frontmatter.";
    CRLF = "crlf", Info, LOADS, "Lines end in CR LF.";
    CONTROL_CHARACTER = "control-character", Error, BLOCKS, "The frontmatter or contract holds a control character.";
    BODY_CONTROL_CHARACTER = "body-control-character", Warning, LOADS, "The body holds a control character.";
    FRONTMATTER_MISSING = "frontmatter-missing", Error, LOADS, "The file does not start with frontmatter; its first paragraph describes the skill.";
    FRONTMATTER_MISPLACED = "frontmatter-misplaced", Error, BLOCKS, "Other lines stand before the frontmatter.";
    FRONTMATTER_UNCLOSED = "frontmatter-unclosed", Error, BLOCKS, "The frontmatter has no closing line.";
    FRONTMATTER_TOO_LARGE = "frontmatter-too-large", Error, BLOCKS, "The frontmatter is larger than 64 KiB.";
    YAML_INVALID = "yaml-invalid", Error, BLOCKS, "The frontmatter or contract is not YAML.";
    YAML_REPAIRED = "yaml-repaired", Error, LOADS, "The frontmatter became YAML once values were quoted.";
    YAML_DUPLICATE_KEY = "yaml-duplicate-key", Error, BLOCKS, "A key appears twice in one map.";
    YAML_KEY_NOT_TEXT = "yaml-key-not-text", Error, BLOCKS, "A key is a list or a map.";
    YAML_TOO_DEEP = "yaml-too-deep", Error, BLOCKS, "Lists and maps are nested too deeply.";
    YAML_TOO_BIG = "yaml-too-big", Error, BLOCKS, "There are too many values, or aliases multiply them.";
    YAML_TEXT_DROPPED = "yaml-text-dropped", Warning, LOADS, "YAML leaves out a part of a value, as a comment, an anchor or a tag.";
    NOT_A_MAP = "not-a-map", Error, BLOCKS, "The frontmatter is YAML, but not a map.";
    NAME_MISSING = "name-missing", Error, LOADS, "There is no name.";
    NAME_NOT_TEXT = "name-not-text", Error, LOADS, "The name is a list or a map.";
    NAME_EMPTY = "name-empty", Error, LOADS, "The name is empty.";
    NAME_TOO_LONG = "name-too-long", Error, LOADS, "The name is longer than 64 characters.";
    NAME_UPPERCASE = "name-uppercase", Error, LOADS, "The name is not lowercase.";
    NAME_EDGE_HYPHEN = "name-edge-hyphen", Error, LOADS, "The name starts or ends with a hyphen.";
    NAME_DOUBLE_HYPHEN = "name-double-hyphen", Error, LOADS, "The name holds two hyphens in a row.";
    NAME_CHARACTERS = "name-characters", Error, LOADS, "The name holds other than letters, digits and hyphens.";
    NAME_MISMATCH = "name-mismatch", Error, LOADS, "The name is not the directory's name.";
    NAME_NOT_NORMALISED = "name-not-normalised", Warning, LOADS, "The name changes under Unicode NFKC.";
    NAME_NOT_ASCII = "name-not-ascii", Warning, LOADS, "The name holds letters some clients refuse.";
    DESCRIPTION_MISSING = "description-missing", Error, BLOCKS, "There is no description.";
    DESCRIPTION_ASSUMED = "description-assumed", Error, LOADS, "A skill with keys of SWEny has no description.";
    DESCRIPTION_NOT_TEXT = "description-not-text", Error, BLOCKS, "The description is a list or a map.";
    DESCRIPTION_EMPTY = "description-empty", Error, BLOCKS, "The description is empty.";
    DESCRIPTION_TOO_LONG = "description-too-long", Error, LOADS, "The description has over 1024 characters.";
    LICENSE_NOT_TEXT = "license-not-text", Error, LOADS, "The license is a list or a map.";
    COMPATIBILITY_NOT_TEXT = "compatibility-not-text", Error, LOADS, "The compatibility is a list or a map.";
    COMPATIBILITY_EMPTY = "compatibility-empty", Error, LOADS, "The compatibility is there, but empty.";
    COMPATIBILITY_TOO_LONG = "compatibility-too-long", Error, LOADS, "The compatibility has over 500 characters.";
    COMPATIBILITY_VERSION = "compatibility-version", Warning, LOADS, "The compatibility is a range that this version of metier is not in.";
    METADATA_LIMIT = "metadata-limit", Error, BLOCKS, "A limit under metadata is not a whole number of at least 1.";
    METADATA_NOT_A_MAP = "metadata-not-a-map", Error, LOADS, "The metadata is not a map.";
    METADATA_NESTED = "metadata-nested", Warning, LOADS, "A metadata value is a list or a map.";
    ALLOWED_TOOLS_NOT_TEXT = "allowed-tools-not-text", Error, LOADS, "An allowed tool is not a name.";
    ALLOWED_TOOLS_FORM = "allowed-tools-form", Warning, LOADS, "The allowed tools are not one line with spaces.";
    ALLOWED_TOOLS_UNBALANCED = "allowed-tools-unbalanced", Warning, LOADS, "A tool's parenthesis has no partner.";
    VERSION_SHORT = "version-short", Info, LOADS, "The version is semantic once it is completed.";
    VERSION_NOT_SEMANTIC = "version-not-semantic", Warning, LOADS, "The version is not a semantic version.";
    RUNTIME_NOT_TEXT = "runtime-not-text", Error, LOADS, "The runtime is not a name.";
    METADATA_RUNTIME = "metadata-runtime", Warning, LOADS, "The runtime under metadata is not a name, and means something else to another client.";
    RUNTIME_DISAGREES = "runtime-disagrees", Error, LOADS, "Two runtimes are named, and they differ.";
    RUNTIME_AT_TOP_LEVEL = "runtime-at-top-level", Info, LOADS, "The runtime stands outside the metadata.";
    KEY_EXTENSION = "key-extension", Warning, LOADS, "A key is some client's extension.";
    KEY_BELONGS_IN_METADATA = "key-belongs-in-metadata", Warning, LOADS, "A key belongs under metadata.";
    KEY_TYPO = "key-typo", Warning, LOADS, "A key looks like a misspelt one.";
    KEY_UNKNOWN = "key-unknown", Warning, LOADS, "A key is nobody's.";
    SWENY_KEY_IGNORED = "sweny-key-ignored", Warning, LOADS, "A key of SWEny, or a part of it, is left out.";
    STDIO_COMMAND_DECLARED = "stdio-command-declared", Warning, LOADS, "A SKILL.md names a program that would be a server.";
    KEY_UNEXPECTED = "key-unexpected", Error, LOADS, "skills-ref: a key is outside the specification.";
    YAML_NOT_STRICT = "yaml-not-strict", Error, LOADS, "skills-ref: the YAML is outside the strict subset.";
    CONTRACT_UNREADABLE = "contract-unreadable", Error, BLOCKS, "The skill.yaml cannot be read.";
    CONTRACT_TOO_LARGE = "contract-too-large", Error, BLOCKS, "The skill.yaml is larger than 256 KiB.";
    CONTRACT_TWICE = "contract-twice", Error, BLOCKS, "There are several files that can be the contract.";
    JSON_INVALID = "json-invalid", Error, BLOCKS, "The skill.json is not JSON.";
    FORMAT_UNKNOWN = "format-unknown", Error, BLOCKS, "A definition is in no format that metier reads.";
    FORMAT_FOREIGN = "format-foreign", Warning, LOADS, "A file beside a SKILL.md is no definition of a skill, and is left out.";
    FORMAT_MIXED = "format-mixed", Error, BLOCKS, "A definition has the keys of two formats.";
    FIELD_MISSING = "field-missing", Error, BLOCKS, "A definition lacks a key that its format requires.";
    FIELD_UNKNOWN = "field-unknown", Error, BLOCKS, "A definition has a key that its format does not allow.";
    IDENTIFIER_INVALID = "identifier-invalid", Error, BLOCKS, "A name cannot be one in the format of its definition.";
    CAPABILITY_UNKNOWN = "capability-unknown", Error, BLOCKS, "A definition names a capability that does not exist.";
    INVARIANT_BROKEN = "invariant-broken", Error, BLOCKS, "A definition breaks a numbered rule of its format.";
    DESCRIPTION_ABSENT = "description-absent", Warning, LOADS, "A definition without a SKILL.md describes nothing.";
    CONTRACT_MIXED_ROOT = "contract-mixed-root", Error, BLOCKS, "Keys stand beside `skill:` and not below it.";
    CONTRACT_VALUE = "contract-value", Error, BLOCKS, "A value of the contract is not of the kind its key takes.";
    CONTRACT_KEY = "contract-key", Error, BLOCKS, "A key of the contract is another one, misspelt or by another name.";
    CONTRACT_DISAGREES = "contract-disagrees", Error, BLOCKS, "The contract and SKILL.md say different things.";
    CONSTRAINT_UNKNOWN = "constraint-unknown", Error, BLOCKS, "An input or output has a constraint nobody knows.";
    CONSTRAINT_TWICE = "constraint-twice", Error, BLOCKS, "A constraint is given twice, with different values.";
    CONSTRAINT_EMPTY = "constraint-empty", Error, BLOCKS, "A constraint leaves no value that could fit.";
    CONSTRAINT_IDLE = "constraint-idle", Warning, LOADS, "A constraint does not apply to values of the type.";
    INPUT_UNDECIDED = "input-undecided", Info, LOADS, "An input is neither required nor has it a default.";
    INPUT_REQUIRED_DEFAULT = "input-required-default", Warning, LOADS, "A required input has a default.";
    SCHEMA_INVALID = "schema-invalid", Error, BLOCKS, "The inputs or outputs are no JSON Schema.";
    SCHEMA_REFERENCE = "schema-reference", Error, BLOCKS, "A reference leaves the schema, leads nowhere or in a circle.";
    SCHEMA_TOO_LARGE = "schema-too-large", Error, BLOCKS, "A schema is too large or too deep to check values with.";
    SCHEMA_UNCHECKED = "schema-unchecked", Error, BLOCKS, "A schema needs the feature json-schema, which this build lacks.";
    DEFAULT_INVALID = "default-invalid", Error, BLOCKS, "A default breaks the contract it belongs to.";
    EXAMPLE_INVALID = "example-invalid", Error, LOADS, "An example breaks the contract it belongs to.";
    ENTRYPOINT_OUTSIDE = "entrypoint-outside", Error, BLOCKS, "An entrypoint is not a path in the skill's folder.";
    PERMISSION_UNKNOWN = "permission-unknown", Warning, LOADS, "A permission is not one of metier's, and grants nothing.";
    FINDINGS_LEFT_OUT = "findings-left-out", Info, LOADS, "There are more findings than are listed.";
    DEPENDENCY_INVALID = "dependency-invalid", Error, BLOCKS, "A dependency cannot be looked up as it is written.";
    TOOL_INVALID = "tool-invalid", Error, BLOCKS, "A tool cannot be called as it is declared.";
    FORM_INVALID = "form-invalid", Error, BLOCKS, "A form cannot ask a person as it is declared.";
    RESOURCE_INVALID = "resource-invalid", Error, BLOCKS, "A resource or an attachment cannot be read as it is declared.";
    CONFIG_INVALID = "config-invalid", Error, BLOCKS, "A setting cannot be given to a skill as it is declared.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_kebab_case() {
        let mut codes: Vec<_> = RULES.iter().map(|rule| rule.code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), RULES.len());
        assert!(
            codes.iter().all(|code| code.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '8'))
        );
    }

    #[test]
    fn what_blocks_loading_is_an_error() {
        assert!(RULES.iter().filter(|rule| rule.blocks).all(|rule| rule.severity == Error));
    }
}
