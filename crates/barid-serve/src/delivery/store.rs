//! Choosing the mailbox of a message, and storing it there.

use std::sync::Arc;

use barid::message::{Profile, field, message_id};
use barid::vfs::Vfs;
use barid::{
    ChangeOptions, ChangeRequest, FlagSet, Keyword, Mailbox, MailboxSpec, MessageRest, NewMessage,
    OpenOptions,
};
use barid_auth::User;
use barid_folders::FolderTree;
use barid_imap::command::MailboxName;

use super::duplicates::{Duplicates, Earlier, MessageKey, PendingPlace};
use super::error::{DeliveryError, DeliveryErrorKind};
use super::header::{delivered, from_line};
use super::rules::first_match;
use super::spool::SpooledMessage;
use crate::config::{DeliverySettings, system_flag};
use crate::limits::{PENDING_ROWS_MAX, SPAM_LEN_MAX};
use crate::mail::UserOptions;
use crate::quota::{self, MailUse};

/// A filter that classifies messages.
pub trait SpamCheck: Send + Sync {
    /// Returns `true` if a message is spam.
    ///
    /// # Errors
    /// Any error; the message is then delivered as if it were not spam.
    fn is_spam(&self, user: &User, options: &UserOptions, message: &[u8]) -> std::io::Result<bool>;
}

/// A message, and what is known of its way.
#[derive(Debug)]
pub struct DeliveryRequest<'a> {
    /// The message.
    pub message: &'a SpooledMessage,
    /// The envelope sender, empty for bounces; `None` if it is not known.
    pub sender: Option<&'a str>,
    /// The address to which the message was sent, for Delivered-To.
    pub recipient: Option<&'a str>,
    /// The mailbox that the caller wants; without it the rules decide.
    pub mailbox: Option<&'a str>,
    /// The detail of the address.
    pub detail: Option<&'a str>,
}

/// Result of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// The message is durable in a mailbox.
    Stored {
        /// The name of the mailbox.
        mailbox: String,
        /// `true` if it is there because it is spam.
        is_spam: bool,
        /// Something that did not work, such as the spam filter.
        notes: Vec<String>,
    },
    /// The message had been delivered before.
    Duplicate,
}

/// Delivery to one user.
pub struct Delivery<'a> {
    /// The file system.
    pub vfs: Arc<dyn Vfs>,
    /// The user.
    pub user: &'a User,
    /// The mail of the user.
    pub options: UserOptions,
    /// The settings.
    pub settings: &'a DeliverySettings,
    /// The spam filter.
    pub spam: Option<&'a dyn SpamCheck>,
}

/// The mailbox for a message.
struct Target {
    name: String,
    is_spam: bool,
    /// `true` if it may be created.
    creates: bool,
    flags: FlagSet,
    keywords: Vec<Keyword>,
}

impl Target {
    fn new(name: &str, creates: bool) -> Self {
        let (flags, keywords) = (FlagSet::default(), Vec::new());
        Self { name: name.to_owned(), is_spam: false, creates, flags, keywords }
    }
}

