//! `cargo xtask dist`: builds the programs as installed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use barid_testkit::{corpora, disk};

use crate::args::Args;
use crate::shell::cargo;

/// The other names of the program `bogofilter`, which select its other functions.
const OTHER_NAMES: [&str; 2] = ["bogoutil", "bogolexer"];

pub(crate) fn run(mut args: Args) -> Result<()> {
    let folder = args.option("--dir")?;
    let folder: PathBuf = folder.unwrap_or_else(|| corpora::target_folder().join("dist"));
    let profile = if args.switch("--dev") { "dev" } else { "installed" };
    args.finish()?;
    build(profile, &folder)?;
    println!("{}", folder.display());
    Ok(())
}

/// Builds all programs and copies them into a folder.
pub(crate) fn build(profile: &str, folder: &Path) -> Result<()> {
    let with = ["--profile", profile];
    cargo(&[&["build", "-p", "barid-cli", "-p", "barid-bench"], &with[..]].concat(), &[])?;
    // One process runs per message, and the dynamic linker takes a third of its time.
    let statically = ["--", "-C", "target-feature=+crt-static", "-C", "relocation-model=static"];
    let bogofilter = ["rustc", "-p", "barid-bogofilter", "--bin", "bogofilter"];
    cargo(&[&bogofilter, &with[..], &statically].concat(), &[])
        .context("bogofilter is linked statically, which needs libc.a (Debian: libc6-dev)")?;

    let built = corpora::target_folder().join(if profile == "dev" { "debug" } else { profile });
    disk::create_dir_all(folder)?;
    for name in ["barid", "barid-bench", "bogofilter"] {
        let new = folder.join(format!("{name}.new"));
        disk::copy(&built.join(name), &new).with_context(|| new.display().to_string())?;
        disk::rename(&new, &folder.join(name))?;
    }
    for name in OTHER_NAMES {
        disk::link_to(Path::new("bogofilter"), &folder.join(name))?;
    }
    Ok(())
}
