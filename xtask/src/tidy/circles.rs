//! Checks that files of different folders do not depend on each other in a circle.
//!
//! A file may use the modules around it (its `super`, up to the root of the crate): they are its
//! context. Every other dependency counts. Tests do not.

mod modules;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use barid_testkit::disk;

use self::modules::Module;
use self::names::Names;
use super::Problems;

/// The path of a module in its crate; empty for the root.
type ModulePath = Vec<String>;

/// Modules, and those that each depends on.
type Edges = BTreeMap<ModulePath, BTreeSet<ModulePath>>;

pub(super) fn check(root: &Path, problems: &mut Problems) -> Result<()> {
    for folder in disk::list_folders(&root.join("crates"))? {
        let modules = modules::of_crate(&folder)?;
        let edges = edges(&modules);
        for circle in circles(&edges) {
            let files = circle.iter().map(|path| &modules[*path].file);
            let folders: BTreeSet<_> = files.clone().map(|file| file.parent()).collect();
            if folders.len() > 1 {
                let place = folder.strip_prefix(root).unwrap_or(&folder).display();
                let files: Vec<_> = files.map(|file| file.display().to_string()).collect();
                problems.push(format!("{place}: a circle of {}", files.join(", ")));
            }
        }
    }
    Ok(())
}

/// Returns the dependencies between the modules of a crate, but not those on modules around them.
fn edges(modules: &BTreeMap<ModulePath, Module>) -> Edges {
    let names = Names::new(modules);
    let mut edges = Edges::new();
    for (path, module) in modules {
        let of_module = edges.entry(path.clone()).or_default();
        for used in &module.paths {
            if let Some(target) = names.module_of(path, used)
                && !path.starts_with(&target)
            {
                of_module.insert(target);
            }
        }
    }
    edges
}

/// Returns the sets of more than one module that all depend on each other: each is what a module
/// reaches and is reached from. O(modules times edges).
fn circles(edges: &Edges) -> Vec<BTreeSet<&ModulePath>> {
    let reached: BTreeMap<_, _> = edges.keys().map(|path| (path, reached(edges, path))).collect();
    let mut circles: Vec<BTreeSet<&ModulePath>> = Vec::new();
    for (path, from_here) in &reached {
        let is_known = circles.iter().any(|circle| circle.contains(path));
        let back = |other: &&&ModulePath| reached[**other].contains(path);
        let circle: BTreeSet<_> = from_here.iter().filter(back).copied().collect();
        if circle.len() > 1 && !is_known {
            circles.push(circle);
        }
    }
    circles
}

/// Returns the modules that a module depends on, directly or not.
fn reached<'e>(edges: &'e Edges, from: &ModulePath) -> BTreeSet<&'e ModulePath> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&ModulePath> = edges[from].iter().collect();
    while let Some(path) = next.pop() {
        if let Some((path, targets)) = edges.get_key_value(path)
            && reached.insert(path)
        {
            next.extend(targets);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(file: &str, text: &str) -> Module {
        Module::parse(Path::new(file), text).unwrap()
    }

    #[test]
    fn circles_are_found_through_reexports() {
        let path = |name: &str| name.split("::").map(str::to_owned).collect::<ModulePath>();
        let modules = BTreeMap::from([
            (ModulePath::new(), module("lib.rs", "mod a; mod b; pub use a::one::One;")),
            (path("a"), module("a/mod.rs", "mod one; pub(crate) use one::f;")),
            (path("a::one"), module("a/one.rs", "pub struct One; fn f() { crate::b::g() }")),
            (path("b"), module("b.rs", "use crate::One; pub fn g() -> One { One }")),
        ]);
        let edges = edges(&modules);
        let found = circles(&edges);
        assert_eq!(found, [BTreeSet::from([&path("a::one"), &path("b")])]);
    }

    #[test]
    fn tests_and_modules_around_do_not_count() {
        let path = |name: &str| vec![name.to_owned()];
        let modules = BTreeMap::from([
            (ModulePath::new(), module("lib.rs", "mod a; use a::A; struct Context;")),
            (path("a"), module("a.rs", "use super::Context; pub struct A;")),
            (
                path("b"),
                module("b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::c::C; }"),
            ),
            (path("c"), module("c.rs", "pub struct C(crate::b::B);")),
        ]);
        assert_eq!(circles(&edges(&modules)), Vec::<BTreeSet<_>>::new());
    }
}
