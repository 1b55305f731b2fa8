//! Damaged bytes are reported or harmless, and undamaged entries are kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use barid_vfs::{MemVfs, OpenOptions, Vfs};
use barid_wordlist::{Batch, Counts, TokenEntry, WordList, keys};

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

/// Checks that the next change repairs the list: undamaged entries stay, and the damaged file is
/// kept as a copy.
fn heals(disk: &MemVfs, list: &mut barid_wordlist::Native) {
    let mut sound = BTreeMap::new();
    list.scan(&mut |token, entry| sound.insert(token.to_vec(), entry).is_none()).unwrap();
    let damaged = list.damage()[0].path.clone();
    let before = disk.read(&damaged, 1 << 30).unwrap();
    let mut batch = Batch::new(DATE);
    batch.set(b"new", TokenEntry { spam: 1, ham: 1, date: DATE }).unwrap();
    list.update(&batch).unwrap();
    sound.insert(b"new".to_vec(), TokenEntry { spam: 1, ham: 1, date: DATE });
    let mut healed = open(disk).unwrap();
    let mut found = BTreeMap::new();
    healed.scan(&mut |token, entry| found.insert(token.to_vec(), entry).is_none()).unwrap();
    assert!(healed.damage().is_empty() && list.damage().is_empty());
    assert_eq!(found, sound);
    assert!(found.len() > 20, "only {} are left", found.len());
    let kept = files(disk).into_iter().find(|file| file.to_string_lossy().contains(".damaged-"));
    assert_eq!(disk.read(&kept.unwrap(), 1 << 30).unwrap(), before);
}

/// Creates a list of one table with `tokens` tokens, each with its own counts, and 70 messages.
fn large(tokens: u32) -> (MemVfs, BTreeMap<Vec<u8>, Counts>) {
    let (disk, mut model) = (MemVfs::new(), BTreeMap::new());
    let mut list = create(&disk);
    let mut batch = Batch::new(DATE);
    for number in 0..tokens {
        let token = format!("word{:05}of{number}", number.wrapping_mul(7919) % 100_000);
        let counts = Counts::new(number % 300, number / 7 % 300);
        batch.change(token.as_bytes(), counts, Counts::default()).unwrap();
        model.insert(token.into_bytes(), counts);
    }
    batch.messages(Counts::new(30, 40), Counts::default()).unwrap();
    model.insert(keys::MSG_COUNT.to_vec(), Counts::new(30, 40));
    list.update(&batch).unwrap();
    list.rewrite(&mut |_, _| barid_wordlist::Change::Keep).unwrap();
    (disk, model)
}

/// Returns the number of tokens of the model that are missing in the list or have other counts.
fn missed(disk: &MemVfs, model: &BTreeMap<Vec<u8>, Counts>) -> usize {
    let mut found = BTreeMap::new();
    let mut list = open(disk).unwrap();
    list.scan(&mut |token, entry| found.insert(token.to_vec(), entry.counts()).is_none()).unwrap();
    assert!(found.len() <= model.len() + 3);
    model.iter().filter(|(token, counts)| found.get(*token) != Some(*counts)).count()
}

#[test]
fn teaching_a_damaged_list_loses_no_sound_part() {
    let (disk, model) = large(2_000);
    let blocks = (disk.metadata(path()).unwrap().size - 4096 - 128) / 2 / 4096;
    assert!(blocks > 3, "{blocks}");
    let mut random = fastrand::Rng::with_seed(5);
    for is_known in [false, true] {
        for _ in 0..20 {
            let (disk, mut model) = (disk.snapshot(), model.clone());
            // The first block has the list's special keys.
            for block in [0, random.u64(1..blocks)] {
                let offset = 4096 + block * 4096 + random.u64(400..3000);
                flip(&disk, path(), offset, 1 << random.u8(0..8));
            }
            let mut list = open(&disk).unwrap();
            if is_known {
                list.scan(&mut |_, _| true).unwrap();
                assert_eq!(list.damage().len(), 2);
            }
            let mut batch = Batch::new(DATE);
            let (one, none) = (Counts::new(1, 0), Counts::default());
            for (token, counts) in model.iter_mut() {
                batch.change(token, one, none).unwrap();
                counts.spam += 1;
            }
            if !is_known {
                // So many that a table is made, which reveals the damage.
                for number in 0..40_000 {
                    batch.change(format!("~{number}").as_bytes(), none, none).unwrap();
                }
            }
            list.update(&batch).unwrap();
            assert_eq!((list.damage().len(), list.healed().len()), (0, 2));
            drop(list);
            let mut counts = vec![none; model.len()];
            let tokens: Vec<&[u8]> = model.keys().map(|token| &token[..]).collect();
            open(&disk).unwrap().counts(&tokens, &mut counts).unwrap();
            assert!(model.values().copied().eq(counts), "counts of words that were taught");
        }
    }
}

