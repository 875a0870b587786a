//! Runs, specs, events, checkpoints, and how runs end.

use super::fixture::{Fixture, LEASE, blocked, claims, commit, granted, new_run, pattern, write};
use crate::domain::coordination::reservation::HeldAs;
use crate::domain::id::{Actor, RunId, Serial, StateId};
use crate::domain::run::event::{ResourceStep, RunEvent};
use crate::domain::run::workplace::{Host, ProcessGroup, Workplace};
use crate::domain::run::{Origin, RunEnd, RunKind, RunStatus, Tools};
use crate::store::model::{Checkpoint, NewSpec};
use crate::store::{Ask, Held, StoreError, Takeover};

fn warning(message: &str) -> RunEvent {
    RunEvent::Warning { message: message.to_owned() }
}

fn checkpoint(changed: &[&str], in_flight: &[&str]) -> Checkpoint {
    Checkpoint {
        state: r#"{"version":4,"secret":"\u0000"}"#.to_owned(),
        changed: changed.iter().map(|text| pattern(text)).collect(),
        in_flight: in_flight.iter().map(|text| (*text).to_owned()).collect(),
        slice_serial: Some(Serial(7)),
    }
}

/// The proof of a quarantine that must have been taken over.
fn adopted(adopted: Takeover) -> Held {
    match adopted {
        Takeover::Held { held, .. } => held,
        Takeover::Blocked(blockers) => panic!("blocked by {blockers:?}"),
    }
}

fn workplace() -> Workplace {
    Workplace {
        host: Host {
            name: "build-7".to_owned(),
            machine: None,
            boot: Some("b".to_owned()),
            processes: Some("pid:[1]".to_owned()),
        },
        dir: "/tmp/kl-web".to_owned(),
        group: None,
        slice_serial: Serial(3),
    }
}

/// The patterns that a run has in quarantine, in their order.
async fn quarantined(f: &Fixture, state: StateId, run: RunId) -> Vec<String> {
    let standing = f.store.reservation_list(state).await.unwrap();
    let kept = standing.iter().filter(|one| one.held_as == HeldAs::Quarantine && one.run == run);
    let mut kept: Vec<String> = kept.map(|one| one.claim.pattern.to_string()).collect();
    kept.sort();
    kept
}

pub(super) async fn a_spec_comes_back_as_it_was_stored(f: &Fixture) {
    let state = f.state("prod").await.id;
    let spec = NewSpec {
        id: crate::clock::new_spec_id(),
        state,
        source_serial: Serial(3),
        actor: Actor("alice".to_owned()),
        origin: Origin { repository: Some("o/r".to_owned()), commit: Some("abc".to_owned()), ..Origin::default() },
        digest: "d".to_owned(),
        document: r#"{ "number": 123456789012345678901234567890, "text": "\u0000" }"#.to_owned(),
    };
    f.store.spec_insert(&spec).await.unwrap();
    let found = f.store.spec_find(spec.id).await.unwrap();
    assert_eq!(format!("{:?}", found.spec), format!("{spec:?}"));
    let again = f.store.spec_insert(&spec).await.unwrap_err();
    assert!(matches!(again, StoreError::Stale(_)), "{again:?}");
}

pub(super) async fn a_run_comes_back_as_it_was_recorded(f: &Fixture) {
    let state = f.state("prod").await.id;
    let mut new = new_run(state, "alice");
    new.kind = RunKind::Refresh;
    new.claims = claims("w a.x[\"\\u200b%_.*\"]\nr module.m.*\nw *\nr output.o");
    f.store.run_start(&new).await.unwrap();
    let tools = Tools {
        program: "tofu".to_owned(),
        version: "1.9.0".to_owned(),
        providers: [("registry.opentofu.org/hashicorp/null".to_owned(), "3.2.4".to_owned())].into(),
    };
    f.store.run_tools(new.id, &tools).await.unwrap();
    let run = f.store.run_find(new.id).await.unwrap();
    assert_eq!((run.state, run.kind, run.status), (state, RunKind::Refresh, RunStatus::Started));
    assert_eq!((&run.actor, &run.origin, &run.claims, &run.tools), (&new.actor, &new.origin, &new.claims, &tools));
    assert_eq!((run.ended_at, run.result_serial, run.error, run.conflict), (None, None, None, Vec::new()));

    let mut stray = new_run(state, "alice");
    stray.spec = Some(crate::clock::new_spec_id());
    let refused = f.store.run_start(&stray).await.unwrap_err();
    assert!(matches!(refused, StoreError::NotFound { what: "spec", .. }), "{refused:?}");
    assert_eq!(f.sql("SELECT CAST(id AS text) FROM refresh_runs").await.unwrap(), [new.id.to_string()]);
    assert!(f.sql("SELECT CAST(id AS text) FROM apply_runs").await.unwrap().is_empty());
}

