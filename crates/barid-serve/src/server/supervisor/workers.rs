//! The workers and their sessions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::process::{Account, Process, Restarts};
use crate::config::Limits;
use crate::limits::{STOP_TIMEOUT, WATCHER_LINK_PERIOD};
use crate::server::messages::{AccountText, RefusalCode, SessionId, Verified};

/// A worker.
#[derive(Debug)]
pub(super) struct WorkerProcess {
    pub(super) process: Process,
    /// The uid and gid of the process.
    pub(super) ids: Account,
    /// `true` if it watches by the watcher of its uid.
    pub(super) shares_watcher: bool,
    pub(super) watcher_links: WatcherLinks,
    pub(super) account: AccountText,
    pub(super) sessions: BTreeSet<SessionId>,
    /// Clients that came while it ended.
    pub(super) waiting: Vec<Verified>,
    /// Sessions that it has not taken yet, with the socket for the front. A worker that dies before
    /// leaves them to the next one.
    pub(super) offered: BTreeMap<SessionId, (Verified, OwnedFd)>,
    /// The time of the end of its last session.
    pub(super) idle_since: Option<Instant>,
    /// The time at which it was told to end.
    pub(super) stopping_since: Option<Instant>,
    /// `true` if its settings are not the current ones.
    pub(super) is_old: bool,
}

/// The links to watchers that a worker was given; of those that it requested, at most one per
/// period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WatcherLinks {
    /// Number of the newest link.
    newest: u64,
    last: Option<Instant>,
    /// `true` if it has requested a link and has not got it yet.
    is_wanted: bool,
}

impl WatcherLinks {
    /// Returns the number of the link that the worker is given now, which answers its request.
    pub(super) fn give(&mut self) -> u64 {
        self.is_wanted = false;
        self.newest += 1;
        self.newest
    }

    /// Returns `true` if the worker was given no link since that one.
    pub(super) fn is_newest(&self, number: u64) -> bool {
        self.newest == number
    }

    /// Notes a request; returns `true` if a link is due now, and not later.
    pub(super) fn ask(&mut self, now: Instant) -> bool {
        self.is_wanted = true;
        self.take_due(now)
    }

    /// Returns `true` if a requested link is due now; the request is then done.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let has_waited =
            self.last.is_none_or(|last| now.duration_since(last) >= WATCHER_LINK_PERIOD);
        if !self.is_wanted || !has_waited {
            return false;
        }
        (self.last, self.is_wanted) = (Some(now), false);
        true
    }
}

/// A session.
#[derive(Clone, Debug)]
pub(super) struct SessionInfo {
    pub(super) user: String,
    pub(super) login: String,
    pub(super) peer: Option<IpAddr>,
    pub(super) is_tls: bool,
    pub(super) mechanism: String,
    pub(super) since: Instant,
    /// The token of its worker.
    pub(super) worker: u64,
}

/// All workers and sessions.
#[derive(Debug, Default)]
pub(super) struct Workers {
    pub(super) all: HashMap<u64, WorkerProcess>,
    /// The current worker of each user.
    pub(super) by_user: HashMap<String, u64>,
    pub(super) sessions: BTreeMap<SessionId, SessionInfo>,
    pub(super) last_session: SessionId,
    /// Deaths of workers, by user.
    restarts: HashMap<String, Restarts>,
}

/// A refusal of a client, with the text for him.
pub(super) type Refused = (RefusalCode, String);

