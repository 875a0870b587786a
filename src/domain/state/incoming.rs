//! A whole document that a plain Terraform sends: what it changes, or why it cannot be taken.

use std::collections::{BTreeMap, BTreeSet};

use super::delta::{has_free_order, same};
use super::document::{DocumentHead, StateDocument};
use super::row::{Body, ContentHash, RowKey};
use crate::domain::id::{Lineage, Serial};

/// What is known of a trunk: enough to tell what a document changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// Its serial; 0 before the first version.
    pub serial: Serial,
    /// Its lineage; none before the first version.
    pub lineage: Option<Lineage>,
    /// The document's other members.
    pub head: DocumentHead,
    /// Its rows.
    pub rows: BTreeMap<RowKey, ContentHash>,
}

/// What a document does to a trunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// It is the trunk already: a repetition of a request whose answer was lost.
    Same,
    /// It changes these rows; none as a body ends the row. May be empty: then only the serial grows.
    Changes(Vec<(RowKey, Option<Body>)>),
}

/// Why a document cannot follow a trunk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It belongs to another history.
    #[error("the state has lineage {has}, and the document has lineage {given}")]
    OtherLineage {
        /// The state's.
        has: Lineage,
        /// The document's.
        given: Lineage,
    },
    /// It does not say to which history it belongs. Terraform always does; its `state push` lets such a document pass.
    #[error("the state has lineage {0}, and the document has none")]
    NoLineage(Lineage),
    /// It says nothing: it would give the state a lineage of its own, and so keep out the document that was meant.
    #[error("the document has neither rows nor a lineage, and the state has no version yet")]
    Nothing,
    /// It would go back.
    #[error("the state is at serial {has}, and the document at serial {given}: serials only grow")]
    LowerSerial {
        /// The state's.
        has: Serial,
        /// The document's.
        given: Serial,
    },
    /// It says that it is what the state has, and is not.
    #[error("the state has another content at serial {0}: somebody else has written it")]
    OtherContent(Serial),
}

/// Compares a document with the trunk that it is to follow. `written` is what stands in the rows of [`unclear`]; a row
/// whose content only stands in another order is the same.
///
/// # Errors
/// When it has another lineage or none, a lower serial, or the same serial with another content.
pub fn judge(known: &Known, written: &BTreeMap<RowKey, Body>, document: &StateDocument) -> Result<Incoming, Unfit> {
    let fresh = known.serial == Serial(0) && known.lineage.is_none();
    match (&known.lineage, &document.lineage) {
        (Some(has), None) => return Err(Unfit::NoLineage(has.clone())),
        (Some(has), Some(given)) if has != given => {
            return Err(Unfit::OtherLineage { has: has.clone(), given: given.clone() });
        }
        _ => {}
    }
    if fresh && document.lineage.is_none() && document.rows.is_empty() {
        return Err(Unfit::Nothing);
    }
    if document.serial < known.serial {
        return Err(Unfit::LowerSerial { has: known.serial, given: document.serial });
    }
    let changes = changes(known, written, document);
    if document.serial > known.serial || fresh {
        return Ok(Incoming::Changes(changes));
    }
    if changes.is_empty() && known.head == document.head {
        Ok(Incoming::Same)
    } else {
        Err(Unfit::OtherContent(known.serial))
    }
}

/// The rows of which hashes alone do not tell whether a document changes them: Terraform writes some lists in another order
/// each time.
#[must_use]
pub fn unclear(known: &Known, document: &StateDocument) -> Vec<RowKey> {
    let differ = |hash: &ContentHash, body: &Body| *hash != body.hash() && has_free_order(body);
    let rows = document.rows.iter();
    rows.filter(|row| known.rows.get(&row.key).is_some_and(|hash| differ(hash, &row.body)))
        .map(|row| row.key.clone())
        .collect()
}

