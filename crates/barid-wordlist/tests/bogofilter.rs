//! bogofilter's own word lists, read and written in place, and barid's lists as bogofilter loads
//! them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use barid_testkit::Scratch;
use barid_testkit::peers::Bogofilter;
use barid_vfs::{File, LockKind, LockMode, OpenOptions, OsVfs, Vfs};
use barid_wordlist::{
    Batch, Class, Counts, Created, Error, Load, Maintain, Native, OnStore, Sharing, TokenEntry,
    WordList, dump, keys, load, maintain, robx,
};

use crate::stores::choice;
use crate::world::word;

const DATE: u32 = 20_261_122;
const EMPTY: Created = Created { date: 0, encoding: None };

/// A build of bogofilter, a folder with one of its lists, and the name of its store.
struct World {
    peer: Bogofilter,
    scratch: Scratch,
    store: &'static str,
}

impl World {
    /// Returns the build with Berkeley DB and, where they are installed, those with Tokyo Cabinet
    /// and SQLite.
    fn all() -> Vec<Self> {
        let others = ["tokyocabinet", "sqlite"].map(|build| (Bogofilter::of_build(build), build));
        for (_, build) in others.iter().filter(|(peer, _)| peer.is_none()) {
            println!("skipped: the programs of Debian package bogofilter-{build}");
        }
        let usable = [(Bogofilter::new(), "bdb")]
            .into_iter()
            .chain(others)
            .filter_map(|(peer, store)| Some((peer?, store)));
        let usable = usable.filter(|(_, store)| choice(store).is_some());
        usable
            .map(|(peer, store)| {
                let scratch = Scratch::new("bogo").unwrap();
                Self { peer, scratch, store }
            })
            .collect()
    }

    fn path(&self) -> PathBuf {
        let is_tokyo = self.store == "tokyocabinet";
        let name = if is_tokyo { "wordlist.tc" } else { "wordlist.db" };
        self.scratch.path().join(name)
    }

    fn list(&self) -> barid_wordlist::Result<OnStore> {
        let choice = choice(self.store).unwrap();
        OnStore::open(Arc::new(OsVfs), &self.path(), choice, Sharing::Bogofilter)
    }

    /// Trains bogofilter with messages.
    fn register(&self, flags: &[&str], message: &[u8]) {
        let args = [&["-y", "20261122"], flags].concat();
        let output = self.peer.filter(self.scratch.path(), &args, message).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {args:?}: {}{said}", self.store, output.status);
    }

    fn util(&self, args: &[&str], path: &Path, input: &[u8]) -> String {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let args = [args, vec![path.display().to_string()]].concat();
        let output = self.peer.util(&args, input).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {args:?}: {}{said}", self.store, output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn dump(&self) -> String {
        self.dump_of(&self.path())
    }

    /// Returns the dump of `bogoutil -d` in byte order; the build with SQLite prints another order.
    fn dump_of(&self, path: &Path) -> String {
        let text = self.util(&["-d"], path, b"");
        if self.store != "sqlite" {
            return text;
        }
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        lines.sort_unstable();
        lines.concat()
    }
}

fn ours(list: &mut dyn WordList) -> String {
    let mut text = Vec::new();
    dump(list, &mut text, None).unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

/// Checks that two texts are equal; the panic message has the first lines that differ.
fn same(found: &str, expected: &str, what: &str) {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (found, expected) = (lines(found), lines(expected));
    let differ = found.iter().zip(&expected).find(|(found, expected)| found != expected);
    assert!(differ.is_none() && found.len() == expected.len(), "{what}: {differ:?}");
}

/// Returns a message of distinct words, and these words.
fn message(seed: u32, words: u32) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut random = fastrand::Rng::with_seed(u64::from(seed));
    let mut tokens: Vec<Vec<u8>> =
        (0..words).map(|_| [&b"www"[..], &word(random.u32(0..150) * 4)].concat()).collect();
    tokens.sort();
    tokens.dedup();
    ([&b"\n"[..], &tokens.join(&b' '), b"\n"].concat(), tokens)
}

