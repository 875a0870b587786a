//! What a Terraform says is heard while it works, to the last word, and shown without secrets.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use kl_runner::domain::graph::configuration::Form;
use kl_runner::terraform::{ApplyRequest, Input, PlanRequest, Stop, TerraformError, UiEvent, Variable};
use secrecy::SecretString;

use super::run_fake;
use crate::lab::{Lab, apply, dirs, init, plan};

#[tokio::test]
async fn what_an_apply_says_is_heard_while_it_works_and_to_its_last_word() {
    let lab = Lab::new(&[]);
    let heard = lab.path("heard");
    // It ends only when it was heard that it began.
    lab.write(
        "repo/main.tf",
        &format!(
            "resource \"terraform_data\" \"x\" {{\n  provisioner \"local-exec\" {{\n    command = \"while ! [ -e {heard} ]; do sleep 0.02; done\"\n  }}\n}}\n"
        ),
    );
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    plan(&terraform, &workspace).await;
    let mut events = Vec::new();
    let each = |event: &UiEvent| {
        if matches!(event, UiEvent::Provision { step, .. } if step == "start") {
            fs::write(&heard, "").unwrap();
        }
        events.push(event.clone());
    };
    apply(&terraform, &workspace, &Stop::never(), each).await.unwrap();
    assert!(
        matches!(events.first(), Some(UiEvent::Started(group)) if group.started.is_some() == cfg!(target_os = "linux"))
    );
    assert!(events.iter().any(|event| matches!(event, UiEvent::ApplyComplete { .. })));
    assert!(
        events
            .iter()
            .any(|event| matches!(event, UiEvent::ChangeSummary { operation, add: 1, .. } if operation == "apply"))
    );
}

#[tokio::test]
async fn much_output_on_both_pipes_does_not_block_and_the_end_of_it_is_shown() {
    let lab = Lab::new(&[("main.tf", "")]);
    let noise = "i=0; while [ $i -lt 20000 ]; do echo \"out $i\"; echo \"err $i\" >&2; i=$((i+1)); done; exit 3";
    let error = run_fake(&lab, noise, &Stop::never()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("terraform plan failed: exit code 3\n") && text.ends_with("err 19999"), "{text}");
}

#[tokio::test]
async fn an_apply_is_heard_of_as_it_goes() {
    let lab = Lab::new(&[(
        "main.tf",
        "locals {\n  l = terraform_data.a[\"k.1\"].id\n}\nresource \"terraform_data\" \"a\" {\n  for_each = toset([\"k.1\"])\n}\nresource \"terraform_data\" \"b\" {\n  input = local.l\n}\n",
    )]);
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    plan(&terraform, &workspace).await;
    let graph = terraform.graph_dot(&dirs(&workspace), &Stop::never()).await.unwrap();
    assert!(graph.contains("local.l"), "{graph}");
    let events = apply(&terraform, &workspace, &Stop::never(), |_| {}).await.unwrap();
    let story: Vec<String> = events
        .iter()
        .filter_map(|event| match event {
            UiEvent::Version { .. } => Some("version".to_owned()),
            UiEvent::ApplyStart(subject) => Some(format!("{} {}", subject.action, subject.address)),
            UiEvent::ApplyComplete { subject, id, .. } => Some(format!("done {} {}", subject.address, id.is_some())),
            UiEvent::ChangeSummary { operation, add, .. } => Some(format!("{operation} {add}")),
            _ => None,
        })
        .collect();
    assert_eq!(
        story,
        [
            "version",
            "create terraform_data.a[\"k.1\"]",
            "done terraform_data.a[\"k.1\"] true",
            "create terraform_data.b",
            "done terraform_data.b true",
            "apply 2",
        ]
    );
}

#[tokio::test]
async fn a_failed_plan_says_where_and_why() {
    let lab = Lab::new(&[(
        "main.tf",
        "resource \"terraform_data\" \"a\" {}\nresource \"terraform_data\" \"b\" {\n  for_each = toset([terraform_data.a.id])\n}\n",
    )]);
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    let request = PlanRequest::new(workspace.plan_path());
    let error = terraform.plan(&dirs(&workspace), &request, &Stop::never(), &mut |_| {}).await.unwrap_err();
    let text = error.to_string();
    let start = "terraform plan failed: exit code 1\nError: Invalid for_each argument\n  on main.tf:3\n  The ";
    assert!(text.starts_with(start), "{text}");
    assert!(workspace.plan_path().exists(), "Terraform writes a plan even so; nobody may use it");

    lab.write("repo/main.tf", "resource \"terraform_data\" {}\n");
    let workspace = lab.workspace("", "default");
    let error = terraform.init(&dirs(&workspace), &Stop::never()).await.unwrap_err();
    assert!(matches!(&error, TerraformError::Init(failure) if failure.errors().any(|e| e.line == Some(1))), "{error}");
}

#[tokio::test]
async fn an_ephemeral_variable_is_given_again_and_shown_nowhere() {
    let lab = Lab::new(&[(
        "main.tf",
        "variable \"token\" {\n  type      = string\n  ephemeral = true\n}\nvariable \"plain\" {}\nresource \"terraform_data\" \"x\" {\n  input = var.plain\n}\nprovider \"terraform\" {}\nlocals {\n  t = var.token\n}\n",
    )]);
    let input = |name: &str, value: &str| {
        let variable = Variable { name: name.to_owned(), value: SecretString::from(value) };
        Input::new(&variable, Form::Literal).unwrap()
    };
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    let mut request = PlanRequest::new(workspace.plan_path());
    request.inputs = vec![input("token", "s3cret-token"), input("plain", "a=b \"c\"")];
    let outcome = terraform.plan(&dirs(&workspace), &request, &Stop::never(), &mut |_| {}).await.unwrap();
    assert!(outcome.changes);

    let error = apply(&terraform, &workspace, &Stop::never(), |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("token"), "{error}");

    let mut request = ApplyRequest::new(workspace.plan_path());
    request.inputs = vec![input("token", "s3cret-token")];
    terraform.apply(&dirs(&workspace), &request, &Stop::never(), &mut |_| {}).await.unwrap();
    assert!(workspace.read_state().unwrap().unwrap().contains(r#"a=b \"c\""#));
    assert!(!format!("{error:?} {request:?} {terraform:?}").contains("s3cret"));
}

#[tokio::test]
async fn a_checkpoint_can_read_the_state_at_every_finished_resource() {
    let lab = Lab::new(&[("main.tf", "resource \"terraform_data\" \"x\" {\n  count = 12\n}\n")]);
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    plan(&terraform, &workspace).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (path, record) = (workspace.state_path(), Arc::clone(&seen));
    apply(&terraform, &workspace, &Stop::never(), move |event| {
        if let UiEvent::ApplyComplete { .. } = event {
            let state = kl_runner::workspace::read_settled(&path).unwrap();
            record.lock().unwrap().push(state.is_some());
        }
    })
    .await
    .unwrap();
    assert_eq!(seen.lock().unwrap().len(), 12);
    assert!(Path::new(&workspace.state_path()).exists());
}
