//! Scripts in the language of imaptest, and what it takes to run them.
//!
//! A script is a header (`capabilities`, `connections`, `user N`, `messages`, `state`,
//! `ignore_extra_untagged`), an empty line, and commands with the responses that they must have:
//!
//! ```text
//! ok fetch 1,2 uid             the command ends with OK
//! * 1 fetch (uid $uid1)        a response that must come; a new variable takes what is there
//! ! 9 fetch ()                 one that must not come
//! ? 2 fetch (uid $)            one that may come
//! select $mailbox              the end of the command follows its responses:
//! ok [read-write]
//! tag1 noop                    commands that are sent at once
//! tag2 noop
//! tag1 ok
//! tag2 ok
//! ```
//!
//! With several connections each line of a command begins with the number of one. Messages for
//! the mailbox and for `append` without a literal are in `NAME.mbox` or `default.mbox`. Literals
//! are between `{{{` and `}}}`; `~{{{` keeps the line ends of the file. `$1` is the place of the
//! message that was the first when the command was sent, `$modseqN` a mod-sequence that rises with
//! N, `${case:text}` text whose case counts, `$` anything. Lists of FETCH, LIST and STATUS are
//! compared without order; `$!ordered`, `$!unordered[=n]`, `$!noextra`, `$!extra`, `$!ignore=e`
//! and `$!ban=e` at the start of a list change that. `!ordered`, `!sleep`, `!output`, `!ifenv` and
//! its kin are those of imaptest. A line of our own, `!continue text`, is sent once the server asks
//! for more.

mod folder;
mod logical;
mod matching;
mod messages;
mod parse;
mod pattern;
mod report;
mod run;
mod session;
mod startup;
mod variables;

pub use folder::{run_folder, script_names};
pub use parse::{Script, ScriptError, ScriptHeader, StartState};
pub use report::{Outcome, Report, ScriptResult};
pub use run::{RunOptions, run_script};
