//! What kl refuses to a plain Terraform: the person at the terminal reads why, and nothing has changed.

use std::fs;

use serde_json::{Value, json};

use crate::backend::{RESOURCES, exec, pulled, shell, site};
use crate::harness::database::Database;
use crate::harness::site::Site;
use crate::harness::terraform::program;

on_both_databases!(
    a_refused_write_says_why_and_changes_nothing,
    a_write_without_the_lock_is_refused_before_anything_is_done,
    an_address_of_its_own_is_refused,
    a_program_that_works_on_another_state_is_told_so,
    there_are_no_workspaces,
    the_address_of_the_database_is_no_business_of_a_provider,
);

fn applied(database: &Database) -> Site {
    let site = site(database, RESOURCES);
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    drop(exec(&site, &["apply", "-auto-approve", "-input=false"]).exits(0));
    site
}

fn a_refused_write_says_why_and_changes_nothing(database: &Database) {
    let site = applied(database);
    // Some serials later: Terraform takes 0 for none.
    drop(exec(&site, &["apply", "-auto-approve", "-input=false", "-var=value=2"]).exits(0));
    drop(exec(&site, &["apply", "-auto-approve", "-input=false", "-var=value=3"]).exits(0));
    let before = pulled(&site);
    let serial = before["serial"].as_i64().unwrap();
    let pushed = |change: &dyn Fn(&mut Value)| {
        let mut document = before.clone();
        change(&mut document);
        fs::write(site.repo().join("live/pushed.tfstate"), document.to_string()).unwrap();
        exec(&site, &["state", "push", "-force", "pushed.tfstate"]).exits(1).stderr
    };
    let lower = pushed(&|document| document["serial"] = json!(serial - 2));
    assert!(lower.contains("HTTP error: 409") && lower.contains("serials only grow"), "{lower}");
    let foreign = pushed(&|document| document["lineage"] = json!("another"));
    assert!(foreign.contains("the document has lineage another"), "{foreign}");
    assert_eq!(pulled(&site), before);
    let newest = || database.value("SELECT max(serial) FROM state_versions").unwrap();
    assert_eq!(newest(), serial.to_string());

    // A script that does without the lock where kl does not see it.
    let script = format!("'{}' apply -auto-approve -input=false -lock=false -var=value=9", program());
    let said = shell(&site, &script).exits(1).stderr;
    assert!(said.contains("HTTP error: 409") && said.contains("under its lock only"), "{said}");
    assert_eq!(pulled(&site), before);
    // What it did is in a file, which is taken over under the lock.
    drop(exec(&site, &["state", "push", "errored.tfstate"]).exits(0));
    drop(exec(&site, &["plan", "-detailed-exitcode", "-input=false", "-var=value=9"]).exits(0));
}

fn a_write_without_the_lock_is_refused_before_anything_is_done(database: &Database) {
    let site = applied(database);
    let before = pulled(&site);
    for args in [
        ["apply", "-auto-approve", "-lock=false", "-var=value=9"],
        ["destroy", "-auto-approve", "-lock=false", "-var=value=9"],
        ["import", "-lock=false", "terraform_data.b[\"z\"]", "an-id"],
        ["state", "rm", "-lock=false", "terraform_data.a"],
    ] {
        let said = exec(&site, &args).exits(3).stderr;
        assert!(said.contains("-lock=false") && said.contains("leave -lock=false out"), "{said}");
    }
    let said = exec(&site, &["apply", "-auto-approve"]).env("TF_CLI_ARGS_apply", "-lock=false").exits(3).stderr;
    assert!(said.contains("-lock=false"), "{said}");
    let said = exec(&site, &["state", "rm", "terraform_data.a"]).env("TF_CLI_ARGS_state_rm", "-lock=false").exits(3);
    assert!(said.stderr.contains("leave -lock=false out"), "{said:?}");
    assert_eq!(pulled(&site), before);
    assert!(!site.repo().join("live/errored.tfstate").exists());
    // Looking needs no lock.
    let runs = || database.value("SELECT count(*) FROM runs");
    let count = runs();
    drop(exec(&site, &["plan", "-lock=false", "-detailed-exitcode", "-input=false"]).exits(0));
    assert_eq!(runs(), count);
}

