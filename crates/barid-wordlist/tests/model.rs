//! Random operations through several handles give the same results on a list as on its model.

use std::sync::Arc;

use barid_vfs::{MemVfs, Vfs};
use barid_wordlist::{
    Batch, Change, Class, Conflicts, Counts, Error, Native, TokenEntry, WordList, date_of, keys,
};

use crate::world::{DATE, Model, create, draw, open, path, word};

#[test]
fn two_writers_and_a_reader_see_one_list() {
    let disk = MemVfs::new();
    let mut random = fastrand::Rng::with_seed(11);
    let mut model = Model::new();
    let mut writers = [create(&disk), open(&disk).unwrap()];
    let mut reader = open(&disk).unwrap();
    let mut generation = 0;
    for round in 0..400 {
        let tokens_max = if round % 50 == 49 { 30_000 } else { 100 };
        let batch = draw(&mut random, &mut model, tokens_max, 60_000);
        let updated = writers[random.usize(0..2)].update(&batch).unwrap();
        assert!(updated.generation > generation && updated.afterwards.is_none());
        generation = updated.generation;
        if round % 7 == 0 {
            assert!(reader.refresh().unwrap());
            assert!(!reader.refresh().unwrap());
            assert_eq!(reader.generation(), generation);
            assert!(model.is_held_by(&mut reader), "round {round}");
        }
    }
    for list in &mut writers {
        list.refresh().unwrap();
        assert!(model.is_held_by(list));
    }
    assert!(model.is_held_by(&mut open(&disk).unwrap()));
    assert!(reader.damage().is_empty());
    for (token, entry) in model.entries.iter().step_by(97) {
        assert_eq!(reader.entry(token).unwrap(), None.or(Some(*entry)));
        assert_eq!(reader.entry(&[token, &b"!"[..]].concat()).unwrap(), None);
    }
}

/// A large list has a table that overrides another.
#[test]
fn a_large_list_is_merged_in_two_steps() {
    let disk = MemVfs::new();
    let mut list = create(&disk);
    let mut model = Model::new();
    let mut batch = Batch::new(DATE);
    for number in 0..60_000 {
        let (add, sub) = (Counts::new(1, number % 3), Counts::default());
        batch.change(&word(number), add, sub).unwrap();
        model.change(&word(number), add, sub);
    }
    list.update(&batch).unwrap();
    let mut random = fastrand::Rng::with_seed(5);
    let mut seen = [0; 2];
    for _ in 0..400 {
        let batch = draw(&mut random, &mut model, 400, 70_000);
        list.update(&batch).unwrap();
        let with_base = files(&disk).iter().any(|name| name.contains(".base-"));
        seen[usize::from(with_base)] += 1;
    }
    assert!(model.is_held_by(&mut list) && model.is_held_by(&mut open(&disk).unwrap()));
    assert!(seen[0] > 5 && seen[1] > 20, "{seen:?}");
    list.rewrite(&mut |_, _| Change::Keep).unwrap();
    assert!(model.is_held_by(&mut list));
    let left = files(&disk);
    assert_eq!(left.len(), 3, "{left:?}");
}

fn files(disk: &MemVfs) -> Vec<String> {
    let mut names = Vec::new();
    let dir = disk.open_dir(path().parent().unwrap()).unwrap();
    dir.list(&mut |name, _| names.push(String::from_utf8_lossy(name).into_owned())).unwrap();
    names
}

