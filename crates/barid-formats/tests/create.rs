//! Creation of mailboxes: they have the requested format and UIDVALIDITY, and are empty.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use barid_formats::{CreateOptions, FormatName, MailboxSpec, create, open};
use barid_mailbox::{
    EmptyKnown, Error, ScanContext, ScanReport, ScanSink, ScannedMessage, SinkError, Sinks,
};
use barid_state::{Access, Identity, Ledger};
use barid_types::UidValidity;
use barid_vfs::{CrashVfs, MemVfs, OpenOptions, Vfs};

/// Sinks for a mailbox without messages.
struct NoSinks;

impl Sinks for NoSinks {
    fn sink(&self, _chunk: u32) -> Box<dyn ScanSink + '_> {
        Box::new(Self)
    }
}

impl ScanSink for NoSinks {
    fn message(&mut self, message: &ScannedMessage<'_>) -> Result<(), SinkError> {
        panic!("{message:?}")
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        Ok(())
    }
}

fn scan(vfs: &Arc<dyn Vfs>, path: &Path, format: FormatName) -> ScanReport {
    let spec = MailboxSpec { format: Some(format), path: path.to_owned() };
    let mailbox = open(Arc::clone(vfs), &spec).unwrap();
    let identity = Identity::of(&**vfs, path, true).unwrap();
    let access = Access::ReadWrite;
    let mut ledger = Ledger::open(Arc::clone(vfs), Path::new("/state"), &identity, access).unwrap();
    let mut context = ScanContext {
        ledger: &mut ledger,
        read_only: false,
        full_check: false,
        will_rescan: false,
        threads: 1,
        progress: None,
    };
    mailbox.scan(&EmptyKnown::default(), &NoSinks, &mut context).unwrap()
}

fn is_there(result: Result<(), Error>) -> bool {
    match result {
        Err(Error::Io { source, .. }) => source.kind() == ErrorKind::AlreadyExists,
        _ => false,
    }
}

#[test]
fn a_new_mailbox_is_empty() {
    let uidvalidity = UidValidity::new(12_345);
    for format in FormatName::all() {
        for uidvalidity in [None, uidvalidity] {
            let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
            let path = Path::new("/mail");
            let options = CreateOptions { uidvalidity, uidnext: None, mode: 0o640 };
            create(&vfs, path, format.format(), &options).unwrap();
            let mode = vfs.metadata(path).unwrap().mode & 0o777;
            assert_eq!(mode, if format.format().is_folder() { 0o750 } else { 0o640 }, "{format:?}");
            let report = scan(&vfs, path, format);
            assert!(report.defects.is_empty(), "{format:?}: {:?}", report.defects);
            assert_eq!(report.uidnext.get(), 1);
            if let Some(uidvalidity) = uidvalidity.filter(|_| format.format().holds_uidvalidity) {
                assert_eq!(report.uidvalidity, uidvalidity, "{format:?}");
            }
            for other in FormatName::all() {
                assert!(is_there(create(&vfs, path, other.format(), &options)), "{other:?}");
            }
        }
    }
}

#[test]
fn what_is_there_stays() {
    for format in FormatName::all() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let path = Path::new("/mail");
        vfs.create_dir(path, 0o700).unwrap();
        let options = CreateOptions::default();
        let made = create(&vfs, path, format.format(), &options);
        assert_eq!(made.is_ok(), format.format().is_folder(), "{format:?}");
    }
    for (format, name) in [("mh", "7"), ("mix", ".mixindex")] {
        let format = FormatName::named(format).unwrap().format();
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        vfs.create_dir(Path::new("/mail"), 0o700).unwrap();
        let file = Path::new("/mail").join(name);
        let file = vfs.open(&file, OpenOptions::create_new(0o600)).unwrap();
        file.write_all_at(b"Subject: x\n\n", 0).unwrap();
        let made = create(&vfs, Path::new("/mail"), format, &CreateOptions::default());
        assert!(is_there(made), "{format:?}");
    }
}

#[test]
fn after_a_crash_it_is_there_or_can_be_made() {
    for format in FormatName::all() {
        let crash = CrashVfs::new(&MemVfs::new());
        let options =
            CreateOptions { uidvalidity: UidValidity::new(12_345), ..CreateOptions::default() };
        let path = Path::new("/mail");
        let make = |vfs: &Arc<dyn Vfs>| create(vfs, path, format.format(), &options);
        make(&(Arc::new(crash.vfs()) as Arc<dyn Vfs>)).unwrap();
        let done = crash.points();
        assert!(done >= 2, "{format:?}: only {done} crash points");
        for point in 0..=done {
            for seed in 0..16 {
                let vfs: Arc<dyn Vfs> = Arc::new(crash.crash_at(point, seed));
                let at = format!("{format:?}, crash point {point} of {done}, seed {seed}");
                match make(&vfs) {
                    Ok(()) => assert_ne!(point, done, "{at}: it is gone"),
                    again => assert!(is_there(again), "{at}"),
                }
                let report = scan(&vfs, path, format);
                let is_it =
                    !format.format().holds_uidvalidity || report.uidvalidity.get() == 12_345;
                assert!(is_it && report.defects.is_empty(), "{at}: {report:?}");
            }
        }
    }
}
