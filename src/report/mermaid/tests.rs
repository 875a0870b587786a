//! What the diagrams look like, and what hostile names may do in them: nothing.

use proptest::prelude::*;

use super::*;
use crate::report::fixture::{self, Plan, at};

#[test]
fn reads_point_at_what_uses_them() {
    let text = graph(&fixture::network()).unwrap();
    let id = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.contains(&format!("[\"{name}\"]")))
            .unwrap_or_else(|| panic!("{name}: {text}"));
        line.trim().split('[').next().unwrap().to_owned()
    };
    // An edge that names a resource leads to each of its instances.
    for instance in ["-/+\u{A0}aws_subnet.private#91;#34;b#34;#93;", "+\u{A0}aws_subnet.private#91;#34;c#34;#93;"] {
        assert!(text.contains(&format!("  {} --> {}\n", id("aws_vpc.main"), id(instance))), "{text}");
    }
    assert!(text.contains("subgraph m1[\"module.nat\"]"));
}

#[test]
fn a_large_plan_is_drawn_with_fewer_boxes() {
    for (changes, boxes) in [(10, 10), (200, 1), (5_000, 1)] {
        let view = fixture::many(changes);
        let crate::report::view::PlanView::Planned(planned) = &view.projects[0].plan else {
            panic!("the fixture is planned");
        };
        let text = graph(&planned.spec).unwrap();
        assert_eq!(text.lines().filter(|line| line.contains("]:::")).count(), boxes, "{text}");
        assert!(changes == 10 || text.contains(&format!("aws_route53_record.this\u{A0}×\u{A0}{changes}")), "{text}");
    }
}

#[test]
fn a_wall_of_modules_is_not_drawn_at_all() {
    let plan = (0..200)
        .fold(Plan::new("x"), |plan, number| plan.write(&format!("module.m{number}.x.a"), Action::Create, &[], ""));
    assert_eq!(graph(&plan.spec()), None);
}

#[test]
fn a_bar_of_no_time_is_still_seen() {
    let bar =
        |from, to| Bar { section: "a".into(), name: "x:y;z#%%".into(), look: Look::Failed, from: at(from), to: at(to) };
    let text = timeline(&[bar(0, 100), bar(7, 7)]).unwrap();
    assert!(text.ends_with("  x y z :crit, 1773064807000, 1773064808000\n"), "{text}");
    assert_eq!(timeline(&[]), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    /// The lines of a diagram have the same forms, whatever the names are.
    #[test]
    fn no_name_breaks_out_of_its_label(key in ".{0,60}", section in ".{0,30}", name in ".{0,30}") {
        let address = format!("module.a[{0}].x.b[{0}]", crate::domain::address::quoted(&key));
        let text = graph(&Plan::new("x").write(&address, Action::Create, &[], "").read(&address, &address).spec()).unwrap();
        let node = regex::Regex::new(r#"^ +(n0|subgraph m0)\["[^"\[\]{}<>()`|;]*(#\d+;[^"\[\]{}<>()`|;]*)*"\](:::creates)?$"#).unwrap();
        for line in text.lines().filter(|line| line.contains('"')) {
            prop_assert!(node.is_match(line), "{line}");
        }
        let bars = [Bar { section, name, look: Look::Plain, from: at(0), to: at(1) }];
        let text = timeline(&bars).unwrap();
        prop_assert_eq!(text.lines().count(), 5);
        prop_assert_eq!(text.lines().last().unwrap().matches(':').count(), 1);
    }
}

#[test]
fn no_bar_begins_with_a_word_or_a_date_of_mermaids_own() {
    let shown = ["click x", "Section x", "gantt.x", "2026-01-01", "section.x", "clicker.x"].map(bar_text);
    assert_eq!(shown, ["· click x", "· Section x", "· gantt.x", "· 2026-01-01", "· section.x", "clicker.x"]);
}
