//! Confining a process to what it needs, by Landlock and seccomp.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, NetPort, PathBeneath,
    PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal, setrlimit};

/// The version of Landlock whose access rights are handled; older kernels handle fewer.
const VERSION: ABI = ABI::V6;

/// Access of a process to everything below a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Reads a file.
    ReadFile,
    /// Reads files, and loads programs and libraries.
    Read,
    /// Makes, reads and writes files whose names it knows, and lists nothing.
    Locks,
    /// Reads and writes everything.
    Write,
}

/// Use of TCP besides sockets that a process has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Network {
    /// None.
    None,
    /// Connections to these ports.
    Connect(Vec<u16>),
    /// As of any process.
    Any,
}

/// Forbids core files and tracing by others of the same user: memory has passwords and mail.
///
/// # Errors
/// Errors of the system.
pub(super) fn forget_core() -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Makes the system kill this process when the supervisor ends. Not for workers, which end their
/// sessions first.
///
/// # Errors
/// Errors of the system.
pub(super) fn end_with_supervisor() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Limits the memory that a process can get.
///
/// # Errors
/// Errors of the system.
pub(super) fn limit_memory(bytes: u64) -> io::Result<()> {
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    Ok(setrlimit(Resource::Data, limit)?)
}

/// Raises the number of descriptors to the most that is allowed.
pub(super) fn raise_descriptors() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    // What is there suffices for a start.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Returns the number of descriptors that the process can have.
pub(super) fn descriptors() -> u64 {
    rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Confines this thread, and all that it starts, to files below some folders, without TCP and
/// without signals to processes outside. Folders of `allowed` that do not exist are left out; the
/// open folders `writable` may be written. Returns the reason why it is not confined.
pub(super) fn files(
    allowed: &[(PathBuf, Access)],
    writable: Vec<OwnedFd>,
    network: Network,
) -> Option<String> {
    match restrict(allowed, writable, network) {
        Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced) => None,
        Ok(RulesetStatus::NotEnforced) => Some("the kernel has no Landlock".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

fn restrict(
    allowed: &[(PathBuf, Access)],
    writable: Vec<OwnedFd>,
    network: Network,
) -> Result<RulesetStatus, landlock::RulesetError> {
    let all = AccessFs::from_all(VERSION);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(VERSION))?;
    if network != Network::Any {
        ruleset = ruleset.handle_access(AccessNet::from_all(VERSION))?;
    }
    let mut ruleset = ruleset.create()?;
    if let Network::Connect(ports) = network {
        for port in ports {
            ruleset = ruleset.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
        }
    }
    for (path, access) in allowed {
        let rights = match access {
            Access::ReadFile => AccessFs::from_read(VERSION) & AccessFs::from_file(VERSION),
            Access::Read => AccessFs::from_read(VERSION),
            Access::Locks => {
                AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::Truncate
            }
            Access::Write => all,
        };
        // What does not exist cannot be opened either.
        let Ok(fd) = PathFd::new(path) else { continue };
        ruleset = ruleset.add_rule(PathBeneath::new(fd, rights))?;
    }
    for folder in writable {
        ruleset = ruleset.add_rule(PathBeneath::new(folder, all))?;
    }
    Ok(ruleset.restrict_self()?.ruleset)
}