/// Trains a list with barid: adds `add` and subtracts `sub` for each token and for the message.
fn train(list: &mut dyn WordList, tokens: &[Vec<u8>], add: Counts, sub: Counts) {
    let mut batch = Batch::new(DATE);
    for token in tokens {
        batch.change(token, add, sub).unwrap();
    }
    batch.messages(add, sub).unwrap();
    list.update(&batch).unwrap();
}

/// The same messages give the same counts in bogofilter's list, in barid's, and in one that both
/// train in turn.
#[test]
fn registrations_give_the_same_lists() {
    let none = Counts::default();
    let (spam, ham) = (Class::Spam.counts(1), Class::Ham.counts(1));
    for world in World::all() {
        let native = world.scratch.path().join("native");
        let created = Created { date: DATE, encoding: Some(2) };
        let mut native = Native::create(Arc::new(OsVfs), &native, &created).unwrap();
        let both = World { scratch: Scratch::new("bogo").unwrap(), ..world };
        let world =
            World { scratch: Scratch::new("bogo").unwrap(), peer: both.peer.clone(), ..both };
        let mut compared = 0;
        for round in 0..60 {
            let (text, tokens) = message(round % 35, 120);
            let (flags, add, sub) = match round % 9 {
                0 | 2 | 6 => (&["-s"][..], spam, none),
                1 | 7 | 8 => (&["-n"][..], ham, none),
                3 => (&["-S"][..], none, spam),
                4 => (&["-N"][..], none, ham),
                _ => (&["-S", "-n"][..], ham, spam),
            };
            world.register(flags, &text);
            // In turn: each reads what the other wrote.
            if round == 0 || round % 2 == 1 {
                both.register(flags, &text);
            } else {
                train(&mut both.list().unwrap(), &tokens, add, sub);
            }
            train(&mut native, &tokens, add, sub);
            let expected = world.dump();
            same(&both.dump(), &expected, "both");
            same(&ours(&mut native), &expected, "native");
            same(&ours(&mut both.list().unwrap()), &expected, "in place");
            compared += 3;
        }
        println!("{}: {compared} dumps equal", world.store);
        assert!(compared >= 100);
        let theirs = world.util(&["-r"], &world.path(), b"");
        let found = robx(&mut world.list().unwrap()).unwrap().unwrap();
        assert_eq!(format!("{:.6}\n", found.value), theirs);
        assert_eq!(robx(&mut native).unwrap(), Some(found));
    }
}

/// Dumps are loaded with the same result, including ill-formed lines and keys that are not tokens.
#[test]
fn dumps_are_loaded_alike() {
    let text = ".ENCODING 2 0 20200101\n.MSG_COUNT 30 40 20200101\n.ROBX 520000 0 20200101\n\
                .WORDLIST_VERSION 20040500 0 20200101\nab\na 1\nword 1 2 20200101\n\
                word 10 20 20210101\nminus -1 -2 20200101\nnodate 3 4\ncaf\u{e9} 1 2 20200505\n\
                caf?? 5 5 20200404\nlonger-than-any-token-that-is-made 1 1 20201010\n";
    for world in World::all() {
        let native = world.scratch.path().join("native");
        let mut native = Native::create(Arc::new(OsVfs), &native, &EMPTY).unwrap();
        let loaded = world.scratch.path().join("loaded.db");
        world.util(&["-y", "20261122", "-l"], &loaded, text.as_bytes());
        let how = Load { today: DATE, ..Load::default() };
        load(&mut native, &mut text.as_bytes(), &how).unwrap();
        same(&ours(&mut native), &world.dump_of(&loaded), world.store);

        // A list that barid made is valid for bogofilter.
        let made = world.scratch.path().join("made.db");
        let choice = choice(world.store).unwrap();
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        let made_list = OnStore::create(vfs, &made, choice, Sharing::Bogofilter, &EMPTY);
        let mut made_list = made_list.unwrap();
        load(&mut made_list, &mut text.as_bytes(), &how).unwrap();
        same(&world.dump_of(&made), &ours(&mut native), world.store);
        assert_eq!(world.util(&["-w"], &made, b""), world.util(&["-w"], &loaded, b""),);

        // Maintenance, with all tests and with each alone.
        for (flags, what) in [
            (&["-a", "20200505"][..], Maintain { date: Some(20_200_505), ..Maintain::default() }),
            (&["-c", "4"], Maintain { count: Some(4), ..Maintain::default() }),
            (&["-s", "4,8"], Maintain { len: Some((4, 8)), ..Maintain::default() }),
            (&["-n"], Maintain { replace_non_ascii: true, ..Maintain::default() }),
            (
                &["-a", "20210101", "-c", "5"],
                Maintain { date: Some(20_210_101), count: Some(5), ..Maintain::default() },
            ),
        ] {
            let theirs = world.scratch.path().join("theirs.db");
            let (mut list, names) = copies(&world, text, &theirs);
            let args = [flags, &["--unicode=yes", "-m"]].concat();
            world.util(&args, &theirs, b"");
            maintain(&mut list, &what).unwrap();
            same(&ours(&mut list), &world.dump_of(&theirs), flags[0]);
            for name in names {
                OsVfs.remove_file(&name).unwrap();
            }
        }
    }
}

