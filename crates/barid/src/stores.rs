//! The stores for caches: the native store, and key-value stores whose libraries are loaded when
//! they are first used.

use barid_cache::StoreKind;
use barid_kv::registry::{self, StoreSurvey};

/// A store and its availability on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreInfo {
    /// Its name.
    pub name: &'static str,
    /// The version of its library; or the reason why it cannot be used here, and what to install.
    pub version: std::result::Result<String, String>,
    /// The Debian package of its library; `None` if it needs none.
    pub package: Option<&'static str>,
    /// Its own compressions.
    pub builtin: &'static [&'static str],
    /// Its properties, a few words each.
    pub traits: Vec<&'static str>,
}

/// Returns the names of all stores, whether they can be used here or not; the default first.
pub fn names() -> impl Iterator<Item = &'static str> {
    let native = StoreKind::Native.name();
    std::iter::once(native).chain(registry::STORES.iter().map(|kv| kv.name()))
}

/// Lists all stores; loads the libraries of those that are installed.
pub fn list() -> Vec<StoreInfo> {
    let native = StoreInfo {
        name: StoreKind::Native.name(),
        version: Ok("built in".to_owned()),
        package: None,
        builtin: &[],
        traits: vec!["in the cache file itself"],
    };
    std::iter::once(native).chain(registry::survey().into_iter().map(StoreInfo::from)).collect()
}

impl From<StoreSurvey> for StoreInfo {
    fn from(survey: StoreSurvey) -> Self {
        let StoreSurvey { name, available, library, capabilities } = survey;
        let mut traits = vec![if capabilities.folder { "a folder of files" } else { "one file" }];
        traits.extend(capabilities.ordered.then_some("keys in order"));
        traits.extend(capabilities.atomic.then_some("changes are whole after a kill"));
        let package = library.map(|library| library.package);
        Self { name, version: available, package, builtin: capabilities.builtin, traits }
    }
}
