//! Stories by example.

use super::*;
use crate::domain::address::Address;
use crate::domain::coordination::reservation::HeldAs;
use crate::domain::plan::action::Action;
use crate::domain::run::aftermath::{Aftermath, Became};
use crate::domain::run::again::Again;
use crate::domain::run::event::{Holder, ResourceStep};
use crate::domain::run::fidelity::fidelity;
use crate::domain::state::{RowKey, Touched};
use crate::report::fixture::{Plan, actor, apply, at, beginning, blocker, changed_row, entry, run, run_id};
use crate::report::view::{Made, Today};

fn facts(run: Run, events: Vec<(i64, RunEvent)>) -> RunFacts {
    let apply = apply(run.clone(), events);
    let others = apply.beside.iter().map(|other| (other.run, other.clone())).collect();
    RunFacts {
        run,
        state: StateName::new("prod").unwrap(),
        apply,
        spec: None,
        others,
        later: Vec::new(),
        later_cut: false,
        committed: Vec::new(),
    }
}

fn version(serial: i64, mode: &'static str, rows: Vec<String>, fidelity: Option<Fidelity>) -> Committed {
    Committed { serial: Serial(serial), mode, rows, removed: 0, fidelity }
}

/// The lines of `kl show`, without the timeline's.
fn shown(story: &RunFacts) -> String {
    let shown = crate::report::envelope::Shown { after: 0, limit: 10 };
    anstream::adapter::strip_str(&crate::report::envelope::page(story, shown).terminal()).to_string()
}

fn told(story: &RunFacts) -> String {
    anstream::adapter::strip_str(&page(story, 20).terminal()).to_string()
}

#[test]
fn a_commit_names_its_neighbours_and_whether_it_was_exact() {
    let mut story = facts(run(RunStatus::Committed), beginning());
    let fidelity = Fidelity { as_planned: 6, along: vec!["data.aws_ami.x".to_owned()], ..Fidelity::default() };
    let rows = vec!["+ module.nat.aws_eip.this".to_owned()];
    story.committed = vec![version(43, "row-delta", rows, Some(fidelity))];
    insta::assert_snapshot!(told(&story));
    insta::assert_snapshot!(page(&story, 20).markdown());
    assert_eq!(document(&story)["exactly_as_planned"], true);

    let fidelity = Fidelity { as_planned: 1, unplanned: vec!["aws_vpc.`x`".to_owned()], ..Fidelity::default() };
    story.committed[0].fidelity = Some(fidelity);
    let text = told(&story);
    assert!(
        text.contains("! Not exactly what was planned: 1 row as planned, and\n      not planned: aws_vpc.`x`"),
        "{text}"
    );
    assert_eq!(document(&story)["exactly_as_planned"], false);
}

#[test]
fn a_refusal_says_who_and_what_to_do() {
    let mut refused = run(RunStatus::Conflict);
    refused.conflict = vec![blocker("aws_vpc.main", HeldAs::Run, &["aws_vpc.main"])];
    let waited = vec![(600, RunEvent::Waiting { behind: vec![refused.conflict[0].reservation.run], who: Vec::new() })];
    insta::assert_snapshot!(told(&facts(refused, waited)));
}

#[test]
fn a_stale_plan_says_which_rows_and_by_whom() {
    let failed = RunEvent::StaleCheckFailed {
        read: vec![changed_row("aws_vpc.main")],
        write: vec![changed_row("aws_subnet.a")],
        revalidate: false,
    };
    insta::assert_snapshot!(told(&facts(run(RunStatus::Stale), vec![(601, failed)])));
}

