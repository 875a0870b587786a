//! What a plan is asked to cover, and with which inputs.

use super::bed::{Bed, Change};

const THREE: &str = r#"
    resource "terraform_data" "a" { input = "1" }
    resource "terraform_data" "b" { input = terraform_data.a.output }
    resource "terraform_data" "c" { input = "1" }
    output "c" { value = terraform_data.c.output }
"#;

#[test]
fn a_targeted_plan_is_applied_as_it_was_targeted() {
    let after = THREE.replace("\"1\"", "\"2\"");
    let (_, spec, _) = Change::new(THREE, &after)
        .args(&["--target", "terraform_data.a"], &["-target=terraform_data.a"])
        .writes(&["update terraform_data.a"])
        .leaves_more_to_do()
        .run();
    assert_eq!(spec.0["scope"]["targets"][0], "terraform_data.a");
    let (_, spec, _) = Change::new(THREE, &after)
        .args(&["--target", "terraform_data.c"], &["-target=terraform_data.c"])
        .writes(&["update terraform_data.c", "update output.c"])
        .leaves_more_to_do()
        .run();
    assert_eq!(spec.reads(), Vec::<String>::new());
}

#[test]
fn a_spec_says_itself_what_it_covers() {
    let bed = Bed::new(THREE);
    bed.plan(&["--target", "terraform_data.a"]);
    bed.apply(3, &["--target", "terraform_data.c"]).says(&["a spec says itself what it covers"]);
    bed.apply(0, &[]);
    assert!(!bed.pull().contains("\"name\": \"c\""));
}

#[test]
fn a_file_stands_for_what_it_declares() {
    let config = |value: &str| {
        format!(
            "resource \"terraform_data\" \"a\" {{ input = \"{value}\" }}\n\
             ### web.tf\nresource \"terraform_data\" \"w\" {{ input = \"{value}\" }}\nmodule \"m\" {{\n source = \"./m\"\n in = \"{value}\"\n}}\n\
             ### m/main.tf\nvariable \"in\" {{}}\nresource \"terraform_data\" \"x\" {{ input = var.in }}"
        )
    };
    let (bed, ..) = Change::new(&config("1"), &config("2"))
        .args(&["--file", "live/web.tf"], &["-target=terraform_data.w", "-target=module.m"])
        .writes(&["update terraform_data.w", "update module.m.terraform_data.x"])
        .leaves_more_to_do()
        .run();
    bed.exits(3, &["plan", "live", "--file", "nothing.tf"]).says(&["nothing.tf declares no resource"]);
}

#[test]
fn a_destroy_plan_leaves_an_empty_state_with_its_lineage() {
    let (bed, ..) = Change::new(THREE, THREE)
        .args(&["--destroy"], &["-destroy"])
        .writes(&["delete terraform_data.a", "delete terraform_data.b", "delete terraform_data.c", "delete output.c"])
        .lane("footprint")
        .run();
    let versions = bed.exits(0, &["history", "live", "--format", "json"]).json();
    let first = versions["versions"][1]["serial"].to_string();
    let state = |args: &[&str]| bed.exits(0, &[&["state", "pull", "live"], args].concat()).json();
    assert_eq!(state(&[])["resources"], serde_json::json!([]));
    assert!(state(&[])["lineage"].is_string());
    assert_eq!(state(&[])["lineage"], state(&["--serial", &first])["lineage"]);
}

#[test]
fn a_targeted_destroy_plan_destroys_its_part_and_what_depends_on_it() {
    Change::new(THREE, THREE)
        .args(&["--destroy", "--target", "terraform_data.a"], &["-destroy", "-target=terraform_data.a"])
        .writes(&["delete terraform_data.a", "delete terraform_data.b"])
        .leaves_more_to_do()
        .run();
}

#[test]
fn a_targeted_destroy_of_what_an_output_shows() {
    Change::new(THREE, THREE)
        .args(&["--destroy", "--target", "terraform_data.c"], &["-destroy", "-target=terraform_data.c"])
        .leaves_more_to_do()
        .run();
}

const VARIABLES: &str = r#"
    variable "size" { type = string }
    variable "other" { default = "o" }
    resource "terraform_data" "a" { input = "${var.size}${var.other}" }
    ### more.tfvars
    other = "from-file"
"#;

