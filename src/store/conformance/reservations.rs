//! Reservations: the matrix, leases, the queue.

use super::fixture::{Fixture, LEASE, blocked, claims, commit, granted, pattern, write};
use crate::domain::address::Pattern;
use crate::domain::coordination::reservation::{Claim, HeldAs, Relation};
use crate::domain::id::Actor;
use crate::domain::run::event::{Holder, Neighbour, RunEvent};
use crate::domain::run::{RunEnd, RunStatus};
use crate::store::model::Checkpoint;
use crate::store::{Acquired, Ask, StoreError};

pub(super) async fn only_reads_go_together(f: &Fixture) {
    for (held, asked, fits) in [
        ("r a.x", "r a.x", true),
        ("r a.x", "w a.x", false),
        ("w a.x", "r a.x", false),
        ("w a.x", "w a.x", false),
        ("w a.x[0]", "w a.x[1]", true),
        ("w a.x[0]", "w a.x[\"0\"]", true),
        ("w a.x", "r a.x[\"%\"]", false),
        ("w a.x[\"*\"]", "w a.x[\"k\"]", true),
        ("w module.m[0].*", "w module.m[0].module.n.a.x", false),
        ("w module.m[0].*", "w module.m[1].a.x", true),
        ("w *", "r output.o", false),
        ("w output.o", "w output.p", true),
        ("w a.x", "w data.a.x", true),
    ] {
        let state = f.state(&format!("{held} | {asked}").replace('\n', " ")).await.id;
        let first = f.held(state, "alice", held).await;
        let ask = Ask { run: f.run(state, "bob").await, claims: claims(asked), lease: LEASE, queue: false };
        match f.store.reservation_acquire(&ask).await.unwrap() {
            Acquired::Granted { .. } => assert!(fits, "{held} beside {asked}"),
            Acquired::Blocked { blockers, .. } => {
                assert!(!fits, "{held} beside {asked}");
                assert_eq!(blockers.len(), 1);
                let blocker = &blockers[0];
                assert_eq!((blocker.reservation.run, blocker.reservation.holder.0.as_str()), (first.run(), "alice"));
                assert_eq!(blocker.reservation.origin.request, Some(7));
                assert_eq!((&blocker.reservation.claim, &blocker.met), (&claims(held)[0], &claims(asked)));
                assert!(blocker.reservation.expires_at.unwrap() > blocker.at);
            }
        }
    }
    // Other states are other worlds.
    f.held(f.state("one").await.id, "alice", "w *").await;
    f.held(f.state("two").await.id, "bob", "w *").await;
}

pub(super) async fn a_run_never_blocks_itself(f: &Fixture) {
    let state = f.state("prod").await.id;
    let (run, first) = f.ask(state, "alice", "r a.x\nw a.x\nw a.x\nw *").await;
    granted(first);
    assert_eq!(f.store.reservation_list(state).await.unwrap().len(), 3);
    let more = Ask { run, claims: claims("w a.x\nr b.y"), lease: LEASE, queue: false };
    let held = granted(f.store.reservation_acquire(&more).await.unwrap());
    assert_eq!(f.store.reservation_list(state).await.unwrap().len(), 4);
    f.store.run_commit(&held, &commit(vec![write("a.x={}")])).await.unwrap();
    assert!(f.store.reservation_list(state).await.unwrap().is_empty());
}

pub(super) async fn all_are_granted_or_none(f: &Fixture) {
    let state = f.state("prod").await.id;
    f.held(state, "alice", "w a.x\nw a.y").await;
    let run = f.run(state, "bob").await;
    let ask = Ask { run, claims: claims("w b.x\nr a.x\nw a.y"), lease: LEASE, queue: false };
    let refused = f.store.reservation_acquire(&ask).await.unwrap();
    assert_eq!(blocked(refused).len(), 2);
    assert_eq!(f.store.reservation_list(state).await.unwrap().len(), 2);
    assert_eq!(f.store.run_find(run).await.unwrap().status, RunStatus::Started);
    f.held(state, "carol", "w b.x").await;
}

