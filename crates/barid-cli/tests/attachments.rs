//! `barid attachments`.
#![expect(clippy::disallowed_methods, reason = "the program is tested from outside, on real files")]

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use barid_testkit::skip_or_fail;
use barid_testkit::zip::{Entry, archive, of_one};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Run, Running, World, send};

pub(crate) const DOCX: &str =
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
pub(crate) const PDF: &[u8] = b"%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R
/Resources<</Font<</F1 5 0 R>>>>>>endobj
4 0 obj<</Length 46>>stream
BT /F1 24 Tf 72 700 Td (Hello from a PDF) Tj ET
endstream endobj
5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj
trailer<</Root 1 0 R>>
";

/// Returns a message with attachments: type, file name, and bytes.
pub(crate) fn message(attachments: &[(&str, &str, &[u8])]) -> String {
    let mut message =
        "Subject: files\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\nbody\n".to_owned();
    for (media_type, name, bytes) in attachments {
        let lines = BASE64_STANDARD.encode(bytes);
        let lines: Vec<&str> =
            lines.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
        message += &format!(
            "--B\nContent-Type: {media_type}\nContent-Transfer-Encoding: base64\n\
             Content-Disposition: attachment; filename=\"{name}\"\n\n{}\n",
            lines.join("\n")
        );
    }
    message + "--B--\n"
}

pub(crate) fn docx(text: &str) -> Vec<u8> {
    of_one("word/document.xml", &format!("<w:p><w:t>{text}</w:t></w:p>"))
}

fn world() -> (World, String) {
    let world = World::new();
    let document = docx("a plan");
    let first = message(&[
        (DOCX, "plan.docx", &document),
        ("image/png", "photo.png", b"\x89PNG\r\n\x1a\n\0\0"),
        ("text/csv; charset=iso-8859-1", "table.csv", b"caf\xe9,1\n"),
    ]);
    let html = message(&[("text/html", "page.html", b"<td>one</td><td>two &amp; three</td>")]);
    let path = world.maildir("box", &[&first, "Subject: none\n\nbody\n", &html]);
    (world, path)
}

#[test]
fn attachments_are_listed() {
    let (world, path) = world();
    let text = world.ok(&["attachments", &path]);
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!((lines[1][0], lines[1][1], lines[1][5]), ("1", "3", "photo.png"), "{text}");
    let lines = world.json(&["attachments", &path]);
    let keys =
        |line: &Value| json!([line["uid"], line["part"], line["filename"], line["media_type"]]);
    let expected = [
        json!([1, "2", "plan.docx", DOCX]),
        json!([1, "3", "photo.png", "image/png"]),
        json!([1, "4", "table.csv", "text/csv"]),
        json!([3, "2", "page.html", "text/html"]),
    ];
    assert_eq!(lines.iter().map(keys).collect::<Vec<_>>(), expected);
    assert_eq!((&lines[0]["type"], &lines[1]["size"]), (&json!("attachment"), &json!(16)));
    let count = |args: &[&str]| {
        let run = world.run(&[&["attachments", "--json", &path], args].concat());
        (run.code, run.text().lines().count())
    };
    assert_eq!(count(&["3"]), (0, 1));
    assert_eq!(count(&["2"]), (1, 0));
    assert_eq!(count(&["1,3"]), (0, 4));
    assert_eq!(count(&["--type", "image/*"]), (0, 1));
    assert_eq!(count(&["--type", "image/*,text/csv"]), (0, 2));
    assert_eq!(count(&["--name", "*.DOCX", "--name", "page*"]), (0, 2));
    assert_eq!(count(&["--name", "*.docx", "--type", "image/*"]), (1, 0));
    assert_eq!(count(&["subject:files", "--type", "text/*"]), (0, 2));
    assert_eq!(count(&["subject:none"]), (1, 0));
    assert_eq!(count(&["1", "99"]), (0, 3));
    let missing = world.run(&["attachments", &path, "99"]);
    assert!(missing.stderr.contains("no message with UID 99"), "{}", missing.stderr);
    assert_eq!(missing.code, 1);
    let empty = world.maildir("empty", &[]);
    assert_eq!(world.run(&["attachments", &empty]).code, 1);
    assert_eq!(world.run(&["attachments", "none"]).code, 2);
    world.ok(&["--read-only", "attachments", &path]);
}

