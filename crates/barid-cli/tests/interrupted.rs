//! Programs that are killed while they write a cache, and programs that use one cache concurrently.

use std::process::Stdio;
use std::time::Instant;

use crate::stores::usable;
use crate::support::{Running, World};

/// Number of programs killed before they are done, spread over the stores.
const KILLS: usize = 100;
/// Most programs started for each one that is killed in time.
const STARTS_PER_KILL: usize = 20;
/// Messages of the mailbox at the start.
const MESSAGES: usize = 150;
/// Messages delivered between two runs.
const DELIVERED: usize = 60;
/// Programs that use a cache concurrently, and the number of rounds.
const AT_ONCE: usize = 4;
const ROUNDS: usize = 5;

/// A Maildir to which messages are delivered.
struct Mailbox<'a> {
    world: &'a World,
    path: String,
    count: usize,
}

impl<'a> Mailbox<'a> {
    fn new(world: &'a World) -> Self {
        let path = world.maildir("box", &[]);
        let mut made = Self { world, path, count: 0 };
        made.deliver(MESSAGES);
        made
    }

    fn deliver(&mut self, count: usize) {
        for _ in 0..count {
            let n = self.count;
            self.count += 1;
            let text = format!(
                "From: Ann <ann{}@example.org>\nSubject: Re: number {}\n\
                 Message-ID: <{n}@a.example>\nReferences: <{}@a.example> <{}@a.example>\n\
                 Date: Tue, 5 Mar 2024 12:22:10 +0100\n\n",
                n % 7,
                n / 3,
                n / 2,
                n / 5
            );
            let file = format!("cur/{}.M{n}P1.host:2,S", 1_600_000_000 + n);
            self.world.deliver("box", &file, &text);
        }
    }

    /// Returns the listing without a cache.
    fn expected(&self) -> String {
        self.world.ok(&["ls", "--json", &self.path, "--no-cache"])
    }

    fn start(&self, args: &[&str]) -> Running {
        let mut command = self.world.command();
        Running::spawn(command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()))
    }
}

#[test]
fn a_killed_writer_costs_nothing() {
    let world = World::new();
    let stores = usable(&world);
    let mut rng = fastrand::Rng::with_seed(33);
    let (mut killed, mut warned) = (0, 0);
    for store in &stores {
        let mut mailbox = Mailbox::new(&world);
        let store = store["name"].as_str().unwrap();
        let path = mailbox.path.clone();
        let dir = format!("caches-{store}");
        let keep = ["--cache-dir", &dir, "--store", store, "--compress", "zstd+dict"];
        let fill = [&["cache", "populate", &path][..], &keep].concat();
        let pack = [&["cache", "convert", &path][..], &keep[..4], &["--compress", "lz4"]].concat();
        let started = Instant::now();
        world.ok(&fill);
        let whole = started.elapsed();
        let (mut runs, before) = (0, killed);
        while killed - before < KILLS.div_ceil(stores.len()) {
            runs += 1;
            assert!(runs < STARTS_PER_KILL * KILLS, "{store}: nothing is killed in time");
            let args = match runs % 3 {
                0 => &pack,
                1 => {
                    world.ok(&["cache", "clear", &path, "--cache-dir", &dir]);
                    &fill
                }
                _ => &fill,
            };
            mailbox.deliver(DELIVERED);
            let mut child = mailbox.start(args);
            std::thread::sleep(whole.mul_f32(rng.f32()));
            child.kill().unwrap();
            killed += usize::from(child.wait().unwrap().code().is_none());
            let expected = mailbox.expected();
            for _ in 0..2 {
                let run = world.run(&["ls", "--json", &path, "--cache-dir", &dir]);
                assert_eq!(
                    (run.code, run.text() == expected),
                    (0, true),
                    "{args:?}: {}",
                    run.stderr
                );
                assert!(!run.stderr.contains("error"), "{args:?}: {}", run.stderr);
                warned += usize::from(!run.stderr.is_empty());
            }
        }
        let verified = world.run(&["cache", "verify", &path, "--cache-dir", &dir]);
        assert_eq!(verified.code, 0, "{store}: {}", verified.text());
        world.remove("box");
        world.remove(&dir);
    }
    println!("killed {killed} in {} stores, {warned} warnings after it", stores.len());
}

#[test]
fn many_use_one_cache() {
    let world = World::new();
    for store in usable(&world) {
        let store = store["name"].as_str().unwrap();
        let mut mailbox = Mailbox::new(&world);
        let path = mailbox.path.clone();
        let dir = format!("caches-{store}");
        let keep = ["--cache-dir", &dir, "--store", store];
        let list = [&["ls", "--json", &path][..], &keep].concat();
        for round in 0..ROUNDS {
            let pack = ["none", "zstd"][round % 2];
            let convert = ["cache", "convert", &path, "--cache-dir", &dir, "--compress", pack];
            // All of them find the mailbox changed, and each tries to write the cache.
            let mut running: Vec<Running> = Vec::new();
            if round > 0 {
                running.push(mailbox.start(&convert));
            }
            running.extend((0..AT_ONCE).map(|_| mailbox.start(&list)));
            let outputs = running.into_iter().map(|child| child.wait_with_output().unwrap());
            let outputs: Vec<_> = outputs.collect();
            let expected = mailbox.expected();
            for (number, output) in outputs.iter().enumerate() {
                let error = String::from_utf8_lossy(&output.stderr);
                let told = (output.status.code(), &*error);
                if round > 0 && number == 0 {
                    // The holder of the cache goes first; a conversion may fail because of that.
                    let busy = error.contains("in use by another process");
                    assert!(told == (Some(0), "") || busy, "{store}: {told:?}");
                    continue;
                }
                assert_eq!(told, (Some(0), ""), "{store}, round {round}");
                assert!(output.stdout == expected.as_bytes(), "{store}, round {round}");
            }
            mailbox.deliver(DELIVERED / 2);
        }
        let last = world.ok(&list);
        assert!(last == mailbox.expected(), "{store}");
        world.ok(&["cache", "verify", &path, "--cache-dir", &dir]);
        world.remove("box");
        world.remove(&dir);
    }
}
