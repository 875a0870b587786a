//! Random configurations and random edits of them, applied by kl and by plain Terraform.
//!
//! The seeds are fixed; `KL_TEST_SEEDS=200 cargo test --test it random` tries more of them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::bed::{Bed, Spec, rows};

/// How many seeds the suite tries.
const SEEDS: u64 = 6;

#[test]
fn random_edits_come_to_the_same_as_with_plain_terraform() {
    let seeds = std::env::var("KL_TEST_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    for seed in 0..seeds {
        try_seed(seed);
    }
}

/// Makes one random edit in both ways and compares.
fn try_seed(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
    let before = Model::random(&mut dice);
    let mut after = before.clone();
    for _ in 0..=dice.below(2) {
        after.edit(&mut dice);
    }
    let told = format!("seed {seed}\n--- before\n{}\n--- after\n{}", before.text(), after.text());
    let bed = Bed::new(&before.text());
    let state = bed.plain(None, &[]);
    bed.import(&state);
    bed.write(&after.text());
    let spec = bed.plan(&[]);
    if spec.writes().is_empty() {
        return;
    }
    sound(&bed, &spec, &state, &told);

    let lane = if spec.reasons().is_empty() { "narrow" } else { "auto" };
    let said = bed.kl(&["apply", "kl-plan.json", "--lane", lane]);
    assert_eq!(said.code, 0, "{told}\n{said}");
    let made = rows(&bed.pull(), &state);
    let plain = rows(&bed.plain(Some(&state), &[]), &state);
    assert_eq!(made, plain, "kl (left) and plain terraform (right)\n{told}\n{said}");
    if let Some(changes) = bed.plain_changes(&bed.pull(), &[]) {
        panic!("plain terraform would still change the pulled state:\n{changes}\n{told}\n{said}");
    }
}

/// Whatever happens to rows that a plan neither reads nor writes, it stays the same plan.
fn sound(bed: &Bed, spec: &Spec, state: &str, told: &str) {
    let mut perturbed: Value = serde_json::from_str(state).expect("a state is JSON");
    let used: Vec<String> = spec.reads().into_iter().chain(written(spec)).collect();
    let mut touched = false;
    for resource in perturbed["resources"].as_array_mut().expect("it has resources") {
        let block = block_address(resource);
        for instance in resource["instances"].as_array_mut().expect("it has instances") {
            let address = match &instance["index_key"] {
                Value::Null => block.clone(),
                key => format!("{block}[{key}]"),
            };
            // A pattern without keys covers every instance, of the resource as of its modules.
            let covered = used.iter().any(|pattern| *pattern == address || same_without_keys(pattern, &address));
            if !covered && instance["attributes"]["output"].is_object() {
                instance["attributes"]["output"]["value"] = "perturbed".into();
                touched = true;
            }
        }
    }
    if touched {
        let (plan, other) = (changes(bed, spec, state), changes(bed, spec, &perturbed.to_string()));
        assert_eq!(plan, other, "the plan depends on rows outside its read set {used:?}\n{told}");
    }
}

fn written(spec: &Spec) -> BTreeSet<String> {
    let entries = spec.0["write"].as_array().into_iter().flatten();
    let both =
        |entry: &Value| [entry["address"].as_str(), entry["moved_from"].as_str()].map(|at| at.map(str::to_owned));
    entries.flat_map(both).flatten().collect()
}

/// Whether the pattern names the address, with keys left out at some of its steps. The keys of these tests hold neither
/// dots nor brackets.
fn same_without_keys(pattern: &str, address: &str) -> bool {
    let (ours, theirs): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), address.split('.').collect());
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(|(own, their)| *own == their || their.split('[').next() == Some(own))
}

fn block_address(resource: &Value) -> String {
    let part = |name: &str| resource[name].as_str().unwrap_or_default();
    let module = if part("module").is_empty() { String::new() } else { format!("{}.", part("module")) };
    format!("{module}{}.{}", part("type"), part("name"))
}

