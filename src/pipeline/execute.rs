//! Planning again on a slice, comparing with the reviewed plan, and applying exactly that.

use std::collections::BTreeSet;

use camino::Utf8PathBuf;
use secrecy::ExposeSecret as _;

use super::bench::{Bench, blocking};
use super::checkpoint::{self, Kept, Scribe, Watched};
use super::record::Recorder;
use super::{Context, Rules, leak};
use crate::domain::address::Pattern;
use crate::domain::coordination::lane::{Lane, targets};
use crate::domain::coordination::slice;
use crate::domain::id::Serial;
use crate::domain::plan::compare::{Comparison, Difference, Owner, Relation, compare};
use crate::domain::plan::fingerprint::DigestKey;
use crate::domain::plan::plan_json::PlanJson;
use crate::domain::plan::resume::{Done, resumed};
use crate::domain::plan::spec::{PlanMode, PlanSpec};
use crate::domain::run::event::RunEvent;
use crate::domain::run::in_flight::InFlight;
use crate::domain::run::unshown::Intent;
use crate::domain::state::Row;
use crate::domain::state::document::{self, StateDocument};
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::conflict;
use crate::report::event::Stage;
use crate::store::Held;
use crate::store::model::Snapshot;
use crate::terraform::{ApplyRequest, PlanRequest};

/// So many differences are stored and named.
const MAX_DIFFERENCES: usize = 50;

/// Which lane the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LaneChoice {
    /// Narrow where it is sufficient.
    #[default]
    Auto,
    /// Narrow, or fail.
    Narrow,
    /// Footprint.
    Footprint,
}

/// A plan on a slice that equals the reviewed one, ready to be applied.
pub struct Ready {
    /// The rows that Terraform got to see.
    pub before: Vec<Row>,
    /// The serial of the trunk that they come from.
    pub slice_serial: Serial,
    /// Instances that the plan found different in reality.
    pub drifted: BTreeSet<String>,
    /// Rows that the plan will change.
    pub write_set: Vec<Pattern>,
    /// How the plan compares with the reviewed one.
    pub relation: Relation,
    /// Whether the plan has nothing left to do.
    pub nothing_left: bool,
    intent: Intent,
    plan_file: Utf8PathBuf,
    failed_checks: Vec<String>,
}

/// Everything that planning again needs.
pub struct Rehearsal<'a> {
    /// What every story needs.
    pub ctx: &'a Context,
    /// The run's timeline.
    pub recorder: &'a Recorder,
    /// The workspace.
    pub bench: &'a Bench,
    /// The reviewed plan.
    pub spec: &'a PlanSpec,
    /// The trunk, under the run's reservations.
    pub snapshot: &'a Snapshot,
    /// Whether other values of the same shape may pass.
    pub accept_values: bool,
    /// The rules that the repository sets.
    pub rules: &'a Rules,
    /// What an earlier apply of the same spec has already brought into the trunk.
    pub done: &'a Done,
}