#[test]
fn what_a_recovery_has_looked_at_is_no_alarm_any_more() {
    let cut = || (605, RunEvent::InFlight { addresses: vec!["aws_vpc.main".to_owned()] });
    let text = told(&facts(run(RunStatus::Failed), vec![cut()]));
    assert!(text.contains("! Cut off while working on aws_vpc.main: look at the provider"), "{text}");
    let taken = (700, RunEvent::TakenOver { by: run_id(12), actor: actor("judy") });
    let mut story = facts(run(RunStatus::Failed), vec![cut(), taken]);
    let after =
        |run: u128, who: &str, became| Some(Aftermath { run: run_id(run), actor: actor(who), at: at(700), became });
    // A recovery that died has looked at nothing.
    story.apply.aftermath = after(13, "bob", Became::Kept);
    let text = told(&story);
    let line = format!(
        "! What it left was taken over by judy, run {}, and after that by bob, run {}; it is not in the state yet, and \
         stays reserved: kl recover {}",
        run_id(12),
        run_id(13),
        run_id(13)
    );
    assert!(text.contains(&line) && text.contains("look at the provider") && !text.contains("Recovered"), "{text}");
    story.apply.aftermath = after(12, "judy", Became::Recovered { serial: Some(Serial(50)), left: Vec::new() });
    let text = told(&story);
    assert!(
        text.contains(&format!("✓ Recovered: what it left was taken over by judy, run {}\n", run_id(12))),
        "{text}"
    );
    let line = format!(
        "Cut off while working on aws_vpc.main; the recovery by judy has looked what became of it: kl explain {}",
        run_id(12)
    );
    assert!(text.contains(&line) && !text.contains("look at the provider"), "{text}");
    let shown = anstream::adapter::strip_str(
        &crate::report::envelope::page(&story, crate::report::envelope::Shown { after: 0, limit: 100 }).terminal(),
    )
    .to_string();
    assert!(shown.contains(&line) && !shown.contains("look at the provider"), "{shown}");
}

#[test]
fn of_what_terraform_did_what_failed_is_marked() {
    let step = |address: &str, step| RunEvent::Resource {
        address: address.to_owned(),
        action: "create".to_owned(),
        step,
        elapsed_seconds: 2,
    };
    let events = vec![(605, step("b.one", ResourceStep::Finished)), (606, step("b.two", ResourceStep::Failed))];
    let story = facts(run(RunStatus::Failed), events);
    let text = told(&story);
    assert!(text.contains("! failed: b.two, create, after 2s\n      b.one: create, 2s"), "{text}");
    assert!(document(&story).to_string().contains("! failed: b.two, create, after 2s"));
}

#[test]
fn the_advice_is_for_today() {
    let mut refused = run(RunStatus::Conflict);
    refused.conflict = vec![blocker("aws_vpc.main", HeldAs::Quarantine, &["aws_vpc.main"])];
    let mut story = facts(refused, Vec::new());
    assert!(told(&story).contains("Refused: aws_vpc.main is quarantined by bob"));
    story.apply.today = Some(Today::default());
    let text = told(&story);
    assert!(
        text.contains("What stood in the way is gone by now: apply again") && !text.contains("kl recover"),
        "{text}"
    );
    let in_the_way = vec![blocker("aws_vpc.main", HeldAs::Run, &["aws_vpc.main"])];
    story.apply.today = Some(Today { in_the_way, ..Today::default() });
    assert!(told(&story).contains("Still in the way: aws_vpc.main is reserved by bob"));
    let made = |how, serial| Some(Made { serial, run: run_id(12), actor: actor("bob"), how });
    story.apply.today = Some(Today { made: made(Again::Applied, Some(Serial(50))), ..Today::default() });
    let done = format!("Nothing is left to do: the same spec was applied as serial 50 by bob, run {}", run_id(12));
    assert!(told(&story).ends_with(&format!("What to do now\n  · {done}\n")), "{}", told(&story));
    story.apply.today = Some(Today { undone: made(Again::Applied, Some(Serial(50))), ..Today::default() });
    let text = told(&story);
    assert!(text.contains("The same spec was applied as serial 50 by bob, run ") && !text.contains("Nothing is left"));
    assert!(text.contains("what it wrote was changed since without a plan: `kl history --since-plan "), "{text}");
    let mut stale = facts(run(RunStatus::Stale), Vec::new());
    assert!(told(&stale).contains("--on-stale revalidate"));
    stale.apply.today = Some(Today { made: made(Again::Planned, Some(Serial(50))), ..Today::default() });
    assert!(told(&stale).contains("the change was planned again, and applied as serial 50 by bob"));
    stale.apply.today = Some(Today { made: made(Again::Planned, None), ..Today::default() });
    assert!(
        told(&stale).contains("planned again, and applied by bob, run") && told(&stale).contains("nothing left to do")
    );
    stale.apply.today = Some(Today { made: made(Again::Followed, Some(Serial(50))), ..Today::default() });
    let text = told(&stale);
    assert!(text.contains("Another plan for some of the same rows was applied since, as serial 50 by bob"), "{text}");
}

#[test]
fn what_is_checked_before_and_after_waiting_is_told_once() {
    let failed =
        || RunEvent::StaleCheckFailed { read: Vec::new(), write: vec![changed_row("aws_subnet.a")], revalidate: true };
    let text = told(&facts(run(RunStatus::Committed), vec![(601, failed()), (602, failed())]));
    assert_eq!(text.matches("Changed since the plan").count(), 1, "{text}");
}