pub(super) async fn a_grant_names_its_neighbours(f: &Fixture) {
    let state = f.state("prod").await.id;
    let alice = f.held(state, "alice", "w a.x\nr c.z").await.run();
    let bob = f.held(state, "bob", "w b.x").await.run();
    f.run(state, "idle").await;
    let ask = Ask { run: f.run(state, "carol").await, claims: claims("w d.x\nr c.z"), lease: LEASE, queue: false };
    let granted = f.store.reservation_acquire(&ask).await.unwrap();
    let Acquired::Granted { held, beside, tools_beside, reclaimed, event } = granted else { panic!("blocked") };
    let who =
        |run, actor: &str, relation| Neighbour { run, actor: crate::domain::id::Actor(actor.to_owned()), relation };
    assert_eq!(beside, [who(alice, "alice", Relation::SharedReads), who(bob, "bob", Relation::Disjoint)]);
    assert_eq!(
        tools_beside.iter().map(|(run, tools)| (*run, tools.version.as_str())).collect::<Vec<_>>(),
        [(alice, "1.11.4"), (bob, "1.11.4")]
    );
    // On record with the grant itself.
    let recorded: Vec<RunEvent> =
        f.store.event_list(held.run()).await.unwrap().into_iter().map(|recorded| recorded.event).collect();
    let expires_at = Some(held.expires_at());
    assert_eq!(recorded, [RunEvent::Reserved { writes: 1, reads: 1, expires_at, beside }]);
    assert_eq!(recorded, [event]);
    assert!(reclaimed.is_empty());
    assert_eq!((held.state(), held.lease()), (state, LEASE));
    let run = f.store.run_find(held.run()).await.unwrap();
    assert_eq!(run.status, RunStatus::Reserved);
    let left = held.expires_at() - f.store.now().await.unwrap();
    assert!((880..=900).contains(&left.num_seconds()), "{left}");
}

pub(super) async fn an_ended_lease_is_taken_by_who_needs_it(f: &Fixture) {
    let state = f.state("prod").await.id;
    let alice = f.held(state, "alice", "w a.x\nr a.y").await.run();
    f.lease_ends(alice).await;
    // Not in the way: left alone.
    let bob = f.held(state, "bob", "w b.x").await.run();
    assert_eq!(f.store.run_find(alice).await.unwrap().status, RunStatus::Reserved);
    assert_eq!(f.store.reservation_list(state).await.unwrap().len(), 3);
    // In the way, beside one that still blocks.
    let carol = f.run(state, "carol").await;
    let ask = Ask { run: carol, claims: claims("w a.y\nw b.x"), lease: LEASE, queue: false };
    let Acquired::Blocked { blockers, reclaimed } = f.store.reservation_acquire(&ask).await.unwrap() else {
        panic!("granted");
    };
    assert_eq!((blockers.len(), blockers[0].reservation.run), (1, bob));
    assert_eq!(reclaimed, [alice]);
    let lost = f.store.run_find(alice).await.unwrap();
    assert_eq!(lost.status, RunStatus::Lost);
    assert!(lost.ended_at.is_some());
    let asked = format!("its lease had ended when run {carol} by carol asked for what it held, and did not get it");
    assert_eq!(lost.error.as_deref(), Some(asked.as_str()));
    let told = |events: Vec<crate::domain::run::event::RecordedEvent>| events.last().unwrap().event.clone();
    let to = Some(Holder { run: carol, actor: Actor("carol".to_owned()) });
    assert_eq!(told(f.store.event_list(alice).await.unwrap()), RunEvent::LeaseLost { to, refused: true });
    assert_eq!(told(f.store.event_list(carol).await.unwrap()), RunEvent::Reclaimed { from: alice, refused: true });
    // In the way, and nothing else is.
    f.lease_ends(bob).await;
    granted(f.again(carol, "w a.y\nw b.x", false).await);
    let to = Some(Holder { run: carol, actor: Actor("carol".to_owned()) });
    let lost = f.store.run_find(bob).await.unwrap().error;
    assert_eq!(lost, Some(format!("its lease had ended, and run {carol} by carol has taken its reservations")));
    assert_eq!(told(f.store.event_list(bob).await.unwrap()), RunEvent::LeaseLost { to, refused: false });
}

pub(super) async fn a_lost_run_keeps_what_its_checkpoint_says(f: &Fixture) {
    let state = f.state("prod").await.id;
    let alice = f.held(state, "alice", "w a.x\nw a.y\nr a.x\nw a.z").await.run();
    let checkpoint = Checkpoint {
        state: "{}".to_owned(),
        changed: vec![pattern("a.x")],
        in_flight: vec!["a.z".to_owned()],
        slice_serial: None,
    };
    f.store.checkpoint_put(alice, &checkpoint).await.unwrap();
    f.lease_ends(alice).await;
    let run = f.run(state, "bob").await;
    let ask = Ask { run, claims: claims("w a.x\nw a.y"), lease: LEASE, queue: false };
    let refused = f.store.reservation_acquire(&ask).await.unwrap();
    let blockers = blocked(refused);
    assert_eq!(blockers.len(), 1);
    assert_eq!((blockers[0].reservation.held_as, blockers[0].reservation.expires_at), (HeldAs::Quarantine, None));
    // What it left is in the way itself: nobody has taken that.
    let events = f.store.event_list(alice).await.unwrap();
    let lost = events.iter().filter(|one| matches!(&one.event, RunEvent::LeaseLost { refused: true, .. }));
    assert_eq!(lost.count(), 1);
    granted(f.again(run, "w a.y", false).await);
    blocked(f.ask(state, "carol", "w a.z").await.1);
}

