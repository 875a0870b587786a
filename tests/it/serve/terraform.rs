//! The real Terraform on a server: over TLS, with a token.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use reqwest::{Certificate as Trusted, Client};

use super::{Certificate, Server, lock, token};
use crate::backend::{RESOURCES, site};
use crate::harness::database::{Database, block_on};
use crate::harness::site::Site;
use crate::harness::wait_until;

on_both_databases!(
    terraform_works_over_tls_with_a_token,
    terraform_does_everything_where_only_the_usual_methods_pass,
    a_refusal_is_shown_by_terraform,
    a_refused_write_says_why_in_the_terminal,
);

/// A configuration that reads the outputs of another state, whose address it is told.
const READER: &str = r#"
variable "address" {}
variable "token" {}
data "terraform_remote_state" "web" {
  backend = "http"
  config  = { address = var.address, username = "kl", password = var.token }
}
output "seen" { value = data.terraform_remote_state.web.outputs.value }
"#;

fn terraform_works_over_tls_with_a_token(database: &Database) {
    let site = site(database, RESOURCES);
    let secret = token(&site, "ci", "live/*", "write");
    let mut server = Server::start_with_tls(&site);
    let run = |server: &Server, args: &[&str]| server.terraform(&site, "live/web", &secret, args);
    drop(run(&server, &["init", "-input=false"]).exits(0));
    drop(run(&server, &["plan", "-detailed-exitcode", "-input=false"]).exits(2));
    drop(run(&server, &["apply", "-auto-approve", "-input=false"]).exits(0));
    drop(run(&server, &["plan", "-detailed-exitcode", "-input=false"]).exits(0));
    assert_eq!(run(&server, &["output", "-raw", "value"]).exits(0).stdout, "1");
    let listed = site.kl().args(["state", "list", "live", "--state", "live/web"]).exits(0).stdout;
    assert_eq!(listed.lines().count(), 3, "{listed}");
    assert_eq!(database.value("SELECT DISTINCT source FROM state_versions"), Some("http".into()));
    let actors = database.value("SELECT DISTINCT actor FROM runs").unwrap();
    assert!(actors.starts_with("ci ("), "{actors}");

    // Another certificate, without a restart; the old authority vouches for it no longer.
    let renewed = Certificate::make(&site);
    server.running().signal(Signal::SIGHUP);
    server.running().wait_for("the certificate was read again");
    drop(run(&server, &["plan", "-input=false"]).exits(1));
    server.authority = Some(renewed.authority);
    drop(run(&server, &["plan", "-detailed-exitcode", "-input=false"]).exits(0));
    // One that cannot be used changes nothing.
    fs::write(&renewed.key, "nothing").unwrap();
    server.running().signal(Signal::SIGHUP);
    server.running().wait_for("the certificate stays as it was");

    drop(run(&server, &["destroy", "-auto-approve", "-input=false"]).exits(0));
    assert_eq!(site.kl().args(["state", "list", "live", "--state", "live/web"]).exits(0).stdout, "");
    drop(site.kl().args(["db", "check"]).exits(0));
    // Whoever speaks no TLS is not answered, and harms nobody.
    let plain = format!("http://{}/healthz", server.address());
    assert!(block_on(async { Client::new().get(plain).send().await }).is_err());
    let trusted = Trusted::from_pem(server.authority.as_ref().unwrap().as_bytes()).unwrap();
    let client = Client::builder().tls_certs_only([trusted]).build().unwrap();
    for path in ["/healthz", "/readyz"] {
        let answered = block_on(server.ask(&client, "GET", path, None, ""));
        assert!(answered.status == 200 && answered.body == "ok\n", "{answered:?}");
    }
    let said = server.stops();
    assert!(said.stderr.contains("Ended") && !said.stderr.contains(&secret[21..]), "{}", said.stderr);
}