pub(super) async fn runs_are_found_by_parts_of_their_ids(f: &Fixture) {
    let state = f.state("prod").await.id;
    let mut ids = Vec::new();
    // Both may begin in the same moment: then the later id is the newer one.
    for id in ["01890000-0000-7000-8000-0000000012cd", "01890000-0000-7000-8000-00000000abcd"] {
        let mut run = new_run(state, "alice");
        run.id = id.parse().unwrap();
        f.store.run_start(&run).await.unwrap();
        ids.push(run.id);
    }
    for (fragment, found) in [
        ("01890000-0000-7000-8000-00000000abcd", vec![ids[1]]),
        ("0189", vec![ids[1], ids[0]]),
        ("ABCD", vec![ids[1]]),
        ("2cd", vec![ids[0]]),
        ("-0000000012cd", vec![ids[0]]),
        ("7000", vec![]),
        ("%", vec![]),
        ("____", vec![]),
        ("", vec![]),
        ("'", vec![]),
    ] {
        let runs = f.store.run_search(fragment).await.unwrap();
        assert_eq!(runs.iter().map(|run| run.id).collect::<Vec<_>>(), found, "{fragment}");
    }
}

pub(super) async fn runs_are_listed_newest_first(f: &Fixture) {
    let state = f.state("prod").await.id;
    let other = f.state("other").await.id;
    f.run(other, "zoe").await;
    let mut runs = Vec::new();
    for actor in ["a", "b", "c"] {
        runs.push(f.run(state, actor).await);
    }
    runs.reverse();
    f.store.run_end(runs[1], &RunEnd::plain(RunStatus::Noop)).await.unwrap();
    let ids = |runs: Vec<crate::domain::run::Run>| runs.iter().map(|run| run.id).collect::<Vec<_>>();
    assert_eq!(ids(f.store.run_list(state, false, 10).await.unwrap()), runs);
    assert_eq!(ids(f.store.run_list(state, false, 1).await.unwrap()), runs[..1]);
    assert_eq!(ids(f.store.run_list(state, true, 10).await.unwrap()), [runs[0], runs[2]]);
}

pub(super) async fn a_run_moves_only_while_it_lives(f: &Fixture) {
    let state = f.state("prod").await.id;
    let (run, acquired) = f.ask(state, "alice", "w a.x").await;
    granted(acquired);
    f.store.run_advance(run, RunStatus::Applying).await.unwrap();
    assert_eq!(f.store.run_find(run).await.unwrap().status, RunStatus::Applying);
    for end in [RunStatus::Committed, RunStatus::Failed] {
        assert!(matches!(f.store.run_advance(run, end).await, Err(StoreError::Stale(_))));
    }
    for live in [RunStatus::Applying, RunStatus::Committed] {
        assert!(matches!(f.store.run_end(run, &RunEnd::plain(live)).await, Err(StoreError::Stale(_))));
    }

    let (_, refused) = f.ask(state, "bob", "w a.x").await;
    let mut end = RunEnd::failed("it broke\0");
    end.conflict = blocked(refused);
    f.store.run_end(run, &end).await.unwrap();
    f.store.run_end(run, &RunEnd::plain(RunStatus::Noop)).await.unwrap();
    let ended = f.store.run_find(run).await.unwrap();
    assert_eq!((ended.status, ended.error.as_deref()), (RunStatus::Failed, Some("it broke\u{fffd}")));
    assert_eq!(ended.conflict, end.conflict);
    assert!(ended.ended_at.is_some());
    assert!(f.store.reservation_list(state).await.unwrap().is_empty());
    let late = f.store.run_advance(run, RunStatus::Applying).await.unwrap_err();
    assert!(matches!(&late, StoreError::LeaseLost { status, .. } if status == "failed"), "{late:?}");
    let nobody = f.store.run_advance(crate::clock::new_run_id(), RunStatus::Applying).await;
    assert!(matches!(nobody, Err(StoreError::NotFound { .. })));
}

