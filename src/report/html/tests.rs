//! Pages and aftermaths by example.

use chrono::DateTime;
use serde_json::{Value, json};

use super::aftermath::{Meeting, What, meetings};
use super::*;
use crate::domain::address::Pattern;
use crate::domain::coordination::reservation::{Claim, HeldAs};
use crate::domain::id::SpecId;
use crate::domain::run::aftermath::{Aftermath, Became};
use crate::domain::run::again::{Again, again};
use crate::domain::run::event::RunEvent;
use crate::domain::run::fidelity::Fidelity;
use crate::domain::run::{Origin, Run, RunStatus};
use crate::report::explain::{Committed, RunFacts};
use crate::report::fixture::{actor, apply, at, beginning, blocker, changed_row, run, run_id};
use crate::report::story::Tone;

/// What is known of a run, with these events.
fn facts(run: Run, events: Vec<(i64, RunEvent)>) -> RunFacts {
    let mut apply = apply(run.clone(), events);
    apply.beside.clear();
    let state = StateName::new("prod").unwrap();
    RunFacts {
        run,
        state,
        apply,
        spec: None,
        others: std::collections::BTreeMap::new(),
        later: Vec::new(),
        later_cut: false,
        committed: Vec::new(),
    }
}

fn view(run: Run, events: Vec<(i64, RunEvent)>) -> RunView {
    RunView::of(&facts(run, events))
}

/// A run of alice for request 7, by its number, its beginning and how it ended.
fn of(number: u128, from: i64, status: RunStatus) -> Run {
    let job_url = Some("https://github.com/acme/infra/actions/runs/1".to_owned());
    Run {
        origin: Origin { job_url, ..run(status).origin },
        id: run_id(number),
        started_at: at(from),
        ended_at: status.ended().then(|| at(from + 10)),
        result_serial: (status == RunStatus::Committed).then_some(Serial(50)),
        claims: vec![write("aws_vpc.main")],
        ..run(status)
    }
}

fn write(pattern: &str) -> Claim {
    Claim::write(Pattern::parse(pattern).unwrap())
}

fn refused(number: u128, from: i64) -> Run {
    Run {
        conflict: vec![blocker("aws_vpc.main", HeldAs::Run, &["aws_vpc.main"])],
        ..of(number, from, RunStatus::Conflict)
    }
}

/// The run of the fixture's blocker, which holds what alice wants.
fn holder(until: Option<i64>) -> RunView {
    let blocker = blocker("aws_vpc.main", HeldAs::Run, &["aws_vpc.main"]);
    let status = if until.is_some() { RunStatus::Committed } else { RunStatus::Applying };
    let run = Run {
        id: blocker.reservation.run,
        actor: blocker.reservation.holder,
        origin: blocker.reservation.origin,
        spec: Some(SpecId(run_id(9_000).0)),
        started_at: at(-100),
        ended_at: until.map(at),
        ..of(1, -100, status)
    };
    view(run, Vec::new())
}

fn met(runs: &[RunView]) -> Vec<Meeting> {
    meetings(runs, &[], at(10_000))
}

/// What became of the one meeting.
#[track_caller]
fn became(runs: &[RunView]) -> (What, String, bool) {
    let all = met(runs);
    assert_eq!(all.len(), 1, "{all:?}");
    (all[0].what, all[0].became.phrase.bare(), all[0].open)
}

#[test]
fn a_refused_change_is_open_until_it_is_made() {
    let first = || view(refused(2, 100), Vec::new());
    let (what, text, open) = became(&[holder(Some(150)), first()]);
    assert_eq!((what, open), (What::Refused, true));
    assert_eq!(text, "Not tried again yet; what stood in the way is free by now");

    let again = view(of(3, 200, RunStatus::Committed), Vec::new());
    let (_, text, open) = became(&[holder(Some(150)), first(), again.clone()]);
    let holder_name = blocker("x.y", HeldAs::Run, &[]).reservation.holder.0;
    assert_eq!(
        text,
        format!("Applied again at 2026-03-09 14:03:20 UTC as serial 50, after {holder_name}'s run had ended")
    );
    assert!(!open);

    // The holder was still at work: that is not why.
    let (_, text, _) = became(&[holder(None), first(), again]);
    assert_eq!(text, "Applied again at 2026-03-09 14:03:20 UTC as serial 50");

    let failed = view(of(4, 300, RunStatus::Failed), Vec::new());
    let (_, text, open) = became(&[holder(None), first(), failed.clone(), failed.clone()]);
    assert_eq!(text, "Tried again 2 times, the last one at 2026-03-09 14:05:00 UTC, and not applied: ! failed");
    assert!(open);

    let live = view(of(5, 400, RunStatus::Applying), Vec::new());
    let (_, text, open) = became(&[holder(None), first(), live]);
    assert!(text.starts_with("Tried again at 2026-03-09 14:06:40 UTC, and still at work: "), "{text}");
    assert!(!open);
}