/// As behind a proxy that lets GET and POST pass: Terraform is told other addresses and methods for the lock.
fn terraform_does_everything_where_only_the_usual_methods_pass(database: &Database) {
    let site = site(database, RESOURCES);
    let secret = token(&site, "ci", "live/*", "write");
    let server = Server::start(&site);
    let state = server.state("live/web");
    let run = |args: &[&str]| {
        let kl = server.terraform(&site, "live/web", &secret, args).env("TF_HTTP_UPDATE_METHOD", "PUT");
        let kl = kl.env("TF_HTTP_LOCK_ADDRESS", state.replace("/states/", "/locks/"));
        let kl = kl.env("TF_HTTP_LOCK_METHOD", "POST").env("TF_HTTP_UNLOCK_METHOD", "POST");
        kl.env("TF_HTTP_UNLOCK_ADDRESS", state.replace("/states/", "/unlocks/"))
    };
    let listed = || {
        let said = site.kl().args(["state", "list", "live", "--state", "live/web"]).exits(0).stdout;
        said.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    drop(run(&["init", "-input=false"]).exits(0));
    drop(run(&["apply", "-auto-approve", "-input=false"]).exits(0));
    let whole = listed();
    drop(run(&["state", "mv", "terraform_data.b[\"y\"]", "terraform_data.c"]).exits(0));
    drop(run(&["state", "rm", "terraform_data.c"]).exits(0));
    assert_eq!(listed(), ["terraform_data.a", "terraform_data.b[\"x\"]"]);
    drop(run(&["import", "-input=false", "terraform_data.b[\"y\"]", "an-id"]).exits(0));
    assert_eq!(listed(), whole);
    drop(run(&["taint", "terraform_data.a"]).exits(0));
    let said = run(&["plan", "-detailed-exitcode", "-input=false", "-no-color"]).exits(2).stdout;
    assert!(said.contains("terraform_data.a is tainted"), "{said}");
    drop(run(&["untaint", "terraform_data.a"]).exits(0));
    drop(run(&["apply", "-auto-approve", "-input=false"]).exits(0));
    for method in
        ["method=\"PUT\" path=\"/states/", "method=\"POST\" path=\"/locks/", "method=\"POST\" path=\"/unlocks/"]
    {
        assert!(server.log().contains(method), "{method}: {}", server.log());
    }
    assert!(!server.log().contains("method=\"LOCK\"") && !server.log().contains("method=\"UNLOCK\""));

    // There are no workspaces; another one is another address.
    let said = run(&["workspace", "new", "dev"]).exits(1).stderr;
    assert!(said.contains("workspaces not supported"), "{said}");
    let dev =
        |args: &[&str]| server.terraform(&site, "live/web:dev", &secret, args).env("TF_DATA_DIR", ".terraform-dev");
    drop(dev(&["init", "-input=false"]).exits(0));
    drop(dev(&["apply", "-auto-approve", "-input=false", "-var=value=7"]).exits(0));
    assert_eq!(dev(&["output", "-raw", "value"]).exits(0).stdout, "7");
    assert_eq!(run(&["output", "-raw", "value"]).exits(0).stdout, "1");

    // DELETE unlocks where the locks are, and nowhere else: at the state it would remove all of it.
    let chief = token(&site, "chief", "live/*", "admin");
    let deletes = |address: &str, args: &[&str]| {
        let kl = server.terraform(&site, "live/web", &chief, args).env("TF_HTTP_UNLOCK_METHOD", "DELETE");
        kl.env("TF_HTTP_UNLOCK_ADDRESS", address).env("TF_CLI_ARGS", "-no-color")
    };
    let (_, said) = deletes(&state, &["taint", "terraform_data.a"]).spawn().ends();
    assert!(said.stderr.contains("this is an unlock"), "{said:?}");
    let said = deletes(&state, &["force-unlock", "-force", "x"]).exits(1).stderr;
    assert!(said.contains("this is an unlock"), "{said}");
    assert_eq!(listed(), whole);
    drop(deletes(&state.replace("/states/", "/locks/"), &["force-unlock", "-force", "x"]).exits(0));
    drop(run(&["untaint", "terraform_data.a"]).exits(0));

    // Another configuration reads what this one gives.
    site.write("reader/main.tf", READER);
    let read = |args: &[&str]| run(args).dir("../reader");
    drop(read(&["init", "-input=false"]).exits(0));
    let (address, given) = (format!("-var=address={state}"), format!("-var=token={secret}"));
    let said = read(&["apply", "-auto-approve", "-input=false", "-no-color", &address, &given]).exits(0).stdout;
    assert!(said.contains("seen = 1"), "{said}");
    assert_eq!(database.value("SELECT count(*) FROM runs WHERE ended_at IS NULL"), Some("0".into()));
    drop(server.stops());
}

fn a_refusal_is_shown_by_terraform(database: &Database) {
    let site = site(database, RESOURCES);
    let (read, write) = (token(&site, "reader", "**", "read"), token(&site, "ci", "live", "write"));
    let server = Server::start(&site);
    let run = |token: &str, args: &[&str]| server.terraform(&site, "live", token, args).env("TF_CLI_ARGS", "-no-color");
    drop(run(&write, &["init", "-input=false"]).exits(0));
    drop(run(&write, &["apply", "-auto-approve", "-input=false"]).exits(0));
    let before = site.kl().args(["state", "pull", "live"]).exits(0).stdout;

    // Whoever may not lock does not wait until somebody may.
    for args in [
        &["plan", "-input=false", "-lock-timeout=10m"][..],
        &["apply", "-auto-approve", "-input=false", "-var=value=2", "-lock-timeout=10m"],
    ] {
        let said = in_one_line(&run(&read, args).exits(1).stderr);
        for part in ["Error acquiring the state lock", "refused-by-kl: the token \\\"reader\\\"", "may only read"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    drop(run(&read, &["plan", "-lock=false", "-detailed-exitcode", "-input=false"]).exits(0));
    assert_eq!(run(&read, &["output", "-raw", "value"]).exits(0).stdout, "1");
    for args in [
        &["apply", "-auto-approve", "-input=false", "-lock=false", "-var=value=2"][..],
        &["state", "rm", "-lock=false", "terraform_data.a"],
        &["force-unlock", "-force", "x"],
    ] {
        let said = in_one_line(&run(&read, args).exits(1).stderr);
        let told = said.contains("refused-by-kl: the token \\\"reader\\\"") && said.contains("may only read");
        assert!(told, "{args:?}: {said}");
    }
    let said = in_one_line(&server.terraform(&site, "other", &write, &["plan", "-input=false"]).exits(1).stderr);
    assert!(said.contains("is for states like \\\"live\\\", not for \\\"other\\\""), "{said}");
    let said = run("wrong", &["plan", "-input=false"]).exits(1).stderr;
    assert!(said.contains("requires auth"), "{said}");
    drop(site.kl().args(["token", "revoke", "ci"]).exits(0));
    drop(run(&write, &["plan", "-input=false"]).exits(1));

    assert_eq!(site.kl().args(["state", "pull", "live"]).exits(0).stdout, before);
    assert_eq!(database.value("SELECT count(*) FROM runs WHERE ended_at IS NULL"), Some("0".into()));
}

/// What Terraform has wrapped to fit into a terminal.
fn in_one_line(said: &str) -> String {
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The objects are there when a write is refused: whoever looks at the terminal has to learn why.
fn a_refused_write_says_why_in_the_terminal(database: &Database) {
    let site = site(database, RESOURCES);
    let (write, admin) = (token(&site, "ci", "live", "write"), token(&site, "chief", "live", "admin"));
    let server = Server::start(&site);
    let run = |args: &[&str]| server.terraform(&site, "live", &write, args).env("TF_CLI_ARGS", "-no-color");
    drop(run(&["init", "-input=false"]).exits(0));
    // Its lock is taken away, and given to somebody else, while it applies.
    let (begun, go_on) = (site.path("begun"), site.path("go-on"));
    site.write(
        "live/slow.tf",
        &format!(
            "resource \"terraform_data\" \"slow\" {{\n  provisioner \"local-exec\" {{\n    \
             command = \"touch {begun}; until test -e {go_on}; do sleep 0.05; done\"\n  }}\n}}\n"
        ),
    );
    let applying = run(&["apply", "-auto-approve", "-input=false"]).spawn();
    wait_until("the apply has begun", Duration::from_mins(1), || begun.exists().then_some(()));
    assert_eq!(server.asks("UNLOCK", "/states/live", Some(&admin), "").status, 200);
    assert_eq!(server.asks("LOCK", "/states/live", Some(&admin), &lock("the-other")).status, 200);
    fs::write(&go_on, "").unwrap();
    let said = in_one_line(&applying.exits(1).stderr);
    assert!(said.contains("refused-by-kl: another lock is held: the-other, by chief (alice@laptop); run "), "{said}");
    assert!(said.contains("errored.tfstate"), "{said}");
    // Giving back what it has no longer is refused in words, too.
    assert!(said.contains("Error releasing the state lock") && said.matches("refused-by-kl").count() >= 2, "{said}");
    // When the reason is gone, what it did is taken over.
    assert_eq!(server.asks("UNLOCK", "/states/live", Some(&admin), "").status, 200);
    drop(run(&["state", "push", "errored.tfstate"]).exits(0));
    assert!(site.kl().args(["state", "list", "live"]).exits(0).stdout.contains("terraform_data.slow"));
    // The log has the status that it stands for; whoever shows bodies gets it.
    let said = server.asks("POST", "/states/live?ID=x", Some(&write), "{}");
    assert!(said.status == 409 && said.body.contains("nobody holds a lock on the state"), "{said:?}");
    let log = server.log();
    assert!(log.contains("status=409") && log.contains("reason=\"another lock is held: the-other"), "{log}");
    drop(server.stops());
}

/// Anybody can read what passes in clear.
#[test]
fn plain_http_is_for_the_loopback_interface() {
    let site = Site::new();
    let serve = |args: &[&str]| site.kl().arg("serve").args(args.iter().copied());
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:8080"] {
        let said = serve(&["--listen", address]).exits(3).stderr;
        assert!(said.contains("without TLS") && said.contains("--insecure-listen"), "{said}");
    }
    for args in [
        &["--tls-cert", "none.pem"][..],
        &["--listen", "somewhere"],
        &["--tls-cert", "none.pem", "--tls-key", "none.pem"],
        &["--tls-cert", "none.pem", "--tls-key", "none.pem", "--insecure-listen"],
    ] {
        drop(serve(args).exits(3));
    }
    let certificate = Certificate::make(&site);
    let [chain, key] = [&certificate.chain, &certificate.key].map(|path| path.as_str());
    let said = serve(&["--tls-cert", key, "--tls-key", chain, "--listen", "127.0.0.1:0"]).exits(3).stderr;
    assert!(said.contains("no certificate in it"), "{said}");
    // Somebody listens there already.
    let server = Server::start(&site);
    let said = serve(&["--listen", server.address()]).exits(3).stderr;
    assert!(said.contains(&format!("cannot listen on {}", server.address())), "{said}");
    let other = Server::of(serve(&["--listen", "0.0.0.0:0", "--insecure-listen", "--log", "json"]), None);
    let port = other.address().rsplit(':').next().unwrap().to_owned();
    let url = format!("http://127.0.0.1:{port}/healthz");
    assert!(block_on(async { Client::new().get(url).send().await }).unwrap().status().is_success());
    // One line of JSON for each request.
    let line = wait_until("the request is in the log", Duration::from_secs(20), || {
        other.log().lines().find(|line| line.contains("/healthz")).map(str::to_owned)
    });
    let line: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert_eq!((&line["status"], &line["method"], &line["path"]), (&200.into(), &"GET".into(), &"/healthz".into()));
    let said = other.stops().stderr;
    assert!(said.contains("There is no token yet"), "{said}");
    drop(server.dies());
}
