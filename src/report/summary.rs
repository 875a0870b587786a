//! The summary that a job leaves on its page, for one project: with everything that the database knows, or, for a request
//! from a fork, with the plan alone.

use super::budget::{Budget, Node, Rank, fit};
use super::comment::place::Place;
use super::comment::status::Status;
use super::comment::{changes, elsewhere, project};
use super::markdown::{Block, Inline};
use super::view::{ChangedValue, ProjectView};
use crate::domain::plan::spec::PlanSpec;
use crate::domain::request::RequestPhase;

/// The summary of a project, after a plan or an apply.
#[must_use]
pub fn summary(of: &ProjectView, phase: RequestPhase, place: &Place) -> String {
    let status = Status::of(of, phase);
    let mut nodes = vec![Node::head(Block::heading(3, &project::heading(of, &status)))];
    nodes.extend(project::nodes(of, phase, None, place));
    fit(&nodes, Budget::SUMMARY, &elsewhere(std::slice::from_ref(of)))
}

/// The summary of a plan that was made without the database, as for a request from a fork.
#[must_use]
pub fn offline(name: &str, spec: &PlanSpec, values: &[ChangedValue], place: &Place) -> String {
    let heading = Inline::own(if spec.has_changes() { "🟢 " } else { "⚪ " })
        .and(&Inline::code(name))
        .own_and(if spec.has_changes() { " · planned" } else { " · no changes" });
    let note = Inline::own(
        "Planned without the database, as for a request from a fork: nothing is reserved or remembered, other requests \
         were not looked at, and this plan cannot be applied. Somebody with access plans again before the merge.",
    );
    let mut nodes = vec![Node::head(Block::heading(3, &heading)), project::sentence(spec)];
    nodes.extend(project::cautioned(spec));
    nodes.extend(changes::nodes(spec, place));
    nodes.extend(changes::values(values, spec));
    nodes.push(Node::block(Rank::Vital, "note", Block::quote(&[note])));
    nodes.extend(project::picture(spec));
    nodes.push(Node::details("Spec and versions", vec![project::spec_facts(spec, None)]));
    fit(&nodes, Budget::SUMMARY, &Inline::own("All of it is in the output of the job."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn place() -> Place {
        Place::default()
    }

    #[test]
    fn a_request_from_a_fork_gets_its_plan_and_is_told_what_is_missing() {
        insta::assert_snapshot!(offline("network", &fixture::network(), &[], &place()));
    }

    #[test]
    fn a_project_after_its_apply() {
        let view = fixture::committed();
        let text = summary(&view.projects[0], view.phase, &place());
        assert!(text.starts_with("### ✅ `network` · applied as serial 43\n"), "{text}");
        assert!(text.contains("The reviewed plan"));
    }

    #[test]
    fn the_largest_plans_fit() {
        let view = fixture::many(5_000);
        let text = summary(&view.projects[0], view.phase, &place());
        assert!(text.len() < 1_000_000 && text.contains("Not shown here: 3988 changes"), "{}", text.len());
    }
}
