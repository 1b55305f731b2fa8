//! The watchers: a process for each uid with many workers.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use super::Supervisor;
use super::process::{Account, Process, Restarts, Role};
use super::workers::WorkerProcess;
use crate::server::link::{Link, Polled};
use crate::server::messages::{FromWatcher, Level, LogLine, ToWatcher, ToWorker};

/// The watcher of a uid.
#[derive(Debug, Default)]
struct WatcherSlot {
    process: Option<Process>,
    restarts: Restarts,
}

/// All watchers, by uid and gid.
#[derive(Debug, Default)]
pub(super) struct Watchers(HashMap<Account, WatcherSlot>);

impl Watchers {
    pub(super) fn has(&self, token: u64) -> bool {
        self.processes().any(|process| process.token == token)
    }

    /// Returns `true` if a watcher is to be started again.
    pub(super) fn has_missing(&self) -> bool {
        self.0.values().any(|slot| slot.process.is_none())
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = &Process> {
        self.0.values().filter_map(|slot| slot.process.as_ref())
    }

    pub(super) fn processes_mut(&mut self) -> impl Iterator<Item = &mut Process> {
        self.0.values_mut().filter_map(|slot| slot.process.as_mut())
    }

    /// Takes all processes, which are to end.
    pub(super) fn take_all(&mut self) -> Vec<Process> {
        self.0.drain().filter_map(|(_, slot)| slot.process).collect()
    }
}

impl Supervisor {
    /// Links a worker with the watcher of its uid, which is started if it does not run.
    pub(super) fn link_watcher(&mut self, ids: Account, worker: u64) {
        let slot = self.watchers.0.entry(ids).or_default();
        if slot.process.is_none() {
            // It links all workers of the uid.
            return self.keep_watchers();
        }
        self.give_link(ids, worker);
    }

    /// Links a worker with its watcher, and logs an error.
    fn give_link(&mut self, ids: Account, worker: u64) {
        if let Err(error) = self.try_link_watcher(ids, worker) {
            self.log(Level::Error, format!("no link to a watcher: {error}"));
        }
    }

    /// Links a worker that has lost its link again, unless it was given another since. A watcher
    /// that has died is started first. A worker that asks too often waits.
    pub(super) fn watcher_lost(&mut self, token: u64, number: u64) {
        let Some(worker) = self.workers.all.get_mut(&token) else { return };
        let links = &mut worker.watcher_links;
        if worker.shares_watcher && links.is_newest(number) && links.ask(Instant::now()) {
            let ids = worker.ids;
            self.link_watcher(ids, token);
        }
    }

    /// Links the workers that had asked too often and have waited.
    fn link_waiting(&mut self, now: Instant) {
        let mut due = Vec::new();
        for (token, worker) in &mut self.workers.all {
            if worker.watcher_links.take_due(now) {
                due.push((worker.ids, *token));
            }
        }
        for (ids, worker) in due {
            self.give_link(ids, worker);
        }
    }

    fn try_link_watcher(&mut self, ids: Account, token: u64) -> io::Result<()> {
        let slot = self.watchers.0.get_mut(&ids).and_then(|slot| slot.process.as_mut());
        let (Some(watcher), Some(worker)) = (slot, self.workers.all.get_mut(&token)) else {
            return Ok(());
        };
        let (here, there) = Link::pair()?;
        watcher.link.send(&ToWatcher::Worker { number: token }, Some(there))?;
        let link = worker.watcher_links.give();
        worker.process.link.send(&ToWorker::Watcher { number: link }, Some(here.into()))
    }

    /// Starts watchers that have died, and ends those that nobody needs.
    pub(super) fn keep_watchers(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        let now = Instant::now();
        self.link_waiting(now);
        let all: Vec<Account> = self.watchers.0.keys().copied().collect();
        for ids in all {
            let shares = |worker: &WorkerProcess| worker.ids == ids && worker.shares_watcher;
            let is_needed = self.workers.all.values().any(shares);
            let Some(slot) = self.watchers.0.get_mut(&ids) else { continue };
            if !is_needed {
                if let Some(process) = slot.process.take() {
                    let end = process.end("watcher".to_owned(), true, Duration::from_secs(5));
                    self.ending.push(end);
                }
                self.watchers.0.remove(&ids);
            } else if slot.process.is_none() && slot.restarts.may_start(now) {
                let all = self.workers.all.iter().filter(|(_, worker)| shares(worker));
                let sharing: Vec<u64> = all.map(|(token, _)| *token).collect();
                let started = self.start_watcher(ids);
                let linked = started.and_then(|()| {
                    sharing.iter().try_for_each(|worker| self.try_link_watcher(ids, *worker))
                });
                if let Err(error) = linked {
                    self.log(Level::Error, format!("no watcher: {error}"));
                    self.watcher_died(ids);
                }
            }
        }
    }

    fn start_watcher(&mut self, ids: Account) -> io::Result<()> {
        let token = self.token();
        let mut process = Process::start(Role::Watcher, ids, token)?;
        self.watch_process(&mut process, Role::Watcher, None)?;
        if let Some(slot) = self.watchers.0.get_mut(&ids) {
            slot.process = Some(process);
        }
        Ok(())
    }

    pub(super) fn hear_watcher(&mut self, token: u64) {
        let is_it = |slot: &WatcherSlot| {
            slot.process.as_ref().is_some_and(|process| process.token == token)
        };
        let Some((ids, slot)) = self.watchers.0.iter().find(|(_, slot)| is_it(slot)) else {
            return;
        };
        let (ids, Some(process)) = (*ids, &slot.process) else { return };
        match process.link.link().poll::<FromWatcher>() {
            Ok(Polled::Nothing) => {}
            Ok(Polled::Message((FromWatcher::Log(line), _))) => {
                let line = LogLine { user: None, peer: None, session: None, ..line };
                self.log.line("watcher", &line);
            }
            Ok(Polled::End) | Err(_) => {
                self.log(Level::Error, "a watcher is gone; it is started again");
                self.watcher_died(ids);
            }
        }
    }

    fn watcher_died(&mut self, ids: Account) {
        let longest = self.restart_delay();
        let Some(slot) = self.watchers.0.get_mut(&ids) else { return };
        slot.restarts.died(Instant::now(), longest);
        if let Some(process) = slot.process.take() {
            self.ending.push(process.end("watcher".to_owned(), true, Duration::ZERO));
        }
    }
}
