//! The text of addresses, against the real Terraform: what it prints in a plan, kl reads, and prints again.

use std::collections::BTreeSet;

use kl_runner::domain::address::{Address, Key, Mode};
use serde_json::Value;

use crate::harness::site::Site;
use crate::harness::terraform::Plain;

/// Keys that a careless reader or writer trips over.
const ODD: [&str; 46] = [
    "",
    " ",
    "0",
    "00",
    "-1",
    "1e3",
    "null",
    "a",
    "A",
    "svc.example.test",
    "a.b[0].c",
    "br[0]acket",
    "]",
    "[",
    "\"]",
    "q\"uote",
    "'single'",
    "`tick`",
    "back\\slash",
    "\\",
    "\\n",
    "\\u0041",
    "new\nline",
    "\r\n",
    "tab\tTAB",
    "*",
    "%",
    "_",
    "?",
    "$",
    "${",
    "${x}",
    "$${x}",
    "$$${x}",
    "%{y}",
    "%%{y}",
    "$%{y}",
    "%${y}",
    "${%{",
    "}",
    "<&>",
    "zero\u{200b}width",
    "\u{feff}bom",
    "emoji😀",
    "naïve-日本",
    "family👨\u{200d}👩\u{200d}👧",
];

/// First and last letters of ranges that Unicode has assigned in 15.0, 15.1 and 16.0: whether they print depends on
/// the tables of the Go that Terraform was built with.
const YOUNG: [u32; 30] = [
    0x0cf3, 0x11f00, 0x1e4d0, 0x1fae8, 0x31350, 0x2ebf0, 0x2ee5d, 0x2ffc, 0x31ef, 0x0897, 0x1b4e, 0x1c89, 0x2427,
    0x31e4, 0xa7cb, 0xa7da, 0x105c0, 0x10d40, 0x10d8e, 0x11380, 0x113e2, 0x116d0, 0x11bc0, 0x13460, 0x143fa, 0x16100,
    0x1cc00, 0x1e5ff, 0x1fae9, 0x1fbef,
];

/// Letters whose category is easily mistaken: format characters, odd spaces, private use, the ends of planes.
const TRICKY: [u32; 26] = [
    0x00, 0x1b, 0x7f, 0x80, 0x85, 0xa0, 0xad, 0x34f, 0x600, 0x61c, 0x70f, 0x115f, 0x1680, 0x180e, 0x2000, 0x2028,
    0x2029, 0x202e, 0x205f, 0x3000, 0x3164, 0xe000, 0xfffd, 0xffff, 0xe0001, 0x10_ffff,
];

/// Terraform takes longer than in proportion to the number of keys, so the letters of a sample share some.
const LETTERS_A_KEY: usize = 24;

fn keys() -> BTreeSet<String> {
    let across_planes = (0..=0x10_ffff).step_by(331).filter_map(char::from_u32);
    let listed = YOUNG.into_iter().chain(TRICKY).filter_map(char::from_u32);
    let letters: Vec<char> = across_planes.chain(listed.clone()).collect();
    let mut keys: BTreeSet<String> = ODD.into_iter().map(str::to_owned).collect();
    keys.extend(listed.map(String::from));
    keys.extend(letters.chunks(LETTERS_A_KEY).map(|chunk| chunk.iter().collect()));
    keys.insert("long ".repeat(2000));
    keys
}

/// A Terraform expression for the text, in which nothing is left to the reading of the file.
fn literal(text: &str) -> String {
    let escaped: Vec<String> = text.chars().map(|letter| format!("\\U{:08x}", u32::from(letter))).collect();
    format!("\"{}\"", escaped.concat())
}

/// The address and index of each change that Terraform plans.
fn planned(site: &Site) -> Vec<(String, Value)> {
    let plain = Plain::new(site, "live");
    drop(plain.output(&["plan", "-input=false", "-no-color", "-out=p"]));
    let plan: Value = serde_json::from_str(&plain.output(&["show", "-json", "p"])).unwrap();
    let changes = plan["resource_changes"].as_array().unwrap();
    changes.iter().map(|change| (change["address"].as_str().unwrap().to_owned(), change["index"].clone())).collect()
}

#[track_caller]
fn read_and_printed_again(text: &str) -> Address {
    let address = Address::parse(text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(address.to_string(), text, "Terraform prints it in another way");
    address
}

#[test]
fn keys_read_and_print_as_in_terraforms_plans() {
    let site = Site::new();
    let keys = keys();
    let list: Vec<String> = keys.iter().map(|key| literal(key)).collect();
    site.write(
        "live/main.tf",
        &format!("resource \"terraform_data\" \"k\" {{\n  for_each = toset([\n{}\n  ])\n}}\n", list.join(",\n")),
    );
    let planned = planned(&site);
    assert!(planned.len() > 200 && planned.len() + 5 > keys.len(), "{} of {}", planned.len(), keys.len());
    for (text, index) in &planned {
        let address = read_and_printed_again(text);
        assert_eq!(address.key, Some(Key::Str(index.as_str().unwrap().to_owned())), "{text}");
    }
    let found: BTreeSet<&str> = planned.iter().filter_map(|(_, index)| index.as_str()).collect();
    for key in ODD {
        assert!(found.contains(key), "Terraform made another key of {key:?}");
    }
}

#[test]
fn module_paths_and_indexes_read_and_print_as_in_terraforms_plans() {
    let site = Site::new();
    let odd: Vec<String> = ["", "a.b", "q\"]uote", "${x}", "new\nline", "\u{200b}"].map(literal).to_vec();
    site.write(
        "live/main.tf",
        &format!(
            r#"
            module "m" {{
              source   = "./m"
              for_each = toset([{}])
            }}
            module "café" {{
              source = "./m"
              count  = 11
            }}
            "#,
            odd.join(",")
        ),
    );
    site.write(
        "live/m/main.tf",
        r#"
        module "in-ner" {
          source = "./in"
        }
        "#,
    );
    // The last name is written with a combining accent.
    site.write(
        "live/m/in/main.tf",
        "resource \"terraform_data\" \"one\" {}\nresource \"terraform_data\" \"n_0\" { count = 11 }\n\
         resource \"terraform_data\" \"e\u{301}-x\" { for_each = { \"0\" = 0, \"${\"$\"}{\" = 1 } }\n",
    );
    let planned = planned(&site);
    assert_eq!(planned.len(), 17 * (1 + 11 + 2));
    for (text, index) in &planned {
        let address = read_and_printed_again(text);
        let key = match index {
            Value::Null => None,
            Value::String(key) => Some(Key::Str(key.clone())),
            index => Some(Key::Int(index.as_u64().unwrap())),
        };
        assert_eq!((address.mode, address.key, address.module.0.len()), (Mode::Managed, key, 2), "{text}");
    }
}
