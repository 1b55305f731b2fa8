//! Confining this process to the descriptors that it has: limits, seccomp and Landlock.
//!
//! A reader of documents computes; it needs memory, its input and its output. So it may allocate,
//! read, write and end. Any other system call fails, whether or not the kernel has Landlock.
//!
//! A program of its own (`pdftotext`) must also be loaded: it may open files for reading below the
//! folders of programs and fonts, where Landlock is there to say so, and nothing for writing. It
//! has no sockets, starts no processes and reaches none. Files of the user can only be hidden by
//! Landlock: without it such a program could read them, but hand them to nobody but the parent, as
//! the text of the attachment.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use barid_vfs::Vfs;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, Scope,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use crate::limits::{HELPER_CPU_SECONDS, HELPER_FILES_MAX, HELPER_MEMORY_MAX};

/// The version of Landlock whose access rights are handled; older kernels handle fewer.
const VERSION: ABI = ABI::V6;

/// Calls of a process that computes. None opens a file, makes a socket, starts a program, or
/// concerns another process.
const ALLOWED: [libc::c_long; 21] = [
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_read,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_write,
];

/// Calls by which a program is loaded and reads files of its own.
const PROGRAM: [libc::c_long; 30] = [
    libc::SYS_clock_nanosleep,
    libc::SYS_execve,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fcntl,
    libc::SYS_fstatfs,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getrusage,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_pread64,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_statfs,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_writev,
];

/// Calls of the same kind on x86-64 that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const PROGRAM_OLD: [libc::c_long; 5] =
    [libc::SYS_access, libc::SYS_arch_prctl, libc::SYS_lstat, libc::SYS_readlink, libc::SYS_stat];
#[cfg(not(target_arch = "x86_64"))]
const PROGRAM_OLD: [libc::c_long; 0] = [];

/// Folders with programs, libraries and fonts, that a program of its own may read.
const READABLE: [&str; 3] = ["/usr", "/etc/fonts", "/var/cache/fontconfig"];
/// The list of libraries, which the loader reads.
const LIBRARIES: &str = "/etc/ld.so.cache";
/// Folders with the loader of programs, which must be executable.
const LOADERS: [&str; 7] =
    ["/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store", "/gnu/store"];

/// Protections of helpers on this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protections {
    /// `true` if system calls are limited by seccomp.
    pub has_seccomp: bool,
    /// `true` if files and sockets are also out of reach by Landlock.
    pub has_landlock: bool,
}

/// Returns the protections that helpers have on this kernel, besides limits of memory, CPU time and
/// file sizes, which they always have.
pub fn protections(vfs: &dyn Vfs) -> Protections {
    let architecture = TargetArch::try_from(std::env::consts::ARCH);
    // A set of rules that is not applied changes nothing.
    let landlock = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(Ruleset::create);
    Protections {
        has_seccomp: architecture.is_ok()
            && vfs.metadata(Path::new("/proc/sys/kernel/seccomp")).is_ok(),
        has_landlock: landlock.is_ok(),
    }
}

/// Confines this process, for ever, to its open descriptors. It must have one thread. It ends with
/// its parent, which has the process id `parent`.
///
/// # Errors
/// Errors of the system, or the parent has ended; then nothing may be read. A kernel without
/// Landlock is not an error.
pub fn confine(parent: Option<u32>) -> io::Result<()> {
    limit(parent)?;
    forbid_files(None)?;
    // A caller may have left descriptors open that are none of ours.
    let own = rule(0, SeccompCmpOp::Le, 2)?;
    allow_calls(BTreeMap::from([(libc::SYS_read, vec![own.clone()]), (libc::SYS_write, vec![own])]))
}

