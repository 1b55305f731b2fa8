//! Lists in memory, random changes, and the model that they are compared with.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use barid_vfs::Vfs;
use barid_wordlist::{Batch, Class, Counts, Created, Native, Receipt, TokenEntry, WordList, keys};

/// Returns the path of the list under test.
pub(crate) fn path() -> &'static Path {
    Path::new("/words/list")
}

/// The date of all changes.
pub(crate) const DATE: u32 = 20_261_122;

pub(crate) const CREATED: Created = Created { date: DATE, encoding: Some(2) };

/// The expected content of a list: tokens, and the class of each trained message by its content id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) entries: BTreeMap<Vec<u8>, TokenEntry>,
    pub(crate) trained: BTreeMap<u128, Class>,
}

pub(crate) fn create(vfs: &(impl Vfs + Clone + 'static)) -> Native {
    vfs.create_dir_all(Path::new("/words"), 0o700).unwrap();
    Native::create(Arc::new(vfs.clone()), path(), &CREATED).unwrap()
}

pub(crate) fn open(vfs: &(impl Vfs + Clone + 'static)) -> barid_wordlist::Result<Native> {
    Native::open(Arc::new(vfs.clone()), path())
}

impl Model {
    /// Returns the content of a new list.
    pub(crate) fn new() -> Self {
        let mut model = Self::default();
        let entry = |spam| TokenEntry { spam, ham: 0, date: DATE };
        model.entries.insert(keys::ENCODING.to_vec(), entry(2));
        model.entries.insert(keys::WORDLIST_VERSION.to_vec(), entry(keys::VERSION));
        model
    }

    /// Changes the counts of a token as bogofilter does: first adds, then subtracts, both
    /// saturating.
    pub(crate) fn change(&mut self, token: &[u8], add: Counts, sub: Counts) {
        let entry = self.entries.entry(token.to_vec()).or_default();
        entry.spam = entry.spam.saturating_add(add.spam).saturating_sub(sub.spam);
        entry.ham = entry.ham.saturating_add(add.ham).saturating_sub(sub.ham);
        entry.date = DATE;
    }

    /// Returns `true` if a list has exactly this content, by scan, by lookup and by its receipts.
    pub(crate) fn is_held_by(&self, list: &mut Native) -> bool {
        let mut found = BTreeMap::new();
        let mut last = Vec::new();
        let mut in_order = true;
        list.scan(&mut |token, entry| {
            in_order &= last[..] < *token;
            last = token.to_vec();
            found.insert(token.to_vec(), entry);
            true
        })
        .unwrap();
        let tokens: Vec<&[u8]> = self.entries.keys().map(|token| &token[..]).collect();
        let mut counts = vec![Counts::default(); tokens.len()];
        list.counts(&tokens, &mut counts).unwrap();
        let by_hash = self.entries.values().map(|entry| entry.counts()).eq(counts);
        let contents: Vec<u128> = (0..CONTENTS).collect();
        let receipts = list.receipts(&contents).unwrap();
        let class = |receipt: Receipt| receipt.class;
        let trained = contents
            .iter()
            .zip(receipts)
            .filter_map(|(content, receipt)| Some((*content, receipt.map(class)?)));
        in_order && found == self.entries && by_hash && self.trained.clone().into_iter().eq(trained)
    }
}

/// Entries that are set during a rewrite: a word that the rewrite may drop, and one of the list's
/// own keys.
pub(crate) const BESIDE: [(&[u8], TokenEntry); 2] = [
    (b"1", TokenEntry { spam: 7, ham: 0, date: DATE }),
    (b".ROBX", TokenEntry { spam: 415_000, ham: 0, date: 0 }),
];

pub(crate) fn set_beside(batch: &mut Batch) -> barid_wordlist::Result<()> {
    BESIDE.iter().try_for_each(|(token, entry)| batch.set(token, *entry))
}

/// Number of different messages.
pub(crate) const CONTENTS: u128 = 40;

/// Tokens of a large batch.
const LARGE: usize = 400;

/// Trains or untrains a random message of up to `tokens_max` tokens out of `words` in the model.
/// Returns the batch that does the same to a list.
pub(crate) fn draw(
    random: &mut fastrand::Rng,
    model: &mut Model,
    tokens_max: usize,
    words: u32,
) -> Batch {
    let mut batch = Batch::new(DATE);
    let content = random.u128(0..CONTENTS);
    let trained = model.trained.get(&content).copied();
    let class = trained.unwrap_or(if random.bool() { Class::Spam } else { Class::Ham });
    let (one, none) = (class.counts(1), Counts::default());
    let (add, sub) = if trained.is_some() { (none, one) } else { (one, none) };
    let is_large = tokens_max > 5_000;
    for _ in 0..random.usize(1..=tokens_max.min(LARGE)).max(if is_large { LARGE } else { 0 }) {
        let mut token = word(random.u32(0..words));
        // A large batch is one that does not go into the log; long tokens make it so.
        token.resize(if is_large { 900 } else { token.len() }, b'x');
        batch.change(&token, add, sub).unwrap();
        model.change(&token, add, sub);
    }
    batch.messages(add, sub).unwrap();
    model.change(keys::MSG_COUNT, add, sub);
    if trained.is_some() {
        batch.untrain(content, class);
        model.trained.remove(&content);
    } else {
        batch.train(content, class, 1);
        model.trained.insert(content, class);
    }
    batch
}

/// Returns the token of a number.
pub(crate) fn word(number: u32) -> Vec<u8> {
    let prefix = ["", "subj:", "rcvd:", "head:X-"][number as usize % 4];
    format!("{prefix}{:x}", u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30)
        .into_bytes()
}

/// Returns the number of seeds to try: `BARID_CRASH_SEEDS` if it is set, else `usual`.
pub(crate) fn seeds(usual: u64) -> u64 {
    let given = std::env::var("BARID_CRASH_SEEDS").ok();
    given.and_then(|given| given.parse().ok()).unwrap_or(usual)
}
