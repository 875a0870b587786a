//! The plan story: snapshot of the trunk → isolated workspace → Terraform's plan → spec.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;
use secrecy::ExposeSecret as _;

use super::bench::Bench;
use super::leftover;
use super::{Caller, Context, Project, Rules};
use crate::clock;
use crate::config::policy::ClosureRule;
use crate::domain::address::{Address, ConfigAddress, Mode, Pattern};
use crate::domain::coordination::lane::{self, Lane};
use crate::domain::graph::closure::{self, Closure, CoarseEdges, Roots};
use crate::domain::graph::plan_edges::plan_edges;
use crate::domain::graph::tree::{Node, Tree};
use crate::domain::id::StateName;
use crate::domain::nearest::nearest;
use crate::domain::plan::changed::{ChangedValue, changed_values};
use crate::domain::plan::fingerprint::{DigestKey, combine};
use crate::domain::plan::footprint::{Footprint, footprint};
use crate::domain::plan::plan_json::PlanJson;
use crate::domain::plan::spec::{
    DataEntry, Digests, EdgeSource, FORMAT_VERSION, LaneFacts, PlanMode, PlanSpec, ReadEntry, Scope, SpecProject,
    SpecState, Via,
};
use crate::domain::state::row::dependencies_of;
use crate::domain::state::{Row, RowKey};
use crate::error::KlError;
use crate::report::event::Stage;
use crate::store::model::{NewSpec, Snapshot, StateHead};
use crate::store::{Memory, Store};
use crate::terraform::PlanRequest;

/// So many of the states that exist are named beside a new one.
const STATES_NAMED: usize = 5;

/// A plan that was made and stored.
pub struct Planned {
    /// The spec.
    pub spec: PlanSpec,
    /// Warnings of Terraform.
    pub warnings: Vec<String>,
    /// Values of changed attributes, masked; empty unless the rules show them.
    pub values: Vec<ChangedValue>,
}

/// Plans, derives the spec and stores it. A plan that fails leaves nothing behind: neither the name of a new state nor a
/// new database. Returns what the apply goes on with, too.
pub async fn plan(
    caller: &Caller,
    memory: Memory,
    project: &Project,
    scope: Scope,
    rules: &Rules,
) -> Result<(Planned, Context), KlError> {
    if let Memory::Open(store) = &memory {
        leftover::sweep(store.as_ref()).await;
    }
    let bench = Bench::prepare(caller, project, None).await?;
    let scope = with_files(&bench, scope)?;
    let known = match &memory {
        Memory::Open(store) => {
            if let Some(head) = store.state_find(&project.state).await? {
                Some(store.snapshot(head.id, None).await?)
            } else {
                announce_new(caller, &**store, &project.state).await?;
                None
            }
        }
        Memory::New(_) => None,
    };
    let trunk = known.iter().flat_map(|snapshot| &snapshot.rows);
    let rows: Vec<Row> = trunk.map(|(row, _)| row.clone()).collect();
    bench.place(known.as_ref(), rows.clone())?;

    caller.begins(Stage::Plan).await?;
    let request = PlanRequest {
        targets: scope.targets.clone(),
        replace: scope.replace.clone(),
        destroy: scope.mode == PlanMode::Destroy,
        ..bench.request()
    };
    let stop = &caller.stop;
    let graph = async {
        // A plan that is limited walks less than the graph shows, never more.
        bench.terraform().graph_dot(bench.dirs(), stop).await
    };
    let (planned, graph) = tokio::join!(bench.plan(&request, stop), graph);
    let (plan, warnings) = planned?;
    if let Err(error) = rules.check_checks(&plan.failed_checks()) {
        return Err(warnings.into_iter().fold(error, KlError::hint));
    }

    caller.begins(Stage::Analyse).await?;
    let graph = crate::domain::graph::graph_edges::graph_edges(&graph?)
        .map_err(|error| KlError::failed("terraform graph printed something that kl cannot read").because(error))?;
    let ctx = caller.clone().with(memory.store().await?);
    let snapshot = match known {
        Some(snapshot) => snapshot,
        None => Snapshot::before_any_version(ctx.store.state_ensure(&project.state).await?),
    };
    let spec = derive(caller, project, &bench, &snapshot, &rows, &plan, scope, rules, &graph)?;
    store(&ctx, &snapshot.head, &spec).await?;
    let values = if rules.show_values { changed_values(&plan)? } else { Vec::new() };
    Ok((Planned { spec, warnings, values }, ctx))
}

/// Says that the state is new beside which others, so that a name which was mistyped is noticed.
async fn announce_new(caller: &Caller, store: &dyn Store, name: &StateName) -> Result<(), KlError> {
    let heads = store.state_list().await?;
    let near = nearest(name.as_str(), heads.iter().map(|head| head.name.as_str()), STATES_NAMED);
    if near.is_empty() {
        return Ok(());
    }
    let more = heads.len() - near.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    caller.warn(format!("a new state {name}; this database knows: {}{more}", near.join(", ")));
    Ok(())
}

