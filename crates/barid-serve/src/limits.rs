//! Bounds of what a server keeps in memory for its clients, and of time.

use std::time::Duration;

/// Bytes of a message that is being received that stay in memory; more go to a file.
pub(crate) const APPEND_MEMORY_LEN: usize = 256 * 1024;
/// Bytes of messages of several sessions that are written in one change.
pub(crate) const APPEND_GROUP_LEN_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of output that are passed on at a time.
pub(crate) const OUTPUT_PIECE_LEN: usize = 128 * 1024;
/// Bytes of output up to which the buffer itself is passed on, not a copy.
pub(crate) const OUTPUT_BUFFER_LEN: usize = 3 * OUTPUT_PIECE_LEN;
/// Pieces of output that wait for a client.
pub(crate) const OUTPUT_PIECES_MAX: usize = 4;
/// Bytes that are read from a client at a time.
pub(crate) const INPUT_LEN: usize = 8 * 1024;
/// Mailboxes of a user that stay open although no session has selected them.
pub(crate) const MAILBOXES_KEPT: usize = 4;
/// Time without a command after which a session ends (RFC 9051 §5.4: at least 30 minutes).
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(31 * 60);
/// Time in which a client must take what is sent to it.
pub(crate) const SLOW_READER_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Period of the lines that keep an idle connection alive.
pub(crate) const IDLE_NOTE_PERIOD: Duration = Duration::from_secs(2 * 60);
/// Time in which a client must log in.
pub(crate) const LOGIN_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that are read at a time before login.
pub(crate) const LOGIN_INPUT_LEN: usize = 1024;
/// Failed logins after which a connection is closed.
pub(crate) const FAILURES_MAX: u32 = 3;
/// Time before a failed login is answered.
pub(crate) const FAILURE_DELAY: Duration = Duration::from_secs(1);
/// Connections at once, logged in or not.
pub(crate) const CONNECTIONS_MAX: usize = 4096;
/// Threads for logins and for opening mail, besides one for each connection.
pub(crate) const LOGIN_THREADS_MAX: usize = 64;
/// Time after which IDLE ends; clients begin it anew at least every 29 minutes (RFC 2177).
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(62 * 60);
/// Length of a message with a literal8, which is encoded in memory, in bytes.
pub(crate) const BINARY_LEN_MAX: u64 = 16 * 1024 * 1024;
/// Bytes of a message that a URL adds to another one.
pub(crate) const CATENATED_LEN_MAX: usize = 16 * 1024 * 1024;
/// Size of the configuration file in bytes.
pub(crate) const CONFIG_SIZE_MAX: u64 = 4 * 1024 * 1024;
/// Problems of a configuration file that are reported.
pub(crate) const CONFIG_PROBLEMS_MAX: usize = 100;
/// Length of a pattern of the configuration in bytes.
pub(crate) const PATTERN_LEN_MAX: usize = 1000;
/// Size of a passwd-file that is checked, in bytes.
pub(crate) const PASSWD_LEN_MAX: u64 = 64 * 1024 * 1024;
/// Size of a file with one secret, in bytes.
pub(crate) const SECRET_LEN_MAX: u64 = 64 * 1024;
/// Size of a file with a certificate and its chain, or a key, in bytes.
pub(crate) const CERTIFICATE_LEN_MAX: u64 = 1024 * 1024;
/// Length of a value in the log in bytes.
pub(crate) const LOG_VALUE_LEN_MAX: usize = 1000;
/// Bytes of each of the two protocol logs of a session.
pub(crate) const RAWLOG_LEN_MAX: u64 = 64 * 1024 * 1024;
/// Length of a line of a client, in bytes, up to which a protocol log can see a login.
pub(crate) const RAWLOG_LINE_LEN_MAX: usize = 4096;
/// Time after which a delivery is ended, unless the configuration has another one. Mail servers
/// wait for 10 minutes after the end of a message (RFC 5321 §4.5.3.2.6).
pub(crate) const DELIVERY_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Bytes of a message that is being delivered that stay in memory; more go to a file.
pub(crate) const DELIVERY_MEMORY_LEN: usize = 256 * 1024;
/// Bytes of a message that is being delivered that are read or written at a time.
pub(crate) const DELIVERY_PIECE_LEN: usize = 64 * 1024;
/// Length of the header of a message that is delivered, in bytes.
pub(crate) const HEADER_LEN_MAX: usize = 16 * 1024 * 1024;
/// Length of a message that the spam filter reads, in bytes.
pub(crate) const SPAM_LEN_MAX: u64 = 16 * 1024 * 1024;
/// Number of header fields that a rule looks at.
pub(crate) const FIELDS_MAX: usize = 10_000;
/// Length of a header field that a rule looks at, in bytes.
pub(crate) const FIELD_LEN_MAX: usize = 64 * 1024;
/// Number of messages of a user that are remembered as delivered.
pub(crate) const DUPLICATES_MAX: usize = 10_000;
/// Size of the file of deliveries in bytes; each step of a delivery is a line of at most 1,200.
pub(crate) const DUPLICATES_FILE_LEN_MAX: u64 = 8 * 1024 * 1024;
/// Time for which a delivery waits for others to the same user.
pub(crate) const DUPLICATES_LOCK_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of messages among which one is looked for whose delivery did not end.
pub(crate) const PENDING_ROWS_MAX: u32 = 100_000;
/// Number of fields of a user in an order to deliver.
pub(crate) const ORDER_FIELDS_MAX: usize = 1000;
/// Connections of LMTP at once.
pub(crate) const LMTP_CONNECTIONS_MAX: usize = 200;
/// Questions about recipients that wait for the auth process.
pub(crate) const LMTP_QUESTIONS_MAX: usize = 1024;
/// Processes that deliver at once.
pub(crate) const DELIVERIES_MAX: usize = 64;
/// Of these, processes that deliver to one user: more than the 20 connections that Postfix makes to
/// one destination.
pub(crate) const USER_DELIVERIES_MAX: usize = 24;
/// Bytes of the report of a process that delivers.
pub(crate) const DELIVERY_RESULT_LEN_MAX: u64 = 64 * 1024;
/// Distinct warnings of processes that deliver; more are not logged.
pub(crate) const DELIVERY_WARNINGS_MAX: usize = 16;
/// Time in which a recipient is looked up.
pub(crate) const LOOKUP_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that are read from a mail server at a time.
pub(crate) const LMTP_INPUT_LEN: usize = 64 * 1024;
/// Time without a command after which a connection of LMTP ends (RFC 5321 §4.5.3.2.7: 5 minutes).
pub(crate) const LMTP_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Period of the lines about the progress of a command (RFC 9585 §3).
pub(crate) const PROGRESS_PERIOD: Duration = Duration::from_secs(10);
/// Mailboxes that a session follows (RFC 5465); each is open.
pub(crate) const FOLLOWED_MAX: usize = 500;
/// Period in which the names of mailboxes are looked at for changes of other programs.
pub(crate) const NAMES_PERIOD: Duration = Duration::from_secs(5);
/// Renames that are remembered for sessions that have not announced them yet.
pub(crate) const RENAMES_MAX: usize = 100;
/// Time after which the use of a quota is counted again while other sessions store messages.
pub(crate) const QUOTA_WAIT: Duration = Duration::from_millis(200);

