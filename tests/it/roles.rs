//! `kl db roles`: the grants are enough to plan and to apply, and no more.

use crate::harness::database::{Backend, Database, on};
use crate::harness::site::Site;

/// Makes the roles of one test; they belong to the server, so that their names are the test's own.
struct Roles<'a> {
    database: &'a Database,
    plan: String,
    apply: String,
}

impl<'a> Roles<'a> {
    fn make(database: &'a Database, site: &Site) -> Self {
        let name = database.value("SELECT current_database()").unwrap();
        let (plan, apply) = (format!("{name}_plan"), format!("{name}_apply"));
        for role in [&plan, &apply] {
            database.execute(&format!("CREATE ROLE \"{role}\" LOGIN"));
        }
        let printed = site.kl().args(["db", "roles", "--plan", &plan, "--apply", &apply]).exits(0).stdout;
        for statement in printed.split(";\n") {
            let bare: Vec<&str> = statement.lines().filter(|line| !line.starts_with("--")).collect();
            // Each statement is a transaction of its own here.
            if !["", "BEGIN", "COMMIT"].contains(&bare.join("\n").trim()) {
                database.execute(&bare.join("\n"));
            }
        }
        Self { database, plan, apply }
    }

    /// The database's address for a role.
    fn url(&self, role: &str) -> String {
        let url = self.database.url();
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (scheme, rest) = base.split_once("://").unwrap();
        let rest = rest.split_once('@').map_or(rest, |(_, rest)| rest);
        // A server on a socket has no host in front of which a name could stand.
        let others = query.split('&').filter(|part| !part.is_empty() && !part.starts_with("user="));
        let query: Vec<String> = others.map(str::to_owned).chain([format!("user={role}")]).collect();
        format!("{scheme}://{rest}?{}", query.join("&"))
    }
}

impl Drop for Roles<'_> {
    fn drop(&mut self) {
        for role in [&self.plan, &self.apply] {
            self.database.execute(&format!("DROP OWNED BY \"{role}\""));
            self.database.execute(&format!("DROP ROLE \"{role}\""));
        }
    }
}

#[test]
fn a_planning_role_can_plan_and_an_applying_role_can_apply() {
    on(Backend::Postgres, |database| {
        let site = Site::on(&database);
        let roles = Roles::make(&database, &site);
        let resource = |input: u32| format!("resource \"terraform_data\" \"a\" {{ input = {input} }}\n");
        site.write("live/main.tf", &resource(1));
        let planning = || site.kl().env("KL_DATABASE_URL", roles.url(&roles.plan));
        let applying = || site.kl().env("KL_DATABASE_URL", roles.url(&roles.apply));

        drop(planning().args(["plan", "live"]).exits(0));
        let said = planning().args(["apply", "kl-plan.json"]).exits(1).stderr;
        assert!(said.contains("permission denied"), "{said}");
        assert_eq!(database.value("SELECT count(*) FROM runs"), Some("0".into()));
        drop(applying().args(["apply", "kl-plan.json"]).exits(0));

        // On a state with rows, in all ways that a job goes.
        site.write("live/main.tf", &resource(2));
        drop(planning().args(["plan", "live"]).exits(0));
        drop(planning().args(["status"]).exits(0));
        drop(planning().args(["history", "live", "--rows"]).exits(0));
        drop(planning().args(["doctor"]).exits(0));
        drop(applying().args(["apply", "kl-plan.json", "--dry-run"]).exits(0));
        drop(applying().args(["apply", "kl-plan.json"]).exits(0));
        drop(applying().args(["refresh", "live"]).exits(0));
        assert_eq!(database.value("SELECT max(serial) FROM state_versions"), Some("2".into()));

        // A failed apply leaves a checkpoint and a quarantine, and recovering takes them over.
        site.write(
            "live/main.tf",
            "resource \"terraform_data\" \"a\" { input = 3 }\nresource \"terraform_data\" \"b\" {\n  input = \
             terraform_data.a.id\n  provisioner \"local-exec\" {\n    command = \"exit 1\"\n  }\n}\n",
        );
        drop(planning().args(["plan", "live"]).exits(0));
        let said = applying().args(["apply", "kl-plan.json"]).exits(1).stderr;
        let run =
            said.split("kl recover ").nth(1).and_then(|rest| rest.split('`').next()).expect("it says how to recover");
        drop(planning().args(["recover", run]).exits(1));
        drop(applying().args(["recover", run]).exits(0));
        assert_eq!(database.value("SELECT max(serial) FROM state_versions"), Some("3".into()));
    });
}

#[test]
fn a_planning_role_can_neither_change_the_trunk_nor_drop_history() {
    on(Backend::Postgres, |database| {
        let site = Site::on(&database);
        let roles = Roles::make(&database, &site);
        let may = |role: &str, table: &str, right: &str| {
            let sql = format!("SELECT has_table_privilege('{role}', '{table}', '{right}')::text");
            database.value(&sql).as_deref() == Some("true")
        };
        for table in ["resources", "resource_bodies", "state_versions", "runs", "resource_reservations", "run_events"] {
            assert!(may(&roles.plan, table, "SELECT") && !may(&roles.plan, table, "INSERT, UPDATE"), "{table}");
        }
        assert!(!may(&roles.plan, "states", "UPDATE") && !may(&roles.plan, "run_checkpoints", "SELECT"));
        let tables =
            database.rows("SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public'");
        for table in tables.into_iter().flatten().flatten() {
            for role in [&roles.plan, &roles.apply] {
                let forgets = table == "run_workplaces" && *role == roles.apply;
                assert!(forgets || !may(role, &table, "DELETE, TRUNCATE"), "{role} may delete from {table}");
            }
        }
    });
}
