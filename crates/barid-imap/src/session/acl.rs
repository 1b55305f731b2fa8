//! Access rights (RFC 4314, RFC 8440): every mailbox belongs to the user, who has all rights.

use super::reply::Reply;
use super::{Done, Session};
use crate::backend::{Account, Answer, Refusal};
use crate::command::{MailboxName, StatusItem};

/// Rights of the owner of a mailbox (RFC 4314 §2.1).
pub(super) const OWNER_RIGHTS: &str = "lrswipkxtea";

impl<A: Account> Session<A> {
    pub(super) fn my_rights(&mut self, name: &MailboxName, reply: &mut Reply<'_>) -> Answer<Done> {
        self.check_exists(name)?;
        self.acl_line("MYRIGHTS", name, OWNER_RIGHTS, reply);
        Ok(Done::text("Myrights completed"))
    }

    pub(super) fn get_acl(&mut self, name: &MailboxName, reply: &mut Reply<'_>) -> Answer<Done> {
        self.check_exists(name)?;
        let entry = format!("{} {OWNER_RIGHTS}", quoted(self.account.user()));
        self.acl_line("ACL", name, &entry, reply);
        Ok(Done::text("Getacl completed"))
    }

    pub(super) fn list_rights(
        &mut self,
        name: &MailboxName,
        identifier: &str,
        reply: &mut Reply<'_>,
    ) -> Answer<Done> {
        self.check_exists(name)?;
        // Nobody else can be given any right, and the owner keeps all.
        let rights = if identifier == self.account.user() { OWNER_RIGHTS } else { "\"\"" };
        let rights = format!("{} {rights}", quoted(identifier));
        self.acl_line("LISTRIGHTS", name, &rights, reply);
        Ok(Done::text("Listrights completed"))
    }

    pub(super) fn set_acl(&mut self, name: &MailboxName) -> Answer<Done> {
        self.check_exists(name)?;
        Err(Refusal::new("NOPERM", "The rights of a mailbox cannot be changed"))
    }

    fn check_exists(&mut self, name: &MailboxName) -> Answer<()> {
        self.account.status(name, &[StatusItem::UidValidity]).map(drop)
    }

    fn acl_line(&self, response: &str, name: &MailboxName, rights: &str, reply: &mut Reply<'_>) {
        reply.push("* ");
        reply.push(response);
        reply.push(" ");
        self.mailbox_name(&name.0, reply);
        reply.push(" ");
        reply.push(rights);
        reply.end_line();
    }
}

/// Returns an identifier as a string of the protocol.
fn quoted(identifier: &str) -> String {
    let mut out = Vec::new();
    crate::fetch::string(identifier.as_bytes(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}
