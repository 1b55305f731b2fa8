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
  -u, --update-as-scored         register it as its score says
  -M, --classify-mbox            the input is an mbox of many messages
  -b, --classify-stdin           read names of files and folders (Maildir, MH) from the input
  -B, --classify-files NAME...   the same with names as arguments
  -e, --ham-true                 exit with 0 for ham and unsure messages too
  -R, --dataframe                print a table for R
Messages to register:
  -s, --register-spam            they are spam
  -n, --register-ham             they are ham
  -S, --unregister-spam          undo a registration as spam
  -N, --unregister-nonspam       undo a registration as ham
General:
  -c, --config-file FILE         read this configuration file instead of the usual ones
  -C, --no-config-file           read no configuration file
  -d, --bogofilter-dir DIR       the folder of the word list
  -I, --input-file FILE          read FILE, or the messages of a folder, instead of standard input
  -O, --output-file FILE         with -p, write to FILE instead of standard output
  -H, --no-header-tags           do not tag words with the header they are in
  -l, --use-syslog               write the result to the system's log
  -L, --syslog-tag TAG           the same; %l in a log format is TAG
  -y, --timestamp-date DATE      the date of registered words, YYYYMMDD or a number of days ago
Parameters:
  -m MIN_DEV[,ROBS[,ROBX]]       also --min-dev, --robs, --robx
  -o SPAM_CUTOFF[,HAM_CUTOFF]    also --spam-cutoff, --ham-cutoff
Output:
  -v, --verbosity                the result; -vv a histogram, -vvv all words
  -t, --terse                    a short line; -T one with more digits, -TT the score alone
  -q, --quiet                    no statistics
  -U, --report-unsure            statistics of unsure messages
  -D, --debug-to-stdout          write reports to standard output
  -Q, --query                    print all settings; -QQ, -QQQ with more detail
  -V, --version                  print the version
Any setting of a configuration file can be given as --NAME=VALUE: block-on-subnets, charset-default,
ham-cutoff, header-format, log-header-format, log-update-format, max-multi-token-len, max-token-len,
min-dev, min-token-len, multi-token-count, ns-esf, replace-nonascii-characters, robs, robx, sp-esf,
spam-cutoff, spam-header-name, spam-header-place, spam-subject-tag, spamicity-formats,
spamicity-tags, stats-in-header, terse, terse-format, thresh-update, timestamp, token-count,
token-count-max, token-count-min, unicode, unsure-subject-tag, user-config-file, wordlist.
  --quirks=NAME,...              reproduce faults of bogofilter 1.2.5: update-counts, word-counts,
                                 encoding-reset, all, none

The word list is wordlist.db in the folder that -d, a configuration file, $BOGOFILTER_DIR or
$BOGODIR names, else in ~/.bogofilter. An existing file of bogofilter itself (SQLite; Tokyo Cabinet,
also as wordlist.tc; Berkeley DB 5.3: -V lists those usable here) is used in place, and bogofilter
can go on using it. If there is none, a list in barid's format is created.

Examples:
  barid bogofilter -s < spam.mbox          these are spam
  barid bogofilter -n -B ~/Maildir         and these are not
  barid bogofilter -v < message            what is it?
  barid bogofilter -p -u -e < message      as a filter of procmail or maildrop
  ln -s \"$(command -v barid)\" ~/bin/bogofilter

Exit status: 0 spam, 1 ham, 2 unsure, 3 failure; 0 if nothing is scored, and with -e.
";

/// `bogoutil -h`.
pub(crate) const UTIL: &str = "\
Do what bogoutil does: dump, load and maintain bogofilter's word lists

Usage: barid bogoutil [OPTIONS] {-d|-l|-u|-m|-w|-p|-H|-r|-R|--db-verify} FILE [WORD...]
       bogoutil [OPTIONS] ...               (a link to barid of that name)

FILE is a word list of barid or of a bogofilter build that -V lists, or its folder.

  -d, FILE                 print all words with their counts
  -l, FILE                 add the words of such a listing; FILE is created if it does not exist
  -w FILE [WORD...]        print the counts of words, from standard input or arguments
  -p FILE [WORD...]        the same with their probability in spam
  -H FILE                  print a histogram; -v without words seen once, -vv without words of one
                           class
  -r FILE                  print the probability of a word never seen (Robinson's x)
  -R FILE                  the same, and store it in the list
  -u FILE                  convert a list of an old version
  -m FILE                  remove words:
     -a AGE                  last seen on this date (YYYYMMDD) or this many days ago, or earlier
     -c COUNT                with no count above this
     -s MIN,MAX              shorter or longer than this
     -n                      replace bytes beyond ASCII by ?, and add up words that become equal
     --unicode=yes|no        also record the encoding of words
  -y, --timestamp-date DATE  the date of loaded words that have none
  -I, --input-file FILE    read FILE instead of standard input
  -O FILE                  write to FILE instead of standard output
  -v, --verbosity          print the number of words
  -C, -k, -x, -D           accepted
  -V, --version            print the version
  --quirks=encoding-reset  -m without --unicode forgets the encoding of words, as bogoutil 1.2.5

With several of -a, -c and -s, a word is removed only if all of them apply. Options for Berkeley DB
environments (--db-recover and the like) are accepted and do nothing.

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
  -q                       print the number of words
  -H                       do not tag words with the header they are in
  -n                       replace bytes beyond ASCII by ?
  -c FILE, -C              as for bogofilter
  -I, -O FILE              read FILE instead of standard input, write to FILE instead of output
Settings as --NAME=VALUE: block-on-subnets, charset-default, max-multi-token-len, max-token-len,
min-token-len, multi-token-count, replace-nonascii-characters, unicode.

Examples:
  barid bogolexer -p < message

Exit status: 0 success, 3 failure.
";
