//! Mishaps at every step of a refresh: refreshing again takes over what was edited behind Terraform's back, once.

use serde_json::Value;

use super::{Lab, meets, mishaps, try_each};
use crate::harness::database::Database;
use crate::harness::kl::Kl;
use crate::harness::providers::{KLT, Object, needs};

on_both_databases!(a_mishap_at_any_step_of_a_refresh);

/// A state whose object was edited by hand.
struct Drifted<'a> {
    lab: &'a Lab<'a>,
    name: String,
    serial: i64,
}

/// What all of them begin with: a state document, and the place of its object in it.
struct Template {
    document: String,
    object: String,
}

impl Template {
    fn new(lab: &Lab<'_>) -> Self {
        needs("example/klt");
        let config = format!(
            "terraform {{\n  required_providers {{\n    {KLT}\n  }}\n}}\nvariable \"path\" {{}}\nresource \"klt_file\" \"a\" {{\n  path    = var.path\n  content = \"made\"\n}}\n"
        );
        lab.site.write("drift/main.tf", &config);
        let object = lab.site.path("template.json").into_string();
        let kl = || lab.site.kl();
        let var = format!("--var=path={object}");
        drop(kl().args(["apply", "drift", "--state", "template", "--auto-approve", &var]).exits(0));
        let document = kl().args(["state", "pull", "drift", "--state", "template"]).exits(0).stdout;
        Self { document, object }
    }

    fn drifted<'a>(&self, lab: &'a Lab<'a>, name: &str) -> Drifted<'a> {
        let object = lab.site.path(format!("{name}.json"));
        std::fs::copy(&self.object, &object).unwrap();
        Object::at(object.clone()).edit("edited");
        let document = self.document.replace(&self.object, object.as_str());
        let args = ["state", "import", "-", "--dir", "drift", "--state", name];
        drop(lab.site.kl().args(args).stdin(document).exits(0));
        let mut drifted = Drifted { lab, name: name.to_owned(), serial: 0 };
        drifted.serial = drifted.pulled()["serial"].as_i64().unwrap();
        drifted
    }
}

impl Drifted<'_> {
    fn refresh(&self) -> Kl {
        let var = format!("--var=path={}", self.lab.site.path(format!("{}.json", self.name)));
        self.lab.site.kl().args(["refresh", "drift", "--state", &self.name, &var])
    }

    fn pulled(&self) -> Value {
        self.lab.site.kl().args(["state", "pull", "drift", "--state", &self.name]).exits(0).json()
    }

    fn comes_back(&self, mishap: &str) {
        let said = self.refresh().args(["--wait", "1m"]).exits(0);
        let pulled = self.pulled();
        let content = &pulled["resources"][0]["instances"][0]["attributes"]["content"];
        assert_eq!(
            (content.as_str(), pulled["serial"].as_i64()),
            (Some("edited"), Some(self.serial + 1)),
            "{mishap}: {said:?}"
        );
    }
}

fn a_mishap_at_any_step_of_a_refresh(database: &Database) {
    let lab = Lab::new(database);
    let template = Template::new(&lab);
    let points = lab.points(template.drifted(&lab, "trace").refresh(), 0);
    try_each(&mishaps(database, &points), |number, mishap| {
        let drifted = template.drifted(&lab, &format!("drift-{number}"));
        meets(drifted.refresh().args(["--lease", "1s"]), mishap);
        drifted.comes_back(mishap);
    });
    lab.everything_ended();
    // What the dead have left, the next refresh clears away.
    template.drifted(&lab, "last").comes_back("nothing");
    assert_eq!(lab.site.leftovers(), Vec::<String>::new());
}
