//! The effects of a configuration, in words.

use super::values::{size_text, time_text};
use super::{LogTarget, MailOwner, OauthCheck, ServerConfig};

/// An effect of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEffect {
    /// The section of the file that has the effect.
    pub section: &'static str,
    /// The effect.
    pub text: String,
}

impl ServerConfig {
    /// Returns the effects of the configuration, defaults included.
    pub fn effects(&self) -> Vec<ConfigEffect> {
        let mut effects = Vec::new();
        let mut add = |section: &'static str, text: String| {
            effects.push(ConfigEffect { section, text });
        };
        if self.listeners.is_empty() {
            add("listen", "no sockets: nothing would be served".to_owned());
        }
        for listener in &self.listeners {
            let tls = match (listener.protocol, self.tls.is_empty()) {
                (super::ListenerProtocol::Imap, false) => ", with STARTTLS",
                (super::ListenerProtocol::Imap, true) if self.server.clear_logins => {
                    ", without TLS: others can read passwords and mail"
                }
                (super::ListenerProtocol::Imap, true) => ", logins from this machine only",
                _ => "",
            };
            let protocol = listener.protocol.name();
            add("listen", format!("{protocol} on {}{tls}", listener.address));
        }
        for pair in &self.tls {
            let names = match pair.names.is_empty() {
                true => "the names in it".to_owned(),
                false => pair.names.join(", "),
            };
            add("tls", format!("certificate {} for {names}", pair.certificate.display()));
        }
        self.user_effects(&mut add);
        self.mail_effects(&mut add);
        self.delivery_effects(&mut add);
        let target = match &self.log.target {
            LogTarget::Stderr => "standard error".to_owned(),
            LogTarget::File(path) => path.display().to_string(),
        };
        add("log", format!("events from {} on {target}", self.log.level.name()));
        if let Some(address) = self.metrics {
            add("metrics", format!("metrics on http://{address}/metrics"));
        }
        effects
    }

    fn user_effects(&self, add: &mut dyn FnMut(&'static str, String)) {
        let users = &self.users;
        for file in &users.passwd_files {
            add("users.passwd_file", format!("users of {}", file.path.display()));
        }
        if let Some(pam) = &users.pam {
            let text =
                format!("users of the system from uid {}, by PAM {}", pam.uid_min, pam.service);
            add("users.pam", text);
        }
        if let Some(oauth) = &users.oauth {
            let how = match &oauth.check {
                OauthCheck::Jwks { url, .. } => format!("keys from {}", url.as_str()),
                OauthCheck::Introspection { url, .. } => format!("asking {}", url.as_str()),
            };
            add("users.oauth", format!("tokens of {}, {how}", oauth.rules.issuer));
        }
        if users.passwd_files.is_empty() && users.pam.is_none() {
            add("users", "no users: nobody can log in, and nothing can be delivered".to_owned());
        }
    }

    fn mail_effects(&self, add: &mut dyn FnMut(&'static str, String)) {
        let owner = match &self.mail.owner {
            None => "the user's own uid".to_owned(),
            Some(MailOwner::Name(name)) => name.clone(),
            Some(MailOwner::Ids(uid, gid)) => format!("uid {uid}, gid {gid}"),
        };
        add("mail", format!("mail at {}, files of {owner}", self.mail.location.text));
        let limits = &self.limits;
        add(
            "limits",
            format!(
                "{} connections, {} of one address, {} of one user; login within {}; \
                 messages up to {}",
                limits.connections,
                limits.connections_per_address,
                limits.connections_per_user,
                time_text(limits.login_timeout),
                size_text(limits.message_size),
            ),
        );
        if let Some(size) = self.quota.size {
            add("quota", format!("{} of mail for each user", size_text(size)));
        }
        if let Some(messages) = self.quota.messages {
            add("quota", format!("{messages} messages for each user"));
        }
        if self.imap.uid_only {
            add("imap", "UIDONLY is offered".to_owned());
        }
        if let Some(limit) = self.imap.message_limit {
            add("imap", format!("a command processes at most {limit} messages"));
        }
        if self.imap.unauthenticate {
            add("imap", "UNAUTHENTICATE is offered".to_owned());
        }
        for disabled in &self.disable {
            let names: Vec<&str> = disabled.capabilities.iter().map(String::as_str).collect();
            add("disable", format!("{} not offered to some", names.join(", ")));
        }
    }

    fn delivery_effects(&self, add: &mut dyn FnMut(&'static str, String)) {
        let delivery = &self.delivery;
        if let Some(spam) = &delivery.spam {
            add("delivery.spam", format!("spam goes to {}", spam.mailbox));
        }
        for rule in &delivery.rules {
            let to = rule.mailbox.as_deref().unwrap_or("INBOX");
            add("delivery.rule", format!("{} conditions: to {to}", rule.conditions.len()));
        }
        if let Some(time) = delivery.duplicates {
            let text = format!("the same Message-ID again within {} is dropped", time_text(time));
            add("delivery", text);
        }
    }
}