/// Returns the uid and gid for the mail of a user; `owner` are those of users whose base names
/// none, `own` those of the supervisor, `id_min` the lowest that root uses.
///
/// # Errors
/// The reason for the log.
pub(super) fn ids(
    account: &AccountText,
    owner: Option<(u32, u32)>,
    own: (u32, u32),
    id_min: u32,
) -> Result<Option<(u32, u32)>, String> {
    let wanted_uid = account.uid.or(owner.map(|(uid, _)| uid));
    if own.0 != 0 {
        return match wanted_uid {
            Some(uid) if uid != own.0 => Err(format!(
                "the mail belongs to uid {uid}; a server that is not started as root serves that \
                 of its own uid {} only",
                own.0
            )),
            _ => Ok(None),
        };
    }
    let uid = wanted_uid.ok_or("neither the user base nor mail.owner names a uid")?;
    let gid = account.gid.or(owner.map(|(_, gid)| gid));
    let gid = gid.ok_or("neither the user base nor mail.owner names a gid")?;
    // Whatever the user base and the auth process say, there are no sessions under the ids of root
    // and of accounts of the system, except those of the owner whom the configuration names.
    let is_allowed = |id: u32, of_owner: Option<u32>| {
        id != 0 && id != u32::MAX && (id >= id_min || of_owner == Some(id))
    };
    if is_allowed(uid, owner.map(|owner| owner.0)) && is_allowed(gid, owner.map(|owner| owner.1)) {
        return Ok(Some((uid, gid)));
    }
    Err(format!(
        "uid {uid}, gid {gid}: mail of root and of accounts below {id_min} is not served, unless \
         mail.owner names them"
    ))
}

impl Workers {
    /// Refuses a session beyond the limit of a user, and one of a user whose workers die.
    pub(super) fn check(&self, user: &str, limits: &Limits) -> Result<(), Refused> {
        let tokens = self.all.values().filter(|worker| worker.account.name == user);
        let count: usize = tokens.map(|worker| worker.sessions.len() + worker.waiting.len()).sum();
        if count >= limits.connections_per_user {
            return Err((RefusalCode::Limit, "You have too many sessions".to_owned()));
        }
        let restarts = self.restarts.get(user);
        if restarts.is_some_and(|restarts| !restarts.may_start(Instant::now())) {
            let text = "Your mail is not available now, try again in some seconds";
            return Err((RefusalCode::Unavailable, text.to_owned()));
        }
        Ok(())
    }

    /// Returns the number of workers of a uid.
    pub(super) fn of_account(&self, ids: Account) -> usize {
        self.all.values().filter(|worker| worker.ids == ids).count()
    }

    /// Counts the death of a worker.
    pub(super) fn died(&mut self, user: &str, longest_delay: Duration) {
        let now = Instant::now();
        self.restarts.retain(|_, restarts| !restarts.is_over(now));
        self.restarts.entry(user.to_owned()).or_default().died(now, longest_delay);
    }

    /// Adds a session to a worker; returns its number.
    pub(super) fn begin(&mut self, token: u64, verified: &Verified) -> SessionId {
        self.last_session += 1;
        let session = self.last_session;
        if let Some(worker) = self.all.get_mut(&token) {
            worker.sessions.insert(session);
            worker.idle_since = None;
        }
        let Verified { peer, is_tls, login, mechanism, user, .. } = verified;
        let info = SessionInfo {
            user: user.name.clone(),
            login: login.clone(),
            peer: *peer,
            is_tls: *is_tls,
            mechanism: mechanism.clone(),
            since: Instant::now(),
            worker: token,
        };
        self.sessions.insert(session, info);
        session
    }

    /// Ends a session, if it is of this worker.
    pub(super) fn end(&mut self, token: u64, session: SessionId) -> Option<SessionInfo> {
        let worker = self.all.get_mut(&token)?;
        if !worker.sessions.remove(&session) {
            return None;
        }
        if worker.sessions.is_empty() {
            worker.idle_since = Some(Instant::now());
        }
        self.sessions.remove(&session)
    }

    /// Removes a worker with its sessions.
    pub(super) fn remove(&mut self, token: u64) -> Option<WorkerProcess> {
        let worker = self.all.remove(&token)?;
        if self.by_user.get(&worker.account.name) == Some(&token) {
            self.by_user.remove(&worker.account.name);
        }
        for session in &worker.sessions {
            self.sessions.remove(session);
        }
        Some(worker)
    }

    /// Returns the workers that have been without sessions for long enough.
    pub(super) fn idle(&self, time: Duration) -> Vec<u64> {
        let now = Instant::now();
        let is_idle = |worker: &WorkerProcess| {
            let since = worker.idle_since.filter(|_| worker.stopping_since.is_none());
            since.is_some_and(|since| worker.is_old || now.duration_since(since) >= time)
        };
        let all = self.all.iter().filter(|(_, worker)| is_idle(worker));
        all.map(|(token, _)| *token).collect()
    }

