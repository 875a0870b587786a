//! Which state, which project and which database a command means.

use crate::harness::site::Site;

const NOTHING: &str = "output \"workspace\" {\n  value = terraform.workspace\n}\n";

/// The state that a plan is for.
fn state(site: &Site, args: &[&str]) -> String {
    let planned = site.kl().args(["plan", "--format", "json"]).args(args.iter().copied()).exits(0).json();
    planned["spec"]["state"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn a_state_is_named_by_flag_else_by_kl_yaml_else_by_directory_and_workspace() {
    let site = Site::new();
    site.write("infra/web/main.tf", NOTHING);
    assert_eq!(state(&site, &["infra/web"]), "infra/web");
    assert_eq!(state(&site, &["infra/web", "--workspace", "default"]), "infra/web");
    assert_eq!(state(&site, &["infra/web", "--workspace", "dev"]), "infra/web:dev");
    assert_eq!(state(&site, &["infra/web", "--state", "other"]), "other");
    site.write(
        "kl.yaml",
        "projects:\n  - {name: web, dir: infra/web, state: prod-web}\n  - {name: dev, dir: infra/web, workspace: dev}\n",
    );
    assert_eq!(state(&site, &["infra/web"]), "prod-web");
    assert_eq!(state(&site, &["infra/web", "--workspace", "dev"]), "infra/web:dev");
    assert_eq!(state(&site, &["infra/web", "--state", "other"]), "other");
}

#[test]
fn a_workspace_keeps_its_meaning_and_its_own_state() {
    let site = Site::new();
    site.write("live/main.tf", NOTHING);
    site.kl().args(["apply", "live", "--auto-approve"]).exits(0);
    site.kl().args(["plan", "live", "--out", "dev.json"]).env("TF_WORKSPACE", "dev").exits(0);
    // The spec knows its workspace; whoever applies it need not say it again.
    site.kl().args(["apply", "dev.json"]).exits(0);
    let shown = |name: &str| site.kl().args(["state", "show", "output.workspace", "--state", name]).exits(0).stdout;
    assert!(shown("live").contains("\"value\": \"default\""), "{}", shown("live"));
    assert!(shown("live:dev").contains("\"value\": \"dev\""), "{}", shown("live:dev"));
}

#[test]
fn the_embedded_database_lies_beside_kl_yaml_and_is_nobodys_to_commit() {
    let site = Site::new();
    site.write("team/kl.yaml", "policies: {on_stale: revalidate}\n");
    site.write("team/live/main.tf", NOTHING);
    site.kl().args(["plan", "team/live"]).exits(0);
    assert!(site.repo().join("team/.kl/kl.db").is_file());
    assert_eq!(std::fs::read_to_string(site.repo().join("team/.kl/.gitignore")).unwrap().trim(), "*");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(site.repo().join("team/.kl/kl.db")).unwrap());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn the_actor_is_named_by_flag_else_by_environment_else_by_the_ci_job() {
    let site = Site::new();
    site.write("live/main.tf", NOTHING);
    let actor = |kl: crate::harness::kl::Kl| kl.exits(0).json()["spec"]["actor"].as_str().unwrap().to_owned();
    let job =
        || site.kl().env("GITHUB_ACTIONS", "true").env("GITHUB_ACTOR", "bob").env("GITHUB_REF", "refs/pull/7/merge");
    let plan = ["plan", "live", "--format", "json"];
    assert_eq!(actor(job().args(plan)), "bob");
    assert_eq!(actor(job().env("KL_ACTOR", "carol").args(plan)), "carol");
    assert_eq!(
        actor(job().env("KL_ACTOR", "carol").args(["plan", "live", "--format", "json", "--actor", "alice"])),
        "alice"
    );
    assert!(actor(site.kl().args(plan)).contains('@'));
}

#[test]
fn a_new_state_is_announced_beside_the_nearest_that_exist() {
    let site = Site::new();
    site.write("live/main.tf", NOTHING);
    let planned = |name: &str| site.kl().args(["plan", "live", "--state", name]).exits(0).stderr;
    assert!(!planned("prod").contains("a new state"), "the first of all needs no warning");
    let said = planned("prdo");
    assert!(said.contains("a new state prdo; this database knows: prod\n"), "{said}");
    assert!(!planned("prdo").contains("a new state"), "it is known by now");
    for name in ["dev", "staging", "network", "dns"] {
        planned(name);
    }
    let said = planned("prod2");
    assert!(said.contains("a new state prod2; this database knows: prod, prdo, "), "{said}");
    assert!(said.contains(" and 1 more\n"), "{said}");
}

#[test]
fn the_status_leaves_out_what_was_planned_once_and_never_applied() {
    let site = Site::new();
    site.write("live/main.tf", NOTHING);
    site.kl().args(["plan", "live", "--state", "prdo"]).exits(0);
    let status = |args: &[&str]| site.kl().arg("status").args(args.iter().copied()).exits(0);
    assert!(status(&[]).stdout.starts_with("No state has a version yet, and nothing is running"));
    assert_eq!(status(&["--format", "json"]).json()["states"], serde_json::json!([]));
    // Asked for by name it is shown.
    assert!(status(&["--state", "prdo"]).stdout.starts_with("prdo at serial 0\n"));
    site.kl().args(["apply", "live", "--state", "prod", "--auto-approve"]).exits(0);
    assert_eq!(status(&[]).stdout, "prod at serial 1\n  · nothing is running, nothing is reserved\n");
}
