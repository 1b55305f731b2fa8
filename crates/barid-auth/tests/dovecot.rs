//! The same passwords and passwd-files, read by Dovecot and by barid.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use barid_auth::base::{Login, PasswdFile, PasswdFileOptions, UserBase as _};
use barid_auth::scheme::{Password, Scheme, make_hash};
use barid_auth::{NameRules, ServerSecret};
use barid_testkit::peers::{PeerUser, program};
use barid_testkit::{Scratch, disk, skip_or_fail};
use barid_vfs::OsVfs;

/// Passwords of different lengths and alphabets.
const PASSWORDS: [&str; 6] = [
    "pencil",
    "x",
    " p\u{e4}ss w\u{f6}rd ",
    "{PLAIN}$6$a:b,c=d",
    "0123456789abcdef0123456789abcdef",
    "long pass phrases have more than seventy-two bytes, of which bcrypt takes only some",
];

/// Schemes as `doveadm pw` knows them; a number of rounds where the default takes long.
const SCHEMES: [(&str, Option<&str>); 22] = [
    ("PLAIN", None),
    ("CLEAR", None),
    ("CLEARTEXT", None),
    ("PLAIN.B64", None),
    ("CLEARTEXT.HEX", None),
    ("SHA512-CRYPT", None),
    ("SHA512-CRYPT", Some("1000")),
    ("SHA512-CRYPT.B64", Some("7777")),
    ("SHA256-CRYPT", None),
    ("BLF-CRYPT", Some("5")),
    ("CRYPT", Some("4")),
    ("ARGON2ID", None),
    ("ARGON2I", None),
    ("SCRAM-SHA-256", None),
    ("SSHA", None),
    ("SSHA256", None),
    ("SSHA512", None),
    ("SSHA512.HEX", None),
    ("SHA", None),
    ("SHA256.HEX", None),
    ("SHA512", None),
    ("PBKDF2", None),
];

/// The fewest comparisons of each test.
const HASHES_MIN: usize = 100;
const LOGINS_MIN: usize = 100;

/// A Dovecot with its `auth` process, ended when it is dropped.
struct DovecotAuth {
    scratch: Scratch,
    config: PathBuf,
    master: Option<Child>,
}

impl DovecotAuth {
    /// Prepares a Dovecot without starting it; `None` after [`skip_or_fail`] if it is missing.
    fn new() -> Option<Self> {
        if program("doveadm").is_none() || program("dovecot").is_none() {
            skip_or_fail("Dovecot (Debian package dovecot-core)");
            return None;
        }
        let scratch = Scratch::new("dovecot-auth").unwrap();
        let PeerUser { name, .. } = PeerUser::get().unwrap();
        let folder = scratch.path().display();
        let text = format!(
            "base_dir = {folder}/run\nstate_dir = {folder}/run\nlog_path = {folder}/log\n\
             ssl = no\nprotocols =\nauth_failure_delay = 0\n\
             first_valid_uid = 1\nfirst_valid_gid = 1\n\
             default_internal_user = {name}\ndefault_login_user = {name}\n\
             default_internal_group = {name}\nmail_location = maildir:/none\n\
             service anvil {{\n  unix_listener anvil-auth-penalty {{\n    mode = 0\n  }}\n}}\n\
             passdb {{\n  driver = passwd-file\n  args = {folder}/users\n}}\n\
             userdb {{\n  driver = passwd-file\n  args = {folder}/users\n}}\n\
             service auth {{\n  user = {name}\n  unix_listener auth-client {{\n    mode = 0666\n  }}\n}}\n"
        );
        let config = scratch.path().join("dovecot.conf");
        disk::write(&config, text.as_bytes()).unwrap();
        disk::create_dir(&scratch.path().join("run")).unwrap();
        Some(Self { scratch, config, master: None })
    }

    fn users(&self) -> PathBuf {
        self.scratch.path().join("users")
    }

