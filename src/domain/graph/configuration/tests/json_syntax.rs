//! What JSON configuration declares.

use super::{ModuleConfig, files, text, texts};
use crate::domain::address::Mode;
use crate::domain::graph::configuration::read;

fn json(text: &str) -> ModuleConfig {
    files(&[("main.tf.json", text)])
}

#[test]
fn blocks_are_found_in_every_documented_form() {
    for form in [
        r#"{"resource": {"x": {"y": {"a": "${b.c}"}}}}"#,
        r#"{"resource": [{"x": {"y": {"a": "${b.c}"}}}]}"#,
        r#"{"resource": {"x": [{"y": {"a": "${b.c}"}}]}}"#,
        r#"{"resource": {"x": {"y": [{"a": "${b.c}"}]}}}"#,
        r#"[{"resource": {"x": {"y": {"a": "${b.c}"}}}}]"#,
        r#"{"//": "comment", "resource": {"//": "comment", "x": {"y": {"//": "${", "a": "${b.c}"}}}}"#,
    ] {
        let config = json(form);
        let [block] = config.resources.as_slice() else { panic!("one resource in {form}") };
        assert_eq!((&*block.type_name, &*block.name, block.place.line), ("x", "y", 0));
        assert_eq!(texts(&block.references), ["b.c"]);
    }
}

#[test]
fn a_name_that_comes_twice_counts_twice() {
    let config = json(r#"{"resource": {"x": {"y": {"a": "${b.c}"}}}, "resource": {"x": {"z": {}}, "x": {"w": {}}}}"#);
    assert_eq!(config.resources.iter().map(|block| block.name.as_str()).collect::<Vec<_>>(), ["y", "z", "w"]);
}

#[test]
fn strings_are_templates_but_for_the_places_of_references() {
    let config = json(
        r#"{"resource": {"x": {"y": {
            "provider": "aws.west",
            "count": "${local.n}",
            "plain": "a.b",
            "escaped": "$${a.b}",
            "mixed": "-${c.d}-%{ for e in f.g }${e.x}%{ endfor }",
            "map": {"${h.i}": ["${j.k[local.l]}", 1, null, true]},
            "depends_on": ["m.n", "${o.p}", "module.q"],
            "lifecycle": [{
                "create_before_destroy": "true",
                "ignore_changes": ["tags", "${not.this}"],
                "replace_triggered_by": ["r.s[count.index].id"],
                "precondition": [{"condition": "${t.u}", "error_message": "no"}]
            }],
            "provisioner": [{"local-exec": {"command": "${v.w}"}}],
            "connection": {"host": "${x.y}"}
        }}}}"#,
    );
    let block = &config.resources[0];
    assert_eq!(block.provider.as_deref(), Some("aws.west"));
    assert!(block.conditions && block.create_before_destroy && block.repeated);
    assert_eq!(
        texts(&block.references),
        [
            "c.d",
            "f.g",
            "h.i",
            "j.k[?]",
            "local.l",
            "local.n",
            "m.n",
            "module.q",
            "o.p",
            "r.s[?].id",
            "t.u",
            "v.w",
            "x.y"
        ]
    );
}

#[test]
fn dynamic_blocks_bind_their_iterator() {
    let config = json(
        r#"{"resource": {"x": {"y": {
            "dynamic": {"setting": {"for_each": "${setting.outer}", "content": {
                "a": "${setting.value}", "b": "${c.d}",
                "dynamic": {"deep": [{"for_each": "${setting.value.d}", "iterator": "it",
                                      "content": {"e": "${it.value}", "f": "${deep.g}"}}]}
            }}},
            "other": {"dynamic": {"h": "${h.i}"}}
        }}}}"#,
    );
    assert_eq!(texts(&config.resources[0].references), ["c.d", "deep.g", "h.i", "setting.outer"]);
}

#[test]
fn the_other_blocks_say_the_same_as_in_native_syntax() {
    let config = json(
        r#"{
        "module": {"net": {"source": "./net", "count": "${local.n}", "cidr": "${var.c}", "depends_on": ["a.b"],
                           "providers": {"aws": "aws.west", "aws.peer": "${aws}"}}},
        "output": {"o": {"value": "${a.b}", "depends_on": ["c.d"], "precondition": {"condition": "${e.f}"}}},
        "locals": [{"l": "${a.b}"}, {"k": ["${c.d}"]}],
        "variable": {"v": {"default": "${literal}", "description": "%{",
                           "validation": {"condition": "${var.v != g.h}"}}},
        "provider": {"aws": [{"region": "${var.r}"}, {"alias": "west", "assume_role": {"arn": "${a.b}"}}]},
        "check": {"c": {"data": {"http": {"s": {"url": "${a.b}"}}}, "assert": [{"condition": "${local.x}"}]}},
        "data": {"d": {"e": {}}},
        "import": [{"to": "module.m[each.key].a.b[\"k\"]", "id": "${c.d}", "for_each": "${local.all}"}],
        "moved": {"from": "a.old", "to": "a.new"},
        "removed": [{"from": "module.gone"}],
        "terraform": [{"backend": {"s3": {}}}]
        }"#,
    );
    let net = &config.calls[0];
    assert_eq!((net.source.as_deref(), texts(&net.inputs["cidr"])), (Some("./net"), vec!["var.c".to_owned()]));
    assert_eq!(net.inputs.len(), 1);
    assert_eq!((texts(&net.repetition), texts(&net.depends_on)), (vec!["local.n".to_owned()], vec!["a.b".to_owned()]));
    assert_eq!((&*net.providers["aws"], &*net.providers["aws.peer"]), ("aws.west", "aws"));
    assert_eq!(texts(&config.outputs[0].references), ["a.b", "c.d", "e.f"]);
    assert_eq!(
        (texts(&config.locals["l"]), texts(&config.locals["k"])),
        (vec!["a.b".to_owned()], vec!["c.d".to_owned()])
    );
    assert!(config.variables[0].has_default);
    assert_eq!(texts(&config.variables[0].references), ["g.h"]);
    assert_eq!(texts(&config.providers["aws.west"]), ["a.b"]);
    assert_eq!(texts(&config.checks[0].references), ["a.b", "data.http.s", "local.x"]);
    assert!(config.resources.iter().all(|block| block.mode == Mode::Data) && config.resources.len() == 2);
    assert_eq!(text(&config.imports[0].to), r#"module.m[?].a.b["k"]"#);
    assert_eq!(texts(&config.imports[0].references), ["c.d", "local.all"]);
    assert_eq!(config.moves.len(), 1);
    assert_eq!(texts(&config.removals), ["module.gone"]);
    assert!(config.has_backend);
}

#[test]
fn errors_name_their_place() {
    let broken = |text: &str| read(&[("a.tf.json".to_owned(), text.to_owned())]).unwrap_err();
    let error = broken("{\n  \"locals\": ,\n}");
    assert_eq!((error.line, error.column, &*error.message), (2, 13, "expected value"));
    let error = broken("{\n  \"locals\": {\"x\": \"${a.\"}\n}");
    assert_eq!((error.line, error.column), (2, 19), "{error}");
    assert_eq!(broken("3").to_string(), "a.tf.json:1:1: an object was expected");
    assert_eq!(broken(r#"{"resource": "x"}"#).to_string(), "a.tf.json:1:1: \"resource\" must be an object");
    assert!(broken(&"[".repeat(100_000)).message.contains("recursion limit"));
}