pub(super) async fn a_lost_lease_commits_nothing(f: &Fixture) {
    let state = f.state("prod").await.id;
    let alice = f.held(state, "alice", "w a.x").await;
    f.lease_ends(alice.run()).await;
    let bob = f.held(state, "bob", "w a.x").await;
    let refused = f.store.run_commit(&alice, &commit(vec![write("a.x=1")])).await.unwrap_err();
    assert!(matches!(&refused, StoreError::LeaseLost { status, .. } if status == "lost"), "{refused:?}");
    let refused = f.store.reservation_renew(&alice).await.unwrap_err();
    assert!(matches!(refused, StoreError::LeaseLost { .. }), "{refused:?}");
    // The end of a lost run changes nothing more.
    f.store.run_end(alice.run(), &RunEnd::failed("late")).await.unwrap();
    assert_eq!(f.store.run_find(alice.run()).await.unwrap().status, RunStatus::Lost);
    f.store.run_commit(&bob, &commit(vec![write("a.x=2")])).await.unwrap();
    assert_eq!(f.rows(state, None).await, ["a.x=2"]);
    let twice = f.store.run_commit(&bob, &commit(vec![write("a.x=3")])).await.unwrap_err();
    assert!(matches!(&twice, StoreError::LeaseLost { status, .. } if status == "committed"), "{twice:?}");

    // One reservation of several is enough to lose.
    let carol = f.held(state, "carol", "w a.x\nw a.y").await;
    f.sql("UPDATE resource_reservations SET released_at = asked_at WHERE released_at IS NULL AND pattern = 'a.y'")
        .await
        .unwrap();
    let refused = f.store.run_commit(&carol, &commit(vec![write("a.x=4")])).await.unwrap_err();
    assert!(matches!(refused, StoreError::LeaseLost { .. }), "{refused:?}");
    assert_eq!(f.rows(state, None).await, ["a.x=2"]);
}

pub(super) async fn a_late_renewal_counts_while_nobody_took_the_lease(f: &Fixture) {
    let state = f.state("prod").await.id;
    let alice = f.held(state, "alice", "w a.x").await;
    f.lease_ends(alice.run()).await;
    assert!(f.store.reservation_renew(&alice).await.unwrap() > f.store.now().await.unwrap());
    blocked(f.ask(state, "bob", "w a.x").await.1);
    f.lease_ends(alice.run()).await;
    f.store.run_commit(&alice, &commit(vec![write("a.x=1")])).await.unwrap();
}

pub(super) async fn waiters_are_served_in_order(f: &Fixture) {
    let state = f.state("prod").await.id;
    let alice = f.held(state, "alice", "w a.x").await;
    let (bob, carol) = (f.run(state, "bob").await, f.run(state, "carol").await);
    blocked(f.again(bob, "w a.x\nw b.x", true).await);
    blocked(f.again(carol, "w b.x", true).await);
    assert_eq!(f.store.run_find(bob).await.unwrap().status, RunStatus::Waiting);
    // Who asks without a place waits behind the queue, and leaves nothing behind.
    let dave = Ask { run: f.run(state, "dave").await, claims: claims("r b.x"), lease: LEASE, queue: false };
    let met = blocked(f.store.reservation_acquire(&dave).await.unwrap());
    assert_eq!(met.iter().map(|one| one.reservation.run).collect::<Vec<_>>(), [bob, carol]);
    let standing = f.store.reservation_list(state).await.unwrap();
    assert_eq!(standing.iter().map(|one| one.run).collect::<Vec<_>>(), [alice.run(), bob, bob, carol]);
    assert!(standing[1].acquired_at.is_none());

    // A retry keeps its place, also when it asks for something else.
    blocked(f.again(bob, "w a.x\nw b.x\nr b.z", true).await);
    f.store.run_commit(&alice, &commit(vec![])).await.unwrap();
    let met = blocked(f.again(carol, "w b.x", true).await);
    assert_eq!(met.iter().map(|one| one.reservation.run).collect::<Vec<_>>(), [bob], "bob came first");
    let held = granted(f.again(bob, "w a.x\nw b.x", true).await);
    blocked(f.again(carol, "w b.x", true).await);
    f.store.run_commit(&held, &commit(vec![])).await.unwrap();
    // Giving up the place: asking without queueing.
    granted(f.again(dave.run, "r c.x", false).await);
    granted(f.again(carol, "w b.x", true).await);
}