#[test]
fn receipts_tell_what_was_done_before() {
    let disk = MemVfs::new();
    let mut list = create(&disk);
    let train = |content, class, conflicts| {
        let mut batch = Batch::new(DATE).on_conflict(conflicts);
        batch.change(b"word", Counts::new(1, 0), Counts::default()).unwrap();
        batch.train(content, class, 7);
        batch
    };
    list.update(&train(1, Class::Spam, Conflicts::Refuse)).unwrap();
    let generation = list.generation();
    let Err(Error::Conflicts(found)) = list.update(&train(1, Class::Spam, Conflicts::Refuse))
    else {
        panic!("trained twice");
    };
    let receipt = found[0].found.unwrap();
    assert_eq!((found[0].content, receipt.class, receipt.profile), (1, Class::Spam, 7));
    assert_eq!((u64::from(receipt.generation), receipt.date), (generation, DATE));
    assert_eq!(list.entry(b"word").unwrap().unwrap().spam, 1);
    let updated = list.update(&train(1, Class::Ham, Conflicts::Report)).unwrap();
    assert_eq!(updated.conflicts.len(), 1);
    assert_eq!(list.entry(b"word").unwrap().unwrap().spam, 2);

    let mut batch = Batch::new(DATE);
    batch.untrain(2, Class::Spam);
    let Err(Error::Conflicts(found)) = list.update(&batch) else { panic!("never trained") };
    assert_eq!((found[0].content, found[0].found), (2, None));
    let mut batch = Batch::new(DATE);
    batch.untrain(1, Class::Ham);
    batch.train(1, Class::Spam, 9);
    list.update(&batch).unwrap();
    let found = list.receipts(&[1, 2]).unwrap();
    assert_eq!(found[0].map(|found| (found.class, found.profile)), Some((Class::Spam, 9)));
    assert_eq!(found[1], None);
}

#[test]
fn counts_saturate_and_that_is_told() {
    let disk = MemVfs::new();
    let mut list = create(&disk);
    let mut batch = Batch::new(DATE);
    batch.set(b"much", TokenEntry { spam: u32::MAX, ham: 1, date: DATE }).unwrap();
    list.update(&batch).unwrap();
    let mut batch = Batch::new(DATE);
    batch.change(b"much", Counts::new(1, 0), Counts::new(0, 2)).unwrap();
    let updated = list.update(&batch).unwrap();
    assert_eq!((updated.saturated, updated.floored), (1, 1));
    let mut counts = [Counts::default(); 2];
    list.counts(&[b"much", b"none"], &mut counts).unwrap();
    assert_eq!(counts, [Counts::new(u32::MAX, 0), Counts::default()]);
}

#[test]
fn rewriting_drops_changes_and_joins() {
    let disk = MemVfs::new();
    let mut list = create(&disk);
    let mut batch = Batch::new(DATE);
    for (token, spam, date) in [(&b"a"[..], 1, 5), (b"b", 2, 9), (b"c", 3, 7), (b"d", 4, 8)] {
        batch.set(token, TokenEntry { spam, ham: 0, date }).unwrap();
    }
    batch.train(3, Class::Ham, 0);
    list.update(&batch).unwrap();
    let rewritten = list
        .rewrite(&mut |token, entry| match token {
            b"a" => Change::Rename(b"c".to_vec()),
            b"b" => Change::Drop,
            b"c" => Change::Set(TokenEntry { spam: 30, ..entry }),
            b"d" => Change::Rename(b"0".to_vec()),
            _ => Change::Keep,
        })
        .unwrap();
    assert_eq!((rewritten.kept, rewritten.dropped, rewritten.changed), (2, 1, 3));
    let mut found = Vec::new();
    list.scan(&mut |token, entry| {
        found.push((token.to_vec(), entry.spam, entry.date));
        true
    })
    .unwrap();
    let tokens: Vec<_> = found.iter().filter(|(token, ..)| token[0] != b'.').cloned().collect();
    assert_eq!(tokens, [(b"0".to_vec(), 4, 8), (b"c".to_vec(), 31, 7)]);
    assert!(list.receipts(&[3]).unwrap()[0].is_some());
}

#[test]
fn a_list_is_made_once() {
    let disk = MemVfs::new();
    assert!(matches!(open(&disk), Err(Error::NotFound { .. })));
    let mut list = create(&disk);
    assert!(Native::create(Arc::new(disk.clone()), path(), &crate::world::CREATED).is_err());
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    drop(Native::open_or_create(vfs, path(), &crate::world::CREATED).unwrap());
    assert_eq!(list.totals().unwrap(), Counts::default());
    assert_eq!(list.entry(keys::ENCODING).unwrap().map(|entry| entry.spam), Some(2));
    assert_eq!(date_of(20_779), DATE);
    let updated = list.update(&Batch::new(DATE)).unwrap();
    assert_eq!(updated.generation, list.generation());
}
