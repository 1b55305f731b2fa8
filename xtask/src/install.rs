//! Debian packages that tests need besides Rust and a C compiler.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use barid_testkit::disk;
use barid_testkit::peers::program;

/// A package and a sign that it is installed: a file, a library (`lib...`) or a program.
const PACKAGES: &[(&str, &str)] = &[
    ("dovecot-imapd", "/usr/lib/dovecot/imap"),
    ("dovecot-fts-xapian", "/usr/lib/dovecot/modules/lib21_fts_xapian_plugin.so"),
    ("uw-mailutils", "mailutil"),
    ("libc-client2007e-dev", "/usr/include/c-client/c-client.h"),
    ("neomutt", "neomutt"),
    ("strace", "strace"),
    ("zstd", "zstd"),
    ("poppler-utils", "pdftotext"),
    ("nmh", "/usr/bin/mh/folder"),
    ("git", "git"),
    ("public-inbox", "public-inbox-init"),
    ("gzip", "gzip"),
    ("bogofilter-bdb", "bogolexer"),
    ("procmail", "procmail"),
    ("maildrop", "maildrop"),
    ("isync", "mbsync"),
    ("notmuch", "notmuch"),
    ("maildir-utils", "mu"),
    ("mairix", "mairix"),
    ("curl", "curl"),
    ("mutt", "mutt"),
    ("offlineimap3", "offlineimap"),
    ("getmail6", "getmail"),
    ("fetchmail", "fetchmail"),
    ("imapfilter", "imapfilter"),
    ("libmail-imapclient-perl", "/usr/share/perl5/Mail/IMAPClient.pm"),
    ("python3", "/usr/bin/python3"),
    ("swaks", "swaks"),
    ("aerc", "aerc"),
    ("alpine", "alpine"),
    ("thunderbird", "thunderbird"),
    ("roundcube-core", "/usr/share/roundcube/index.php"),
    ("roundcube-sqlite3", "/usr/share/doc/roundcube-sqlite3"),
    ("php-cli", "php"),
    ("chromium", "chromium"),
    ("chromium-driver", "chromedriver"),
    ("python3-selenium", "/usr/lib/python3/dist-packages/selenium/__init__.py"),
    ("openssl", "openssl"),
    ("miltertest", "miltertest"),
    ("xfsprogs", "mkfs.xfs"),
    ("libdb5.3", "libdb-5.3.so"),
    ("libdb5.3-dev", "/usr/include/db.h"),
    ("libgdbm6", "libgdbm.so.6"),
    ("libqdbm14", "libqdbm.so.14"),
    ("libkyotocabinet16v5", "libkyotocabinet.so.16"),
    ("libtokyocabinet9", "libtokyocabinet.so.9"),
    ("libtdb1", "libtdb.so.1"),
    ("libsqlite3-0", "libsqlite3.so.0"),
    ("librocksdb7.8", "librocksdb.so.7.8"),
];
/// Folders with libraries; each may have a subfolder for the architecture.
const LIBRARY_FOLDERS: [&str; 3] = ["/usr/lib", "/lib", "/usr/local/lib"];

/// Installs missing packages, as root on Debian; otherwise prints which are missing. Tests then
/// report what they skip, and fail with `CI=true`.
pub(crate) fn packages() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        println!("nothing is missing");
        return Ok(());
    }
    let list = missing.join(" ");
    if program("apt-get").is_none() || !is_root() {
        println!("missing, and tests that need them will be skipped: {list}");
        println!("install them with: sudo apt-get install {list}");
        return Ok(());
    }
    println!("installing {list}");
    // The package lists are updated only if the first attempt fails.
    if !apt_get(&["install"], &missing)? {
        apt_get(&["update"], &[])?;
        if !apt_get(&["install"], &missing)? && std::env::var_os("CI").is_some() {
            bail!("apt-get cannot install {list}");
        }
    }
    Ok(())
}

fn missing() -> Vec<&'static str> {
    let here = |sign: &str| match sign {
        file if file.starts_with('/') => disk::exists(Path::new(file)),
        library if library.starts_with("lib") => has_library(library),
        name => program(name).is_some(),
    };
    PACKAGES.iter().filter(|(_, sign)| !here(sign)).map(|(package, _)| *package).collect()
}

fn has_library(name: &str) -> bool {
    let kind = format!("{}-linux-gnu", std::env::consts::ARCH);
    let mut folders = LIBRARY_FOLDERS.iter().map(Path::new);
    folders.any(|folder| {
        disk::exists(&folder.join(name)) || disk::exists(&folder.join(&kind).join(name))
    })
}

/// Adds the parts of the Rust tool chain that the checks use, if rustup can.
pub(crate) fn components() {
    for (component, sub) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        let found = Command::new("cargo").args([sub, "--version"]).output();
        if !found.is_ok_and(|output| output.status.success()) {
            println!("adding {component}");
            // If this fails, the check that needs the component reports it.
            drop(Command::new("rustup").args(["component", "add", component]).status());
        }
    }
}

fn apt_get(verb: &[&str], packages: &[&str]) -> Result<bool> {
    let mut command = Command::new("apt-get");
    command.arg("-qq").args(verb).args(["-y", "--no-install-recommends"]).args(packages);
    command.env("DEBIAN_FRONTEND", "noninteractive").stdin(std::process::Stdio::null());
    Ok(command.status()?.success())
}

pub(crate) fn is_root() -> bool {
    let status = disk::read_text(Path::new("/proc/self/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    line.and_then(|line| line.split_ascii_whitespace().nth(1)) == Some("0")
}