/// Blocks of a table overwrite other blocks of it: no token is listed twice, and undamaged entries
/// are kept.
#[test]
fn blocks_that_were_written_elsewhere_are_healed() {
    let (disk, model) = large(30_000);
    let file = disk.open(path(), OpenOptions::WRITE).unwrap();
    let mut blocks = vec![0; 2 * 4096];
    file.read_exact_at(&mut blocks, 3 * 4096).unwrap();
    file.write_all_at(&blocks, 7 * 4096).unwrap();
    let before = missed(&disk, &model);
    assert!(before > 100, "{before}");
    let mut list = open(&disk).unwrap();
    let mut batch = Batch::new(DATE);
    batch.messages(Counts::new(1, 0), Counts::default()).unwrap();
    list.update(&batch).unwrap();
    list.rewrite(&mut |_, _| barid_wordlist::Change::Keep).unwrap();
    let mut list = open(&disk).unwrap();
    assert_eq!(list.totals().unwrap(), Counts::new(31, 40));
    let mut last = Vec::new();
    list.scan(&mut |token, _| {
        assert!(last[..] < *token);
        last = token.to_vec();
        true
    })
    .unwrap();
    // The special keys of the list have other values by now.
    assert!(list.damage().is_empty() && missed(&disk, &model) == before + 1);
}

/// Entries in a damaged block of the overriding table do not fall back to old values in the table
/// below it.
#[test]
fn damage_of_an_overriding_table_brings_back_nothing_old() {
    let (disk, _) = large(40_000);
    let mut list = open(&disk).unwrap();
    for round in 0..2 {
        let mut batch = Batch::new(DATE);
        for number in 0..4_000 {
            let token =
                format!("word{number:05} that is as long as words of logs may well be {round}");
            batch.change(token.as_bytes(), Counts::new(1, 0), Counts::default()).unwrap();
        }
        batch.messages(Counts::new(1_000, 0), Counts::default()).unwrap();
        list.update(&batch).unwrap();
    }
    assert!(files(&disk).iter().any(|file| file.to_string_lossy().contains(".base-")));
    drop(list);
    // The block of the special keys, whose first byte no word begins with.
    for more in [false, true] {
        let disk = disk.snapshot();
        flip(&disk, path(), 4096 + 9, 0x40);
        let mut list = open(&disk).unwrap();
        let mut batch = Batch::new(DATE);
        batch.messages(Counts::new(1, 0), Counts::default()).unwrap();
        for number in 0..if more { 20_000 } else { 0 } {
            let token = format!("other words that are as long as words of logs may be {number}");
            batch.change(token.as_bytes(), Counts::new(1, 0), Counts::default()).unwrap();
        }
        list.update(&batch).unwrap();
        assert_eq!(open(&disk).unwrap().totals().unwrap(), Counts::new(2_031, 40));
        list.rewrite(&mut |_, _| barid_wordlist::Change::Keep).unwrap();
        let mut list = open(&disk).unwrap();
        assert_eq!(list.totals().unwrap(), Counts::new(2_031, 40), "{more}");
        assert!(list.damage().is_empty());
    }
}

/// The most frequent words are stored twice: damage to the second copy loses nothing, and is
/// reported.
#[test]
fn damage_of_frequent_words_is_told_and_loses_nothing() {
    let (disk, model) = large(30_000);
    let tokens: Vec<&[u8]> = model.keys().map(|token| &token[..]).collect();
    let mut random = fastrand::Rng::with_seed(7);
    let end = disk.metadata(path()).unwrap().size - 128;
    for _ in 0..20 {
        let disk = disk.snapshot();
        flip(&disk, path(), random.u64(end - 64 * 1024..end), 1 << random.u8(0..8));
        let mut list = open(&disk).unwrap();
        for asked in [&tokens[..10], &tokens] {
            let mut counts = vec![Counts::default(); asked.len()];
            list.counts(asked, &mut counts).unwrap();
            assert!(asked.iter().zip(&counts).all(|(token, counts)| model[*token] == *counts));
        }
        let damage = list.damage();
        assert!(damage.len() == 1 && damage[0].what == "frequent counts", "{damage:?}");
        list.rewrite(&mut |_, _| barid_wordlist::Change::Keep).unwrap();
        assert!(list.damage().is_empty() && missed(&disk, &model) == 0);
    }
}

#[test]
fn words_beside_a_flipped_bit_are_kept() {
    let (disk, model) = large(2_000);
    let mut random = fastrand::Rng::with_seed(6);
    let (mut sum, mut most) = (0, 0);
    for _ in 0..60 {
        let disk = disk.snapshot();
        // Most tokens share their first byte with the next ones.
        flip(&disk, path(), 4096 + random.u64(8..9000), 1 << random.u8(0..8));
        let before = missed(&disk, &model);
        let mut list = open(&disk).unwrap();
        list.rewrite(&mut |_, _| barid_wordlist::Change::Keep).unwrap();
        assert_eq!(missed(&disk, &model), before);
        assert!(open(&disk).unwrap().damage().is_empty());
        let mut totals = open(&disk).unwrap();
        assert_eq!(totals.totals().unwrap(), Counts::new(30, 40));
        (sum, most) = (sum + before, most.max(before));
    }
    assert!(sum < 60 * 100 && most < 400, "{sum} and {most} are lost");
    // Nothing of a block is left.
    let file = disk.open(path(), OpenOptions::WRITE).unwrap();
    file.write_all_at(&[0; 4096], 4096).unwrap();
    open(&disk).unwrap().rewrite(&mut |_, _| barid_wordlist::Change::Keep).unwrap();
    assert_eq!(open(&disk).unwrap().totals().unwrap(), Counts::new(30, 40));
}

#[test]
fn a_truncated_file_is_told() {
    let (disk, _) = small();
    for file in files(&disk) {
        let size = disk.metadata(&file).unwrap().size;
        // A log may end early: then its last record was not whole.
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