#[test]
fn who_waited_in_vain_or_only_looked_is_told_apart() {
    let mut refused = run(RunStatus::Conflict);
    refused.conflict = vec![blocker("aws_vpc.main", HeldAs::Run, &["aws_vpc.main"])];
    let title = conflict::title(&refused.conflict);
    let who = vec![Holder { run: run_id(12), actor: actor("bob") }];
    let waits = RunEvent::Waiting { behind: vec![run_id(12)], who };
    let gave_up = RunEvent::Refused { title: title.clone(), waited_seconds: Some(2), dry_run: true };
    let text = told(&facts(refused, vec![(600, waits), (602, gave_up)]));
    assert!(text.contains(&format!("… Waiting in turn behind bob (run {})", run_id(12))), "{text}");
    let line = format!("! Refused, in a dry run: {title}; it had waited in turn for 2s, and gave up");
    assert!(text.contains(&line), "{text}");
    assert_eq!(text.matches("Refused").count(), 1, "{text}");
}

#[test]
fn a_reason_of_several_lines_and_the_signs_of_a_timeline_can_be_read() {
    let mut failed = run(RunStatus::Failed);
    failed.error = Some("terraform apply failed: exit code 1\n  local-exec: no such file\n".to_owned());
    let story = facts(failed, vec![(603, RunEvent::LeaseLost { to: None, refused: false })]);
    let page = crate::report::envelope::page(&story, crate::report::envelope::Shown { after: 0, limit: 100 });
    let text = anstream::adapter::strip_str(&page.terminal()).to_string();
    assert!(text.contains("terraform apply failed: exit code 1; local-exec: no such file\n"), "{text}");
    let markdown = page.markdown();
    assert!(markdown.contains("exit code 1; local-exec: no such file"), "{markdown}");
    assert!(markdown.contains("**!** It was not heard of any more"), "{markdown}");
}

#[test]
fn a_version_is_what_was_planned_or_it_is_told_what_is_not() {
    let address = |text: &str| Address::parse(text).unwrap();
    let mut moved = entry("a.new", Action::NoOp, &[], "");
    moved.moved_from = Some(address("a.old"));
    let spec = Plan::new("prod")
        .write("a.made", Action::Create, &["x"], "")
        .write("a.other", Action::Update, &["x"], "")
        .write("a.gone", Action::Delete, &[], "")
        .write("a.again", Action::DeleteCreate, &["id"], "")
        .entry(moved)
        .output("o", Action::Update)
        .spec();
    let row = |text: &str, touched| {
        let key = match text.strip_prefix("output.") {
            Some(name) => RowKey::Output(name.to_owned()),
            None => RowKey::object(address(text)),
        };
        (key, touched)
    };
    let mut rows = vec![
        row("a.made", Touched::Created),
        row("a.other", Touched::Changed),
        row("a.gone", Touched::Removed),
        row("a.again", Touched::Changed),
        row("a.old", Touched::Removed),
        row("a.new", Touched::Created),
        row("output.o", Touched::Changed),
        row("data.d.read", Touched::Changed),
        row("a.soft", Touched::Changed),
    ];
    let soft = ["a.soft".to_owned()];
    let exact = fidelity(&spec, &[], &rows, &soft);
    assert!(exact.exact(), "{exact:?}");
    assert_eq!(
        (exact.as_planned, exact.along.as_slice()),
        (7, ["data.d.read".to_owned(), "a.soft".to_owned()].as_slice())
    );

    rows[1].1 = Touched::Removed;
    rows.remove(0);
    let found = fidelity(&spec, &[], &rows, &[]);
    assert!(!found.exact());
    assert_eq!(found.otherwise, ["a.other (removed)"]);
    assert_eq!(found.unchanged, ["a.made"]);
    assert_eq!(found.unplanned, ["a.soft"]);
}

#[test]
fn a_lost_run_says_who_took_its_rows() {
    let mut story = facts(run(RunStatus::Lost), vec![(700, RunEvent::LeaseLost { to: None, refused: false })]);
    let taker = story.apply.beside[0].run;
    story.later = vec![Later { run: taker, met: Met::Took }];
    let text = told(&story);
    assert!(text.contains(&format!("! Took over its ended lease: 1 run\n      run {taker} by bob")), "{text}");
    let text = shown(&story);
    assert!(text.contains(&format!("lease taken by  run {taker} by bob")), "{text}");
}

