//! Mishaps at every step of a refresh: refreshing again takes over what was edited behind Terraform's back, once.

use serde_json::Value;

use super::lab::{Lab, World};
use super::{meets, mishaps, of_an_apply, points, telling};
use crate::harness::database::Database;
use crate::harness::kl::Kl;
use crate::harness::providers::{KLT, Object, needs};

on_both_databases!(a_mishap_at_any_step_of_a_refresh);

fn refresh(world: &World) -> Kl {
    world.kl("refresh").arg("live")
}

fn pulled(world: &World) -> Value {
    world.kl("state").args(["pull", "live"]).exits(0).json()
}

fn a_mishap_at_any_step_of_a_refresh(database: &Database) {
    needs("example/klt");
    // A refresh changes nothing but the state, so that all worlds have the same object.
    let place = tempfile::tempdir().unwrap();
    let object = camino::Utf8Path::from_path(place.path()).unwrap().join("a.json");
    let config = format!(
        "terraform {{\n  required_providers {{\n    {KLT}\n  }}\n}}\nresource \"klt_file\" \"a\" {{\n  path    = \"{object}\"\n  content = \"made\"\n}}\n"
    );
    let lab = Lab::with(database, &[("live/main.tf", &config)], |world| {
        drop(world.kl("apply").args(["live", "--auto-approve"]).exits(0));
        Object::at(object.clone()).edit("edited");
    });
    let serial = pulled(&lab.world())["serial"].as_i64().unwrap();
    // Each attempt takes seconds: this provider is a slow one.
    let points = telling(points(refresh(&lab.world()), 0), &of_an_apply(database));
    lab.try_all(&mishaps(database, &points), |world, mishap| {
        meets(refresh(world).args(["--lease", "1s"]), mishap);
        let said = refresh(world).args(["--wait", "1m"]).exits(0);
        let pulled = pulled(world);
        let content = &pulled["resources"][0]["instances"][0]["attributes"]["content"];
        let now = (content.as_str(), pulled["serial"].as_i64());
        assert_eq!(now, (Some("edited"), Some(serial + 1)), "{mishap}: {said:?}");
    });
}
