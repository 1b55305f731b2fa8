//! The system calls of the front, by seccomp.

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

/// Allows this process and its threads, for ever, only the calls of a process with sockets; others
/// fail with `EPERM`.
///
/// # Errors
/// Errors of the system; an architecture that is not supported.
pub(super) fn allow_network_only() -> io::Result<()> {
    for filter in filters()? {
        apply_filter_all_threads(&filter).map_err(io::Error::other)?;
    }
    Ok(())
}

fn filters() -> io::Result<[BpfProgram; 2]> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
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
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value);
        let rule = condition.and_then(|condition| SeccompRule::new(vec![condition]));
        rules.insert(call, vec![rule.map_err(io::Error::other)?]);
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
