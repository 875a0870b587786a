//! `terraform_remote_state` on other states of the same database.

use crate::backend::{exec, site};
use crate::harness::database::Database;
use crate::harness::kl::Kl;
use crate::harness::site::Site;
use crate::harness::terraform::program;

on_both_databases!(a_configuration_reads_the_outputs_of_another_state);

const NETWORK: &str = r#"
variable "cidr" { default = "10.0.0.0/8" }
resource "terraform_data" "net" { input = var.cidr }
output "cidr" { value = terraform_data.net.output }
"#;

const APP: &str = r#"
terraform {
  backend "http" {}
}
variable "kl_states" { default = "https://kl.example.com/states" }
data "terraform_remote_state" "network" {
  backend = "http"
  config  = { address = "${var.kl_states}/live" }
}
resource "terraform_data" "app" { input = data.terraform_remote_state.network.outputs.cidr }
output "cidr" { value = terraform_data.app.output }
"#;

fn app(site: &Site, reads: &[&str], args: &[&str]) -> Kl {
    let kl = site.kl().args(["exec", "--dir", "app"]).args(reads.iter().copied()).arg("--");
    kl.arg(program().as_str()).args(args.iter().copied())
}

fn a_configuration_reads_the_outputs_of_another_state(database: &Database) {
    let site = site(database, NETWORK);
    site.write("app/main.tf", APP);
    // The other state was written by kl, and then by a plain Terraform.
    drop(site.kl().args(["apply", "live", "--auto-approve"]).exits(0));
    let reads = ["--reads", "live"];
    drop(app(&site, &reads, &["init", "-input=false"]).exits(0));
    drop(app(&site, &reads, &["apply", "-auto-approve", "-input=false"]).exits(0));
    let shown = || app(&site, &[], &["output", "-raw", "cidr"]).exits(0).stdout;
    assert_eq!(shown(), "10.0.0.0/8");
    drop(exec(&site, &["init", "-input=false"]).exits(0));
    drop(exec(&site, &["apply", "-auto-approve", "-input=false", "-var=cidr=10.1.0.0/16"]).exits(0));
    // A saved plan goes with it, although the next backend has another address.
    drop(app(&site, &reads, &["plan", "-out=saved", "-input=false"]).exits(0));
    drop(app(&site, &reads, &["apply", "-input=false", "saved"]).exits(0));
    assert_eq!(shown(), "10.1.0.0/16");

    // Only what was named can be read, and nothing but the own state be written.
    let said = app(&site, &["--reads", "other"], &["plan", "-input=false"]).exits(1).stderr;
    assert!(said.contains("invalid auth") && said.contains("the token is not for the state \"live\""), "{said}");
    let write = "for way in 'LOCK -d {\"ID\":\"one\"}' 'DELETE' 'POST -d {}'; do curl -s -o /dev/null -w '%{http_code} ' -u kl:$TF_HTTP_PASSWORD -X $way $TF_VAR_kl_states/live; done";
    let said = site.kl().args(["exec", "--dir", "app", "--reads", "live", "--", "sh", "-c", write]).exits(0);
    assert_eq!(said.stdout, "409 403 403 ", "{said:?}");
    assert!(said.stderr.contains("not to write the state \"live\""), "{said:?}");
}
