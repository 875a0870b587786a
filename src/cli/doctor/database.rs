//! Whether the database can be reached, has a schema that fits, and knows the states.

use super::Check;
use crate::cli::project::Place;
use crate::cli::{Session, env};
use crate::config::catalog::Catalog;
use crate::error::KlError;
use crate::store::{DatabaseUrl, Memory, Store, StoreError};

const SUBJECT: &str = "database";

/// Looks at the database.
pub(super) async fn checks(
    session: &Session,
    place: Option<&Place>,
    catalog: Option<&Catalog>,
    ci: bool,
) -> Vec<Check> {
    let named = session.global.database.is_some() || session.env.get(env::DATABASE_URL).is_some();
    // Without a configuration nobody knows where the embedded database would be.
    let Some(place) = place else { return Vec::new() };
    let mut checks = Vec::new();
    if ci && !named {
        checks.push(Check::problem(
            SUBJECT,
            "no database is named, and the embedded one is gone when the job ends",
            "set KL_DATABASE_URL to a PostgreSQL database that all jobs share",
        ));
    }
    let found = match session.database(place) {
        Ok(url) => look(&url).await,
        Err(error) => Err(error),
    };
    match found {
        Err(error) => checks.push(Check::failed(SUBJECT, &error)),
        Ok((check, store)) => {
            checks.push(check);
            if let (Some(store), Some(catalog)) = (store, catalog) {
                checks.extend(states(store.as_ref(), catalog).await);
            }
        }
    }
    checks
}

/// Opens the database, as far as that changes nothing.
async fn look(url: &DatabaseUrl) -> Result<(Check, Option<std::sync::Arc<dyn Store>>), KlError> {
    if url.is_missing() {
        // Whether it could be made.
        drop(Memory::find(url).await?);
        return Ok((Check::ok(SUBJECT, format!("{url} does not exist yet; the first plan makes it")), None));
    }
    let store = crate::store::open_unchecked(url).await?;
    store.now().await?;
    match store.schema_check().await {
        Ok(()) => Ok((Check::ok(SUBJECT, format!("{url} answers, and its schema is up to date")), Some(store))),
        // Not read: an older schema may lack what is asked for.
        Err(StoreError::SchemaTooOld { .. }) if url.is_sqlite() => Ok((
            Check::ok(SUBJECT, format!("{url} is of an older kl, and brought up to date by the next command")),
            None,
        )),
        Err(error) => Err(error.into()),
    }
}

/// Which states there are.
async fn states(store: &dyn Store, catalog: &Catalog) -> Vec<Check> {
    let mut checks = Vec::new();
    for project in &catalog.projects {
        let name = project.state.as_str();
        checks.push(match store.state_find(&project.state).await {
            Ok(Some(head)) => Check::ok(SUBJECT, format!("state {name} is at serial {}", head.serial)),
            Ok(None) => Check::warning(
                SUBJECT,
                format!("there is no state {name} yet, for project {}", project.name),
                format!(
                    "`kl state import FILE --state {name}` takes over a state that exists elsewhere; else the first plan begins \
                     a new one"
                ),
            ),
            Err(error) => Check::failed(SUBJECT, &error.into()),
        });
    }
    checks
}
