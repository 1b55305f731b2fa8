//! The plan: stores and compressions to run, and their counterparts in NeoMutt.

use anyhow::{Result, bail, ensure};
use barid_kv::{Choice, registry};

use super::key::{Key, NATIVE, System};
use super::method::Method;
use super::survey::Survey;
use crate::systems::neomutt::Build;

/// The NeoMutt store that the native cache is compared with, if NeoMutt has it.
const NEOMUTT_USUAL: &str = "tokyocabinet";

/// A setup of barid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) key: Key,
    /// The NeoMutt setup that runs directly after this one.
    pub(crate) neomutt: Option<Key>,
    /// The NeoMutt setups to compare with; empty if NeoMutt has none.
    pub(crate) compared_with: Vec<Key>,
}

/// All setups to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) cells: Vec<Cell>,
    /// `true` if more than one method runs.
    pub(crate) has_methods: bool,
    /// Descriptions of setups that could not be planned.
    pub(crate) notes: Vec<String>,
}

/// A store given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreChoice {
    store: String,
    builtin: Option<String>,
}

impl StoreChoice {
    /// Parses `NAME[:builtin]`, whether or not the store is usable here.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let name = text.split(':').next().unwrap_or_default();
        if text == NATIVE {
            return Ok(Self { store: text.to_owned(), builtin: None });
        }
        ensure!(name != NATIVE, "{text}: {NATIVE} has no compression of its own");
        let is_known = registry::STORES.iter().any(|store| store.name() == name);
        ensure!(is_known, "{name}: no such store; {}", known());
        let choice = Choice::parse(text)?;
        Ok(Self { store: name.to_owned(), builtin: choice.builtin.map(str::to_owned) })
    }

    /// Parses the stores; `None` stands for the native cache and all stores.
    pub(crate) fn parse_all(names: Option<&[String]>) -> Result<Option<Vec<Self>>> {
        let Some(names) = names else { return Ok(None) };
        ensure!(!names.is_empty(), "no store to run; {}", known());
        names.iter().map(|name| Self::parse(name)).collect::<Result<_>>().map(Some)
    }

    /// Returns the chosen stores, which must be usable here, or all usable ones.
    pub(crate) fn usable(chosen: Option<Vec<Self>>, survey: &Survey) -> Result<Vec<Self>> {
        let Some(chosen) = chosen else {
            let bare = |name: &str| Self { store: name.to_owned(), builtin: None };
            return Ok(std::iter::once(NATIVE).chain(survey.usable()).map(bare).collect());
        };
        for choice in chosen.iter().filter(|choice| choice.store != NATIVE) {
            survey.version(&choice.store)?;
        }
        Ok(chosen)
    }

    pub(crate) fn store(&self) -> &str {
        &self.store
    }

    /// Returns the store's own compressions.
    fn builtins(&self) -> &'static [&'static str] {
        registry::find(&self.store).map_or(&[], |store| store.capabilities().builtin)
    }
}

/// Returns the list of valid stores for error messages.
fn known() -> String {
    let names: Vec<&str> = registry::STORES.iter().map(|store| store.name()).collect();
    format!("there are {NATIVE}, {}; see `barid cache stores`", names.join(", "))
}

impl Plan {
    /// Plans stores times methods. With `builtin`, adds the stores' own compressions, without
    /// record compression.
    pub(crate) fn new(
        stores: &[StoreChoice],
        methods: &[Method],
        builtin: bool,
        neomutt: Option<&Build>,
    ) -> Result<Self> {
        ensure!(!methods.is_empty(), "no compression to run");
        let mut plan = Self { has_methods: methods.len() > 1, ..Self::default() };
        for choice in stores {
            for method in methods {
                plan.add(choice, choice.builtin.clone(), *method);
            }
            let own = choice.builtins().iter().filter(|_| builtin && choice.builtin.is_none());
            for own in own {
                plan.add(choice, Some((*own).to_owned()), Method::NONE);
            }
        }
        if plan.cells.is_empty() {
            bail!("nothing to run: {}", plan.notes.join("; "));
        }
        if let Some(build) = neomutt {
            plan.compare(build);
        }
        Ok(plan)
    }

    fn add(&mut self, choice: &StoreChoice, builtin: Option<String>, method: Method) {
        let store = choice.store.clone();
        let key = Key { system: System::Barid, store, builtin, method };
        if key.is_native() && method.has_dictionary() {
            self.notes.push(format!("{NATIVE} compresses blocks, not records: no {method}"));
        } else if !self.cells.iter().any(|cell| cell.key == key) {
            self.cells.push(Cell { key, neomutt: None, compared_with: Vec::new() });
        }
    }

    /// Finds for each setup the NeoMutt setup with the same store and method. The native cache is
    /// compared with all setups of the same method.
    fn compare(&mut self, build: &Build) {
        let mut planned: Vec<Key> = Vec::new();
        for cell in self.cells.iter_mut().filter(|cell| !cell.key.is_native()) {
            let method = cell.key.method.of_neomutt();
            if cell.key.builtin.is_none() && build.has(&cell.key.store, method.neomutt_name()) {
                cell.take(neomutt_key(&cell.key.store, method), &mut planned);
            }
        }
        let usual = build.stores.iter().find(|store| *store == NEOMUTT_USUAL);
        for cell in self.cells.iter_mut().filter(|cell| cell.key.is_native()) {
            let method = cell.key.method.of_neomutt();
            let same = planned.iter().filter(|key| key.method == method).cloned();
            cell.compared_with = same.collect();
            let Some(store) = usual.or(build.stores.first()) else { continue };
            if cell.compared_with.is_empty() && build.has(store, method.neomutt_name()) {
                cell.take(neomutt_key(store, method), &mut planned);
            }
        }
        self.notes.extend(self.lacking(build));
    }

