//! Runs the built program on small mailboxes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod added;
mod asked;
mod attachment_search;
mod attachments;
mod bad_input;
mod bogofilter;
mod cache;
mod cache_states;
mod change;
mod check;
mod completion;
mod compose;
mod config;
mod convert;
mod daemon;
mod damaged_state;
mod deliver;
mod demo;
mod export;
mod folders;
mod help;
mod hostile;
mod index;
mod inputs;
mod interrupted;
mod killed;
mod large;
mod links;
mod links_killed;
mod lmtp;
mod ls;
mod mbsync;
mod moving;
mod owners;
mod pending;
mod queries;
mod real_mail;
mod repair_killed;
mod search;
mod serve;
mod serve_attacks;
mod serve_clients;
mod serve_copy;
mod serve_crash;
mod serve_qresync;
mod serve_random;
mod server;
mod server_idle;
mod server_lmtp;
mod server_oauth;
mod server_security;
mod several;
mod show;
mod spam;
mod spam_hostile;
mod spam_trouble;
mod status;
mod stopped;
mod stopped_files;
mod stopped_verbs;
mod stores;
mod support;
mod tagging;
mod terminal;
mod test_server;
mod thread;
mod torn_append;
mod watch;

#[test]
fn no_file_is_forgotten() {
    let runner = include_str!("runner.rs");
    for name in support::sources() {
        assert!(name == "runner" || runner.contains(&format!("mod {name};")), "{name}");
    }
}
