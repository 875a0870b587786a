//! The graph reader by example; the lines are Terraform 1.11.4's own.

use proptest::prelude::*;

use super::GraphNode::{Input, Local, ModuleClose, ModuleExpand, Other, Output, Provider, Resource, Validation};
use super::*;

fn module(steps: &[&str]) -> ConfigModule {
    ConfigModule(steps.iter().map(|step| (*step).to_owned()).collect())
}

fn resource(text: &str) -> GraphNode {
    Resource(ConfigAddress::parse(text).unwrap())
}

fn drawing(lines: &str) -> String {
    format!("digraph {{\n\tcompound = \"true\"\n\tnewrank = \"true\"\n\tsubgraph \"root\" {{\n{lines}\n\t}}\n}}\n")
}

fn one(line: &str) -> (GraphNode, GraphNode) {
    let mut edges = read(&drawing(line)).unwrap();
    assert_eq!(edges.len(), 1, "{line}");
    edges.remove(0)
}

#[test]
fn names_become_nodes() {
    let builtin = r#"provider["terraform.io/builtin/terraform"]"#;
    let names = [
        ("terraform_data.a (expand)", resource("terraform_data.a")),
        ("terraform_data.a", resource("terraform_data.a")),
        ("data.terraform_remote_state.d (expand)", resource("data.terraform_remote_state.d")),
        ("ephemeral.x.y (expand)", resource("ephemeral.x.y")),
        ("module.m.module.deep.terraform_data.dd (expand)", resource("module.m.module.deep.terraform_data.dd")),
        (r#"module.gone["k"].terraform_data.orphan (orphan)"#, resource("module.gone.terraform_data.orphan")),
        (r#"module.a["x.y\"]"].x.y[0] (orphan)"#, resource("module.a.x.y")),
        (r#"terraform_data.orphan["a\"b] -> (c)"] (orphan)"#, resource("terraform_data.orphan")),
        (r#"terraform_data.orphan["x"] (deposed deadbeef)"#, resource("terraform_data.orphan")),
        (r#"terraform_data.x["a (destroy)"]"#, resource("terraform_data.x")),
        ("local.l (expand)", Local(module(&[]), "l".to_owned())),
        ("module.m.module.deep.local.q (expand)", Local(module(&["m", "deep"]), "q".to_owned())),
        ("local_file.x (expand)", resource("local_file.x")),
        ("var.v", Input(module(&[]), "v".to_owned())),
        ("var.v (validation)", Validation(module(&[]), "v".to_owned())),
        ("module.m.var.x (expand)", Input(module(&["m"]), "x".to_owned())),
        ("module.m.var.x (expand, reference)", Input(module(&["m"]), "x".to_owned())),
        ("module.m.var.x (validation)", Validation(module(&["m"]), "x".to_owned())),
        ("output.o (expand)", Output(module(&[]), "o".to_owned())),
        ("module.m.output.o (expand)", Output(module(&["m"]), "o".to_owned())),
        ("module.m (expand)", ModuleExpand(module(&["m"]))),
        ("module.m.module.deep (close)", ModuleClose(module(&["m", "deep"]))),
        (builtin, Provider(module(&[]), builtin.to_owned())),
        (&format!("{builtin}.west"), Provider(module(&[]), format!("{builtin}.west"))),
        (&format!("module.m.{builtin}.west"), Provider(module(&["m"]), format!("{builtin}.west"))),
    ];
    for (name, expected) in names {
        assert_eq!(node(&format!("[root] {name}")), expected, "{name}");
    }
}

#[test]
fn what_is_not_understood_or_points_back_keeps_its_text() {
    for name in [
        "root",
        "check.c (expand)",
        "check.c (report)",
        r#"provider["terraform.io/builtin/terraform"] (close)"#,
        "terraform_data.a (destroy)",
        "ephemeral.x.y (close)",
        "output.o (destroy)",
        "action.x.y (expand)",
        "module.m",
        "module.m (something new)",
        "var.",
        "module.",
        "module.a[.b",
        "",
    ] {
        assert_eq!(node(&format!("[root] {name}")), Other(name.to_owned()));
    }
    assert_eq!(node("no root"), Other("no root".to_owned()));
}

#[test]
fn edges_are_read_with_their_escapes() {
    let (from, to) = one(
        r#"		"[root] terraform_data.orphan[\"a\\\"b] -> c\"] (orphan)" -> "[root] provider[\"terraform.io/builtin/terraform\"]""#,
    );
    assert_eq!(from, resource("terraform_data.orphan"));
    assert_eq!(to, Provider(module(&[]), r#"provider["terraform.io/builtin/terraform"]"#.to_owned()));
    let (from, _) =
        one(r#""[root] terraform_data.x[\"ctrl\\u0001 unié😀 $${x}\"] (orphan)" -> "[root] root" [color = "red"]"#);
    assert_eq!(from, resource("terraform_data.x"));
}

#[test]
fn nodes_alone_are_no_edges_and_neither_are_two_instances() {
    let text = drawing(
        "\t\t\"[root] var.v\" [label = \"var.v\", shape = \"note\"]\n\
         \t\t\"[root] a.b[0] (orphan)\" -> \"[root] a.b[1] (orphan)\"\n",
    );
    assert_eq!(read(&text), Ok(vec![]));
    assert_eq!(read(&format!("\nWarning: x\n{text}\n")), Ok(vec![]));
}

#[test]
fn a_text_that_may_hide_an_edge_is_refused() {
    assert_eq!(read(""), Err(DotError::NoGraph));
    assert_eq!(read("Error: no configuration\n"), Err(DotError::NoGraph));
    let whole = drawing("\"[root] a.b (expand)\" -> \"[root] c.d (expand)\"");
    for (at, _) in whole.char_indices().skip("digraph {\n".len()).filter(|(at, _)| *at < whole.trim_end().len()) {
        assert!(read(&whole[..at]).is_err(), "{}", &whole[..at]);
    }
    for line in ["\"[root] a.b\" -- \"[root] c.d\"", "\"[root] a.b\" -> c", "a -> b", "\"[root] a.b\" -> \"c\" d", "}"]
    {
        let error = read(&drawing(line)).unwrap_err();
        assert!(matches!(error, DotError::Line { .. }), "{line}: {error}");
    }
    assert_eq!(
        read(&drawing("huh")).unwrap_err().to_string(),
        "line 5 of the output of `terraform graph` is not understood: huh"
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>(), lines in "[\"\\\\\\[\\]{}>. a-z()=\n-]{0,200}") {
        let _outcome = read(&text);
        let _outcome = read(&drawing(&lines));
        let _node = node(&lines);
    }

    #[test]
    fn a_name_is_a_node_whatever_its_key(key in any::<String>()) {
        let quoted = crate::domain::address::quoted(&key);
        let name = format!("module.m[{quoted}].a.b[{quoted}] (orphan)");
        let escaped = name.replace('\\', "\\\\").replace('"', "\\\"");
        let (from, _) = one(&format!("\"[root] {escaped}\" -> \"[root] root\""));
        prop_assert_eq!(from, resource("module.m.a.b"));
    }
}