#[test]
fn attachments_are_saved_and_nothing_is_overwritten() {
    let (world, path) = world();
    assert_eq!(world.ok(&["attachments", &path, "--save", "out/new"]).lines().count(), 4);
    let names = ["page.html", "photo.png", "plan.docx", "table.csv"];
    assert_eq!(world.list("out/new"), names);
    assert_eq!(world.read("out/new/plan.docx"), docx("a plan"));
    assert_eq!(world.read("out/new/table.csv"), b"caf\xe9,1\n");
    world.write("out/new/photo.png", b"mine");
    world.write("out/new/page-2.html", b"mine");
    // A link to a file that does not exist is not followed.
    symlink(world.path("stolen"), world.path("out/new/table-2.csv")).unwrap();
    let lines = world.json(&["attachments", &path, "--save", "out/new"]);
    let saved: Vec<_> = lines.iter().map(|line| line["path"].as_str().unwrap()).collect();
    assert_eq!(
        saved,
        [
            "out/new/plan-2.docx",
            "out/new/photo-2.png",
            "out/new/table-3.csv",
            "out/new/page-3.html"
        ]
    );
    assert_eq!(world.read("out/new/photo.png"), b"mine");
    assert_eq!(lines[1]["bytes"], 10);
    assert!(!world.has("stolen"));
    let run = world.run(&["attachments", &path, "2", "--save", "none"]);
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    let run = world.run(&["attachments", &path, "--save", "box/cur/1600000000.M0.host:2,S"]);
    assert_eq!(run.code, 2);
}

#[test]
fn names_of_senders_do_no_harm() {
    let world = World::new();
    let names = [
        "../../../up",
        "/etc/abs",
        "..",
        ".hidden",
        "-rf",
        "NUL",
        "a\\\\b",
        "=?utf-8?q?a=2F=0A=00=1B=E2=80=AEb?=",
    ];
    let parts: Vec<_> = names.iter().map(|name| ("image/png", *name, &b"x"[..])).collect();
    let same = [("image/png", "same.png", &b"x"[..]); 30];
    let path = world.maildir("box", &[&message(&parts), &message(&same)]);
    world.ok(&["attachments", &path, "1", "--save", "in/out"]);
    let saved = world.list("in/out");
    assert_eq!(saved, ["1-4.png", "_-rf", "_NUL", "abs", "b", "b-2", "hidden", "up"]);
    assert_eq!(world.list("in"), ["out"]);
    world.ok(&["attachments", &path, "2", "--save", "same"]);
    let saved = world.list("same");
    assert_eq!(saved.len(), 30);
    assert!(saved.contains(&"same-30.png".to_owned()), "{saved:?}");
}

#[test]
fn large_messages_are_read_in_pieces() {
    let world = World::new();
    let mut bytes: Vec<u8> = (0..14_u32 << 20).map(|at| (at / 7 % 251) as u8).collect();
    bytes.push(0);
    let zeros = vec![b'x'; 9 << 20];
    let document = docx("in a large message");
    let mail = message(&[
        ("application/octet-stream", "large.bin", &bytes),
        (DOCX, "small.docx", &document),
        ("text/plain", "long.txt", &zeros),
    ]);
    assert!(mail.len() > 30 << 20);
    let path = world.maildir("box", &[&mail]);
    assert_eq!(world.ok(&["attachments", &path]).lines().count(), 3);
    world.ok(&["attachments", &path, "--save", "out"]);
    assert!(world.read("out/large.bin") == bytes && world.read("out/long.txt") == zeros);
    assert_eq!(world.read("out/small.docx"), document);
    let run = world.run(&["attachments", &path, "--text", "--json"]);
    let lines = crate::support::parse_lines(&run.text());
    assert_eq!(lines[0]["failure"], "unsupported");
    assert_eq!(lines[1]["text"], "in a large message\n");
    assert_eq!(
        (lines[2]["text"].as_str().unwrap().len(), &lines[2]["is_cut"]),
        (4 << 20, &json!(true))
    );
    assert_eq!(run.code, 0);
    assert!(run.stderr.contains("the rest is left out"), "{}", run.stderr);
}

