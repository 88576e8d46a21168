//! What a watched run was refused, from all that its sandbox observed.

use std::collections::BTreeSet;
use std::path::Path;

use crate::observation::program_search::ProgramSearches;
use crate::observation::refusal::refusal;
use crate::observation::refusal_list::RefusalList;
use crate::observation::run_files::{Covered, RunFiles};
use metier_core::host::{RefusedAccess, SkillContext};
use metier_sandbox::{AccessKind, SupervisorReport};

impl RunFiles {
    /// What it was refused, of a run that has ended with this report and whose folders are still there. Without observations it is nothing.
    pub(crate) fn refused_accesses(
        &self,
        ctx: &SkillContext,
        report: &SupervisorReport,
    ) -> Vec<RefusedAccess> {
        let Some(observed) = &report.observations else { return Vec::new() };
        let covered = Covered::in_report(report);
        let makes = |kind: AccessKind| matches!(kind, AccessKind::Create | AccessKind::CreateFolder);
        let created: BTreeSet<&Path> = observed
            .accesses
            .iter()
            .filter(|access| makes(access.kind))
            .map(|access| Path::new(&access.path))
            .collect();
        let mut programs = ProgramSearches::default();
        let mut list = RefusalList::default();
        for access in &observed.accesses {
            if !programs.add(self, access) {
                list.extend(refusal(ctx, self, covered, access, |path| created.contains(path)));
            }
        }
        programs.into_refused_accesses(ctx, self).chain(list.into_refused_accesses()).collect()
    }
}
