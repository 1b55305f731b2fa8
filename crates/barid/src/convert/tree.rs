//! The places of the mailboxes of a tree when the tree is converted.
//!
//! Folders stay folders. In a format whose mailboxes are files, a mailbox cannot contain folders:
//! mailboxes below `NAME` go to the folder `NAME.sbd`, as in Thunderbird, and the mailbox at the
//! top itself to `INBOX`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use barid_formats::Folder;
use barid_mailbox::Format;

/// Plans the place of each mailbox of a tree: its index in `folders`, and its path below `target`.
/// The same tree always goes to the same places.
pub fn plan_tree(folders: &[Folder], target: &Path, format: Format) -> Vec<(usize, PathBuf)> {
    let mut taken: HashSet<PathBuf> = HashSet::new();
    let mut plan = Vec::new();
    // The folders for the mailboxes below the last folder of each depth.
    let mut holders: Vec<PathBuf> = Vec::new();
    for (at, folder) in folders.iter().enumerate() {
        holders.truncate(folder.depth as usize);
        let is_mailbox = folder.format.is_some();
        let Some(holder) = holders.last() else {
            let path = if format.is_folder() { target.to_owned() } else { target.join("INBOX") };
            if is_mailbox {
                taken.insert(path.clone());
                plan.push((at, path));
            }
            holders.push(target.to_owned());
            continue;
        };
        let path = free_path(holder, &name_for(&folder.name, format), &taken);
        taken.insert(path.clone());
        let below = match is_mailbox && !format.is_folder() {
            true => {
                let mut name = path.file_name().unwrap_or_default().to_owned();
                name.push(".sbd");
                path.with_file_name(name)
            }
            false => path.clone(),
        };
        taken.insert(below.clone());
        holders.push(below);
        if is_mailbox {
            plan.push((at, path));
        }
    }
    plan
}

/// Returns a name that a file can have, and that has no other meaning in a mailbox of the format.
fn name_for(name: &str, format: Format) -> String {
    let mut name: String =
        name.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c }).collect();
    if name.starts_with('.') {
        name.replace_range(..1, "_");
    }
    let mut own = format.message_folders.iter().chain(format.work_folders);
    let is_own = own.any(|folder| *folder == name) || (format.is_message_name)(&name);
    if is_own || name.is_empty() {
        name.push('_');
    }
    name
}

fn free_path(holder: &Path, name: &str, taken: &HashSet<PathBuf>) -> PathBuf {
    let first = holder.join(name);
    if !taken.contains(&first) {
        return first;
    }
    let mut others = (2_u64..).map(|number| holder.join(format!("{name}-{number}")));
    others.find(|path| !taken.contains(path)).unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::format_named;

    /// Each folder is its depth, `+` if it is a mailbox, and its name.
    fn check(format: Format, folders: &[&str], expected: &[&str]) {
        let folder = |text: &&str| {
            let (depth, name) = text.split_at(1);
            let format = name.starts_with('+').then_some(format_named("maildir"));
            let name = name.trim_start_matches('+').to_owned();
            Folder { path: PathBuf::new(), name, depth: depth.parse().unwrap(), format }
        };
        let folders: Vec<Folder> = folders.iter().map(folder).collect();
        let plan = plan_tree(&folders, Path::new("/t"), format);
        let found: Vec<String> = plan
            .iter()
            .map(|(at, path)| format!("{at} {}", path.strip_prefix("/t").unwrap().display()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn folders_stay_folders() {
        let tree = ["0+box", "1+a", "2+b", "2levels", "3+c", "1+d"];
        check(format_named("mix"), &tree, &["0 ", "1 a", "2 a/b", "4 a/levels/c", "5 d"]);
        let files = ["0 INBOX", "1 a", "2 a.sbd/b", "4 a.sbd/levels/c", "5 d"];
        check(format_named("mbx"), &tree, &files);
        check(format_named("mboxo"), &["0top", "1+a"], &["1 a"]);
    }

    #[test]
    fn names_are_safe_and_differ() {
        let tree = ["0+box", "1+INBOX", "1+a/b", "1+a_b", "1+..", "1+", "1+12", "1+cur"];
        let mbx = ["0 INBOX", "1 INBOX-2", "2 a_b", "3 a_b-2", "4 _.", "5 _", "6 12", "7 cur"];
        check(format_named("mbx"), &tree, &mbx);
        let mh = ["0 ", "1 INBOX", "2 a_b", "3 a_b-2", "4 _.", "5 _", "6 12_", "7 cur"];
        check(format_named("mh"), &tree, &mh);
        check(format_named("maildir"), &["0top", "1+12", "1+cur"], &["1 12", "2 cur_"]);
    }
}
