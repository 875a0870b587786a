//! Objects whose provisioners were cut off. Terraform has an object in its state before it provisions it, and writes that
//! down as soon as another one is done; only when it ends by itself does it mark those tainted that were not provisioned.

use std::collections::{BTreeMap, BTreeSet};

use super::in_flight::InFlight;
use crate::domain::state::delta::{Distance, distance};
use crate::domain::state::document::{self, DocumentError};
use crate::domain::state::moving::as_tainted;
use crate::domain::state::{Row, RowKey, projection};

/// A state that a Terraform left which was cut off, with what was half made in it tainted, as Terraform itself would have
/// had it: the next apply makes it anew. `before` are the rows with which it began.
///
/// # Errors
/// When the text is no state document.
pub fn tainted(text: String, in_flight: &InFlight, before: &[Row]) -> Result<String, DocumentError> {
    let half: BTreeSet<&str> = in_flight.half_made().collect();
    if half.is_empty() {
        return Ok(text);
    }
    let before: BTreeMap<&RowKey, &Row> = before.iter().map(|row| (&row.key, row)).collect();
    let mut document = document::read(&text)?;
    let mut found = false;
    for row in &mut document.rows {
        let current = matches!(row.key, RowKey::Object { deposed: None, .. });
        if !current || !half.contains(row.key.address_text().as_str()) {
            continue;
        }
        // The state is of before it was made, where it has the old object.
        let made = match before.get(&row.key) {
            Some(old) => distance(&old.body, &row.body).map_or(true, |apart| apart == Distance::Hard),
            None => true,
        };
        if made {
            row.body = as_tainted(row);
            found = true;
        }
    }
    Ok(if found { projection::write(&document) } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(instances: &[(&str, &str)]) -> String {
        let resource = |(name, id): &(&str, &str)| {
            format!(
                r#"{{"mode":"managed","type":"a","name":"{name}","provider":"provider[\"x/y/a\"]","instances":[{{"schema_version":0,"attributes":{{"id":"{id}"}}}}]}}"#
            )
        };
        let resources: Vec<String> = instances.iter().map(resource).collect();
        format!(r#"{{"version":4,"serial":2,"lineage":"l","resources":[{}]}}"#, resources.join(","))
    }

    #[test]
    fn what_was_made_and_not_provisioned_to_its_end_is_tainted() {
        let mut in_flight = InFlight::default();
        for (address, action) in
            [("a.cut", "create"), ("a.done", "create"), ("a.old", "create"), ("a.bare", "create"), ("a.gone", "delete")]
        {
            in_flight.began(address, action);
            if address != "a.bare" {
                in_flight.provisions(address);
            }
        }
        in_flight.completed("a.done", 1);
        let before = document::read(&state(&[("old", "1"), ("gone", "1")])).unwrap().rows;
        let after = state(&[("cut", "1"), ("done", "1"), ("old", "1"), ("bare", "1"), ("gone", "1")]);
        let told = tainted(after, &in_flight, &before).unwrap();
        let told = document::read(&told).unwrap();
        let marked = |row: &&Row| row.body.text().contains("\"status\":\"tainted\"");
        let marked: Vec<String> = told.rows.iter().filter(marked).map(|row| row.key.address_text()).collect();
        assert_eq!(marked, ["a.cut"]);
        assert_eq!((told.serial.0, told.rows.len()), (2, 5));
        // A replacement: the row has another content than before.
        let replaced = state(&[("cut", "1"), ("old", "2")]);
        let told = tainted(replaced, &in_flight, &before).unwrap();
        assert_eq!(told.matches("tainted").count(), 2);
        let nothing = state(&[("done", "1")]);
        assert_eq!(tainted(nothing.clone(), &in_flight, &before).unwrap(), nothing, "byte for byte");
        assert_eq!(tainted(String::new(), &in_flight, &before).unwrap(), "");
    }
}
