//! The server of many users, `barid serve --config`: a supervisor, and processes that it starts.
//!
//! As root it serves all users under the uid of the unprivileged user, else under its own. Its
//! address stays the same after a restart, as that of a server that a service manager starts again.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use barid_testkit::peers::PeerUser;
use barid_testkit::{Scratch, disk};
use rustix::process::{Pid, Signal, kill_process};

use super::{Killed, Login, MailFormat, MortalServer, Server, TlsListener};
use crate::limits::{ORPHAN_TIMEOUT, START_TIMEOUT, STOP_TIMEOUT};
use crate::wire::Connection;

/// Users that exist, numbered from 1.
const USERS: u32 = 40;
const PASSWORD: &str = "secret";

/// A process that the supervisor has started.
#[derive(Clone, Debug)]
struct ServerProcess {
    pid: i32,
    /// The name of its role: `front`, `auth`, `worker`.
    role: String,
}

/// A server with a configuration. Ended when dropped.
#[derive(Debug)]
pub struct ConfiguredServer {
    name: String,
    program: PathBuf,
    format: MailFormat,
    address: SocketAddr,
    supervisor: Mutex<Child>,
    /// Processes of a killed supervisor, which must end by themselves.
    orphans: Mutex<Vec<ServerProcess>>,
    slowest_start: Mutex<Duration>,
    // Removed after the processes have ended.
    scratch: Scratch,
}