#[test]
fn texts_are_printed() {
    let (world, path) = world();
    let expected = "─── UID 1, part 2 (plan.docx) ───\na plan\n\n\
                    ─── UID 1, part 4 (table.csv) ───\ncafé,1\n\n\
                    ─── UID 3, part 2 (page.html) ───\none two & three\n";
    assert_eq!(world.ok(&["attachments", &path, "--text"]), expected);
    let lines = world.json(&["attachments", &path, "--text"]);
    assert_eq!((&lines[0]["text"], &lines[0]["failure"]), (&json!("a plan\n"), &Value::Null));
    assert_eq!((&lines[1]["text"], &lines[1]["failure"]), (&Value::Null, &json!("unsupported")));
    assert_eq!(world.run(&["attachments", &path, "2", "--text"]).code, 1);
}

#[test]
fn failures_are_told_and_the_others_shown() {
    let world = World::new();
    let document = || Entry::deflated("word/document.xml", b"<w:t>x</w:t>");
    let locked = archive(&[document().encrypted()]);
    let bomb = Entry::filled("word/document.xml", b"<w:t>", b"a", 100 << 20, b"</w:t>");
    let bomb = archive(&[bomb.stating(7)]);
    let laughs = of_one("word/document.xml", "<!DOCTYPE x [<!ENTITY a \"&b;\">]><w:t>&a;</w:t>");
    let (good, steering) = (docx("good"), docx("\u{202e}turned"));
    let mail = message(&[
        (DOCX, "locked.docx", &locked),
        (DOCX, "bomb.docx", &bomb),
        (DOCX, "laughs.docx", &laughs),
        (DOCX, "good.docx", &good),
        (DOCX, "\x1b[31m.docx", &steering),
        (DOCX, "torn.docx", &good[..good.len() - 9]),
    ]);
    let path = world.maildir("box", &[&mail]);
    let run = world.run(&["attachments", &path, "--text"]);
    assert_eq!(run.code, 2);
    let text = run.text();
    assert!(text.contains("(good.docx) ───\ngood\n"), "{text}");
    assert!(text.contains("(^[[31m.docx) ───\n<U+202E>turned\n"), "{text}");
    let expected = [
        "error: UID 1, part 2 (locked.docx): encrypted",
        "error: UID 1, part 3 (bomb.docx): a single piece of XML of more than 1 MB",
        "error: UID 1, part 4 (laughs.docx): XML with a document type definition",
        "error: UID 1, part 7 (torn.docx): a damaged or truncated archive",
    ];
    assert_eq!(run.stderr.lines().collect::<Vec<_>>(), expected);
    let run = world.run(&["attachments", &path, "--text", "--json"]);
    let lines = crate::support::parse_lines(&run.text());
    let failures: Vec<_> = lines.iter().map(|line| line["failure"].as_str()).collect();
    let [locked, bomb, laughs] = ["encrypted", "token-too-long", "has-dtd"].map(Some);
    assert_eq!(failures, [locked, bomb, laughs, None, None, Some("bad-archive")]);
}

#[test]
fn pdf() {
    let Some(folder) = folder_of("pdftotext") else {
        skip_or_fail("pdftotext is not installed");
        return;
    };
    let world = World::new();
    let damaged = &b"%PDF-1.4 and nothing else"[..];
    let mail = message(&[
        ("application/octet-stream", "a.bin", PDF),
        ("application/pdf", "b.pdf", damaged),
    ]);
    let path = world.maildir("box", &[&mail]);
    let mut command = world.command();
    let run = Run::of(
        command.env("PATH", folder).args(["attachments", &path, "--text"]).output().unwrap(),
    );
    assert!(run.text().contains("(a.bin) ───\nHello from a PDF\n"), "{}", run.text());
    assert_eq!(run.stderr, "error: UID 1, part 3 (b.pdf): a damaged PDF\n");
    assert_eq!(run.code, 2);
    // Without a reader.
    let run = world.run(&["attachments", &path, "--text"]);
    assert_eq!(run.stderr.matches("no PDF reader installed").count(), 2, "{}", run.stderr);
    assert_eq!(run.stderr.matches("hint: ").count(), 1, "{}", run.stderr);
    assert_eq!((run.code, run.text().as_str()), (2, ""));
}

