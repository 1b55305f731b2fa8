//! A slow and simple transcription of RFC 5256 §3, sentence by sentence, as reference.

use std::collections::HashMap;

use barid_query::{NO_ID, ThreadAlgorithm};

use crate::random::Mailbox;

/// A container: that of an id, or of a row without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Name {
    Id(u32),
    Unique(usize),
    Merged(usize),
}

#[derive(Clone, Debug, Default)]
struct Container {
    row: Option<usize>,
    parent: Option<Name>,
    children: Vec<Name>,
}

/// A thread or a part of one, dummies without a row.
#[derive(Clone, Debug)]
struct Tree {
    name: Name,
    row: Option<usize>,
    children: Vec<Tree>,
}

/// Returns the THREAD response of the model, with rows counted from 1.
pub(crate) fn threads(algorithm: ThreadAlgorithm, mailbox: &Mailbox) -> String {
    let mut trees = match algorithm {
        ThreadAlgorithm::References => references(mailbox),
        ThreadAlgorithm::Refs => return refs(mailbox),
        ThreadAlgorithm::OrderedSubject => ordered_subject(mailbox),
    };
    sort(&mut trees, mailbox);
    trees.iter().map(|tree| format!("({})", text(tree))).collect()
}

fn text(tree: &Tree) -> String {
    let mut out = tree.row.map_or(String::new(), |row| (row + 1).to_string());
    if tree.row.is_some() && !tree.children.is_empty() {
        out.push(' ');
    }
    match tree.children.as_slice() {
        [only] => out + &text(only),
        several => {
            out + &several.iter().map(|tree| format!("({})", text(tree))).collect::<String>()
        }
    }
}

fn link(table: &mut HashMap<Name, Container>, parent: Name, child: Name) {
    let mut above = Some(parent);
    while let Some(name) = above {
        if name == child {
            return;
        }
        above = table[&name].parent;
    }
    table.get_mut(&child).unwrap().parent = Some(parent);
    table.get_mut(&parent).unwrap().children.push(child);
}

fn step_1(mailbox: &Mailbox) -> HashMap<Name, Container> {
    let mut table: HashMap<Name, Container> = HashMap::new();
    for row in 0..mailbox.len() {
        let mut last = None;
        for &id in mailbox.refs_of(row) {
            table.entry(Name::Id(id)).or_default();
            if let Some(last) = last.filter(|_| table[&Name::Id(id)].parent.is_none()) {
                link(&mut table, last, Name::Id(id));
            }
            last = Some(Name::Id(id));
        }
        let own = Name::Id(mailbox.ids[row]);
        let taken = table.get(&own).is_some_and(|container| container.row.is_some());
        let own = if mailbox.ids[row] == NO_ID || taken { Name::Unique(row) } else { own };
        let container = table.entry(own).or_default();
        container.row = Some(row);
        if container.parent != last {
            if let Some(parent) = container.parent.take() {
                table.get_mut(&parent).unwrap().children.retain(|child| *child != own);
            }
            if let Some(last) = last {
                link(&mut table, last, own);
            }
        }
    }
    table
}

/// Steps 2 and 3.
fn prune(table: &HashMap<Name, Container>) -> Vec<Tree> {
    let roots = table.iter().filter(|(_, container)| container.parent.is_none());
    roots.flat_map(|(name, _)| pruned(table, *name, true)).collect()
}

fn pruned(table: &HashMap<Name, Container>, name: Name, is_root: bool) -> Vec<Tree> {
    let container = &table[&name];
    let children: Vec<Tree> =
        container.children.iter().flat_map(|child| pruned(table, *child, false)).collect();
    if container.row.is_none() && (children.len() < 2 || !is_root) {
        return children;
    }
    vec![Tree { name, row: container.row, children }]
}

fn key(tree: &Tree, mailbox: &Mailbox) -> (i64, usize) {
    match tree.row {
        Some(row) => (mailbox.dates[row], row),
        None => tree.children.iter().map(|child| key(child, mailbox)).min().unwrap(),
    }
}

