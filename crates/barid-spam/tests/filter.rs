//! The spam filter over mailboxes and messages.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use barid::vfs::{MemVfs, OsVfs, Vfs};
use barid::{ChangeOptions, FormatName, Mailbox, MailboxSpec, ReadAs, Uid};
use barid_spam::bayes::{Profile, Status};
use barid_spam::wordlist::{Class, Created, OnStore, Sharing, dump};
use barid_spam::{At, Became, Filter, Source, SpamOptions, Trained, TrainingKind};
use barid_testkit::{Scratch, skip_or_fail};

use crate::world::World;

const LIST: &str = "/state/spam/wordlist";

fn filter(memory: &MemVfs) -> Filter {
    filter_with(memory, SpamOptions::default())
}

fn filter_with(memory: &MemVfs, options: SpamOptions) -> Filter {
    let options = SpamOptions { date: Some(20_261_122), threads: 2, ..options };
    Filter::new(Arc::new(memory.clone()), LIST.into(), options)
}

/// Trains a filter with messages; returns the outcome of each in one word.
fn teach(filter: &Filter, kind: TrainingKind, source: Source<'_>) -> (Trained, Vec<String>) {
    let mut became = Vec::new();
    let tell = &mut |_: At, what: Became| became.push(format!("{what:?}"));
    let mut trainer = filter.trainer(kind).unwrap();
    trainer.add(source, tell).unwrap();
    let trained = trainer.finish(tell).unwrap();
    assert_eq!(trained.messages, became.len() as u64);
    (trained, became)
}

fn dumped(filter: &Filter) -> String {
    let mut text = Vec::new();
    dump(&mut *filter.open_list().unwrap(), &mut text, None).unwrap();
    text.escape_ascii().to_string().replace("\\n", "\n")
}

/// Returns the tokens of a dump that count, without dates.
fn counted(filter: &Filter) -> Vec<String> {
    let text = dumped(filter);
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    lines.map(|(line, _)| line.to_owned()).filter(|line| !line.ends_with(" 0 0")).collect()
}

fn uids(mailbox: &Mailbox) -> Vec<Uid> {
    mailbox.uids().unwrap().into_iter().filter_map(Uid::new).collect()
}

const SPAM: &[u8] = b"Subject: cheap pills\n\nbuy these pills now, cheap pills\n";
const OTHER: &[u8] = b"Subject: watches\n\ncheap watches, buy now\n";
const HAM: &[u8] = b"Subject: minutes\n\nminutes of the meeting on the release\n";

#[test]
fn a_message_counts_once() {
    let memory = MemVfs::new();
    let filter = filter(&memory);
    let both = &[SPAM, OTHER, SPAM];
    let (trained, became) =
        teach(&filter, TrainingKind::Train(Class::Spam), Source::Messages(both));
    assert_eq!(became.iter().filter(|became| *became == "Trained(Spam)").count(), 2);
    assert_eq!((trained.trained, trained.already), (2, 1));
    let first = dumped(&filter);
    assert!(first.contains("\n.MSG_COUNT 2 0 20261122\n"), "{first}");
    assert!(first.contains("\npills 1 0 ") && first.contains("\nbuy 2 0 "), "{first}");
    // Fields that mailboxes add do not make it another message.
    let again = b"From x@y Tue Mar  5 12:22:10 2024\nSubject: cheap pills\nStatus: RO\n\
                  Content-Length: 33\n\nbuy these pills now, cheap pills";
    let again = Source::Messages(&[again]);
    let (trained, became) = teach(&filter, TrainingKind::Train(Class::Spam), again);
    assert_eq!((trained.already, became), (1, vec!["Already(Spam)".to_owned()]));
    let (_, became) =
        teach(&filter, TrainingKind::Train(Class::Ham), Source::Messages(&[OTHER, HAM]));
    assert_eq!(became, ["Otherwise(Spam)", "Trained(Ham)"]);
    let (_, became) = teach(&filter, TrainingKind::Untrain(None), Source::Messages(&[HAM, HAM]));
    assert_eq!(became[0..1], ["Never"]);
    assert_eq!(became[1], "Untrained(Ham)");
    let (_, became) =
        teach(&filter, TrainingKind::Untrain(Some(Class::Ham)), Source::Messages(&[SPAM]));
    assert_eq!(became, ["Otherwise(Spam)"]);
    let after: Vec<String> = counted(&filter);
    let before = first.lines().filter_map(|line| line.rsplit_once(' ')).map(|it| it.0);
    assert_eq!(after, before.collect::<Vec<_>>());
}

