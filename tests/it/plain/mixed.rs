//! Runs of kl and plain Terraforms at the same time on one state, at random: whoever changed an object last is whom the
//! state believes, and in the end both agree that nothing is left to do.
//!
//! `KL_FUZZ_SECONDS=600 cargo nextest run -E 'test(/^plain::mixed::/)' --no-capture` goes on for so long with seeds of its
//! own, which are printed; `KL_FUZZ_SEED=N` repeats the choices of one.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use serde_json::Value;

use crate::backend::{BACKEND, pulled};
use crate::fuzz::mutate::Dice;
use crate::fuzz::{plan, say};
use crate::harness::database::{Database, on};
use crate::harness::kl::{Kl, Said};
use crate::harness::site::{Checkout, Site};
use crate::harness::terraform::program;

on_both_databases!(runs_and_plain_applies_at_random_agree_in_the_end);

/// Each object writes down who made it: the last line is its reality.
const WORLD: &str = r#"
variable "reality" {}
variable "values" { type = map(string) }
resource "terraform_data" "r" {
  for_each         = var.values
  input            = each.value
  triggers_replace = [each.value]
  provisioner "local-exec" {
    command = "echo ${each.value} >> ${var.reality}/${each.key}"
  }
}
output "sum" { value = join(",", [for r in values(terraform_data.r) : r.output]) }
"#;

const KEYS: [&str; 4] = ["a", "b", "c", "d"];
const WORKERS: usize = 3;
const TASKS: usize = 4;

fn runs_and_plain_applies_at_random_agree_in_the_end(database: &Database) {
    let (limit, seed) = plan();
    let (began, mut done) = (Instant::now(), 0);
    say(&format!("plain and kl at random on {:?}: KL_FUZZ_SEED={seed}", database.backend()));
    while done == 0 || limit.is_some_and(|limit| began.elapsed() < limit) {
        let seed = seed.wrapping_add(done);
        say(&format!("KL_FUZZ_SEED={seed}"));
        if done == 0 {
            round(database, seed);
        } else {
            on(database.backend(), |fresh| round(&fresh, seed));
        }
        done += 1;
    }
    say(&format!("{done} rounds in {:?}", began.elapsed()));
}

/// Somebody who works in a checkout.
struct Worker<'a> {
    site: &'a Site,
    checkout: Checkout,
    name: String,
    count: usize,
}

impl Worker<'_> {
    /// The values that this worker wants for these objects; the others stay out of the way by `-target`.
    fn wants(&mut self, keys: &[&str]) -> Vec<String> {
        self.count += 1;
        let values: BTreeMap<&str, String> =
            KEYS.iter().map(|key| (*key, format!("{}-{}-{key}", self.name, self.count))).collect();
        let values = format!("values={}", serde_json::to_string(&values).unwrap());
        let mut args = vec![format!("--var={values}"), format!("--var=reality={}", self.site.path("reality"))];
        args.extend(keys.iter().map(|key| format!("--target=terraform_data.r[\"{key}\"]")));
        args
    }

    fn kl(&self, args: &[&str]) -> Kl {
        self.site.kl().dir(self.checkout.dir()).args(args.iter().copied()).args(["--actor", &self.name])
    }

    fn plain(&self, args: &[&str]) -> Kl {
        let exec = self.site.kl().dir(self.checkout.dir()).args(["exec", "--dir", "live", "--actor", &self.name]);
        exec.args(["--", program().as_str()]).args(args.iter().copied())
    }

    /// Does something. Being refused because others work there is in order.
    fn does(&mut self, dice: &mut Dice) {
        let keys: Vec<&str> = KEYS.into_iter().filter(|_| dice.below(2) == 0).collect();
        let keys = if keys.is_empty() { vec![KEYS[dice.below(KEYS.len())]] } else { keys };
        let wants = self.wants(&keys);
        let apply = ["apply", "-auto-approve", "-input=false", "-no-color"];
        let what = dice.below(6);
        let said = match what {
            0 => self.ended(self.plain(&apply).args(wants), &[0, 1]),
            1 => self.ended(self.plain(&apply).arg("-lock-timeout=3s").args(wants), &[0, 1]),
            2 => self.ended(self.kl(&["apply", "live", "--auto-approve"]).args(wants), &[0, 2, 4]),
            3 => self.ended(self.kl(&["apply", "live", "--auto-approve", "--wait", "1m"]).args(wants), &[0, 2, 4]),
            4 => {
                let spec = self.site.path(format!("{}-{}.json", self.name, self.count)).into_string();
                drop(self.ended(self.kl(&["plan", "live", "--out", &spec]).args(wants.clone()), &[0]));
                let apply = self.kl(&["apply", &spec, "--dir", "live", "--wait", "1m"]);
                // The targets are the spec's.
                self.ended(apply.args(wants.into_iter().filter(|arg| arg.starts_with("--var"))), &[0, 2, 4])
            }
            _ => {
                let wants = wants.into_iter().filter(|arg| arg.starts_with("--var"));
                self.ended(self.kl(&["refresh", "live"]).args(wants), &[0, 2])
            }
        };
        let refused = said.stderr.contains("already locked");
        assert!(what > 1 || !said.stderr.contains("Error") || refused, "{said:?}");
    }

    fn ended(&self, kl: Kl, codes: &[i32]) -> Said {
        let (status, said) = kl.spawn().ends();
        assert!(status.code().is_some_and(|code| codes.contains(&code)), "{}: {status} {said:?}", self.name);
        said
    }
}

