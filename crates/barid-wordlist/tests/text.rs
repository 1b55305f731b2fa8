//! Dumps, and lists loaded from them.

use std::path::Path;
use std::sync::Arc;

use barid_vfs::{MemVfs, OpenOptions, Vfs};
use barid_wordlist::{
    Batch, Class, Counts, Created, Error, Load, Maintain, Native, TokenEntry, WordList, dump, keys,
    load, maintain, merge, robx, store_robx,
};

use crate::world::{DATE, Model, create, draw, open, path};

const EMPTY: Created = Created { date: 0, encoding: None };

fn empty(disk: &MemVfs) -> Native {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    vfs.create_dir_all(Path::new("/words"), 0o700).unwrap();
    Native::create(vfs, path(), &EMPTY).unwrap()
}

fn dumped(list: &mut dyn WordList) -> String {
    let mut text = Vec::new();
    dump(list, &mut text, None).unwrap();
    String::from_utf8(text).unwrap()
}

/// Loads `text` into an empty list and checks the list's dump.
fn check(text: &str, how: &Load, expected: &str) {
    let mut list = empty(&MemVfs::new());
    load(&mut list, &mut text.as_bytes(), how).unwrap();
    assert_eq!(dumped(&mut list), expected);
}

#[test]
fn a_dump_is_loaded_exactly() {
    let disk = MemVfs::new();
    let (mut list, mut model) = (create(&disk), Model::new());
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..30 {
        list.update(&draw(&mut random, &mut model, 300, 5_000)).unwrap();
    }
    store_robx(&mut list, DATE).unwrap();
    let text = dumped(&mut list);
    assert!(text.lines().count() > 2_000 && text.lines().is_sorted());
    let all = Load { today: 1, all_keys: true, ..Load::default() };
    check(&text, &all, &text);

    // Data damaged beyond use is replaced.
    let file = disk.open(path(), OpenOptions::WRITE).unwrap();
    file.set_len(100).unwrap();
    assert!(matches!(open(&disk), Err(Error::Damaged { .. })));
    disk.remove_file(path()).unwrap();
    let mut list = empty(&disk);
    load(&mut list, &mut text.as_bytes(), &all).unwrap();
    assert_eq!(dumped(&mut list), text);
}

#[test]
fn loading_adds_and_drops_what_bogoutil_does() {
    let how = Load { today: DATE, ..Load::default() };
    let text = ".ENCODING 2 0 20200101\n.MSG_COUNT 3 4\n.ROBX 5 0\n.WORDLIST_VERSION 6 0\n\
                word 1 2 20200101\nab\nword 10 20 20210101\nother 1 0\n";
    let expected = ".ENCODING 2 0 20200101\n.MSG_COUNT 3 4 20261122\nother 1 0 20261122\n\
                    word 11 22 20210101\n";
    check(text, &how, expected);
    let short = Load { token_len_max: Some(4), ..how };
    check("word 1 1\nwords 1 1\n", &short, "word 1 1 20261122\n");
    let mut list = empty(&MemVfs::new());
    let failed = load(&mut list, &mut &b"word 1 1\ntwo words 1 1 1\n"[..], &how);
    assert!(matches!(failed, Err(Error::Text { line: 2, .. })));
    assert_eq!(dumped(&mut list), "");
}

#[test]
fn maintaining_removes_and_joins() {
    let how = Load { today: DATE, all_keys: true, ..Load::default() };
    let text = ".MSG_COUNT 9 9 20200101\nold 1 1 20200101\nnew 1 1 20260101\n\
                caf\u{e9} 1 0 20260102\ncaf?? 2 1 20260101\n";
    let mut list = empty(&MemVfs::new());
    load(&mut list, &mut text.as_bytes(), &how).unwrap();
    let what = Maintain { date: Some(20_200_101), replace_non_ascii: true, ..Maintain::default() };
    let rewritten = maintain(&mut list, &what).unwrap();
    assert_eq!((rewritten.kept, rewritten.dropped, rewritten.changed), (3, 1, 1));
    let expected = ".MSG_COUNT 9 9 20200101\ncaf?? 3 1 20260102\nnew 1 1 20260101\n";
    assert_eq!(dumped(&mut list), expected);
    let mut without = Vec::new();
    let recent = Maintain { date: Some(20_260_101), ..Maintain::default() };
    assert_eq!(dump(&mut list, &mut without, Some(&recent)).unwrap(), 2);
}

#[test]
fn two_lists_become_one() {
    let lists = [MemVfs::new(), MemVfs::new()];
    let [mut one, mut two] = lists.each_ref().map(create);
    let train = |list: &mut Native, token: &[u8], content| {
        let mut batch = Batch::new(DATE);
        batch.change(token, Counts::new(1, 0), Counts::default()).unwrap();
        batch.messages(Counts::new(1, 0), Counts::default()).unwrap();
        batch.train(content, Class::Spam, 0);
        list.update(&batch).unwrap();
    };
    train(&mut one, b"one", 1);
    train(&mut one, b"both", 2);
    train(&mut two, b"both", 2);
    train(&mut two, b"two", 3);
    let merged = merge(&mut one, &mut two, DATE).unwrap();
    assert_eq!((merged.tokens, merged.twice.len()), (3, 1));
    assert_eq!(merged.twice[0].content, 2);
    let expected = ".ENCODING 2 0 20261122\n.MSG_COUNT 4 0 20261122\n\
                    .WORDLIST_VERSION 20040500 0 20261122\n\
                    both 2 0 20261122\none 1 0 20261122\ntwo 1 0 20261122\n";
    assert_eq!(dumped(&mut one), expected);
    assert!(one.receipts(&[1, 2, 3]).unwrap().iter().all(Option::is_some));
}

#[test]
fn robx_is_the_mean_of_what_was_seen_often() {
    let mut list = empty(&MemVfs::new());
    assert_eq!(robx(&mut list).unwrap(), None);
    let text = ".MSG_COUNT 20 10\n.other 50 50\nham 0 10\nrare 9 0\nspam 20 5\n";
    let how = Load { today: DATE, all_keys: true, ..Load::default() };
    load(&mut list, &mut text.as_bytes(), &how).unwrap();
    let found = store_robx(&mut list, DATE).unwrap().unwrap();
    assert_eq!((found.tokens, found.value), (2, (0.0 + 20.0 / (5.0 * 2.0 + 20.0)) / 2.0));
    let kept = list.entry(keys::ROBX).unwrap();
    assert_eq!(kept, Some(TokenEntry { spam: 333_333, ham: 0, date: DATE }));
}
