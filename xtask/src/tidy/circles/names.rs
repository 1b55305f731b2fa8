//! Resolution of paths to the modules that define their last names.

use std::collections::BTreeMap;

use super::ModulePath;
use super::modules::Module;

/// Most imports that are followed for one name.
const IMPORTS_MAX: usize = 12;

/// The names of a crate.
pub(super) struct Names<'m> {
    modules: &'m BTreeMap<ModulePath, Module>,
}

impl<'m> Names<'m> {
    pub(super) fn new(modules: &'m BTreeMap<ModulePath, Module>) -> Self {
        Self { modules }
    }

    /// Returns the module of this crate that defines the item at `path`, or an item whose name
    /// begins the path, as seen from a module; `None` for those of other crates.
    pub(super) fn module_of(&self, from: &ModulePath, path: &[String]) -> Option<ModulePath> {
        self.resolve(from, path, IMPORTS_MAX)
    }

    fn resolve(&self, from: &ModulePath, path: &[String], imports: usize) -> Option<ModulePath> {
        let imports = imports.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        let mut module = from.clone();
        match first.as_str() {
            "crate" => return self.resolve_in(&ModulePath::new(), rest, imports),
            "self" => return self.resolve_in(&module, rest, imports),
            "super" => {
                module.pop()?;
                return self.resolve_in(&module, rest, imports);
            }
            _ => {}
        }
        self.resolve_in(&module, path, imports)
    }

    /// Resolves a path that begins with a name of `module`.
    fn resolve_in(
        &self,
        module: &ModulePath,
        path: &[String],
        imports: usize,
    ) -> Option<ModulePath> {
        let Some((first, rest)) = path.split_first() else { return Some(module.clone()) };
        if first == "super" {
            return self.resolve(module, path, imports);
        }
        let names = self.modules.get(module)?;
        if names.defined.contains(first) {
            return Some(module.clone());
        }
        let child = [module.as_slice(), std::slice::from_ref(first)].concat();
        if self.modules.contains_key(&child) {
            return self.resolve_in(&child, rest, imports);
        }
        if let Some(imported) = names.imported.get(first) {
            let whole = [imported.as_slice(), rest].concat();
            // `use a::b;` in a file where `b` is not an item of this crate leads back to itself.
            return if whole == path { None } else { self.resolve(module, &whole, imports) };
        }
        let through =
            |glob: &Vec<String>| self.resolve(module, &[glob.as_slice(), path].concat(), imports);
        names.globs.iter().find_map(through)
    }
}
