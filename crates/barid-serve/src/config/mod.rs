//! The configuration file of the server: one TOML file, whose problems are all reported at once.
//!
//! [`ServerConfig::parse`] is pure; [`ServerConfig::load`] reads a file. [`MailSettings`] finds the
//! mail of a user, for sessions and for delivery alike. `docs/configuration.md` describes every
//! key of [`SECTIONS`].

mod delivery;
mod imap;
mod keys;
mod location;
mod mail;
mod network;
mod on_disk;
mod quota;
mod reader;
mod records;
mod summary;
mod users;
mod values;

use std::path::{Path, PathBuf};

use barid::vfs::Vfs;

pub(crate) use self::delivery::system_flag;
pub use self::delivery::{
    AddressPattern, DeliverySettings, HeaderTest, Pattern, Rule, RuleCondition, SpamSettings,
};
pub use self::imap::{DisabledCapabilities, ImapSettings};
pub use self::keys::{ANY_NAME, ConfigSection, SECTIONS, many, one};
pub use self::location::MailLocation;
pub(crate) use self::mail::shared_by_users;
pub use self::mail::{MailOwner, MailSettings};
pub use self::network::{
    Limits, ListenAddress, Listener, ListenerProtocol, ServerSettings, SocketAccess, TlsPair,
    UnixAddress,
};
pub use self::reader::{
    ConfigErrors, ConfigPlace, ConfigProblem, PlainValue, Section, load_config_text, nearest,
    parse_config,
};
pub use self::records::{LogFormat, LogLevel, LogSettings, LogTarget};
pub use self::summary::ConfigEffect;
pub use self::users::{OauthCheck, OauthSettings, PamSettings, PasswdFileSettings, UserSettings};

pub use crate::quota::Quota;

/// The path of the configuration file unless another one is named.
pub const CONFIG_PATH: &str = "/etc/barid/barid.toml";

/// Parses a time with its unit, such as `7 days`.
///
/// # Errors
/// The reason for which it is not a time.
pub fn parse_time(text: &str) -> Result<std::time::Duration, String> {
    values::time(text)
}

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The file.
    pub path: PathBuf,
    /// The process and its folders.
    pub server: ServerSettings,
    /// The sockets.
    pub listeners: Vec<Listener>,
    /// Certificates; the first one is that of clients which name no server.
    pub tls: Vec<TlsPair>,
    /// The users who may log in.
    pub users: UserSettings,
    /// The mail of users.
    pub mail: MailSettings,
    /// Bounds.
    pub limits: Limits,
    /// Extensions of IMAP that are off unless they are turned on.
    pub imap: ImapSettings,
    /// Capabilities that some users or clients do not see.
    pub disable: Vec<DisabledCapabilities>,
    /// Limits of the mail of a user.
    pub quota: Quota,
    /// Delivery.
    pub delivery: DeliverySettings,
    /// The log.
    pub log: LogSettings,
    /// Address of the metrics.
    pub metrics: Option<std::net::SocketAddr>,
    /// Folder of the protocol logs of a user, who must have created it.
    pub rawlog: Option<barid_auth::Template>,
}

