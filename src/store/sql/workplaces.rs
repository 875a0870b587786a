//! Where the Terraform of each run works.

use sqlx::{query, query_as};

use super::Connection;
use crate::domain::id::RunId;
use crate::domain::run::workplace::Workplace;
use crate::store::codec::{self, WorkplaceColumns};
use crate::store::fault::Fault;
use crate::store::not_found;
use crate::store::values::Id;

pub(super) async fn put(db: &mut Connection, run: RunId, workplace: &Workplace) -> Result<(), Fault> {
    let group = workplace.group.as_ref();
    let put = query(concat!(
        "INSERT INTO run_workplaces (run_id, host, dir, process_group, group_started, slice_serial, recorded_at)
         VALUES ($1, $2, $3, $4, $5, $6, ",
        now!(),
        ") ON CONFLICT (run_id) DO UPDATE SET host = excluded.host, dir = excluded.dir,
           process_group = excluded.process_group, group_started = excluded.group_started,
           slice_serial = excluded.slice_serial, recorded_at = excluded.recorded_at"
    ))
    .bind(Id(run.0))
    .bind(codec::json(&workplace.host)?)
    .bind(codec::plain(&workplace.dir))
    .bind(group.map(|group| i64::from(group.id)))
    .bind(group.and_then(|group| group.started).and_then(|started| i64::try_from(started).ok()))
    .bind(workplace.slice_serial.0)
    .execute(db)
    .await
    .map_err(Fault::from);
    match put {
        Err(fault) if fault.missing_reference() => Err(not_found("run", run).into()),
        other => other.map(drop),
    }
}

pub(super) async fn find(db: &mut Connection, run: RunId) -> Result<Option<Workplace>, Fault> {
    let found: Option<WorkplaceColumns> =
        query_as("SELECT host, dir, process_group, group_started, slice_serial FROM run_workplaces WHERE run_id = $1")
            .bind(Id(run.0))
            .fetch_optional(db)
            .await?;
    Ok(found.map(codec::workplace).transpose()?)
}

pub(super) async fn forget(db: &mut Connection, run: RunId) -> Result<(), Fault> {
    query("DELETE FROM run_workplaces WHERE run_id = $1").bind(Id(run.0)).execute(db).await?;
    Ok(())
}