    /// Returns the workers that were told to end long ago, and hang.
    pub(super) fn hanging(&self) -> Vec<u64> {
        let is_hanging = |worker: &WorkerProcess| {
            worker.stopping_since.is_some_and(|since| since.elapsed() >= STOP_TIMEOUT)
        };
        let all = self.all.iter().filter(|(_, worker)| is_hanging(worker));
        all.map(|(token, _)| *token).collect()
    }

    /// Returns `true` if time alone can make something to do.
    pub(super) fn has_idle(&self) -> bool {
        let waits_for_time = |worker: &WorkerProcess| {
            let is_ending = worker.idle_since.is_some() || worker.stopping_since.is_some();
            is_ending || worker.watcher_links.is_wanted
        };
        self.all.values().any(waits_for_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        (uid, gid): (Option<u32>, Option<u32>),
        owner: Option<(u32, u32)>,
        own: u32,
        expected: Result<Option<(u32, u32)>, &str>,
    ) {
        let (name, fields) = ("ann".to_owned(), Vec::new());
        let account = AccountText { name, uid, gid, home: None, fields };
        match (ids(&account, owner, (own, own), 1000), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, _) => panic!("{found:?}"),
        }
    }

    #[test]
    fn the_mail_of_root_is_not_served() {
        check((Some(1000), Some(1001)), None, 0, Ok(Some((1000, 1001))));
        check((Some(1000), Some(1001)), Some((2000, 2000)), 0, Ok(Some((1000, 1001))));
        check((None, None), Some((2000, 2001)), 0, Ok(Some((2000, 2001))));
        check((None, None), None, 0, Err("names a uid"));
        check((Some(1000), None), None, 0, Err("names a gid"));
        check((Some(0), Some(1000)), None, 0, Err("of root"));
        check((Some(1000), Some(0)), None, 0, Err("of root"));
        check((Some(u32::MAX), Some(1)), None, 0, Err("of root"));
        check((Some(1), Some(u32::MAX)), None, 0, Err("of root"));
    }

    #[test]
    fn accounts_of_the_system_are_not_served() {
        check((Some(33), Some(1000)), None, 0, Err("below 1000"));
        check((Some(1000), Some(42)), None, 0, Err("below 1000"));
        check((Some(1000), Some(42)), Some((8, 8)), 0, Err("below 1000"));
        check((None, None), Some((8, 9)), 0, Ok(Some((8, 9))));
        check((Some(1000), None), Some((8, 9)), 0, Ok(Some((1000, 9))));
    }

    #[test]
    fn a_worker_that_asks_for_links_again_and_again_gets_few() {
        let (mut links, start) = (WatcherLinks::default(), Instant::now());
        let mut given = Vec::new();
        for millisecond in 0..3500 {
            if links.ask(start + Duration::from_millis(millisecond)) {
                given.push(millisecond);
            }
        }
        assert_eq!(given, [0, 1000, 2000, 3000]);
        // The last question is answered although it is not repeated.
        assert!(!links.take_due(start + Duration::from_millis(3999)));
        assert!(links.take_due(start + Duration::from_millis(4000)));
        assert!(!links.take_due(start + Duration::from_millis(9000)));
    }

    #[test]
    fn the_loss_of_an_older_link_is_no_news() {
        let (mut links, start) = (WatcherLinks::default(), Instant::now());
        let first = links.give();
        assert!(links.is_newest(first) && links.ask(start));
        links.give();
        assert!(!links.is_newest(first));
        // A link that was given for another reason answers the request.
        assert!(!links.ask(start));
        links.give();
        assert!(!links.take_due(start + WATCHER_LINK_PERIOD));
    }

    #[test]
    fn without_root_there_is_one_uid() {
        check((None, None), None, 1000, Ok(None));
        check((Some(1000), Some(5)), None, 1000, Ok(None));
        check((Some(1001), None), None, 1000, Err("not started as root"));
        check((None, None), Some((1001, 1)), 1000, Err("not started as root"));
    }
}
