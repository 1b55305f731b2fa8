//! The local time zone: that of From_ lines without a zone, and of dates typed by users.

use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::limits::LOCALTIME_LEN_MAX;
use crate::{OpenOptions, Vfs};

/// The zone of the machine (tzfile(5)).
const LOCALTIME: &str = "/etc/localtime";

/// Returns the zone that `TZ` names, else that of the machine, else UTC.
///
/// Reads the file without finding out its name: [`TimeZone::system`] does so by a search of the
/// zone folders, which costs more than opening a mailbox.
pub fn local_zone(vfs: &dyn Vfs) -> TimeZone {
    if std::env::var_os("TZ").is_some() {
        return TimeZone::system();
    }
    let read = || {
        let file = vfs.open(Path::new(LOCALTIME), OpenOptions::READ)?;
        let mut bytes = vec![0; LOCALTIME_LEN_MAX];
        let len = file.read_at(&mut bytes, 0)?;
        bytes.truncate(len);
        Ok::<_, std::io::Error>(bytes)
    };
    let zone = read().ok().and_then(|bytes| TimeZone::tzif("Local", &bytes).ok());
    zone.unwrap_or(TimeZone::UTC)
}

/// Returns by how many minutes the local zone (`TZ`, else that of the machine) is ahead of UTC at
/// `unix_seconds`; 0 if it is unknown.
pub fn local_zone_minutes(vfs: &dyn Vfs, unix_seconds: i64) -> i16 {
    let Ok(time) = Timestamp::from_second(unix_seconds) else { return 0 };
    let seconds = local_zone(vfs).to_offset(time).seconds();
    i16::try_from(seconds.div_euclid(60)).unwrap_or(0)
}
