//! Least privilege on PostgreSQL: what a role that plans, and one that applies, may do to each table.

use std::fmt::Write as _;

/// What a role may do to a table.
struct Grant {
    table: &'static str,
    plan: &'static str,
    apply: &'static str,
}

/// Table → what is granted on it.
type Grants<'a> = Vec<(&'a str, &'a str)>;

/// Every table and view. Whoever plans reads the state, and writes specs and what the comment of its request is made of.
/// Neither deletes history: `kl gc` is for the owner of the tables.
const GRANTS: &[Grant] = &[
    Grant { table: "kl_migrations", plan: "SELECT", apply: "SELECT" },
    Grant { table: "states", plan: "SELECT, INSERT", apply: "SELECT, INSERT, UPDATE" },
    Grant { table: "state_versions", plan: "SELECT", apply: "SELECT, INSERT" },
    Grant { table: "resources", plan: "SELECT", apply: "SELECT, INSERT, UPDATE" },
    Grant { table: "resource_bodies", plan: "SELECT", apply: "SELECT, INSERT" },
    Grant { table: "resource_dependencies", plan: "SELECT", apply: "SELECT" },
    Grant { table: "current_resources", plan: "SELECT", apply: "SELECT" },
    Grant { table: "resource_changes", plan: "SELECT", apply: "SELECT" },
    Grant { table: "run_overview", plan: "SELECT", apply: "SELECT" },
    Grant { table: "run_conflicts", plan: "SELECT", apply: "SELECT" },
    Grant { table: "reservation_overview", plan: "SELECT", apply: "SELECT" },
    Grant { table: "version_overview", plan: "SELECT", apply: "SELECT" },
    Grant { table: "resource_reservations", plan: "SELECT", apply: "SELECT, INSERT, UPDATE" },
    Grant { table: "plan_specs", plan: "SELECT, INSERT", apply: "SELECT, INSERT" },
    Grant { table: "runs", plan: "SELECT", apply: "SELECT, INSERT, UPDATE" },
    Grant { table: "apply_runs", plan: "SELECT", apply: "SELECT" },
    Grant { table: "refresh_runs", plan: "SELECT", apply: "SELECT" },
    Grant { table: "run_events", plan: "SELECT", apply: "SELECT, INSERT" },
    // Checkpoints hold what a failed apply has done, with secrets; plans have no use for them.
    Grant { table: "run_checkpoints", plan: "", apply: "SELECT, INSERT, UPDATE" },
    // Where a run works stands there only while it does; plans look whether what it left may be cleared away.
    Grant { table: "run_workplaces", plan: "SELECT", apply: "SELECT, INSERT, UPDATE, DELETE" },
    Grant { table: "requests", plan: "SELECT, INSERT, UPDATE", apply: "SELECT, INSERT, UPDATE" },
    Grant { table: "request_projects", plan: "SELECT, INSERT, UPDATE", apply: "SELECT, INSERT, UPDATE" },
    // A server of the backend looks tokens up and notes their use. To make and to revoke them is for the owner.
    Grant { table: "access_tokens", plan: "", apply: "SELECT, UPDATE (last_used_at)" },
    Grant { table: "comments", plan: "SELECT, INSERT, UPDATE", apply: "SELECT, INSERT, UPDATE" },
];

/// The roles, and where kl's tables are.
#[derive(Debug, Clone, Copy)]
pub struct Roles<'a> {
    /// The role of jobs that plan.
    pub plan: &'a str,
    /// The role of jobs that apply.
    pub apply: &'a str,
    /// The schema.
    pub schema: &'a str,
}

impl Roles<'_> {
    /// Statements that give both roles what they need, and take away what they had besides. To be run by the owner of the
    /// tables, again after every migration.
    #[must_use]
    pub fn sql(&self) -> String {
        let schema = quoted(self.schema);
        let mut sql = format!(
            "-- What kl's jobs need on PostgreSQL, and no more. Run it as the owner of kl's tables, in kl's database, after\n\
             -- every `kl db migrate`. The roles have to exist:\n\
             --   CREATE ROLE {plan} LOGIN PASSWORD '…';\n\
             --   CREATE ROLE {apply} LOGIN PASSWORD '…';\n\
             BEGIN;\n",
            plan = quoted(self.plan),
            apply = quoted(self.apply)
        );
        let plans = GRANTS.iter().map(|grant| (grant.table, grant.plan)).collect();
        let applies = GRANTS.iter().map(|grant| (grant.table, grant.apply)).collect();
        let roles: [(&str, &str, Grants<'_>); 2] = [
            (self.plan, "plans: reads states, writes specs and what comments are made of", plans),
            (self.apply, "applies: reserves, commits, and records runs; deletes no history", applies),
        ];
        for (name, what, grants) in roles {
            let role = quoted(name);
            let _ = write!(
                sql,
                "\n-- {role} {what}.\n\
                 REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {role};\n\
                 GRANT USAGE ON SCHEMA {schema} TO {role};\n"
            );
            for (table, granted) in grants.into_iter().filter(|(_, granted)| !granted.is_empty()) {
                let _ = writeln!(sql, "GRANT {granted} ON {schema}.{table} TO {role};");
            }
        }
        sql.push_str("\nCOMMIT;\n");
        sql
    }
}

/// An identifier, whatever is in it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::store::schema;

    /// What the migrations make.
    fn made() -> BTreeSet<String> {
        let mut found = BTreeSet::from(["kl_migrations".to_owned()]);
        for migration in schema::postgres().iter() {
            for line in migration.sql.as_str().lines() {
                for start in ["CREATE TABLE ", "CREATE VIEW ", "CREATE OR REPLACE VIEW "] {
                    if let Some(rest) = line.strip_prefix(start) {
                        found.extend(rest.split([' ', '(']).next().map(str::to_owned));
                    }
                }
            }
        }
        found
    }

    #[test]
    fn every_table_and_view_has_its_grants() {
        let known: BTreeSet<String> = GRANTS.iter().map(|grant| grant.table.to_owned()).collect();
        assert_eq!(known, made());
    }

    #[test]
    fn nobody_deletes_history_and_who_plans_does_not_touch_the_trunk() {
        for grant in GRANTS {
            // Where a run works is no history: it is forgotten when the run's own record is complete.
            let deletes = grant.apply.contains("DELETE") && grant.table != "run_workplaces";
            assert!(!grant.plan.contains("DELETE") && !deletes, "{}", grant.table);
            if ["state_versions", "resources", "resource_bodies", "runs", "resource_reservations"]
                .contains(&grant.table)
            {
                assert_eq!(grant.plan, "SELECT", "{}", grant.table);
            }
        }
    }

    #[test]
    fn names_are_quoted() {
        let sql = Roles { plan: "a\"; DROP ROLE x; --", apply: "b", schema: "public" }.sql();
        assert!(sql.contains("TO \"a\"\"; DROP ROLE x; --\";"), "{sql}");
    }
}
