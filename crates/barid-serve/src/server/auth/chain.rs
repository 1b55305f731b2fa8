//! Several user bases as one: the first that knows a user has him.

use std::net::IpAddr;
use std::sync::Arc;

use barid_auth::base::{Login, Refusal, ScramEntry, UserBase, Verdict};
use barid_auth::{Error, Result, UserName};

/// User bases, asked one after the other.
#[derive(Debug)]
pub(super) struct UserChain(pub(super) Vec<Arc<dyn UserBase>>);

impl UserChain {
    /// Returns the verdict of the first base that knows the user. All are asked about one who does
    /// not exist, each for the time that it always takes.
    fn first(&self, ask: &dyn Fn(&dyn UserBase) -> Result<Verdict>) -> Result<Verdict> {
        for base in &self.0 {
            match ask(&**base)? {
                Err(Refusal::UnknownUser) => {}
                verdict => return Ok(verdict),
            }
        }
        Ok(Err(Refusal::UnknownUser))
    }
}

impl UserBase for UserChain {
    fn verify(&self, login: &Login<'_>) -> Result<Verdict> {
        self.first(&|base| base.verify(login))
    }

    fn user(&self, name: &UserName, peer: Option<IpAddr>) -> Result<Verdict> {
        self.first(&|base| base.user(name, peer))
    }

    fn offers_scram(&self) -> Result<bool> {
        for base in &self.0 {
            if !base.offers_scram()? {
                return Ok(false);
            }
        }
        Ok(!self.0.is_empty())
    }

    fn scram(&self, name: &UserName, peer: Option<IpAddr>) -> Result<ScramEntry> {
        let knows = |base: &dyn UserBase| {
            base.user(name, peer).map(|verdict| verdict != Err(Refusal::UnknownUser))
        };
        let mut last = None;
        for base in &self.0 {
            if knows(&**base)? {
                return base.scram(name, peer);
            }
            last = Some(base);
        }
        let none = || Error::Unavailable {
            what: "SCRAM".to_owned(),
            why: "there is no user base".to_owned(),
        };
        last.ok_or_else(none)?.scram(name, peer)
    }
}

#[cfg(test)]
mod tests {
    use barid::vfs::MemVfs;
    use barid_auth::base::StaticUsers;
    use barid_auth::{NameRules, Secret, User};

    use super::*;

    fn name(text: &str) -> UserName {
        NameRules::default().name(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_first_base_that_knows_a_user_has_him() {
        let base = |users: &[&str], password: &str| -> Arc<dyn UserBase> {
            let users = users.iter().map(|user| User::named(name(user)));
            let password = Secret::new(password.as_bytes().to_vec());
            Arc::new(StaticUsers::new(users, &password, &MemVfs::new()).unwrap())
        };
        let chain = UserChain(vec![base(&["ann"], "one"), base(&["ann", "bob"], "two")]);
        let verify = |user: &str, password: &str| {
            let name = name(user);
            let login = Login { name: &name, password: password.as_bytes(), peer: None };
            chain.verify(&login).unwrap().map(|user| user.name)
        };
        assert_eq!(verify("ann", "one"), Ok(name("ann")));
        assert_eq!(verify("ann", "two"), Err(Refusal::WrongPassword));
        assert_eq!(verify("bob", "two"), Ok(name("bob")));
        assert_eq!(verify("carl", "two"), Err(Refusal::UnknownUser));
        assert!(chain.offers_scram().unwrap());
        assert!(chain.scram(&name("carl"), None).is_ok());
        assert!(!UserChain(Vec::new()).offers_scram().unwrap());
        assert!(UserChain(Vec::new()).scram(&name("ann"), None).is_err());
    }
}
