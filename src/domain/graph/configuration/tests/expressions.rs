//! What expressions of the native syntax refer to.

use super::{module, references, texts};

#[test]
fn attributes_indexes_and_splats_become_steps() {
    assert_eq!(references("aws_vpc.a.id"), ["aws_vpc.a.id"]);
    assert_eq!(references("aws_vpc.a[0].id"), ["aws_vpc.a[0].id"]);
    assert_eq!(references("aws_vpc.a.0.id"), ["aws_vpc.a[0].id"]);
    assert_eq!(references("aws_vpc.a.0.1"), ["aws_vpc.a[0][1]"]);
    assert_eq!(references(r#"aws_vpc.a["x.y"].id"#), [r#"aws_vpc.a["x.y"].id"#]);
    assert_eq!(references(r#"aws_vpc.a["$${x}"]"#), [r#"aws_vpc.a["$${x}"]"#]);
    assert_eq!(references(r#"aws_vpc.a["q\"u"]"#), [r#"aws_vpc.a["q\"u"]"#]);
    assert_eq!(references("aws_vpc.a[*].id"), ["aws_vpc.a[?].id"]);
    assert_eq!(references("aws_vpc.a.*.id"), ["aws_vpc.a[?].id"]);
    assert_eq!(references("data.aws_ami.x.id"), ["data.aws_ami.x.id"]);
    assert_eq!(references(r#"module.net["a"].vpc"#), [r#"module.net["a"].vpc"#]);
    assert_eq!(references("resource.aws_vpc.a.id"), ["aws_vpc.a.id"]);
}

#[test]
fn an_index_that_is_computed_is_any_and_counts_itself() {
    assert_eq!(references("aws_vpc.a[local.k].id"), ["aws_vpc.a[?].id", "local.k"]);
    assert_eq!(references(r#"aws_vpc.a["${var.k}-x"].id"#), ["aws_vpc.a[?].id", "var.k"]);
    assert_eq!(references("aws_vpc.a[aws_vpc.b[local.k].n]"), ["aws_vpc.a[?]", "aws_vpc.b[?].n", "local.k"]);
    assert_eq!(references("aws_vpc.a[each.key].id"), ["aws_vpc.a[?].id"]);
    assert_eq!(references("aws_vpc.a[-1]"), ["aws_vpc.a[?]"]);
    assert_eq!(references("f(x.y)[local.k].z"), ["local.k", "x.y"]);
}

#[test]
fn a_number_in_a_spelling_of_its_own_may_be_any_key() {
    assert_eq!(references(r#"aws_vpc.a["0"]"#), [r#"aws_vpc.a["0"]"#]);
    assert_eq!(references(r#"aws_vpc.a["00"]"#), ["aws_vpc.a[?]"]);
    assert_eq!(references(r#"aws_vpc.a["1.0"]"#), ["aws_vpc.a[?]"]);
    assert_eq!(references("aws_vpc.a[1.5]"), ["aws_vpc.a[?]"]);
}

#[test]
fn every_kind_of_expression_is_walked() {
    assert_eq!(references("a.b ? c.d : e.f"), ["a.b", "c.d", "e.f"]);
    assert_eq!(references("!a.b && -c.d > e.f % g.h"), ["a.b", "c.d", "e.f", "g.h"]);
    assert_eq!(references("f(a.b, [c.d], g(e.f...))"), ["a.b", "c.d", "e.f"]);
    assert_eq!(references("(a.b)"), ["a.b"]);
    assert_eq!(references("(a.b).c"), ["a.b"]);
    assert_eq!(references("{ x = a.b, \"y\" = c.d, z : e.f }"), ["a.b", "c.d", "e.f"]);
    assert_eq!(references("\"${a.b}-${upper(c.d)}\""), ["a.b", "c.d"]);
    assert_eq!(references("\"$${a.b} %%{ if c.d }\""), [""; 0]);
    assert_eq!(references("\"${\"${a.b}\"}\""), ["a.b"]);
    assert_eq!(references("\"${~ a.b ~}\""), ["a.b"]);
    assert_eq!(references("\"%{ if a.b }${c.d}%{ else }${e.f}%{ endif }\""), ["a.b", "c.d", "e.f"]);
}

#[test]
fn heredocs_are_templates() {
    assert_eq!(references("<<EOT\n  ${a.b} $${x.y}\n  %{ if c.d }${e.f}%{ endif }\nEOT\n"), ["a.b", "c.d", "e.f"]);
    assert_eq!(references("<<-EOT\n    ${a.b}\n    EOT\n"), ["a.b"]);
    assert_eq!(references("f(<<EOT\n${a.b}\nEOT\n, c.d)"), ["a.b", "c.d"]);
}

#[test]
fn an_object_key_is_a_word_unless_it_is_an_expression() {
    assert_eq!(references("{ local = a.b }"), ["a.b"]);
    assert_eq!(references("{ (local.k) = 1 }"), ["local.k"]);
    assert_eq!(references("{ \"${local.k}\" = 1 }"), ["local.k"]);
    assert_eq!(references("{ (k) = 1 }"), [""; 0]);
}

#[test]
fn an_object_may_repeat_a_key_as_terraform_allows() {
    assert_eq!(
        references("{ a = b.c, a = d.e, \"a\" = f.g, \"a\" = h.i, a = j.k }"),
        ["b.c", "d.e", "f.g", "h.i", "j.k"]
    );
    assert_eq!(
        references(
            "{ (a.b) = 1, (a.b) = 2, \"${c.d}\" = 3, \"${c.d}\" = 4, 1 = 5, 1 = 6, -1 = 7, -1 = 8, !e = 9, !e = 0 }"
        ),
        ["a.b", "c.d"]
    );
    assert_eq!(references(&format!("{{\n{}}}", "k = a.b\n".repeat(150))), ["a.b"]);
}

#[test]
fn the_names_of_a_for_are_bound_in_its_scope_only() {
    assert_eq!(references("[for a in b.c : a.d]"), ["b.c"]);
    assert_eq!(references("[for a, x in b.c : a.d + x.d + y.d]"), ["b.c", "y.d"]);
    assert_eq!(references("[for a in a.b : a.c if a.d == e.f]"), ["a.b", "e.f"]);
    assert_eq!(references("{ for k, v in b.c : k.x => v.y... if v.z }"), ["b.c"]);
    assert_eq!(references("concat([for a in b.c : a.d], [a.e])"), ["a.e", "b.c"]);
    assert_eq!(references("[for a in b.c : [for x in a.d : a.e + x.f + z.g]]"), ["b.c", "z.g"]);
    assert_eq!(references("[for a in b.c : aws_vpc.x[a.key].id]"), ["aws_vpc.x[?].id", "b.c"]);
    assert_eq!(references("[for aws_vpc in b.c : resource.aws_vpc.x]"), ["aws_vpc.x", "b.c"]);
    assert_eq!(references("\"%{ for a in b.c }${a.d}${e.f}%{ endfor }${a.g}\""), ["a.g", "b.c", "e.f"]);
    assert_eq!(references("\"%{ for i, a in b.c ~}${i.x}${a.d}%{ endfor ~}\""), ["b.c"]);
}

#[test]
fn names_without_an_edge_are_left_out() {
    for expression in
        ["each.value.id", "count.index", "self.id", "path.module", "terraform.workspace", "tofu.workspace"]
    {
        assert_eq!(references(expression), [""; 0], "{expression}");
    }
    // Keywords: a reference has at least two parts.
    assert_eq!(references("string"), [""; 0]);
}

#[test]
fn a_function_of_a_provider_refers_to_the_provider() {
    assert_eq!(references("provider::aws::arn_parse(a.b)"), ["a.b", "provider.aws"]);
    assert_eq!(references("provider::aws::west::f()"), ["provider.aws.west"]);
    assert_eq!(references("core::max(a.b)"), ["a.b"]);
}

#[test]
fn the_iterator_of_a_dynamic_block_is_bound_in_its_content() {
    let config = module(
        r#"
        resource "x" "y" {
          dynamic "setting" {
            for_each = setting.outer
            labels   = [setting.key]
            content {
              name = setting.value.name
              id   = a.b
              dynamic "deep" {
                for_each = setting.value.deep
                iterator = it
                content {
                  v = it.value + deep.c + setting.key
                }
              }
            }
          }
          later = setting.free
        }
        "#,
    );
    assert_eq!(texts(&config.resources[0].references), ["a.b", "deep.c", "setting.free", "setting.outer"]);
}

#[test]
fn references_come_once_each() {
    assert_eq!(references("a.b + a.b + a.b"), ["a.b"]);
}
