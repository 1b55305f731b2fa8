//! Building the text index of a mailbox that a search had to read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use barid::{IndexAmount, View};

/// Messages that are added to an index at once: by one thread, in about 10 MB of memory, and little
/// is lost if the process ends.
const STEP: IndexAmount = IndexAmount::UpTo { messages: 2048, bytes: 16 << 20 };

/// `true` while an index is built for the sessions of a user: one at a time.
#[derive(Debug, Default)]
pub(crate) struct Indexing(AtomicBool);

impl Indexing {
    /// Begins to build the index of a view, unless one is being built. Nobody waits for it, and
    /// whatever prevents it, the next search reads the messages and begins it again.
    pub(crate) fn begin(self: &Arc<Self>, view: &View) {
        if self.0.swap(true, Ordering::AcqRel) {
            return;
        }
        let (running, view) = (RunningBuild(Arc::clone(self)), view.clone());
        let build = move || {
            let _running = running;
            while view.index_texts(STEP).is_ok_and(|report| report.added > 0) {}
        };
        // A thread that cannot be started drops what marks it as running.
        let _ = std::thread::Builder::new().name("index".to_owned()).spawn(build);
    }
}

/// An index that is being built.
struct RunningBuild(Arc<Indexing>);

impl Drop for RunningBuild {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}
