//! In what order the modules of a plug-in are instantiated: each after the libraries that it imports from, as in Extism.

use super::compiled_plugin::PluginModule;
use metier_core::error::{ErrorKind, Result, SkillError};

/// Sorts the modules so that each follows the libraries that it imports from, and the main module is last. Fails with
/// `invalid-skill` if modules import from each other in a circle.
pub(super) fn sort_by_imports(file: &str, modules: Vec<PluginModule>) -> Result<Vec<PluginModule>> {
    let mut search = Search { file, modules: &modules, path: Vec::new(), order: Vec::new() };
    // Extism goes through the libraries by name, and then through the imports of each.
    let mut by_name: Vec<usize> = (0..modules.len()).collect();
    by_name.sort_by_key(|index| (modules[*index].library.is_none(), &modules[*index].library));
    by_name.into_iter().try_for_each(|index| search.visit(index))?;
    let order = search.order;
    let mut unsorted: Vec<Option<PluginModule>> = modules.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|index| unsorted[index].take()).collect())
}

/// A search in depth, which is at most the number of modules.
struct Search<'m> {
    file: &'m str,
    modules: &'m [PluginModule],
    /// The modules that are being visited, each imported by the one before.
    path: Vec<usize>,
    order: Vec<usize>,
}

impl Search<'_> {
    fn visit(&mut self, index: usize) -> Result<()> {
        if self.order.contains(&index) {
            return Ok(());
        }
        if let Some(start) = self.path.iter().position(|visited| *visited == index) {
            return Err(self.circle(start));
        }
        self.path.push(index);
        for library in self.modules[index].metadata.libraries() {
            let named = |module: &PluginModule| module.library.as_deref() == Some(library);
            if let Some(library) = self.modules.iter().position(named) {
                self.visit(library)?;
            }
        }
        self.path.pop();
        self.order.push(index);
        Ok(())
    }

    fn circle(&self, start: usize) -> SkillError {
        let circle = self.path[start..].iter().chain(&self.path[start..=start]);
        let names: Vec<&str> = circle.filter_map(|index| self.modules[*index].library.as_deref()).collect();
        let file = self.file;
        let sentence = match names.as_slice() {
            [name, _] => format!("{file}: the module {name} imports from itself"),
            _ => format!(
                "{file}: the modules import from each other in a circle: {}",
                names.join(" imports from ")
            ),
        };
        SkillError::new(ErrorKind::InvalidSkill, sentence)
            .with_help("move the functions that they share to a library of their own")
    }
}
