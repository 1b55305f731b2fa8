//! Power failures and failing calls in the middle of a conversion: the source is unchanged, and the
//! same call continues until every message is in the target once, unchanged.

use std::sync::Arc;

use barid::convert::ConvertOptions;
use barid::{Error, FormatError};
use barid_vfs::{CrashVfs, Fault, FaultVfs, Host as _, MemVfs, Vfs};

use crate::arena::{Found, found, memory};
use crate::converting::{Place, proving, source};

const FORMATS: [&str; 6] = ["mboxrd", "mmdf", "maildir", "mbx", "mix", "mh"];
/// Number of random choices of what survives at each crash point.
const SEEDS: u64 = 2;
/// Number of messages of the source, some of which are gone.
const LEN: usize = 8;
/// Every crash with a multiple of this number is followed by another while the conversion
/// continues.
const AGAIN: usize = 17;

/// Returns options for several batches.
fn options() -> ConvertOptions {
    ConvertOptions { batch_len: 4000, ..proving() }
}

/// Converts the mailbox on a disk, to the end; returns a description of what is wrong with the
/// result. With `numbered` messages have the UIDs that they had.
fn go_on(
    disk: Arc<dyn Vfs>,
    format: &str,
    expected: &[Found],
    (done, numbered): (bool, bool),
) -> Result<(), String> {
    let place = Place::new(disk);
    let to = format!("{format}:/new");
    let (result, told) = place.convert(("/box", &to), &options());
    match result {
        Ok(converted) if converted.is_whole() => {
            if converted.losses.uids > 0 || converted.losses.uidvalidity {
                return Err(format!("{:?}", converted.losses));
            }
        }
        // The note was already gone.
        Err(Error::TargetNotEmpty { .. }) => {}
        result => return Err(format!("{result:?}, {:?}", told.asides)),
    }
    if done && told.asides > 0 {
        return Err("what was done was done again".to_owned());
    }
    let (source, mut target) = (place.open("/box"), place.open(&to));
    let plain = |all: &[Found]| -> Vec<Found> {
        all.iter()
            .map(|one| Found { uid: if numbered { one.uid } else { 0 }, ..one.clone() })
            .collect()
    };
    for mailbox in [&source, &target] {
        if plain(&found(mailbox)) != plain(expected) {
            return Err(format!("{:?}: {:?}", mailbox.path(), found(mailbox)));
        }
    }
    let same = source.status().uidvalidity == target.status().uidvalidity;
    let check = place.convert((&to, "maildir:/check"), &proving()).0;
    target.refresh().map_err(|error| error.to_string())?;
    match check {
        Ok(check) if check.is_whole() && same => Ok(()),
        check => Err(format!("UIDVALIDITY {same}, {check:?}")),
    }
}

#[test]
fn after_every_crash_a_conversion_goes_on() {
    for format in FORMATS {
        let disk = memory();
        let expected = found(&source(&disk, LEN));
        let world = CrashVfs::new(&disk);
        let place = Place::new(Arc::new(world.vfs()));
        let first = world.points();
        let to = format!("{format}:/new");
        assert!(place.convert(("/box", &to), &options()).0.unwrap().is_whole(), "{format}");
        let (last, mut points) = (world.points(), 0);
        for point in first..=last {
            for seed in 0..SEEDS {
                let context = format!("{format}, point {point} of {first} to {last}, seed {seed}");
                let again = CrashVfs::new(&world.crash_at(point, seed));
                let went = go_on(Arc::new(again.vfs()), format, &expected, (point == last, true));
                went.unwrap_or_else(|what| panic!("{context}: {what}"));
                points += 1;
                if points % AGAIN > 0 {
                    continue;
                }
                for second in (0..again.points()).step_by(3) {
                    let disk = again.crash_at(second, seed);
                    let went = go_on(Arc::new(disk), format, &expected, (false, true));
                    let is_check = |what: &String| what.contains("/check");
                    match went {
                        Err(what) if !is_check(&what) => panic!("{context}, then {second}: {what}"),
                        _ => points += 1,
                    }
                }
            }
        }
        println!("{format}: {points} crashes");
        assert!(points >= 60);
    }
}

#[test]
fn after_a_failing_call_a_conversion_goes_on() {
    for format in FORMATS {
        let mut faults = 0;
        for nth in 0.. {
            let disk: MemVfs = memory();
            let expected = found(&source(&disk, LEN));
            let vfs = FaultVfs::new(disk.clone(), Fault::nth(nth));
            let place = Place::new(Arc::new(vfs.clone()));
            let to = format!("{format}:/new");
            let (result, _) = place.convert(("/box", &to), &options());
            let has_fired = vfs.fired();
            drop(place);
            // A lock file whose removal failed is stale by then.
            disk.sleep(std::time::Duration::from_secs(600));
            // If a lock cannot be taken, no UIDs are assigned, which is reported.
            let lost = result.as_ref().is_ok_and(|converted| converted.losses.uids > 0);
            let went = go_on(Arc::new(disk), format, &expected, (false, !lost));
            went.unwrap_or_else(|what| panic!("{format}, fault {nth}, {result:?}: {what}"));
            if !has_fired {
                let is_whole = result.is_ok_and(|converted| converted.is_whole());
                assert!(is_whole, "{format}");
                break;
            }
            let is_refused =
                |error: &Error| matches!(error, Error::Mailbox(FormatError::Io { .. }));
            faults += usize::from(result.is_ok() || result.as_ref().is_err_and(is_refused));
        }
        println!("{format}: {faults} faults");
        assert!(faults >= 40);
    }
}
