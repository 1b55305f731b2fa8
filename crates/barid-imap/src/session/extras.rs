//! ID, ENABLE, COMPRESS, UNAUTHENTICATE, QUOTA, METADATA.

use super::reply::Reply;
use super::{Done, Next, Session};
use crate::backend::{Account, Answer, QuotaResource, Refusal};
use crate::command::MailboxName;
use crate::fetch::{literal, nstring};

impl<A: Account> Session<A> {
    /// Answers ID (RFC 2971).
    pub(super) fn id(
        &mut self,
        parameters: Vec<(String, Option<String>)>,
        reply: &mut Reply<'_>,
    ) -> Answer<Done> {
        self.set_client_id(parameters);
        write_id(&self.settings.id, reply);
        Ok(Done::text("ID completed"))
    }

    /// Enables extensions (RFC 5161); the response names those that are enabled now and were not
    /// before.
    pub(super) fn enable(&mut self, names: &[String], reply: &mut Reply<'_>) -> Answer<Done> {
        let mut enabled = self.enabled;
        for name in names.iter().filter(|name| self.offers(name)) {
            match name.as_str() {
                "IMAP4REV2" => enabled.rev2 = true,
                "CONDSTORE" => enabled.condstore = true,
                "QRESYNC" => (enabled.qresync, enabled.condstore) = (true, true),
                "UTF8=ACCEPT" => enabled.utf8 = true,
                "UIDONLY" => enabled.uid_only = true,
                _ => {}
            }
        }
        reply.push("* ENABLED");
        let before = self.enabled;
        for (name, is_new) in [
            ("IMAP4rev2", enabled.rev2 && !before.rev2),
            ("CONDSTORE", enabled.condstore && !before.condstore),
            ("QRESYNC", enabled.qresync && !before.qresync),
            ("UTF8=ACCEPT", enabled.utf8 && !before.utf8),
            ("UIDONLY", enabled.uid_only && !before.uid_only),
        ] {
            let is_named = names.iter().any(|asked| asked.eq_ignore_ascii_case(name));
            if is_new && is_named {
                reply.push(" ");
                reply.push(name);
            }
        }
        reply.end_line();
        if enabled.condstore {
            self.enable_condstore(reply)?;
        }
        self.enabled = enabled;
        self.decoder.set_rev2(enabled.rev2);
        self.decoder.set_utf8(enabled.rev2 || enabled.utf8);
        Ok(Done::text("Enabled"))
    }

    pub(super) fn compress(&mut self, next: &mut Next) -> Answer<Done> {
        if self.is_compressed {
            return Err(Refusal::new("COMPRESSIONACTIVE", "Compression is active already"));
        }
        self.is_compressed = true;
        *next = Next::Compress;
        Ok(Done::text("Begin compression"))
    }

    pub(super) fn unauthenticate(&mut self, next: &mut Next) -> Answer<Done> {
        self.selected = None;
        *next = Next::Unauthenticate;
        Ok(Done::text("Unauthenticated"))
    }

    /// Answers GETQUOTAROOT (RFC 9208 §4.1.3).
    pub(super) fn quota_root(&mut self, name: &MailboxName, reply: &mut Reply<'_>) -> Answer<Done> {
        let roots = self.account.quota(Some(name))?;
        reply.push("* QUOTAROOT ");
        self.mailbox_name(&name.0, reply);
        for (root, _) in &roots {
            reply.push(" ");
            self.mailbox_name(root, reply);
        }
        reply.end_line();
        for (root, resources) in &roots {
            self.write_quota(root, resources, reply);
        }
        Ok(Done::text("Getquotaroot completed"))
    }

    /// Answers GETQUOTA (RFC 9208 §4.1.2).
    pub(super) fn quota(&mut self, root: &str, reply: &mut Reply<'_>) -> Answer<Done> {
        let roots = self.account.quota(None)?;
        let found = roots.iter().find(|(name, _)| name == root);
        let Some((root, resources)) = found else {
            return Err(Refusal::new("NONEXISTENT", "There is no such quota root"));
        };
        self.write_quota(root, resources, reply);
        Ok(Done::text("Getquota completed"))
    }

