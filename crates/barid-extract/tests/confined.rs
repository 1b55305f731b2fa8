//! Attempts of a confined process at everything that its confinement forbids.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use barid_extract::{confine, confine_to_program, protections};
use barid_testkit::child::{Child, ChildEvent, print_line};
use barid_vfs::{OpenOptions, OsVfs, Vfs as _};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};

const WAIT: Duration = Duration::from_secs(60);

/// Reports the result of an attempt.
fn report<T>(what: &str, result: std::io::Result<T>) {
    let result = result.map_or_else(|error| format!("{:?}", error.kind()), |_| "done".to_owned());
    print_line(&format!("{what}: {result}"));
}

fn attempts(parent: Pid) {
    let open = |path: &str, flags| {
        rustix::fs::open(path, flags, Mode::from_raw_mode(0o600)).map_err(Into::into)
    };
    report("read a file", open("/etc/passwd", OFlags::RDONLY));
    report("read itself", open("/proc/self/mem", OFlags::RDONLY));
    report("list a folder", open("/", OFlags::DIRECTORY));
    report("write a file", open("/tmp/barid-confined", OFlags::CREATE | OFlags::WRONLY));
    report("change a file", open("/dev/null", OFlags::RDWR));
    report("remove a file", OsVfs.remove_file(Path::new("/tmp/barid-confined")));
    report("TCP", TcpStream::connect("127.0.0.1:9"));
    report("UDP", UdpSocket::bind("127.0.0.1:0"));
    report("a socket of a path", UnixStream::connect("/run/none"));
    report("a program", Command::new("/bin/true").status());
    let signal = kill_process(parent, Signal::WINCH);
    report("a signal", signal.map_err(Into::into));
    let more = Rlimit { current: Some(1 << 40), maximum: Some(1 << 40) };
    let raised = setrlimit(Resource::As, more);
    report("more memory", raised.map_err(Into::into));
}

/// Tries in a confined process what only an attacker would.
pub(crate) fn try_everything(_: &[&str]) {
    let parent = rustix::process::getppid().unwrap();
    confine(Some(parent.as_raw_nonzero().get().unsigned_abs())).unwrap();
    attempts(parent);
    // What a reader needs goes on.
    let text = vec![b'x'; 64 << 20];
    print_line(&format!("memory: {}", text.len() >> 20));
    std::io::stdout().write_all(b"\n").unwrap();
    std::process::exit(7);
}

/// Tries the same as a program that was loaded, except for reading.
pub(crate) fn try_program(_: &[&str]) {
    let parent = rustix::process::getppid().unwrap();
    confine_to_program(Path::new("/bin/true"), None).unwrap();
    let library = OsVfs.open(Path::new("/etc/ld.so.cache"), OpenOptions::READ);
    report("read a library", library);
    attempts(parent);
    std::process::exit(7);
}

/// Allocates more than a helper may have.
pub(crate) fn allocate(_: &[&str]) {
    assert!(confine(Some(1)).is_err(), "another parent");
    confine(None).unwrap();
    let mut all = Vec::new();
    loop {
        all.push(vec![1_u8; 16 << 20]);
        let mut input = std::io::stdin();
        let _ = input.read(&mut [0; 1]);
    }
}

/// Runs a job; returns its lines, and its exit status.
fn lines_of(job: &str) -> (Vec<String>, Option<i32>) {
    let mut child = Child::spawn(job, &[]);
    let mut lines = Vec::new();
    loop {
        match child.next(WAIT) {
            ChildEvent::Line(line) => lines.push(line),
            ChildEvent::Ended(status) => return (lines, status.code()),
            ChildEvent::Hangs => panic!("hangs after {lines:?}"),
        }
    }
}

#[test]
fn a_reader_has_its_descriptors_and_nothing_else() {
    assert!(protections(&OsVfs).has_seccomp, "this kernel has seccomp");
    let (lines, code) = lines_of("confined");
    assert_eq!((lines.len(), code), (13, Some(7)), "{lines:?}");
    for line in &lines[..12] {
        assert!(line.ends_with(&format!(": {:?}", ErrorKind::PermissionDenied)), "{line}");
    }
    assert_eq!(lines[12], "memory: 64");
}

#[test]
fn a_program_reads_its_libraries_and_nothing_else() {
    let (lines, code) = lines_of("confined to a program");
    assert_eq!((lines.len(), code), (13, Some(7)), "{lines:?}");
    assert_eq!(lines[0], "read a library: done");
    for line in &lines[1..] {
        // Only Landlock tells files for reading apart.
        let reads = ["read a file", "read itself", "list a folder"];
        let is_open =
            reads.iter().any(|read| line.starts_with(read)) && !protections(&OsVfs).has_landlock;
        assert!(is_open || !line.ends_with(": done"), "{line}");
    }
}

#[test]
fn memory_is_bounded() {
    let (lines, code) = lines_of("allocates");
    // The allocator aborts.
    assert_eq!((lines.len(), code), (0, None));
}