/// Turns `--file` into targets: the resources and modules that the files declare.
fn with_files(bench: &Bench, mut scope: Scope) -> Result<Scope, KlError> {
    let Some(root) = bench.tree().modules().get(&crate::domain::address::ConfigModule::root()) else {
        return Ok(scope);
    };
    for file in &scope.files {
        let name = Utf8Path::new(file).file_name().unwrap_or(file);
        let resources = root
            .resources
            .iter()
            .filter(|block| block.place.file == name)
            .map(|block| format!("{}{}.{}", block.mode.prefix(), block.type_name, block.name));
        let calls =
            root.calls.iter().filter(|call| call.place.file == name).map(|call| format!("module.{}", call.name));
        let found: Vec<String> = resources.chain(calls).collect();
        if found.is_empty() {
            return Err(KlError::usage(format!("{file} declares no resource and no module in the root module"))
                .hint("`--file` takes a .tf file of the root module, as `--file network.tf`"));
        }
        scope.targets.extend(found);
    }
    scope.targets.sort();
    scope.targets.dedup();
    scope.replace.sort();
    Ok(scope)
}

#[expect(clippy::too_many_arguments, reason = "the one place where everything about a plan comes together")]
fn derive(
    caller: &Caller,
    project: &Project,
    bench: &Bench,
    snapshot: &Snapshot,
    rows: &[Row],
    plan: &PlanJson,
    scope: Scope,
    rules: &Rules,
    graph: &CoarseEdges,
) -> Result<PlanSpec, KlError> {
    let key = DigestKey(snapshot.head.secret.expose_secret().as_bytes());
    let mut found = footprint(plan, !scope.targets.is_empty(), &key, &|_| None)?;
    place_blocks(bench, &mut found);
    let tree = bench.tree();
    let from_plan = match &plan.configuration {
        Some(raw) => plan_edges(tree, raw)
            .map_err(|error| KlError::failed("the plan's configuration cannot be read").because(error))?,
        None => CoarseEdges::new(),
    };
    let own = closure::config_edges(tree);
    let coarse = [(EdgeSource::Plan, &from_plan), (EdgeSource::Graph, graph)];
    let roots = roots(&found, rows);
    let mut reads = closure::upstream(tree, &own, &coarse, &roots);
    let output_roots = Roots { outputs: roots.outputs.clone(), ..Roots::default() };
    let for_outputs = closure::upstream(tree, &own, &coarse, &output_roots);
    if rules.closure == ClosureRule::Connected {
        connect(&[&own, &from_plan, graph], &roots, &mut reads);
    }
    let edges = [&own, &from_plan, graph];
    let mut beyond = lane::beyond(tree, &edges, &scope, &found.write, &roots.outputs, &instances(rows));
    let untargetable = roots.outputs.iter().find(|output| reaches_nothing(tree, &own, &coarse, output));
    if let Some(output) = untargetable.filter(|_| beyond.reasons.is_empty()) {
        beyond.reasons.push(format!("output.{output} depends on no resource, so that no target reaches it"));
    }
    let lane = LaneFacts {
        footprint_because: beyond.reasons,
        dependents: beyond.dependents,
        untargetable_conditions: beyond.untargetable,
        checks: beyond.checks,
        closure: reads.resources.iter().filter(|resource| resource.mode != Mode::Ephemeral).cloned().collect(),
        output_targets: targetable(&for_outputs),
        untargetable_outputs: untargetable.is_some(),
    };
    let values = combine(
        found
            .write
            .iter()
            .map(|e| e.print.values.as_str())
            .chain(found.outputs.iter().map(|e| e.print.values.as_str())),
        &key,
    );
    let (read, data) = entries(reads, &found);
    let mut spec = PlanSpec {
        format_version: FORMAT_VERSION,
        id: clock::new_spec_id(),
        state: SpecState {
            name: snapshot.head.name.clone(),
            lineage: snapshot.head.lineage.clone(),
            serial: snapshot.head.serial,
        },
        actor: caller.actor.clone(),
        origin: caller.origin.clone(),
        project: SpecProject {
            dir: project.name.clone(),
            workspace: project.workspace.clone(),
            var_files: project.var_files.clone(),
            variables: project.variables.iter().map(|variable| variable.name.clone()).collect(),
            ephemeral: bench.ephemeral_variables(),
        },
        scope,
        tools: bench.tools()?,
        write: found.write,
        outputs: found.outputs,
        read,
        data,
        digests: Digests { shape: String::new(), values },
        lane,
        digest: String::new(),
    };
    if spec.has_changes() && spec.lane.footprint_because.is_empty() && lane::targets(Lane::Narrow, &spec).is_none() {
        spec.lane.footprint_because.push(format!("more than {} targets would be needed", lane::MAX_TARGETS));
    }
    Ok(spec.sealed())
}

