//! The session of a client that is logged in: one command at a time, over the traits of
//! [`crate::backend`].
//!
//! [`Session::receive`] takes bytes, [`Session::poll`] returns the next event, and
//! [`Session::handle`] runs it and writes the responses. A server calls `handle` on a thread that
//! may wait.

mod acl;
mod append;
mod available;
mod capability;
mod context;
mod copy;
mod extras;
mod features;
mod fetch;
mod folders;
mod limit;
mod login;
mod multi_search;
mod notify;
mod notify_names;
mod number;
mod own_changes;
mod reply;
mod search;
mod select;
mod store;
mod sync;
#[cfg(test)]
mod tests;
mod uid_batches;

use std::num::NonZeroU32;
use std::sync::Arc;

use barid_types::{Uid, UidSet};

pub use self::capability::Capabilities;
use self::context::SearchContext;
pub use self::login::{Login, LoginRequest, LoginSettings};
use self::notify::Notifying;
use self::own_changes::OwnChange;
use self::reply::Reply;
use self::select::Selected;
use crate::backend::{Account, Answer, Mailbox as _, Output, Refusal};
use crate::command::{Command, MailboxName, TaggedCommand};
use crate::limits::BAD_COMMANDS_MAX;
use crate::wire::{Decoder, Event};

/// The next step of the server after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Takes the next event.
    Continue,
    /// Waits for input or for a change of the selected mailbox ([`Session::announce`]).
    Idle,
    /// Compresses everything from here on (RFC 4978), starting with unread input.
    Compress,
    /// Returns to the state before login (RFC 8437). Output up to here is compressed if the
    /// connection is; later output is not (§4.1).
    Unauthenticate,
    /// Closes the connection.
    Close,
}

/// Returns the capabilities, in capitals, that are not available to a client with a name, as ID
/// gives it.
#[derive(Clone, Default)]
pub struct DisabledForClient(Option<Arc<CapabilitiesOf>>);

/// Returns capabilities by the name of a client.
type CapabilitiesOf = dyn Fn(&str) -> Vec<String> + Send + Sync;

impl DisabledForClient {
    /// Creates it from a function of the client's name.
    pub fn new(of_name: impl Fn(&str) -> Vec<String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(of_name)))
    }

    fn of(&self, name: &str) -> Vec<String> {
        self.0.as_ref().map(|of_name| of_name(name)).unwrap_or_default()
    }
}

impl std::fmt::Debug for DisabledForClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DisabledForClient").field(&self.0.is_some()).finish()
    }
}

/// Settings of a session.
#[derive(Clone, Debug, Default)]
pub struct SessionSettings {
    /// Capabilities that are not advertised and not available, in capitals.
    pub disabled: Vec<String>,
    /// Further ones that depend on the client.
    pub disabled_for: DisabledForClient,
    /// `true` to offer UIDONLY (RFC 9586), which some clients enable and cannot use.
    pub offers_uid_only: bool,
    /// Number of messages that a command processes, and that MESSAGELIMIT announces (RFC 9738);
    /// `None` for all.
    pub message_limit: Option<NonZeroU32>,
    /// `true` if the connection can be compressed.
    pub can_compress: bool,
    /// `true` if the session can return to the state before login.
    pub can_unauthenticate: bool,
    /// Fields of the answer to ID, such as name and version.
    pub id: Vec<(String, String)>,
}

/// Extensions that the client has enabled (RFC 5161).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Enabled {
    /// IMAP4rev2.
    pub(crate) rev2: bool,
    /// CONDSTORE, by whatever command.
    pub(crate) condstore: bool,
    /// QRESYNC.
    pub(crate) qresync: bool,
    /// UTF8=ACCEPT.
    pub(crate) utf8: bool,
    /// UIDONLY: the client uses no sequence numbers.
    pub(crate) uid_only: bool,
}