#[test]
fn what_still_stands_in_the_way_is_said() {
    let standing = blocker("aws_vpc.main", HeldAs::Run, &[]).reservation;
    let runs = [holder(None), view(refused(2, 100), Vec::new())];
    let all = meetings(&runs, &[standing], at(10_000));
    assert_eq!(all[0].became.phrase.bare(), "Not tried again yet; 1 reservation is still in the way");
}

#[test]
fn an_overtaken_plan_is_planned_again() {
    let stale = |revalidate| RunEvent::StaleCheckFailed {
        read: vec![changed_row("aws_vpc.main")],
        write: Vec::new(),
        revalidate,
    };
    let first = view(of(2, 100, RunStatus::Stale), vec![(101, stale(false))]);
    let mut again = of(3, 200, RunStatus::Committed);
    again.spec = Some(SpecId(run_id(8_000).0));
    let (what, text, open) = became(&[first, view(again, Vec::new())]);
    assert_eq!((what, open), (What::Overtaken, false));
    assert_eq!(text, "Planned again, and applied at 2026-03-09 14:03:20 UTC as serial 50");

    let replanned = RunEvent::Replanned { relation: "identical".to_owned(), differences: Vec::new(), at: Vec::new() };
    let run = view(of(2, 100, RunStatus::Committed), vec![(101, stale(true)), (105, replanned)]);
    let (what, text, open) = became(&[run]);
    assert_eq!((what, open), (What::Revalidated, false));
    assert_eq!(text, "Planned again: identical; committed as serial 50");
}

#[test]
fn a_run_whose_new_plan_was_another_one_is_there_without_anybody_in_its_way() {
    let replanned = RunEvent::Replanned {
        relation: "shape_differs".to_owned(),
        differences: vec!["aws_vpc.main: not in the reviewed plan: update".to_owned()],
        at: Vec::new(),
    };
    let (what, text, open) = became(&[view(of(2, 100, RunStatus::Stale), vec![(105, replanned)])]);
    assert_eq!((what, text.as_str(), open), (What::PlannedOtherwise, "Not tried again yet", true));
}

#[test]
fn a_change_that_was_refused_again_and_again_is_one_thing_to_do_until_it_is_made() {
    let stale = |revalidate| {
        (101, RunEvent::StaleCheckFailed { read: Vec::new(), write: vec![changed_row("aws_vpc.main")], revalidate })
    };
    let refused = |number: u128, revalidate| {
        view(of(number, 100 * i64::try_from(number).unwrap(), RunStatus::Stale), vec![stale(revalidate)])
    };
    let open = |runs: &[RunView]| {
        let open: Vec<crate::domain::id::RunId> =
            met(runs).iter().filter(|one| one.open).map(|one| one.change).collect();
        open.into_iter().collect::<std::collections::BTreeSet<_>>().len()
    };
    let tries = [refused(2, false), refused(3, true), refused(4, true)];
    assert_eq!((met(&tries).len(), open(&tries)), (3, 1));
    let mut runs = tries.to_vec();
    runs.push(view(of(5, 500, RunStatus::Committed), vec![stale(true)]));
    assert_eq!(open(&runs), 0);
    let told: Vec<String> = met(&runs).iter().map(|one| one.became.phrase.bare()).collect();
    assert!(told[1].contains("not applied: ! stale. Applied again at"), "{told:?}");
    assert!(told[1].ends_with("as serial 50"), "{told:?}");
}

