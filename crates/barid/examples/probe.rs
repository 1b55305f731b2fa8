//! Opens a mailbox and prints what it took: `probe CACHE_DIR STATE_DIR MAILBOX [COMMAND]`.
#![expect(clippy::print_stdout, reason = "it is a program")]

use std::time::Instant;

use barid::{Mailbox, OpenOptions, SortProgram, ThreadAlgorithm, Window};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let options = OpenOptions::new(Some(args[1].clone().into()), args[2].clone().into());
    let start = Instant::now();
    let mailbox = Mailbox::open(&args[3], &options)?;
    println!("open {:?} {:?}", start.elapsed(), mailbox.status());
    for note in mailbox.notes().iter().take(5) {
        println!("{note:?}");
    }
    for key in ["date", "arrival", "subject"] {
        let start = Instant::now();
        let rows = mailbox.sorted(&SortProgram::parse([key])?, Window::Last(5))?;
        println!("sort {key} {:?} {rows:?}", start.elapsed());
    }
    for algorithm in [ThreadAlgorithm::References, ThreadAlgorithm::OrderedSubject] {
        let start = Instant::now();
        let threads = mailbox.threads(algorithm)?;
        println!("{algorithm} {:?} {}", start.elapsed(), threads.len());
    }
    Ok(())
}