/// The session of a client that is logged in.
pub struct Session<A: Account> {
    account: A,
    settings: SessionSettings,
    decoder: Decoder,
    enabled: Enabled,
    selected: Option<Selected<A::Mailbox>>,
    /// The result of the last search that was saved, `$`.
    saved: UidSet,
    /// Searches whose results are kept up to date.
    contexts: Vec<SearchContext>,
    /// The events that NOTIFY has chosen.
    notifying: Option<Notifying>,
    /// Tag of the IDLE that waits for DONE.
    idle_tag: Option<String>,
    /// The reason for which the APPEND being read is refused.
    append_refused: Option<Refusal>,
    /// Messages of the APPEND being read.
    append_count: u32,
    /// The mailbox of that APPEND.
    append_to: Option<MailboxName>,
    bad_commands: u32,
    is_compressed: bool,
    /// The parameters of the client's ID.
    client_id: Vec<(String, Option<String>)>,
    /// Capabilities that are not available to this client.
    disabled_for_client: Vec<String>,
    /// The lowest UID that the running command processes, if it leaves out lower ones because of
    /// MESSAGELIMIT.
    lowest_processed: Option<Uid>,
}

impl<A: Account> Session<A> {
    /// Creates the session of a user. `decoder` is that of the login, with its unread input.
    pub fn new(account: A, settings: SessionSettings, mut decoder: Decoder) -> Self {
        decoder.set_logged_in(true);
        decoder.set_separator(account.separator());
        Self {
            account,
            settings,
            decoder,
            enabled: Enabled::default(),
            selected: None,
            saved: UidSet::new(),
            contexts: Vec::new(),
            notifying: None,
            idle_tag: None,
            append_refused: None,
            append_count: 0,
            append_to: None,
            bad_commands: 0,
            is_compressed: false,
            client_id: Vec::new(),
            disabled_for_client: Vec::new(),
            lowest_processed: None,
        }
    }

    /// Writes the greeting of a connection that needs no login (RFC 9051 §7.1.4).
    pub fn greet_preauth(&self, text: &str, out: &mut dyn Output) {
        let mut reply = Reply::new(out);
        let capabilities = self.capabilities();
        reply.line(format_args!("* PREAUTH [CAPABILITY {capabilities}] {text}"));
    }

    /// Writes the response to a login that succeeded.
    pub fn greet_login(&self, tag: &str, out: &mut dyn Output) {
        let mut reply = Reply::new(out);
        let capabilities = self.capabilities();
        reply.line(format_args!("{tag} OK [CAPABILITY {capabilities}] Logged in"));
    }

    /// Returns the mailboxes of the user.
    pub fn account(&self) -> &A {
        &self.account
    }

    /// Returns the selected mailbox.
    pub fn selected(&self) -> Option<&A::Mailbox> {
        self.selected.as_ref().map(|selected| &selected.mailbox)
    }

    /// Returns the parameters of the client's ID (RFC 2971).
    pub fn client_id(&self) -> &[(String, Option<String>)] {
        &self.client_id
    }

    /// Returns `true` while IDLE waits for DONE.
    pub fn is_idle(&self) -> bool {
        self.idle_tag.is_some()
    }