    fn write_quota(&self, root: &str, resources: &[QuotaResource], reply: &mut Reply<'_>) {
        reply.push("* QUOTA ");
        self.mailbox_name(root, reply);
        reply.push(" (");
        for (at, resource) in resources.iter().enumerate() {
            let QuotaResource { name, usage, limit } = resource;
            let space = if at > 0 { " " } else { "" };
            reply.push(&format!("{space}{name} {usage} {limit}"));
        }
        reply.push(")");
        reply.end_line();
    }

    /// Answers GETMETADATA (RFC 5464 §4.2).
    pub(super) fn get_metadata(
        &mut self,
        mailbox: &MailboxName,
        entries: &[String],
        size_max: Option<u64>,
        depth: Option<u32>,
        reply: &mut Reply<'_>,
    ) -> Answer<Done> {
        let all = self.account.metadata(mailbox)?;
        let is_asked = |name: &str| entries.iter().any(|entry| is_below(name, entry, depth));
        let mut longest = 0;
        let mut found = Vec::new();
        for (name, value) in all.iter().filter(|(name, _)| is_asked(name)) {
            let len = value.len() as u64;
            match size_max.is_some_and(|max| len > max) {
                true => longest = longest.max(len),
                false => found.push((name.as_str(), Some(value.as_slice()))),
            }
        }
        // An entry without a value is answered, too.
        let is_there = |entry: &str| all.iter().any(|(name, _)| name.eq_ignore_ascii_case(entry));
        let missing = entries.iter().filter(|entry| !is_there(entry) && depth == Some(0));
        found.extend(missing.map(|entry| (entry.as_str(), None)));
        self.write_metadata(&mailbox.0, &found, reply);
        Ok(match longest {
            0 => Done::text("Getmetadata completed"),
            _ => Done::with(format!("METADATA LONGENTRIES {longest}"), "Getmetadata completed"),
        })
    }

    pub(super) fn write_metadata_of(
        &mut self,
        mailbox: &str,
        entries: &[String],
        reply: &mut Reply<'_>,
    ) {
        let Ok(all) = self.account.metadata(&MailboxName::from(mailbox)) else { return };
        let value_of = |entry: &str| {
            let known = all.iter().find(|(name, _)| name.eq_ignore_ascii_case(entry));
            known.map(|(_, value)| value.as_slice())
        };
        let found: Vec<_> = entries.iter().map(|entry| (entry.as_str(), value_of(entry))).collect();
        self.write_metadata(mailbox, &found, reply);
    }

    fn write_metadata(
        &self,
        mailbox: &str,
        entries: &[(&str, Option<&[u8]>)],
        reply: &mut Reply<'_>,
    ) {
        if entries.is_empty() {
            return;
        }
        reply.push("* METADATA ");
        self.mailbox_name(mailbox, reply);
        reply.push(" (");
        for (at, (name, value)) in entries.iter().enumerate() {
            if at > 0 {
                reply.push(" ");
            }
            reply.push(name);
            reply.push(" ");
            match value {
                Some(value) if value.contains(&0) => literal(value, reply.bytes()),
                value => nstring(*value, reply.bytes()),
            }
        }
        reply.push(")");
        reply.end_line();
    }

    pub(super) fn set_metadata(
        &mut self,
        mailbox: &MailboxName,
        entries: &[(String, Option<Vec<u8>>)],
    ) -> Answer<Done> {
        self.account.set_metadata(mailbox, entries)?;
        Ok(Done::text("Setmetadata completed"))
    }
}

/// Writes the fields of the server in the answer to ID.
pub(super) fn write_id(fields: &[(String, String)], reply: &mut Reply<'_>) {
    reply.push("* ID ");
    if fields.is_empty() {
        reply.push("NIL");
    } else {
        reply.push("(");
        for (at, (name, value)) in fields.iter().enumerate() {
            if at > 0 {
                reply.push(" ");
            }
            reply.string(name, false);
            reply.push(" ");
            reply.string(value, false);
        }
        reply.push(")");
    }
    reply.end_line();
}

/// Returns `true` if an entry is the one asked for, or below it within `depth` levels.
fn is_below(name: &str, asked: &str, depth: Option<u32>) -> bool {
    let (name, asked) = (name.to_ascii_lowercase(), asked.to_ascii_lowercase());
    let Some(rest) = name.strip_prefix(asked.trim_end_matches('/')) else { return false };
    if rest.is_empty() {
        return true;
    }
    let levels = rest.matches('/').count();
    rest.starts_with('/') && depth.is_none_or(|depth| levels <= depth as usize)
}
