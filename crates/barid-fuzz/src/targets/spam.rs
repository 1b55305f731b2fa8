//! The spam filter: tokens, word lists, the daemon's frames, scores and parameters.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use barid_bayes::{Distinct, Options, Profile, Tokenizer};
use barid_spam::{Filter, Source, SpamOptions, TrainingKind};
use barid_types::Uid;
use barid_vfs::{MemVfs, OpenOptions, Vfs};
use barid_wordlist::remote::Frame;
use barid_wordlist::{Batch, Class, Counts, Created, Load, Maintain, Native, WordList, check_dump};
use barid_wordlist::{dump, load, maintain};

use super::mailbox::MBOX;
use crate::seeds::messages;
use crate::world::World;

const LIST: &str = "/state/spam/wordlist";
/// Greatest length of the body of a frame.
const BODY_LEN_MAX: usize = 64 << 10;
/// Fewer fields than a frame may have.
const FIELDS_MAX: usize = 90;
/// A day on which tokens are registered.
const DATE: u32 = 20_240_603;

/// A mailbox whose messages have scores, and the list that they come from.
static SCORED: LazyLock<World> = LazyLock::new(|| {
    let world = MBOX.with(&PathBuf::from("/mail/other"), b"");
    let filter = filter(&world);
    let messages = messages();
    for (class, skipped) in [(Class::Spam, 0), (Class::Ham, 1)] {
        let texts: Vec<&[u8]> =
            messages.iter().skip(skipped).step_by(2).map(Vec::as_slice).collect();
        let mut trainer =
            filter.trainer(TrainingKind::Train(class)).expect("because the disk does not fail");
        let trained = trainer.add(Source::Messages(&texts), &mut |_, _| {});
        trained.expect("because the disk does not fail");
        trainer.finish(&mut |_, _| {}).expect("because the disk does not fail");
    }
    let parameters = filter.options().parameters;
    filter.save_parameters(&parameters).expect("because the disk does not fail");
    classify(&world);
    world
});

fn filter(world: &World) -> Filter {
    let options = SpamOptions { threads: 1, ..SpamOptions::new(Profile::Modern) };
    Filter::new(world.vfs(), LIST.into(), options)
}

/// Scores the messages of the mailbox twice: the second time from the stored scores.
fn classify(world: &World) {
    let filter = filter(world);
    let Ok(mut mailbox) = world.open(&world.options()) else { return };
    let uids: Vec<Uid> =
        mailbox.uids().unwrap_or_default().into_iter().filter_map(Uid::new).collect();
    for _ in 0..2 {
        drop(filter.classify_mailbox(&mut mailbox, &uids, false, &mut |_, _| Ok(())));
    }
}

/// Uses the filter with another file of its folder.
fn with_file(text: &str, bytes: &[u8]) {
    let path = SCORED.path(text);
    let world = SCORED.with(&path, bytes);
    drop(filter(&world).saved_parameters());
    classify(&world);
}

pub(crate) fn scores(bytes: &[u8]) {
    with_file("/scores-", bytes);
}

pub(crate) fn parameters(bytes: &[u8]) {
    with_file("wordlist.parameters", bytes);
}

/// Returns the content of a file of the filter.
pub(crate) fn seed(text: &str) -> Vec<u8> {
    super::mailbox::seed(&SCORED, text)
}

/// Tokens of a message, in every profile: the distinct ones are those that were counted.
pub(crate) fn tokens(bytes: &[u8]) {
    for profile in [Profile::Bogofilter, Profile::Modern1, Profile::Modern] {
        let mut tokenizer = Tokenizer::new(Options::new(profile));
        let mut count = 0_usize;
        tokenizer.tokens(bytes, &mut |token| count += usize::from(!token.is_empty()));
        let mut distinct = Distinct::new();
        distinct.read(&mut tokenizer, bytes);
        distinct.sort();
        assert!(distinct.len() <= count);
        assert!(distinct.iter().is_sorted());
    }
}