    /// Takes bytes of the client.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.decoder.push(bytes);
    }

    /// Takes the input that has not been read, for [`Next::Compress`].
    pub fn take_unread(&mut self) -> Vec<u8> {
        self.decoder.take()
    }

    /// Returns the decoder, for the state before login.
    pub fn into_decoder(self) -> Decoder {
        self.decoder
    }

    /// Returns the next event; [`Event::More`] if more input is needed.
    pub fn poll(&mut self) -> Event {
        self.decoder.next()
    }

    /// Runs an event, and writes its responses.
    pub fn handle(&mut self, event: Event, out: &mut dyn Output) -> Next {
        let mut reply = Reply::new(out);
        let next = match event {
            Event::More => Next::Continue,
            Event::Continue => {
                reply.line(format_args!("+ OK"));
                Next::Continue
            }
            Event::Command(TaggedCommand { tag, command }) => {
                self.bad_commands = 0;
                self.run(&tag, command, &mut reply)
            }
            Event::Bad { tag, code, is_no, text } => {
                self.refuse_bad(tag.as_deref(), code, is_no, &text, &mut reply)
            }
            Event::Message(message) => {
                // A refusal is that of the whole command.
                if message.is_first {
                    self.append_refused = None;
                    self.append_to = Some(message.mailbox.clone());
                }
                self.begin_message(message);
                Next::Continue
            }
            Event::Part { part, is_sync } => self.begin_part(part, is_sync, &mut reply),
            Event::Data(bytes) => {
                self.append_data(&bytes);
                Next::Continue
            }
            Event::MessageEnd => Next::Continue,
            Event::Line(line) => self.end_idle(&line, &mut reply),
            Event::Fatal(text) => {
                reply.line(format_args!("* BYE {text}"));
                Next::Close
            }
        };
        if reply.finish() { next } else { Next::Close }
    }

    /// Writes the changes of the selected mailbox to an idle client, and between commands the
    /// events that NOTIFY has chosen ([`Session::is_between_commands`]).
    pub fn announce(&mut self, out: &mut dyn Output) -> Next {
        let mut reply = Reply::new(out);
        let announced = match &self.selected {
            // Whoever calls this knows that there is a newer view.
            Some(selected) => {
                let now = selected.mailbox.view();
                let is_immediate = self.notifying.as_ref().is_none_or(|n| n.selected.is_immediate);
                self.announce_view(now, self.is_idle() || is_immediate, &[], &mut reply)
            }
            None => Ok(()),
        };
        let announced = announced.and_then(|()| self.announce_others(&mut reply));
        let next = match announced {
            Ok(()) if self.is_idle() => Next::Idle,
            Ok(()) => Next::Continue,
            Err(refusal) => self.fail_fatally(&refusal, &mut reply),
        };
        if reply.finish() { next } else { Next::Close }
    }

    fn run(&mut self, tag: &str, command: Command, reply: &mut Reply<'_>) -> Next {
        if self.offers("INPROGRESS") {
            reply.begin_command(tag);
        }
        let mut next = Next::Continue;
        let is_closing = matches!(command, Command::Logout);
        let is_select = matches!(command, Command::Select { .. });
        let may_expunge = may_expunge(&command);
        self.lowest_processed = None;
        let own = self.notifying.as_ref().and_then(|_| OwnChange::of(&command));
        let result = self.dispatch(tag, command, reply, &mut next);
        if let (Ok(_), Some(notifying), Some(own)) = (&result, &mut self.notifying, own) {
            notifying.own.note(own);
        }
        if is_closing || self.is_idle() {
            return next;
        }
        // Changes are announced before the command completes (RFC 9051 §7).
        let announced = match &result {
            Err(refusal) if refusal.is_fatal => Err(refusal.clone()),
            // A client counts what it is told until SELECT completes as the state at its start.
            _ if is_select => Ok(()),
            _ => self.sync(may_expunge, reply),
        };
        match (result, announced) {
            (_, Err(refusal)) if refusal.is_fatal => return self.fail_fatally(&refusal, reply),
            (Ok(done), _) => {
                let done = self.with_known_modseq(done, reply);
                let done = self.with_limit(done, reply);
                reply.ok(tag, &done);
            }
            (Err(refusal), _) => {
                self.with_known_modseq(Done::with(String::new(), ""), reply);
                self.refuse(tag, &refusal, reply);
            }
        }
        next
    }

    /// Runs a command; returns the text of its completion.
    fn dispatch(
        &mut self,
        tag: &str,
        command: Command,
        reply: &mut Reply<'_>,
        next: &mut Next,
    ) -> Answer<Done> {
        self.prepare(&command, reply)?;
        match command {
            Command::Capability => self.capability(reply),
            Command::Noop => Ok(Done::text("NOOP completed")),
            Command::Check => self.check(),
            Command::Logout => {
                reply.line(format_args!("* BYE Logging out"));
                reply.ok(tag, &Done::text("Logout completed"));
                *next = Next::Close;
                Ok(Done::default())
            }
            Command::Id(parameters) => self.id(parameters, reply),
            Command::StartTls | Command::Login { .. } | Command::Authenticate { .. } => {
                Err(Refusal::bad("Already logged in"))
            }
            Command::Unauthenticate => self.unauthenticate(next),
            Command::Enable(names) => self.enable(&names, reply),
            Command::Idle => {
                reply.line(format_args!("+ idling"));
                self.idle_tag = Some(tag.to_owned());
                self.decoder.expect_line();
                *next = Next::Idle;
                self.sync(true, reply)?;
                Ok(Done::default())
            }
            Command::Compress => self.compress(next),
            Command::Select { mailbox, read_only, parameters } => {
                self.select(&mailbox, read_only, &parameters, reply)
            }
            Command::Close => self.close(),
            Command::Unselect => self.unselect(),
            Command::Expunge(set) => self.expunge(set.as_ref(), reply),
            Command::Search(search) => {
                let answer = self.search(tag, &search, reply);
                self.or_forget(&search, answer)
            }
            Command::MultiSearch(multi) => {
                let answer = self.multi_search(tag, &multi, reply);
                self.or_forget(&multi.search, answer)
            }
            Command::Sort(program, search) => {
                let answer = self.sort(tag, &program, &search, reply);
                self.or_forget(&search, answer)
            }
            Command::Thread(algorithm, search) => self.thread(algorithm, &search, reply),
            Command::Fetch(fetch) => self.fetch(&fetch, reply),
            Command::Store(store) => self.store(&store, reply),
            Command::Copy { set, mailbox, moves } => self.copy(&set, &mailbox, moves, reply),
            Command::CancelUpdate(tags) => {
                self.selected_mut()?;
                self.cancel_update(&tags);
                Ok(Done::text("Updates cancelled"))
            }
            Command::UidBatches(size, range) => self.uid_batches(tag, size, range, reply),
            Command::Append => self.noting_added(|session| session.append()),
            Command::Replace { number, uid } => {
                self.noting_added(|session| session.replace(&number, uid, reply))
            }
            other => self.dispatch_account(other, reply),
        }
    }

    /// Fails if a command is not available; waits for messages that it needs.
    fn prepare(&mut self, command: &Command, reply: &mut Reply<'_>) -> Answer<()> {
        self.check_available(command)?;
        if needs_messages(command) { self.read_listed(reply) } else { Ok(()) }
    }

    /// Runs a command that appends messages, and notes them for NOTIFY.
    fn noting_added(&mut self, append: impl FnOnce(&mut Self) -> Answer<Done>) -> Answer<Done> {
        let (mailbox, count) = (self.append_to.take(), self.append_count as usize);
        let Some(mailbox) = mailbox.filter(|_| self.notifying.is_some()) else {
            return append(self);
        };
        // REPLACE announces the message before it ends.
        self.note_added(&mailbox, count);
        append(self).inspect_err(|_| {
            if let Some(notifying) = &mut self.notifying {
                notifying.own.forget_added(&mailbox, count as u64);
            }
        })
    }

    /// Runs a command that concerns the account.
    fn dispatch_account(&mut self, command: Command, reply: &mut Reply<'_>) -> Answer<Done> {
        match command {
            Command::Notify(set) if self.account.can_follow() => self.notify(set, reply),
            Command::Create { mailbox, is_folder, special_use } => {
                self.create(&mailbox, is_folder, &special_use)
            }
            Command::Delete(mailbox) => self.delete(&mailbox),
            Command::Rename { from, to } => self.rename(&from, &to),
            Command::Subscribe(mailbox, yes) => self.subscribe(&mailbox, yes),
            Command::List(list) => self.list(&list, reply),
            Command::Namespace => self.namespace(reply),
            Command::Status(mailbox, items) => self.status(&mailbox, &items, reply),
            Command::GetQuotaRoot(mailbox) => self.quota_root(&mailbox, reply),
            Command::GetQuota(root) => self.quota(&root, reply),
            Command::SetQuota(..) => {
                Err(Refusal::new("NOPERM", "Only the administrator changes quotas"))
            }
            Command::GetMetadata { mailbox, entries, size_max, depth } => {
                self.get_metadata(&mailbox, &entries, size_max, depth, reply)
            }
            Command::SetMetadata(mailbox, entries) => self.set_metadata(&mailbox, &entries),
            Command::MyRights(mailbox) => self.my_rights(&mailbox, reply),
            Command::GetAcl(mailbox) => self.get_acl(&mailbox, reply),
            Command::ListRights(mailbox, who) => self.list_rights(&mailbox, &who, reply),
            Command::SetAcl(mailbox, ..) => self.set_acl(&mailbox),
            _ => Err(Refusal::bad("Command not available")),
        }
    }

    fn end_idle(&mut self, line: &[u8], reply: &mut Reply<'_>) -> Next {
        let Some(tag) = self.idle_tag.take() else { return Next::Continue };
        if !line.trim_ascii().eq_ignore_ascii_case(b"DONE") {
            reply.line(format_args!("{tag} BAD Expected DONE"));
            return Next::Continue;
        }
        match self.sync(true, reply) {
            Err(refusal) if refusal.is_fatal => return self.fail_fatally(&refusal, reply),
            _ => reply.ok(&tag, &Done::text("IDLE completed")),
        }
        Next::Continue
    }

    fn refuse_bad(
        &mut self,
        tag: Option<&str>,
        code: Option<&str>,
        is_no: bool,
        text: &str,
        reply: &mut Reply<'_>,
    ) -> Next {
        self.account.append_abort();
        if code == Some("BADCHARSET") {
            // A search that fails may have been one with SAVE, which then leaves nothing (RFC 5182
            // §2.1).
            self.saved = UidSet::new();
        }
        self.bad_commands += u32::from(!is_no);
        reply.refuse(tag, if is_no { "NO" } else { "BAD" }, code, text);
        if self.bad_commands >= BAD_COMMANDS_MAX {
            reply.line(format_args!("* BYE Too many invalid commands"));
            return Next::Close;
        }
        Next::Continue
    }

    fn fail_fatally(&mut self, refusal: &Refusal, reply: &mut Reply<'_>) -> Next {
        self.selected = None;
        reply.refuse(None, "BYE", refusal.code, &refusal.text);
        Next::Close
    }
}

/// The completion of a command: a response code and a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) code: Option<String>,
    pub(crate) text: &'static str,
}

impl Done {
    pub(crate) fn text(text: &'static str) -> Self {
        Self { code: None, text }
    }

    pub(crate) fn with(code: String, text: &'static str) -> Self {
        Self { code: Some(code), text }
    }
}

/// Returns `true` if more must be known of the messages of the selected mailbox than a name
/// contains.
fn needs_messages(command: &Command) -> bool {
    match command {
        Command::Fetch(fetch) => !fetch.items.are_marks(),
        Command::Search(_)
        | Command::MultiSearch(_)
        | Command::Sort(..)
        | Command::Thread(..)
        | Command::Store(_)
        | Command::Copy { .. }
        | Command::Replace { .. } => true,
        _ => false,
    }
}

/// Returns `true` if EXPUNGE may be sent while the command runs (RFC 9051 §7.5.1).
fn may_expunge(command: &Command) -> bool {
    match command {
        Command::Search(search) | Command::Sort(_, search) | Command::Thread(_, search) => {
            search.uid
        }
        Command::Fetch(fetch) => fetch.set.is_uid(),
        Command::Store(store) => store.set.is_uid(),
        _ => true,
    }
}
