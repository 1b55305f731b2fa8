//! `cargo xtask test`: every check and every test.

use anyhow::Result;
use barid_testkit::corpora;

use crate::args::Args;
use crate::shell::{cargo, step};
use crate::{dist, install, tidy};

pub(crate) fn run(mut args: Args) -> Result<()> {
    let no_install = args.switch("--no-install");
    args.finish()?;
    if !no_install {
        step("install", || {
            install::components();
            install::packages()
        })?;
    }
    step("fmt", || cargo(&["fmt", "--all", "--check"], &[]))?;
    step("tidy", tidy::check)?;
    let features = install::features();
    let with = |before: &[&'static str], after: &[&'static str]| {
        [before, &["--workspace"], features, after].concat()
    };
    step("clippy", || {
        cargo(&with(&["clippy", "-q"], &["--all-targets", "--", "-D", "warnings"]), &[])
    })?;
    step("doc", || {
        cargo(&with(&["doc", "-q"], &["--no-deps"]), &[("RUSTDOCFLAGS", "-D warnings")])
    })?;
    let dist = corpora::target_folder().join("dist-dev");
    step("dist", || dist::build("dev", &dist))?;
    // Last, so that the output ends with what the tests say.
    cargo(&with(&["test"], &["--no-fail-fast"]), &[("BARID_DIST", &dist.to_string_lossy())])
}
