//! Proofs about addresses and patterns: text and form are inverse, garbage is refused, and two patterns meet exactly
//! when some row is in both.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// What a key may hold that a careless reader trips over.
const FRAGMENTS: [&str; 24] = [
    "${", "%{", "$${", "%%{", "$", "%", "{", "}", "\\", "\"", ".", "[0]", "]", "[", "*", "\n", "\r\n", "\t", "\0",
    "\u{200b}", "\u{feff}", "😀", "e\u{301}", "\\u0041",
];

fn any_name() -> impl Strategy<Value = String> {
    let reserved = ["module", "data", "ephemeral", "output"];
    prop_oneof!["[a-zA-Z_][a-zA-Z0-9_-]{0,8}", "[日本éßЖ_][日本éßЖ0-9_\u{301}-]{0,4}"]
        .prop_filter("a word of the grammar", move |name| !reserved.contains(&name.as_str()))
}

fn any_text() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        proptest::sample::select(FRAGMENTS.as_slice()).prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
        "[a-z]{1,3}",
    ];
    prop_oneof![
        9 => vec(fragment.clone(), 0..8).prop_map(|parts| parts.concat()),
        1 => fragment.prop_map(|part| part.repeat(10_000 / part.len())),
    ]
}

fn any_key() -> impl Strategy<Value = Option<Key>> {
    prop_oneof![
        Just(None),
        any::<u64>().prop_map(|index| Some(Key::Int(index))),
        (0_u64..3).prop_map(|index| Some(Key::Int(index))),
        (0_u64..3).prop_map(|index| Some(Key::Str(index.to_string()))),
        any_text().prop_map(|text| Some(Key::Str(text))),
    ]
}

fn any_module() -> impl Strategy<Value = ModulePath> {
    let step = (any_name(), any_key()).prop_map(|(name, key)| ModuleStep { name, key });
    vec(step, 0..4).prop_map(ModulePath)
}

fn any_address() -> impl Strategy<Value = Address> {
    let mode = proptest::sample::select(vec![Mode::Managed, Mode::Data, Mode::Ephemeral]);
    (any_module(), mode, any_name(), any_name(), any_key()).prop_map(|(module, mode, type_name, name, key)| Address {
        module,
        mode,
        type_name,
        name,
        key,
    })
}

fn any_pattern() -> impl Strategy<Value = Pattern> {
    let below_root = any_module().prop_filter("the root", |module| !module.is_root());
    prop_oneof![
        Just(Pattern::Everything),
        below_root.prop_map(|module| Pattern::Module(ModuleScope(module))),
        any_address().prop_map(Pattern::Resource),
        any_name().prop_map(Pattern::Output),
    ]
}

