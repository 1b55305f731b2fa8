//! The local time zone, in which From_ lines without one are written, and people reckon.

use std::path::Path;

use barid_vfs::{OpenOptions, Vfs};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The zone of the machine (tzfile(5)).
const LOCALTIME: &str = "/etc/localtime";
/// More than any zone needs.
const LOCALTIME_LEN_MAX: usize = 64 << 10;

/// The zone that `TZ` names, else that of the machine, else UTC.
///
/// The file is read as it is: finding out its name, as [`TimeZone::system`] does, takes a search of
/// the zone folders that costs more than opening a mailbox.
pub(super) fn local(vfs: &dyn Vfs) -> TimeZone {
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

/// Minutes that clocks of the local zone (`TZ`, else that of the machine) are ahead of UTC at a
/// point in time; 0 where neither tells.
pub fn local_zone_minutes(vfs: &dyn Vfs, unix_seconds: i64) -> i16 {
    let Ok(time) = Timestamp::from_second(unix_seconds) else { return 0 };
    let seconds = local(vfs).to_offset(time).seconds();
    i16::try_from(seconds.div_euclid(60)).unwrap_or(0)
}
