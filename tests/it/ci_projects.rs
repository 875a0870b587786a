//! `kl ci projects`: which projects there are, and which of them a change concerns.

use std::process::Command;

use serde_json::Value;

use crate::harness::site::Site;

/// A repository with two root modules that share a local module, and a third.
fn site() -> Site {
    let site = Site::new();
    let call = "module \"net\" {\n  source = \"../../modules/net\"\n}\n";
    site.write("infra/web/main.tf", call);
    site.write("infra/db/main.tf", call);
    site.write("infra/dns/main.tf", "");
    site.write("modules/net/main.tf", "");
    site
}

const KL_YAML: &str = "projects:\n\
    - {name: web, dir: infra/web, depends_on: [db], environment: production}\n\
    - {name: db, dir: infra/db, state: prod-db}\n\
    - {name: dns, dir: infra/dns, workspace: eu, when_changed: ['zones/**']}\n";

fn names(document: &Value) -> Vec<&str> {
    let projects = document["projects"].as_array().unwrap();
    assert_eq!(document["count"], projects.len());
    projects.iter().map(|project| project["name"].as_str().unwrap()).collect()
}

fn listed(site: &Site, args: &[&str]) -> Value {
    site.kl().args(["ci", "projects", "--format", "json"]).args(args.iter().copied()).exits(0).json()
}

fn concerned(site: &Site, files: &str) -> Vec<String> {
    let kl = site.kl().args(["ci", "projects", "--format", "json", "--changed", "-"]).stdin(files);
    names(&kl.exits(0).json()).into_iter().map(str::to_owned).collect()
}

fn git(site: &Site, args: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=alice", "-c", "user.email=alice@example.org", "-c", "init.defaultBranch=main"])
        .arg("-C")
        .arg(site.repo())
        .args(args)
        .env("HOME", site.path("home"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn projects_are_found_or_listed_and_come_in_order() {
    let site = site();
    assert_eq!(names(&listed(&site, &[])), ["infra/db", "infra/dns", "infra/web"]);
    site.write("kl.yaml", KL_YAML);
    let document = listed(&site, &[]);
    assert_eq!(names(&document), ["db", "web", "dns"]);
    let web = &document["projects"][1];
    assert_eq!((web["dir"].as_str(), web["state"].as_str()), (Some("infra/web"), Some("infra/web")));
    assert_eq!((web["environment"].as_str(), web["depends_on"][0].as_str()), (Some("production"), Some("db")));
    let dns = &document["projects"][2];
    assert_eq!((dns["workspace"].as_str(), dns["state"].as_str()), (Some("eu"), Some("infra/dns:eu")));
    let table = site.kl().args(["ci", "projects"]).exits(0).stdout;
    assert!(table.lines().next().is_some_and(|head| head.starts_with("PROJECT")), "{table}");
}

#[test]
fn a_list_of_changed_files_chooses_the_projects_that_they_concern() {
    let site = site();
    site.write("kl.yaml", KL_YAML);
    assert_eq!(concerned(&site, "modules/net/main.tf\n"), ["db", "web"]);
    assert_eq!(concerned(&site, "./infra/dns/main.tf\n\nREADME.md\n"), ["dns"]);
    assert_eq!(concerned(&site, "zones/a/b.zone\n"), ["dns"]);
    assert_eq!(concerned(&site, "kl.yaml\n"), ["db", "web", "dns"]);
    assert_eq!(concerned(&site, "README.md\n"), Vec::<String>::new());
    site.write("list", "infra/web/main.tf\nmodules/net/a.tf\nmodules/net/b.tf\n");
    let said = site.kl().args(["ci", "projects", "--changed", "list"]).exits(0).stdout;
    assert!(said.contains("infra/web/main.tf, modules/net/a.tf and 1 more"), "{said}");
    let said = site.kl().args(["ci", "projects", "--changed", "/dev/null"]).exits(0).stdout;
    assert_eq!(said, "The change concerns none of the 3 projects.\n");
}

#[test]
fn git_tells_what_changed_since_a_branch_with_both_sides_of_renames() {
    let site = site();
    site.write("kl.yaml", KL_YAML);
    site.write("infra/dns/zone.tf", "locals {\n  one = 1\n  two = 2\n  three = 3\n}\n");
    std::fs::remove_dir_all(site.repo().join(".git")).unwrap();
    git(&site, &["init", "--quiet"]);
    git(&site, &["add", "."]);
    git(&site, &["commit", "--quiet", "--message", "Begin"]);
    git(&site, &["checkout", "--quiet", "-b", "feature"]);
    git(&site, &["mv", "infra/dns/zone.tf", "infra/db/zone.tf"]);
    git(&site, &["commit", "--quiet", "--message", "Move"]);
    // What the other branch does meanwhile is none of ours.
    git(&site, &["checkout", "--quiet", "main"]);
    site.write("infra/web/more.tf", "");
    git(&site, &["add", "."]);
    git(&site, &["commit", "--quiet", "--message", "Elsewhere"]);
    git(&site, &["checkout", "--quiet", "feature"]);
    assert_eq!(names(&listed(&site, &["--base", "main"])), ["db", "dns"]);
    assert_eq!(listed(&site, &["--base", "HEAD"])["count"], 0);
    let said = site.kl().args(["ci", "projects", "--base", "nowhere"]).exits(3).stderr;
    assert!(said.contains("git cannot tell what changed") && said.contains("fetch-depth: 0"), "{said}");
    let said = site.kl().args(["ci", "projects", "--base=--output=/tmp/x"]).exits(3).stderr;
    assert!(said.contains("is no branch and no commit"), "{said}");
}