/// Uses a word list all of whose files but one are as they were.
fn list(name: &str, bytes: &[u8]) {
    let files = list_files();
    let memory = MemVfs::new();
    for (known, content) in files {
        let content = if *known == name { bytes } else { content };
        write(&memory, known, content);
    }
    let vfs: Arc<dyn Vfs> = Arc::new(memory);
    for _ in 0..2 {
        let Ok(mut list) = Native::open(Arc::clone(&vfs), Path::new("/list-v1")) else { return };
        let mut counts = [Counts::default(); 3];
        drop(list.counts(&[b"free", b"money", b"subj:one"], &mut counts));
        drop(list.scan(&mut |token, _| !token.is_empty()));
        drop(list.scan_receipts(&mut |_, _| {}));
        drop(list.receipts(&[1, 2]));
        drop(dump(&mut list, &mut Vec::new(), None));
        let mut batch = Batch::new(DATE);
        drop(batch.change(b"new", Counts { spam: 1, ham: 0 }, Counts::default()));
        drop(list.update(&batch));
        drop(maintain(&mut list, &Maintain::default()));
    }
}

fn write(memory: &MemVfs, name: &str, bytes: &[u8]) {
    let file = memory.open(&Path::new("/").join(name), OpenOptions::create(0o600));
    let written = file.and_then(|file| file.write_all_at(bytes, 0));
    written.expect("because a disk in memory does not fail");
}

type ListFiles = [(&'static str, &'static [u8]); 2];

/// The files of a list of the first version.
fn list_files() -> &'static ListFiles {
    static FILES: ListFiles = [
        ("list-v1", include_bytes!("../../../barid-wordlist/tests/fixtures/list-v1")),
        ("list-v1.log-2", include_bytes!("../../../barid-wordlist/tests/fixtures/list-v1.log-2")),
    ];
    &FILES
}

pub(crate) fn table(bytes: &[u8]) {
    list("list-v1", bytes);
}

pub(crate) fn log(bytes: &[u8]) {
    list("list-v1.log-2", bytes);
}

/// Returns a file of the word list.
pub(crate) fn list_seed(number: usize) -> Vec<Vec<u8>> {
    vec![list_files()[number].1.to_vec()]
}

/// A dump of a word list, as bogoutil writes them; what is loaded is dumped, and loads again.
pub(crate) fn dump_text(bytes: &[u8]) {
    drop(check_dump(&mut &*bytes));
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let how = Load { today: DATE, ..Load::default() };
    let mut dumps = [Vec::new(), Vec::new()];
    let mut input = bytes.to_vec();
    for (number, out) in dumps.iter_mut().enumerate() {
        let path = PathBuf::from(format!("/list{number}"));
        let created =
            Native::create(Arc::clone(&vfs), &path, &Created { date: DATE, encoding: None });
        let mut list = created.expect("because the disk is empty");
        let whole = Load { all_keys: number > 0, ..how };
        if load(&mut list, &mut &*input, &whole).is_err() {
            assert_eq!(number, 0, "a dump of ours must load");
            return;
        }
        dump(&mut list, out, None).expect("because a disk in memory does not fail");
        input.clone_from(out);
    }
    assert_eq!(dumps[0], dumps[1]);
}

/// Requests and answers of the daemon: what is written is read again.
pub(crate) fn frame(bytes: &[u8]) {
    let mut input = bytes;
    while let Ok(Some(frame)) = Frame::read(&mut input, BODY_LEN_MAX) {
        // The length is a field more than were read.
        if frame.fields.len() > FIELDS_MAX {
            continue;
        }
        let mut written = Vec::new();
        frame.write(&mut written).expect("because a vector takes everything");
        let again = Frame::read(&mut written.as_slice(), BODY_LEN_MAX);
        let again = again.ok().flatten();
        let again = again.expect("because a frame of ours can be read");
        assert_eq!((again.verb, again.body), (frame.verb, frame.body));
    }
}

pub(crate) fn frame_seeds() -> Vec<Vec<u8>> {
    let frame = Frame::new("classify").with("Explain", *b"yes").with("x", *b"a%\n\x01b");
    let mut bytes = Vec::new();
    let frame = Frame { body: crate::seeds::SEARCHED.to_vec(), ..frame };
    frame.write(&mut bytes).expect("because a vector takes everything");
    vec![bytes, b"barid-spam/1 counts\r\nLength: 10\r\n\r\nfree\0money\0".to_vec()]
}
