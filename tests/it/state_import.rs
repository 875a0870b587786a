//! `kl state import`, `pull`, `list` and `show`, with documents good and bad.

use std::fs;

use serde_json::{Value, json};

use crate::harness::database::{Backend, Database};
use crate::harness::site::Site;
use crate::stage::{CHAIN, Gates, assert_tidy, wait_for_runs};

on_both_databases!(
    what_is_imported_is_pulled_again_number_by_number,
    documents_that_cannot_be_read_are_refused_and_touch_nothing,
    nothing_is_imported_of_nothing,
    what_is_only_in_another_order_is_no_change,
    an_import_goes_forward_within_its_lineage_only,
    an_import_takes_nothing_back_unasked,
    an_import_beside_a_live_run_is_refused_with_its_holder,
    an_import_that_has_waited_is_judged_by_what_it_finds,
    old_serials_can_be_pulled,
    a_state_without_a_version_cannot_be_pulled,
    sensitive_values_are_masked_where_people_look,
);

const DOCUMENT: &str = r#"{
  "version": 4,
  "terraform_version": "1.5.0",
  "serial": 7,
  "lineage": "aaaa",
  "outputs": {
    "big": { "value": 123456789012345678901234567890.12345, "type": "number" },
    "secret": { "value": "hunter2", "type": "string", "sensitive": true }
  },
  "resources": [
    {
      "module": "module.web[\"a.b\"]",
      "mode": "managed",
      "type": "terraform_data",
      "name": "r",
      "provider": "provider[\"terraform.io/builtin/terraform\"]",
      "instances": [
        {
          "index_key": "q\"uote ${x}",
          "schema_version": 0,
          "attributes": {
            "id": "3e8",
            "input": { "value": 1.50e3, "type": "number" },
            "output": null,
            "triggers_replace": null,
            "member_of_the_future": [1.0, 10000000000000000000001]
          },
          "sensitive_attributes": [[{ "type": "get_attr", "value": "id" }]],
          "dependencies": ["terraform_data.base"]
        }
      ]
    }
  ],
  "check_results": null,
  "member_of_the_future": { "kept": 1.10 }
}
"#;

fn document(lineage: &str, serial: u64) -> String {
    DOCUMENT.replace("\"aaaa\"", &format!("\"{lineage}\"")).replace("\"serial\": 7", &format!("\"serial\": {serial}"))
}

/// A site with a root module, so that the directory names the state.
fn site(database: &Database) -> Site {
    let site = Site::on(database);
    site.write("live/main.tf", "");
    site
}

fn import(site: &Site, text: &str, code: i32) -> String {
    let said = site.kl().args(["state", "import", "-", "--dir", "live"]).stdin(text).exits(code);
    said.stdout + &said.stderr
}

fn pull(site: &Site) -> String {
    site.kl().args(["state", "pull", "live"]).exits(0).stdout
}

/// The document's tokens: with them, numbers are compared as they are written.
fn tokens(text: &str) -> String {
    let mut quoted = false;
    let mut escaped = false;
    text.chars()
        .filter(|letter| {
            if *letter == '"' && !escaped {
                quoted = !quoted;
            }
            escaped = *letter == '\\' && !escaped;
            quoted || !letter.is_whitespace()
        })
        .collect()
}

fn what_is_imported_is_pulled_again_number_by_number(database: &Database) {
    let site = site(database);
    import(&site, DOCUMENT, 0);
    let pulled = pull(&site);
    for part in ["123456789012345678901234567890.12345", "1.50e3", "10000000000000000000001", "1.10"] {
        assert!(pulled.contains(part), "{part}: {pulled}");
    }
    let whole: Value = serde_json::from_str(&pulled).unwrap();
    assert_eq!(whole, serde_json::from_str::<Value>(DOCUMENT).unwrap());
    // What was pulled is the same document once more, and importing it changes nothing.
    assert!(import(&site, &pulled, 0).contains("has this document already"));
    assert_eq!(tokens(&pull(&site)), tokens(&pulled));
    assert_tidy_from(database, 7);
}

/// Nothing is reserved, and there is only this version.
#[track_caller]
fn assert_tidy_from(database: &Database, serial: u64) {
    let one = |sql: &str| database.value(sql).unwrap_or_default();
    assert_eq!(one("SELECT count(*) FROM resource_reservations WHERE released_at IS NULL"), "0");
    assert_eq!(one("SELECT count(*) FROM runs WHERE ended_at IS NULL"), "0");
    assert_eq!(one("SELECT max(serial) FROM state_versions"), serial.to_string());
}