/// Where the block of each written resource stands.
fn place_blocks(bench: &Bench, found: &mut Footprint) {
    for entry in &mut found.write {
        entry.place = bench.place_of(&entry.address.config());
    }
}

fn roots(found: &Footprint, rows: &[Row]) -> Roots {
    let mut instances: Vec<Address> = found.write.iter().map(|entry| entry.address.clone()).collect();
    let written: BTreeSet<&Address> =
        found.write.iter().flat_map(|entry| [Some(&entry.address), entry.moved_from.as_ref()]).flatten().collect();
    let recorded = rows
        .iter()
        .filter_map(|row| match &row.key {
            RowKey::Object { address, .. } if written.contains(address) => {
                Some((address.clone(), dependencies_of(&row.body)))
            }
            _ => None,
        })
        .collect();
    instances.sort();
    instances.dedup();
    Roots { instances, outputs: found.outputs.iter().map(|output| output.name.clone()).collect(), recorded }
}

fn instances(rows: &[Row]) -> BTreeMap<ConfigAddress, Vec<Address>> {
    let mut map: BTreeMap<ConfigAddress, Vec<Address>> = BTreeMap::new();
    for address in rows.iter().filter_map(|row| row.key.address()) {
        map.entry(address.config()).or_default().push(address.clone());
    }
    map
}

/// What can be given as a target: managed resources and data sources.
fn targetable(closure: &Closure) -> Vec<ConfigAddress> {
    closure.resources.iter().filter(|resource| resource.mode != Mode::Ephemeral).cloned().collect()
}

/// Whether a changed output depends on no resource at all, so that no target makes Terraform evaluate it.
fn reaches_nothing(tree: &Tree, own: &CoarseEdges, coarse: &[(EdgeSource, &CoarseEdges)], output: &str) -> bool {
    let roots = Roots { outputs: vec![output.to_owned()], ..Roots::default() };
    targetable(&closure::upstream(tree, own, coarse, &roots)).is_empty()
}

/// `closure: connected`: whatever the write set is connected with, in either direction, is read.
fn connect(edges: &[&CoarseEdges], roots: &Roots, reads: &mut Closure) {
    let mut both = CoarseEdges::new();
    for (node, upstream) in edges.iter().flat_map(|edges| edges.iter()) {
        for target in upstream {
            both.entry(node.clone()).or_default().insert(target.clone());
            both.entry(target.clone()).or_default().insert(node.clone());
        }
    }
    let starts = roots
        .instances
        .iter()
        .map(|address| Node::resource(&address.config()))
        .chain(roots.outputs.iter().map(|name| Node::root_output(name)));
    for resource in closure::downstream(&[&both], starts).iter().filter_map(Node::as_resource) {
        let via = Via { from: "the write set".into(), source: EdgeSource::Connected, through: Vec::new() };
        reads.reads.entry(Pattern::from(&resource)).or_insert(via);
        reads.resources.insert(resource);
    }
}

/// Reads and data sources as the spec lists them. What is written itself need not be read as well.
fn entries(closure: Closure, found: &Footprint) -> (Vec<ReadEntry>, Vec<DataEntry>) {
    let written: BTreeSet<Pattern> = found.write.iter().map(|entry| Pattern::Resource(entry.address.clone())).collect();
    let deferred: BTreeSet<Pattern> = found.deferred_reads.iter().cloned().map(Pattern::Resource).collect();
    let mut read = Vec::new();
    let mut data: BTreeMap<Pattern, DataEntry> = BTreeMap::new();
    for (pattern, via) in closure.reads {
        match &pattern {
            Pattern::Resource(address) if address.mode == Mode::Data => {
                let entry =
                    DataEntry { pattern: pattern.clone(), via: Some(via), deferred: deferred.contains(&pattern) };
                data.insert(pattern, entry);
            }
            // Ephemeral resources are opened anew each time; there is no row to share.
            Pattern::Resource(address) if address.mode == Mode::Ephemeral => {}
            _ if written.contains(&pattern) => {}
            _ => read.push(ReadEntry { pattern, via }),
        }
    }
    for pattern in deferred {
        data.entry(pattern.clone()).or_insert(DataEntry { pattern, via: None, deferred: true }).deferred = true;
    }
    (read, data.into_values().collect())
}

async fn store(ctx: &Context, head: &StateHead, spec: &PlanSpec) -> Result<(), KlError> {
    let new = NewSpec {
        id: spec.id,
        state: head.id,
        source_serial: spec.state.serial,
        actor: spec.actor.clone(),
        origin: spec.origin.clone(),
        digest: spec.digest.clone(),
        document: spec.to_text(),
    };
    Ok(ctx.store.spec_insert(&new).await?)
}
