//! Reads the definitions of other systems, and writes them.

#[doc(inline)]
pub use metier_skill::formats::{
    ExportFormat, ExportSource, Exported, ImportedSkill, PackageFilter, PackageRegistry, PublishedPackage,
    SWENY_SKILL_SCHEMA, export, import, parse,
};