#[test]
fn a_message_with_a_verdict_in_it_is_the_same() {
    let memory = MemVfs::new();
    let filter = filter(&memory);
    teach(&filter, TrainingKind::Train(Class::Spam), Source::Messages(&[SPAM]));
    let marked =
        [b"X-Bogosity: Ham, tests=bogofilter,\n spamicity=0.1\n".as_slice(), SPAM].concat();
    let (trained, became) =
        teach(&filter, TrainingKind::Untrain(None), Source::Messages(&[marked.as_slice()]));
    assert_eq!((trained.floored, became), (0, vec!["Untrained(Spam)".to_owned()]));
    assert!(counted(&filter).iter().all(|line| line.starts_with('.')), "{:?}", counted(&filter));
}

#[test]
fn what_is_moved_counts_as_if_it_had_always_been_so() {
    let (memory, other) = (MemVfs::new(), MemVfs::new());
    let (moved, direct) = (filter(&memory), filter(&other));
    teach(&moved, TrainingKind::Train(Class::Spam), Source::Messages(&[SPAM, HAM]));
    let (trained, became) =
        teach(&moved, TrainingKind::Retrain(Class::Ham), Source::Messages(&[HAM, OTHER]));
    assert_eq!(became, ["Moved(Ham)", "Trained(Ham)"]);
    assert_eq!((trained.moved, trained.trained, trained.floored), (1, 1, 0));
    teach(&direct, TrainingKind::Train(Class::Spam), Source::Messages(&[SPAM]));
    teach(&direct, TrainingKind::Train(Class::Ham), Source::Messages(&[HAM, OTHER]));
    assert_eq!(counted(&moved), counted(&direct));
}

#[test]
fn another_profile_is_taken_back_with_its_own_tokens() {
    let memory = MemVfs::new();
    let bogofilter = filter(&memory);
    let modern =
        filter_with(&memory, SpamOptions { profile: Profile::Modern, ..SpamOptions::default() });
    let html: &[u8] =
        b"Subject: x\nContent-Type: text/html\n\n<p>two<br/>three</p>four<b>five</b>\n";
    teach(&bogofilter, TrainingKind::Train(Class::Spam), Source::Messages(&[SPAM]));
    let before = counted(&bogofilter);
    teach(&modern, TrainingKind::Train(Class::Spam), Source::Messages(&[html]));
    let (trained, _) =
        teach(&bogofilter, TrainingKind::Retrain(Class::Ham), Source::Messages(&[html]));
    assert_eq!((trained.moved, trained.floored), (1, 0));
    let (trained, _) = teach(&modern, TrainingKind::Untrain(None), Source::Messages(&[html]));
    assert_eq!((trained.untrained, trained.floored), (1, 0));
    assert_eq!(counted(&bogofilter), before);
}

