//! Input and output that have names but no offsets: pipes, FIFOs, devices.

use std::process::{Child, Command, Stdio};

use super::{DATE, Pair, Side, check_same, mbox, some};

/// A process at the other end of a FIFO.
struct OtherEnd(Child);

impl OtherEnd {
    /// Runs `script` in a shell, with words as `$0` and `$1`.
    fn start(pair: &Pair, script: &str, words: [&str; 2]) -> Self {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).args(words).current_dir(pair.world.path("."));
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }

    fn wait(mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for OtherEnd {
    /// The process would wait forever for a program that does not open the FIFO.
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn make_fifo(pair: &Pair) {
    assert!(Command::new("mkfifo").arg(pair.world.path("fifo")).status().unwrap().success());
}

#[test]
fn devices_are_read_and_written() {
    let Some(pair) = Pair::trained(30) else { return };
    let messages: Vec<Vec<u8>> = some(51, 4).unwrap().into_iter().map(|(_, it)| it).collect();
    let base = ["-C", "-d", "@"];
    for args in [
        &["-v", "-I", "/dev/stdin"][..],
        &["-p", "-I", "/dev/stdin"],
        &["-p", "-O", "/dev/stdout"],
        &["-p", "-u", "-y", DATE, "-I", "/dev/stdin", "-O", "/dev/stdout"],
        &["-p", "-O", "/dev/null"],
        &["-v", "-I", "/dev/null"],
        &["-v", "-B", "/dev/stdin"],
        &["-p", "-B", "/dev/stdin", "/dev/null"],
    ] {
        pair.same(&[&base[..], args].concat(), &messages[0]);
    }
    for args in [
        &["-v", "-M", "-I", "/dev/stdin"][..],
        &["-v", "-M", "-B", "/dev/stdin"],
        &["-n", "-y", DATE, "-I", "/dev/stdin"],
        &["-p", "-M", "-I", "/dev/stdin", "-O", "/dev/stdout"],
    ] {
        pair.same(&[&base[..], args].concat(), &mbox(&messages));
    }
    pair.same_lists("what was registered");
    let file = pair.world.write("message", &messages[1]);
    let settings = b"spam_cutoff=0.7\nheader_format=%h: %c, p=%p\nspamicity_tags=Yes,No,Huh\n";
    let said = pair.same(&["-d", "@", "-c", "/dev/stdin", "-v", "-I", &file], settings);
    assert!(said.stdout.windows(4).any(|it| it == b", p="), "{said:?}");
}

#[test]
fn fifos_are_read_and_written() {
    let Some(pair) = Pair::trained(100) else { return };
    let (_, message) = some(52, 1).unwrap().remove(0);
    pair.world.write("message", &message);
    make_fifo(&pair);
    for args in [&["-v", "-I", "fifo"][..], &["-v", "-B", "fifo"], &["-p", "-M", "-I", "fifo"]] {
        let [theirs, ours] = [Side::Theirs, Side::Ours].map(|side| {
            let writer = OtherEnd::start(&pair, "exec cat \"$0\" > \"$1\"", ["message", "fifo"]);
            let output = pair.run(side, "bogofilter", &[&["-C", "-d", "@"], args].concat(), b"");
            drop(writer);
            output
        });
        assert!(theirs.stdout.windows(10).any(|it| it == b"X-Bogosity"), "{theirs:?}");
        check_same(&theirs, &ours, &format!("{args:?}"));
    }
    let [theirs, ours] = [Side::Theirs, Side::Ours].map(|side| {
        let out = format!("{}/out", side.folder());
        let reader = OtherEnd::start(&pair, "exec cat \"$0\" > \"$1\"", ["fifo", &out]);
        let args = ["-C", "-d", "@", "-p", "-O", "fifo"];
        let output = pair.run(side, "bogofilter", &args, &message);
        assert!(output.status.code().is_some_and(|code| code < 3), "{output:?}");
        reader.wait();
        pair.world.read(&out)
    });
    assert!(theirs == ours && theirs.len() > message.len());
    assert!(pair.world.has("fifo"));
}

/// A partial message is removed from a file; a FIFO and its name stay.
#[test]
fn a_fifo_that_nobody_reads_stays() {
    let Some(pair) = Pair::trained(100) else { return };
    make_fifo(&pair);
    let reader = OtherEnd::start(&pair, "exec 3< \"$0\"", ["fifo", ""]);
    let message = b"word ".repeat(200_000);
    let output =
        pair.run(Side::Ours, "bogofilter", &["-C", "-d", "@", "-p", "-O", "fifo"], &message);
    reader.wait();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(pair.world.has("fifo"));
}

#[test]
fn lists_and_words_go_through_devices() {
    let Some(pair) = Pair::trained(100) else { return };
    let text = b"foo 1 2\nbar 3 4 20200101\n.MSG_COUNT 3 4\n";
    let dev = ["-C", "-I", "/dev/stdin"];
    pair.same_of("bogoutil", &[&dev[..], &["-y", DATE, "-l", "@/new.db"]].concat(), text);
    pair.same_of("bogoutil", &["-C", "-d", "@/new.db", "-O", "/dev/stdout"], b"");
    pair.same_of("bogoutil", &["-C", "-d", "@", "-O", "/dev/stdout"], b"");
    pair.same_of("bogoutil", &["-C", "-O", "/dev/stdout", "-w", "@", "the", "money"], b"");
    let (_, message) = some(53, 1).unwrap().remove(0);
    for args in [&["-p"][..], &["-p", "-O", "/dev/stdout"], &["-q", "-O", "/dev/stdout"]] {
        let printed = pair.same_of("bogolexer", &[&dev[..], args].concat(), &message);
        assert!(!printed.stdout.is_empty());
    }
}

/// bogolexer reads mailboxes and folders like bogofilter.
#[test]
fn words_of_mailboxes() {
    let Some(pair) = Pair::new() else { return };
    let Some(messages) = some(54, 4) else { return };
    let messages: Vec<Vec<u8>> = messages.into_iter().map(|(_, it)| it).collect();
    pair.world.write("mbox", &mbox(&messages));
    for (nth, message) in messages.iter().enumerate() {
        pair.world.write(&format!("md/cur/{nth}"), message);
        pair.world.write(&format!("mh/{nth}"), message);
    }
    pair.world.create_dir("md/new");
    for name in ["mbox", "md", "mh/", "none"] {
        for flag in ["-p", "-q"] {
            pair.same_of("bogolexer", &["-C", flag, "-I", name], b"");
        }
    }
    pair.same_of("bogolexer", &["-C", "-p", "-O", "none/out"], b"a\n");
}