pub(super) async fn a_waiter_that_died_holds_up_nobody(f: &Fixture) {
    let state = f.state("prod").await.id;
    let alice = f.held(state, "alice", "w a.x").await;
    let (bob, carol) = (f.run(state, "bob").await, f.run(state, "carol").await);
    blocked(f.again(bob, "w a.x", true).await);
    f.lease_ends(bob).await;
    assert_eq!(f.store.reservation_list(state).await.unwrap().len(), 1);
    blocked(f.again(carol, "w a.x", true).await);
    f.store.run_commit(&alice, &commit(vec![])).await.unwrap();
    // Bob comes back, and stands behind carol now.
    let ask = Ask { run: bob, claims: claims("w a.x"), lease: LEASE, queue: true };
    assert_eq!(blocked(f.store.reservation_acquire(&ask).await.unwrap())[0].reservation.run, carol);
    granted(f.again(carol, "w a.x", true).await);
}

pub(super) async fn who_gives_back_before_asking_for_more_is_not_waited_for(f: &Fixture) {
    let state = f.state("prod").await.id;
    let alice = f.held(state, "alice", "w a.x").await;
    let (run, bob) = (alice.run(), f.run(state, "bob").await);
    blocked(f.again(bob, "w a.x\nw a.y", true).await);
    // Each in the way of the other: bob waits for alice's row, and stands before alice for the next.
    let met = blocked(f.again(run, "w a.x\nw a.y", true).await);
    assert_eq!(met.iter().map(|one| one.reservation.run).collect::<Vec<_>>(), [bob, bob]);
    f.store.reservation_return(alice).await.unwrap();
    assert_eq!(f.store.run_find(run).await.unwrap().status, RunStatus::Started);
    blocked(f.again(run, "w a.x\nw a.y", true).await);
    assert_eq!(f.store.run_find(run).await.unwrap().status, RunStatus::Waiting);
    let bob = granted(f.again(bob, "w a.x\nw a.y", true).await);
    f.store.run_commit(&bob, &commit(vec![write("a.x=1")])).await.unwrap();
    // What was given back is not missed when the run commits.
    let alice = granted(f.again(run, "w a.x\nw a.y", true).await);
    f.store.run_commit(&alice, &commit(vec![write("a.x=2")])).await.unwrap();
    assert_eq!(f.rows(state, None).await, ["a.x=2"]);
    let ended = f.store.reservation_return(alice).await.unwrap_err();
    assert!(matches!(ended, StoreError::LeaseLost { .. }), "{ended:?}");
}

pub(super) async fn ten_thousand_at_once(f: &Fixture) {
    let state = f.state("prod").await.id;
    let rows: Vec<String> = (0..10_000).map(|n| format!("a.x[{n}]={{\"n\":{n}}}")).collect();
    let writes: Vec<_> = rows.iter().map(|row| write(row)).collect();
    let claims: Vec<Claim> = writes.iter().map(|one| Claim::write(one.key.pattern().unwrap())).collect();
    let run = f.run(state, "alice").await;
    let ask = Ask { run, claims: claims.clone(), lease: LEASE, queue: false };
    let started = std::time::Instant::now();
    let held = granted(f.store.reservation_acquire(&ask).await.unwrap());
    let met = blocked(f.again(f.run(state, "bob").await, "r a.x[9999]", true).await);
    assert_eq!(met[0].reservation.claim.pattern, Pattern::parse("a.x[9999]").unwrap());
    f.store.reservation_renew(&held).await.unwrap();
    let done = f.store.run_commit(&held, &commit(writes.clone())).await.unwrap();
    assert_eq!((done.rows_opened, done.rows_closed), (10_000, 0));
    assert_eq!(f.store.snapshot(state, None).await.unwrap().rows.len(), 10_000);
    let ends = writes.iter().map(|one| crate::store::model::RowWrite { key: one.key.clone(), body: None }).collect();
    f.time_passes().await;
    let held = granted(f.store.reservation_acquire(&Ask { run: f.run(state, "carol").await, ..ask }).await.unwrap());
    assert_eq!(f.store.run_commit(&held, &commit(ends)).await.unwrap().rows_closed, 10_000);
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}