#[test]
fn mailboxes_of_all_formats_hold_the_same_messages() {
    let (mut mbox, mut maildir) = (World::mbox(5), World::maildir(5));
    mbox.deliver(40);
    maildir.deliver(40);
    let filter = filter(&mbox.memory);
    let mut open = mbox.open();
    let all = uids(&open);
    let source = Source::Mailbox(&mut open, &all);
    let (trained, _) = teach(&filter, TrainingKind::Train(Class::Ham), source);
    assert_eq!(trained.trained, 40);
    let mut open = maildir.open();
    let all = uids(&open);
    let (trained, _) =
        teach(&filter, TrainingKind::Train(Class::Ham), Source::Mailbox(&mut open, &all));
    assert_eq!((trained.trained, trained.already), (0, 40));
    let (trained, _) =
        teach(&filter, TrainingKind::Untrain(None), Source::Files(&maildir.new_files()));
    assert_eq!((trained.failed, trained.messages), (40, 40), "the files of another disk");
    let texts: Vec<Vec<u8>> =
        all.iter().map(|uid| open.read(*uid, ReadAs::Message).unwrap().bytes).collect();
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let (trained, _) = teach(&filter, TrainingKind::Untrain(None), Source::Messages(&texts));
    assert_eq!((trained.untrained, trained.floored), (40, 0));
    assert!(counted(&filter).iter().all(|line| line.starts_with('.')), "{:?}", counted(&filter));
}

#[test]
fn trainers_at_once_teach_every_message_once() {
    // They wait for each other, in real time and not in that of a disk in memory.
    let scratch = Scratch::new("trainers").unwrap();
    let filter = || {
        let options = SpamOptions { date: Some(20_261_122), threads: 2, ..Default::default() };
        Filter::new(Arc::new(OsVfs), scratch.path().join("wordlist"), options)
    };
    let texts: Vec<Vec<u8>> = (0..120)
        .map(|n| format!("Subject: number {n}\n\nthe word{n} and theword\n").into_bytes())
        .collect();
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let sums = std::thread::scope(|scope| {
        let work = |part: usize| {
            let (filter, texts) = (filter(), &texts);
            scope.spawn(move || {
                let mut sum = 0;
                // Batches of all sizes, which overlap.
                for chunk in texts[part * 10..].chunks(7 + part) {
                    let source = Source::Messages(chunk);
                    sum += teach(&filter, TrainingKind::Train(Class::Spam), source).0.trained;
                }
                sum
            })
        };
        let works: Vec<_> = (0..3).map(work).collect();
        works.into_iter().map(|work| work.join().unwrap()).sum::<u64>()
    });
    assert_eq!(sums, 120);
    let text = dumped(&filter());
    assert!(text.contains("\n.MSG_COUNT 120 0 ") && text.contains("\ntheword 120 0 "), "{text}");
}

#[test]
fn a_stop_keeps_what_was_taught() {
    let memory = MemVfs::new();
    let stop = Arc::new(AtomicBool::new(false));
    let options = SpamOptions { stop: Some(Arc::clone(&stop)), ..SpamOptions::default() };
    let filter = filter_with(&memory, options);
    stop.store(true, Ordering::Relaxed);
    let (trained, _) =
        teach(&filter, TrainingKind::Train(Class::Spam), Source::Messages(&[SPAM, OTHER, HAM]));
    assert_eq!((trained.trained, trained.is_stopped), (1, true));
    assert!(dumped(&filter).contains("\n.MSG_COUNT 1 0 "));
}

/// Returns the report on a mailbox: UID, score, and `true` if the score was stored.
fn classified(filter: &Filter, mailbox: &mut Mailbox, rescore: bool) -> Vec<(u32, f64, bool)> {
    let all = uids(mailbox);
    let mut told = Vec::new();
    let scored = filter.classify_mailbox(mailbox, &all, rescore, &mut |at, found| {
        let (At::Uid(uid), Some(found)) = (at, found?) else { panic!("{at:?}") };
        told.push((uid.get(), found.spamicity, found.is_kept));
        Ok(())
    });
    let scored = scored.unwrap();
    let kept = told.iter().filter(|(.., is_kept)| *is_kept).count() as u64;
    assert_eq!((scored.kept, scored.read), (kept, told.len() as u64 - kept));
    assert!(told.is_sorted_by_key(|(uid, ..)| *uid));
    told
}

/// Trains the filter with half of the messages of a mailbox as spam, and with the others as ham.
fn train_halves(filter: &Filter, mailbox: &mut Mailbox) {
    let all = uids(mailbox);
    let (spam, ham) = all.split_at(all.len() / 2);
    for (class, uids) in [(Class::Spam, spam), (Class::Ham, ham)] {
        let source = Source::Mailbox(mailbox, uids);
        teach(filter, TrainingKind::Train(class), source);
    }
}