impl Delivery<'_> {
    /// Delivers a message. It is durable when this returns.
    ///
    /// **Commit point:** that of [`Mailbox::change`]. With suppression of duplicates, the intent is
    /// durable before.
    ///
    /// # Errors
    /// [`DeliveryError`]; nothing was stored.
    pub fn deliver(&self, request: &DeliveryRequest<'_>) -> Result<Delivered, DeliveryError> {
        let malformed = |text: &str| DeliveryError::new(DeliveryErrorKind::Malformed, text);
        let header = request.message.header()?;
        let header = header.ok_or_else(|| malformed("the header has more than 16 MB"))?;
        let (_, skipped) = from_line(&header);
        if request.message.len() <= skipped as u64 {
            return Err(malformed("the message is empty"));
        }
        let folders = FolderTree::open(Arc::clone(&self.vfs), self.options.folders.clone())?;
        let mut notes = Vec::new();
        let target = self.target(request, &header[skipped..], &mut notes);
        let spec = self.spec_of(&folders, &target, &mut notes)?;
        // A message that was stored may have filled the mailbox: the quota comes after that.
        let append = |mailbox: &mut Mailbox| {
            self.check_quota(&folders, request.message.len())?;
            self.append(mailbox, request, &header, &target)
        };
        let id = field(&header[skipped..], b"Message-ID");
        let id =
            id.and_then(|field| message_id(field.body, Profile::Rfc).map(|id| id.into_owned()));
        let id = id.filter(|id| !id.is_empty());
        match (self.settings.duplicates, id) {
            (Some(window), Some(id)) => {
                let mut store = Duplicates::open(&self.vfs, &self.options.open.state_dir, window)?;
                match self.deliver_once(&mut store, &folders, (&id, &spec), append)? {
                    true => Ok(stored(&spec.0, &target, notes)),
                    false => Ok(Delivered::Duplicate),
                }
            }
            _ => {
                append(&mut self.open(&spec.1)?)?;
                Ok(stored(&spec.0, &target, notes))
            }
        }
    }

    /// Stores a message unless it was stored before; returns `true` if it was stored now.
    fn deliver_once(
        &self,
        store: &mut Duplicates,
        folders: &FolderTree,
        (id, (name, spec)): (&[u8], &(String, MailboxSpec)),
        append: impl FnOnce(&mut Mailbox) -> Result<(), DeliveryError>,
    ) -> Result<bool, DeliveryError> {
        let key = MessageKey::of(id);
        match store.earlier(key) {
            Earlier::Stored => return Ok(false),
            Earlier::Pending(place) if self.is_there(folders, &place, id)? => {
                store.stored(key)?;
                return Ok(false);
            }
            Earlier::Pending(_) | Earlier::Unknown => {}
        }
        let mut mailbox = self.open(spec)?;
        let status = mailbox.status();
        let place = PendingPlace {
            mailbox: name.clone(),
            uidvalidity: status.uidvalidity.get(),
            uidnext: status.uidnext.get(),
        };
        store.begin(key, &place)?;
        match append(&mut mailbox) {
            // The message is durable: an error now only means that its mailbox is asked next time.
            Ok(()) => {
                let _ = store.stored(key);
                Ok(true)
            }
            Err(error) => {
                // The change may have been committed before the error: the mailbox tells next time.
                if matches!(error.kind, DeliveryErrorKind::TooLarge | DeliveryErrorKind::OverQuota)
                {
                    let _ = store.failed(key);
                }
                Err(error)
            }
        }
    }

    /// Returns `true` if a message was stored by a delivery that did not end.
    fn is_there(
        &self,
        folders: &FolderTree,
        place: &PendingPlace,
        id: &[u8],
    ) -> Result<bool, DeliveryError> {
        let spec = match folders.spec_of(&MailboxName::from(place.mailbox.as_str())) {
            Ok(spec) => spec,
            Err(barid_folders::Error::NoSuchMailbox { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let view = self.open(&spec)?.view();
        let is_same = view.view_status().uidvalidity.get() == place.uidvalidity;
        let from = match barid::Uid::new(place.uidnext).filter(|_| is_same) {
            Some(uidnext) => view.row_from(uidnext)?,
            None => 0,
        };
        let from = from.max(view.len().saturating_sub(PENDING_ROWS_MAX));
        let rows: Vec<u32> = (from..view.len()).collect();
        let mut is_there = false;
        view.summaries(&rows, &mut |summary| {
            let found = summary.fields.message_id.and_then(|raw| message_id(raw, Profile::Rfc));
            is_there = found.as_deref() == Some(id);
            !is_there
        })?;
        Ok(is_there)
    }

    fn open(&self, spec: &MailboxSpec) -> Result<Mailbox, DeliveryError> {
        match Mailbox::open_in(Arc::clone(&self.vfs), spec, &self.options.open) {
            // A damaged cache must not keep mail away. The next program that reads removes it.
            Err(barid::Error::Cache(_)) => {
                let options = OpenOptions { cache_dir: None, ..self.options.open.clone() };
                Ok(Mailbox::open_in(Arc::clone(&self.vfs), spec, &options)?)
            }
            opened => Ok(opened?),
        }
    }

    fn append(
        &self,
        mailbox: &mut Mailbox,
        request: &DeliveryRequest<'_>,
        header: &[u8],
        target: &Target,
    ) -> Result<(), DeliveryError> {
        let head = delivered(header, request.sender, request.recipient);
        let rest = request.message.rest(header.len() as u64);
        let message = NewMessage {
            bytes: &head.bytes,
            rest: (rest.size() > 0).then_some(&rest as &dyn MessageRest),
            flags: target.flags,
            keywords: target.keywords.clone(),
            sender: head.sender.as_deref(),
            ..NewMessage::default()
        };
        let appends = [message];
        let change = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        mailbox.change(&change, &ChangeOptions::default())?;
        Ok(())
    }

    /// Chooses the mailbox: the one that was asked for, that of the detail, that of spam, that of
    /// the first rule, INBOX.
    fn target(
        &self,
        request: &DeliveryRequest<'_>,
        header: &[u8],
        notes: &mut Vec<String>,
    ) -> Target {
        if let Some(name) = request.mailbox {
            return Target::new(name, self.settings.create_mailboxes);
        }
        if let Some(detail) = request.detail.filter(|_| self.settings.detail_mailbox) {
            // Anybody can invent details.
            return Target::new(detail, false);
        }
        if let (Some(check), Some(spam)) = (self.spam, &self.settings.spam) {
            match self.is_spam(check, request.message) {
                Ok(true) => {
                    let target = Target::new(&spam.mailbox, self.settings.create_mailboxes);
                    return Target { is_spam: true, ..target };
                }
                Ok(false) => {}
                Err(error) => notes.push(format!("not classified: {error}")),
            }
        }
        let rule = first_match(&self.settings.rules, header);
        let name = rule.and_then(|rule| rule.mailbox.as_deref());
        let mut target = Target::new(name.unwrap_or(INBOX), self.settings.create_mailboxes);
        for flag in rule.iter().flat_map(|rule| &rule.flags) {
            match system_flag(flag) {
                Some(flag) => target.flags = target.flags.with(flag),
                None => target.keywords.extend(Keyword::new(flag)),
            }
        }
        target
    }

    fn is_spam(&self, check: &dyn SpamCheck, message: &SpooledMessage) -> std::io::Result<bool> {
        if message.len() > SPAM_LEN_MAX {
            let text = format!("the message has more than {SPAM_LEN_MAX} bytes");
            return Err(std::io::Error::other(text));
        }
        check.is_spam(self.user, &self.options, &message.start(SPAM_LEN_MAX as usize)?)
    }

    /// Returns name and place of the mailbox, which is created if it is missing and may be.
    /// Otherwise INBOX gets the message.
    fn spec_of(
        &self,
        folders: &FolderTree,
        target: &Target,
        notes: &mut Vec<String>,
    ) -> Result<(String, MailboxSpec), DeliveryError> {
        use barid_folders::Error;
        let name = MailboxName::from(target.name.as_str());
        let found = match folders.spec_of(&name) {
            Err(Error::NoSuchMailbox { .. }) if target.creates || is_inbox(&target.name) => {
                match folders.create(&name, false, &[]) {
                    Ok(()) if !is_inbox(&target.name) => {
                        if let Err(error) = folders.subscribe(&name, true) {
                            notes.push(format!("{}: not subscribed to: {error}", target.name));
                        }
                    }
                    Ok(()) | Err(Error::AlreadyExists { .. }) => {}
                    Err(error @ Error::Cannot { .. }) => {
                        notes.push(format!("not created: {error}"));
                    }
                    Err(error) => return Err(error.into()),
                }
                folders.spec_of(&name)
            }
            found => found,
        };
        match found {
            Ok(spec) => Ok((target.name.clone(), spec)),
            Err(Error::NoSuchMailbox { .. } | Error::Cannot { .. }) if !is_inbox(&target.name) => {
                notes.push(format!("{}: cannot be used, so the message is in INBOX", target.name));
                self.spec_of(folders, &Target::new(INBOX, true), notes)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Fails if the message would exceed the quota of the user.
    fn check_quota(&self, folders: &FolderTree, len: u64) -> Result<(), DeliveryError> {
        let limits = self.options.quota;
        if limits.is_unlimited() {
            return Ok(());
        }
        let used = quota::count(&self.vfs, folders, &self.options.open, &mut |spec| {
            Some(self.open(spec).ok()?.view().figures())
        })?;
        match limits.allows(used, MailUse { size: len, messages: 1 }) {
            true => Ok(()),
            false => Err(DeliveryError::new(DeliveryErrorKind::OverQuota, "the mailbox is full")),
        }
    }
}

const INBOX: &str = MailboxName::INBOX;

fn is_inbox(name: &str) -> bool {
    name.eq_ignore_ascii_case(INBOX)
}

fn stored(name: &str, target: &Target, notes: Vec<String>) -> Delivered {
    Delivered::Stored { mailbox: name.to_owned(), is_spam: target.is_spam, notes }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use barid::vfs::{Fault, FaultVfs, MemVfs};

    use super::*;
    use crate::config::ServerConfig;

    const MESSAGE: &str = "From: a@b\nMessage-ID: <1@b>\n\nHello\n";

    /// A user with a home in memory, and a configuration.
    struct Home {
        vfs: Arc<dyn Vfs>,
        config: ServerConfig,
        user: User,
    }

    impl Home {
        fn new(vfs: Arc<dyn Vfs>, settings: &str) -> Self {
            let config = ServerConfig::parse(Path::new("t"), settings).unwrap();
            let name = barid_auth::NameRules::default().name(b"ann").unwrap();
            let user = User { home: Some("/ann".to_owned()), ..User::named(name) };
            Self { vfs, config, user }
        }

        fn deliver_to(
            &self,
            text: &str,
            (mailbox, detail): (Option<&str>, Option<&str>),
            spam: Option<&dyn SpamCheck>,
        ) -> Result<Delivered, DeliveryError> {
            let mut message = SpooledMessage::new(Arc::clone(&self.vfs), "/spool".into(), 1 << 30);
            message.push(text.as_bytes()).unwrap();
            let options = self.config.user_options(&self.user).unwrap();
            let delivery = Delivery {
                vfs: Arc::clone(&self.vfs),
                user: &self.user,
                options,
                settings: &self.config.delivery,
                spam,
            };
            let (sender, recipient) = (Some("a@b"), Some("ann@c"));
            let message = &message;
            delivery.deliver(&DeliveryRequest { message, sender, recipient, mailbox, detail })
        }

        fn deliver(&self, text: &str) -> Result<Delivered, DeliveryError> {
            self.deliver_to(text, (None, None), None)
        }

        /// Returns the number of messages of a mailbox.
        fn count(&self, mailbox: &str) -> u32 {
            let options = self.config.user_options(&self.user).unwrap();
            let folders = FolderTree::open(Arc::clone(&self.vfs), options.folders).unwrap();
            match folders.spec_of(&MailboxName::from(mailbox)) {
                Ok(spec) => {
                    let vfs = Arc::clone(&self.vfs);
                    Mailbox::open_in(vfs, &spec, &options.open).unwrap().status().messages
                }
                Err(_) => 0,
            }
        }
    }

    fn home(settings: &str) -> Home {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        vfs.create_dir(Path::new("/ann"), 0o700).unwrap();
        Home::new(vfs, settings)
    }

    fn name_of(delivered: Result<Delivered, DeliveryError>) -> (String, bool, usize) {
        match delivered.unwrap() {
            Delivered::Stored { mailbox, is_spam, notes } => (mailbox, is_spam, notes.len()),
            Delivered::Duplicate => ("duplicate".to_owned(), false, 0),
        }
    }

    /// Calls every message with the word `pills` spam, and fails for `broken`.
    struct Words;

    impl SpamCheck for Words {
        fn is_spam(&self, _: &User, _: &UserOptions, message: &[u8]) -> std::io::Result<bool> {
            let text = String::from_utf8_lossy(message);
            match text.contains("broken") {
                true => Err(std::io::Error::other("no word list")),
                false => Ok(text.contains("pills")),
            }
        }
    }

    #[test]
    fn the_mailbox_is_the_first_that_applies() {
        let home = home(
            "[delivery]\ndetail_mailbox = true\n[delivery.spam]\nmailbox = \"Junk\"\n\
             [[delivery.rule]]\nlist_id = \"l\"\nmailbox = \"Lists.l\"\nflags = \"x\"\n\
             [[delivery.rule]]\nheader = \"Bad\"\nmailbox = \"a//..//b\"\n",
        );
        let deliver = |text: &str, mailbox, detail| {
            name_of(home.deliver_to(text, (mailbox, detail), Some(&Words)))
        };
        let check = |found: (String, bool, usize), name: &str, is_spam, notes| {
            assert_eq!(found, (name.to_owned(), is_spam, notes));
        };
        check(deliver(MESSAGE, None, None), "INBOX", false, 0);
        check(deliver("List-Id: <l>\n\n", None, None), "Lists.l", false, 0);
        check(deliver("List-Id: <l>\n\npills\n", None, None), "Junk", true, 0);
        check(deliver("A: broken\n\npills\n", None, None), "INBOX", false, 1);
        check(deliver("A: b\n\npills\n", Some("Asked"), Some("Lists.l")), "Asked", false, 0);
        check(deliver("A: b\n\npills\n", None, Some("Lists.l")), "Lists.l", false, 0);
        check(deliver("A: b\n\n", None, Some("Invented")), "INBOX", false, 1);
        check(deliver("A: b\n\n", None, Some("../../etc")), "INBOX", false, 1);
        check(deliver("Bad: b\n\n", None, None), "INBOX", false, 1);
        let counts = ["INBOX", "Lists.l", "Junk", "Asked"].map(|name| home.count(name));
        assert_eq!(counts, [5, 2, 1, 1]);
    }

    #[test]
    fn quotas_and_malformed_messages_are_refused() {
        let home = home("[quota]\nmessages = 2\nsize = \"1 KB\"\n");
        let kind = |text: &str| home.deliver(text).unwrap_err().kind;
        assert_eq!(kind(""), DeliveryErrorKind::Malformed);
        assert_eq!(kind("From a@b Mon Jan 1 00:00:00 2024\n"), DeliveryErrorKind::Malformed);
        assert_eq!(kind(&format!("A: b\n\n{}", "x".repeat(1100))), DeliveryErrorKind::OverQuota);
        assert_eq!(kind(&"x".repeat(17 << 20)), DeliveryErrorKind::Malformed);
        home.deliver("A: 1\n\n").unwrap();
        home.deliver("A: 2\n\n").unwrap();
        assert_eq!(kind("A: 3\n\n"), DeliveryErrorKind::OverQuota);
        assert_eq!(home.count("INBOX"), 2);
    }

    /// Fails every call of a delivery in turn, and tries again without the fault.
    fn check_faults(settings: &str, format: &str, most: u32) -> u32 {
        let settings = format!("[mail]\nlocation = \"{format}:~/mail\"\n{settings}");
        for nth in 1.. {
            let memory = MemVfs::new();
            memory.create_dir(Path::new("/ann"), 0o700).unwrap();
            let before = Home::new(Arc::new(memory.clone()), &settings);
            before.deliver("Message-ID: <0@b>\n\nbefore\n").unwrap();
            let faulty = FaultVfs::new(memory.clone(), Fault::nth(nth));
            let first = Home::new(Arc::new(faulty.clone()), &settings).deliver(MESSAGE);
            let after = Home::new(Arc::new(memory), &settings);
            let stored = after.count("INBOX");
            assert!(first.is_err() || stored == 2, "{nth}: acknowledged and not there");
            if let Err(error) = after.deliver(MESSAGE) {
                // The fault hit the removal of a lock file, which is stale later.
                assert!(error.text.contains("locked by"), "{nth}: {error}");
                after.vfs.sleep(std::time::Duration::from_secs(600));
                after.deliver(MESSAGE).unwrap();
            }
            let stored = after.count("INBOX");
            let again = u32::from(first.is_ok() && most == 2);
            assert!((2 + again..=1 + most).contains(&stored), "{nth}: {stored} {first:?}");
            if !faulty.fired() {
                return nth as u32;
            }
        }
        0
    }

    #[test]
    fn no_fault_loses_or_doubles_a_message() {
        for format in ["maildir", "mbox"] {
            let tried = check_faults("[delivery]\nduplicates = \"1 h\"\n", format, 1);
            assert!(tried > 40, "{format}: {tried}");
            let tried = check_faults("", format, 2);
            assert!(tried > 25, "{format}: {tried}");
        }
    }

    #[test]
    fn a_large_message_is_stored_as_it_is() {
        let home = home("[mail]\nlocation = \"mbox:~/mail\"\n");
        let line = "0123456789abcdef\n";
        let body = line.repeat(40_000);
        home.deliver(&format!("Subject: large\n\n{body}")).unwrap();
        let stored = home.vfs.read(Path::new("/ann/mail/inbox"), 1 << 20).unwrap();
        let stored = String::from_utf8(stored).unwrap();
        assert!(stored.starts_with("From a@b "), "{}", &stored[..100]);
        assert!(stored.contains("\nReturn-Path: <a@b>\nDelivered-To: ann@c\nSubject: large\n"));
        assert_eq!(stored.matches(line).count(), 40_000);
    }
}