#[test]
fn outside_of_requests_the_same_actor_and_the_same_rows_count() {
    let alone = |mut run: Run| {
        run.origin = Origin::default();
        run.spec = None;
        run
    };
    let other = |mut run: Run| {
        run.claims = vec![write("aws_vpc.other")];
        run
    };
    let first = || view(alone(refused(2, 100)), Vec::new());
    let elsewhere = view(other(alone(of(3, 200, RunStatus::Committed))), Vec::new());
    assert!(became(&[first(), elsewhere]).1.starts_with("Not tried again yet"));
    let mut of_bob = alone(of(3, 200, RunStatus::Committed));
    of_bob.actor = actor("bob");
    assert!(became(&[first(), view(of_bob, Vec::new())]).1.starts_with("Not tried again yet"));
    let same = view(alone(of(3, 200, RunStatus::Committed)), Vec::new());
    assert!(became(&[first(), same]).1.starts_with("Followed by another plan for some of the same rows, applied at"));
}

#[test]
fn who_waited_went_on_or_not() {
    let waits = || (110, RunEvent::Waiting { behind: vec![run_id(1)], who: Vec::new() });
    let reserved = (170, RunEvent::Reserved { writes: 1, reads: 0, expires_at: None, beside: Vec::new() });
    let mut run = of(2, 100, RunStatus::Committed);
    run.ended_at = Some(at(200));
    let went_on = view(run, vec![waits(), reserved]);
    assert_eq!(went_on.waited, Some((at(110), Some(at(170)))));
    assert_eq!(became(&[went_on]).1, "Went on after 1m, and committed serial 50");
    // A plain Terraform gets the lock.
    let (id, operation) = (String::new(), String::new());
    let locked = (170, RunEvent::Locked { id, operation, who: String::new() });
    let plain = view(of(2, 100, RunStatus::Committed), vec![waits(), locked]);
    assert_eq!(plain.waited, Some((at(110), Some(at(170)))));
    let waiting = view(of(2, 100, RunStatus::Waiting), vec![waits()]);
    assert_eq!(waiting.waited, Some((at(110), None)));
    assert_eq!(became(&[waiting]).1, "Still waiting, for 2h 44m now");
    let aborted = view(of(2, 100, RunStatus::Aborted), vec![waits()]);
    assert_eq!(became(&[aborted]).1, "Waited for 0s, and ended as aborted");
}

#[test]
fn what_was_left_behind_is_loud_until_it_is_recovered() {
    let left = RunEvent::Quarantined { addresses: vec!["aws_vpc.main".to_owned()] };
    let failed = || view(of(2, 100, RunStatus::Failed), vec![(105, left.clone())]);
    // Who ended it has said so, and it says so itself.
    assert_eq!(view(of(2, 100, RunStatus::Aborted), vec![(105, left.clone()), (106, left.clone())]).left.len(), 1);
    let mut quarantine = blocker("aws_vpc.main", HeldAs::Quarantine, &[]).reservation;
    quarantine.run = run_id(2);
    let all = meetings(&[failed()], &[quarantine], at(10_000));
    assert!(all[0].open);
    assert_eq!(
        all[0].became.phrase.bare(),
        format!("Still kept reserved; kl recover {} takes over what was really changed", run_id(2))
    );
    let taken = |seconds: i64, who: &str, became: Became| {
        let mut facts = facts(of(2, 100, RunStatus::Failed), vec![(105, left.clone())]);
        facts.apply.aftermath = Some(Aftermath { run: run_id(4), actor: actor(who), at: at(seconds), became });
        let meeting = met(&[RunView::of(&facts)]).pop().unwrap();
        (meeting.became.phrase.bare(), meeting.became.tone, meeting.open)
    };
    let recovered = |serial: Option<i64>, left| Became::Recovered { serial: serial.map(Serial), left };
    let done = "Recovered at 2026-03-09 14:06:40 UTC as serial 50 by bob";
    assert_eq!(taken(400, "bob", recovered(Some(50), Vec::new())), (done.to_owned(), Tone::Good, false));
    let (text, tone, _) = taken(400, "bob", recovered(Some(50), vec![changed_row("aws_vpc.main")]));
    let part = format!("{done}; 1 row left as the state had them: kl explain {}", run_id(4));
    assert_eq!((text, tone), (part, Tone::Careful));
    assert!(taken(300, "bob", recovered(None, Vec::new())).0.ends_with("by bob; there was nothing to take over"));
    // A recovery that died keeps what it had taken over.
    let (text, tone, open) = taken(300, "bob", Became::Kept);
    let kept = format!("Still kept reserved; kl recover {} takes over what was really changed", run_id(4));
    assert_eq!((text, tone, open), (kept, Tone::Alarm, true));
    assert_eq!(taken(300, "bob", Became::UnderWay).1, Tone::Waits);
    let (text, tone, _) = taken(700, "carol", Became::Dropped);
    let dropped = "Dropped at 2026-03-09 14:11:40 UTC by carol: its real objects are nobody's";
    assert_eq!((text.as_str(), tone), (dropped, Tone::Careful));
    assert!(taken(300, "bob", Became::Forgotten).0.starts_with("Taken over by bob, run "));
    assert_eq!(became(&[failed()]).1, "Freed since");
}