pub(super) async fn events_keep_their_order_and_cannot_be_changed(f: &Fixture) {
    let run = f.run(f.state("prod").await.id, "alice").await;
    f.store.event_append(run, &[]).await.unwrap();
    f.store.event_append(run, &[warning("one"), RunEvent::ApplyStarted]).await.unwrap();
    f.store.event_append(run, &[warning("nul \0 and 'quotes'")]).await.unwrap();
    let events = f.store.event_list(run).await.unwrap();
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3]);
    let told: Vec<_> = events.iter().map(|event| event.event.clone()).collect();
    assert_eq!(told, [warning("one"), RunEvent::ApplyStarted, warning("nul \0 and 'quotes'")]);
    assert!(events.is_sorted_by_key(|event| event.at));
    assert_eq!(
        f.sql("SELECT kind FROM run_events ORDER BY seq").await.unwrap(),
        ["warning", "apply_started", "warning"]
    );
    for sql in ["UPDATE run_events SET kind = 'x'", "DELETE FROM run_events"] {
        assert!(f.sql(sql).await.is_err(), "{sql}");
    }
    let stray = f.store.event_append(crate::clock::new_run_id(), &[warning("x")]).await;
    assert!(matches!(stray, Err(StoreError::NotFound { what: "run", .. })));
    assert!(f.store.event_list(f.run(f.state("prod").await.id, "bob").await).await.unwrap().is_empty());
}

pub(super) async fn the_newest_checkpoint_counts(f: &Fixture) {
    let run = f.run(f.state("prod").await.id, "alice").await;
    assert!(f.store.checkpoint_find(run).await.unwrap().is_none());
    f.store.checkpoint_put(run, &checkpoint(&["a.x"], &[])).await.unwrap();
    let newer = checkpoint(&["a.x[\"k\"]", "output.o"], &["a.y"]);
    f.store.checkpoint_put(run, &newer).await.unwrap();
    assert_eq!(f.store.checkpoint_find(run).await.unwrap(), Some(newer.clone()));
    let stray = f.store.checkpoint_put(crate::clock::new_run_id(), &newer).await;
    assert!(matches!(stray, Err(StoreError::NotFound { what: "run", .. })));
}

pub(super) async fn a_failed_run_keeps_what_it_changed_reserved(f: &Fixture) {
    let state = f.state("prod").await.id;
    let (run, acquired) = f.ask(state, "alice", "w a.x\nw a.y\nr a.z\nw module.m.*").await;
    granted(acquired);
    let mut end = RunEnd::failed("half of it");
    end.quarantine = vec![pattern("a.x[0]"), pattern("a.z"), pattern("module.m[1].b.c")];
    f.store.run_end(run, &end).await.unwrap();
    let standing = f.store.reservation_list(state).await.unwrap();
    let kept: Vec<String> = standing.iter().map(|one| one.claim.pattern.to_string()).collect();
    // Of what it held to write the reservations that are met; and what it changed all the same.
    assert_eq!(kept, ["a.x", "module.m.*", "a.z"]);
    assert!(standing.iter().all(|one| one.held_as == HeldAs::Quarantine && one.expires_at.is_none()));

    f.time_passes().await;
    f.held(state, "bob", "w a.y").await;
    let met = blocked(f.ask(state, "carol", "r a.x[7]").await.1);
    assert_eq!((met[0].reservation.run, met[0].reservation.held_as), (run, HeldAs::Quarantine));
    assert_eq!(f.store.quarantine_release(run, &Actor("carol".to_owned())).await.unwrap(), 3);
    assert_eq!(f.store.quarantine_release(run, &Actor("carol".to_owned())).await.unwrap(), 0);
    let last = f.store.event_list(run).await.unwrap().pop().unwrap().event;
    assert_eq!(last, RunEvent::Discarded { by: Actor("carol".to_owned()), freed: 3 });
    f.held(state, "carol", "r a.x[7]").await;
}