/// The rows that differ: those that are new or have another content, and those that are gone.
fn changes(known: &Known, written: &BTreeMap<RowKey, Body>, document: &StateDocument) -> Vec<(RowKey, Option<Body>)> {
    let mut left: BTreeMap<&RowKey, ContentHash> = known.rows.iter().map(|(key, hash)| (key, *hash)).collect();
    let mut changes = Vec::new();
    for row in &document.rows {
        let is = left.remove(&row.key);
        let stays = is == Some(row.body.hash())
            || (is.is_some() && written.get(&row.key).is_some_and(|body| same(body, &row.body)));
        if !stays {
            changes.push((row.key.clone(), Some(row.body.clone())));
        }
    }
    changes.extend(left.into_keys().map(|key| (key.clone(), None)));
    changes
}

/// Of the rows that changed on our side, those that a document does not have as they are now: it would undo them.
/// None as the content of one stands for a row that is gone.
#[must_use]
pub fn undone(ours: &BTreeMap<RowKey, Option<&Body>>, document: &StateDocument) -> BTreeSet<RowKey> {
    let mut undone: BTreeSet<RowKey> =
        ours.iter().filter(|(_, body)| body.is_some()).map(|(key, _)| key.clone()).collect();
    for row in &document.rows {
        match ours.get(&row.key) {
            Some(Some(body)) if same(body, &row.body) => drop(undone.remove(&row.key)),
            Some(_) => drop(undone.insert(row.key.clone())),
            None => {}
        }
    }
    undone
}

