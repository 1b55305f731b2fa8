//! The help and version texts of the programs.

use barid_wordlist::{Build, builds};

/// Returns the version text: the emulated version of bogofilter, the version of barid, and the list
/// formats that are usable here or the reason why they are not.
pub(crate) fn version(name: &str) -> String {
    let mut text =
        format!("{name} version 1.2.5\n    Database: barid {}", env!("CARGO_PKG_VERSION"));
    let builds = builds();
    for Build { name, version, .. } in &builds {
        if let Ok(version) = version {
            text += &format!(", bogofilter's {name} {version}");
        }
    }
    text.push('\n');
    for Build { name, version, .. } in &builds {
        if let Err(why) = version {
            text += &format!("    No lists of bogofilter's {name}: {why}\n");
        }
    }
    text
}

/// `bogofilter -h`.
pub(crate) const FILTER: &str = "\
Do what bogofilter does: score, register and pass through messages

Usage: barid bogofilter [OPTIONS] < MESSAGE
       bogofilter [OPTIONS] < MESSAGE       (a link to barid of that name)

Messages to score:
  -p, --passthrough              write the message out with the result in its header
  -u, --update-as-scored         register it as what it is found to be
  -M, --classify-mbox            the input is an mbox of many messages
  -b, --classify-stdin           read names of files and folders (Maildir, MH) from the input
  -B, --classify-files NAME...   the same with names as arguments
  -e, --ham-true                 end with 0 for ham and unsure messages too
  -R, --dataframe                print a table for R
Messages to register:
  -s, --register-spam            they are spam
  -n, --register-ham             they are no spam
  -S, --unregister-spam          they were registered as spam, and are not to be
  -N, --unregister-nonspam       they were registered as no spam, and are not to be
General:
  -c, --config-file FILE         read this file in place of the usual ones
  -C, --no-config-file           read none
  -d, --bogofilter-dir DIR       the folder of the word list
  -I, --input-file FILE          read FILE, or the messages of a folder, in place of the input
  -O, --output-file FILE         with -p, write FILE in place of the output
  -H, --no-header-tags           words of headers are words like others
  -l, --use-syslog               write the result to the system's log
  -L, --syslog-tag TAG           the same; %l in a log format is TAG
  -y, --timestamp-date DATE      the date of what is registered, YYYYMMDD or so many days ago
Parameters:
  -m MIN_DEV[,ROBS[,ROBX]]       also --min-dev, --robs, --robx
  -o SPAM_CUTOFF[,HAM_CUTOFF]    also --spam-cutoff, --ham-cutoff
What is said:
  -v, --verbosity                the result; -vv a histogram, -vvv all words
  -t, --terse                    a short line; -T one with more digits, -TT the score alone
  -q, --quiet                    no statistics
  -U, --report-unsure            statistics of messages that are unsure
  -D, --debug-to-stdout          write reports to the output
  -Q, --query                    print how all is set; -QQ, -QQQ more of it
  -V, --version                  print the version
Any setting of a configuration file can be given as --NAME=VALUE: block-on-subnets, charset-default,
ham-cutoff, header-format, log-header-format, log-update-format, max-multi-token-len, max-token-len,
min-dev, min-token-len, multi-token-count, ns-esf, replace-nonascii-characters, robs, robx, sp-esf,
spam-cutoff, spam-header-name, spam-header-place, spam-subject-tag, spamicity-formats,
spamicity-tags, stats-in-header, terse, terse-format, thresh-update, timestamp, token-count,
token-count-max, token-count-min, unicode, unsure-subject-tag, user-config-file, wordlist.
  --quirks=NAME,...              be wrong where bogofilter 1.2.5 is: update-counts, word-counts,
                                 encoding-reset, all, none

The word list is wordlist.db in the folder that -d, a configuration file, $BOGOFILTER_DIR or
$BOGODIR names, else in ~/.bogofilter. A file of bogofilter itself (SQLite; Tokyo Cabinet, also as
wordlist.tc; Berkeley DB 5.3: -V tells which can be) is used as it is, beside bogofilter. Where
there is none, barid's own is made.

Examples:
  barid bogofilter -s < spam.mbox          these are spam
  barid bogofilter -n -B ~/Maildir         and these are not
  barid bogofilter -v < message            what is it?
  barid bogofilter -p -u -e < message      as a filter of procmail or maildrop
  ln -s \"$(command -v barid)\" ~/bin/bogofilter

Exit status: 0 spam, 1 ham, 2 unsure, 3 failure; 0 where nothing is scored, and with -e.
";

/// `bogoutil -h`.
pub(crate) const UTIL: &str = "\
Do what bogoutil does: dump, load and tend bogofilter's word lists

Usage: barid bogoutil [OPTIONS] {-d|-l|-u|-m|-w|-p|-H|-r|-R|--db-verify} FILE [WORD...]
       bogoutil [OPTIONS] ...               (a link to barid of that name)

FILE is a word list of barid's or of bogofilter's builds that -V tells, or its folder.

  -d, FILE                 print all words with their counts
  -l, FILE                 add what such a text says; FILE is made if it is not there
  -w FILE [WORD...]        print the counts of words, of the input or of arguments
  -p FILE [WORD...]        the same with how likely they are in spam
  -H FILE                  print a histogram; -v without words seen once, -vv without words of one
                           class
  -r FILE                  print what a word never seen should say (Robinson's x)
  -R FILE                  the same, and keep it in the list
  -u FILE                  bring a list of an old version up to date
  -m FILE                  take away words:
     -a AGE                  last seen on this date (YYYYMMDD) or so many days ago, or before
     -c COUNT                counted no more often than this
     -s MIN,MAX              shorter or longer than this
     -n                      write ? for what is not ASCII, and add up what is the same then
     --unicode=yes|no        also say what words are written in
  -y, --timestamp-date DATE  the date of what is loaded without one
  -I, --input-file FILE    read FILE in place of the input
  -O FILE                  write FILE in place of the output
  -v, --verbosity          say how many words there were
  -C, -k, -x, -D           accepted
  -V, --version            print the version
  --quirks=encoding-reset  -m without --unicode forgets what words are written in, as bogoutil 1.2.5

With several of -a, -c and -s a word goes if all of them say so. Options of Berkeley DB's
environments (--db-recover and the like) have nothing to do here, and end well.

Examples:
  barid bogoutil -d ~/.bogofilter > words.txt
  barid bogoutil -l new.db < words.txt
  barid bogoutil -a 90 -c 1 -m ~/.bogofilter
  barid bogoutil -w ~/.bogofilter .MSG_COUNT viagra

Exit status: 0 success, 3 failure.
";

/// `bogolexer -h`.
pub(crate) const LEXER: &str = "\
Do what bogolexer does: print the words of messages

Usage: barid bogolexer -p [OPTIONS] < MESSAGE
       bogolexer -p [OPTIONS] < MESSAGE     (a link to barid of that name)

  -p                       print the words, one a line, in their order
  -q                       print how many there are
  -H                       words of headers are words like others
  -n                       write ? for what is not ASCII
  -c FILE, -C              as bogofilter
  -I, -O FILE              read or write FILE in place of input and output
Settings as --NAME=VALUE: block-on-subnets, charset-default, max-multi-token-len, max-token-len,
min-token-len, multi-token-count, replace-nonascii-characters, unicode.

Examples:
  barid bogolexer -p < message

Exit status: 0 success, 3 failure.
";
