//! The normal form of programs: no constants, no needless nesting, and no duplicate keys.

use super::{NodeId, ProgramBuilder, SearchError, SearchKey, SearchNode, SearchProgram};

/// The normal form of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Constant(bool),
    Node(NodeId),
}

/// Returns the program in normal form, or as an error its constant answer. One pass; O(keys²) if
/// all keys differ.
pub(crate) fn normal(program: &SearchProgram) -> Result<SearchProgram, bool> {
    let mut out: Vec<SearchNode> = Vec::new();
    let mut keys: Vec<NodeId> = Vec::new();
    let mut forms: Vec<Form> = Vec::with_capacity(program.nodes().len());
    for node in program.nodes() {
        let form = match node {
            SearchNode::Key(key) => of_key(key, &mut out, &mut keys),
            SearchNode::Not(of) => match forms[*of as usize] {
                Form::Constant(value) => Form::Constant(!value),
                Form::Node(of) => match out[of as usize] {
                    SearchNode::Not(inner) => Form::Node(inner),
                    _ => push(&mut out, SearchNode::Not(of)),
                },
            },
            SearchNode::And(ids) => joined(ids, &forms, &mut out, true),
            SearchNode::Or(ids) => joined(ids, &forms, &mut out, false),
        };
        forms.push(form);
    }
    match forms.last() {
        Some(Form::Node(root)) => Ok(reachable(&out, *root)),
        Some(Form::Constant(value)) => Err(*value),
        None => Err(true),
    }
}

fn push(out: &mut Vec<SearchNode>, node: SearchNode) -> Form {
    out.push(node);
    Form::Node(out.len() as NodeId - 1)
}

fn of_key(key: &SearchKey, out: &mut Vec<SearchNode>, keys: &mut Vec<NodeId>) -> Form {
    match key {
        SearchKey::All => return Form::Constant(true),
        SearchKey::SaveDateSupported
        | SearchKey::EmailId(_)
        | SearchKey::ThreadId(_)
        | SearchKey::ThreadOf(_)
        | SearchKey::InMailbox(_) => return Form::Constant(false),
        // Every text contains the empty text.
        SearchKey::Body(text) | SearchKey::Text(text) if text.is_empty() => {
            return Form::Constant(true);
        }
        _ => {}
    }
    let same = |id: &&NodeId| matches!(&out[**id as usize], SearchNode::Key(known) if known == key);
    if let Some(known) = keys.iter().find(same) {
        return Form::Node(*known);
    }
    let form = push(out, SearchNode::Key(key.clone()));
    keys.push(out.len() as NodeId - 1);
    form
}

/// Joins forms with And, whose neutral value is true, or Or, whose neutral value is false.
fn joined(ids: &[NodeId], forms: &[Form], out: &mut Vec<SearchNode>, neutral: bool) -> Form {
    let mut parts: Vec<NodeId> = Vec::new();
    for id in ids {
        match forms[*id as usize] {
            Form::Constant(value) if value == neutral => {}
            Form::Constant(value) => return Form::Constant(value),
            Form::Node(id) => match &out[id as usize] {
                SearchNode::And(inner) if neutral => parts.extend(inner),
                SearchNode::Or(inner) if !neutral => parts.extend(inner),
                _ => parts.push(id),
            },
        }
    }
    parts.sort_unstable();
    parts.dedup();
    match *parts {
        [] => Form::Constant(neutral),
        [only] => Form::Node(only),
        _ if neutral => push(out, SearchNode::And(parts)),
        _ => push(out, SearchNode::Or(parts)),
    }
}

/// Returns the nodes that a root refers to, with the root last.
fn reachable(nodes: &[SearchNode], root: NodeId) -> SearchProgram {
    let mut used = vec![false; root as usize + 1];
    used[root as usize] = true;
    for (at, node) in nodes[..=root as usize].iter().enumerate().rev() {
        if used[at] {
            children(node).iter().for_each(|child| used[*child as usize] = true);
        }
    }
    let mut builder = ProgramBuilder::default();
    let mut moved = vec![0; used.len()];
    let mut last = 0;
    for (at, node) in nodes[..=root as usize].iter().enumerate().filter(|(at, _)| used[*at]) {
        let all = |ids: &[NodeId]| ids.iter().map(|id| moved[*id as usize]).collect();
        let added: Result<NodeId, SearchError> = match node {
            SearchNode::Key(key) => builder.key(key.clone()),
            SearchNode::Not(of) => builder.not(moved[*of as usize]),
            SearchNode::And(ids) => builder.and(all(ids)),
            SearchNode::Or(ids) => builder.or(all(ids)),
        };
        last = added.expect("because it has no more nodes than before");
        moved[at] = last;
    }
    builder.finish(last)
}

/// Returns the nodes to which a node refers.
pub(crate) fn children(node: &SearchNode) -> &[NodeId] {
    match node {
        SearchNode::Key(_) => &[],
        SearchNode::Not(of) => std::slice::from_ref(of),
        SearchNode::And(ids) | SearchNode::Or(ids) => ids,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Day, parse_short};

    fn check(text: &str, expected: &str) {
        let found = match normal(&parse_short(text, Day(0)).unwrap()) {
            Ok(program) => program.to_string(),
            Err(value) => value.to_string(),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn every_text_contains_the_empty_one() {
        let mut builder = ProgramBuilder::default();
        let text = builder.key(SearchKey::Text(String::new())).unwrap();
        let body = builder.key(SearchKey::Body(String::new())).unwrap();
        let not = builder.not(body).unwrap();
        let root = builder.and(vec![text, not]).unwrap();
        assert_eq!(normal(&builder.finish(root)), Err(false));
    }

    #[test]
    fn normal_forms() {
        check("all", "true");
        check("not all", "false");
        check("is:read all", "Flag(Seen)");
        check("is:read not all", "false");
        check("is:read or all", "true");
        check("is:read or not all", "Flag(Seen)");
        check("not (not is:read)", "Flag(Seen)");
        check("is:read is:read", "Flag(Seen)");
        check("is:read (is:draft (is:flagged is:read))", {
            "and(Flag(Seen) Flag(Draft) Flag(Flagged))"
        });
        check("is:read or (is:draft or is:read)", "or(Flag(Seen) Flag(Draft))");
        check("(is:read is:draft) or not (is:read is:draft)", {
            "or(and(Flag(Seen) Flag(Draft)) not(and(Flag(Seen) Flag(Draft))))"
        });
    }
}