pub(super) async fn an_aborted_run_keeps_what_its_checkpoint_says(f: &Fixture) {
    let state = f.state("prod").await.id;
    let by = Actor("carol".to_owned());
    let (run, acquired) = f.ask(state, "alice", "w a.x\nw a.y\nw a.z").await;
    granted(acquired);
    f.store.checkpoint_put(run, &checkpoint(&["a.x"], &["a.z"])).await.unwrap();
    f.store.run_advance(run, RunStatus::Applying).await.unwrap();
    assert_eq!(f.store.run_abort(run, &by).await.unwrap(), RunStatus::Applying);
    assert_eq!(f.store.run_abort(run, &by).await.unwrap(), RunStatus::Aborted);
    let kept: Vec<String> =
        f.store.reservation_list(state).await.unwrap().iter().map(|one| one.claim.pattern.to_string()).collect();
    assert_eq!(kept, ["a.x", "a.z"]);
    // Behind the grant.
    let events = f.store.event_list(run).await.unwrap().into_iter().skip(1);
    let told: Vec<_> = events.map(|event| event.event).collect();
    let addresses = vec!["a.x".to_owned(), "a.z".to_owned()];
    let in_flight = vec!["a.z".to_owned()];
    assert_eq!(
        told,
        [
            RunEvent::Aborted { by: by.clone() },
            RunEvent::CheckpointKept { rows: 1, in_flight: 1 },
            RunEvent::Quarantined { addresses },
            RunEvent::InFlight { addresses: in_flight }
        ]
    );

    let waiting = f.run(state, "bob").await;
    blocked(f.again(waiting, "w a.x", true).await);
    assert_eq!(f.store.run_abort(waiting, &by).await.unwrap(), RunStatus::Waiting);
    assert_eq!(f.store.reservation_list(state).await.unwrap().len(), 2);
}

pub(super) async fn a_run_that_is_cut_off_keeps_all_that_it_began_with(f: &Fixture) {
    let state = f.state("prod").await.id;
    let (run, acquired) = f.ask(state, "alice", "w a.saved\nw a.done\nw a.open\nw a.untouched\nr data.a.b").await;
    granted(acquired);
    f.store.run_advance(run, RunStatus::Applying).await.unwrap();
    let step = |address: &str, action: &str, step| RunEvent::Resource {
        address: address.to_owned(),
        action: action.to_owned(),
        step,
        elapsed_seconds: 0,
    };
    let events = [
        step("data.a.b", "read", ResourceStep::Started),
        step("a.saved", "create", ResourceStep::Started),
        step("a.saved", "create", ResourceStep::Finished),
        step("a.done", "create", ResourceStep::Started),
        step("a.done", "create", ResourceStep::Finished),
        step("a.open", "update", ResourceStep::Started),
    ];
    f.store.event_append(run, &events).await.unwrap();
    // One was in flight at the last checkpoint, which has not seen its end.
    f.store.checkpoint_put(run, &checkpoint(&["a.saved", "a.done"], &["a.done"])).await.unwrap();
    f.lease_ends(run).await;

    // The last checkpoint has seen the end of one of the three: the others are kept all the same.
    let (_, asked) = f.ask(state, "bob", "w a.done\nw a.untouched").await;
    let met = blocked(asked);
    assert_eq!(met.len(), 1, "{met:?}");
    assert_eq!((met[0].reservation.run, met[0].reservation.held_as), (run, HeldAs::Quarantine));
    let kept: Vec<String> =
        f.store.reservation_list(state).await.unwrap().iter().map(|one| one.claim.pattern.to_string()).collect();
    assert_eq!(kept, ["a.saved", "a.done", "a.open"]);
    let left = f.store.checkpoint_find(run).await.unwrap().unwrap();
    assert_eq!(left.changed, [pattern("a.saved"), pattern("a.done")]);
    assert_eq!(left.in_flight, ["a.done", "a.open"]);

    // Without any checkpoint the timeline is all there is.
    let (second, acquired) = f.ask(state, "alice", "w b.x\nw b.y").await;
    granted(acquired);
    f.store.event_append(second, &[step("b.x", "create", ResourceStep::Started)]).await.unwrap();
    f.lease_ends(second).await;
    let met = blocked(f.ask(state, "bob", "w b.x\nw b.y").await.1);
    assert_eq!(met.len(), 1, "{met:?}");
    let left = f.store.checkpoint_find(second).await.unwrap().unwrap();
    assert_eq!((left.changed, left.in_flight), (Vec::new(), vec!["b.x".to_owned()]));
}