impl Rehearsal<'_> {
    /// Plans on the slice, in the narrow lane first when it may do, and compares.
    pub async fn prepare(&self, choice: LaneChoice) -> Result<Ready, KlError> {
        let mut reasons = self.spec.lane.footprint_because.clone();
        let narrow = targets(Lane::Narrow, self.spec);
        if narrow.is_none() && reasons.is_empty() {
            reasons.push("no list of targets can limit the plan to the write set".to_owned());
        }
        match (choice, narrow) {
            (LaneChoice::Narrow, None) => {
                Err(KlError::usage(format!("the narrow lane cannot be used: {}", reasons.join("; ")))
                    .hint("leave out `--lane narrow`"))
            }
            (LaneChoice::Narrow, Some(limit)) => {
                let (ready, comparison) = self.attempt(Lane::Narrow, &[], Some(&limit)).await?;
                self.judge(ready, &comparison).await
            }
            (LaneChoice::Auto, Some(limit)) if reasons.is_empty() => {
                let first = self.attempt(Lane::Narrow, &[], Some(&limit)).await;
                let reason = match first {
                    Ok((ready, comparison)) if self.accepts(comparison.relation) => return self.checked(ready),
                    Ok((_, comparison)) => {
                        format!("the plan on the narrow slice is not the reviewed one ({})", words(comparison.relation))
                    }
                    // No other slice mends missing inputs.
                    Err(error) if self.ctx.stop.interrupt.is_cancelled() || error.exit() == Exit::Usage => {
                        return Err(error);
                    }
                    Err(error) => {
                        format!("terraform could not plan on the narrow slice: {}", summary(&error.chain()))
                    }
                };
                self.recorder.record(RunEvent::FellBack { reason: reason.clone() }).await?;
                self.footprint(&[reason]).await
            }
            (LaneChoice::Auto, _) => self.footprint(&reasons).await,
            (LaneChoice::Footprint, _) => self.footprint(&["asked for with --lane footprint".to_owned()]).await,
        }
    }

    /// Plans on everything that the configuration describes: limited to the write set where that is possible, so that
    /// another request's merged but not yet applied change stays out.
    async fn footprint(&self, reasons: &[String]) -> Result<Ready, KlError> {
        let limit = targets(Lane::Footprint, self.spec);
        if !self.spec.lane.checks || limit.is_none() {
            let (ready, comparison) = self.attempt(Lane::Footprint, reasons, limit.as_deref()).await?;
            return self.judge(ready, &comparison).await;
        }
        // Checks are evaluated only without targets, and never stop an apply. When the whole plan holds more than the
        // reviewed change, applying that change alone is worth more than their results.
        let (ready, comparison) = self.attempt(Lane::Footprint, reasons, None).await?;
        if self.accepts(comparison.relation) {
            return self.checked(ready);
        }
        let reason = format!(
            "the whole plan is not the reviewed one ({}); limited to the reviewed changes, checks are not evaluated",
            words(comparison.relation)
        );
        let (ready, comparison) = self.attempt(Lane::Footprint, &[reason], limit.as_deref()).await?;
        self.judge(ready, &comparison).await
    }

    async fn judge(&self, ready: Ready, comparison: &Comparison) -> Result<Ready, KlError> {
        if self.accepts(comparison.relation) {
            return self.checked(ready);
        }
        // Often the very reason: the plan is another one because the objects are.
        let addresses: Vec<String> = ready.drifted.iter().cloned().collect();
        let error = refusal(comparison, &addresses);
        if !addresses.is_empty() {
            self.recorder.record(RunEvent::DriftObserved { addresses }).await?;
        }
        Err(error)
    }

    /// Lets a plan pass that breaks no check, as far as its lane evaluates checks at all.
    fn checked(&self, ready: Ready) -> Result<Ready, KlError> {
        self.rules.check_checks(&ready.failed_checks).map(|()| ready)
    }

    fn accepts(&self, relation: Relation) -> bool {
        relation <= Relation::Refined || (relation == Relation::ValuesDiffer && self.accept_values)
    }

    async fn attempt(
        &self,
        lane: Lane,
        reasons: &[String],
        limit: Option<&[String]>,
    ) -> Result<(Ready, Comparison), KlError> {
        let Self { ctx, recorder, bench, spec, snapshot, .. } = self;
        let before = slice::cut(lane, spec, bench.tree(), snapshot.rows.iter().map(|(row, _)| row));
        recorder
            .record(RunEvent::LaneChosen {
                lane: lane.word().to_owned(),
                reasons: reasons.to_vec(),
                slice_rows: before.len(),
                trunk_rows: snapshot.rows.len(),
                targets: limit.map_or(0, <[String]>::len),
            })
            .await?;
        bench.place(Some(snapshot), before.clone())?;
        ctx.begins(Stage::Replan).await?;
        let request = PlanRequest {
            targets: limit.map(<[String]>::to_vec).unwrap_or_default(),
            replace: self.done.still_to_replace(&spec.scope.replace),
            destroy: spec.scope.mode == PlanMode::Destroy,
            ..bench.request()
        };
        let targeted = !request.targets.is_empty();
        let (plan, _) = bench.plan(&request, &ctx.stop).await?;
        let key = DigestKey(snapshot.head.secret.expose_secret().as_bytes());
        let mut comparison = resumed(spec, compare(spec, &plan, targeted, &key)?, self.done);
        leak::find_owners(ctx, snapshot.head.id, spec, &mut comparison).await;
        let differences = || comparison.differences.iter().take(MAX_DIFFERENCES);
        recorder
            .record(RunEvent::Replanned {
                relation: comparison.relation.word().to_owned(),
                differences: differences().map(ToString::to_string).collect(),
                at: differences().map(Difference::marker).collect(),
            })
            .await?;
        let (drifted, write_set) = (drifted(&plan), spec.write_patterns());
        let nothing_planned = comparison.footprint.write.is_empty() && comparison.footprint.outputs.is_empty();
        let ready = Ready {
            before,
            slice_serial: snapshot.head.serial,
            // What an earlier apply has done unseen is not planned any more, but has to get into the trunk.
            nothing_left: nothing_planned && !meets(&drifted, &write_set),
            drifted,
            write_set,
            relation: comparison.relation,
            intent: Intent::of(&comparison.footprint.write),
            plan_file: request.out,
            failed_checks: plan.failed_checks(),
        };
        Ok((ready, comparison))
    }
}