#[test]
fn variables_of_the_plan_are_needed_again_and_named_when_missing() {
    let text = VARIABLES.replace("    ###", "###");
    let bed = Bed::new(&text);
    let spec = bed.plan(&["--var", "size=secret-size", "--var-file", "more.tfvars"]);
    assert!(!spec.0.to_string().contains("secret-size"));
    assert_eq!(spec.0["project"]["variables"][0], "size");
    bed.apply(3, &[]).says(&["--var for size"]);
    bed.apply(4, &["--var", "size=other-size"]).says(&["terraform_data.a: other values of id, input, output"]);
    // The variable file is named by the spec.
    bed.apply(0, &["--var", "size=secret-size"]);
    assert!(bed.pull().contains("secret-sizefrom-file"));
    bed.settled(&["-var=size=secret-size", "-var-file=more.tfvars"]);
}

#[test]
fn a_variable_without_any_value_is_named() {
    let bed = Bed::new(&VARIABLES.replace("    ###", "###"));
    bed.exits(3, &["plan", "live"]).says(&["\"size\"", "--var"]);
    assert_eq!(bed.leftovers(), Vec::<String>::new());
}

#[test]
fn variables_from_the_environment_reach_terraform() {
    let bed = Bed::new(&VARIABLES.replace("    ###", "###"));
    let said = bed.kl_with(&[("TF_VAR_size", "env-size")], &["apply", "live", "--auto-approve"]);
    assert_eq!(said.code, 0, "{said}");
    assert!(bed.pull().contains("env-sizeo"));
}

const EPHEMERAL: &str = r#"
    variable "token" {
      type      = string
      ephemeral = true
    }
    resource "terraform_data" "a" {
      input = "a"
      provisioner "local-exec" {
        command     = "test \"$TOKEN\" = hush-hush"
        environment = { TOKEN = var.token }
      }
    }
"#;

#[test]
fn an_ephemeral_variable_is_needed_again_and_never_stored() {
    let bed = Bed::new(EPHEMERAL);
    let spec = bed.plan(&["--var", "token=hush-hush"]);
    assert_eq!(spec.0["project"]["ephemeral"][0], "token");
    bed.apply(3, &[]).says(&["token"]);
    let said = bed.apply(0, &["--var", "token=hush-hush"]);
    assert!(!format!("{said}{}{}", spec.0, bed.pull()).contains("hush-hush"));
    bed.settled(&["-var=token=hush-hush"]);
}

#[test]
fn an_ephemeral_variable_from_the_environment_is_needed_again_too() {
    let bed = Bed::new(EPHEMERAL);
    let said = bed.kl_with(&[("TF_VAR_token", "hush-hush")], &["plan", "live"]);
    assert_eq!(said.code, 0, "{said}");
    bed.apply(3, &[]).says(&["token"]);
    let said = bed.kl_with(&[("TF_VAR_token", "hush-hush")], &["apply", "kl-plan.json"]);
    assert_eq!(said.code, 0, "{said}");
}

#[test]
fn an_ephemeral_variable_with_a_default_need_not_be_given() {
    let bed =
        Bed::new("variable \"t\" {\n default = \"d\"\n ephemeral = true\n}\nresource \"terraform_data\" \"a\" {}");
    bed.plan(&[]);
    bed.apply(0, &[]);
    bed.settled(&[]);
}

#[test]
fn a_plan_that_fails_leaves_nothing_behind() {
    let bed = Bed::new(
        "resource \"terraform_data\" \"a\" {}\nresource \"terraform_data\" \"b\" { for_each = toset([terraform_data.a.id]) }",
    );
    let said = bed.exits(1, &["plan", "live"]);
    said.says(&["for_each"]);
    assert!(!bed.path("repo/kl-plan.json").exists());
    assert_eq!(bed.leftovers(), Vec::<String>::new());
    bed.exits(3, &["status"]).says(&["there is no database"]);
    bed.exits(1, &["apply", "live", "--auto-approve"]);
    bed.exits(3, &["status"]).says(&["there is no database"]);
    assert_eq!(bed.leftovers(), Vec::<String>::new());
}

#[test]
fn a_configuration_that_does_not_parse_is_the_users_to_mend() {
    let bed = Bed::new("resource \"terraform_data\" \"a\" {");
    let said = bed.kl(&["plan", "live"]);
    assert!([1, 3].contains(&said.code), "{said}");
    said.says(&["main.tf"]);
    assert_eq!(bed.leftovers(), Vec::<String>::new());
}