/// Texts that look like addresses from afar.
fn near_address() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        proptest::sample::select(vec![
            "module",
            "module.",
            "data.",
            "output.",
            "ephemeral.",
            "a",
            ".",
            "[",
            "]",
            "\"",
            "[0]",
            "[00]",
            "[\"",
            "\"]",
            "\\",
            "\\u",
            "\\U0010ffff",
            "\\ud800",
            "${",
            "$${",
            "*",
            "-",
            " ",
            "\n",
            "18446744073709551616",
            "é",
            "日",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn an_address_reads_back_from_its_text(address in any_address()) {
        prop_assert_eq!(Address::parse(&address.to_string()), Ok(address.clone()));
        let config = address.config();
        prop_assert_eq!(ConfigAddress::parse(&config.to_string()), Ok(config));
        prop_assert_eq!(ModulePath::parse(&address.module.to_string()), Ok(address.module));
    }

    #[test]
    fn a_pattern_reads_back_from_its_text(pattern in any_pattern()) {
        prop_assert_eq!(Pattern::parse(&pattern.to_string()), Ok(pattern.clone()));
        prop_assert!(pattern.intersects(&pattern));
    }

    #[test]
    fn json_holds_addresses_as_text(address in any_address()) {
        let json = serde_json::to_string(&address).unwrap();
        prop_assert_eq!(serde_json::from_str::<Address>(&json).unwrap(), address);
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in prop_oneof![any::<String>(), near_address()]) {
        if let Ok(address) = Address::parse(&text) {
            prop_assert_eq!(Address::parse(&address.to_string()), Ok(address));
        }
        if let Ok(module) = ModulePath::parse(&text) {
            prop_assert_eq!(ModulePath::parse(&module.to_string()), Ok(module));
        }
        if let Ok(pattern) = Pattern::parse(&text) {
            prop_assert_eq!(Pattern::parse(&pattern.to_string()), Ok(pattern));
        }
        if let Ok(config) = ConfigAddress::parse(&text) {
            prop_assert_eq!(ConfigAddress::parse(&config.to_string()), Ok(config));
        }
    }
}

#[test]
fn keys_print_as_terraform_prints_them() {
    for (key, text) in [
        ("svc.example.test", r#"["svc.example.test"]"#),
        ("q\"uote", r#"["q\"uote"]"#),
        ("back\\slash", r#"["back\\slash"]"#),
        ("new\nline", r#"["new\nline"]"#),
        ("dollar${x}", r#"["dollar$${x}"]"#),
        ("dollar$${x}", r#"["dollar$$${x}"]"#),
        ("per%{y}", r#"["per%%{y}"]"#),
        ("$", r#"["$"]"#),
        ("zero\u{200b}width", r#"["zero\u200bwidth"]"#),
        ("tag\u{e0001}", r#"["tag\U000e0001"]"#),
        ("emoji😀", r#"["emoji😀"]"#),
        ("naïve-日本", r#"["naïve-日本"]"#),
        ("", r#"[""]"#),
    ] {
        assert_eq!(Key::Str(key.to_owned()).to_string(), text);
        let address = Address::parse(&format!("a.b{text}")).unwrap();
        assert_eq!(address.key, Some(Key::Str(key.to_owned())), "{text}");
    }
}

#[test]
fn texts_that_are_no_addresses_are_refused() {
    for text in [
        "",
        ".",
        "a",
        "a.",
        ".a",
        "a.b.c",
        "a..b",
        "a.b[",
        "a.b[]",
        "a.b[0",
        "a.b[-1]",
        "a.b[00]",
        "a.b[0][1]",
        "a.b[18446744073709551616]",
        "a.b[\"x]",
        "a.b['x']",
        "a.b[\"x\"",
        "a.b[\"x\"] ",
        " a.b",
        "a. b",
        "a.b[\"${x}\"]",
        "a.b[\"%{x}\"]",
        "a.b[\"\\x\"]",
        "a.b[\"\\u12\"]",
        "a.b[\"\\ud800\"]",
        "a.b[\"\\U00110000\"]",
        "a.b[\"\n\"]",
        "module.a",
        "module.a.",
        "module.a.b",
        "module.a[0]b.c",
        "module..a.b",
        "data.a",
        "data.data",
        "1a.b",
        "a.-b",
        "a.b*",
        "*",
        "module.a.*",
        "output.a",
        "a.b.*",
    ] {
        assert!(Address::parse(text).is_err(), "{text:?}");
    }
    for text in ["module.*", ".*", "**", "*.a", "a.*", "data.*", "module.a.b.*", "module.a*", "output.a.b", "output.*"]
    {
        assert!(Pattern::parse(text).is_err(), "{text:?}");
    }
    for text in ["module", "module.", "module.a.", "module.a.b", "a", "module.a module.b"] {
        assert!(ModulePath::parse(text).is_err(), "{text:?}");
    }
    for text in ["a.b[0]", "module.a[0].b.c"] {
        assert!(ConfigAddress::parse(text).is_err(), "{text:?}");
    }
}

/// A row, for the oracle: an instance or a root output. Here a missing key means the instance without a key.
enum Member {
    Instance(Address),
    Output(&'static str),
}

/// Whether a pattern covers a row, written down from the definition and not from the code.
fn covers(pattern: &Pattern, member: &Member) -> bool {
    let key_fits = |pattern: &Option<Key>, key: &Option<Key>| pattern.is_none() || pattern == key;
    let below = |scope: &[ModuleStep], path: &[ModuleStep]| {
        path.len() >= scope.len()
            && (0..scope.len()).all(|i| scope[i].name == path[i].name && key_fits(&scope[i].key, &path[i].key))
    };
    match (pattern, member) {
        (Pattern::Everything, _) => true,
        (Pattern::Output(name), Member::Output(output)) => name == output,
        (Pattern::Module(ModuleScope(scope)), Member::Instance(address)) => below(&scope.0, &address.module.0),
        (Pattern::Resource(wanted), Member::Instance(address)) => {
            wanted.module.0.len() == address.module.0.len()
                && below(&wanted.module.0, &address.module.0)
                && (wanted.mode, &wanted.type_name, &wanted.name) == (address.mode, &address.type_name, &address.name)
                && key_fits(&wanted.key, &address.key)
        }
        (Pattern::Output(_), Member::Instance(_)) | (Pattern::Module(_) | Pattern::Resource(_), Member::Output(_)) => {
            false
        }
    }
}

#[test]
fn patterns_meet_when_some_row_is_in_both_and_cover_when_all_are() {
    let text = |key: &str| Some(Key::Str(key.to_owned()));
    let keys = [None, Some(Key::Int(0)), Some(Key::Int(1)), text("a"), text("0")];
    let step = |name: &str, key: &Option<Key>| ModuleStep { name: name.to_owned(), key: key.clone() };
    let mut modules = vec![ModulePath::root()];
    for (name, key) in
        [("m", &keys), ("n", &keys)].iter().flat_map(|(name, keys)| keys.iter().map(move |key| (name, key)))
    {
        modules.push(ModulePath(vec![step(name, key)]));
        modules.extend(keys.iter().map(|inner| ModulePath(vec![step(name, key), step("m", inner)])));
    }
    let blocks =
        [(Mode::Managed, "t", "x"), (Mode::Managed, "t", "y"), (Mode::Managed, "u", "x"), (Mode::Data, "t", "x")];
    let mut addresses = Vec::new();
    for module in &modules {
        for (mode, type_name, name) in blocks {
            addresses.extend(keys.iter().map(|key| Address {
                module: module.clone(),
                mode,
                type_name: type_name.to_owned(),
                name: name.to_owned(),
                key: key.clone(),
            }));
        }
    }

    let mut patterns = vec![Pattern::Everything, Pattern::Output("o".to_owned()), Pattern::Output("p".to_owned())];
    patterns.extend(modules.iter().skip(1).map(|module| Pattern::Module(ModuleScope(module.clone()))));
    patterns.extend(addresses.iter().cloned().map(Pattern::Resource));
    let mut members = vec![Member::Output("o"), Member::Output("p")];
    members.extend(addresses.into_iter().map(Member::Instance));

    // One bit for each row that a pattern covers.
    let covered: Vec<Vec<u64>> = patterns
        .iter()
        .map(|pattern| {
            let bits = |chunk: &[Member]| {
                chunk.iter().enumerate().fold(0, |bits, (at, member)| bits | (u64::from(covers(pattern, member)) << at))
            };
            members.chunks(64).map(bits).collect()
        })
        .collect();
    for (a, ours) in patterns.iter().zip(&covered) {
        for (b, theirs) in patterns.iter().zip(&covered) {
            let meet = ours.iter().zip(theirs).any(|(ours, theirs)| ours & theirs != 0);
            assert_eq!(a.intersects(b), meet, "{a} and {b}");
            let covers = ours.iter().zip(theirs).all(|(ours, theirs)| theirs & !ours == 0);
            assert_eq!(a.covers(b), covers, "{a} over {b}");
            if meet && let (Some(ours), Some(theirs)) = (a.resource(), b.resource()) {
                assert_eq!(ours, theirs, "{a} and {b} meet, so an index finds one by the other");
            }
        }
    }
}