/// What plain Terraform plans for the write set of a spec.
fn changes(bed: &Bed, spec: &Spec, state: &str) -> BTreeMap<String, String> {
    let plan = bed.plain_plan(state);
    let written = written(spec);
    let objects = plan["resource_changes"].as_array().into_iter().flatten().filter_map(|change| {
        let address = change["address"].as_str()?.to_owned();
        written.contains(&address).then(|| (address, change["change"].to_string()))
    });
    let outputs = spec.0["outputs"].as_array().into_iter().flatten().filter_map(|output| {
        let name = output["name"].as_str()?;
        Some((format!("output.{name}"), plan["output_changes"][name].to_string()))
    });
    objects.chain(outputs).collect()
}

/// A small deterministic source of chance.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit.max(1)).unwrap_or(1)).unwrap_or(0)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// What a piece of a configuration is.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Resource,
    Local,
    Module,
}

/// One block, and what it is made from.
#[derive(Clone)]
struct Piece {
    name: usize,
    kind: Kind,
    value: u64,
    /// Keys of `for_each`; none for a single one. `k0` is always among them.
    keys: Option<Vec<usize>>,
    /// Names of earlier pieces whose values go in.
    uses: Vec<(usize, Use)>,
    /// Earlier pieces that it waits for.
    after: Vec<usize>,
    triggers: bool,
    create_first: bool,
}

/// How a piece looks at another.
#[derive(Clone, Copy)]
enum Use {
    All,
    One,
}

/// A random configuration.
#[derive(Clone)]
struct Model {
    pieces: Vec<Piece>,
    outputs: Vec<(usize, usize)>,
    next: usize,
}

impl Model {
    fn random(dice: &mut Dice) -> Self {
        let mut model = Self { pieces: Vec::new(), outputs: Vec::new(), next: 0 };
        for _ in 0..6 + dice.below(5) {
            model.add(dice);
        }
        for name in 0..=dice.below(3) {
            let piece = dice.below(model.pieces.len());
            model.outputs.push((name, model.pieces[piece].name));
        }
        model
    }

    fn add(&mut self, dice: &mut Dice) {
        let kind = match dice.below(10) {
            0..5 => Kind::Resource,
            5..7 => Kind::Local,
            _ => Kind::Module,
        };
        let names: Vec<usize> = self.pieces.iter().map(|piece| piece.name).collect();
        let waits: Vec<usize> =
            self.pieces.iter().filter(|piece| piece.kind != Kind::Local).map(|piece| piece.name).collect();
        let some = |dice: &mut Dice, names: &[usize], most: usize| -> Vec<usize> {
            let count = if names.is_empty() { 0 } else { dice.below(most + 1) };
            let picked: BTreeSet<usize> = (0..count).map(|_| names[dice.below(names.len())]).collect();
            picked.into_iter().collect()
        };
        let keyed = kind != Kind::Local && dice.chance(45);
        let uses = some(dice, &names, 2);
        let piece = Piece {
            name: self.next,
            kind,
            value: dice.next() % 1000,
            keys: keyed.then(|| (0..=dice.below(3)).collect()),
            uses: uses.into_iter().map(|name| (name, if dice.chance(50) { Use::All } else { Use::One })).collect(),
            after: if kind != Kind::Local && dice.chance(20) { some(dice, &waits, 1) } else { Vec::new() },
            triggers: kind == Kind::Resource && dice.chance(20),
            create_first: kind == Kind::Resource && dice.chance(15),
        };
        self.next += 1;
        self.pieces.push(piece);
    }

    fn edit(&mut self, dice: &mut Dice) {
        let at = dice.below(self.pieces.len());
        match dice.below(10) {
            0..5 => self.pieces[at].value += 1,
            5..7 => {
                if let Some(keys) = &mut self.pieces[at].keys {
                    if keys.len() > 1 && dice.chance(50) {
                        keys.pop();
                    } else {
                        keys.push(keys.len() + 3);
                    }
                }
            }
            7 => self.add(dice),
            8 => {
                let gone = self.pieces.remove(at).name;
                for piece in &mut self.pieces {
                    piece.uses.retain(|(name, _)| *name != gone);
                    piece.after.retain(|name| *name != gone);
                }
                self.outputs.retain(|(_, name)| *name != gone);
            }
            _ => {
                let name = self.outputs.len() + 10;
                self.outputs.push((name, self.pieces[at].name));
            }
        }
    }