fn round(database: &Database, seed: u64) {
    let site = Site::on(database);
    site.write("live/backend.tf", BACKEND);
    site.write("live/main.tf", WORLD);
    fs::create_dir(site.path("reality")).unwrap();
    let worker = |name: String| {
        let checkout = site.checkout(&name);
        let worker = Worker { site: &site, checkout, name, count: 0 };
        drop(worker.plain(&["init", "-input=false"]).exits(0));
        worker
    };
    let mut first = worker("first".to_owned());
    let wants = first.wants(&[]);
    drop(first.plain(&["apply", "-auto-approve", "-input=false"]).args(wants).exits(0));
    let mut workers: Vec<Worker<'_>> = (0..WORKERS).map(|number| worker(format!("worker{number}"))).collect();
    std::thread::scope(|scope| {
        for (worker, number) in workers.iter_mut().zip(1..) {
            scope.spawn(move || {
                let mut dice = Dice::new(seed.wrapping_mul(31).wrapping_add(number));
                for _ in 0..TASKS {
                    worker.does(&mut dice);
                }
            });
        }
    });

    // Whoever made an object last is whom the state believes.
    let state = pulled(&site);
    let mut values = BTreeMap::new();
    for instance in state["resources"][0]["instances"].as_array().unwrap() {
        let key = instance["index_key"].as_str().unwrap();
        let value = instance["attributes"]["input"]["value"].as_str().unwrap();
        let made = fs::read_to_string(site.path("reality").join(key)).unwrap();
        assert_eq!(made.lines().last(), Some(value), "{key}: {made}");
        values.insert(key.to_owned(), value.to_owned());
    }
    assert_eq!(values.len(), KEYS.len());
    // Targets leave outputs behind; after one whole apply both agree that nothing is left.
    let given = [
        format!("--var=values={}", serde_json::to_string(&values).unwrap()),
        format!("--var=reality={}", site.path("reality")),
    ];
    drop(first.plain(&["apply", "-auto-approve", "-input=false"]).args(given.clone()).exits(0));
    for (key, value) in &values {
        let made = fs::read_to_string(site.path("reality").join(key)).unwrap();
        assert_eq!(made.lines().last(), Some(value.as_str()), "nothing was made again");
    }
    drop(first.plain(&["plan", "-detailed-exitcode", "-input=false"]).args(given.clone()).exits(0));
    let spec: Value = first.kl(&["plan", "live", "--format", "json"]).args(given.clone()).exits(0).json();
    assert!(spec["writes"].as_array().is_none_or(Vec::is_empty), "{spec}");
    drop(first.kl(&["refresh", "live"]).args(given).exits(0));
    let left = |sql: &str| database.value(sql);
    assert_eq!(left("SELECT count(*) FROM runs WHERE ended_at IS NULL"), Some("0".into()));
    assert_eq!(left("SELECT count(*) FROM resource_reservations WHERE released_at IS NULL"), Some("0".into()));
    drop(site.kl().args(["db", "check"]).exits(0));
}
