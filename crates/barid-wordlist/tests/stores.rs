//! Lists in every store of `barid-kv` behave as the native one does.

use std::path::Path;
use std::sync::Arc;

use barid_kv::{Choice, registry};
use barid_testkit::{Scratch, skip_or_fail};
use barid_vfs::{OsVfs, Vfs};
use barid_wordlist::{
    Batch, Change, Class, Conflicts, Counts, Error, Load, Native, OnStore, Sharing, TokenEntry,
    WordList, dump, load, merge,
};

use crate::world::{CREATED, DATE, Model, draw, set_beside};

/// Returns the store of that name. If it cannot be used here, reports the test as skipped and
/// returns `None`, or fails the test where nothing may be missing.
pub(crate) fn choice(name: &str) -> Option<Choice> {
    let sqlite = Choice { kv: registry::SQLITE, builtin: None };
    let choice = if name == "sqlite" { sqlite } else { Choice::parse(name).unwrap() };
    match choice.kv.version() {
        Ok(_) => Some(choice),
        Err(error) => {
            skip_or_fail(&error.to_string());
            None
        }
    }
}

fn create(path: &Path, choice: Choice, sharing: Sharing) -> OnStore {
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    OnStore::create(vfs, path, choice, sharing, &CREATED).unwrap()
}

fn text(list: &mut dyn WordList) -> Vec<u8> {
    let mut text = Vec::new();
    dump(list, &mut text, None).unwrap();
    let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    // A store need not have an order.
    lines.sort_unstable();
    lines.concat()
}

fn check(choice: Choice) {
    let scratch = Scratch::new("words").unwrap();
    let path = scratch.path().join("list");
    let mut list = create(&path, choice, Sharing::Own);
    let native = scratch.path().join("native");
    let mut native = Native::create(Arc::new(OsVfs), &native, &CREATED).unwrap();
    let mut random = fastrand::Rng::with_seed(6);
    let mut model = Model::new();
    for round in 0..12 {
        let batch = draw(&mut random, &mut model, 200, 3_000);
        let before = list.generation();
        let updated = list.update(&batch).unwrap();
        assert!(updated.generation > before && updated.generation == list.generation());
        native.update(&batch).unwrap();
        if round % 5 == 4 {
            let decide = |token: &[u8], entry: TokenEntry| match token.first() {
                Some(b'1') => Change::Drop,
                Some(b'2') => Change::Rename([&b"3"[..], &token[1..]].concat()),
                Some(b'4') => Change::Set(TokenEntry { spam: 7, ..entry }),
                _ => Change::Keep,
            };
            let rewritten = list.rewrite_beside(&mut { decide }, &mut set_beside).unwrap();
            assert_eq!(native.rewrite_beside(&mut { decide }, &mut set_beside).unwrap(), rewritten);
            assert!(rewritten.dropped > 0 && rewritten.changed > 0);
            // Later random choices follow the model.
            model.entries.clear();
            native
                .scan(&mut |token, entry| model.entries.insert(token.into(), entry).is_none())
                .unwrap();
        }
        assert_eq!(text(&mut list), text(&mut native), "{choice}, round {round}");
    }
    if choice.kv.capabilities().ordered {
        let mut reopened = OnStore::open(Arc::new(OsVfs), &path, choice, Sharing::Own).unwrap();
        assert_eq!(reopened.generation(), list.generation());
        let mut batch = Batch::new(DATE);
        batch.untrain(777, Class::Ham);
        assert!(matches!(reopened.update(&batch), Err(Error::Conflicts(_))));
        let contents: Vec<u128> = (0..50).collect();
        let class = |list: &mut dyn WordList| -> Vec<_> {
            let receipts = list.receipts(&contents).unwrap();
            receipts.into_iter().map(|receipt| Some(receipt?.class)).collect()
        };
        assert_eq!(class(&mut reopened), class(&mut native));
        let copy = scratch.path().join("copy");
        let mut copy = Native::create(Arc::new(OsVfs), &copy, &CREATED).unwrap();
        merge(&mut copy, &mut reopened, DATE).unwrap();
        assert_eq!(text(&mut copy), text(&mut native));
        assert_eq!(class(&mut copy), class(&mut native));
    }
    let mut batch = Batch::new(DATE).on_conflict(Conflicts::Report);
    batch.change(b"new", Counts::new(1, 0), Counts::new(0, 1)).unwrap();
    assert_eq!(list.update(&batch).unwrap().floored, 1);
    let all = Load { today: DATE, all_keys: true, ..Load::default() };
    assert_eq!(load(&mut list, &mut &b"new 1 1 20200101\n"[..], &all).unwrap().tokens, 1);
    let found = list.entry(b"new").unwrap();
    assert_eq!(found, Some(TokenEntry { spam: 2, ham: 1, date: 20_200_101 }));
}

#[test]
fn every_store_holds_a_list() {
    let mut checked = 0;
    for store in registry::STORES.iter().map(|store| store.name()).chain(["sqlite"]) {
        let Some(choice) = choice(store) else { continue };
        check(choice);
        checked += 1;
    }
    println!("{checked} stores");
    assert!(checked > 0);
}

#[test]
fn what_is_not_there_is_told() {
    let scratch = Scratch::new("words").unwrap();
    let Some(choice) = choice("lmdb") else { return };
    for sharing in [Sharing::Own, Sharing::Bogofilter] {
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        let opened = OnStore::open(vfs, &scratch.path().join("none"), choice, sharing);
        assert!(matches!(opened, Err(Error::NotFound { .. })));
    }
}
