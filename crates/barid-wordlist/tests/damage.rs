//! Bytes that rot: told or harmless, and what is sound is kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use barid_vfs::{MemVfs, OpenOptions, Vfs};
use barid_wordlist::{Batch, Counts, Entry, WordList};

use crate::world::{DATE, Model, create, draw, open, path};

/// A list with a table of some tokens, and a log of some records.
fn small() -> (MemVfs, Model) {
    let (disk, mut model) = (MemVfs::new(), Model::new());
    let mut list = create(&disk);
    let mut random = fastrand::Rng::with_seed(8);
    let mut fill = |list: &mut barid_wordlist::Native, tokens: usize| {
        let batch = draw(&mut random, &mut model, tokens, 500);
        list.update(&batch).unwrap();
    };
    fill(&mut list, 150);
    list.rewrite(&mut |_, _| barid_wordlist::Change::Keep).unwrap();
    for _ in 0..4 {
        fill(&mut list, 20);
    }
    (disk, model)
}

fn flip(disk: &MemVfs, file: &Path, offset: u64, bits: u8) {
    let file = disk.open(file, OpenOptions::WRITE).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ bits], offset).unwrap();
}

fn files(disk: &MemVfs) -> Vec<PathBuf> {
    let mut names = Vec::new();
    let dir = disk.open_dir(path().parent().unwrap()).unwrap();
    dir.list(&mut |name, _| names.push(String::from_utf8_lossy(name).into_owned())).unwrap();
    names.iter().map(|name| path().with_file_name(name)).collect()
}

#[test]
fn every_flipped_byte_is_told_or_harmless() {
    let (disk, model) = small();
    let (mut told, mut harmless) = (0, 0);
    for file in files(&disk) {
        let size = disk.metadata(&file).unwrap().size;
        for offset in 0..size {
            let disk = disk.snapshot();
            flip(&disk, &file, offset, 1 << (offset % 8));
            let mut list = open(&disk).unwrap();
            let is_same = model.is_held_by(&mut list);
            if list.damage().is_empty() {
                assert!(is_same, "{} at {offset} is not told", file.display());
                harmless += 1;
                continue;
            }
            told += 1;
            assert!(list.damage().iter().all(|damage| damage.path == file));
            if offset % 61 == 0 {
                heals(&disk, &mut list);
            }
        }
    }
    println!("{told} flipped bytes told, {harmless} harmless");
    assert!(told > 5_000 && harmless > 1_000);
}

/// The next change keeps what is sound, a copy of what is not, and is whole again.
fn heals(disk: &MemVfs, list: &mut barid_wordlist::Native) {
    let mut sound = BTreeMap::new();
    list.scan(&mut |token, entry| sound.insert(token.to_vec(), entry).is_none()).unwrap();
    let damaged = list.damage()[0].path.clone();
    let before = disk.read(&damaged, 1 << 30).unwrap();
    let mut batch = Batch::new(DATE);
    batch.set(b"new", Entry { spam: 1, ham: 1, date: DATE }).unwrap();
    list.update(&batch).unwrap();
    sound.insert(b"new".to_vec(), Entry { spam: 1, ham: 1, date: DATE });
    let mut healed = open(disk).unwrap();
    let mut found = BTreeMap::new();
    healed.scan(&mut |token, entry| found.insert(token.to_vec(), entry).is_none()).unwrap();
    assert!(healed.damage().is_empty() && list.damage().is_empty());
    assert_eq!(found, sound);
    assert!(found.len() > 20, "only {} are left", found.len());
    let kept = files(disk).into_iter().find(|file| file.to_string_lossy().contains(".damaged-"));
    assert_eq!(disk.read(&kept.unwrap(), 1 << 30).unwrap(), before);
}

#[test]
fn a_truncated_file_is_told() {
    let (disk, _) = small();
    for file in files(&disk) {
        let size = disk.metadata(&file).unwrap().size;
        // A log may end early: its last record was not whole then.
        if file.to_string_lossy().contains(".log-") || size == 0 {
            continue;
        }
        for size in (0..size).step_by(509) {
            let disk = disk.snapshot();
            disk.open(&file, OpenOptions::WRITE).unwrap().set_len(size).unwrap();
            match open(&disk) {
                Ok(mut list) => {
                    list.scan(&mut |_, _| true).unwrap();
                    list.counts(&[b"a"], &mut [Counts::default()]).unwrap();
                    assert!(!list.damage().is_empty(), "{} of {size}", file.display());
                }
                Err(error) => {
                    assert!(matches!(error, barid_wordlist::Error::Damaged { .. }), "{error}")
                }
            }
        }
    }
}

#[test]
fn a_lost_log_is_told() {
    let (disk, _) = small();
    let log = files(&disk).into_iter().find(|file| file.to_string_lossy().contains(".log-"));
    disk.remove_file(&log.unwrap()).unwrap();
    let mut list = open(&disk).unwrap();
    assert_eq!(list.damage().len(), 1);
    list.update(&{
        let mut batch = Batch::new(DATE);
        batch.change(b"word", Counts::new(1, 0), Counts::default()).unwrap();
        batch
    })
    .unwrap();
    assert!(open(&disk).unwrap().damage().is_empty());
}
