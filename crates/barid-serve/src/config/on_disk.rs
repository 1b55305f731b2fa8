//! Checks of the files that the configuration names.

use barid::vfs::Vfs;
use barid_auth::base::{ParseOptions, parse};
use barid_auth::{NameRules, User, system_user};

use super::users::PasswdFileSettings;
use super::{ListenAddress, LogTarget, OauthCheck, ServerConfig};
use crate::limits::{PASSWD_LEN_MAX, SECRET_LEN_MAX};
use crate::tls::load_pair;

impl ServerConfig {
    /// Returns the problems of the files, folders and users that the configuration names, each
    /// beginning with the name of the file or the key.
    pub fn problems_on_disk(&self, vfs: &dyn Vfs) -> Vec<String> {
        let mut problems = Vec::new();
        for pair in &self.tls {
            if let Err(error) = load_pair(vfs, pair) {
                problems.push(error.to_string());
            }
        }
        for file in &self.users.passwd_files {
            self.passwd_problems(vfs, file, &mut problems);
        }
        if let Some(pam) = &self.users.pam {
            let path = std::path::Path::new("/etc/pam.d").join(&pam.service);
            if vfs.metadata(&path).is_err() {
                problems.push(format!("users.pam.service: {} does not exist", path.display()));
            }
        }
        if let Some(OauthCheck::Introspection { client_secret_file, .. }) =
            self.users.oauth.as_ref().map(|oauth| &oauth.check)
            && let Err(error) = vfs.read(client_secret_file, SECRET_LEN_MAX)
        {
            problems.push(format!("{}: {error}", client_secret_file.display()));
        }
        let (front, auth) = (&self.server.front_user, &self.server.auth_user);
        for (key, name) in [("front_user", front), ("auth_user", auth)] {
            if let Some(name) = name
                && !matches!(system(name), Some(User { uid: Some(uid), .. }) if uid != 0)
            {
                problems.push(format!("server.{key}: {name}: the system has no such user"));
            }
        }
        if let Some(owner) = &self.mail.owner
            && let Err(error) = owner.ids()
        {
            problems.push(format!("mail.owner: {error}"));
        }
        self.folder_problems(vfs, &mut problems);
        problems
    }

    fn passwd_problems(
        &self,
        vfs: &dyn Vfs,
        file: &PasswdFileSettings,
        problems: &mut Vec<String>,
    ) {
        let path = file.path.display();
        let bytes = match vfs.read(&file.path, PASSWD_LEN_MAX) {
            Ok(bytes) => bytes,
            Err(error) => {
                problems.push(format!("{path}: {error}"));
                return;
            }
        };
        let uid_of = |name: &str| system(name)?.uid;
        let options = ParseOptions {
            rules: &self.users.rules,
            default_scheme: file.default_scheme,
            uid_of: &uid_of,
            // A group by name is checked when the file is used.
            gid_of: &|_| Some(1),
        };
        let parsed = parse(&bytes, &options);
        problems.extend(parsed.problems().iter().map(|problem| format!("{path}: {problem}")));
        match parsed.more_problems() {
            0 => {}
            more => problems.push(format!("{path}: {more} further problems")),
        }
        if parsed.is_empty() {
            problems.push(format!("{path}: no users"));
        }
    }

    fn folder_problems(&self, vfs: &dyn Vfs, problems: &mut Vec<String>) {
        let log = match &self.log.target {
            LogTarget::File(path) => Some(path),
            LogTarget::Stderr => None,
        };
        let sockets = self.listeners.iter().filter_map(|listener| match &listener.address {
            ListenAddress::Unix(socket) => Some(socket),
            ListenAddress::Tcp(_) => None,
        });
        for socket in sockets.clone() {
            if let Err(error) = socket.access.gid() {
                problems.push(format!("{}: {error}", socket.path.display()));
            }
        }
        let sockets = sockets.map(|socket| &socket.path);
        for path in log.into_iter().chain(sockets).chain(&self.server.admin_socket) {
            let folder = path.parent().unwrap_or(path);
            if let Err(error) = vfs.metadata(folder) {
                problems.push(format!("{}: its folder: {error}", path.display()));
            }
        }
    }
}

fn system(name: &str) -> Option<User> {
    let rules = NameRules { lower_case: false, extra: String::new() };
    system_user(&rules.name(name.as_bytes())?).ok().flatten()
}