/// Confines this process, for ever, to its open descriptors and to starting one program, which then
/// is confined alike.
///
/// # Errors
/// As [`confine`].
pub fn confine_to_program(program: &Path, parent: Option<u32>) -> io::Result<()> {
    limit(parent)?;
    forbid_files(Some(program))?;
    let mut rules = BTreeMap::new();
    for call in PROGRAM.iter().chain(&PROGRAM_OLD) {
        rules.insert(*call, Vec::new());
    }
    // `fcntl` could choose a process and the signal that a descriptor sends it.
    let harmless = [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_DUPFD_CLOEXEC];
    let harmless =
        harmless.map(|command| rule(1, SeccompCmpOp::Eq, u64::from(command.unsigned_abs())));
    rules.insert(libc::SYS_fcntl, harmless.into_iter().collect::<io::Result<_>>()?);
    let written = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND;
    let reads = SeccompCmpOp::MaskedEq(u64::from(written.unsigned_abs()));
    rules.insert(libc::SYS_openat, vec![rule(2, reads.clone(), 0)?]);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, vec![rule(1, reads, 0)?]);
    // Limits are asked for, not set.
    let asks = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0);
    let asks = asks.and_then(|asks| SeccompRule::new(vec![asks])).map_err(io::Error::other)?;
    rules.insert(libc::SYS_prlimit64, vec![asks]);
    allow_calls(rules)
}

/// Sets the limits, and the end of this process with its parent.
fn limit(parent: Option<u32>) -> io::Result<()> {
    let limits = [
        (Resource::As, HELPER_MEMORY_MAX),
        (Resource::Nofile, HELPER_FILES_MAX),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
    ];
    for (resource, limit) in limits {
        setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?;
    }
    // The first limit sends a signal that says why, the second one kills.
    let cpu = (Some(HELPER_CPU_SECONDS), Some(HELPER_CPU_SECONDS + 1));
    setrlimit(Resource::Cpu, Rlimit { current: cpu.0, maximum: cpu.1 })?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // A parent that ended before sends no signal.
    let now = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get().unsigned_abs());
    if parent.is_some() && parent != now {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Applies Landlock as far as the kernel has it: no files, except those that `program` needs, no
/// TCP, and no signals to processes outside.
fn forbid_files(program: Option<&Path>) -> io::Result<()> {
    let restrict = || -> Result<(), landlock::RulesetError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(VERSION))?
            .handle_access(AccessNet::from_all(VERSION))?
            .scope(Scope::from_all(VERSION))?
            .create()?;
        if let Some(program) = program {
            let (file, execute) = (AccessFs::ReadFile, AccessFs::Execute);
            let below = file | AccessFs::ReadDir;
            let readable = READABLE.map(|path| (Path::new(path), below));
            let loaders = LOADERS.map(|path| (Path::new(path), below | execute));
            let own = [(program, file | execute), (Path::new(LIBRARIES), file.into())];
            for (path, rights) in readable.into_iter().chain(loaders).chain(own) {
                // Nothing can be opened where nothing is.
                let Ok(fd) = PathFd::new(path) else { continue };
                ruleset = ruleset.add_rule(PathBeneath::new(fd, rights))?;
            }
        }
        ruleset.restrict_self().map(drop)
    };
    restrict().map_err(io::Error::other)
}

/// Rules by the number of the call; a call without rules is allowed.
type CallRules = BTreeMap<i64, Vec<SeccompRule>>;

/// Returns a rule about the lower half of an argument of a call.
fn rule(argument: u8, operator: SeccompCmpOp, value: u64) -> io::Result<SeccompRule> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value);
    let rule = condition.and_then(|condition| SeccompRule::new(vec![condition]));
    rule.map_err(io::Error::other)
}

/// Allows only the calls of a process that computes, and `more`; others fail with `EPERM`.
fn allow_calls(more: CallRules) -> io::Result<()> {
    // Without a filter for this architecture there are limits and Landlock; `protections` says so.
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(()) };
    let mut rules = CallRules::new();
    for call in ALLOWED {
        rules.insert(call, Vec::new());
    }
    // Memory, and no new code. A process that aborts sends itself a signal.
    let code = u64::from(libc::PROT_EXEC.unsigned_abs());
    rules.insert(libc::SYS_mmap, vec![rule(2, SeccompCmpOp::MaskedEq(code), 0)?]);
    rules.insert(libc::SYS_mprotect, vec![rule(2, SeccompCmpOp::MaskedEq(code), 0)?]);
    let own = u64::from(std::process::id());
    rules.insert(libc::SYS_tgkill, vec![rule(0, SeccompCmpOp::Eq, own)?]);
    rules.extend(more);
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, arch);
    let program = filter.and_then(BpfProgram::try_from).map_err(io::Error::other)?;
    apply_filter(&program).map_err(io::Error::other)
}