/// Applies step 6.
fn sort(trees: &mut [Tree], mailbox: &Mailbox) {
    trees.iter_mut().for_each(|tree| sort(&mut tree.children, mailbox));
    trees.sort_by_key(|tree| key(tree, mailbox));
}

fn references(mailbox: &Mailbox) -> Vec<Tree> {
    let mut roots = prune(&step_1(mailbox));
    roots.sort_by_key(|tree| key(tree, mailbox));
    let subject = |tree: &Tree| mailbox.subjects[key_row(tree, mailbox)];
    let is_reply = |tree: &Tree| tree.row.is_some_and(|row| mailbox.replies[row]);
    let mut table: HashMap<u32, Name> = HashMap::new();
    for tree in roots.iter().filter(|tree| subject(tree) != 0) {
        let Some(&entry) = table.get(&subject(tree)) else {
            table.insert(subject(tree), tree.name);
            continue;
        };
        let entry = roots.iter().find(|other| other.name == entry).unwrap();
        let better = tree.row.is_none() || is_reply(entry) && !is_reply(tree);
        if entry.row.is_some() && better {
            table.insert(subject(tree), tree.name);
        }
    }
    let scan: Vec<Name> = roots.iter().map(|tree| tree.name).collect();
    for name in scan {
        let Some(at) = roots.iter().position(|tree| tree.name == name) else { continue };
        let own = subject(&roots[at]);
        if own == 0 || table[&own] == name {
            continue;
        }
        let current = roots.remove(at);
        let entry_at = roots.iter().position(|tree| tree.name == table[&own]).unwrap();
        let entry = &mut roots[entry_at];
        if entry.row.is_none() && current.row.is_none() {
            entry.children.extend(current.children);
        } else if entry.row.is_none() || is_reply(&current) && !is_reply(entry) {
            entry.children.push(current);
        } else {
            let entry = roots.remove(entry_at);
            let name = Name::Merged(roots.len());
            let name = if table.values().any(|other| *other == name) {
                Name::Merged(1000 + own as usize)
            } else {
                name
            };
            table.insert(own, name);
            roots.push(Tree { name, row: None, children: vec![entry, current] });
        }
    }
    roots
}

/// Returns the row that represents a tree: its own or its earliest child's.
fn key_row(tree: &Tree, mailbox: &Mailbox) -> usize {
    key(tree, mailbox).1
}

fn refs(mailbox: &Mailbox) -> String {
    let table = step_1(mailbox);
    let top = |mut name: Name| {
        while let Some(parent) = table[&name].parent {
            name = parent;
        }
        name
    };
    let mut trees = prune(&table);
    sort(&mut trees, mailbox);
    let latest = |root: Name| {
        let inside = table.iter().filter(|(name, _)| top(**name) == root);
        let rows = inside.filter_map(|(_, container)| container.row);
        rows.map(|row| mailbox.dates[row].max(0)).max().unwrap()
    };
    trees.sort_by_key(|tree| {
        let root = top(tree.name);
        (latest(root), table[&root].row, root)
    });
    trees.iter().map(|tree| format!("({})", text(tree))).collect()
}

fn ordered_subject(mailbox: &Mailbox) -> Vec<Tree> {
    let leaf = |row: usize| Tree { name: Name::Unique(row), row: Some(row), children: Vec::new() };
    let mut rows: Vec<usize> = (0..mailbox.len()).collect();
    rows.sort_by_key(|&row| (mailbox.subjects[row], mailbox.dates[row], row));
    let same = |left: &usize, right: &usize| mailbox.subjects[*left] == mailbox.subjects[*right];
    let runs = rows.chunk_by(same).map(|run| Tree {
        children: run[1..].iter().map(|&row| leaf(row)).collect(),
        ..leaf(run[0])
    });
    runs.collect()
}
