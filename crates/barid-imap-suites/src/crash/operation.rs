//! Operations of a session: the command, and what its acknowledgement says.

use std::io;

use crate::wire::Reply;

/// Returns the text of a message, which its key determines.
pub(super) fn text_of(key: &str) -> String {
    let number: usize = key.bytes().map(usize::from).sum();
    let line = format!("a line of the message {key}\r\n");
    format!(
        "Date: Mon, 1 Jan 2024 10:00:00 +0000\r\nFrom: w@example.org\r\nSubject: {key}\r\n\
         Message-ID: <{key}@example.org>\r\n\r\n{}",
        line.repeat(1 + number % 60)
    )
}

/// Returns the numbers of a set in its order.
pub(super) fn numbers(set: &str) -> io::Result<Vec<u32>> {
    let bad = || io::Error::other(format!("not a set: {set}"));
    let mut numbers = Vec::new();
    for part in set.split(',') {
        let (first, last) = part.split_once(':').unwrap_or((part, part));
        let first: u32 = first.parse().map_err(|_| bad())?;
        let last: u32 = last.parse().map_err(|_| bad())?;
        numbers.extend(first..=last);
    }
    Ok(numbers)
}

/// Returns UIDVALIDITY and the sets of a response code: APPENDUID or COPYUID.
pub(super) fn uid_code(reply: &Reply, name: &str) -> io::Result<(u64, Vec<Vec<u32>>)> {
    let missing = || io::Error::other(format!("no {name}: {}", reply.status_text()));
    let value = reply.value_of(name).ok_or_else(missing)?;
    let mut words = value.split(' ');
    let uidvalidity = words.next().and_then(|word| word.parse().ok()).ok_or_else(missing)?;
    Ok((uidvalidity, words.map(numbers).collect::<io::Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read() {
        let status = b"OK [COPYUID 7 1:2,5 10:12] done".to_vec();
        let reply = Reply { untagged: Vec::new(), status };
        let expected = (7, vec![vec![1, 2, 5], vec![10, 11, 12]]);
        assert_eq!(uid_code(&reply, "COPYUID").unwrap(), expected);
        assert!(uid_code(&reply, "APPENDUID").is_err() && numbers("1:x").is_err());
        assert!(text_of("k1-2").contains("Subject: k1-2\r\n"));
    }
}