impl ConfiguredServer {
    /// Starts a server.
    ///
    /// # Errors
    /// If it cannot be started, or does not greet in time.
    pub fn start(program: &Path, format: MailFormat) -> io::Result<Self> {
        let scratch = Scratch::new("configured-server")?;
        for user in 1..=USERS {
            format.empty(&scratch.path().join("mail").join(user_name(user)))?;
        }
        let line = |user| format!("{}:{{PLAIN}}{PASSWORD}::::::\n", user_name(user));
        let users: String = (1..=USERS).map(line).collect();
        disk::create_dir(&scratch.path().join("users"))?;
        disk::write(&scratch.path().join("users/passwd"), users.as_bytes())?;
        // Free now, and likely for as long as the server lives.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let config = configuration(scratch.path(), address)?;
        disk::write(&scratch.path().join("barid.toml"), config.as_bytes())?;
        scratch.hand_over()?;
        // Passwords are verified under another uid.
        rustix::fs::chmod(scratch.path(), rustix::fs::Mode::from_raw_mode(0o755))?;
        let supervisor = Mutex::new(spawn(program, scratch.path())?);
        let server = Self {
            name: format!("barid-config-{}", format.name()),
            program: program.to_path_buf(),
            format,
            address,
            supervisor,
            orphans: Mutex::default(),
            slowest_start: Mutex::default(),
            scratch,
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Returns the longest time from the start of a supervisor to a client's greeting.
    pub fn slowest_start(&self) -> Duration {
        *self.slowest_start.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn supervisor(&self) -> MutexGuard<'_, Child> {
        self.supervisor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until clients are greeted.
    fn wait_until_ready(&self) -> io::Result<()> {
        let start = Instant::now();
        while Connection::connect(self.address).is_err() {
            if let Some(status) = self.supervisor().try_wait()? {
                let text = format!("the server has ended: {status}: {}", self.log());
                return Err(io::Error::other(text));
            }
            if start.elapsed() > START_TIMEOUT {
                return Err(io::Error::other("the server greets nobody"));
            }
            sleep(Duration::from_millis(2));
        }
        let mut slowest = self.slowest_start.lock().unwrap_or_else(PoisonError::into_inner);
        *slowest = slowest.max(start.elapsed());
        Ok(())
    }

    /// Kills the supervisor, and remembers its processes.
    fn kill_supervisor(&self) -> io::Result<()> {
        let mut supervisor = self.supervisor();
        if supervisor.try_wait()?.is_none() {
            // It starts none any more while they are counted.
            kill_process(Pid::from_child(&supervisor), Signal::STOP)?;
            let children = children_of(supervisor.id())?;
            self.orphans.lock().unwrap_or_else(PoisonError::into_inner).extend(children);
            supervisor.kill()?;
            supervisor.wait()?;
        }
        Ok(())
    }

    /// Waits until no process of a killed supervisor is left.
    fn wait_for_orphans(&self) -> io::Result<()> {
        let start = Instant::now();
        let mut orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            orphans.retain(|orphan| is_there(orphan.pid));
            if orphans.is_empty() {
                return Ok(());
            }
            if start.elapsed() > ORPHAN_TIMEOUT {
                return Err(io::Error::other(format!("orphans do not end: {orphans:?}")));
            }
            sleep(Duration::from_millis(2));
        }
    }

    /// Waits until the supervisor knows of no session.
    fn wait_for_sessions(&self) -> io::Result<()> {
        let socket = self.scratch.path().join("control");
        let start = Instant::now();
        loop {
            let mut command = Command::new(&self.program);
            command.arg("admin").arg("--json").arg("--socket").arg(&socket).arg("sessions");
            if command.stderr(Stdio::null()).output()?.stdout.is_empty() {
                return Ok(());
            }
            if start.elapsed() > STOP_TIMEOUT {
                return Err(io::Error::other("sessions do not end with the front"));
            }
            sleep(Duration::from_millis(10));
        }
    }

    /// Returns the user of a worker, by the log.
    fn user_of(&self, worker: i32) -> Option<u32> {
        let log = self.log();
        let line = log.lines().rev().find(|line| line.contains(&format!("worker {worker}\"")))?;
        let name = line.split_whitespace().find_map(|word| word.strip_prefix("user=u"))?;
        name.parse().ok()
    }
}

fn user_name(user: u32) -> String {
    format!("u{user}")
}

fn configuration(scratch: &Path, address: SocketAddr) -> io::Result<String> {
    let root = scratch.display();
    let (uid, gid) = match rustix::process::geteuid().is_root() {
        true => PeerUser::get().map(|user| (user.uid, user.gid))?,
        false => (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
    };
    Ok(format!(
        "[server]\nstate_dir = \"{root}/state\"\ncache_dir = \"{root}/cache\"\n\
         front_user = \"nobody\"\nauth_user = \"daemon\"\nadmin_socket = \"{root}/control\"\n\
         [[listen]]\nprotocol = \"imap\"\naddress = \"{address}\"\n\
         [[users.passwd_file]]\npath = \"{root}/users/passwd\"\n\
         [mail]\nlocation = \"{root}/mail/%u\"\nseparator = \"/\"\nowner = \"{uid}:{gid}\"\n\
         [limits]\nrestart_delay = \"0 s\"\n[log]\ntarget = \"{root}/log\"\n"
    ))
}

fn spawn(program: &Path, scratch: &Path) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(["serve", "--config"]).arg(scratch.join("barid.toml")).env_clear();
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(disk::open_append(&scratch.join("stderr"))?).spawn()
}

/// Returns the fields of `/proc/PID/stat` after the name: state and parent first.
fn stat_of(pid: i32) -> Option<Vec<String>> {
    let text = disk::read_text(Path::new(&format!("/proc/{pid}/stat"))).ok()?;
    let (_, fields) = text.rsplit_once(") ")?;
    Some(fields.split(' ').map(str::to_owned).collect())
}

/// Returns `true` if a process runs; one that only waits for its parent does not.
fn is_there(pid: i32) -> bool {
    stat_of(pid).is_some_and(|fields| !matches!(fields[0].as_str(), "Z" | "X"))
}

fn children_of(parent: u32) -> io::Result<Vec<ServerProcess>> {
    let parent = parent.to_string();
    let mut children = Vec::new();
    for path in disk::list(Path::new("/proc"))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(pid) = name.parse::<i32>() else { continue };
        if stat_of(pid).is_none_or(|fields| fields.get(1) != Some(&parent)) || !is_there(pid) {
            continue;
        }
        let line = disk::read_text(&path.join("cmdline")).unwrap_or_default();
        let role = line.split('\0').nth(3).unwrap_or_default().to_owned();
        children.push(ServerProcess { pid, role });
    }
    children.sort_by_key(|child| child.pid);
    Ok(children)
}

fn kill_pid(pid: i32) -> io::Result<()> {
    let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("not a process"))?;
    match kill_process(pid, Signal::KILL) {
        // It ended just now.
        Err(rustix::io::Errno::SRCH) => Ok(()),
        killed => Ok(killed?),
    }
}