    fn doveadm(&self, args: &[&str]) -> (bool, String) {
        let mut command = Command::new(program("doveadm").unwrap());
        let output = command.arg("-c").arg(&self.config).args(args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), text)
    }

    /// Returns a hash that Dovecot made.
    fn hash(&self, scheme: &str, rounds: Option<&str>, password: &str) -> String {
        let mut args = vec!["pw", "-s", scheme, "-p", password];
        args.extend(rounds.iter().flat_map(|rounds| ["-r", rounds]));
        let (is_good, text) = self.doveadm(&args);
        assert!(is_good, "{args:?}: {text}");
        text.trim_end_matches('\n').to_owned()
    }

    /// Starts Dovecot and waits until its `auth` process can be asked.
    fn start(&mut self) -> io::Result<()> {
        self.scratch.hand_over()?;
        let mut command = Command::new(program("dovecot").unwrap());
        command.args(["-F", "-c"]).arg(&self.config);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.master = Some(command.spawn()?);
        let (socket, start) = (self.scratch.path().join("run/auth-client"), Instant::now());
        while !disk::exists(&socket) {
            if start.elapsed() > Duration::from_secs(60) {
                let log = disk::read_text(&self.scratch.path().join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("Dovecot does not start: {log}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns `true` if Dovecot lets a user in.
    fn lets_in(&self, user: &str, password: &str, peer: &str) -> bool {
        let socket = self.scratch.path().join("run/auth-client");
        let (socket, rip) = (socket.to_str().unwrap(), format!("rip={peer}"));
        let args = ["auth", "test", "-a", socket, "-x", &rip, user, password];
        let (is_good, text) = self.doveadm(&args);
        assert!(text.contains("auth succeeded") || text.contains("auth failed"), "{user}: {text}");
        is_good
    }
}

impl Drop for DovecotAuth {
    fn drop(&mut self) {
        if let Some(mut master) = self.master.take() {
            // SIGTERM, so that it ends its own children.
            let _ = Command::new("kill").arg(master.id().to_string()).status();
            let _ = master.wait();
        }
    }
}

#[test]
fn hashes_of_dovecot_are_verified() {
    let Some(dovecot) = DovecotAuth::new() else { return };
    let mut compared = 0;
    for (scheme, rounds) in SCHEMES {
        for (number, password) in PASSWORDS.iter().enumerate() {
            let hash = dovecot.hash(scheme, rounds, password);
            let parsed = Password::parse(hash.as_bytes(), Scheme::Crypt);
            let parsed = parsed.unwrap_or_else(|error| panic!("{hash}: {error}"));
            assert!(parsed.verify(password.as_bytes()), "{hash} {password:?}");
            let other = PASSWORDS[(number + 1) % PASSWORDS.len()];
            assert!(!parsed.verify(other.as_bytes()), "{hash} {other:?}");
            compared += 1;
        }
    }
    eprintln!("{compared} hashes of doveadm pw verified");
    assert!(compared >= HASHES_MIN);
}

#[test]
fn dovecot_verifies_new_hashes() {
    let Some(dovecot) = DovecotAuth::new() else { return };
    let schemes = [
        Scheme::Argon2id,
        Scheme::Argon2i,
        Scheme::Sha512Crypt,
        Scheme::Sha256Crypt,
        Scheme::BlfCrypt,
        Scheme::ScramSha256,
        Scheme::Ssha512,
        Scheme::Ssha256,
        Scheme::Ssha,
    ];
    let mut compared = 0;
    for scheme in schemes {
        // Dovecot does not prepare passwords for SCRAM: only one in ASCII is the same.
        let passwords = match scheme {
            Scheme::ScramSha256 => &PASSWORDS[..2],
            _ => &PASSWORDS[..],
        };
        for password in passwords {
            let hash = make_hash(scheme, password.as_bytes(), &OsVfs).unwrap();
            let (is_good, text) = dovecot.doveadm(&["pw", "-t", &hash, "-p", password]);
            assert!(is_good && text.contains("(verified)"), "{hash} {password:?}: {text}");
            let (is_good, text) = dovecot.doveadm(&["pw", "-t", &hash, "-p", "wrong"]);
            assert!(!is_good, "{hash}: {text}");
            compared += 1;
        }
    }
    eprintln!("{compared} new hashes verified by doveadm pw -t");
    assert!(compared >= 50);
}

/// Lines of a passwd-file, of which some make no users.
fn lines(dovecot: &DovecotAuth) -> String {
    let hash = |scheme: &str| dovecot.hash(scheme, None, "secret");
    format!(
        "# comment\n\
         \n\
         plain:{{PLAIN}}secret:1000:1001:Gecos, with comma:/home/plain:/bin/sh:userdb_mail=maildir:~/Maildir\r\n\
         clear:{{CLEARTEXT}}secret:1000:1000::/home/clear::userdb_mail=mbox:~/mail:INBOX=/var/mail/%u userdb_quota_rule=*:storage=1G\n\
         crypt:{}:1000:1000::/home/crypt::\n\
         bare:{}:1000:1000::/home/bare::\n\
         argon:{}:1000:1000::/h::userdb_mail=maildir:/m/%d/%n/%u\n\
         yescrypt:{{CRYPT}}$y$j75$k2XAnEHBqQ1Ct2aMXFKNa/$U714.Qb8scG3K4QGg/xKCyJYcAYtgz2YQfZyHILKld1:1000:1000::/h::\n\
         scram:{}:1000:1000::/h::\n\
         ssha@example.org:{}:1000:1000::/h::userdb_mail=maildir:/m/%d/%n/%Lu/100%%\n\
         nets:{{PLAIN}}secret:1000:1000::/h::allow_nets=192.0.2.0/24,2001:db8::/32\n\
         none:{{PLAIN}}secret:1000:1000::/h::allow_nets=198.51.100.7\n\
         locked:!:1000:1000::/h::\n\
         star:*:1000:1000::/h::\n\
         empty::1000:1000::/h::\n\
         onlyname\n\
         short:{{PLAIN}}secret\n\
         :{{PLAIN}}secret:1000:1000::/h::\n\
         plain:{{PLAIN}}second:1000:1000::/h::\n\
         odd:{{NO-SUCH-SCHEME}}secret:1000:1000::/h::\n\
         colon:{{PLAIN}}secret:1000:1000::/h:/bin/sh:userdb_mail=maildir:/a:LAYOUT=fs:INBOX=/b\n\
         space:{{PLAIN}} secret:1000:1000::/h::  userdb_x=1   userdb_y=2  \n",
        hash("SHA512-CRYPT"),
        hash("SHA256-CRYPT").trim_start_matches("{SHA256-CRYPT}"),
        hash("ARGON2ID"),
        hash("SCRAM-SHA-256"),
        hash("SSHA512"),
    )
}

const USERS: [&str; 22] = [
    "yescrypt",
    "plain",
    "clear",
    "crypt",
    "bare",
    "argon",
    "scram",
    "ssha@example.org",
    "ssha",
    "nets",
    "none",
    "locked",
    "star",
    "empty",
    "onlyname",
    "short",
    "odd",
    "colon",
    "space",
    "PLAIN",
    "nobody",
    "Ssha@Example.ORG",
];

#[test]
fn a_passwd_file_lets_the_same_users_in() {
    let Some(mut dovecot) = DovecotAuth::new() else { return };
    let path = dovecot.users();
    disk::write(&path, lines(&dovecot).as_bytes()).unwrap();
    dovecot.start().unwrap();
    let base = open(&path);
    let rules = NameRules::default();
    let (mut compared, mut admitted) = (0, 0);
    for user in USERS {
        for (password, peer) in [
            ("secret", "192.0.2.9"),
            ("secret", "2001:db8::1"),
            ("secret", "198.51.100.7"),
            ("second", "192.0.2.9"),
            ("Hello world!", "192.0.2.9"),
            (" secret", "192.0.2.9"),
        ] {
            let name = rules.name(user.as_bytes()).unwrap();
            let peer_address: IpAddr = peer.parse().unwrap();
            let login =
                Login { name: &name, password: password.as_bytes(), peer: Some(peer_address) };
            let ours = base.verify(&login).unwrap();
            let theirs = dovecot.lets_in(user, password, peer);
            assert_eq!(ours.is_ok(), theirs, "{user} {password:?} {peer}: {ours:?}");
            compared += 1;
            admitted += usize::from(theirs);
        }
    }
    eprintln!("{compared} logins compared, {admitted} of them let in");
    assert!(compared >= LOGINS_MIN && admitted >= 20);
    let fields = compare_fields(&dovecot, &base);
    eprintln!("{fields} fields of users compared");
    assert!(fields >= 40);
}

fn open(path: &Path) -> PasswdFile {
    let secret = ServerSecret::random(&OsVfs).unwrap();
    PasswdFile::open(Arc::new(OsVfs), path, PasswdFileOptions::default(), secret).unwrap()
}

/// Compares the fields that `doveadm user` prints.
fn compare_fields(dovecot: &DovecotAuth, base: &PasswdFile) -> usize {
    let rules = NameRules::default();
    let mut compared = 0;
    for user in ["plain", "clear", "crypt", "argon", "ssha@example.org", "nets", "colon", "space"] {
        let name = rules.name(user.as_bytes()).unwrap();
        let peer = Some("192.0.2.9".parse().unwrap());
        let ours = base.user(&name, peer).unwrap().unwrap();
        let (is_good, text) = dovecot.doveadm(&["user", user]);
        assert!(is_good, "{user}: {text}");
        let theirs = |field: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once('\t'));
            lines.find(|(name, _)| *name == field).map(|(_, value)| value.to_owned())
        };
        let numbers = [("uid", ours.uid), ("gid", ours.gid)];
        for (field, number) in numbers {
            assert_eq!(number.map(|number| number.to_string()), theirs(field), "{user} {field}");
        }
        assert_eq!(ours.home, theirs("home"), "{user}");
        for field in ["quota_rule", "x", "y"] {
            assert_eq!(ours.field(field).map(str::to_owned), theirs(field), "{user} {field}");
        }
        // Dovecot shows the location of its configuration if the file has none.
        if let Some(mail) = ours.field("mail") {
            let theirs = theirs("mail").unwrap_or_default();
            let home = ours.home.clone().unwrap_or_default();
            assert_eq!(mail, theirs.replace("~/", &format!("{home}/")), "{user}");
            compared += 1;
        }
        compared += 6;
    }
    compared
}
