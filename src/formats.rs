//! Reads the definitions of other systems, and writes them.

#[doc(inline)]
pub use metier_skill::formats::{
    ExportFormat, ExportSource, Exported, ImportedSkill, PackageFilter, PackageRegistry, PublishedPackage,
    SWENY_SKILL_SCHEMA, export, import, parse,
};
#[doc(inline)]
pub use metier_skill::openapi::{
    MAX_OPENAPI_BYTES, OpenApiAuthentication, OpenApiImport, OpenApiOptions, OperationGroup, import_openapi,
};
