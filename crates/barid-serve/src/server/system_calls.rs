//! The system calls of the processes that read what others send, by seccomp.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};

/// Calls that a process with sockets, memory and threads of its own needs. None opens a file, makes
/// a socket to elsewhere, starts a program, or concerns another process.
const ALLOWED: [libc::c_long; 49] = [
    libc::SYS_accept4,
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    // Refused below, so that the C library uses `clone`, whose arguments can be looked at.
    libc::SYS_clone3,
    libc::SYS_close,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getpeername,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_prctl,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_sigaltstack,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Calls of the C library on x86-64 that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const ALLOWED_OLD: [libc::c_long; 2] = [libc::SYS_epoll_wait, libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLD: [libc::c_long; 0] = [];

/// Calls on files that a worker needs besides: it opens, reads, writes, renames and watches those
/// that Landlock lets it. None makes a socket to elsewhere, starts a program, mounts, or concerns
/// another process.
const FILES: [libc::c_long; 71] = [
    libc::SYS_chdir,
    libc::SYS_close_range,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fdatasync,
    libc::SYS_fgetxattr,
    libc::SYS_flistxattr,
    libc::SYS_flock,
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getppid,
    libc::SYS_getrusage,
    libc::SYS_getuid,
    libc::SYS_getxattr,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_rm_watch,
    libc::SYS_lgetxattr,
    libc::SYS_linkat,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_lremovexattr,
    libc::SYS_lseek,
    libc::SYS_lsetxattr,
    libc::SYS_mkdirat,
    libc::SYS_mincore,
    libc::SYS_msync,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_pipe2,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_readahead,
    libc::SYS_readlinkat,
    libc::SYS_removexattr,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_sendfile,
    libc::SYS_setxattr,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_symlinkat,
    libc::SYS_sync_file_range,
    libc::SYS_syncfs,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_truncate,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_unlinkat,
    libc::SYS_utimensat,
];

/// Calls on files on x86-64 that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const FILES_OLD: [libc::c_long; 15] = [
    libc::SYS_access,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_dup2,
    libc::SYS_lchown,
    libc::SYS_link,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_stat,
    libc::SYS_symlink,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const FILES_OLD: [libc::c_long; 0] = [];

/// Allows this process and its threads, for ever, only the calls of a process with sockets; others
/// fail with `EPERM`.
///
/// # Errors
/// Errors of the system; an architecture that is not supported.
pub(super) fn allow_network_only() -> io::Result<()> {
    apply(BTreeMap::new())
}

/// Does the same as [`allow_network_only`], and allows watching of files.
///
/// # Errors
/// As [`allow_network_only`].
pub(super) fn allow_network_and_watches() -> io::Result<()> {
    let calls = [libc::SYS_inotify_add_watch, libc::SYS_inotify_init1, libc::SYS_inotify_rm_watch];
    apply(calls.map(|call| (call, Vec::new())).into())
}

/// Does the same as [`allow_network_only`], and allows calls on files.
///
/// # Errors
/// As [`allow_network_only`].
pub(super) fn allow_network_and_files() -> io::Result<()> {
    let mut rules = BTreeMap::new();
    for call in FILES.iter().chain(&FILES_OLD) {
        rules.insert(*call, Vec::new());
    }
    // Signal 0 only asks whether the owner of a lock still runs.
    rules.insert(libc::SYS_kill, vec![rule(1, SeccompCmpOp::Eq, 0)?]);
    apply(rules)
}

/// Rules by the number of the call; a call without rules is allowed.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn apply(more: Rules) -> io::Result<()> {
    for filter in filters(more)? {
        apply_filter_all_threads(&filter).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Returns a rule about an argument of a call.
fn rule(argument: u8, operator: SeccompCmpOp, value: u64) -> io::Result<SeccompRule> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value);
    let rule = condition.and_then(|condition| SeccompRule::new(vec![condition]));
    rule.map_err(io::Error::other)
}

fn filters(mut rules: Rules) -> io::Result<[BpfProgram; 2]> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    for call in ALLOWED.iter().chain(&ALLOWED_OLD) {
        rules.insert(*call, Vec::new());
    }
    let thread = libc::CLONE_THREAD.unsigned_abs().into();
    let limited = [
        // Threads, and no processes.
        (libc::SYS_clone, 0, SeccompCmpOp::MaskedEq(thread), thread),
        // The way in which the standard library makes sockets non-blocking.
        (libc::SYS_ioctl, 1, SeccompCmpOp::Eq, libc::FIONBIO),
        // Signals and limits of this process only.
        (libc::SYS_tgkill, 0, SeccompCmpOp::Eq, std::process::id().into()),
        (libc::SYS_prlimit64, 0, SeccompCmpOp::Eq, 0),
    ];
    for (call, argument, operator, value) in limited {
        rules.insert(call, vec![rule(argument, operator, value)?]);
    }
    let error = |errno: i32| SeccompAction::Errno(errno.unsigned_abs());
    let (refused, allowed) = (error(libc::EPERM), SeccompAction::Allow);
    let main = SeccompFilter::new(rules, refused, allowed.clone(), arch);
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let clone3 = SeccompFilter::new(clone3, allowed, error(libc::ENOSYS), arch);
    let compile = |filter: Result<SeccompFilter, seccompiler::BackendError>| {
        filter.and_then(BpfProgram::try_from).map_err(io::Error::other)
    };
    Ok([compile(clone3)?, compile(main)?])
}
