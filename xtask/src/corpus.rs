//! `cargo xtask corpus`: writes generated mail.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use barid_testkit::boxes::{MboxOptions, MboxVariant};
use barid_testkit::corpus::{Corpus, Profile};
use barid_testkit::disk;

use crate::args::Args;

pub(crate) fn run(mut args: Args) -> Result<()> {
    let messages = args.option("--messages")?.unwrap_or(20_000);
    let format = args.option::<String>("--format")?.unwrap_or_else(|| "maildir".into());
    let seed = args.option("--seed")?.unwrap_or(1);
    let profile = if args.switch("--classic") { Profile::Classic } else { Profile::Modern };
    let status = !args.switch("--no-status");
    let crlf = args.switch("--crlf");
    let path: PathBuf = args.word().context("where to? cargo xtask corpus DIR")?.into();
    args.finish()?;
    if disk::exists(&path) {
        bail!("{} exists", path.display());
    }
    let corpus = Corpus::with_profile(seed, messages, profile);
    let start = Instant::now();
    let written = match MboxVariant::from_name(&format) {
        Some(variant) => {
            make_parent(&path)?;
            corpus.write_mbox(&path, MboxOptions { variant, status, crlf })
        }
        None if format == "maildir" => corpus.write_maildir(&path),
        None => bail!("unknown format {format}"),
    };
    let written = written.with_context(|| path.display().to_string())?;
    println!(
        "{}: {} messages, {} bytes in {:.1} s",
        path.display(),
        written.messages,
        written.bytes,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

fn make_parent(path: &Path) -> Result<()> {
    match path.parent() {
        Some(parent) => disk::create_dir_all(parent).context("cannot create the folder"),
        None => Ok(()),
    }
}