    /// Returns a note about the stores and compressions that NeoMutt lacks.
    fn lacking(&self, build: &Build) -> Option<String> {
        let mut lacking: Vec<String> = Vec::new();
        let mut note = |what: String| {
            if !lacking.contains(&what) {
                lacking.push(what);
            }
        };
        for Cell { key, .. } in &self.cells {
            if !key.is_native() && !build.stores.contains(&key.store) {
                note(format!("no store {}", key.store));
            }
            let method = key.method.of_neomutt();
            if !method.is_none() && !build.methods.iter().any(|name| name == method.name()) {
                note(format!("no compression {}", method.name()));
            }
        }
        (!lacking.is_empty()).then(|| format!("{} has {}", build.version, lacking.join(", ")))
    }

    /// Returns the setups without a NeoMutt counterpart.
    pub(crate) fn without_peer(&self) -> impl Iterator<Item = &Key> {
        let alone = self.cells.iter().filter(|cell| cell.compared_with.is_empty());
        alone.map(|cell| &cell.key)
    }

    /// Returns `true` if anything is compared.
    pub(crate) fn has_peers(&self) -> bool {
        self.cells.iter().any(|cell| !cell.compared_with.is_empty())
    }

    /// Returns all NeoMutt setups.
    pub(crate) fn of_neomutt(&self) -> impl Iterator<Item = &Key> {
        self.cells.iter().filter_map(|cell| cell.neomutt.as_ref())
    }
}

impl Cell {
    /// Compares with `key`, and schedules it unless another cell does.
    fn take(&mut self, key: Key, planned: &mut Vec<Key>) {
        if !planned.contains(&key) {
            planned.push(key.clone());
            self.neomutt = Some(key.clone());
        }
        self.compared_with = vec![key];
    }
}

fn neomutt_key(store: &str, method: Method) -> Key {
    Key { system: System::NeoMutt, store: store.to_owned(), builtin: None, method }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(stores: &[&str], methods: &[&str], has: (&[&str], &[&str])) -> Plan {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let build = Build { version: "NeoMutt 1".into(), stores: own(has.0), methods: own(has.1) };
        let choice = |store: &&str| StoreChoice { store: (*store).to_owned(), builtin: None };
        let stores: Vec<_> = stores.iter().map(choice).collect();
        let methods: Vec<_> = methods.iter().map(|text| Method::parse(text).unwrap()).collect();
        Plan::new(&stores, &methods, false, Some(&build)).unwrap()
    }

    fn names(plan: &Plan) -> Vec<String> {
        let name = |cell: &Cell| {
            let ran = cell.neomutt.as_ref().map_or("-".to_owned(), Key::file_name);
            format!("{} {ran} {}", cell.key.file_name(), cell.compared_with.len())
        };
        plan.cells.iter().map(name).collect()
    }

    #[test]
    fn each_setup_of_neomutt_runs_once() {
        let plan = plan(&["native", "lmdb"], &["zstd", "zstd+dict"], (&["lmdb"], &["zstd"]));
        let expected = [
            "barid-native-zstd - 1",
            "barid-lmdb-zstd neomutt-lmdb-zstd 1",
            "barid-lmdb-zstd+dict - 1",
        ];
        assert_eq!(names(&plan), expected);
        assert_eq!(plan.notes, ["native compresses blocks, not records: no zstd+dict"]);
    }

    #[test]
    fn what_neomutt_lacks_is_noted() {
        let plan = plan(&["native", "lmdb", "tdb"], &["none", "lz4"], (&["qdbm", "tdb"], &[]));
        let expected = [
            "barid-native-none - 1",
            "barid-native-lz4 - 0",
            "barid-lmdb-none - 0",
            "barid-lmdb-lz4 - 0",
            "barid-tdb-none neomutt-tdb-none 1",
            "barid-tdb-lz4 - 0",
        ];
        assert_eq!(names(&plan), expected);
        assert_eq!(plan.notes, ["NeoMutt 1 has no compression lz4, no store lmdb"]);
    }

    #[test]
    fn native_alone_is_compared_all_the_same() {
        let plan = plan(&["native"], &["none"], (&["qdbm", "tokyocabinet"], &[]));
        assert_eq!(names(&plan), ["barid-native-none neomutt-tokyocabinet-none 1"]);
        assert_eq!(plan.of_neomutt().count(), 1);
    }

    #[test]
    fn unknown_stores_are_refused() {
        let check = |text: &str, expected: &str| {
            let error = StoreChoice::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        };
        check("nope", "nope: no such store; there are native, lmdb, ");
        check("nope:zstd", "nope: no such store; there are native, lmdb, ");
        check("native:zstd", "native:zstd: native has no compression of its own");
        check("tdb:zstd", "tdb");
        assert_eq!(StoreChoice::parse("native").unwrap().store(), "native");
        assert!(StoreChoice::parse_all(Some(&[])).is_err());
    }

    #[test]
    fn only_what_is_usable_is_run() {
        let text = "{\"name\":\"lmdb\",\"version\":\"1\"}\n{\"name\":\"tdb\",\"missing\":\"x\"}\n";
        let survey = Survey::parse(text).unwrap();
        let usable = |names: &[&str]| {
            let chosen = names.iter().map(|name| StoreChoice::parse(name).unwrap()).collect();
            StoreChoice::usable(Some(chosen), &survey)
        };
        let all = StoreChoice::usable(None, &survey).unwrap();
        assert_eq!(all, usable(&["native", "lmdb"]).unwrap());
        assert!(usable(&["lmdb", "tdb"]).is_err());
    }
}