#[test]
fn a_score_is_kept_until_it_is_asked_for_anew() {
    for mut world in [World::mbox(6), World::maildir(6)] {
        world.deliver(30);
        let filter = filter(&world.memory);
        let mut mailbox = world.open();
        train_halves(&filter, &mut mailbox);
        let first = classified(&filter, &mut mailbox, false);
        assert!(first.iter().all(|(.., is_kept)| !is_kept) && first.len() == 30);
        world.wait();
        world.deliver(3);
        mailbox.refresh().unwrap();
        teach(&filter, TrainingKind::Untrain(None), Source::Mailbox(&mut mailbox, &[Uid::MIN]));
        let second = classified(&filter, &mut mailbox, false);
        assert_eq!(second.iter().filter(|(.., is_kept)| !is_kept).count(), 3);
        for (one, other) in first.iter().zip(&second) {
            assert_eq!((one.0, one.1.to_bits()), (other.0, other.1.to_bits()));
        }
        let all = classified(&filter, &mut mailbox, true);
        assert!(all.len() == 33 && all.iter().all(|(.., is_kept)| !is_kept));
        assert_ne!(all[0].1, first[0].1);
        assert!(classified(&filter, &mut mailbox, false).iter().all(|(.., is_kept)| *is_kept));
        // Other parameters mean other scores.
        let mut options = SpamOptions::default();
        options.parameters.robs = 0.5;
        let other = filter_with(&world.memory, options);
        assert!(classified(&other, &mut mailbox, false).iter().all(|(.., is_kept)| !is_kept));
    }
}

#[test]
fn what_decided_is_told() {
    let memory = MemVfs::new();
    let filter = filter(&memory);
    assert!(filter.classify_message(SPAM, false).is_err(), "there is no word list");
    for (kind, word) in [(Class::Spam, "pills"), (Class::Ham, "minutes")] {
        for number in 0..20 {
            let text = format!("Subject: {word} {number}\n\nthe {word} of day{number}\n");
            let source = [text.as_bytes()];
            teach(&filter, TrainingKind::Train(kind), Source::Messages(&source));
        }
    }
    let found = filter.classify_message(b"Subject: pills\n\npills and minutes\n", true).unwrap();
    let explained = found.explained.clone().unwrap();
    let tokens: Vec<&[u8]> = explained.tokens.iter().map(|it| &it.token[..]).collect();
    assert_eq!(tokens, [&b"minutes"[..], b"pills", b"subj:pills"]);
    assert_eq!((found.used, explained.totals.spam), (Some(3), 20));
    let plain = filter.classify_message(b"Subject: pills\n\npills and minutes\n", false).unwrap();
    assert_eq!(plain.spamicity.to_bits(), found.spamicity.to_bits());
    let spam = filter.classify_message(b"Subject: pills\n\npills\n", false).unwrap();
    assert_eq!(spam.status, Status::Spam);
}