impl MortalServer for ConfiguredServer {
    fn kill(&self) -> io::Result<()> {
        self.kill_supervisor()?;
        let orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for orphan in orphans {
            kill_pid(orphan.pid)?;
        }
        self.wait_for_orphans()
    }

    fn restart(&self) -> io::Result<()> {
        self.kill()?;
        *self.supervisor() = spawn(&self.program, self.scratch.path())?;
        self.wait_until_ready()
    }

    /// Kills a worker, the front, the auth process or the supervisor.
    fn kill_part(&self, choice: u64) -> io::Result<Killed> {
        let children = children_of(self.supervisor().id())?;
        let of_role = |role: &str| -> Vec<ServerProcess> {
            children.iter().filter(|child| child.role == role).cloned().collect()
        };
        let mut workers = of_role("worker");
        let victim = match choice % 8 {
            0..4 if !workers.is_empty() => {
                workers.swap_remove((choice / 8) as usize % workers.len())
            }
            4 | 5 => match of_role("front").pop() {
                Some(front) => front,
                None => return Ok(Killed::Nothing),
            },
            6 => match of_role("auth").pop() {
                Some(auth) => auth,
                None => return Ok(Killed::Nothing),
            },
            _ => {
                self.kill_supervisor()?;
                return Ok(Killed::Server);
            }
        };
        kill_pid(victim.pid)?;
        match victim.role.as_str() {
            "front" => Ok(Killed::Front),
            "auth" => Ok(Killed::Nothing),
            _ => Ok(self.user_of(victim.pid).map_or(Killed::Nothing, Killed::Worker)),
        }
    }

    fn revive(&self, killed: Killed) -> io::Result<()> {
        match killed {
            Killed::Server => {
                *self.supervisor() = spawn(&self.program, self.scratch.path())?;
                self.wait_until_ready()?;
                // What they have begun may still end, and must before anything is compared.
                self.wait_for_orphans()
            }
            Killed::Front => {
                self.wait_until_ready()?;
                self.wait_for_sessions()
            }
            Killed::Worker(_) | Killed::Nothing => self.wait_until_ready(),
        }
    }

    fn remove_cache(&self) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

impl Server for ConfiguredServer {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self) -> SocketAddr {
        self.address
    }

    fn tls(&self) -> Option<TlsListener> {
        None
    }

    fn login(&self, user: u32) -> Login {
        Login { name: user_name(user), password: PASSWORD.to_owned() }
    }

    fn stdio(&self, _: u32) -> io::Result<Option<Command>> {
        Ok(None)
    }

    fn mail_dir(&self, user: u32) -> PathBuf {
        self.scratch.path().join("mail").join(user_name(user))
    }

    fn format(&self) -> MailFormat {
        self.format
    }

    fn log(&self) -> String {
        let read = |name| disk::read_text(&self.scratch.path().join(name)).unwrap_or_default();
        read("log") + &read("stderr")
    }
}

impl Drop for ConfiguredServer {
    fn drop(&mut self) {
        let mut supervisor = self.supervisor();
        // A process that cannot be ended is litter, not a failure.
        if kill_process(Pid::from_child(&supervisor), Signal::TERM).is_ok() {
            let deadline = Instant::now() + STOP_TIMEOUT;
            while matches!(supervisor.try_wait(), Ok(None)) && Instant::now() < deadline {
                sleep(Duration::from_millis(5));
            }
        }
        drop(supervisor);
        drop(self.kill());
    }
}
