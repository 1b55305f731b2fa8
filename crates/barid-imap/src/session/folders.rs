//! Commands about mailboxes and their names (RFC 9051 §6.3, RFC 5258, RFC 5819, RFC 6154).

use std::borrow::Cow;

use super::acl::OWNER_RIGHTS;
use super::reply::Reply;
use super::{Done, Session};
use crate::backend::{Account, Answer, ListedMailbox, Refusal, StatusValue};
use crate::command::{ListCommand, MailboxName, StatusItem};
use crate::wire::encode_utf7;

impl<A: Account> Session<A> {
    pub(super) fn create(
        &mut self,
        name: &MailboxName,
        is_folder: bool,
        special_use: &[String],
    ) -> Answer<Done> {
        self.account.create(name, is_folder, special_use)?;
        let text = "Create completed";
        if !self.offers("OBJECTID") {
            return Ok(Done::text(text));
        }
        // A name that cannot be selected has no identifier.
        let values = self.account.status(name, &[StatusItem::MailboxId]).unwrap_or_default();
        Ok(match values.as_slice() {
            [(_, StatusValue::Id(id))] => Done::with(format!("MAILBOXID ({id})"), text),
            _ => Done::text(text),
        })
    }

    pub(super) fn delete(&mut self, name: &MailboxName) -> Answer<Done> {
        self.account.delete(name)?;
        Ok(Done::text("Delete completed"))
    }

    pub(super) fn rename(&mut self, from: &MailboxName, to: &MailboxName) -> Answer<Done> {
        self.account.rename(from, to)?;
        Ok(Done::text("Rename completed"))
    }

    pub(super) fn subscribe(&mut self, name: &MailboxName, yes: bool) -> Answer<Done> {
        self.account.subscribe(name, yes)?;
        Ok(Done::text(if yes { "Subscribe completed" } else { "Unsubscribe completed" }))
    }

    pub(super) fn namespace(&mut self, reply: &mut Reply<'_>) -> Answer<Done> {
        reply.push("* NAMESPACE (");
        for namespace in self.account.namespaces() {
            reply.push("(");
            self.mailbox_name(&namespace.prefix, reply);
            reply.push(" ");
            self.separator(reply);
            reply.push(")");
        }
        reply.push(") NIL NIL");
        reply.end_line();
        Ok(Done::text("Namespace completed"))
    }

    pub(super) fn list(&mut self, command: &ListCommand, reply: &mut Reply<'_>) -> Answer<Done> {
        if command.asks_separator() {
            reply.push("* ");
            reply.push(command.response);
            reply.push(" (\\Noselect) ");
            self.separator(reply);
            reply.push(" \"\"");
            reply.end_line();
            return Ok(Done::text("List completed"));
        }
        for mailbox in self.account.list(command)? {
            self.write_listed(command, &mailbox, None, reply);
            if !command.returns.status.is_empty() && mailbox.is_selectable {
                let name = MailboxName::from(&*mailbox.name);
                // A mailbox that cannot be opened has no STATUS (RFC 5819 §2).
                if let Ok(values) = self.account.status(&name, &command.returns.status) {
                    self.write_status(&name, &values, reply);
                }
            }
            if !command.returns.metadata.is_empty() && mailbox.exists {
                self.write_metadata_of(&mailbox.name, &command.returns.metadata, reply);
            }
            if !reply.flush() {
                break;
            }
        }
        Ok(Done::text("List completed"))
    }

    /// Writes a mailbox, with its name before if it was renamed (RFC 5465 §5.4).
    pub(super) fn write_listed(
        &self,
        command: &ListCommand,
        mailbox: &ListedMailbox,
        old_name: Option<&str>,
        reply: &mut Reply<'_>,
    ) {
        reply.push("* ");
        reply.push(command.response);
        reply.push(" (");
        let mut attributes = attributes(command, mailbox);
        let shows_children = command.returns.children || self.offers_or_rev2("CHILDREN");
        let shows_use = self.offers_or_rev2("SPECIAL-USE");
        attributes.retain(|attribute| match *attribute {
            "\\HasChildren" | "\\HasNoChildren" => shows_children,
            attribute => shows_use || !mailbox.special_use.iter().any(|use_| use_ == attribute),
        });
        for (at, attribute) in attributes.into_iter().enumerate() {
            if at > 0 {
                reply.push(" ");
            }
            reply.push(attribute);
        }
        reply.push(") ");
        self.separator(reply);
        reply.push(" ");
        self.mailbox_name(&mailbox.name, reply);
        if command.selection.recursive_match && mailbox.has_subscribed_below {
            reply.push(" (CHILDINFO (\"SUBSCRIBED\"))");
        }
        if let Some(old_name) = old_name {
            reply.push(" (\"OLDNAME\" (");
            self.mailbox_name(old_name, reply);
            reply.push("))");
        }
        reply.end_line();
        if command.returns.my_rights && mailbox.exists {
            reply.push("* MYRIGHTS ");
            self.mailbox_name(&mailbox.name, reply);
            reply.push(" ");
            reply.push(OWNER_RIGHTS);
            reply.end_line();
        }
    }

