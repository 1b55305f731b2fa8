//! PAM with services in a folder of the test.

use std::net::IpAddr;
use std::path::Path;

use barid_auth::base::{Login, Refusal};
use barid_auth::pam::{PamService, verify};
use barid_auth::{Error, NameRules, system_user};
use barid_testkit::{Scratch, disk, skip_or_fail};

use crate::world::name;

/// Returns `true` if there is a PAM module.
fn has_module(file: &str) -> bool {
    let folders = ["/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/lib"];
    folders.iter().any(|folder| disk::exists(&Path::new(folder).join("security").join(file)))
}

#[test]
fn pam_verifies_passwords() {
    if !["pam_permit.so", "pam_deny.so", "pam_exec.so"].into_iter().all(has_module) {
        skip_or_fail("PAM's modules (Debian package libpam-modules)");
        return;
    }
    let scratch = Scratch::new("pam").unwrap();
    // Gets the password of the conversation on its standard input, and the rest as variables.
    let script = scratch.path().join("check.sh");
    let text = "#!/bin/sh\nread password\n[ \"$password\" = 'pass word' ] && [ \"$PAM_USER\" = ann ] && [ \"$PAM_RHOST\" = 192.0.2.1 ] && [ \"$PAM_TTY\" = barid ]\n";
    disk::write(&script, text.as_bytes()).unwrap();
    let service = |name: &str, lines: &str| {
        disk::write(&scratch.path().join(name), lines.as_bytes()).unwrap();
        let folder = Some(scratch.path().to_owned());
        PamService { name: name.to_owned(), folder, rules: NameRules::default() }
    };
    let check = |service: &PamService, user: &str, password: &str| {
        let (name, peer) = (name(user), Some(IpAddr::from([192, 0, 2, 1])));
        verify(service, &Login { name: &name, password: password.as_bytes(), peer })
    };
    let permit = "account required pam_permit.so\n";
    let auth =
        format!("auth required pam_exec.so quiet expose_authtok /bin/sh {}\n", script.display());
    let exec = service("exec", &format!("{auth}{permit}"));
    assert_eq!(check(&exec, "ann", "pass word").unwrap(), Ok(name("ann")));
    assert_ne!(check(&exec, "ann", "password").ok(), Some(Ok(name("ann"))));
    assert_ne!(check(&exec, "bob", "pass word").ok(), Some(Ok(name("bob"))));
    assert_eq!(check(&exec, "ann", "").unwrap(), Err(Refusal::WrongPassword));
    assert_eq!(check(&exec, "ann", "a\0b").unwrap(), Err(Refusal::WrongPassword));
    assert_eq!(check(&exec, "ann", &"x".repeat(512)).unwrap(), Err(Refusal::WrongPassword));
    let deny = service("deny", &format!("auth required pam_deny.so\n{permit}"));
    assert_eq!(check(&deny, "ann", "pass word").unwrap(), Err(Refusal::WrongPassword));
    let expired = service("expired", "auth required pam_permit.so\naccount required pam_deny.so\n");
    assert!(!matches!(check(&expired, "ann", "x"), Ok(Ok(_))));
    let missing = PamService { name: "missing".to_owned(), ..permit_service(&scratch) };
    assert!(matches!(check(&missing, "ann", "x"), Err(Error::Unavailable { .. })));
}

fn permit_service(scratch: &Scratch) -> PamService {
    let folder = Some(scratch.path().to_owned());
    PamService { name: "permit".to_owned(), folder, rules: NameRules::default() }
}

#[test]
fn pam_and_accounts_belong_together() {
    let root = system_user(&name("root")).unwrap().unwrap();
    assert_eq!(root.uid, Some(0));
}