fn documents_that_cannot_be_read_are_refused_and_touch_nothing(database: &Database) {
    let site = site(database);
    let cases = [
        ("{", "standard input cannot be imported"),
        ("[]", "cannot be imported"),
        ("null", "cannot be imported"),
        (&DOCUMENT[..DOCUMENT.len() / 2], "cannot be imported"),
        (r#"{"version": 3, "serial": 1, "modules": []}"#, "an old format"),
        (r#"{"version": 5, "serial": 1}"#, "newer"),
        (
            r#"{"serial":1,"lineage":"x","meta":{"key_provider.pbkdf2.mine":"e30="},"encrypted_data":"AAAA","encryption_version":"v0"}"#,
            "encrypted",
        ),
        (r#"{"format_version":"1.0","terraform_version":"1.11.4","values":{}}"#, "cannot be imported"),
        (&DOCUMENT.replace("\"managed\"", "\"imaginary\""), "cannot be imported"),
        (&DOCUMENT.replace("\"serial\": 7", "\"serial\": -7"), "cannot be imported"),
        (&DOCUMENT.replace("\"serial\": 7", "\"serial\": 7, \"serial\": 8"), "\"serial\" stands twice"),
        (&DOCUMENT.replace("\"aaaa\"", "\"aa\\u0000\""), "\"lineage\" of the state document has a control character"),
        (&DOCUMENT.replace("provider[", "supplier["), "is not a provider's address"),
        (&DOCUMENT.replace("\"schema_version\": 0", "\"status\": \"weird\""), "is not empty or \"tainted\""),
        (&DOCUMENT.replace("\"name\": \"r\"", "\"name\": \"not a name\""), "cannot be imported"),
    ];
    for (text, part) in cases {
        let said = import(&site, text, 3);
        assert!(said.contains(part) && said.contains("nothing was changed"), "{text}\n{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
    fs::write(site.path("binary"), [0, 0xff, 1]).unwrap();
    let binary = site.path("binary").into_string();
    let said = site.kl().args(["state", "import", &binary, "--dir", "live"]).exits(3).stderr;
    assert!(said.contains("is not a state: it is not text"), "{said}");
    drop(site.kl().args(["state", "import", "/none/x.tfstate", "--dir", "live"]).exits(3));
    drop(site.kl().args(["state", "import", "live", "--dir", "live"]).exits(3));
    // Not even the name of a state, or a database, came of it.
    match database.backend() {
        Backend::Sqlite => drop(site.kl().args(["status"]).exits(3)),
        Backend::Postgres => assert_eq!(database.value("SELECT count(*) FROM states"), Some("0".into())),
    }
}

/// What a pull in the wrong directory or workspace gives would take the name for good.
fn nothing_is_imported_of_nothing(database: &Database) {
    let site = site(database);
    let none = || database.value("SELECT count(*) FROM states").is_none_or(|count| count == "0");
    for nothing in ["", r#"{"version":4}"#] {
        let said = import(&site, nothing, 3);
        assert!(said.contains("the document is empty") && said.contains("the right directory and workspace"), "{said}");
        assert!(none(), "{nothing}");
    }
    // The right one gets in then.
    import(&site, DOCUMENT, 0);
    assert!(pull(&site).contains("\"lineage\": \"aaaa\""), "{}", pull(&site));
}

/// As Terraform writes it each time.
fn what_is_only_in_another_order_is_no_change(database: &Database) {
    let site = site(database);
    let with = |serial: u64, [one, other]: [&str; 2]| {
        let path = |name: &str| format!(r#"[{{ "type": "get_attr", "value": "{name}" }}]"#);
        let sensitive = format!("[{}, {}]", path(one), path(other));
        document("aaaa", serial).replace(r#"[[{ "type": "get_attr", "value": "id" }]]"#, &sensitive)
    };
    let opened = |serial: u64| {
        database.value(&format!("SELECT rows_opened + rows_closed FROM state_versions WHERE serial = {serial}"))
    };
    import(&site, &with(7, ["id", "input"]), 0);
    import(&site, &with(9, ["input", "id"]), 0);
    assert_eq!(opened(9), Some("0".into()));
    // The same through HTTP, and what has changed meanwhile is changed.
    let document = |serial: u64, order: [&str; 2], secret: &str| {
        let path = site.path(format!("document-{serial}"));
        fs::write(&path, with(serial, order).replace("hunter2", secret)).unwrap();
        path.into_string()
    };
    let first = document(10, ["input", "id"], "hunter2");
    let second = document(11, ["id", "input"], "hunter3");
    let third = document(12, ["input", "id"], "hunter3");
    let script = format!(
        "ask() {{ curl -sf -u kl:$TF_HTTP_PASSWORD -X \"$@\"; }}; lock='{{\"ID\":\"one\"}}'; set -e; ask LOCK -d $lock $TF_HTTP_ADDRESS
         for it in {first} {second} {third} {third}; do ask POST --data-binary @$it \"$TF_HTTP_ADDRESS?ID=one\"; done
         ask UNLOCK -d $lock $TF_HTTP_ADDRESS"
    );
    drop(site.kl().args(["exec", "--dir", "live", "--", "sh", "-c", &script]).exits(0));
    assert_eq!([10, 11, 12].map(opened), [Some("0".into()), Some("2".into()), Some("0".into())]);
    // So it is no reason to refuse an import that has what was done since the last one.
    import(&site, &with(20, ["id", "input"]).replace("hunter2", "hunter3"), 0);
    assert_eq!(opened(20), Some("0".into()));
}

fn an_import_goes_forward_within_its_lineage_only(database: &Database) {
    let site = site(database);
    import(&site, &document("aaaa", 7), 0);
    let said = import(&site, &document("bbbb", 8), 3);
    assert!(said.contains("has lineage aaaa, and the document has lineage bbbb"), "{said}");
    let said = import(&site, &document("aaaa", 6), 3);
    assert!(said.contains("is at serial 7, and the document at serial 6"), "{said}");
    // What a pull from the wrong place gives.
    let said = import(&site, "", 3);
    assert!(said.contains("the document is empty") && said.contains("nothing was imported"), "{said}");
    let other = document("aaaa", 7).replace("hunter2", "hunter3");
    let said = import(&site, &other, 3);
    assert!(said.contains("has another content at serial 7 than the document"), "{said}");
    assert!(said.contains("--over 7") && !said.contains("go back"), "{said}");
    assert_tidy_from(database, 7);
    import(&site, &document("aaaa", 12).replace("hunter2", "hunter3"), 0);
    assert_tidy_from(database, 12);
    assert_eq!(serde_json::from_str::<Value>(&pull(&site)).unwrap()["serial"], 12);
    assert_eq!(database.value("SELECT rows_opened FROM state_versions WHERE serial = 12"), Some("1".into()));
}

fn an_import_takes_nothing_back_unasked(database: &Database) {
    let site = site(database);
    import(&site, &document("aaaa", 7), 0);
    let row = r#"module.web["a.b"].terraform_data.r["q\"uote $${x}"]"#;
    drop(site.kl().args(["state", "rm", row, "--dir", "live", "--actor", "alice"]).exits(0));
    let run = database.value("SELECT CAST(id AS text) FROM runs WHERE kind = 'remove'").unwrap();
    let said = import(&site, &document("aaaa", 12), 3);
    for part in ["at serial 12 does not have what was done to state \"live\"", "serial 8", "by alice", row, "--over 8"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(said.contains(&run[..8]), "{run}: {said}");
    assert_tidy_from(database, 8);
    // One that has it follows as ever.
    let mut without: Value = serde_json::from_str(&document("aaaa", 12)).unwrap();
    without["resources"] = json!([]);
    import(&site, &without.to_string(), 0);
    assert_tidy_from(database, 12);
    // Who says what may be given up gets any document of the lineage in, and not when somebody has been faster.
    let over = |serial: &str, code: i32| {
        let kl = site.kl().args(["state", "import", "-", "--dir", "live", "--over", serial]);
        kl.stdin(document("aaaa", 7)).exits(code)
    };
    let said = over("8", 3).stderr;
    assert!(said.contains("is at serial 12, not 8"), "{said}");
    assert!(over("12", 0).stdout.contains("as serial 13"));
    assert!(pull(&site).contains("\"serial\": 13"), "{}", pull(&site));
    assert_eq!(site.kl().args(["state", "list", "live"]).exits(0).stdout.trim(), row);
    drop(over("13", 0));
    let said =
        site.kl().args(["state", "import", "-", "--dir", "live", "--over", "14"]).stdin(document("bbbb", 20)).exits(3);
    assert!(said.stderr.contains("has lineage"), "{said:?}");
}

fn an_import_beside_a_live_run_is_refused_with_its_holder(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", CHAIN);
    let gates = Gates::new(&site);
    let var = format!("--var={}", gates.var());
    gates.close("apply");
    let running = site.kl().args(["apply", "live", &var, "--actor", "alice"]).spawn();
    gates.reached("apply");
    let said = import(&site, DOCUMENT, 2);
    assert!(said.contains("alice") && said.contains("expires in"), "{said}");
    gates.open("apply");
    drop(running.exits(0));
    assert_tidy(database, 1);
}

fn an_import_that_has_waited_is_judged_by_what_it_finds(database: &Database) {
    let site = Site::on(database);
    site.write("live/main.tf", CHAIN);
    let gates = Gates::new(&site);
    let var = format!("--var={}", gates.var());
    drop(site.kl().args(["apply", "live", &var]).exits(0));
    let mut old: Value = serde_json::from_str(&pull(&site)).unwrap();
    let waits = |document: &Value| {
        let kl = site.kl().args(["state", "import", "-", "--dir", "live", "--wait", "1m"]);
        kl.stdin(document.to_string()).spawn()
    };
    // While it waits, somebody commits what it would take back.
    gates.close("apply");
    let running = site.kl().args(["apply", "live", &var, "--var", "value=2", "--actor", "alice"]).spawn();
    gates.reached("apply");
    old["serial"] = json!(20);
    let waiting = waits(&old);
    wait_for_runs(database, "waiting", 1);
    gates.open("apply");
    drop(running.exits(0));
    let said = waiting.exits(3).stderr;
    for part in ["does not have what was done", "serial 2 (run ", "by alice)", "terraform_data.slow"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_tidy(database, 2);
    // Somebody else who takes in the same document makes its import no failure.
    let mut newer: Value = serde_json::from_str(&pull(&site)).unwrap();
    newer["serial"] = json!(3);
    gates.close("apply");
    let gate = gates.var().replace("gates=", "") + "/apply";
    let lock = format!(
        "curl -s -u kl:$TF_HTTP_PASSWORD -X LOCK -d '{{\"ID\":\"one\"}}' $TF_HTTP_ADDRESS; \
         while [ -e {gate} ]; do touch {gate}.reached; sleep 0.02; done"
    );
    let running = site.kl().args(["exec", "--dir", "live", "--", "sh", "-c", &lock]).spawn();
    gates.reached("apply");
    let waiting = [waits(&newer), waits(&newer)];
    wait_for_runs(database, "waiting", 2);
    gates.open("apply");
    drop(running.exits(0));
    let said: Vec<String> = waiting.map(|waiting| waiting.exits(0).stdout).into();
    assert!(said.iter().any(|said| said.contains("as serial 3")), "{said:?}");
    assert!(said.iter().any(|said| said.contains("has this document already")), "{said:?}");
    assert_tidy(database, 3);
}

fn old_serials_can_be_pulled(database: &Database) {
    let site = site(database);
    import(&site, &document("aaaa", 7), 0);
    import(&site, &document("aaaa", 9).replace("hunter2", "hunter3"), 0);
    let old = site.kl().args(["state", "pull", "live", "--serial", "7"]).exits(0).stdout;
    assert_eq!(serde_json::from_str::<Value>(&old).unwrap(), serde_json::from_str::<Value>(DOCUMENT).unwrap());
    let said = site.kl().args(["state", "pull", "live", "--serial", "99"]).exits(3).stderr;
    assert!(said.contains("has no serial 99; its newest is 9"), "{said}");
    let said = site.kl().args(["state", "pull", "live", "--serial", "8"]).exits(3).stderr;
    assert!(said.contains("has no serial 8"), "{said}");
}

fn a_state_without_a_version_cannot_be_pulled(database: &Database) {
    let site = site(database);
    site.write("live/main.tf", "resource \"terraform_data\" \"a\" {}\n");
    drop(site.kl().args(["plan", "live"]).exits(0));
    let said = site.kl().args(["state", "pull", "live"]).exits(3);
    assert!(said.stderr.contains("state \"live\" has no version yet: there is nothing to pull"), "{said:?}");
    assert_eq!(said.stdout, "");
    drop(site.kl().args(["apply", "live", "--auto-approve"]).exits(0));
    assert!(pull(&site).contains("\"serial\": 1"));
}

fn sensitive_values_are_masked_where_people_look(database: &Database) {
    let site = site(database);
    import(&site, DOCUMENT, 0);
    let listed = site.kl().args(["state", "list", "live"]).exits(0).stdout;
    let address = listed.trim_end();
    assert_eq!(address, r#"module.web["a.b"].terraform_data.r["q\"uote $${x}"]"#);
    for format in ["table", "json"] {
        let shown = site.kl().args(["state", "show", address, "--dir", "live", "--format", format]).exits(0).stdout;
        assert!(!shown.contains("3e8") && shown.contains("member_of_the_future"), "{shown}");
        let shown =
            site.kl().args(["state", "show", "output.secret", "--dir", "live", "--format", format]).exits(0).stdout;
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    let said = site.kl().args(["state", "show", "terraform_data.none", "--dir", "live"]).exits(3).stderr;
    assert!(said.contains("has no terraform_data.none"), "{said}");
    drop(site.kl().args(["state", "show", "not an address", "--dir", "live"]).exits(3));
}
