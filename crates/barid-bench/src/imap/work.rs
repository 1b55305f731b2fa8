//! The work, measured.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use barid_testkit::tree::{TreeCpu, TreeMemory};
use barid_testkit::usage::{Sampling, finish};

use super::client::{Client, tls_config};
use super::material::{Material, USER};
use super::step::{Load, MailFormat, Side, Step, Work};
use super::system::{PASSWORD, Running, System};
use super::{Sizes, USERS};
use crate::lab::{Figures, settle};
use crate::limits::{PUSH_TIMEOUT, REST_TIMEOUT, STEP_DEADLINE};

/// Sessions that append at once.
const APPENDERS: usize = 16;
/// A word that no message contains.
pub(crate) const MISSING_WORD: &str = "zzqxnotthere";

/// A server, its mail, and the sizes of the work.
pub(crate) struct Bench<'a> {
    pub(crate) system: System,
    pub(crate) material: &'a Material,
    pub(crate) sizes: Sizes,
    running: Option<Running>,
}

/// Time and CPU of a running server from a moment on.
struct Meter {
    pid: u32,
    cpu: TreeCpu,
    start: Instant,
}

impl Meter {
    fn start(server: &Running) -> Result<Self> {
        let pid = server.pid();
        let cpu = TreeCpu::at_rest(pid, REST_TIMEOUT)?;
        Ok(Self { pid, cpu, start: Instant::now() })
    }

    /// Ends with a time of work that was taken apart from the rest, else with all time since the
    /// start; each figure is that of one of `times` repetitions.
    fn end(self, apart: Option<Duration>, times: u64) -> Result<Figures> {
        let wall = apart.unwrap_or_else(|| self.start.elapsed());
        let cpu = TreeCpu::at_rest(self.pid, REST_TIMEOUT)?.since(self.cpu);
        let times = times.max(1) as f64;
        Ok(Figures {
            real_s: wall.as_secs_f64() / times,
            user_s: cpu.user.as_secs_f64() / times,
            sys_s: cpu.sys.as_secs_f64() / times,
            ..Figures::default()
        })
    }
}

impl<'a> Bench<'a> {
    pub(crate) fn new(system: System, material: &'a Material, sizes: Sizes) -> Self {
        Self { system, material, sizes, running: None }
    }

    /// Makes the mail of a load; the server is started when it is first needed.
    pub(crate) fn prepare(&mut self, load: Load, format: MailFormat, rounds: u32) -> Result<()> {
        self.running = None;
        let (mail, moves) = (self.system.mail(), if load == Load::Users { rounds } else { 0 });
        self.material.fill(&mail, load, format, moves)?;
        self.system.forget(format)
    }

    /// Ends the server.
    pub(crate) fn stop(&mut self) {
        self.running = None;
    }

    fn restart(&mut self, format: MailFormat) -> Result<&Running> {
        self.running = None;
        self.server(format)
    }

    pub(crate) fn server(&mut self, format: MailFormat) -> Result<&Running> {
        if self.running.is_none() {
            self.running = Some(self.system.start(format)?);
        }
        self.running.as_ref().context("because it was just started")
    }

    /// Does one step; `round` selects mailboxes that the step changes.
    pub(crate) fn run(&mut self, step: Step, round: u32) -> Result<Figures> {
        let Step { work, format } = step;
        settle(&self.system.folder)?;
        match work {
            Work::Login => self.log_in(format),
            Work::IdleUsers => self.idle(format, USERS),
            Work::IdleOne => self.idle(format, 1),
            Work::Push => self.push(format),
            Work::SelectFirst => self.select_first(format),
            Work::SelectAgain => self.select_again(format),
            Work::Stdio => self.stdio(format),
            Work::Append => self.append(format, round),
            Work::AppendMany => self.append_many(format, round),
            Work::Move => self.move_all(format, round),
            Work::Flags => self.repeated(format, "FETCH 1:* (FLAGS)", self.sizes.repeats),
            Work::SearchAll => self.repeated(format, "UID SEARCH ALL", self.sizes.repeats),
            Work::Envelope => self.repeated(format, "FETCH 1:* (ENVELOPE)", self.sizes.repeats),
            Work::Bodies => self.repeated(format, "FETCH 1:* (BODY.PEEK[])", 1),
            Work::SearchText => self.repeated(format, &format!("SEARCH TEXT {MISSING_WORD}"), 1),
            Work::Thread => {
                self.repeated(format, "THREAD REFERENCES UTF-8 ALL", self.sizes.repeats)
            }
        }
    }