pub(super) async fn what_an_aborted_run_changed_afterwards_is_kept_too(f: &Fixture) {
    let state = f.state("prod").await.id;
    let (run, acquired) = f.ask(state, "alice", "w a.x\nw a.y\nw a.z").await;
    granted(acquired);
    f.store.checkpoint_put(run, &checkpoint(&["a.x"], &[])).await.unwrap();
    f.store.run_abort(run, &Actor("carol".to_owned())).await.unwrap();
    // Somebody else has one of them by now.
    f.held(state, "bob", "w a.y").await;
    let mut end = RunEnd::failed("stopped");
    end.quarantine = vec![pattern("a.x"), pattern("a.y"), pattern("a.z")];
    for _ in 0..2 {
        f.store.run_end(run, &end).await.unwrap();
        assert_eq!(f.store.run_find(run).await.unwrap().status, RunStatus::Aborted);
        assert_eq!(quarantined(f, state, run).await, ["a.x", "a.y", "a.z"]);
        assert_eq!(f.store.reservation_list(state).await.unwrap().len(), 4);
    }
    blocked(f.ask(state, "dave", "w a.z").await.1);
}

pub(super) async fn where_a_run_works_is_on_record_until_it_is_forgotten(f: &Fixture) {
    let state = f.state("prod").await.id;
    let (run, acquired) = f.ask(state, "alice", "w a.x").await;
    let held = granted(acquired);
    assert_eq!(f.store.workplace_find(run).await.unwrap(), None);
    f.store.workplace_put(run, &workplace()).await.unwrap();
    let group = Some(ProcessGroup { id: 4711, started: Some(u64::from(u32::MAX) * 100) });
    let full = Workplace { group, ..workplace() };
    f.store.workplace_put(run, &full).await.unwrap();
    assert_eq!(f.store.workplace_find(run).await.unwrap(), Some(full));
    for _ in 0..2 {
        f.store.workplace_forget(run).await.unwrap();
        assert_eq!(f.store.workplace_find(run).await.unwrap(), None);
    }
    let stray = f.store.workplace_put(crate::clock::new_run_id(), &workplace()).await;
    assert!(matches!(stray, Err(StoreError::NotFound { what: "run", .. })));
    // A commit is a complete record.
    f.store.workplace_put(run, &workplace()).await.unwrap();
    f.store.run_commit(&held, &commit(vec![write("a.x={}")])).await.unwrap();
    assert_eq!(f.store.workplace_find(run).await.unwrap(), None);
}

pub(super) async fn a_run_that_ended_and_has_a_workplace_was_cut_off(f: &Fixture) {
    let (prod, test) = (f.state("prod").await.id, f.state("test").await.id);
    let mut runs = Vec::new();
    for state in [prod, prod, test] {
        runs.push(f.run(state, "alice").await);
        f.time_passes().await;
    }
    for run in &runs {
        f.store.workplace_put(*run, &workplace()).await.unwrap();
    }
    assert_eq!(f.store.run_cut_off().await.unwrap(), Vec::new(), "they live");
    for run in [runs[0], runs[2]] {
        f.store.run_abort(run, &Actor("carol".to_owned())).await.unwrap();
    }
    let cut_off = f.store.run_cut_off().await.unwrap();
    assert_eq!(cut_off.iter().map(|run| run.id).collect::<Vec<_>>(), [runs[2], runs[0]]);
    assert!(cut_off.iter().all(|run| run.status == RunStatus::Aborted));
    f.store.workplace_forget(runs[2]).await.unwrap();
    assert_eq!(f.store.run_cut_off().await.unwrap().len(), 1);
}

