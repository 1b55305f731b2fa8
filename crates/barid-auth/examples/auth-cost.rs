//! Measures logins: of users of a passwd-file with each scheme the first, the next and a wrong one,
//! and those of users who do not exist.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use barid_auth::base::{Login, PasswdFile, PasswdFileOptions, UserBase as _};
use barid_auth::scheme::{Scheme, make_hash};
use barid_auth::{NameRules, ServerSecret};
use barid_vfs::{OpenOptions, OsVfs, Vfs as _};

/// Attempts of each kind; the median is printed.
const ROUNDS: usize = 21;
/// Users of the file.
const USERS: usize = 10_000;

fn main() {
    println!("scheme          first µs    next µs   wrong µs unknown µs");
    let schemes = [
        Scheme::Plain,
        Scheme::Ssha512,
        Scheme::ScramSha256,
        Scheme::Sha512Crypt,
        Scheme::BlfCrypt,
        Scheme::Argon2id,
    ];
    for scheme in schemes {
        let hash = match scheme {
            Scheme::Plain => "{PLAIN}secret".to_owned(),
            _ => make_hash(scheme, b"secret", &OsVfs).unwrap(),
        };
        let text: String = (0..USERS).map(|number| format!("user{number}:{hash}\n")).collect();
        let path = std::env::temp_dir().join(format!("barid-auth-cost-{}", std::process::id()));
        let file = OsVfs.open(&path, OpenOptions::create_new(0o600)).unwrap();
        file.write_all_at(text.as_bytes(), 0).unwrap();
        let start = Instant::now();
        let base = open(&path);
        let load = start.elapsed();
        let first = median(|round| verify(&base, &format!("user{round}"), "secret", true));
        let next = median(|round| verify(&base, &format!("user{round}"), "secret", true));
        let wrong = median(|round| verify(&base, &format!("user{round}"), "wrong", false));
        let unknown = median(|round| verify(&base, &format!("nobody{round}"), "wrong", false));
        let name = scheme.name();
        println!("{name:14} {first:>10.1} {next:>10.1} {wrong:>10.1} {unknown:>10.1}");
        println!("{name:14} {USERS} users read in {:.1} ms", load.as_secs_f64() * 1e3);
        OsVfs.remove_file(&path).unwrap();
    }
}

fn open(path: &Path) -> PasswdFile {
    let secret = ServerSecret::random(&OsVfs).unwrap();
    PasswdFile::open(Arc::new(OsVfs), path, PasswdFileOptions::default(), secret).unwrap()
}

fn verify(base: &PasswdFile, user: &str, password: &str, expected: bool) {
    let name = NameRules::default().name(user.as_bytes()).unwrap();
    let login = Login { name: &name, password: password.as_bytes(), peer: None };
    assert_eq!(base.verify(&login).unwrap().is_ok(), expected, "{user}");
}

/// Returns the median of the times of all rounds in microseconds.
fn median(mut run: impl FnMut(usize)) -> f64 {
    let time = |round| {
        let start = Instant::now();
        run(round);
        start.elapsed()
    };
    let mut times: Vec<Duration> = (0..ROUNDS).map(time).collect();
    times.sort_unstable();
    times[ROUNDS / 2].as_secs_f64() * 1e6
}
