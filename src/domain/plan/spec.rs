//! The plan spec: the reviewed promise, as `kl-plan.json` and as the database stores it.
//!
//! It holds names, addresses and digests, never a value of an attribute or a variable. docs/spec.md describes the
//! format; its JSON Schema is generated from these types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::Action;
use super::fingerprint::Fingerprint;
use crate::domain::address::{Address, ConfigAddress, Pattern};
use crate::domain::coordination::reservation::Claim;
use crate::domain::digest::sha256;
use crate::domain::id::{Actor, Lineage, Serial, SpecId, StateName};
use crate::domain::json::Json;
use crate::domain::run::{Origin, Tools};

/// The format that this kl writes and reads.
pub const FORMAT_VERSION: u32 = 1;

/// A plan spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanSpec {
    /// The version of this format.
    pub format_version: u32,
    /// The spec's id.
    #[schemars(with = "String")]
    pub id: SpecId,
    /// The state that it is for.
    pub state: SpecState,
    /// Who planned.
    #[schemars(with = "String")]
    pub actor: Actor,
    /// From where.
    #[serde(default)]
    pub origin: Origin,
    /// The configuration and its inputs.
    pub project: SpecProject,
    /// What the plan was asked to cover.
    pub scope: Scope,
    /// The versions that it was made with.
    pub tools: Tools,
    /// Resource instances that the plan changes, moves, imports or forgets, by address.
    pub write: Vec<WriteEntry>,
    /// Root outputs that the plan changes, by name.
    pub outputs: Vec<OutputEntry>,
    /// Resources whose values the plan used.
    pub read: Vec<ReadEntry>,
    /// Data sources that the plan used or will read.
    pub data: Vec<DataEntry>,
    /// Digests of the plan.
    pub digests: Digests,
    /// How the apply may cut its slice.
    pub lane: LaneFacts,
    /// Digest of everything above; a file that was edited by hand no longer fits it.
    pub digest: String,
}

/// The state that a spec is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpecState {
    /// Its name.
    #[schemars(with = "String")]
    pub name: StateName,
    /// Its lineage; none when the state had no version yet.
    #[schemars(with = "Option<String>")]
    pub lineage: Option<Lineage>,
    /// The serial of the trunk that the plan was made from.
    #[schemars(with = "i64")]
    pub serial: Serial,
}

/// The configuration that a spec was planned from, and the names of its inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpecProject {
    /// The root module, relative to the repository.
    pub dir: String,
    /// The Terraform workspace.
    pub workspace: String,
    /// Variable files, relative to the root module.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub var_files: Vec<String>,
    /// Names of variables that were given on the command line: the apply needs the same ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    /// Names of ephemeral variables that the apply needs again (cases B26).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ephemeral: Vec<String>,
}

/// What a plan was asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanMode {
    /// Make reality like the configuration.
    #[default]
    Normal,
    /// Destroy everything.
    Destroy,
}

/// The selectors of a plan. They are part of its identity: a targeted plan is not the whole plan (cases B21).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Scope {
    /// Normal or destroy.
    pub mode: PlanMode,
    /// `--target`, and what `--file` stood for, as given to Terraform.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// `--file`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// `--replace`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replace: Vec<String>,
}

/// A change of one resource instance object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WriteEntry {
    /// The instance.
    #[schemars(with = "String")]
    pub address: Address,
    /// The deposed object, when it is not the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposed: Option<String>,
    /// What happens, as Terraform's action vector.
    #[schemars(with = "Vec<String>")]
    pub actions: Action,
    /// The address that it moves from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub moved_from: Option<Address>,
    /// The provider's id of an imported object; empty while it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import_id: Option<String>,
    /// Terraform's reason, in its own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// JSON text of the paths that force a replacement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_paths: Option<String>,
    /// What changes, without values.
    #[serde(flatten)]
    pub print: Fingerprint,
    /// Where the block stands, as `FILE:LINE` relative to the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// A change of a root output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputEntry {
    /// Its name.
    pub name: String,
    /// What happens.
    #[schemars(with = "Vec<String>")]
    pub actions: Action,
    /// What changes, without values.
    #[serde(flatten)]
    pub print: Fingerprint,
}

/// How kl learnt of a dependency (design §5: the union of several sources, because each alone has holes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EdgeSource {
    /// A reference in the configuration's text.
    Configuration,
    /// A reference in the plan's `configuration`.
    Plan,
    /// An edge of `terraform graph -type=plan`.
    Graph,
    /// The `dependencies` recorded in the state.
    State,
    /// `closure: connected` in kl.yaml: anything in the same connected part of the graph.
    Connected,
}

/// The edge over which a read was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Via {
    /// The resource or output whose value depends on it.
    pub from: String,
    /// Where kl saw the edge.
    pub source: EdgeSource,
    /// Locals, variables and module outputs on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub through: Vec<String>,
}

/// A resource whose value the plan used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadEntry {
    /// The resource, narrowed to an instance where the reference does so.
    #[schemars(with = "String")]
    pub pattern: Pattern,
    /// The edge over which it was reached.
    pub via: Via,
}

/// A data source that the plan used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DataEntry {
    /// The data source.
    #[schemars(with = "String")]
    pub pattern: Pattern,
    /// The edge over which it was reached; none when the plan itself defers its reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<Via>,
    /// Whether it is read while applying.
    #[serde(default)]
    pub deferred: bool,
}

/// Digests of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Digests {
    /// Over addresses, actions, moves, imports, replace paths, names of changed attributes, and the scope.
    pub shape: String,
    /// Keyed, over the values before and after.
    pub values: String,
}

