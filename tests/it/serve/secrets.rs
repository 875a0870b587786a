//! Neither what a state holds nor a token leaves the server in anything but its answers, however loud its log is.

use super::{Server, token};
use crate::backend::BACKEND;
use crate::harness::database::Database;
use crate::harness::site::Site;
use crate::secrets::{CANARY, assert_no_canary, texts};

on_both_databases!(a_log_as_loud_as_it_can_be_holds_no_secret);

const CONFIG: &str = r#"
variable "given" {
  type      = string
  sensitive = true
}
resource "terraform_data" "secret" { input = var.given }
output "secret" {
  value     = terraform_data.secret.output
  sensitive = true
}
"#;

fn a_log_as_loud_as_it_can_be_holds_no_secret(database: &Database) {
    let site = Site::on(database);
    site.write("live/backend.tf", BACKEND);
    site.write("live/main.tf", CONFIG);
    let secret = token(&site, "ci", "live", "admin");
    for format in ["plain", "json"] {
        let kl =
            site.kl().args(["serve", "--listen", "127.0.0.1:0", "-vvv", "--log", format]).env("RUST_BACKTRACE", "1");
        let server = Server::of(kl, None);
        // The user's name is a canary, too: a login in the log would show it, in Base64 as well.
        let run = |args: &[&str]| {
            server.terraform(&site, "live", &secret, args).env("TF_HTTP_USERNAME", format!("{CANARY}-user"))
        };
        let var = format!("-var=given={CANARY}-{format}");
        drop(run(&["init", "-input=false"]).exits(0));
        drop(run(&["apply", "-auto-approve", "-input=false", &var]).exits(0));
        drop(run(&["state", "pull"]).exits(0));
        let body = format!("{{\"ID\":7,\"Info\":\"{CANARY}\"}}");
        for (method, path) in [("LOCK", "/states/live"), ("POST", "/states/live?ID=one"), ("UNLOCK", "/states/live")] {
            for token in [Some(secret.as_str()), Some(CANARY), None] {
                let answered = server.asks(method, path, token, &body);
                assert!((400..500).contains(&answered.status), "{answered:?}");
                assert_no_canary("the answer", &answered.body);
            }
        }
        let said = server.stops();
        assert!(said.stderr.contains("DEBUG") && said.stderr.contains("answered"), "it is loud: {}", said.stderr);
        assert_no_canary("the log", &said.stderr);
        assert_no_canary("standard output", &said.stdout);
        assert!(!said.stderr.contains(&secret[21..]), "the log holds the token");
        assert!(!said.stderr.to_lowercase().contains("authorization: basic"), "the log holds a head");
    }
    for (place, text) in texts(database) {
        assert_no_canary(&place, &text);
        assert!(!text.contains(&secret[21..]), "{place} holds the token");
    }
}