impl ServerConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// All problems of the file; one at its first character if it cannot be read.
    pub fn load(vfs: &dyn Vfs, path: &Path) -> Result<Self, ConfigErrors> {
        Self::load_with_text(vfs, path).map(|(config, _)| config)
    }

    /// Reads a file; returns also its text, for a process that cannot read it.
    ///
    /// # Errors
    /// As [`ServerConfig::load`].
    pub fn load_with_text(vfs: &dyn Vfs, path: &Path) -> Result<(Self, String), ConfigErrors> {
        let text = load_config_text(vfs, path)?;
        Ok((Self::parse(path, &text)?, text))
    }

    /// Parses the text of a file; `path` is for messages.
    ///
    /// # Errors
    /// All problems of the file.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigErrors> {
        parse_config((path, text), SECTIONS, |root| Self::read(path, root))
    }

    fn read(path: &Path, root: &Section<'_>) -> Self {
        let server = ServerSettings::read(root.section("server", "server").as_ref());
        let tls = network::tls_pairs(root);
        let listeners = network::listeners(root, &tls);
        let metrics = root.section("metrics", "metrics");
        let rawlog = root.section("rawlog", "rawlog");
        Self {
            path: path.to_owned(),
            listeners,
            tls,
            users: UserSettings::read(root),
            mail: MailSettings::read(root.section("mail", "mail").as_ref()),
            limits: Limits::read(root.section("limits", "limits").as_ref()),
            imap: ImapSettings::read(root.section("imap", "imap").as_ref()),
            disable: imap::disabled(root),
            quota: Quota::read(root.section("quota", "quota").as_ref()),
            delivery: DeliverySettings::read(root.section("delivery", "delivery").as_ref()),
            log: LogSettings::read(root.section("log", "log").as_ref()),
            metrics: metrics.and_then(|section| section.parsed("address", network::socket_address)),
            rawlog: rawlog
                .and_then(|section| section.parsed("folder", barid_auth::Template::parse)),
            server,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use barid::vfs::{MemVfs, OpenOptions};
    use barid_auth::User;
    use barid_folders::Layout;

    use super::*;

    const EXAMPLE: &str = include_str!("../../../../docs/barid.toml");
    const REFERENCE: &str = include_str!("../../../../docs/configuration.md");

    fn parse(text: &str) -> Result<ServerConfig, ConfigErrors> {
        ServerConfig::parse(Path::new("barid.toml"), text)
    }

    /// Checks the problems of a text, one a line.
    fn check(text: &str, expected: &[&str]) {
        let found = parse(text).err().map(|errors| errors.to_string()).unwrap_or_default();
        assert_eq!(found.lines().collect::<Vec<_>>(), expected, "{text}");
    }

    /// Returns the example with all settings that are commented out.
    fn whole_example() -> String {
        let is_setting = |line: &str| {
            line.starts_with(|char: char| "[".contains(char) || char.is_ascii_lowercase())
        };
        let lines = EXAMPLE.lines().map(|line| match line.strip_prefix('#') {
            Some(setting) if is_setting(setting) => setting,
            _ => line,
        });
        lines.map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn the_example_is_valid_with_and_without_its_comments() {
        let example = parse(EXAMPLE).unwrap();
        assert_eq!(example.listeners.len(), 3);
        assert_eq!(example.delivery.rules.len(), 0);
        let whole = parse(&whole_example()).unwrap();
        assert_eq!(whole.delivery.rules.len(), 4);
        assert_eq!(whole.quota.size, Some(10 << 30));
        assert!(whole.users.oauth.is_some() && whole.users.pam.is_some());
        assert!(whole.effects().len() > 15, "{:?}", whole.effects());
    }

    #[test]
    fn the_defaults_in_the_example_are_the_defaults() {
        let (none, whole) = (parse("").unwrap(), parse(&whole_example()).unwrap());
        assert_eq!(whole.limits, none.limits);
        assert_eq!(whole.log, none.log);
        assert_eq!(whole.server.state_dir, none.server.state_dir);
        assert_eq!(whole.delivery.detail_separator, none.delivery.detail_separator);
    }

    #[test]
    fn the_reference_and_the_example_have_every_key() {
        let mut keys = 0;
        for section in SECTIONS {
            let brackets = if section.is_repeated { ("[[", "]]") } else { ("[", "]") };
            let heading = format!("\n## `{}{}{}`\n", brackets.0, section.name, brackets.1);
            let (_, text) = REFERENCE.split_once(&heading).expect(&heading);
            let text = text.split("\n## ").next().unwrap();
            let rows: Vec<&str> = text
                .lines()
                .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
                .map(|(key, _)| key)
                .collect();
            assert_eq!(rows, section.keys, "docs/configuration.md, {heading}");
            // Introspection is the other way of OAuth, which the example names only here.
            let other_way = ["introspection_url", "client_id", "client_secret_file"];
            for key in section.keys.iter().filter(|key| !other_way.contains(key)) {
                let has_key = EXAMPLE
                    .lines()
                    .any(|line| line.trim_start_matches('#').starts_with(&format!("{key} = ")));
                assert!(has_key, "docs/barid.toml lacks {key} of [{}]", section.name);
                keys += 1;
            }
        }
        assert!(keys > 60, "{keys}");
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        check(
            "[server]\nhostnam = \"x\"\n\n[limit]\n[limits]\nworker_idle = \"5\"\n\
             connections = 0\n  address = 3\n",
            &[
                "barid.toml:2:1: unknown key in [server]: `hostnam`; did you mean `hostname`?",
                "barid.toml:4:2: unknown section `limit`; did you mean `limits`?",
                "barid.toml:6:15: limits.worker_idle: \"5\" is not a time such as \"30 s\", \
                 \"5 min\" or \"7 days\"",
                "barid.toml:7:15: limits.connections: must be from 1 to 1000000",
                "barid.toml:8:3: unknown key in [limits]: `address`; [listen] has this key",
            ],
        );
        check(
            "[[listen]]\nprotocol = \"imap\"\n[[listen]]\nprotocol = \"lmtp\"\n\
             address = \"0.0.0.0:24\"\n[[listen]]\nprotocol = \"imaps\"\naddress = \"[::]:993\"\n",
            &[
                "barid.toml:1:1: [listen]: `address` or `socket` is missing",
                "barid.toml:5:11: listen.address: LMTP has no login: use a socket, or an address \
                 of this machine (127.0.0.1)",
                "barid.toml:7:12: listen.protocol: imaps needs a certificate: add a section \
                 [[tls]]",
            ],
        );
        check(
            "[mail]\nlocation = 5\n",
            &["barid.toml:2:12: mail.location: expected a text in quotes, found a number"],
        );
        check(
            "[[delivery.rule]]\ncontains = \"x\"\n",
            &[
                "barid.toml:1:1: [delivery.rule]: `contains` and `matches` need a `header`",
                "barid.toml:1:1: [delivery.rule]: a rule needs `mailbox` or `flags`",
            ],
        );
    }

    #[test]
    fn text_that_is_not_toml_is_an_error_with_a_place() {
        for text in ["[", "a = ", "a = 1\na = 2\n", "= 3", "\u{0}", "[mail]\n[mail]\n"] {
            let errors = parse(text).unwrap_err();
            assert!(!errors.0.is_empty(), "{text:?}");
            assert!(errors.0.iter().all(|problem| problem.line > 0 && problem.column > 0));
        }
        let deep = format!("a = {}1{}", "[".repeat(5000), "]".repeat(5000));
        assert!(parse(&deep).is_err());
        let many: String = (0..500).map(|at| format!("k{at} = 1\n")).collect();
        assert_eq!(parse(&many).unwrap_err().0.len(), crate::limits::CONFIG_PROBLEMS_MAX);
    }

    #[test]
    fn the_mail_of_a_user_is_where_the_file_says() {
        let user = |name: &str| {
            let rules = barid_auth::NameRules::default();
            User::named(rules.name(name.as_bytes()).unwrap())
        };
        let text = "[mail]\nlocation = \"mbox:/srv/%d/%n\"\ninbox = \"/var/mail/%n\"\n\
                    owner = \"5000:5001\"\n";
        let config = parse(text).unwrap();
        let ann = user("ann@example.org");
        let options = config.user_options(&ann).unwrap();
        assert_eq!(options.folders.root, Path::new("/srv/example.org/ann"));
        assert_eq!(options.folders.inbox.unwrap().path, Path::new("/var/mail/ann"));
        assert!(matches!(options.folders.layout, Some(Layout::Files(_))));
        assert_eq!(options.open.state_dir, Path::new("/var/lib/barid/users/ann@example.org"));
        assert_eq!(config.owner_of(&ann).unwrap(), (5000, 5001));
        let mut bob = User { uid: Some(7), gid: Some(8), ..user("bob") };
        bob.home = Some("/home/bob".to_owned());
        bob.fields.push(("mail".to_owned(), "maildir:~/M".to_owned()));
        bob.fields.push(("quota_rule".to_owned(), "*:storage=1G:messages=0".to_owned()));
        let options = config.user_options(&bob).unwrap();
        assert_eq!(options.folders.root, Path::new("/home/bob/M"));
        assert!(options.folders.inbox.is_none());
        assert_eq!(options.open.state_dir, Path::new("/home/bob/.local/state/barid"));
        assert_eq!(config.owner_of(&bob).unwrap(), (7, 8));
        assert_eq!(config.quota.of(&bob), Quota { size: Some(1 << 30), messages: None });
        let root = User { uid: Some(0), ..bob };
        assert!(config.owner_of(&root).is_err());
        assert!(parse("").unwrap().user_options(&ann).is_err(), "a home is needed");
    }

    #[test]
    fn capabilities_are_disabled_by_user_and_client() {
        let config = parse(
            "[[disable]]\ncapabilities = [\"qresync\"]\nusers = \"*@a\"\nclients = \"Old*\"\n",
        );
        let disabled = config.unwrap().disable.remove(0);
        assert!(disabled.capabilities.contains("QRESYNC"));
        assert!(disabled.applies("ann@a", Some("OldMail 3")));
        assert!(!disabled.applies("ann@b", Some("OldMail 3")));
        assert!(!disabled.applies("ann@a", None));
    }

    #[test]
    fn files_that_the_configuration_names_are_checked() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        vfs.create_dir_all(Path::new("/etc"), 0o755).unwrap();
        let write = |path: &str, text: &str| {
            let file = vfs.open(Path::new(path), OpenOptions::create(0o600)).unwrap();
            file.write_all_at(text.as_bytes(), 0).unwrap();
        };
        write("/etc/users", "ann:{PLAIN}x:1000:1000::/home/ann::\nbob:{MD5}x\n");
        let made = rcgen::generate_simple_self_signed(vec!["a".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(vec!["b".to_owned()]).unwrap();
        write("/etc/a.pem", &made.cert.pem());
        write("/etc/a.key", &made.signing_key.serialize_pem());
        write("/etc/b.key", &other.signing_key.serialize_pem());
        write(
            "/etc/barid.toml",
            "[[tls]]\ncertificate = \"/etc/a.pem\"\nkey = \"/etc/a.key\"\n\
             [[tls]]\ncertificate = \"/etc/a.pem\"\nkey = \"/etc/b.key\"\n\
             [[users.passwd_file]]\npath = \"/etc/users\"\n\
             [[users.passwd_file]]\npath = \"/etc/none\"\n\
             [log]\ntarget = \"/nowhere/log\"\n",
        );
        let config = ServerConfig::load(&*vfs, Path::new("/etc/barid.toml")).unwrap();
        let problems = config.problems_on_disk(&*vfs);
        let starts = ["/etc/b.key: not the key", "/etc/users: line 2", "/etc/none: ", "/nowhere"];
        assert_eq!(problems.len(), starts.len(), "{problems:#?}");
        for (problem, start) in problems.iter().zip(starts) {
            assert!(problem.starts_with(start), "{problem}");
        }
        assert!(ServerConfig::load(&*vfs, Path::new("/etc/absent")).is_err());
    }
}
