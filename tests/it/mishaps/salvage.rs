//! Mishaps at every step of an apply that fails where `on_failure: salvage` commits at once what Terraform had done.

use super::lab::Lab;
use super::of_an_apply_that_fails;
use super::points::{mishaps, points, untried};
use crate::harness::database::Database;

on_both_databases!(a_mishap_at_any_step_of_a_salvage);

fn a_mishap_at_any_step_of_a_salvage(database: &Database) {
    let lab = Lab::salvaging(database);
    let trace = lab.world();
    trace.breaks();
    let points = untried(points(trace.apply(), 1), &of_an_apply_that_fails(database));
    trace.is_mended();
    let salvaged = "SELECT count(*) FROM runs WHERE kind = 'recover' AND status = 'committed'";
    assert_eq!(trace.database.value(salvaged).as_deref(), Some("1"));
    trace.comes_back("trace");
    lab.try_all(&mishaps(database, &points), |world, mishap| {
        world.breaks();
        world.meets(mishap);
        world.is_mended();
        world.comes_back(mishap);
    });
}