pub(super) async fn while_terraform_may_go_on_all_that_it_may_write_is_kept(f: &Fixture) {
    let state = f.state("prod").await.id;
    let by = Actor("carol".to_owned());
    for lost in [false, true] {
        let (run, acquired) = f.ask(state, "alice", "w a.x\nw a.y\nw a.z\nr a.r").await;
        granted(acquired);
        f.store.run_advance(run, RunStatus::Applying).await.unwrap();
        f.store.checkpoint_put(run, &checkpoint(&["a.x"], &[])).await.unwrap();
        f.store.workplace_put(run, &workplace()).await.unwrap();
        if lost {
            f.lease_ends(run).await;
            blocked(f.ask(state, "bob", "w a.y").await.1);
        } else {
            f.store.run_abort(run, &by).await.unwrap();
        }
        assert_eq!(quarantined(f, state, run).await, ["a.x", "a.y", "a.z"]);
        f.held(state, "bob", "w a.r").await;
        // When the run itself comes to its end it knows what it did, and the rest is free.
        let mut end = RunEnd::failed("stopped");
        end.quarantine = vec![pattern("a.x"), pattern("a.z")];
        f.store.run_end(run, &end).await.unwrap();
        assert_eq!(quarantined(f, state, run).await, ["a.x", "a.z"]);
        f.store.quarantine_release(run, &Actor("carol".to_owned())).await.unwrap();
        f.time_passes().await;
    }
}

pub(super) async fn a_recovery_does_not_come_beside_live_runs(f: &Fixture) {
    let state = f.state("prod").await.id;
    let (run, acquired) = f.ask(state, "alice", "w a.x\nw a.y").await;
    granted(acquired);
    f.store.run_abort(run, &Actor("carol".to_owned())).await.unwrap();
    let bob = f.held(state, "bob", "r a.y").await;
    // It had gone on, and says so only now.
    let mut end = RunEnd::failed("stopped");
    end.quarantine = vec![pattern("a.x"), pattern("a.y")];
    f.store.run_end(run, &end).await.unwrap();
    let recovery = f.run(state, "alice").await;
    let Takeover::Blocked(met) = f.store.quarantine_adopt(recovery, run, LEASE, false).await.unwrap() else {
        panic!("bob reads one of the rows");
    };
    assert_eq!(met.iter().map(|one| one.reservation.run).collect::<Vec<_>>(), [bob.run()]);
    assert_eq!(quarantined(f, state, run).await, ["a.x", "a.y"]);
    assert_eq!(f.store.run_find(recovery).await.unwrap().status, RunStatus::Started);

    // A lease that has ended is in nobody's way, and another quarantine is none that a recovery could wait for.
    f.lease_ends(bob.run()).await;
    let (other, acquired) = f.ask(state, "dave", "w a.z").await;
    granted(acquired);
    f.store.run_abort(other, &Actor("carol".to_owned())).await.unwrap();
    end.quarantine = vec![pattern("a.x")];
    f.store.run_end(other, &end).await.unwrap();
    adopted(f.store.quarantine_adopt(recovery, run, LEASE, false).await.unwrap());
    assert_eq!(f.store.run_find(bob.run()).await.unwrap().status, RunStatus::Lost);
    assert_eq!(quarantined(f, state, other).await, ["a.x"]);
}

