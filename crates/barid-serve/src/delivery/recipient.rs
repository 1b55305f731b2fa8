//! Recipients: addresses, and the users whom they mean.

use std::sync::Arc;

use barid::vfs::Vfs;
use barid_auth::base::{ParseOptions, parse};
use barid_auth::{NameRules, User, system_user};

use super::error::{DeliveryError, DeliveryErrorKind};
use crate::config::ServerConfig;
use crate::limits::PASSWD_LEN_MAX;

/// A user as the recipient of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// The user.
    pub user: User,
    /// The detail of the address, such as `lists` of `ann+lists@example.org`.
    pub detail: Option<String>,
}

/// The users of a configuration as recipients.
///
/// Passwords are neither needed nor looked at: a user who may not log in, or only from some
/// networks, gets mail.
pub struct Recipients<'a> {
    config: &'a ServerConfig,
    vfs: Arc<dyn Vfs>,
}

impl<'a> Recipients<'a> {
    /// Creates the recipients of a configuration.
    pub fn new(config: &'a ServerConfig, vfs: Arc<dyn Vfs>) -> Self {
        Self { config, vfs }
    }

    /// Returns the user whom an address means: the user of the whole address, else, on a server
    /// whose users have no domain, of its local part; in both forms without the detail, too.
    ///
    /// # Errors
    /// [`DeliveryErrorKind::UnknownUser`]; a user base that cannot be read is a temporary error.
    pub fn find(&self, address: &str) -> Result<Recipient, DeliveryError> {
        let (local, domain) = match address.rsplit_once('@') {
            Some((local, domain)) => (local, Some(domain)),
            None => (address, None),
        };
        let local = unquoted(local);
        let separator = self.config.delivery.detail_separator;
        let split = separator.and_then(|separator| local.split_once(separator));
        let split = split.filter(|(user, _)| !user.is_empty());
        let mut forms = vec![(local.as_str(), None)];
        forms.extend(split.map(|(user, detail)| (user, Some(detail))));
        for (local, detail) in forms {
            let whole = domain.map(|domain| format!("{local}@{domain}"));
            for name in whole.as_deref().into_iter().chain([local]) {
                if let Some(user) = self.user(name)? {
                    return Ok(Recipient { user, detail: detail.map(str::to_owned) });
                }
            }
        }
        Err(DeliveryError::new(DeliveryErrorKind::UnknownUser, "no such user"))
    }

    /// Returns the user with a name.
    ///
    /// # Errors
    /// As [`Recipients::find`], except for unknown users.
    pub fn user(&self, name: &str) -> Result<Option<User>, DeliveryError> {
        let users = &self.config.users;
        let Some(name) = users.rules.name(name.as_bytes()) else { return Ok(None) };
        for file in &users.passwd_files {
            let bytes = self.vfs.read(&file.path, PASSWD_LEN_MAX).map_err(|error| {
                DeliveryError::temporary(format!("{}: {error}", file.path.display()))
            })?;
            // The accounts of the system are asked for those of the user's line only.
            let line = own_line(&bytes, name.as_str(), &users.rules);
            let options = ParseOptions {
                rules: &users.rules,
                default_scheme: file.default_scheme,
                uid_of: &|name| system(name)?.uid,
                gid_of: &|name| system(name)?.gid,
            };
            let parsed = parse(line, &options);
            if let Some(problem) = parsed.problems().first() {
                return Err(DeliveryError::temporary(format!(
                    "{}: {problem}",
                    file.path.display()
                )));
            }
            if let Some(user) = parsed.recipient(&name).map_err(DeliveryError::temporary)? {
                return Ok(Some(user));
            }
        }
        let Some(pam) = &users.pam else { return Ok(None) };
        let user = system_user(&name).map_err(DeliveryError::temporary)?;
        Ok(user.filter(|user| user.uid.is_some_and(|uid| uid >= pam.uid_min)))
    }
}

/// Returns the line of a user in a passwd-file; nothing if there is none.
fn own_line<'b>(bytes: &'b [u8], name: &str, rules: &NameRules) -> &'b [u8] {
    let is_own = |line: &&[u8]| {
        let of_line = line.split(|byte| *byte == b':').next().unwrap_or_default();
        rules.name(of_line.trim_ascii()).is_some_and(|found| found.as_str() == name)
    };
    bytes.split(|byte| *byte == b'\n').find(is_own).unwrap_or_default()
}

fn system(name: &str) -> Option<User> {
    let rules = NameRules { lower_case: false, extra: String::new() };
    system_user(&rules.name(name.as_bytes())?).ok().flatten()
}

/// Returns a local part without the quotes of SMTP.
fn unquoted(local: &str) -> String {
    let inner = local.strip_prefix('"').and_then(|local| local.strip_suffix('"'));
    let Some(inner) = inner else { return local.to_owned() };
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(char) = chars.next() {
        text.extend(if char == '\\' { chars.next() } else { Some(char) });
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use barid::vfs::{MemVfs, OpenOptions};

    use super::*;

    const USERS: &str = "ann@example.org:{PLAIN}x:1000:1000::/home/ann::\n\
                         bob:{PLAIN}x:1001:1001::/home/bob::allow_nets=192.0.2.0/24\n\
                         odd+name:{PLAIN}x:1002:1002::/home/odd::\n";

    fn check(config: &str, address: &str, expected: Result<(&str, Option<&str>), u8>) {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let file = vfs.open(Path::new("/users"), OpenOptions::create(0o600)).unwrap();
        file.write_all_at(USERS.as_bytes(), 0).unwrap();
        let text = format!(
            "[users]\nextra_characters = \"+\"\n[[users.passwd_file]]\npath = \"/users\"\n{config}"
        );
        let config = ServerConfig::parse(Path::new("t"), &text).unwrap();
        let found = Recipients::new(&config, vfs).find(address);
        let found = found.as_ref().map(|found| (found.user.name.as_str(), found.detail.as_deref()));
        assert_eq!(found.map_err(DeliveryError::exit_code), expected, "{address}");
    }

    #[test]
    fn addresses_are_users_with_details() {
        check("", "ann@example.org", Ok(("ann@example.org", None)));
        check("", "ANN@Example.org", Ok(("ann@example.org", None)));
        check("", "ann+a+b@example.org", Ok(("ann@example.org", Some("a+b"))));
        check("", "\"ann\"@example.org", Ok(("ann@example.org", None)));
        check("", "bob", Ok(("bob", None)));
        check("", "odd+name@x", Ok(("odd+name", None)));
        check("", "eve@example.org", Err(67));
        check("", "../ann@example.org", Err(67));
        check("", "ann/x@example.org", Err(67));
        check("", "", Err(67));
        check("", "+x@example.org", Err(67));
        check("[delivery]\ndetail_separator = \"\"\n", "ann+a@example.org", Err(67));
        let minus = "[delivery]\ndetail_separator = \"-\"\n";
        check(minus, "ann-a@example.org", Ok(("ann@example.org", Some("a"))));
    }
}
