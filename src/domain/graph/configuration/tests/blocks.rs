//! What each kind of block declares.

use super::{files, module, text, texts};
use crate::domain::address::Mode;
use crate::domain::graph::configuration::read;

#[test]
fn a_resource_refers_to_what_its_parts_refer_to() {
    let config = module(
        r#"
        # comment

        resource "aws_instance" "web" {
          provider   = aws.west
          count      = local.n
          ami        = data.aws_ami.a.id
          depends_on = [aws_vpc.dep, module.net]
          nested {
            deep {
              x = aws_vpc.nested.id
            }
          }
          lifecycle {
            create_before_destroy = true
            ignore_changes        = [tags["x"], local.not_a_reference]
            replace_triggered_by  = [aws_vpc.trigger[count.index].id]
            precondition {
              condition     = aws_vpc.pre.ok
              error_message = "no ${aws_vpc.message.id}"
            }
            postcondition {
              condition     = self.x == aws_vpc.post.ok
              error_message = "no"
            }
          }
          connection {
            host = aws_vpc.connection.ip
          }
          provisioner "local-exec" {
            when       = destroy
            on_failure = continue
            command    = "echo ${aws_vpc.provisioner.id}"
            connection {
              host = aws_vpc.inner.ip
            }
          }
        }
        "#,
    );
    let [web] = config.resources.as_slice() else { panic!("one resource") };
    assert_eq!((web.mode, &*web.type_name, &*web.name), (Mode::Managed, "aws_instance", "web"));
    assert_eq!((&*web.place.file, web.place.line), ("main.tf", 4));
    assert_eq!(web.provider.as_deref(), Some("aws.west"));
    assert!(web.conditions && web.create_before_destroy && web.repeated);
    assert_eq!(
        texts(&web.references),
        [
            "aws_vpc.connection.ip",
            "aws_vpc.dep",
            "aws_vpc.inner.ip",
            "aws_vpc.message.id",
            "aws_vpc.nested.id",
            "aws_vpc.post.ok",
            "aws_vpc.pre.ok",
            "aws_vpc.provisioner.id",
            "aws_vpc.trigger[?].id",
            "data.aws_ami.a.id",
            "local.n",
            "module.net",
        ]
    );
}

#[test]
fn a_plain_resource_has_no_extras() {
    let config = module("resource \"x\" \"y\" {\n  lifecycle {\n    ignore_changes = all\n  }\n}\n");
    let plain = &config.resources[0];
    assert!(!plain.conditions && !plain.create_before_destroy && !plain.repeated);
    assert_eq!((plain.provider.as_deref(), plain.references.len()), (None, 0));
}

#[test]
fn data_and_ephemeral_blocks_are_resources_of_their_mode() {
    let config = module("data \"a\" \"b\" {\n  x = c.d\n}\nephemeral \"e\" \"f\" {\n  for_each = g.h\n}\n");
    assert_eq!(config.resources.iter().map(|block| block.mode).collect::<Vec<_>>(), [Mode::Data, Mode::Ephemeral]);
    assert_eq!(texts(&config.resources[1].references), ["g.h"]);
}

#[test]
fn providers_are_named_in_every_spelling() {
    let named = |provider: &str| {
        let config = module(&format!("resource \"x\" \"y\" {{\n  provider = {provider}\n}}\n"));
        (config.resources[0].provider.clone(), texts(&config.resources[0].references))
    };
    assert_eq!(named("aws"), (Some("aws".to_owned()), vec![]));
    assert_eq!(named("aws.west"), (Some("aws.west".to_owned()), vec![]));
    assert_eq!(named("\"aws.west\""), (Some("aws.west".to_owned()), vec![]));
    // OpenTofu's providers with for_each.
    assert_eq!(named("aws.by[local.region]"), (Some("aws.by".to_owned()), vec!["local.region".to_owned()]));
}

