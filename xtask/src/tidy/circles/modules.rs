//! The modules of a crate, parsed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, UseTree};

use super::ModulePath;

/// A file of a crate as a module.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// The file, relative to the source folder.
    pub(super) file: PathBuf,
    /// Names that it defines.
    pub(super) defined: BTreeSet<String>,
    /// Imported names, each with the path that it stands for.
    pub(super) imported: BTreeMap<String, Vec<String>>,
    /// Paths of modules whose names are all imported.
    pub(super) globs: Vec<Vec<String>>,
    /// Paths that it uses, also those of imports.
    pub(super) paths: Vec<Vec<String>>,
}

/// Parses all files of a crate but its tests.
pub(super) fn of_crate(folder: &Path) -> Result<BTreeMap<ModulePath, Module>> {
    let source = folder.join("src");
    let mut modules = BTreeMap::new();
    for path in disk::list_files(&source)? {
        let file = path.strip_prefix(&source).unwrap_or(&path);
        let is_test = file.components().any(|part| part.as_os_str() == "tests")
            || file.file_name().is_some_and(|name| name == "tests.rs");
        if !is_test && file.extension().is_some_and(|extension| extension == "rs") {
            let module = Module::parse(file, &disk::read_text(&path)?)
                .with_context(|| path.display().to_string())?;
            modules.insert(module_path(file), module);
        }
    }
    Ok(modules)
}

/// Returns the module that a file is: `a/mod.rs` and `a.rs` are `a`, `lib.rs` and `main.rs` the
/// root.
fn module_path(file: &Path) -> ModulePath {
    let mut path: ModulePath =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let is_own_name = path.last().is_some_and(|name| name != "mod");
    if !is_own_name || (path.len() == 1 && ["lib", "main"].contains(&path[0].as_str())) {
        path.pop();
    }
    path
}

impl Module {
    /// Parses a file.
    pub(super) fn parse(file: &Path, text: &str) -> Result<Self> {
        let mut module = Self { file: file.to_owned(), ..Self::default() };
        let syntax = syn::parse_file(text)?;
        module.defined = syntax.items.iter().filter_map(name_of).collect();
        module.visit_file(&syntax);
        Ok(module)
    }

    fn import(&mut self, tree: &UseTree, before: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before);
                before.pop();
            }
            UseTree::Name(name) => self.import_as(name.ident.to_string(), &name.ident, before),
            UseTree::Rename(name) => self.import_as(name.rename.to_string(), &name.ident, before),
            UseTree::Glob(_) => self.globs.push(before.clone()),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(tree, before));
            }
        }
    }

    fn import_as(&mut self, name: String, last: &syn::Ident, before: &[String]) {
        let (mut path, mut name) = (before.to_vec(), name);
        if last == "self" {
            name = if name == "self" { before.last().cloned().unwrap_or_default() } else { name };
        } else {
            path.push(last.to_string());
        }
        self.paths.push(path.clone());
        self.imported.insert(name, path);
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast Item) {
        if !attributes_of(item).iter().any(is_cfg_test) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.import(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string());
        self.paths.push(names.collect());
        visit::visit_path(self, path);
    }
}

fn is_cfg_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Ident>().is_ok_and(|word| word == "test")
}

fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns the name of an item; modules are found by their files.
fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
