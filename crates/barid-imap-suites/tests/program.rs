//! A server that is a program: its line, its arguments and its end.

use std::path::Path;

use barid_imap_suites::{
    DovecotServer, MailFormat, ProgramArgs, ProgramServer, Server, Transport, open,
};
use barid_testkit::disk;

#[test]
fn a_program_is_started_and_stopped() {
    let Some(dovecot) = DovecotServer::start(MailFormat::Maildir) else { return };
    // A program whose port is that of a Dovecot.
    let line = format!("imap on {}, password pass", dovecot.address());
    let script = format!("echo starting; echo '{line}'; echo {{dir}} >&2; exec sleep 1000");
    let args = ProgramArgs {
        listen: vec!["-c".into(), script],
        stdio: Some(vec!["-c".into(), "echo {mail} {user}".into()]),
    };
    let server = ProgramServer::start(Path::new("/bin/sh"), args, MailFormat::Maildir).unwrap();
    assert_eq!(
        (server.name(), server.address(), server.tls()),
        ("sh-maildir", dovecot.address(), None)
    );
    let mut connection = open(&server, 2, Transport::Tcp).unwrap();
    assert!(connection.ok("LIST \"\" *").unwrap().find("LIST").is_some());
    connection.logout().unwrap();
    let output = server.stdio(3).unwrap().unwrap().output().unwrap();
    let expected = format!("{} u3\n", server.mail_dir(3).display());
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert_eq!(server.log().trim(), server.mail_dir(3).parent().unwrap().display().to_string());
    let (process, folder) = (format!("/proc/{}", server.pid()), server.mail_dir(1));
    assert!(disk::exists(Path::new(&process)) && disk::exists(&folder.join("cur")));
    drop(server);
    assert!(!disk::exists(Path::new(&process)) && !disk::exists(&folder));
}

#[test]
fn a_program_that_prints_no_address_is_an_error() {
    let args = ProgramArgs { listen: vec!["-c".into(), "echo no".into()], stdio: None };
    let error = ProgramServer::start(Path::new("/bin/sh"), args, MailFormat::Mbox).unwrap_err();
    assert!(error.to_string().contains("printed no address"), "{error}");
}