impl Known {
    /// What is known of a trunk after it has become a document, at this serial.
    #[must_use]
    pub fn after(self, document: &StateDocument, serial: Serial) -> Self {
        Self {
            serial,
            lineage: self.lineage.or_else(|| document.lineage.clone()),
            head: document.head.clone(),
            rows: document.rows.iter().map(|row| (row.key.clone(), row.body.hash())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::read;
    use super::*;

    fn document(serial: i64, lineage: &str, outputs: &str) -> StateDocument {
        read(&format!(
            r#"{{"version":4,"terraform_version":"1.11.4","serial":{serial},"lineage":"{lineage}","outputs":{{{outputs}}},"resources":[]}}"#
        ))
        .unwrap()
    }

    const A: &str = r#""a":{"value":1,"type":"number"}"#;
    const B: &str = r#""b":{"value":2,"type":"number"}"#;

    fn known(document: &StateDocument) -> Known {
        Known::default().after(document, document.serial)
    }

    fn judged(known: &Known, document: &StateDocument) -> Result<Incoming, Unfit> {
        judge(known, &BTreeMap::new(), document)
    }

    fn names(incoming: &Incoming) -> Vec<String> {
        match incoming {
            Incoming::Same => vec!["same".to_owned()],
            Incoming::Changes(rows) => {
                rows.iter().map(|(key, body)| format!("{}{key}", if body.is_some() { '+' } else { '-' })).collect()
            }
        }
    }

    #[test]
    fn only_rows_that_differ_are_changes() {
        let before = document(1, "l", &format!("{A},{B}"));
        let after = document(2, "l", &format!("{},{B}", A.replace('1', "3")));
        assert_eq!(names(&judged(&known(&before), &after).unwrap()), ["+output.a"]);
        assert_eq!(names(&judged(&known(&before), &document(5, "l", B)).unwrap()), ["-output.a"]);
        assert_eq!(judged(&known(&before), &document(2, "l", &format!("{B},{A}"))), Ok(Incoming::Changes(Vec::new())));
        assert_eq!(names(&judged(&Known::default(), &document(0, "l", A)).unwrap()), ["+output.a"]);
    }

    #[test]
    fn a_document_undoes_what_it_does_not_have_as_we_have_it() {
        let ours = |outputs: &str| {
            let rows = document(1, "l", outputs).rows;
            rows.into_iter().map(|row| (row.key, Some(row.body))).collect::<BTreeMap<_, _>>()
        };
        let undone = |ours: &BTreeMap<RowKey, Option<Body>>, outputs: &str| -> Vec<String> {
            let ours = ours.iter().map(|(key, body)| (key.clone(), body.as_ref())).collect();
            undone(&ours, &document(9, "l", outputs)).iter().map(ToString::to_string).collect()
        };
        assert!(undone(&ours(A), &format!("{A},{B}")).is_empty(), "it has it");
        assert_eq!(undone(&ours(A), B), ["output.a"], "we made it");
        assert_eq!(undone(&ours(A), &A.replace('1', "3")), ["output.a"], "we changed it");
        let removed: BTreeMap<_, _> = ours(A).into_keys().map(|key| (key, None)).collect();
        assert_eq!(undone(&removed, A), ["output.a"], "we removed it");
        assert!(undone(&removed, B).is_empty(), "it is gone there, too");
    }

    /// Terraform writes these lists in another order each time.
    #[test]
    fn another_order_is_no_change() {
        let with = |serial: i64, sensitive: [&str; 2], dependencies: [&str; 2], input: i64| {
            let sensitive = sensitive.map(|name| format!(r#"[{{"type":"get_attr","value":"{name}"}}]"#)).join(",");
            let dependencies = dependencies.map(|name| format!("\"{name}\"")).join(",");
            read(&format!(
                r#"{{"version":4,"terraform_version":"1.11.4","serial":{serial},"lineage":"l","outputs":{{}},"resources":[
                {{"mode":"managed","type":"terraform_data","name":"db","provider":"provider[\"terraform.io/builtin/terraform\"]",
                "instances":[{{"schema_version":0,"attributes":{{"input":{input}}},"sensitive_attributes":[{sensitive}],
                "dependencies":[{dependencies}]}}]}}]}}"#
            ))
            .unwrap()
        };
        let before = with(3, ["input", "output"], ["a.b", "c.d"], 1);
        let rows = |document: &StateDocument| -> BTreeMap<RowKey, Body> {
            document.rows.iter().map(|row| (row.key.clone(), row.body.clone())).collect()
        };
        let written = rows(&before);
        let ours = written.iter().map(|(key, body)| (key.clone(), Some(body))).collect();
        let keys: Vec<RowKey> = written.keys().cloned().collect();
        for (sensitive, dependencies) in [(["output", "input"], ["a.b", "c.d"]), (["input", "output"], ["c.d", "a.b"])]
        {
            let turned = with(4, sensitive, dependencies, 1);
            assert_ne!(turned.rows[0].body.hash(), before.rows[0].body.hash());
            assert_eq!(unclear(&known(&before), &turned), keys);
            assert_eq!(judge(&known(&before), &written, &turned), Ok(Incoming::Changes(Vec::new())));
            assert_eq!(judge(&known(&before), &written, &with(3, sensitive, dependencies, 1)), Ok(Incoming::Same));
            assert!(undone(&ours, &turned).is_empty());
            let changed = with(4, sensitive, dependencies, 2);
            assert_eq!(names(&judge(&known(&before), &written, &changed).unwrap()), ["+terraform_data.db"]);
            assert_eq!(undone(&ours, &changed).len(), 1);
        }
        // Nothing has to be looked at where order cannot be the reason.
        assert!(unclear(&known(&document(1, "l", A)), &document(2, "l", &A.replace('1', "3"))).is_empty());
        assert!(unclear(&Known::default(), &before).is_empty());
    }

    #[test]
    fn the_same_document_once_more_is_no_change() {
        let before = document(3, "l", A);
        assert_eq!(judged(&known(&before), &before), Ok(Incoming::Same));
        assert_eq!(judged(&known(&before), &document(3, "l", B)), Err(Unfit::OtherContent(Serial(3))));
        let mut other = before.clone();
        other.head.terraform_version = "1.12.0".to_owned();
        assert_eq!(judged(&known(&before), &other), Err(Unfit::OtherContent(Serial(3))));
    }

    #[test]
    fn neither_back_nor_into_another_history() {
        let before = known(&document(3, "l", A));
        assert_eq!(judged(&before, &document(2, "l", A)), Err(Unfit::LowerSerial { has: Serial(3), given: Serial(2) }));
        let other = judged(&before, &document(4, "m", A));
        assert_eq!(other, Err(Unfit::OtherLineage { has: Lineage("l".into()), given: Lineage("m".into()) }));
        assert_eq!(judged(&before, &document(4, "", A)), Err(Unfit::NoLineage(Lineage("l".into()))));
        assert!(judged(&Known::default(), &document(4, "", A)).is_ok());
        assert_eq!(judged(&Known::default(), &document(4, "", "")), Err(Unfit::Nothing));
        assert!(judged(&Known::default(), &document(4, "l", "")).is_ok());
    }
}
