//! The sensitive values that a plan holds in clear, to be kept out of messages.

use serde_json::value::RawValue;

use super::changed::note;
use super::plan_json::{Change, PlanJson};
use crate::domain::graph::configuration::ModuleConfig;
use crate::domain::json::Json;
use crate::domain::redact::Secrets;

/// Remembers the sensitive values of a plan: of attributes and outputs before and after, and of the variables that the
/// root module declares as sensitive. What cannot be read is passed over: whoever needs it says so.
pub fn collect(plan: &PlanJson, root: &ModuleConfig, secrets: &mut Secrets) {
    let objects = plan.resource_changes.iter().chain(&plan.resource_drift).map(|entry| &entry.change);
    for change in objects.chain(plan.output_changes.values()) {
        of_change(change, secrets);
    }
    for variable in root.variables.iter().filter(|variable| variable.sensitive) {
        if let Some(value) = plan.variables.get(&variable.name).and_then(|given| read(given.value.as_deref())) {
            secrets.note(&value);
        }
    }
}

fn of_change(change: &Change, secrets: &mut Secrets) {
    for (value, mask) in [(&change.before, &change.before_sensitive), (&change.after, &change.after_sensitive)] {
        if let (Some(value), Some(mask)) = (read(value.as_deref()), read(mask.as_deref())) {
            note(&value, &mask, secrets);
        }
    }
}

fn read(raw: Option<&RawValue>) -> Option<Json> {
    Json::from_raw(raw?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::graph::configuration;

    #[test]
    fn values_are_found_wherever_the_plan_marks_them_and_nowhere_else() {
        let plan = r#"{"format_version":"1.2","variables":{"v":{"value":{"a":"of-variable"}},"w":{"value":"open-variable"}},
            "resource_changes":[{"address":"a.b","change":{"actions":["update"],
              "before":{"x":"before-value","y":"open-value"},"before_sensitive":{"x":true},
              "after":{"z":[{"k":"after-value"}]},"after_sensitive":{"z":[{"k":true}]}}}],
            "output_changes":{"o":{"actions":["create"],"after":"of-output","after_sensitive":true}}}"#;
        let root = "variable \"v\" {\n  sensitive = true\n}\nvariable \"w\" {}\n";
        let root = configuration::read(&[("main.tf".to_owned(), root.to_owned())]).unwrap();
        let mut secrets = Secrets::default();
        collect(&PlanJson::read(plan).unwrap(), &root, &mut secrets);
        let said = secrets.hide_in("of-variable open-variable before-value open-value after-value of-output");
        let mask = crate::domain::redact::MASK;
        assert_eq!(said, format!("{mask} open-variable {mask} open-value {mask} {mask}"));
    }
}
