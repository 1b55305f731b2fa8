//! Random histories against a map.

use std::collections::BTreeMap;
use std::time::Duration;

use barid_vfs::{Host as _, MemVfs};
use fastrand::Rng;

use super::*;

const HISTORIES: u64 = 150;
const STEPS: usize = 80;

/// The expected content of the ledger.
#[derive(Default)]
struct Model {
    uidvalidity: u32,
    uidnext: u32,
    modseq: u64,
    entries: BTreeMap<u32, LedgerEntry>,
    floor: u64,
    /// Mod-sequences and UIDs.
    vanished: Vec<(u64, u32)>,
}

impl Model {
    fn check(&self, ledger: &mut Ledger) {
        let mut found = said(ledger);
        let each =
            |(modseq, first, last): (u64, u32, u32)| (first..=last).map(move |u| (modseq, u));
        let vanished: Vec<_> =
            std::mem::take(&mut found.vanished).into_iter().flat_map(each).collect();
        assert_eq!(vanished, self.vanished);
        let expected = Said {
            floor: self.floor,
            vanished: Vec::new(),
            uidvalidity: UidValidity::new(self.uidvalidity),
            uidnext: Uid::new(self.uidnext),
            modseq: self.modseq,
            uids: self.entries.keys().copied().collect(),
        };
        assert_eq!(found, expected);
    }

    /// Makes one random change to the ledger and to the model.
    fn step(&mut self, ledger: &mut Ledger, rng: &mut Rng) {
        match rng.u32(..12) {
            0 if self.uidvalidity == 0 || rng.u32(..5) == 0 => {
                let first = rng.u32(1..9);
                let entries: Vec<_> = (first..first + rng.u32(..200)).map(entry).collect();
                self.uidvalidity = ledger.next_uidvalidity(Default::default()).get();
                self.uidnext = entries.last().map_or(0, |entry| entry.uid.get() + 1);
                self.entries = entries.iter().map(|entry| (entry.uid.get(), *entry)).collect();
                ledger.replace(validity(self.uidvalidity), entries);
                (self.floor, self.vanished) = (self.modseq, Vec::new());
            }
            0..=4 => {
                for _ in 0..rng.u32(1..6) {
                    let number = self.uidnext.max(1) + rng.u32(..3);
                    ledger.push(entry(number));
                    self.entries.insert(number, entry(number));
                    self.uidnext = number + 1;
                }
            }
            5..=7 => {
                let some: Vec<Uid> =
                    (0..rng.usize(..20)).filter_map(|_| Uid::new(rng.u32(..300))).collect();
                ledger.expunge(&some);
                self.entries.retain(|number, _| !some.contains(&uid(*number)));
            }
            8 => {
                self.uidnext = self.uidnext.max(rng.u32(1..300));
                ledger.raise_uidnext(uid(self.uidnext));
            }
            9 => {
                self.modseq += rng.u64(1..4);
                let mut some: Vec<u32> = (0..rng.usize(..20)).map(|_| rng.u32(1..300)).collect();
                some.sort_unstable();
                some.dedup();
                self.vanished.extend(some.iter().map(|number| (self.modseq, *number)));
                let uids: Vec<Uid> = some.into_iter().map(uid).collect();
                ledger.record_vanished(ModSeq::new(self.modseq).unwrap(), &uids);
            }
            10 if rng.u32(..8) == 0 => {
                ledger.forget_vanished();
                (self.floor, self.vanished) = (self.modseq, Vec::new());
            }
            _ => {
                self.modseq += rng.u64(..9);
                ledger.raise_modseq(ModSeq::new(self.modseq).unwrap());
            }
        }
    }
}

#[test]
fn random_histories_of_two_processes_equal_a_map() {
    for seed in 0..HISTORIES {
        let mut rng = Rng::with_seed(seed);
        let vfs = MemVfs::new();
        // The mod-sequence of a ledger that was never committed is the time at which it was opened.
        vfs.set_tick(Duration::ZERO);
        let mut ledgers = [open(&vfs).unwrap(), open(&vfs).unwrap()];
        let modseq = vfs.now().unix_nanos as u64 / 1000;
        let mut model = Model { modseq, floor: modseq, ..Model::default() };
        for _ in 0..STEPS {
            let ledger = &mut ledgers[rng.usize(..2)];
            ledger.lock(Duration::ZERO).unwrap();
            if rng.bool() {
                ledger.entries().unwrap();
            }
            for _ in 0..rng.u32(1..4) {
                model.step(ledger, &mut rng);
            }
            ledger.commit().unwrap();
            ledger.unlock();
            model.check(ledger);
            if rng.u32(..4) == 0 {
                model.check(&mut open(&vfs).unwrap());
                *ledger = open(&vfs).unwrap();
            }
        }
        ledgers.iter_mut().for_each(Ledger::unlock);
        model.check(&mut open(&vfs).unwrap());
    }
}
