//! Bounds of everything that a client, a file or an authorization server can make grow.

use std::time::Duration;

/// Length of a decoded message of a client in bytes; bearer tokens are the longest.
pub const MESSAGE_LEN_MAX: usize = 16 * 1024;
/// Length of a user name in bytes.
pub const USER_NAME_LEN_MAX: usize = 255;
/// Length of a password in bytes; the cost of SHA-crypt grows with it.
pub const PASSWORD_LEN_MAX: usize = 1024;
/// Length of the nonce of a SCRAM client in bytes.
pub const NONCE_LEN_MAX: usize = 256;
/// Number of extensions in a message of SCRAM.
pub const SCRAM_FIELDS_MAX: usize = 16;
/// Number of key-value pairs in a message of OAUTHBEARER or XOAUTH2.
pub const OAUTH_PAIRS_MAX: usize = 16;

/// Size of a passwd-file in bytes.
pub const PASSWD_FILE_SIZE_MAX: u64 = 256 * 1024 * 1024;
/// Length of a line of a passwd-file in bytes.
pub const PASSWD_LINE_LEN_MAX: usize = 16 * 1024;
/// Number of problems of a passwd-file that are reported; the rest is counted.
pub const PROBLEMS_MAX: usize = 100;
/// Number of extra fields of a line of a passwd-file.
pub const EXTRA_FIELDS_MAX: usize = 64;
/// Length of an expanded value, such as a mail location, in bytes.
pub const EXPANDED_LEN_MAX: usize = 8 * 1024;

/// Number of rounds of SHA-crypt, about ten seconds.
pub const SHA_CRYPT_ROUNDS_MAX: u32 = 10_000_000;
/// Cost parameter of bcrypt, about two minutes.
pub const BCRYPT_COST_MAX: u32 = 20;
/// Memory of one yescrypt computation in KiB.
pub const YESCRYPT_MEMORY_KIB_MAX: u32 = 1024 * 1024;
/// Memory of one Argon2 computation in KiB.
pub const ARGON2_MEMORY_KIB_MAX: u32 = 1024 * 1024;
/// Number of passes of Argon2 over its memory.
pub const ARGON2_PASSES_MAX: u32 = 100;
/// Number of lanes of Argon2.
pub const ARGON2_LANES_MAX: u32 = 64;
/// Number of iterations of PBKDF2 and SCRAM.
pub const PBKDF2_ITERATIONS_MAX: u32 = 20_000_000;
/// Length of a salt in bytes.
pub const SALT_LEN_MAX: usize = 256;
/// Length of the hash of an Argon2 computation in bytes.
pub const ARGON2_HASH_LEN_MAX: usize = 128;

/// Number of users whose verified password is remembered.
pub const VERIFIED_USERS_MAX: usize = 10_000;
/// Time for which a verified password is remembered, unless configured otherwise.
pub const VERIFIED_TIME: Duration = Duration::from_secs(3600);

/// Length of a token in bytes.
pub const TOKEN_LEN_MAX: usize = 12 * 1024;
/// Size of an answer of an authorization server in bytes.
pub const HTTP_ANSWER_LEN_MAX: usize = 512 * 1024;
/// Number of keys of a key set.
pub const JWKS_KEYS_MAX: usize = 100;
/// Time for an answer of an authorization server.
pub const HTTP_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after an answer of the issuer in which its key set is not requested again because of
/// unknown keys.
pub const JWKS_RETRY_TIME: Duration = Duration::from_secs(60);
/// Time after a failed request of a key set in which it is not requested again; tokens that need
/// other keys are refused temporarily.
pub const JWKS_FAILURE_TIME: Duration = Duration::from_secs(10);

/// Number of users of a folder that are served with one password.
pub const FOLDER_USERS_MAX: usize = 100_000;
/// Number of groups of supplementary buffers tried for an entry of the system's accounts: 1 KiB
/// doubled so often.
pub const ACCOUNT_BUFFER_DOUBLINGS_MAX: u32 = 10;
/// Number of prompts of a PAM conversation.
pub const PAM_PROMPTS_MAX: usize = 32;
