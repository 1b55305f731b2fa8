//! Answers to administrators, and the metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rustix::event::epoll::{EventData, EventFlags};
use serde_json::{Value, json};

use super::Supervisor;
use super::control::{Request, Sent};
use super::workers::SessionInfo;
use crate::server::messages::{AccountText, ToAuth, ToWorker};

fn failure(text: &str) -> Vec<Value> {
    vec![json!({ "error": text })]
}

impl Supervisor {
    pub(super) fn accept_control(&mut self) {
        let token = self.token();
        if let Some(stream) = self.control.accept(token) {
            let data = EventData::new_u64(token);
            // A connection that is not watched is closed when its time is up.
            let _ = rustix::event::epoll::add(&self.epoll, stream, data, EventFlags::IN);
        }
    }

    pub(super) fn hear_control(&mut self, token: u64) {
        let Some(request) = self.control.read(token) else { return };
        let answer = match request {
            Err(error) => failure(&error),
            Ok(Request::User { name }) => {
                if self.auth.process.is_some() {
                    self.asked.insert(token, token);
                    self.tell_auth(&ToAuth::LookUp { id: token, name }, None);
                    return;
                }
                failure("the auth process does not run")
            }
            Ok(Request::Who) => self.who(),
            Ok(Request::Sessions) => {
                let all = self.workers.sessions.iter();
                all.map(|(session, info)| self.session_value(*session, info)).collect()
            }
            Ok(Request::Kick { user, session }) => self.kick(user.as_deref(), session),
            Ok(Request::Log { lines }) => self.log.last(lines),
            Ok(Request::Status) => vec![self.status()],
        };
        self.answer_control(token, &answer);
    }

    fn answer_control(&mut self, token: u64, lines: &[Value]) {
        if self.control.answer(token, lines) == Sent::InPart
            && let Some(stream) = self.control.stream(token)
        {
            let data = EventData::new_u64(token);
            // A connection that is not watched is closed when its time is up.
            let _ = rustix::event::epoll::modify(&self.epoll, stream, data, EventFlags::OUT);
        }
    }

    fn session_value(&self, session: u64, info: &SessionInfo) -> Value {
        let worker = self.workers.all.get(&info.worker).map(|worker| worker.process.pid());
        json!({
            "session": session, "user": info.user, "login": info.login, "peer": info.peer,
            "tls": info.is_tls, "mechanism": info.mechanism, "worker": worker,
            "seconds": info.since.elapsed().as_secs(),
        })
    }

    fn who(&self) -> Vec<Value> {
        let mut users: BTreeMap<&str, (u64, Vec<std::net::IpAddr>)> = BTreeMap::new();
        for info in self.workers.sessions.values() {
            let (count, peers) = users.entry(&info.user).or_default();
            *count += 1;
            if let Some(peer) = info.peer.filter(|peer| !peers.contains(peer)) {
                peers.push(peer);
            }
        }
        let value =
            |(user, (count, peers))| json!({ "user": user, "sessions": count, "peers": peers });
        users.into_iter().map(value).collect()
    }

    fn kick(&mut self, user: Option<&str>, session: Option<u64>) -> Vec<Value> {
        if user.is_none() && session.is_none() {
            return failure("whom?");
        }
        let is_meant = |(number, info): &(&u64, &SessionInfo)| {
            session.is_none_or(|session| session == **number)
                && user.is_none_or(|user| user == info.user)
        };
        let meant = self.workers.sessions.iter().filter(is_meant);
        let meant: Vec<_> = meant.map(|(session, info)| (*session, info.worker)).collect();
        for (session, token) in &meant {
            if let Some(worker) = self.workers.all.get_mut(token) {
                // A worker that has ended took its sessions with it.
                let _ = worker.process.link.send(&ToWorker::Kick { session: *session }, None);
            }
        }
        vec![json!({ "kicked": meant.len() })]
    }