#[test]
fn a_call_keeps_its_inputs_apart() {
    let config = module(
        r#"
        module "net" {
          source     = "./net"
          version    = "1.0"
          for_each   = toset(local.names)
          cidr       = var.cidr
          peers      = [aws_vpc.a.id, each.key]
          constant   = 1
          depends_on = [module.other]
          providers = {
            aws      = aws.west
            aws.peer = aws
          }
        }
        "#,
    );
    let [net] = config.calls.as_slice() else { panic!("one call") };
    assert_eq!((&*net.name, net.source.as_deref()), ("net", Some("./net")));
    let inputs: Vec<_> = net.inputs.iter().map(|(name, references)| (name.as_str(), texts(references))).collect();
    assert_eq!(
        inputs,
        [("cidr", vec!["var.cidr".to_owned()]), ("constant", vec![]), ("peers", vec!["aws_vpc.a.id".to_owned()])]
    );
    assert_eq!(texts(&net.repetition), ["local.names"]);
    assert_eq!(texts(&net.depends_on), ["module.other"]);
    let providers: Vec<_> = net.providers.iter().map(|(inside, outside)| (&**inside, &**outside)).collect();
    assert_eq!(providers, [("aws", "aws.west"), ("aws.peer", "aws")]);
}

#[test]
fn a_source_that_is_computed_is_no_literal() {
    assert_eq!(module("module \"m\" {\n  source = \"./${var.x}\"\n}\n").calls[0].source, None);
}

#[test]
fn outputs_locals_and_variables() {
    let config = module(
        r#"
        output "o" {
          value      = a.b
          depends_on = [c.d]
          precondition {
            condition     = e.f
            error_message = "no"
          }
        }
        locals {
          one = a.b
          two = local.one
        }
        locals {
          three = 3
        }
        variable "v" {
          type      = map(string)
          ephemeral = true
          validation {
            condition     = var.v != var.other && g.h
            error_message = "no ${i.j}"
          }
        }
        variable "w" {
          default = null
        }
        "#,
    );
    assert_eq!(texts(&config.outputs[0].references), ["a.b", "c.d", "e.f"]);
    assert!(config.outputs[0].conditions);
    assert_eq!(config.locals.keys().collect::<Vec<_>>(), ["one", "three", "two"]);
    assert_eq!(texts(&config.locals["two"]), ["local.one"]);
    let [first, second] = config.variables.as_slice() else { panic!("two variables") };
    assert!(first.ephemeral && !first.has_default && !second.ephemeral && second.has_default);
    assert_eq!(texts(&first.references), ["g.h", "i.j", "var.other"]);
    assert_eq!(texts(&second.references), [""; 0]);
}

#[test]
fn provider_configurations_are_kept_by_alias() {
    let config = module(
        "provider \"aws\" {\n  region = var.r\n}\nprovider \"aws\" {\n  alias = \"west\"\n  assume_role {\n    \
         arn = a.b\n  }\n}\n",
    );
    let providers: Vec<_> = config.providers.iter().map(|(key, list)| (key.as_str(), texts(list))).collect();
    assert_eq!(providers, [("aws", vec!["var.r".to_owned()]), ("aws.west", vec!["a.b".to_owned()])]);
}

#[test]
fn a_check_lends_its_data_source_to_the_module() {
    let config = module(
        r#"
        check "health" {
          data "http" "site" {
            url = a.b
          }
          assert {
            condition     = data.http.site.status_code == local.ok
            error_message = "${c.d}"
          }
        }
        "#,
    );
    assert_eq!(
        texts(&config.checks[0].references),
        ["a.b", "c.d", "data.http.site", "data.http.site.status_code", "local.ok"]
    );
    let [site] = config.resources.as_slice() else { panic!("one data source") };
    assert_eq!((site.mode, &*site.name, site.place.line), (Mode::Data, "site", 3));
}