#[test]
fn a_plan_without_changes_is_applied_without_reservations() {
    let bed = Bed::new(THREE);
    bed.begin(&[]);
    let spec = bed.plan(&[]);
    assert_eq!(spec.writes(), Vec::<String>::new());
    let said = bed.apply(0, &["--format", "json"]);
    assert_eq!(said.json()["result"], "noop");
    assert!(!said.stderr.contains("Reserved"), "{said}");
    assert_eq!(
        bed.exits(0, &["history", "live", "--format", "json"]).json()["versions"].as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn another_backend_and_the_users_own_override_do_not_matter() {
    let text = "terraform {\n backend \"http\" { address = \"http://127.0.0.1:1/never\" }\n}\n\
                resource \"terraform_data\" \"a\" { input = \"main\" }\n\
                ### zz_override.tf\nterraform {\n backend \"consul\" {}\n}\nresource \"terraform_data\" \"a\" { input = \"override\" }";
    let bed = Bed::new(text);
    let spec = bed.plan(&[]);
    assert_eq!(spec.writes(), ["create terraform_data.a"]);
    bed.apply(0, &[]);
    assert!(bed.pull().contains("\"override\""));
    bed.settled(&[]);
}

#[test]
fn a_cloud_block_does_not_matter() {
    let bed = Bed::new(
        "terraform {\n cloud {\n organization = \"example-org\"\n workspaces { name = \"x\" }\n }\n}\nresource \"terraform_data\" \"a\" {}",
    );
    bed.plan(&[]);
    bed.apply(0, &[]);
    bed.settled(&[]);
}

#[test]
fn a_configuration_in_json_syntax() {
    let config = |value: &str| {
        format!(
            "### main.tf.json\n{{\"resource\": {{\"terraform_data\": {{\"a\": {{\"input\": \"{value}\"}}, \"b\": {{\"input\": \"${{terraform_data.a.output}}\"}}, \
             \"c\": {{\"input\": \"${{local.l}}{value}\"}}}}}}, \"locals\": {{\"l\": \"${{terraform_data.d.output}}\"}}, \
             \"output\": {{\"o\": {{\"value\": \"${{terraform_data.b.output}}\"}}}}}}\n### more.tf\nresource \"terraform_data\" \"d\" {{ input = \"d\" }}"
        )
    };
    Change::new(&config("1"), &config("2"))
        .writes(&["update terraform_data.a", "update terraform_data.b", "update terraform_data.c", "update output.o"])
        .reads(&["terraform_data.d"])
        .lane("narrow")
        .run();
}

#[test]
fn a_workspace_is_part_of_the_state_and_of_the_configuration() {
    let bed = Bed::new("resource \"terraform_data\" \"a\" { input = terraform.workspace }");
    let said = bed.kl_with(&[("TF_WORKSPACE", "dev")], &["plan", "live"]);
    assert_eq!(said.code, 0, "{said}");
    assert_eq!(bed.spec().0["state"]["name"], "live:dev");
    assert_eq!(bed.spec().0["project"]["workspace"], "dev");
    // The spec says which workspace it is for.
    bed.apply(0, &[]);
    let pulled = bed.exits(0, &["state", "pull", "live", "--workspace", "dev"]).stdout;
    assert!(pulled.contains("\"dev\""), "{pulled}");

    bed.exits(0, &["plan", "live", "--workspace", "prod"]);
    assert_eq!(bed.spec().0["state"]["name"], "live:prod");
    bed.apply(0, &[]);
    bed.exits(0, &["apply", "live", "--auto-approve"]);
    let states = bed.exits(0, &["status", "--format", "json"]).stdout;
    for state in ["\"live\"", "\"live:dev\"", "\"live:prod\""] {
        assert!(states.contains(state), "{states}");
    }
    assert!(bed.pull().contains("\"default\""));
    // A change in a workspace that has a state.
    bed.write("resource \"terraform_data\" \"a\" { input = \"${terraform.workspace}!\" }");
    bed.exits(0, &["plan", "live", "--workspace", "prod"]);
    assert_eq!(bed.spec().writes(), ["update terraform_data.a"]);
    bed.apply(0, &[]);
    assert!(bed.exits(0, &["state", "pull", "live", "--workspace", "prod"]).stdout.contains("\"prod!\""));
}

#[test]
fn a_spec_is_not_applied_in_another_workspace() {
    let bed = Bed::new("resource \"terraform_data\" \"a\" { input = terraform.workspace }");
    bed.exits(0, &["plan", "live", "--workspace", "dev"]);
    let said = bed.kl(&["apply", "kl-plan.json", "--workspace", "prod"]);
    assert_eq!(said.code, 3, "{said}");
}