#[test]
fn who_took_a_lease_is_named() {
    let mut taker = of(3, 200, RunStatus::Committed);
    taker.actor = actor("bob");
    taker.origin.request = Some(12);
    taker.spec = None;
    let runs = [
        view(of(2, 100, RunStatus::Lost), Vec::new()),
        view(taker, vec![(201, RunEvent::Reclaimed { from: run_id(2), refused: false })]),
    ];
    let all = met(&runs);
    assert_eq!((all.len(), all[0].what), (1, What::Lost));
    assert_eq!(all[0].by[0].told.bare(), format!("bob for acme/infra#12, run {}", run_id(3)));
}

const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\u{202E}{{script}}é😀א";

/// A page with everything that can be on it, and names as hostile as they come.
fn report() -> Report {
    let mut first = facts(of(2, 100, RunStatus::Committed), beginning());
    first.run.actor = actor(HOSTILE);
    first.run.error = Some(HOSTILE.to_owned());
    first.run.origin.job_url = Some("javascript:alert(1)".to_owned());
    let fidelity = Fidelity { as_planned: 1, ..Fidelity::default() };
    let rows = vec![format!("+ aws_vpc.x[\"{HOSTILE}\"]")];
    let fidelity = Some(fidelity);
    first.committed = vec![Committed { serial: Serial(50), mode: "row-delta", rows, removed: 0, fidelity }];
    let mut second = refused(3, 105);
    second.origin.repository = Some(HOSTILE.to_owned());
    Report {
        now: at(10_000),
        states: vec![(StateName::new("prod").unwrap(), Serial(50))],
        runs: vec![
            holder(Some(150)),
            RunView::of(&first),
            view(second, Vec::new()),
            view(of(4, 200, RunStatus::Committed), Vec::new()),
        ],
        standing: Vec::new(),
        since: None,
        cut: false,
    }
}

/// What stands in a script element.
#[track_caller]
fn element<'p>(page: &'p str, id: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!("id=\"{id}\">")).unwrap();
    rest.split_once("</script>").unwrap().0
}

#[test]
fn hostile_names_change_nothing_about_the_page() {
    let mut calm = report();
    calm.runs.clear();
    let tags = |page: &str, tag: &str| page.matches(tag).count();
    let (hostile, empty) = (page(&report()), page(&calm));
    for tag in ["<script", "</script", "<img", "<aside", "</noscript"] {
        assert_eq!(tags(&hostile, tag), tags(&empty, tag), "{tag}");
    }
    assert!(!hostile.contains("javascript:"));
    assert!(!hostile.contains('\u{202E}'));
    let index: Value = serde_json::from_str(element(&hostile, "index")).unwrap();
    let shown = crate::report::markdown::visible(HOSTILE);
    assert!(index["actors"].as_array().unwrap().contains(&json!(shown)));
    assert_eq!(element(&hostile, "stories").lines().count(), 4);
    for line in element(&hostile, "stories").lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
}

