//! What was found on `PATH` for many scripts at a time: where shims lead, and which program runs the scripts of a kind.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::interpreter::cache::InterpreterQuery;
use crate::interpreter::version_manager::ShimCache;
use metier_core::error::Result;

/// Maximum number of programs that are remembered.
const MAX_PROGRAMS: usize = 32;

/// The answers of one look at many scripts. They are for that look alone: the user may install something later, and a script change its
/// project.
#[derive(Default)]
pub struct LookupCache {
    pub(crate) shims: ShimCache,
    programs: Mutex<Vec<(InterpreterQuery, PathBuf)>>,
}

impl LookupCache {
    /// The program of this query, which `locate` finds if it is not known.
    pub(crate) fn program(
        &self,
        query: InterpreterQuery,
        locate: impl FnOnce(&InterpreterQuery) -> Result<PathBuf>,
    ) -> Result<PathBuf> {
        if let Some((_, program)) = self.programs().iter().find(|(known, _)| known.locates_as(&query)) {
            return Ok(program.clone());
        }
        // It may start a program for its version, so others do not wait for it.
        let program = locate(&query)?;
        let mut programs = self.programs();
        if programs.len() < MAX_PROGRAMS {
            programs.push((query, program.clone()));
        }
        Ok(program)
    }

    fn programs(&self) -> MutexGuard<'_, Vec<(InterpreterQuery, PathBuf)>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use metier_core::error::{ErrorKind, SkillError};
    use metier_core::host::untrusted::UntrustedDirs;

    use super::*;
    use crate::interpreter::detect::Interpreter;

    fn query(script: &str, project: &str, before_path: &[&str]) -> InterpreterQuery {
        let interpreter = Interpreter::detect(script, b"").unwrap();
        let untrusted = UntrustedDirs::from_canonical([PathBuf::from(project)]);
        InterpreterQuery::new(&interpreter, Path::new(project), untrusted, &ShimCache::default())
            .with_dirs_before_path(before_path.iter().map(PathBuf::from).collect())
    }

    #[test]
    fn a_program_is_located_once_for_scripts_that_are_alike() {
        let cache = LookupCache::default();
        let found = |query, answer: &str| cache.program(query, |_| Ok(answer.into())).unwrap();
        assert_eq!(found(query("a.sh", "/nowhere/a", &[]), "one"), Path::new("one"));
        assert_eq!(found(query("b.sh", "/nowhere/b", &[]), "two"), Path::new("one"));
        assert_eq!(found(query("a.rb", "/nowhere/a", &[]), "three"), Path::new("three"));
        assert_eq!(found(query("a.sh", "/nowhere/a", &["/x"]), "four"), Path::new("four"));
        let refused = [PathBuf::from("/nowhere/a")];
        let refusing = query("a.sh", "/nowhere/a", &[]).without_programs_of(&refused);
        assert_eq!(found(refusing, "five"), Path::new("five"));
        // What is not there is looked for again, with the name of the script in the error.
        let missing = |script: &str| {
            let error = |_: &InterpreterQuery| Err(SkillError::new(ErrorKind::Unavailable, script));
            cache.program(query("a.pl", "/nowhere/a", &[]), error).unwrap_err()
        };
        assert_eq!([missing("first").message(), missing("second").message()], ["first", "second"]);
    }
}