    /// The value of a piece, as another one sees it.
    fn value_of(&self, name: usize, how: Use) -> String {
        let piece = self.pieces.iter().find(|piece| piece.name == name).expect("uses name pieces that are there");
        let (object, member) = match piece.kind {
            Kind::Local => return format!("local.l{name}"),
            Kind::Resource => (format!("terraform_data.r{name}"), "output"),
            Kind::Module => (format!("module.m{name}"), "out"),
        };
        match (&piece.keys, how) {
            (None, _) => format!("{object}.{member}"),
            (Some(_), Use::One) => format!("{object}[\"k0\"].{member}"),
            (Some(_), Use::All) => format!("join(\"+\", values({object})[*].{member})"),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            let parts = piece
                .uses
                .iter()
                .fold(String::new(), |text, (name, how)| text + "-${" + &self.value_of(*name, *how) + "}");
            let mine = |each: &str| format!("substr(sha1(\"{}{each}{parts}\"), 0, 8)", piece.value);
            let each = if piece.keys.is_some() { "-${each.key}" } else { "" };
            let keys = piece.keys.as_ref().map(|keys| {
                let keys: Vec<String> = keys.iter().map(|key| format!("\"k{key}\"")).collect();
                format!(" for_each = toset([{}])\n", keys.join(", "))
            });
            let after: Vec<String> = piece
                .after
                .iter()
                .filter_map(|name| self.pieces.iter().find(|piece| piece.name == *name))
                .map(|piece| match piece.kind {
                    Kind::Module => format!("module.m{}", piece.name),
                    _ => format!("terraform_data.r{}", piece.name),
                })
                .collect();
            let after =
                if after.is_empty() { String::new() } else { format!(" depends_on = [{}]\n", after.join(", ")) };
            let name = piece.name;
            match piece.kind {
                Kind::Local => text.push_str(&format!("locals {{ l{name} = {} }}\n", mine(""))),
                Kind::Resource => {
                    let triggers =
                        if piece.triggers { format!(" triggers_replace = {}\n", mine("")) } else { String::new() };
                    let first = if piece.create_first { " lifecycle { create_before_destroy = true }\n" } else { "" };
                    text.push_str(&format!(
                        "resource \"terraform_data\" \"r{name}\" {{\n{} input = {}\n{triggers}{first}{after}}}\n",
                        keys.unwrap_or_default(),
                        mine(each),
                    ));
                }
                Kind::Module => text.push_str(&format!(
                    "module \"m{name}\" {{\n source = \"./m\"\n{} in = {}\n{after}}}\n",
                    keys.unwrap_or_default(),
                    mine(each),
                )),
            }
        }
        for (name, piece) in &self.outputs {
            text.push_str(&format!("output \"o{name}\" {{ value = {} }}\n", self.value_of(*piece, Use::All)));
        }
        text + MODULE
    }
}

/// The module that every call calls: a chain with instances and a module of its own.
const MODULE: &str = r#"
### m/main.tf
variable "in" {}
locals { both = "${var.in}!" }
resource "terraform_data" "x" {
  for_each = toset(["a", "b"])
  input    = "${local.both}${each.key}"
}
resource "terraform_data" "lone" { input = "lone" }
module "deep" {
  source = "./deep"
  in     = terraform_data.x["a"].output
}
resource "terraform_data" "y" { input = join(",", [for x in terraform_data.x : x.output]) }
output "out" { value = "${module.deep.out}${terraform_data.y.output}" }
### m/deep/main.tf
variable "in" {}
resource "terraform_data" "z" { input = var.in }
output "out" { value = terraform_data.z.output }
"#;