    fn status(&self) -> Value {
        let pid =
            |service: &super::LastingProcess| service.process.as_ref().map(super::Process::pid);
        let listeners = self.listeners.all.iter().map(|listener| {
            let address = listener.socket.place();
            json!({ "protocol": listener.setup.protocol.name(), "address": address })
        });
        let workers = self.workers.all.values().map(|worker| {
            json!({
                "user": worker.account.name, "pid": worker.process.pid(),
                "sessions": worker.sessions.len(),
            })
        });
        json!({
            "version": env!("CARGO_PKG_VERSION"), "supervisor": std::process::id(),
            "front": pid(&self.front), "auth": pid(&self.auth), "lmtp": pid(&self.lmtp.service),
            "listeners": listeners.collect::<Vec<_>>(), "workers": workers.collect::<Vec<_>>(),
            "sessions": self.workers.sessions.len(), "seconds": self.started.elapsed().as_secs(),
        })
    }

    /// Answers a request for a user, whom auth has looked up.
    pub(super) fn found(&mut self, id: u64, user: Option<AccountText>) {
        let Some(token) = self.asked.remove(&id) else { return };
        let answer = match user {
            None => failure("no such user, or the user base does not answer"),
            Some(user) => {
                let sessions = self.workers.sessions.values();
                let sessions = sessions.filter(|info| info.user == user.name).count();
                let (ids, why) = match self.ids_of(&user) {
                    Ok(ids) => (Some(ids.unwrap_or(self.own)), None),
                    Err(why) => (None, Some(why)),
                };
                vec![json!({
                    "user": user.name, "uid": ids.map(|ids| ids.0), "gid": ids.map(|ids| ids.1),
                    "home": user.home, "fields": user.fields, "sessions": sessions,
                    "refused": why,
                })]
            }
        };
        self.answer_control(token, &answer);
    }

    /// Returns the metrics in the text format of Prometheus.
    pub(super) fn metrics(&self, connections: u64, accepted: u64, refused: u64) -> String {
        let counters = &self.counters;
        let restarts = |service: &super::LastingProcess| service.starts.saturating_sub(1);
        let delivering = self.deliveries().count() as u64;
        let deliveries = &counters.deliveries;
        let rows: [(&str, &str, &str, u64); 18] = [
            ("connections", "gauge", "Open connections", connections),
            ("connections_total", "counter", "Connections that were accepted", accepted),
            ("connections_refused_total", "counter", "Connections beyond a limit", refused),
            ("sessions", "gauge", "Sessions of users", self.workers.sessions.len() as u64),
            ("workers", "gauge", "Processes of users", self.workers.all.len() as u64),
            ("logins_total", "counter", "Clients verified", counters.logins),
            ("logins_failed_total", "counter", "Logins that failed", counters.failed),
            ("logins_refused_total", "counter", "Clients verified and refused", counters.refused),
            ("workers_started_total", "counter", "Workers started", counters.workers_started),
            ("workers_failed_total", "counter", "Workers that crashed", counters.workers_died),
            ("front_restarts_total", "counter", "Restarts of the front", restarts(&self.front)),
            ("auth_restarts_total", "counter", "Restarts of auth", restarts(&self.auth)),
            ("lmtp_restarts_total", "counter", "Restarts of lmtp", restarts(&self.lmtp.service)),
            ("deliveries", "gauge", "Processes that deliver", delivering),
            ("delivered_total", "counter", "Deliveries that were stored", deliveries.stored),
            (
                "duplicates_total",
                "counter",
                "Messages that had been delivered before",
                deliveries.duplicate,
            ),
            (
                "deliveries_deferred_total",
                "counter",
                "Deliveries that failed for the time being",
                deliveries.deferred,
            ),
            (
                "deliveries_refused_total",
                "counter",
                "Deliveries that were refused for good",
                deliveries.refused,
            ),
        ];
        let mut text = String::new();
        for (name, kind, help, value) in rows {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "# HELP barid_{name} {help}.\n# TYPE barid_{name} {kind}\nbarid_{name} {value}\n"
            );
        }
        text
    }
}