#[test]
fn spam_is_moved_and_nothing_is_lost() {
    let mut world = World::maildir(9);
    world.deliver(20);
    let filter = filter(&world.memory);
    let mut source = world.open();
    train_halves(&filter, &mut source);
    let vfs: Arc<dyn Vfs> = Arc::new(world.memory.clone());
    let options = world.options();
    let state = &options.state_dir;
    barid::create(
        &vfs,
        Path::new("/mail/spam"),
        FormatName::named("mboxrd").unwrap().format(),
        &Default::default(),
        state,
    )
    .unwrap();
    let spec = MailboxSpec::parse("mboxrd:/mail/spam");
    let mut target = Mailbox::open_in(Arc::clone(&vfs), &spec, &options).unwrap();
    let all = uids(&source);
    let text = |mailbox: &mut Mailbox, uid: Uid| {
        barid_spam::canonical_text(&mailbox.read(uid, ReadAs::Message).unwrap().bytes)
    };
    let mut before: Vec<_> = all.iter().map(|uid| text(&mut source, *uid)).collect();
    let plan = ChangeOptions { dry_run: true, ..ChangeOptions::default() };
    let done = ChangeOptions::default();
    let tell = &mut |_: At, _: barid_spam::Result<Option<barid_spam::Classified>>| Ok(());
    let planned = filter.move_spam(&mut source, &all, &mut target, &plan, tell).unwrap();
    assert!(planned.spam > 3 && planned.changed.is_none() && source.len() == 20);
    // No messages are not all messages.
    let none = filter.move_spam(&mut source, &[], &mut target, &done, tell).unwrap();
    assert_eq!((none.spam, none.scored.read, source.len(), target.len()), (0, 0, 20, 0));
    // As after a crash between the copy and the expunge.
    let spam: Vec<Uid> = all[..2].to_vec();
    let how = barid::convert::ConvertOptions::default();
    barid::convert::copy(&mut source, &spam, &mut target, &how, &mut |_| {}).unwrap();
    let moved = filter.move_spam(&mut source, &all, &mut target, &done, tell).unwrap();
    assert_eq!((moved.spam, moved.found), (planned.spam, 2));
    assert_eq!(u64::from(target.len()), moved.spam);
    assert_eq!(source.len() + target.len(), 20);
    let mut after: Vec<_> = uids(&source).iter().map(|uid| text(&mut source, *uid)).collect();
    after.extend(uids(&target).iter().map(|uid| text(&mut target, *uid)));
    before.sort();
    after.sort();
    assert_eq!(before, after);
    let left = uids(&source);
    let again = filter.move_spam(&mut source, &left, &mut target, &done, tell).unwrap();
    assert_eq!((again.spam, again.changed.is_some()), (0, false));
    // Messages that the user has corrected stay where they are.
    let all = uids(&target);
    teach(&filter, TrainingKind::Retrain(Class::Ham), Source::Mailbox(&mut target, &all[..1]));
    let moved = filter.move_spam(&mut target, &all, &mut source, &done, tell).unwrap();
    assert!(moved.trusted <= 1 && target.row_of(all[0]).unwrap().is_some());
    assert!(filter.move_spam(&mut source, &left, &mut world.open(), &done, tell).is_err());
}

/// Threads that train and threads that classify wait for turns of the processor and for a file of
/// bogofilter's in the same order.
#[test]
fn teaching_and_asking_never_wait_for_each_other() {
    let kv = barid_kv::registry::SQLITE;
    if kv.version().is_err() {
        return skip_or_fail("the library of SQLite (Debian package libsqlite3-0)");
    }
    let scratch = Scratch::new("turns").unwrap();
    let path = scratch.path().join("wordlist.db");
    let (choice, sharing) = (barid_kv::Choice { kv, builtin: None }, Sharing::Bogofilter);
    let created = Created { date: 0, encoding: Some(2) };
    OnStore::create(Arc::new(OsVfs), &path, choice, sharing, &created).unwrap();
    let filter = Filter::new(Arc::new(OsVfs), path, SpamOptions::default());
    let (done, waited) = std::sync::mpsc::channel();
    // Threads that wait for each other for ever are left behind.
    std::thread::spawn(move || {
        let (asker, turns) = (filter.concurrent(), Mutex::new(()));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let in_turn = |work: &mut dyn FnMut()| {
                    let _turn = turns.lock().unwrap();
                    work();
                };
                for number in 0..20 {
                    let text = format!("Subject: pills {number}\n\nbuy\n");
                    let kind = (TrainingKind::Train(Class::Spam), false);
                    asker.train(text.as_bytes(), kind, &in_turn).unwrap();
                }
            });
            for _ in 0..200 {
                let _turn = turns.lock().unwrap();
                asker.classify(HAM, false).unwrap();
            }
        });
        done.send(()).unwrap();
    });
    waited.recv_timeout(Duration::from_secs(120)).expect("because nobody waits for ever");
}
