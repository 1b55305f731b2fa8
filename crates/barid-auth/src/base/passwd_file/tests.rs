use std::sync::Arc;

use barid_vfs::{CallKind, CountingVfs, Host as _, MemVfs};

use super::*;
use crate::scheme::make_hash;

const PATH: &str = "/users";

fn put(vfs: &dyn Vfs, text: &str) {
    let options = OpenOptions { truncate: true, ..OpenOptions::create(0o600) };
    vfs.open(Path::new(PATH), options).unwrap().write_all_at(text.as_bytes(), 0).unwrap();
}

fn open(vfs: &Arc<MemVfs>, text: &str) -> PasswdFile {
    put(&**vfs, text);
    let secret = ServerSecret::new(&[7; 32]);
    let vfs: Arc<dyn Vfs> = Arc::<MemVfs>::clone(vfs);
    PasswdFile::open(vfs, Path::new(PATH), PasswdFileOptions::default(), secret).unwrap()
}

fn name(text: &str) -> UserName {
    NameRules::default().name(text.as_bytes()).unwrap()
}

fn verify(base: &PasswdFile, user: &str, password: &str) -> std::result::Result<String, Refusal> {
    let name = name(user);
    let login = Login { name: &name, password: password.as_bytes(), peer: None };
    base.verify(&login).unwrap().map(|user| user.name.to_string())
}

#[test]
fn users_log_in_with_their_passwords() {
    let vfs = Arc::new(MemVfs::new());
    let base = open(&vfs, "ann:{PLAIN}one\nbob:{PLAIN}two\ncarl:!\ndora:{FOO}x\n");
    assert_eq!(verify(&base, "ann", "one"), Ok("ann".to_owned()));
    assert_eq!(verify(&base, "ann", "two"), Err(Refusal::WrongPassword));
    assert_eq!(verify(&base, "ann", ""), Err(Refusal::WrongPassword));
    assert_eq!(verify(&base, "carl", "!"), Err(Refusal::Locked));
    assert_eq!(verify(&base, "dora", "x"), Err(Refusal::UnknownUser));
    let (problems, more, generation) = base.problems();
    assert_eq!((problems.len(), problems[0].line, more, generation), (1, 4, 0, 1));
    assert_eq!(base.users(), 3);
}

#[test]
fn a_changed_file_is_read_again_and_only_then() {
    let vfs = Arc::new(MemVfs::new());
    put(&*vfs, "ann:{PLAIN}one\n");
    vfs.sleep(Duration::from_secs(10));
    let counting = Arc::new(CountingVfs::new(MemVfs::clone(&vfs)));
    let base = PasswdFile::open(
        Arc::<CountingVfs<MemVfs>>::clone(&counting),
        Path::new(PATH),
        PasswdFileOptions::default(),
        ServerSecret::new(&[7; 32]),
    )
    .unwrap();
    let before = counting.counts();
    for _ in 0..5 {
        assert!(verify(&base, "ann", "one").is_ok());
    }
    let calls = counting.counts().since(&before);
    assert_eq!((calls.calls(), calls.of(CallKind::Stat)), (5, 5), "{calls:?}");
    vfs.sleep(Duration::from_secs(10));
    put(&*vfs, "ann:{PLAIN}two\nbob:{PLAIN}x\n");
    assert_eq!(verify(&base, "ann", "one"), Err(Refusal::WrongPassword));
    assert!(verify(&base, "bob", "x").is_ok());
    vfs.remove_file(Path::new(PATH)).unwrap();
    let ann = name("ann");
    let login = Login { name: &ann, password: b"two", peer: None };
    assert!(matches!(base.verify(&login), Err(Error::Io { .. })));
    put(&*vfs, "ann:{PLAIN}two\n");
    assert!(verify(&base, "ann", "two").is_ok());
}

#[test]
fn a_change_within_one_stamp_is_found_later() {
    let vfs = Arc::new(MemVfs::new());
    let base = open(&vfs, "ann:{PLAIN}one\n");
    let path = Path::new(PATH);
    let metadata = vfs.metadata(path).unwrap();
    put(&*vfs, "ann:{PLAIN}two\n");
    vfs.set_times(path, metadata.accessed, metadata.modified).unwrap();
    vfs.sleep(SETTLED);
    assert!(verify(&base, "ann", "two").is_ok());
    let (.., generation) = base.problems();
    vfs.sleep(SETTLED);
    assert!(verify(&base, "ann", "two").is_ok());
    let (.., again) = base.problems();
    assert!(again <= generation + 1, "{again}");
}

#[test]
fn a_slow_password_is_computed_once() {
    let vfs = Arc::new(MemVfs::new());
    let hash = make_hash(Scheme::Argon2id, b"one", &*vfs).unwrap();
    let base = open(&vfs, &format!("ann:{hash}\n"));
    assert!(verify(&base, "ann", "one").is_ok());
    let start = std::time::Instant::now();
    for _ in 0..1000 {
        assert!(verify(&base, "ann", "one").is_ok());
    }
    // One computation takes a tenth of a second.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(verify(&base, "ann", "two"), Err(Refusal::WrongPassword));
    let other = make_hash(Scheme::Argon2id, b"two", &*vfs).unwrap();
    vfs.sleep(Duration::from_secs(10));
    put(&*vfs, &format!("ann:{other}\n"));
    assert_eq!(verify(&base, "ann", "one"), Err(Refusal::WrongPassword));
    assert!(verify(&base, "ann", "two").is_ok());
}

#[test]
fn unknown_users_cost_what_most_users_cost() {
    let vfs = Arc::new(MemVfs::new());
    let slow = "{SCRAM-SHA-256}5000,W22ZaJ0SNY7soEsUEjb6gQ==,WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    let base = open(&vfs, &format!("ann:{slow}\nbob:{slow}\ncarl:{{PLAIN}}x\ndora:!\n"));
    let table = base.current();
    let ann = &table.users.accounts[&name("ann")].password;
    assert_eq!(table.dummy.cost(), ann.cost());
    assert!(!base.offers_scram().unwrap());
    assert!(base.scram(&name("ann"), None).is_err());
}

#[test]
fn scram_is_offered_if_all_have_keys() {
    let vfs = Arc::new(MemVfs::new());
    let hash = make_hash(Scheme::ScramSha256, b"one", &*vfs).unwrap();
    let base = open(&vfs, &format!("ann:{hash}\nbob:{hash}\ncarl:!\n"));
    assert!(base.offers_scram().unwrap());
    let ann = base.scram(&name("ann"), None).unwrap();
    assert!(ann.user.is_ok() && ann.keys.verify(b"one"));
    for (user, refusal) in [("carl", Refusal::Locked), ("dora", Refusal::UnknownUser)] {
        let first = base.scram(&name(user), None).unwrap();
        let second = base.scram(&name(user), None).unwrap();
        assert_eq!(first.user, Err(refusal));
        assert_eq!(first.keys.to_text(), second.keys.to_text());
        assert_eq!(first.keys.salt.len(), ann.keys.salt.len());
        assert_eq!(first.keys.iterations, ann.keys.iterations);
        assert_ne!(first.keys.salt, ann.keys.salt);
    }
    let (carl, dora) = (base.scram(&name("carl"), None), base.scram(&name("dora"), None));
    assert_ne!(carl.unwrap().keys.salt, dora.unwrap().keys.salt);
    assert!(!open(&vfs, "").offers_scram().unwrap());
    assert!(!open(&vfs, "carl:!\n").offers_scram().unwrap());
}