pub(crate) fn folder_of(program: &str) -> Option<String> {
    let program = barid_testkit::peers::program(program)?;
    Some(program.parent()?.to_str()?.to_owned())
}

/// Compiles a program in place of pdftotext; returns its folder.
fn fake_reader(world: &World, code: &str) -> String {
    let source = world.write("fake/pdftotext.c", code.as_bytes());
    let program = world.path("fake/pdftotext");
    let built = Command::new("cc").arg("-o").arg(&program).arg(source).status().unwrap();
    assert!(built.success());
    world.path("fake").to_str().unwrap().to_owned()
}

const SLEEPING: &str =
    "#include <time.h>\nint main() { for (;;) nanosleep(&(struct timespec){1, 0}, 0); }\n";

pub(crate) fn with_pdfs(count: usize) -> (World, String, String) {
    let world = World::new();
    let folder = fake_reader(&world, SLEEPING);
    let parts = vec![("application/pdf", "a.pdf", PDF); count];
    let path = world.maildir("box", &[&message(&parts)]);
    (world, path, folder)
}

#[test]
fn a_reader_that_hangs_is_killed() {
    let (world, path, folder) = with_pdfs(1);
    let started = Instant::now();
    let mut command = world.command();
    let run = Run::of(
        command.env("PATH", folder).args(["attachments", &path, "--text"]).output().unwrap(),
    );
    assert_eq!(run.stderr, "error: UID 1, part 2 (a.pdf): its reader took longer than 20 s\n");
    assert_eq!(run.code, 2);
    assert!(started.elapsed() < Duration::from_secs(60));
}

