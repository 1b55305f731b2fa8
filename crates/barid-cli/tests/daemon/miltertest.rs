//! miltertest, OpenDKIM's mail server for tests of milters: an independent implementation of the
//! protocol.

use std::process::{Command, Stdio};

use barid_testkit::peers::program;
use barid_testkit::skip_or_fail;

use super::Daemon;

/// A message whose sender added our field; every packet is answered.
const SCRIPT: &str = r#"
function goes_on(what, failed)
  if failed ~= nil then error(what .. " is not taken") end
  if mt.getreply(conn) ~= SMFIR_CONTINUE then error(what .. " is answered otherwise") end
end

conn = mt.connect("inet:" .. port .. "@127.0.0.1")
if conn == nil then error("no connection") end
-- All actions and no steps: it takes these two in the order in which they are not sent.
if mt.negotiate(conn, 6, 0, 511) ~= nil then error("nothing is agreed on") end
goes_on("the connection", mt.conninfo(conn, "host.example", "127.0.0.1"))
goes_on("HELO", mt.helo(conn, "host.example"))
goes_on("MAIL", mt.mailfrom(conn, "<a@b.example>"))
goes_on("RCPT", mt.rcptto(conn, "<c@d.example>"))
for index, name in ipairs({"X-Bogosity", "x-bogosity"}) do
  goes_on("a field", mt.header(conn, name, "Ham, mine"))
end
goes_on("a field", mt.header(conn, "Subject", word .. " 3"))
goes_on("a field", mt.header(conn, "From", "a@b.example"))
goes_on("the end of the header", mt.eoh(conn))
goes_on("the body", mt.bodystring(conn, "some " .. word .. " of day3\r\n"))
if mt.eom(conn) ~= nil then error("the end is not taken") end
if mt.getreply(conn) ~= SMFIR_CONTINUE then error("the end is answered otherwise") end
if not mt.eom_check(conn, MT_HDRDELETE, "X-Bogosity", 1) then error("the first field stays") end
if not mt.eom_check(conn, MT_HDRDELETE, "X-Bogosity", 2) then error("the second field stays") end
if not mt.eom_check(conn, MT_HDRADD, "X-Bogosity") then error("no field of ours") end
local held = mt.eom_check(conn, MT_QUARANTINE)
if held ~= (word == "pills") then error("held otherwise") end
mt.disconnect(conn)
"#;

#[test]
fn miltertest_finds_nothing_wrong() {
    let Some(program) = program("miltertest") else {
        return skip_or_fail("miltertest (Debian package miltertest)");
    };
    let daemon = Daemon::start(&["--milter", "inet:127.0.0.1:0", "--quarantine"]);
    let script = daemon.world.write("script.lua", SCRIPT.as_bytes());
    for word in ["pills", "minutes"] {
        let mut command = Command::new(&program);
        command.arg("-s").arg(daemon.world.path(&script)).stdin(Stdio::null());
        command.arg("-D").arg(format!("port={}", daemon.port)).arg("-D");
        let output = command.arg(format!("word={word}")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{word}: {said}");
    }
    assert_eq!(daemon.end(), "");
}