/// Bytes of a message between the processes of a server.
pub(crate) const LINK_MESSAGE_LEN_MAX: usize = 64 * 1024;
/// Messages that wait for a process that does not read them.
pub(crate) const LINK_BACKLOG_MAX: usize = 16 * 1024;
/// Bytes of the certificates of authorities that are trusted.
pub(crate) const AUTHORITIES_LEN_MAX: u64 = 8 * 1024 * 1024;
/// Bytes of the header of an answer of the issuer of tokens.
pub(crate) const HTTP_HEAD_LEN_MAX: usize = 16 * 1024;
/// Exchanges that wait for their clients.
pub(crate) const EXCHANGES_MAX: usize = 4096;
/// Messages of clients that wait for a thread of the auth process.
pub(crate) const LOGIN_JOBS_MAX: usize = 1024;
/// Part of the connections that may be before login: one in so many, and at least as many.
pub(crate) const BEFORE_LOGIN_PART: usize = 8;
/// Threads that wait for PAM, or compute hashes.
pub(crate) const LOGIN_THREADS: usize = 16;
/// Tokens that are checked at once. Each may wait for its issuer; the other threads stay free for
/// passwords.
pub(crate) const TOKEN_CHECKS_MAX: usize = 8;
/// Bytes of the message with which a session is passed on, in which the input that a client has
/// sent ahead is text.
pub(crate) const PRELUDE_LEN_MAX: usize = 128 * 1024;
/// Bytes behind UNAUTHENTICATE that a client sends ahead.
pub(crate) const GIVEN_BACK_LEN_MAX: u64 = 64 * 1024;
/// Time in which the front begins a session with its first bytes.
pub(crate) const PRELUDE_TIMEOUT: Duration = Duration::from_secs(30);
/// Links that are followed on the way to a folder of a user, as many as the kernel follows.
pub(crate) const FOLDER_LINKS_MAX: usize = 40;
/// Threads of a worker that wait for the disk.
pub(crate) const WORKER_THREADS_MAX: usize = 512;
/// Stack of a thread of a worker in bytes; only what is used takes memory.
pub(crate) const WORKER_STACK_LEN: usize = 2 * 1024 * 1024;
/// Bytes that are relayed at a time, and kept at most for a client that does not read.
pub(crate) const RELAY_LEN: usize = 16 * 1024;
/// Time without an answer of the client's machine after which its connection is dead.
pub(crate) const DEAD_PEER_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Time without traffic after which the client's machine is asked whether it is there.
pub(crate) const KEEPALIVE_IDLE: Duration = Duration::from_secs(5 * 60);
/// Time between such questions.
pub(crate) const KEEPALIVE_PERIOD: Duration = Duration::from_secs(60);
/// Time in which the auth process and the supervisor must answer the front.
pub(crate) const VERDICT_TIMEOUT: Duration = Duration::from_secs(60);
/// Time that a process has to end before it is killed.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// Time that a worker whose supervisor has died has to end its sessions.
pub(crate) const ORPHAN_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which a supervisor that starts waits for an address that the processes of a killed one
/// still have.
pub(crate) const BIND_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest time before a process that has died is started again, unless the configuration has
/// another one.
pub(crate) const RESTART_DELAY_MAX: Duration = Duration::from_secs(10);
/// Time after which a process that has died is started again, if it had died before.
pub(crate) const RESTART_DELAY: Duration = Duration::from_millis(250);
/// Age at which the death of a process is forgotten.
pub(crate) const RESTART_FORGET: Duration = Duration::from_secs(60);
/// Lines of the log that `barid admin log` shows.
pub(crate) const LOG_LINES_MAX: usize = 1000;
/// Lines of standard error that a process can have in the log.
pub(crate) const STDERR_LINES_MAX: usize = 500;
/// Workers of a uid with an inotify instance of their own; further ones share the watcher of the
/// uid. The kernel gives a uid 128 instances, which other programs of the user need, too.
pub(crate) const OWN_WATCHES_MAX: usize = 8;
/// Files and folders that a worker can watch by the watcher of its uid.
pub(crate) const WATCHES_MAX: usize = 16 * 1024;
/// Events in one message of a watcher; a number has at most 11 bytes.
pub(crate) const WATCH_ANSWER_LEN: usize = 4096;
/// Time after which a watcher sends events again to a worker that did not take them.
pub(crate) const WATCH_RETRY: Duration = Duration::from_millis(50);
/// Answers of a watcher that a worker has not taken. Workers wait for each.
pub(crate) const WATCH_ANSWERS_MAX: usize = 16;
/// Shortest time between two links to a watcher that a worker gets on request.
pub(crate) const WATCHER_LINK_PERIOD: Duration = Duration::from_secs(1);
/// Time in which a watcher must answer a worker, which asks for another link then.
pub(crate) const WATCH_ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of a request to the control socket.
pub(crate) const CONTROL_LINE_LEN_MAX: usize = 16 * 1024;
/// Connections to the control socket at once.
pub(crate) const CONTROL_CONNECTIONS_MAX: usize = 32;
/// Children that ask PAM at once.
pub(crate) const PAM_CHILDREN_MAX: usize = 32;
/// Bytes of a request for metrics.
pub(crate) const HTTP_REQUEST_LEN_MAX: usize = 8 * 1024;
/// Requests for metrics at once.
pub(crate) const HTTP_CONNECTIONS_MAX: usize = 32;
/// Descriptors of the front besides those of connections and sessions: links, listeners, requests
/// for metrics, and those of its runtime.
pub(crate) const FRONT_DESCRIPTORS: u64 = 64;
/// Time after which the front asks again for a socket for which it had no descriptor.
pub(crate) const LOST_SOCKET_DELAY: Duration = Duration::from_secs(1);
/// Time for a request for metrics.
pub(crate) const HTTP_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which an exchange of a login is dropped when there are too many.
pub(crate) const EXCHANGE_TIME_MAX: Duration = Duration::from_secs(120);
