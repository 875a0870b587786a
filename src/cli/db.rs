//! `kl db migrate`, `kl db roles` and `kl db check`.

use camino::Utf8Path;
use serde_json::{Value, json};

use super::Session;
use super::args::RolesArgs;
use super::project::Place;
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::style::{count, dim, good, loud, plain};
use crate::store::Roles;
use crate::store::model::{CheckReport, Looked, Violation};

/// `kl db migrate`.
pub async fn migrate(session: &Session) -> Result<Exit, KlError> {
    let place = Place::find(Utf8Path::new("."))?;
    let store = crate::store::open_unchecked(&session.database(&place)?).await?;
    let (before, after) = store.migrate().await?;
    let text = if before == after {
        format!("{} The schema is up to date (version {after}).\n", good("✓"))
    } else {
        format!("{} The schema went from version {before} to {after}.\n", good("✓"))
    };
    session.out.result(&text, || json!({ "before": before, "after": after }));
    Ok(Exit::Done)
}

/// `kl db roles`. Looks at no database: the statements are for whoever owns one.
pub fn roles(session: &Session, args: &RolesArgs) -> Result<Exit, KlError> {
    if args.plan == args.apply {
        return Err(KlError::usage("the roles for planning and for applying have to be two"));
    }
    let control = [&args.plan, &args.apply, &args.schema]
        .into_iter()
        .find(|name| name.is_empty() || name.chars().any(char::is_control));
    if let Some(name) = control {
        return Err(KlError::usage(format!("{name:?} is no name of a role or a schema")));
    }
    let sql = Roles { plan: &args.plan, apply: &args.apply, schema: &args.schema }.sql();
    session.out.result(&sql, || json!({ "sql": sql }));
    Ok(Exit::Done)
}

/// `kl db check`.
pub async fn check(session: &Session) -> Result<Exit, KlError> {
    let store = session.store_here().await?;
    let report = store.database_check().await?;
    session.out.result(&check_text(&report), || check_json(&report));
    Ok(if report.sound() { Exit::Done } else { Exit::Failed })
}

fn check_text(report: &CheckReport) -> String {
    let Looked { states, versions, lifecycles, contents, runs } = report.looked;
    let looked =
        [(states, "state"), (versions, "version"), (lifecycles, "lifecycle"), (contents, "content"), (runs, "run")]
            .map(|(number, thing)| count(usize::try_from(number).unwrap_or(usize::MAX), thing));
    let looked = looked.join(", ");
    if report.sound() {
        return format!("{} The database is sound: {looked}.\n", good("✓"));
    }
    let mut text = String::new();
    for kind in report.violations.chunk_by(|one, next| one.invariant == next.invariant) {
        let [first, ..] = kind else { continue };
        let invariant = first.invariant;
        for one in kind {
            text.push_str(&format!("{} {}\n", loud(invariant.word()), violation(one)));
        }
        if report.more.contains(&invariant) {
            text.push_str("  … and more of this kind\n");
        }
        text.push_str(&format!("  {}\n", dim(format!("→ {}", invariant.next()))));
    }
    text + &format!(
        "{} in {looked}. docs/operations.md says what to do with a database that is not sound.\n",
        count(report.violations.len(), "violation")
    )
}

fn check_json(report: &CheckReport) -> Value {
    let one = |one: &Violation| {
        json!({
            "invariant": one.invariant,
            "state": one.state,
            "row": one.subject,
            "serial": one.serial,
            "run": one.run,
            "problem": one.problem,
            "next": one.invariant.next(),
        })
    };
    json!({
        "sound": report.sound(),
        "looked_at": report.looked,
        "violations": report.violations.iter().map(one).collect::<Vec<_>>(),
        "more": report.more,
    })
}

/// Where it is, and what is wrong.
fn violation(one: &Violation) -> String {
    let state = one.state.as_deref().map(|name| format!("state {}", plain(name)));
    let serial = one.serial.map(|serial| format!("serial {serial}"));
    let run = one.run.map(|run| format!("run {run}"));
    let place: Vec<String> = [state, one.subject.as_deref().map(plain), serial, run].into_iter().flatten().collect();
    format!("{}: {}", place.join(", "), plain(&one.problem))
}