#[test]
fn imports_moves_and_removals() {
    let config = module(
        r#"
        import {
          for_each = local.all
          to       = module.m[each.key].aws_vpc.a["x"]
          id       = "${each.value}/${aws_vpc.b.id}"
          provider = aws.west
        }
        import {
          to       = aws_vpc.c
          identity = { name = var.n }
        }
        moved {
          from = aws_vpc.old
          to   = module.m.aws_vpc.new[0]
        }
        removed {
          from = module.gone
          lifecycle {
            destroy = false
          }
        }
        "#,
    );
    let imports: Vec<_> = config.imports.iter().map(|import| (text(&import.to), texts(&import.references))).collect();
    assert_eq!(
        imports,
        [
            (r#"module.m[?].aws_vpc.a["x"]"#.to_owned(), vec!["aws_vpc.b.id".to_owned(), "local.all".to_owned()]),
            ("aws_vpc.c".to_owned(), vec!["var.n".to_owned()]),
        ]
    );
    let [(from, to)] = config.moves.as_slice() else { panic!("one move") };
    assert_eq!((text(from), text(to)), ("aws_vpc.old".to_owned(), "module.m.aws_vpc.new[0]".to_owned()));
    assert_eq!(texts(&config.removals), ["module.gone"]);
}

#[test]
fn backends_are_seen() {
    assert!(module("terraform {\n  backend \"s3\" {\n    key = \"}\"\n  }\n}\n").has_backend);
    assert!(module("terraform {\n  cloud {\n  }\n}\n").has_backend);
    assert!(!module("terraform {\n  required_version = \">= 1\"\n}\n").has_backend);
}

#[test]
fn a_triggered_action_lends_its_references() {
    let config = module(
        r#"
        action "aws_lambda_invoke" "ping" {
          config {
            arn = aws_lambda.f.arn
          }
        }
        resource "x" "y" {
          lifecycle {
            action_trigger {
              events  = [after_create]
              actions = [action.aws_lambda_invoke.ping]
            }
          }
        }
        "#,
    );
    assert_eq!(texts(&config.resources[0].references), ["action.aws_lambda_invoke.ping", "aws_lambda.f.arn"]);
}

#[test]
fn byte_order_marks_and_carriage_returns_do_not_matter() {
    let config = module("\u{feff}\r\nresource \"x\" \"y\" {\r\n  a = <<E\r\n${b.c}\r\nE\r\n  # z\r\n}\r\n");
    assert_eq!(texts(&config.resources[0].references), ["b.c"]);
    assert_eq!(config.resources[0].place.line, 2);
}

#[test]
fn errors_name_their_place() {
    let error = read(&[("dir/a.tf".to_owned(), "locals {\n  x = = 1\n}\n".to_owned())]).unwrap_err();
    assert_eq!((&*error.file, error.line, error.column), ("dir/a.tf", 2, 7));
    assert!(error.to_string().starts_with("dir/a.tf:2:7: "), "{error}");

    let error = read(&[("a.tf".to_owned(), "\nresource \"x\" {\n}\n".to_owned())]).unwrap_err();
    assert_eq!(error.to_string(), "a.tf:2:1: a \"resource\" block must have 2 label(s)");
}

#[test]
fn depth_is_limited_and_never_fatal() {
    let nested = |open: &str, inside: &str, close: &str, depth: usize| {
        let text = format!("locals {{\n  x = {}{inside}{}\n}}\n", open.repeat(depth), close.repeat(depth));
        read(&[("a.tf".to_owned(), text)])
    };
    for (open, close) in
        [("(", ")"), ("[", "]"), ("{ a = ", " }"), ("f(", ")"), ("\"${", "}\""), ("!", ""), ("b.c[", "]")]
    {
        assert!(nested(open, "a.b", close, 30).is_ok(), "{open}");
        assert!(nested(open, "a.b", close, 50_000).is_err(), "{open}");
        // Broken at the end, which must not be tried again and again on every level.
        assert!(nested(open, "a.b..", close, 60).is_err(), "{open}");
    }
    assert!(nested("a.b ? c.d : ", "1", "", 60).is_ok());
    assert!(nested("a.b + ", "1", "", 100).is_ok());
    assert!(nested("a.b + ", "1", "", 50_000).is_err());
    assert!(nested("", &"%{ if a.b }".repeat(60), "", 1).is_err());
    assert!(read(&[("a.tf".to_owned(), "a {\n".repeat(50_000))]).is_err());
}

#[test]
fn a_module_may_be_empty() {
    assert_eq!(files(&[("main.tf", ""), ("b.tf.json", "{}"), ("README.md", "{{{")]), super::ModuleConfig::default());
}