/// The state would be read and written there, while kl holds the lock for nothing.
fn an_address_of_its_own_is_refused(database: &Database) {
    let site = applied(database);
    let before = pulled(&site);
    let elsewhere = "http://127.0.0.1:9/elsewhere";
    let given = format!("-backend-config=address={elsewhere}");
    let said = exec(&site, &["init", "-input=false", "-reconfigure", &given]).exits(3).stderr;
    assert!(said.contains("-backend-config sets address, which counts for more"), "{said}");
    // In the arguments that Terraform takes from the environment, or in a file.
    let init = exec(&site, &["init", "-input=false", "-reconfigure"]);
    let said = init.env("TF_CLI_ARGS_init", format!("'{given}'")).exits(3).stderr;
    assert!(said.contains("-backend-config sets address") && said.contains("TF_CLI_ARGS_init"), "{said}");
    site.write("live/b.hcl", &format!("# where\naddress = \"{elsewhere}\"\n"));
    site.write("live/b.json", &format!("{{\"lock_address\": \"{elsewhere}\"}}"));
    site.write("live/c.hcl", "unlock_method = \"DELETE\"\npassword = \"x\"\n");
    for (file, sets) in [("b.hcl", "address"), ("b.json", "lock_address"), ("c.hcl", "unlock_method, password")] {
        let said = exec(&site, &["init", "-input=false", "-reconfigure", &format!("-backend-config={file}")]).exits(3);
        assert!(said.stderr.contains(&format!("{file}: the file sets {sets}, which")), "{said:?}");
    }
    site.write("live/b.hcl", "skip_cert_verification = true\n");
    drop(exec(&site, &["init", "-input=false", "-reconfigure", "-backend-config", "b.hcl"]).exits(0));
    drop(exec(&site, &["init", "-input=false", "-reconfigure"]).exits(0));
    // An earlier init has been told, without kl.
    let known = site.repo().join("live/.terraform/terraform.tfstate");
    let text = fs::read_to_string(&known).unwrap();
    let mut backend: Value = serde_json::from_str(&text).unwrap();
    for (name, value) in [("unlock_method", "DELETE"), ("address", elsewhere)] {
        backend["backend"]["config"][name] = json!(value);
        fs::write(&known, backend.to_string()).unwrap();
        let said = exec(&site, &["apply", "-auto-approve", "-input=false", "-var=value=9"]).exits(3).stderr;
        assert!(said.contains("an earlier init") && said.contains("init -reconfigure"), "{said}");
        assert!(said.contains(name), "{name}: {said}");
    }
    drop(exec(&site, &["init", "-input=false", "-reconfigure"]).exits(0));
    drop(exec(&site, &["plan", "-input=false"]).exits(0));
    let configuration = site.repo().join("live/backend.tf");
    let text = fs::read_to_string(&configuration).unwrap();
    for (name, value) in [("address", elsewhere), ("unlock_method", "DELETE"), ("username", "ci")] {
        let own = text.replace("backend \"http\" {", &format!("backend \"http\" {{\n {name} = \"{value}\"\n"));
        assert_ne!(own, text);
        fs::write(&configuration, own).unwrap();
        let said = exec(&site, &["apply", "-auto-approve", "-input=false", "-var=value=9"]).exits(3).stderr;
        assert!(said.contains("the backend block in") && said.contains(&format!("sets {name}, which")), "{said}");
    }
    fs::write(&configuration, text).unwrap();
    assert_eq!(pulled(&site), before);
}

fn a_program_that_works_on_another_state_is_told_so(database: &Database) {
    let site = applied(database);
    let before = pulled(&site);
    let never = "never asked for the state \"live\"";
    let plan = format!("'{}' plan -input=false", program());
    let said = shell(&site, &plan).exits(0).stderr;
    assert!(!said.contains(never) && !said.contains("would not work on kl's state"), "{said}");
    let said = shell(&site, "exit 7").exits(7).stderr;
    assert!(said.contains(never), "{said}");
    // A script that applies in a directory with another backend.
    let block = "terraform {\n  backend \"local\" {\n    path = \"own.tfstate\"\n  }\n}\n";
    site.write("live/backend.tf", block);
    let script = format!("'{0}' init -input=false -reconfigure && '{0}' apply -auto-approve -input=false", program());
    let said = shell(&site, &script).exits(0).stderr;
    assert!(said.contains("would not work on kl's state") && said.contains("has the backend \"local\""), "{said}");
    assert!(said.contains(never), "{said}");
    assert!(site.repo().join("live/own.tfstate").exists());
    assert_eq!(pulled(&site), before);
}

fn there_are_no_workspaces(database: &Database) {
    let site = applied(database);
    for args in [["workspace", "list", ""], ["workspace", "new", "dev"], ["workspace", "select", "dev"]] {
        let args: Vec<&str> = args.into_iter().filter(|arg| !arg.is_empty()).collect();
        let said = exec(&site, &args).exits(1).stderr;
        assert!(said.contains("workspaces not supported"), "{args:?}: {said}");
    }
    assert_eq!(exec(&site, &["workspace", "show"]).exits(0).stdout.trim(), "default");
    // What stands in for them.
    let dev = site.kl().args(["exec", "--dir", "live", "--workspace", "dev", "--", program().as_str()]);
    drop(dev.clone().args(["apply", "-auto-approve", "-input=false", "-var=value=5"]).exits(0));
    assert_eq!(dev.args(["output", "-raw", "value"]).exits(0).stdout, "5");
    assert_eq!(exec(&site, &["output", "-raw", "value"]).exits(0).stdout, "1");
}

fn the_address_of_the_database_is_no_business_of_a_provider(database: &Database) {
    let config = format!(
        "{RESOURCES}\nresource \"terraform_data\" \"looks\" {{\n  provisioner \"local-exec\" {{\n    command = \"env > ../env\"\n  }}\n}}\n"
    );
    let site = site(database, &config);
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    drop(exec(&site, &["apply", "-auto-approve", "-input=false"]).env("KL_FORGE_TOKEN", "s3cret").exits(0));
    let seen = fs::read_to_string(site.repo().join("env")).unwrap();
    assert!(
        seen.contains("TF_HTTP_ADDRESS=") && !seen.contains("KL_DATABASE_URL") && !seen.contains("s3cret"),
        "{seen}"
    );
    // A script may call kl again.
    assert!(shell(&site, "env").exits(0).stdout.contains("KL_DATABASE_URL"));
}
