//! Stories by example.

use super::*;
use crate::domain::coordination::reservation::HeldAs;
use crate::report::fixture::{apply, beginning, blocker, changed_row, run};

fn facts(run: Run, events: Vec<(i64, RunEvent)>) -> RunFacts {
    let apply = apply(run.clone(), events);
    let others = apply.beside.iter().map(|other| (other.run, other.clone())).collect();
    RunFacts { run, state: StateName::new("prod").unwrap(), apply, spec: None, others, committed: None }
}

fn told(story: &RunFacts) -> String {
    anstream::adapter::strip_str(&page(story).terminal()).to_string()
}

#[test]
fn a_commit_names_its_neighbours_and_whether_it_was_exact() {
    let mut story = facts(run(RunStatus::Committed), beginning());
    let fidelity = Fidelity { as_planned: 6, along: vec!["data.aws_ami.x".to_owned()], ..Fidelity::default() };
    let rows = vec!["+ module.nat.aws_eip.this".to_owned()];
    story.committed = Some(Committed { serial: Serial(43), mode: "row-delta", rows, fidelity: Some(fidelity) });
    insta::assert_snapshot!(told(&story));
    insta::assert_snapshot!(page(&story).markdown());
    assert_eq!(document(&story)["exactly_as_planned"], true);

    let fidelity = Fidelity { as_planned: 1, unplanned: vec!["aws_vpc.`x`".to_owned()], ..Fidelity::default() };
    story.committed.as_mut().unwrap().fidelity = Some(fidelity);
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
    let waited = vec![(600, RunEvent::Waiting { behind: vec![refused.conflict[0].reservation.run] })];
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
