//! `kl gc`: says what is no longer needed, and removes it when told to.

use serde_json::{Value, json};

use super::Session;
use super::args::GcArgs;
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::style::{bold, dim, duration, good};
use crate::report::table::columns;
use crate::store::StoreError;
use crate::store::model::{Garbage, GarbageKind, Retention};

/// So many things are removed in one transaction: short enough for the runs beside it.
const BATCH: u32 = 1_000;

/// Runs the command.
pub async fn run(session: &Session, args: GcArgs) -> Result<Exit, KlError> {
    let store = session.store_here().await?;
    let retention = Retention { younger_than: args.older_than, versions: args.keep_serials };
    let mut found = Vec::with_capacity(GarbageKind::ALL.len());
    for kind in GarbageKind::ALL {
        let garbage = if args.yes {
            let mut removed = Garbage::default();
            loop {
                let some = store.garbage_remove(kind, &retention, BATCH).await.map_err(refused)?;
                if some.count == 0 {
                    break removed;
                }
                removed += some;
            }
        } else {
            store.garbage_count(kind, &retention).await?
        };
        found.push((kind, garbage));
    }
    session.out.result(&text(&found, &args), || document(&found, &args));
    Ok(Exit::Done)
}

/// What a role that is not the owner of the tables hears.
fn refused(error: StoreError) -> KlError {
    KlError::from(error).hint("on PostgreSQL only the owner of kl's tables may remove history: see docs/operations.md")
}

fn text(found: &[(GarbageKind, Garbage)], args: &GcArgs) -> String {
    let age = duration(args.older_than);
    let rows: Vec<Vec<String>> = found
        .iter()
        .filter(|(_, garbage)| garbage.count > 0)
        .map(|(kind, garbage)| {
            let size = if garbage.bytes > 0 { size(garbage.bytes) } else { String::new() };
            vec![garbage.count.to_string(), kind.label().to_owned(), size]
        })
        .collect();
    if rows.is_empty() {
        return format!("{} Nothing that is older than {age} can go.\n", good("✓"));
    }
    let table = columns(&["COUNT", "WHAT", "TEXT"], &rows);
    if args.yes {
        format!("{} Removed what was older than {age} and is no longer needed:\n{table}", good("✓"))
    } else {
        format!(
            "{table}{}\n",
            dim(format!("Nothing was removed. `{}` removes it; every backup still has it.", bold("kl gc --yes")))
        )
    }
}

fn document(found: &[(GarbageKind, Garbage)], args: &GcArgs) -> Value {
    let one = |(kind, garbage): &(GarbageKind, Garbage)| json!({ "kind": kind, "count": garbage.count, "bytes": garbage.bytes });
    json!({
        "removed": args.yes,
        "older_than_seconds": args.older_than.as_secs(),
        "keep_serials": args.keep_serials,
        "garbage": found.iter().map(one).collect::<Vec<_>>(),
    })
}

/// `12 bytes`, `3.4 MB`.
fn size(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1_000 => return format!("{bytes} bytes"),
        1_000..1_000_000 => (1_000, "kB"),
        1_000_000..1_000_000_000 => (1_000_000, "MB"),
        _ => (1_000_000_000, "GB"),
    };
    format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_say_them() {
        for (bytes, text) in [(7, "7 bytes"), (1_000, "1.0 kB"), (3_450_000, "3.4 MB"), (12_000_000_000, "12.0 GB")] {
            assert_eq!(size(bytes), text);
        }
    }
}