    fn log_in(&mut self, format: MailFormat) -> Result<Figures> {
        let (config, times) = (tls_config()?, self.sizes.logins);
        let server = self.server(format)?;
        let address = server.tls()?;
        let meter = Meter::start(server)?;
        for _ in 0..times {
            let mut client = Client::connect_tls(address, &config)?;
            client.login(USER, PASSWORD).map_err(|error| server.explained(error))?;
            client.drain("SELECT INBOX")?;
            client.logout()?;
        }
        meter.end(None, times)
    }

    /// Opens sessions that idle in their INBOX, of so many users in turn.
    fn idlers(server: &Running, sessions: u64, users: u64) -> Result<Vec<Client>> {
        let open = |number| {
            let mut client = Client::connect_small(server.address)?;
            let user = format!("u{}", 1 + number % users);
            client.login(&user, PASSWORD).map_err(|error| server.explained(error))?;
            client.drain("SELECT INBOX")?;
            client.idle()?;
            Ok(client)
        };
        (0..sessions).map(open).collect()
    }

    fn idle(&mut self, format: MailFormat, users: u64) -> Result<Figures> {
        let sessions = self.sizes.sessions;
        let server = self.restart(format)?;
        let meter = Meter::start(server)?;
        let clients = Self::idlers(server, sessions, users)?;
        let figures = meter.end(None, 1)?;
        let pss_bytes = TreeMemory::of(server.pid())?.pss;
        drop(clients);
        Ok(Figures { pss_bytes, ..figures })
    }

    fn push(&mut self, format: MailFormat) -> Result<Figures> {
        let (sessions, message) = (self.sizes.sessions, self.material.messages(1));
        let server = self.restart(format)?;
        let mut waiting = Self::idlers(server, sessions, 1)?;
        let mut sender = server.session(USER)?;
        waiting.iter().try_for_each(Client::set_nonblocking)?;
        let meter = Meter::start(server)?;
        sender.append("INBOX", message.first().context("no message")?)?;
        let mut told = Vec::new();
        let deadline = meter.start + PUSH_TIMEOUT;
        while !waiting.is_empty() && Instant::now() < deadline {
            let mut still = Vec::new();
            for mut client in waiting {
                if client.has_heard_of_mail()? { told.push(client) } else { still.push(client) }
            }
            waiting = still;
            std::thread::sleep(Duration::from_millis(1));
        }
        let last = meter.start.elapsed();
        // Those who were not told by then make the deadline the result.
        meter.end(Some(last), 1)
    }

    fn select_first(&mut self, format: MailFormat) -> Result<Figures> {
        self.running = None;
        if format == MailFormat::Mbox {
            // A server may have written to the file.
            self.material.fill(&self.system.mail(), Load::Large, format, 0)?;
        }
        self.system.forget(format)?;
        settle(&self.system.folder)?;
        let server = self.server(format)?;
        let mut client = server.session(USER)?;
        let meter = Meter::start(server)?;
        client.drain("SELECT INBOX")?;
        let figures = meter.end(None, 1);
        client.logout()?;
        figures
    }

    fn select_again(&mut self, format: MailFormat) -> Result<Figures> {
        let times = self.sizes.selects;
        let server = self.server(format)?;
        let meter = Meter::start(server)?;
        let mut apart = Duration::ZERO;
        for _ in 0..times {
            let mut client = server.session(USER)?;
            let start = Instant::now();
            client.drain("SELECT INBOX")?;
            apart += start.elapsed();
            client.logout()?;
        }
        meter.end(Some(apart), times)
    }