/// Which lane the apply takes, and what it needs to cut its slice.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct LaneFacts {
    /// Why the narrow lane would not do; empty when it does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub footprint_because: Vec<String>,
    /// Every resource that the write set depends on, without instance keys: all their instances go into the slice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub closure: Vec<ConfigAddress>,
    /// What the changed outputs depend on: Terraform evaluates an output only when all of it is targeted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub output_targets: Vec<ConfigAddress>,
    /// A changed output that depends on no resource: no target reaches it.
    #[serde(default)]
    pub untargetable_outputs: bool,
    /// Dependents of the write set that have to be planned with it, although nothing about them changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub dependents: Vec<ConfigAddress>,
    /// Conditions of outputs of child modules look at what changes: Terraform evaluates them only without targets.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untargetable_conditions: bool,
    /// `check` blocks look at what changes: Terraform evaluates them only without targets, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checks: bool,
}

/// Why a text is not a spec that can be used.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// It is not JSON, or cut short.
    #[error("it is not a whole JSON document")]
    Syntax(#[source] serde_json::Error),
    /// It is JSON of something else.
    #[error("it is not a plan spec of kl")]
    Foreign(#[source] serde_json::Error),
    /// A format that this kl does not know.
    #[error("it has spec format {0}, this kl knows {FORMAT_VERSION}")]
    Format(u64),
    /// Its digest does not fit: it was edited.
    #[error("its digest does not fit its content: it was changed after it was written")]
    Edited,
}

impl PlanSpec {
    /// Whether applying it would do anything.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        !self.write.is_empty() || !self.outputs.is_empty()
    }

    /// How many objects it destroys: deleted ones, and the old ones of replacements.
    #[must_use]
    pub fn destroyed(&self) -> u64 {
        self.write.iter().map(|entry| u64::from(entry.actions.vector().contains(&"delete"))).sum()
    }

    /// What a run must hold to apply it: the write set (both ends of moves), and everything that it read.
    #[must_use]
    pub fn claims(&self) -> Vec<Claim> {
        let mut claims: Vec<Claim> = self.write_patterns().into_iter().map(Claim::write).collect();
        let reads = self.read.iter().map(|entry| &entry.pattern).chain(self.data.iter().map(|entry| &entry.pattern));
        claims.extend(reads.cloned().map(Claim::read));
        claims.sort_by(|a, b| (&a.pattern, a.mode).cmp(&(&b.pattern, b.mode)));
        claims.dedup();
        claims
    }

    /// The rows that it writes.
    #[must_use]
    pub fn write_patterns(&self) -> Vec<Pattern> {
        let mut patterns: Vec<Pattern> = Vec::with_capacity(self.write.len() + self.outputs.len());
        for entry in &self.write {
            patterns.push(Pattern::Resource(entry.address.clone()));
            patterns.extend(entry.moved_from.clone().map(Pattern::Resource));
        }
        patterns.extend(self.outputs.iter().map(|output| Pattern::Output(output.name.clone())));
        patterns.sort();
        patterns.dedup();
        patterns
    }

    /// Fills in the digest of the plan's shape and of the whole document.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.digests.shape = shape_digest(&self.scope, &self.write, &self.outputs);
        self.digest = self.document_digest();
        self
    }

    fn document_digest(&self) -> String {
        let bare = Self { digest: String::new(), ..self.clone() };
        sha256(&canonical(&bare))
    }

    /// The document as `kl-plan.json` holds it.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).unwrap_or_else(|_| unreachable!("a spec has only string keys"));
        text.push('\n');
        text
    }

    /// Reads `kl-plan.json`.
    ///
    /// # Errors
    /// When it is empty, cut short, something else, of another format, or edited by hand.
    pub fn read(text: &str) -> Result<Self, SpecError> {
        if text.trim().is_empty() {
            return Err(SpecError::Empty);
        }
        let value: serde_json::Value = serde_json::from_str(text).map_err(SpecError::Syntax)?;
        if let Some(format) = value.get("format_version").and_then(serde_json::Value::as_u64)
            && format != u64::from(FORMAT_VERSION)
            && value.get("digests").is_some()
        {
            return Err(SpecError::Format(format));
        }
        let spec: Self = serde_json::from_value(value).map_err(SpecError::Foreign)?;
        if spec.document_digest() == spec.digest { Ok(spec) } else { Err(SpecError::Edited) }
    }
}

/// The digest of a plan's shape (design §5).
#[must_use]
pub fn shape_digest(scope: &Scope, write: &[WriteEntry], outputs: &[OutputEntry]) -> String {
    let entry = |entry: &WriteEntry| {
        serde_json::json!({
            "address": entry.address,
            "deposed": entry.deposed,
            "actions": entry.actions,
            "moved_from": entry.moved_from,
            "import_id": entry.import_id,
            "replace_paths": entry.replace_paths,
            "changed": entry.print.changed,
        })
    };
    let output = |entry: &OutputEntry| serde_json::json!({ "name": entry.name, "actions": entry.actions });
    let shape = serde_json::json!({
        "scope": scope,
        "write": write.iter().map(entry).collect::<Vec<_>>(),
        "outputs": outputs.iter().map(output).collect::<Vec<_>>(),
    });
    sha256(&canonical(&shape))
}

fn canonical(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_else(|_| unreachable!("a spec has only string keys"));
    Json::parse(&text).map_or(text, |json| json.canonical())
}