    pub(super) fn status(
        &mut self,
        name: &MailboxName,
        items: &[StatusItem],
        reply: &mut Reply<'_>,
    ) -> Answer<Done> {
        if items.contains(&StatusItem::HighestModSeq) {
            self.enable_condstore(reply)?;
        }
        let values = self.account.status(name, items)?;
        self.write_status(name, &values, reply);
        Ok(Done::text("Status completed"))
    }

    pub(super) fn write_status(
        &self,
        name: &MailboxName,
        values: &[(StatusItem, StatusValue)],
        reply: &mut Reply<'_>,
    ) {
        reply.push("* STATUS ");
        self.mailbox_name(&name.0, reply);
        reply.push(" (");
        for (at, (item, value)) in values.iter().enumerate() {
            if at > 0 {
                reply.push(" ");
            }
            reply.push(item.name());
            reply.push(" ");
            match value {
                StatusValue::Number(number) => reply.number(*number),
                StatusValue::Id(id) => {
                    reply.push("(");
                    reply.push(id);
                    reply.push(")");
                }
                StatusValue::Nil => reply.push("NIL"),
            }
        }
        reply.push(")");
        reply.end_line();
    }

    /// Writes the hierarchy separator.
    pub(super) fn separator(&self, reply: &mut Reply<'_>) {
        let mut room = [0; 4];
        reply.string(self.account.separator().encode_utf8(&mut room), false);
    }

    /// Writes the name of a mailbox: in modified UTF-7 unless the client has enabled UTF-8.
    pub(super) fn mailbox_name(&self, name: &str, reply: &mut Reply<'_>) {
        let name = &*self.encoded_name(name);
        let is_atom = |byte: u8| byte > b' ' && byte < 0x7f && !b"(){%*\"\\]".contains(&byte);
        let is_nil = name.eq_ignore_ascii_case("NIL");
        if !name.is_empty() && name.bytes().all(is_atom) && !is_nil {
            return reply.push(name);
        }
        reply.string(name, self.has_utf8_names());
    }

    fn has_utf8_names(&self) -> bool {
        self.enabled.utf8 || self.enabled.rev2
    }

    /// Returns the name of a mailbox as the client sees it.
    pub(super) fn encoded_name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match self.has_utf8_names() {
            true => Cow::Borrowed(name),
            false => Cow::Owned(encode_utf7(name)),
        }
    }
}

/// Returns the attributes of a mailbox in the answer to LIST.
fn attributes<'m>(command: &ListCommand, mailbox: &'m ListedMailbox) -> Vec<&'m str> {
    // LSUB lists names: one that is only the beginning of others has \Noselect (RFC 3501 §6.3.9).
    if command.response == "LSUB" {
        return if mailbox.is_subscribed { Vec::new() } else { vec!["\\Noselect"] };
    }
    let mut attributes = Vec::new();
    if !mailbox.exists && command.is_extended {
        // It implies \Noselect (RFC 5258 §3).
        attributes.push("\\NonExistent");
    } else if !mailbox.exists || !mailbox.is_selectable {
        attributes.push("\\Noselect");
    }
    match (mailbox.exists, mailbox.may_have_children, mailbox.has_children) {
        (_, _, true) => attributes.push("\\HasChildren"),
        (true, true, false) => attributes.push("\\HasNoChildren"),
        (true, false, false) => attributes.push("\\NoInferiors"),
        (false, _, false) => {}
    }
    let asks_subscribed = command.selection.subscribed || command.returns.subscribed;
    if asks_subscribed && mailbox.is_subscribed {
        attributes.push("\\Subscribed");
    }
    attributes.extend(mailbox.special_use.iter().map(String::as_str));
    if command.response == "XLIST" && mailbox.name == MailboxName::INBOX {
        attributes.push("\\Inbox");
    }
    attributes
}

impl StatusItem {
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Messages => "MESSAGES",
            Self::Recent => "RECENT",
            Self::UidNext => "UIDNEXT",
            Self::UidValidity => "UIDVALIDITY",
            Self::Unseen => "UNSEEN",
            Self::Deleted => "DELETED",
            Self::Size => "SIZE",
            Self::HighestModSeq => "HIGHESTMODSEQ",
            Self::AppendLimit => "APPENDLIMIT",
            Self::MailboxId => "MAILBOXID",
            Self::DeletedStorage => "DELETED-STORAGE",
        }
    }
}

impl Refusal {
    /// Creates a refusal without a response code.
    pub fn text(text: impl Into<String>) -> Self {
        Self { code: None, text: text.into(), is_fatal: false }
    }
}