/// Loads the same text twice with bogofilter, and opens the second list with barid. Returns that
/// list and both paths.
fn copies(world: &World, text: &str, theirs: &Path) -> (OnStore, [PathBuf; 2]) {
    world.util(&["-y", "20261122", "-l"], theirs, text.as_bytes());
    let ours = theirs.with_file_name("ours.db");
    world.util(&["-y", "20261122", "-l"], &ours, text.as_bytes());
    let choice = choice(world.store).unwrap();
    let list = OnStore::open(Arc::new(OsVfs), &ours, choice, Sharing::Bogofilter).unwrap();
    (list, [theirs.to_owned(), ours])
}

/// bogofilter and barid wait for each other, and nothing is lost.
#[test]
fn updates_of_both_count() {
    for world in World::all() {
        world.register(&["-s"], &message(0, 30).0);
        std::thread::scope(|scope| {
            for thread in 0..2_u32 {
                let world = &world;
                scope.spawn(move || {
                    for round in 0..12 {
                        let (text, tokens) = message(thread * 100 + round, 30);
                        // Tokyo Cabinet has one handle of a file in a process.
                        if thread == 1 {
                            world.register(&["-s"], &text);
                        } else {
                            let mut list = world.list().unwrap();
                            train(&mut list, &tokens, Counts::new(1, 0), Counts::default());
                        }
                    }
                });
            }
        });
        let totals = world.list().unwrap().totals().unwrap();
        assert_eq!(totals, Counts::new(25, 0), "{}", world.store);
    }
}

/// A read waits while another process holds bogofilter's lock.
#[test]
fn the_lock_of_bogofilter_is_respected() {
    for world in World::all() {
        world.register(&["-s"], &message(0, 30).0);
        let file: Box<dyn File> = OsVfs.open(&world.path(), OpenOptions::WRITE).unwrap();
        assert!(file.try_lock(LockKind::Fcntl, LockMode::Exclusive).unwrap());
        let mut list = world.list().unwrap();
        let held = Duration::from_millis(200);
        let start = Instant::now();
        let found = std::thread::scope(|scope| {
            let reader = scope.spawn(move || list.totals().unwrap());
            std::thread::sleep(held);
            drop(file);
            reader.join().unwrap()
        });
        assert!(start.elapsed() >= held && found == Counts::new(1, 0));
    }
}

#[test]
fn lists_of_bogofilter_stay_its_own() {
    for world in World::all() {
        world.register(&["-s"], &message(0, 30).0);
        let mut list = world.list().unwrap();
        let mut batch = Batch::new(DATE);
        batch.train(1, Class::Spam, 0);
        assert!(matches!(list.update(&batch), Err(Error::Unsupported { .. })));
        assert!(matches!(list.receipts(&[1]), Err(Error::Unsupported { .. })));
        assert_eq!(
            list.entry(keys::WORDLIST_VERSION).unwrap(),
            Some(TokenEntry { spam: keys::VERSION, ham: 0, date: DATE })
        );
        if world.store == "bdb" {
            let log = world.scratch.path().join("log.0000000001");
            drop(OsVfs.open(&log, OpenOptions::create(0o600)).unwrap());
            assert!(matches!(world.list(), Err(Error::Unsupported { .. })));
        }
    }
}