#[test]
fn a_screenful_of_rows_is_named_and_the_rest_can_be_found() {
    let mut story = facts(run(RunStatus::Committed), beginning());
    let rows = (0..25).map(|number| format!("+ a.x[{number}]")).collect();
    story.committed = vec![version(43, "row-delta", rows, None)];
    let text = shown(&story);
    assert!(text.contains("+ a.x[19]\n") && !text.contains("+ a.x[20]"), "{text}");
    assert!(text.contains("5 rows more: kl history --state prod --rows --limit 1 --before 44"), "{text}");
    assert!(told(&story).contains("and 5 facts more: the same with --limit 25"), "{}", told(&story));
}

fn rows(all: &[&str]) -> Vec<String> {
    all.iter().map(|row| (*row).to_owned()).collect()
}

/// A plain Terraform that has made two versions, and how it came to its end.
fn plain(status: RunStatus, end: RunEvent) -> RunFacts {
    let (id, operation) = ("one".to_owned(), "OperationTypeApply".to_owned());
    let committed = |serial| RunEvent::Committed {
        serial: Serial(serial),
        rows_opened: 2,
        rows_closed: 0,
        rows_touched: Some(2),
        as_planned: None,
    };
    let locked = RunEvent::Locked { id, operation, who: "ann".to_owned() };
    let run = Run { kind: RunKind::Plain, spec: None, result_serial: Some(Serial(43)), error: None, ..run(status) };
    let mut story = facts(run, vec![(600, locked), (610, committed(42)), (630, committed(43)), (640, end)]);
    story.committed = vec![
        version(42, "snapshot", rows(&["+ a", "+ x"]), None),
        version(43, "snapshot", rows(&["~ a", "+ b"]), None),
    ];
    story
}

#[test]
fn all_versions_of_a_plain_terraform_are_told() {
    let story = plain(RunStatus::Committed, RunEvent::Unlocked { by: actor("ann"), forced: false });
    let text = told(&story);
    assert!(text.contains("Each time a whole document was compared with the state (snapshot)\n"), "{text}");
    for row in ["+ a, in serial 42\n", "+ x, in serial 42\n", "~ a, in serial 43\n", "+ b, in serial 43\n"] {
        assert!(text.contains(row) && shown(&story).contains(row), "{row} in {text}");
    }
    let text = shown(&story);
    assert!(text.contains("2 versions, serials 42 to 43, snapshot, 3 rows changed\n"), "{text}");
    assert!(text.contains(", made 42 to 43\n"), "{text}");
    let document = crate::report::envelope::document(&story, crate::report::envelope::Shown { after: 0, limit: 10 });
    assert_eq!((&document["version"]["serial"], document["versions"].as_array().unwrap().len()), (&43.into(), 2));
    assert_eq!(document["versions"][0]["rows"], serde_json::json!(["+ a", "+ x"]));
}

#[test]
fn what_was_committed_before_the_end_was_committed() {
    let ends = [
        (RunStatus::Aborted, RunEvent::Aborted { by: actor("bob") }),
        (RunStatus::Failed, RunEvent::Unlocked { by: actor("bob"), forced: false }),
    ];
    for (status, end) in ends {
        let story = plain(status, end);
        let text = told(&story);
        assert!(!text.contains("nothing was committed") && !text.contains("nothing is left to clean up"), "{text}");
        let word = status.word();
        assert!(text.contains(&format!("! Ended as {word} after ")), "{text}");
        assert!(text.contains("; what it had committed by then stays\n"), "{text}");
        assert!(text.lines().next().unwrap().ends_with(", with serial 43 committed before"), "{text}");
        assert!(text.contains("terraform state push errored.tfstate"), "{text}");
    }
}

#[test]
fn what_was_removed_since_is_told_as_removed() {
    let of = |committed| RunFacts { committed, ..facts(run(RunStatus::Committed), beginning()) };
    let story = of(Vec::new());
    let text = told(&story);
    assert!(text.contains("· Serial 43; what it changed was removed by kl gc\n"), "{text}");
    assert!(!text.contains("Ended as"), "{text}");
    let text = shown(&story);
    assert!(text.contains("serial 43, what it changed was removed by kl gc\n"), "{text}");

    let story = of(vec![Committed { removed: 2, ..version(43, "row-delta", rows(&["+ a"]), None) }]);
    for text in [told(&story), shown(&story)] {
        assert!(
            text.contains("+ a\n") && text.contains("and 2 rows more; what became of that was removed by kl gc\n"),
            "{text}"
        );
    }
    assert!(shown(&story).contains("serial 43, row-delta, 3 rows changed\n"), "{}", shown(&story));
}