#[test]
fn the_browser_may_run_what_is_ours_alone() {
    let page = page(&report());
    let style = page.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    let script = page.rsplit_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
    for ours in [style, script] {
        let hash = BASE64_STANDARD.encode(Sha256::digest(ours));
        assert!(page.contains(&format!("'sha256-{hash}'")));
    }
    assert!(page.contains("default-src 'none'; style-src 'sha256-"));
    // Nothing that would need a network, and no slot left.
    for foreign in ["src=\"", "@import", "url(", "<link", "{{index", "{{style"] {
        let found = page.replace(&crate::report::markdown::visible(HOSTILE), "").contains(foreign);
        assert!(!found, "{foreign}");
    }
}

#[test]
fn the_same_facts_give_the_same_page() {
    assert_eq!(page(&report()), page(&report()));
}

#[test]
fn the_data_of_a_page() {
    let page = page(&report());
    let index: Value = serde_json::from_str(element(&page, "index")).unwrap();
    insta::assert_snapshot!(format!("{index:#}"));
    let stories: Vec<Value> =
        element(&page, "stories").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    insta::assert_snapshot!(format!("{:#}", stories[2]));
}

#[test]
fn a_page_can_be_read_without_its_script() {
    let page = page(&report());
    let plain = page.split_once("<noscript>").unwrap().1.split_once("</noscript>").unwrap().0;
    insta::assert_snapshot!(plain);
}

#[test]
fn links_go_to_the_forge_that_ran_the_job_or_nowhere() {
    let mut origin = of(2, 1, RunStatus::Committed).origin;
    origin.job_url = Some("https://git.example.com/sub/acme/infra/-/jobs/9".to_owned());
    origin.forge = Some("gitlab".to_owned());
    let url = |origin: &Origin| view::request_url(origin);
    assert_eq!(url(&origin).as_deref(), Some("https://git.example.com/sub/acme/infra/-/merge_requests/7"));
    origin.job_url = Some("https://git.example.com/other/jobs/9".to_owned());
    assert_eq!(url(&origin), None);
    origin.job_url = Some("javascript:x/acme/infra/1".to_owned());
    assert_eq!(url(&origin), None);
}

#[test]
fn a_page_says_what_it_left_out() {
    let mut all = report();
    assert!(all.scope().starts_with("4 runs. Written at 2026-03-09 16:46:40 UTC by kl "), "{}", all.scope());
    all.cut = true;
    all.since = DateTime::from_timestamp(0, 0);
    assert!(all.scope().starts_with("The newest 4 runs; older ones were left out (--limit), begun since 1970-01-01"));
}

#[test]
fn another_plan_is_the_same_change_where_it_writes_all_of_it() {
    // A run of alice for request 7 that wants to write these patterns.
    let wants = |number: u128, spec: u128, patterns: &[&str]| {
        let claims = patterns.iter().map(|pattern| write(pattern)).collect();
        let spec = Some(SpecId(run_id(spec).0));
        Run { spec, claims, ..of(number, i64::try_from(number).unwrap(), RunStatus::Committed) }
    };
    let first = wants(1, 1, &["a.b[0]", "a.c"]);
    assert_eq!(again(&first, &wants(2, 1, &[])), Some(Again::Applied));
    assert_eq!(again(&first, &wants(2, 2, &["a.c", "a.b", "a.d"])), Some(Again::Planned));
    assert_eq!(again(&first, &wants(2, 2, &["a.c"])), Some(Again::Followed), "a part of it");
    assert_eq!(again(&first, &wants(2, 2, &["a.d"])), None, "something else of the same request");
    assert_eq!(again(&wants(2, 1, &[]), &wants(1, 1, &[])), None, "it began before");

    let alone = |run: Run| Run { origin: Origin::default(), ..run };
    let first = alone(first);
    assert_eq!(again(&first, &wants(2, 2, &["a.c", "a.b"])), None, "somebody's request");
    assert_eq!(again(&first, &alone(wants(2, 2, &["a.c", "a.b"]))), Some(Again::Followed));
    let bob = Run { actor: actor("bob"), ..alone(wants(2, 2, &["a.c", "a.b"])) };
    assert_eq!(again(&first, &bob), None);
}
