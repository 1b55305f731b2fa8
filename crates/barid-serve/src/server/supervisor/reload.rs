//! The configuration, read at the start and again by request.

use std::io;
use std::path::Path;
use std::time::Duration;

use barid::vfs::{OsVfs, Vfs, atomic_replace};

use super::{Account, Supervisor, notify};
use crate::config::ServerConfig;
use crate::limits::{CERTIFICATE_LEN_MAX, LINK_MESSAGE_LEN_MAX};
use crate::server::messages::{Level, TlsText, ToFront};
use crate::server::setup::{Configuration, Protocol};
use crate::shared_folders::create_user_folders;
use crate::tls::load_pair;

/// Refuses a configuration that cannot work.
pub(super) fn check(config: &ServerConfig, own: (u32, u32)) -> io::Result<()> {
    let invalid = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    if config.listeners.is_empty() {
        return invalid("the configuration has no [[listen]]: nothing would be served");
    }
    if own.0 != 0 && config.users.pam.is_some() {
        return invalid("[users.pam] needs a server that is started as root");
    }
    if own.0 == 0 && config.server.front_user.is_none() {
        let text = "a server that is started as root needs server.front_user: a user of the \
                    system who owns no files";
        return invalid(text);
    }
    Ok(())
}

/// Returns the accounts of front and auth.
pub(super) fn accounts(config: &ServerConfig, own: (u32, u32)) -> io::Result<(Account, Account)> {
    let front = config.server.front_user.as_deref().unwrap_or_default();
    let auth = config.server.auth_user.as_deref().unwrap_or(front);
    Ok((super::account(front, own)?, super::account(auth, own)?))
}

/// Reads the certificates and keys.
pub(super) fn read_tls(vfs: &dyn Vfs, config: &ServerConfig) -> io::Result<Vec<TlsText>> {
    let mut all = Vec::new();
    for pair in &config.tls {
        // A bad pair is refused before the front has to use it.
        load_pair(vfs, pair)?;
        let read = |path: &Path| {
            let bytes = vfs.read(path, CERTIFICATE_LEN_MAX)?;
            String::from_utf8(bytes).map_err(io::Error::other)
        };
        let (certificate, key) = (read(&pair.certificate)?, read(&pair.key)?);
        let tls = TlsText { names: pair.names.clone(), certificate, key };
        if serde_json::to_vec(&tls)?.len() + 64 > LINK_MESSAGE_LEN_MAX {
            let text = format!("{}: the chain is too long", pair.certificate.display());
            return Err(io::Error::other(text));
        }
        all.push(tls);
    }
    Ok(all)
}

/// Returns the secret from which salts of users who do not exist are computed.
pub(super) fn secret(vfs: &dyn Vfs, state_dir: &Path) -> io::Result<[u8; 32]> {
    let path = state_dir.join("auth-secret");
    let at =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    match vfs.read(&path, 64) {
        Ok(bytes) => bytes.try_into().map_err(|_| {
            at(io::Error::new(io::ErrorKind::InvalidData, "not 32 bytes; remove the file"))
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut secret = [0; 32];
            vfs.random(&mut secret)?;
            // Users without a home have their state below it.
            vfs.create_dir_all(state_dir, 0o755).map_err(at)?;
            atomic_replace(vfs, &path, 0o600, true, |file| file.write_all_at(&secret, 0))
                .map_err(at)?;
            Ok(secret)
        }
        Err(error) => Err(at(error)),
    }
}

impl Supervisor {
    /// Reads the configuration, certificates and keys again; sessions go on.
    pub(super) fn reload(&mut self) {
        self.notify(&notify::reloading());
        let reloaded = self.try_reload();
        let reopened = self.log.reopen(&self.configuration.config.log);
        match reloaded.and(reopened) {
            Ok(()) => self.log(Level::Info, "the configuration was read again"),
            Err(error) => {
                let text = format!("the configuration stays as it was: {error}");
                self.log(Level::Error, text);
            }
        }
        self.notify("READY=1");
    }

    fn try_reload(&mut self) -> io::Result<()> {
        let configuration = Configuration::load(&OsVfs, &self.path)?;
        let config = &configuration.config;
        check(config, self.own)?;
        let tls = read_tls(&OsVfs, config)?;
        let (front_account, auth_account) = accounts(config, self.own)?;
        create_user_folders(&OsVfs, config, self.own.0)?;
        let (lmtp_before, had_lmtp) = (self.lmtp_settings(), self.lmtp_listeners());
        let changed = self.listeners.change(&configuration.listeners())?;
        let old = &self.configuration.config;
        let is_same_login = format!("{:?}", config.users) == format!("{:?}", old.users)
            && config.server.clear_logins == old.server.clear_logins
            && auth_account == self.auth_account;
        (self.configuration, self.tls, self.auth_account) = (configuration, tls, auth_account);
        for id in changed.closed {
            self.tell_front(&ToFront::CloseListener { id }, None);
        }
        for tls in self.tls.clone() {
            self.tell_front(&ToFront::Certificate(Box::new(tls)), None);
        }
        let settings = self.front_settings();
        self.tell_front(&settings, None);
        for id in changed.opened {
            let Some(listener) = self.listeners.all.iter().find(|one| one.id == id) else {
                continue;
            };
            let (protocol, socket) = (listener.setup.protocol, listener.socket.to_owned()?);
            if protocol != Protocol::Lmtp {
                self.tell_front(&ToFront::Listener { id, protocol }, Some(socket));
            }
        }
        if self.lmtp_settings() != lmtp_before || self.lmtp_listeners() != had_lmtp {
            self.replace_lmtp();
        }
        if front_account != self.front_account {
            self.log(Level::Warning, "another server.front_user needs a restart");
        }
        if !is_same_login {
            self.replace_auth();
        }
        // Sessions keep what they began with.
        self.workers.all.values_mut().for_each(|worker| worker.is_old = true);
        Ok(())
    }

    /// Returns the numbers of the listeners for LMTP.
    fn lmtp_listeners(&self) -> Vec<u64> {
        let all = self.listeners.all.iter();
        all.filter(|one| one.setup.protocol == Protocol::Lmtp).map(|one| one.id).collect()
    }

    /// Lets another auth process begin; logins that are under way fail.
    fn replace_auth(&mut self) {
        if let Some(process) = self.auth.process.take() {
            self.ending.push(process.end("auth".to_owned(), true, Duration::from_secs(5)));
            self.auth.restarts = super::Restarts::default();
            self.forget_questions();
        }
    }
}