/// Returns the processes that a process has started.
pub(crate) fn children(process: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of_task = |task: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default()
    };
    tasks.map(of_task).collect::<String>().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn an_interrupt_ends_readers_too() {
    for (signal, code) in [(Signal::INT, Some(2)), (Signal::KILL, None)] {
        let (world, path, folder) = with_pdfs(3);
        let mut command = world.command();
        command.env("PATH", folder).args(["attachments", &path, "--text"]);
        let mut program = Running::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let mut readers = Vec::new();
        while readers.is_empty() {
            assert!(program.try_wait().unwrap().is_none(), "it ended without a reader");
            std::thread::sleep(Duration::from_millis(2));
            readers = children(program.id());
            let is_reader = |reader: &String| {
                fs::read(format!("/proc/{reader}/cmdline"))
                    .is_ok_and(|line| !line.starts_with(b"/proc"))
            };
            readers.retain(is_reader);
        }
        let sent = Instant::now();
        send(&program, signal);
        let output = program.wait_with_output().unwrap();
        assert_eq!(output.status.code(), code);
        assert!(sent.elapsed() < Duration::from_secs(15), "{:?}", sent.elapsed());
        for reader in readers {
            while fs::metadata(format!("/proc/{reader}")).is_ok() {
                let state = fs::read_to_string(format!("/proc/{reader}/stat")).unwrap_or_default();
                if state.contains(") Z ") {
                    break;
                }
                assert!(sent.elapsed() < Duration::from_secs(15), "{reader} lives on");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

#[test]
fn a_reader_of_pdf_is_confined() {
    let world = World::new();
    let code = "#include <errno.h>\n#include <fcntl.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
        #include <string.h>\n#include <sys/socket.h>\n#include <unistd.h>\n\
        extern char **environ;\n\
        static void is(const char *what, int result) {\n\
        printf(\"%s: %s\\n\", what, result < 0 ? strerror(errno) : \"done\"); }\n\
        int main() {\n\
        is(\"write\", open(\"/tmp/barid-reader\", O_CREAT | O_WRONLY, 0600));\n\
        is(\"append\", open(\"/etc/passwd\", O_WRONLY | O_APPEND));\n\
        is(\"socket\", socket(AF_INET, SOCK_STREAM, 0));\n\
        is(\"fork\", fork());\n\
        is(\"kill\", setpgid(0, 0));\n\
        is(\"descriptors\", dup(63) < 0 && sysconf(_SC_OPEN_MAX) > 64 ? 0 : -1);\n\
        printf(\"environment: %s\\n\", environ[0] ? environ[0] : \"none\");\n\
        return 0; }\n";
    let folder = fake_reader(&world, code);
    let path = world.maildir("box", &[&message(&[("application/pdf", "a.pdf", PDF)])]);
    let mut command = world.command();
    let run = Run::of(
        command.env("PATH", folder).args(["attachments", &path, "--text"]).output().unwrap(),
    );
    let text = run.text();
    for attempt in ["write", "append", "socket", "fork", "kill"] {
        let line = text.lines().find(|line| line.starts_with(attempt)).unwrap();
        assert!(line.ends_with("not permitted") || line.ends_with("denied"), "{text}");
    }
    assert!(text.contains("environment: none\n"), "{text}");
    assert!(!text.contains("descriptors: done"), "{text}");
    assert!(!fs::exists("/tmp/barid-reader").unwrap());
}

#[test]
fn texts_are_remembered() {
    let world = World::new();
    let code = "#include <stdio.h>\n#include <time.h>\nint main() { struct timespec t;\n\
        clock_gettime(CLOCK_MONOTONIC, &t); printf(\"%ld.%09ld\\n\", t.tv_sec, t.tv_nsec); }\n";
    let folder = fake_reader(&world, code);
    let other = [PDF, b"%"].concat();
    let same = message(&[("application/pdf", "a.pdf", PDF), ("application/pdf", "b.pdf", &other)]);
    let again =
        message(&[("application/octet-stream", "c.pdf", PDF), (DOCX, "d.docx", b"PK\x03\x04")]);
    let path = world.maildir("box", &[&same, &again]);
    let texts = |args: &[&str]| {
        let mut command = world.command();
        command.env("PATH", &folder).args(["attachments", &path, "--text", "--json"]).args(args);
        let run = Run::of(command.output().unwrap());
        let lines = crate::support::parse_lines(&run.text());
        lines.iter().map(|line| json!([line["text"], line["failure"]])).collect::<Vec<_>>()
    };
    // The reader answers with the time, so that an answer is known again.
    let first = texts(&["1"]);
    assert_ne!(first[0], first[1]);
    let second = texts(&[]);
    assert_eq!(second[..2], first);
    assert_eq!((&second[2], &second[3]), (&first[0], &json!([null, "bad-archive"])));
    assert_ne!(texts(&["--no-cache", "1"])[0], first[0]);
    assert_eq!(texts(&[]), second);
    // Another reader.
    fake_reader(&world, &format!("{code}/* newer */ char more[4096] = \"x\";\n"));
    let newer = texts(&[]);
    assert_ne!(newer[0], second[0]);
    assert_eq!(newer[3], second[3]);
    assert!(world.has("home/.cache/barid/attachments.texts"));
    world.ok(&["cache", "clear", "--all"]);
    assert!(!world.has("home/.cache/barid/attachments.texts"));
    assert_ne!(texts(&[])[0], newer[0]);
}

#[test]
fn the_helper_alone() {
    let world = World::new();
    let run = world.run_with_input(&["extract-text", "--type", "html"], b"<p>a<p>b");
    assert_eq!((run.code, run.text().as_str(), run.stderr.as_str()), (0, "a\nb\n", ""));
    let run = world.run_with_input(&["extract-text", "--type", "office"], b"PK");
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (70, "bad-archive: a damaged or truncated archive\n")
    );
    let run = world.run_with_input(&["extract-text", "--type", "text"], &vec![b'x'; (4 << 20) + 1]);
    assert_eq!((run.code, run.stdout.len()), (71, 4 << 20));
    let run =
        world.run_with_input(&["extract-text", "--type", "text"], &vec![b'x'; (32 << 20) + 1]);
    assert!(run.code == 70 && run.stderr.starts_with("input-too-long: "), "{}", run.stderr);
    assert_eq!(world.run(&["extract-text"]).code, 2);
    // Standard output is a file, and a helper writes no files.
    let file = fs::File::create(world.path("out")).unwrap();
    let mut command = world.command();
    command.args(["extract-text", "--type", "text"]).stdout(file).stdin(Stdio::piped());
    let mut child = Running::spawn(&mut command);
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"text").unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(70));
    assert_eq!(world.read("out"), b"");
}
