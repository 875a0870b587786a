//! `kl db migrate` and `kl db roles`.

use camino::Utf8Path;
use serde_json::json;

use super::Session;
use super::args::RolesArgs;
use super::project::Place;
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::style::good;
use crate::store::Roles;

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
