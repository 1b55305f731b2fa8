//! c-client's append to a mix mailbox (`mix_append` of its `mix.c`).

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use barid_vfs::Vfs;

use super::{hex, overwrite};

/// Length of a file from which on messages go to another.
const DATA_LEN_ROLL: usize = 1 << 20;

/// Appends as c-client does, which writes meta, index and status anew in place.
///
/// # Errors
/// Errors of the file system.
pub fn deliver_to_mix(vfs: &dyn Vfs, path: &Path, text: &[u8]) -> io::Result<bool> {
    let read = |name: &str| match vfs.read(&path.join(name), 1 << 30) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    };
    let [Some(meta), Some(index), Some(status)] =
        [read(".mixmeta")?, read(".mixindex")?, read(".mixstatus")?]
    else {
        return Ok(false);
    };
    let (Some(meta), Some(index)) = (Meta::parse(&meta), Index::parse(&index)) else {
        return Ok(false);
    };
    let (status_seq, mut statuses) = statuses(&status);
    for (file, _) in index.messages.values() {
        if read(&data_name(*file))?.is_none() {
            return Ok(false);
        }
    }
    let data = read(&data_name(meta.current))?;
    let ends = index.messages.values().filter(|(file, _)| *file == meta.current);
    let end = ends.map(|(_, end)| *end).max().unwrap_or(0);
    let fits = |data: &Vec<u8>| {
        end <= data.len() && (data.is_empty() || data.len() + 45 + text.len() <= DATA_LEN_ROLL)
    };
    let (file, mut data) = match data.filter(fits) {
        Some(data) => (meta.current, data),
        None => (next_file(&read, meta.current)?, Vec::new()),
    };
    let (pos, len, date) = (data.len(), text.len(), "20010909014640+0000");
    let uid = index.messages.keys().copied().fold(meta.uid_last, u32::max) + 1;
    let line = format!(":msg:{uid:08x}:{date}:{len:08x}:\r\n");
    data.extend_from_slice(&[line.as_bytes(), text].concat());
    let seq = meta.seq.max(index.seq).max(status_seq) + 1;
    let header_len = memchr::memmem::find(text, b"\r\n\r\n").map_or(len, |at| at + 4);
    let line_len = line.len();
    let new = format!(
        ":{uid:08x}:{date}:{len:08x}:{file:08x}:{pos:08x}:{line_len:08x}:{header_len:08x}:\r\n"
    );
    statuses.retain(|uid, _| index.messages.contains_key(uid));
    for uid in index.messages.keys().copied().chain([uid]) {
        let without_flags = || format!(":{uid:08x}:00000000:0000:{seq:08x}:\r\n");
        statuses.entry(uid).or_insert_with(without_flags);
    }
    let statuses: String = statuses.into_values().collect();
    let Meta { uidvalidity, keywords, .. } = &meta;
    let meta_seq = seq + 1;
    let meta =
        format!("S{meta_seq:08x}\r\nV{uidvalidity:08x}\r\nL{uid:08x}\r\nN{file:08x}\r\n{keywords}");
    overwrite(vfs, &path.join(data_name(file)), &data)?;
    overwrite(vfs, &path.join(".mixmeta"), meta.as_bytes())?;
    let index = format!("S{seq:08x}\r\n{}{new}", index.lines);
    overwrite(vfs, &path.join(".mixindex"), index.as_bytes())?;
    let status = format!("S{seq:08x}\r\n{statuses}");
    overwrite(vfs, &path.join(".mixstatus"), status.as_bytes())?;
    Ok(true)
}

fn data_name(file: u32) -> String {
    format!(".mix{file:08x}")
}

/// Returns the number of a file that does not exist.
fn next_file(read: &dyn Fn(&str) -> io::Result<Option<Vec<u8>>>, current: u32) -> io::Result<u32> {
    let mut file = current + 1;
    while read(&data_name(file))?.is_some() {
        file += 1;
    }
    Ok(file)
}

/// Returns the sequence number of a file and its other lines. An empty file has number 1.
fn lines_of(bytes: &[u8]) -> Option<(u32, Vec<&str>)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines: Vec<&str> = text.split_inclusive("\r\n").collect();
    if lines.is_empty() {
        return Some((1, lines));
    }
    let seq = hex(lines.remove(0).strip_prefix('S')?.strip_suffix("\r\n")?)?;
    Some((seq, lines))
}

struct Meta {
    seq: u32,
    uidvalidity: u32,
    uid_last: u32,
    current: u32,
    /// The line of keywords, if there is one.
    keywords: String,
}

impl Meta {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (seq, lines) = lines_of(bytes)?;
        let mut meta =
            Self { seq, uidvalidity: 0, uid_last: 0, current: 0, keywords: String::new() };
        for line in lines {
            let (key, value) = (line.get(..1)?, line.get(1..)?.trim_end_matches("\r\n"));
            match key {
                "V" => meta.uidvalidity = hex(value)?,
                "L" => meta.uid_last = hex(value)?,
                "N" => meta.current = hex(value)?,
                "K" if !line.contains('\0') => meta.keywords = line.to_owned(),
                _ => return None,
            }
        }
        (!bytes.is_empty()).then_some(meta)
    }
}

struct Index<'a> {
    seq: u32,
    lines: &'a str,
    /// By UID, the number of the file and the offset in it at which the message ends.
    messages: BTreeMap<u32, (u32, usize)>,
}

impl<'a> Index<'a> {
    /// Returns `None` for an index that c-client cannot parse.
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (seq, lines) = lines_of(bytes)?;
        let rest = bytes.len() - lines.iter().map(|line| line.len()).sum::<usize>();
        let mut messages = BTreeMap::new();
        for line in lines {
            let fields: Vec<&str> = line.strip_prefix(':')?.split(':').collect();
            let [uid, _, size, file, pos, line_len, _, "\r\n"] = fields[..] else { return None };
            let end = hex(pos)? as usize + hex(line_len)? as usize + hex(size)? as usize;
            let uid = hex(uid)?;
            if messages.last_key_value().is_some_and(|(last, _)| *last >= uid) {
                return None;
            }
            messages.insert(uid, (hex(file)?, end));
        }
        Some(Self { seq, lines: std::str::from_utf8(&bytes[rest..]).ok()?, messages })
    }
}

/// Returns the sequence number and the lines by UID, up to the first invalid one.
fn statuses(bytes: &[u8]) -> (u32, BTreeMap<u32, String>) {
    let Some((seq, lines)) = lines_of(bytes) else { return (1, BTreeMap::new()) };
    let parse = |line: &&str| {
        let fields: Vec<&str> = line.strip_prefix(':')?.split(':').collect();
        let [uid, keywords, flags, modseq, "\r\n"] = fields[..] else { return None };
        [keywords, flags, modseq].iter().all(|field| hex(field).is_some()).then_some(())?;
        Some((hex(uid)?, (*line).to_owned()))
    };
    (seq, lines.iter().map_while(parse).collect())
}