pub(super) async fn a_recovery_that_is_cut_off_keeps_all_that_it_took_over(f: &Fixture) {
    let state = f.state("prod").await.id;
    let (run, acquired) = f.ask(state, "alice", "w a.x\nw a.y").await;
    granted(acquired);
    let mut end = RunEnd::failed("half of it");
    end.quarantine = vec![pattern("a.x"), pattern("a.y")];
    f.store.run_end(run, &end).await.unwrap();
    let mut recovery = new_run(state, "alice");
    recovery.kind = RunKind::Recover;
    f.store.run_start(&recovery).await.unwrap();
    adopted(f.store.quarantine_adopt(recovery.id, run, LEASE, false).await.unwrap());
    f.store.run_abort(recovery.id, &Actor("carol".to_owned())).await.unwrap();
    assert_eq!(quarantined(f, state, recovery.id).await, ["a.x", "a.y"]);

    // It hears of it only after somebody else has recovered the same: nothing is left of it to be kept.
    f.store.quarantine_release(recovery.id, &Actor("carol".to_owned())).await.unwrap();
    let mut late = RunEnd::failed("it was aborted");
    late.quarantine = vec![pattern("*")];
    f.store.run_end(recovery.id, &late).await.unwrap();
    assert_eq!(quarantined(f, state, recovery.id).await, Vec::<String>::new());
}

pub(super) async fn a_recovery_takes_the_quarantine_over(f: &Fixture) {
    let state = f.state("prod").await.id;
    let (run, acquired) = f.ask(state, "alice", "w a.x\nw a.y").await;
    granted(acquired);
    let saved = checkpoint(&["a.x"], &[]);
    f.store.checkpoint_put(run, &saved).await.unwrap();
    f.store.run_abort(run, &Actor("carol".to_owned())).await.unwrap();

    let carol = f.held(state, "carol", "w b.x").await.run();
    // One that is cut off leaves the quarantine to the next.
    let first = f.run(state, "alice").await;
    adopted(f.store.quarantine_adopt(first, run, LEASE, false).await.unwrap());
    assert_eq!(f.store.checkpoint_find(first).await.unwrap(), Some(saved));
    let told = |run| async move { f.store.event_list(run).await.unwrap().pop().unwrap().event };
    // What it has, and who was at work meanwhile, is on record as of any other run.
    let recovery = f.store.run_find(first).await.unwrap();
    assert_eq!(recovery.claims, claims("w a.x"));
    let Some([before, last]) = f.store.event_list(first).await.unwrap().last_chunk::<2>().cloned() else {
        panic!("two events");
    };
    assert_eq!(before.event, RunEvent::Recovers { of: run });
    let RunEvent::Reserved { writes: 1, reads: 0, beside, .. } = last.event else { panic!("{last:?}") };
    assert_eq!(beside.iter().map(|one| one.run).collect::<Vec<_>>(), [carol]);
    assert_eq!(told(run).await, RunEvent::TakenOver { by: first, actor: Actor("alice".to_owned()) });
    blocked(f.ask(state, "bob", "w a.x").await.1);
    let twice = f.store.quarantine_adopt(f.run(state, "dave").await, run, LEASE, false).await;
    assert!(matches!(twice, Err(StoreError::NotFound { .. })));
    f.lease_ends(first).await;
    let (_, after) = f.ask(state, "bob", "w a.x").await;
    assert_eq!(blocked(after)[0].reservation.held_as, HeldAs::Quarantine);
    assert_eq!(f.store.run_find(first).await.unwrap().status, RunStatus::Lost);

    let second = f.run(state, "alice").await;
    let held = adopted(f.store.quarantine_adopt(second, first, LEASE, false).await.unwrap());
    f.store.run_commit(&held, &commit(vec![write("a.x={}")])).await.unwrap();
    assert!(f.store.reservation_list(state).await.unwrap().iter().all(|one| one.run == carol));
    let ended = Ask { run: second, claims: claims("w a.x"), lease: LEASE, queue: false };
    let late = f.store.reservation_acquire(&ended).await.unwrap_err();
    assert!(matches!(&late, StoreError::LeaseLost { status, .. } if status == "committed"), "{late:?}");
    let by = Actor("x".to_owned());
    assert_eq!(f.store.run_abort(second, &by).await.unwrap(), RunStatus::Committed);
}