/// A relation in words for people.
fn words(relation: Relation) -> String {
    relation.word().replace('_', " ")
}

/// The first lines of a long message.
fn summary(text: &str) -> String {
    text.lines().take(3).map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Whether an instance is among the patterns.
fn meets(instances: &BTreeSet<String>, patterns: &[Pattern]) -> bool {
    let mut instances = instances.iter().filter_map(|address| Pattern::parse(address).ok());
    instances.any(|instance| patterns.iter().any(|pattern| pattern.intersects(&instance)))
}

fn drifted(plan: &PlanJson) -> BTreeSet<String> {
    plan.resource_drift.iter().map(|change| change.address.clone()).collect()
}

/// Why another plan than the reviewed one is not applied. What has `drifted` was changed outside Terraform.
fn refusal(comparison: &Comparison, drifted: &[String]) -> KlError {
    let mut message = match comparison.relation {
        Relation::ValuesDiffer => {
            String::from("planning again gives other values than the reviewed plan, so nothing was applied")
        }
        _ => String::from("planning again gives another plan than the reviewed one, so nothing was applied"),
    };
    for difference in comparison.differences.iter().take(10) {
        message.push_str(&format!("\n  {difference}"));
    }
    if comparison.differences.len() > 10 {
        message.push_str(&format!("\n  and {} more", comparison.differences.len() - 10));
    }
    let error = KlError::new(Exit::Stale, message);
    let error = if drifted.is_empty() { error } else { error.hint(conflict::drift_hint(drifted)) };
    let error = if comparison.relation == Relation::ValuesDiffer {
        error.hint("`--accept-values` applies it all the same, when the values are meant to differ (a timestamp, say)")
    } else {
        error
    };
    let owners: BTreeSet<&Owner> = comparison.differences.iter().filter_map(|one| one.owner.as_ref()).collect();
    let merged = owners.iter().filter(|owner| owner.merged).map(|owner| owner.request.to_string());
    let merged: Vec<String> = merged.collect();
    let error = if merged.is_empty() {
        error
    } else {
        error.hint(format!("apply what {} has merged first; then try this one again", merged.join(" and ")))
    };
    error.hint("run `kl plan` again and have the new plan reviewed")
}

/// Keeps the record of a finished apply that cannot be committed: in the store, or else on disk. Returns the rows to
/// keep reserved.
pub async fn keep_record(ctx: &Context, recorder: &Recorder, bench: &Bench, ready: &Ready) -> Vec<Pattern> {
    match checkpoint::put(ctx, recorder, &watched(bench, ready), &InFlight::default()).await {
        Ok(Kept { changed, in_flight }) => {
            on_record(ctx, recorder, bench).await;
            kept(recorder, &changed, in_flight.len()).await;
            changed
        }
        Err(lost) => {
            bench.leave();
            let path = bench.state_path();
            ctx.warn(format!("what terraform did is in {path} only: {}", lost.message()));
            ready.write_set.clone()
        }
    }
}

fn watched(bench: &Bench, ready: &Ready) -> Watched {
    let written: BTreeSet<String> = ready.write_set.iter().map(ToString::to_string).collect();
    Watched {
        state_path: bench.state_path(),
        errored: bench.errored_path(),
        before: ready.before.clone(),
        serial: ready.slice_serial,
        intent: ready.intent.clone(),
        drifted: ready.drifted.iter().filter(|address| !written.contains(*address)).cloned().collect(),
    }
}

/// Says that what Terraform did is kept, where it did anything.
async fn kept(recorder: &Recorder, changed: &[Pattern], in_flight: usize) {
    if !changed.is_empty() {
        let rows = changed.len().saturating_sub(in_flight);
        drop(recorder.record(RunEvent::CheckpointKept { rows, in_flight }).await);
    }
}

/// The store knows all that Terraform did: its workplace is of no interest any more.
async fn on_record(ctx: &Context, recorder: &Recorder, bench: &Bench) {
    if let Err(error) = ctx.store.workplace_forget(recorder.run()).await {
        // Whoever finds the run will look for what it left: that nothing happened has to be seen there.
        bench.leave();
        ctx.warn(format!("that the record is complete could not be written down: {error}"));
    }
}

/// What an apply left behind.
pub struct Applied {
    /// The state document that Terraform wrote.
    pub after: StateDocument,
}

/// What a failed apply left behind.
pub struct Broken {
    /// Why it failed.
    pub error: KlError,
    /// Rows that Terraform did change.
    pub changed: Vec<Pattern>,
    /// Objects that it was working on when it was cut off.
    pub in_flight: Vec<String>,
}

/// Applies exactly the plan that was compared. `held` proves that the rows are reserved.
pub async fn apply(
    ctx: &Context,
    recorder: &Recorder,
    bench: &Bench,
    held: &Held,
    ready: &Ready,
) -> Result<Applied, Box<Broken>> {
    let untouched = |error: KlError| Box::new(Broken { error, changed: Vec::new(), in_flight: Vec::new() });
    let watched = watched(bench, ready);
    let state_path = watched.state_path.clone();
    let workplace = bench.workplace(recorder.run(), ready.slice_serial).map_err(untouched)?;
    // From here on, whoever finds the run cut off knows where to look.
    let mut begun = ctx.store.workplace_put(recorder.run(), &workplace).await;
    if begun.is_ok() {
        // A run that was paused until now may have lost its rows. From now on whoever takes them keeps what it may write.
        begun = ctx.store.reservation_renew(held).await.map(drop);
    }
    if begun.is_ok() {
        begun = recorder.record(RunEvent::ApplyStarted).await;
    }
    if let Err(error) = begun {
        on_record(ctx, recorder, bench).await;
        return Err(untouched(error.into()));
    }
    let scribe = Scribe::start(ctx.clone(), recorder.clone(), watched.clone(), workplace);
    let sender = scribe.sender();
    let mut on_event = move |event| drop(sender.send(event));
    let request = ApplyRequest { inputs: bench.ephemeral_inputs(), ..ApplyRequest::new(ready.plan_file.clone()) };
    let result = bench.terraform().apply(bench.dirs(), &request, &ctx.stop, &mut on_event).await;
    drop(on_event);
    let mut in_flight = scribe.finish().await;
    match &result {
        Ok(_) => in_flight.all_ended(),
        Err(error) if error.ended_by_itself() => {
            let before_it = !in_flight.has_spoken() && error.left_words();
            in_flight.ended_by_itself(error.is_explained() || before_it);
        }
        Err(_) => {}
    }
    let success = result.is_ok();
    let finished = recorder.record(RunEvent::ApplyFinished { success }).await;
    let read = async {
        let path = state_path.clone();
        // After an apply there is a state. An empty one would say that everything was destroyed.
        let text = blocking(move || crate::workspace::read_settled(&path)).await?.map_err(|error| {
            KlError::failed("the state that terraform leaves cannot be read, so nothing was committed").because(error)
        })?;
        let text = text.ok_or_else(|| checkpoint::gone(&state_path))?;
        Ok::<_, KlError>(document::read(&text)?)
    };
    let after = read.await;
    match (result, after, finished) {
        (Ok(_), Ok(after), Ok(())) => Ok(Applied { after }),
        (result, after, finished) => {
            let put = checkpoint::put(ctx, recorder, &watched, &in_flight).await;
            let error = match (result, after, finished) {
                (Err(error), _, _) => KlError::from(bench.without_secrets(error)),
                (_, Err(error), _) => error,
                (_, _, Err(error)) => error.into(),
                _ => unreachable!("one of the three has failed"),
            };
            Err(Box::new(match put {
                Ok(Kept { changed, in_flight }) => {
                    on_record(ctx, recorder, bench).await;
                    kept(recorder, &changed, in_flight.len()).await;
                    Broken { error, changed, in_flight }
                }
                // Without a checkpoint in the store, what was done must at least stay reserved, and on disk.
                Err(lost) => {
                    bench.leave();
                    let hint = format!("what terraform did is in {state_path} only: {}", lost.message());
                    // Told at once: whatever comes now may take its time, and kl may be killed meanwhile.
                    recorder.tell(&RunEvent::Warning { message: hint.clone() });
                    let in_flight = in_flight.addresses().map(str::to_owned).collect();
                    Broken { error: error.hint(hint), changed: ready.write_set.clone(), in_flight }
                }
            }))
        }
    }
}