    fn stdio(&mut self, format: MailFormat) -> Result<Figures> {
        if self.system.side != Side::Barid {
            // Writes the configuration.
            self.restart(format)?;
        }
        self.running = None;
        let start = Instant::now();
        let (mut client, child) = self.system.stdio()?;
        client.drain("SELECT INBOX")?;
        let wall = start.elapsed();
        client.logout()?;
        let usage = finish(child, start, STEP_DEADLINE, Sampling::Off)?;
        Ok(Figures { real_s: wall.as_secs_f64(), ..Figures::of_process(&usage) })
    }

    fn append(&mut self, format: MailFormat, round: u32) -> Result<Figures> {
        let messages = self.material.messages(self.sizes.appends);
        let server = self.server(format)?;
        let (mut client, mailbox) = (server.session(USER)?, format!("a{round}"));
        client.drain(&format!("CREATE {mailbox}"))?;
        let meter = Meter::start(server)?;
        for message in &messages {
            client.append(&mailbox, message)?;
        }
        let figures = meter.end(None, messages.len() as u64)?;
        let count = client.number(&format!("EXAMINE {mailbox}"), "EXISTS")?;
        ensure!(count == messages.len() as u64, "{count} messages after the last APPEND");
        client.logout()?;
        Ok(figures)
    }

    fn append_many(&mut self, format: MailFormat, round: u32) -> Result<Figures> {
        let messages = self.material.messages(self.sizes.appends);
        let server = self.server(format)?;
        let (mut client, mailbox) = (server.session(USER)?, format!("b{round}"));
        client.drain(&format!("CREATE {mailbox}"))?;
        let sessions: Result<Vec<_>> = (0..APPENDERS).map(|_| server.session(USER)).collect();
        let meter = Meter::start(server)?;
        let barrier = Barrier::new(APPENDERS);
        let append_all = |mut client: Client| {
            barrier.wait();
            for message in &messages {
                client.append(&mailbox, message)?;
            }
            client.logout()
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                sessions?.into_iter().map(|client| scope.spawn(|| append_all(client))).collect();
            let mut joined = threads.into_iter().map(|thread| thread.join());
            joined.try_for_each(|ended| ended.expect("because it does not panic"))
        })?;
        let total = (APPENDERS * messages.len()) as u64;
        let figures = meter.end(None, total)?;
        let count = client.number(&format!("EXAMINE {mailbox}"), "EXISTS")?;
        ensure!(count == total, "{count} messages of {total} after the last APPEND");
        client.logout()?;
        Ok(figures)
    }

    fn move_all(&mut self, format: MailFormat, round: u32) -> Result<Figures> {
        let moved = self.sizes.moved;
        let server = self.server(format)?;
        let (mut client, to) = (server.session(USER)?, format!("to{round}"));
        client.drain(&format!("CREATE {to}"))?;
        // Both mailboxes are known to the server.
        client.drain(&format!("SELECT {to}"))?;
        client.drain(&format!("SELECT m{round}"))?;
        let meter = Meter::start(server)?;
        client.drain(&format!("MOVE 1:{moved} {to}"))?;
        let figures = meter.end(None, 1)?;
        for (mailbox, expected) in [(format!("m{round}"), 0), (to, moved)] {
            let count = client.number(&format!("EXAMINE {mailbox}"), "EXISTS")?;
            ensure!(count == expected, "{count} messages in {mailbox}, not {expected}");
        }
        client.logout()?;
        Ok(figures)
    }

    /// Gives a command in a session whose server has given the answer before.
    fn repeated(&mut self, format: MailFormat, command: &str, times: u64) -> Result<Figures> {
        let server = self.server(format)?;
        let mut client = server.session(USER)?;
        client.drain("SELECT INBOX")?;
        let meter = Meter::start(server)?;
        let mut answer_bytes = 0;
        for _ in 0..times {
            answer_bytes = client.drain(command).map_err(|error| server.explained(error))?;
        }
        let figures = meter.end(None, times)?;
        client.logout()?;
        Ok(Figures { answer_bytes, ..figures })
    }
}
