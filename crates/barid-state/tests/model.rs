//! Random histories against a map.

use std::collections::BTreeMap;
use std::time::Duration;

use barid_types::ModSeq;
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
}

impl Model {
    fn check(&self, ledger: &mut Ledger) {
        let expected = Said {
            uidvalidity: UidValidity::new(self.uidvalidity),
            uidnext: Uid::new(self.uidnext),
            modseq: self.modseq,
            uids: self.entries.keys().copied().collect(),
        };
        assert_eq!(said(ledger), expected);
    }

    /// Does one random thing to the ledger and to the model.
    fn step(&mut self, ledger: &mut Ledger, rng: &mut Rng) {
        match rng.u32(..10) {
            0 if self.uidvalidity == 0 || rng.u32(..5) == 0 => {
                let first = rng.u32(1..9);
                let entries: Vec<_> = (first..first + rng.u32(..200)).map(entry).collect();
                self.uidvalidity = ledger.next_uidvalidity(Default::default()).get();
                self.uidnext = entries.last().map_or(0, |entry| entry.uid.get() + 1);
                self.entries = entries.iter().map(|entry| (entry.uid.get(), *entry)).collect();
                ledger.replace(validity(self.uidvalidity), entries);
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
        // A ledger never committed to has the time it was opened at as its mod-sequence.
        vfs.set_tick(Duration::ZERO);
        let mut ledgers = [open(&vfs).unwrap(), open(&vfs).unwrap()];
        let mut model = Model { modseq: vfs.now().unix_nanos as u64 / 1000, ..Model::default() };
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
