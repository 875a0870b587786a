//! docs/architecture.md is true: every file is on the map, and the rooms import what it says and nothing else.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use camino::{Utf8Path, Utf8PathBuf};

use source::Source;

/// No file grows beyond this, without its tests: a room that has to be split.
const MAX_LINES: usize = 600;

/// Files at the root of `src/` that every room but `domain` may use.
const COMMON: [&str; 4] = ["clock", "error", "exit", "mishap"];

fn root() -> &'static Utf8Path {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every source file, relative to the repository, in order.
pub(crate) fn sources() -> Vec<Utf8PathBuf> {
    let mut found = Vec::new();
    let mut queue = vec![root().join("src")];
    while let Some(dir) = queue.pop() {
        for entry in dir.read_dir_utf8().unwrap() {
            let path = entry.unwrap().path().to_owned();
            if path.is_dir() {
                queue.push(path);
            } else if path.extension() == Some("rs") {
                found.push(path.strip_prefix(root()).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

fn text(path: &Utf8Path) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The room of a file: the folder below `src/`, or the name of a file at its root.
fn room(path: &Utf8Path) -> String {
    let inside = path.strip_prefix("src").unwrap();
    inside.components().next().unwrap().as_str().trim_end_matches(".rs").to_owned()
}

/// The first sentence of a file's own documentation.
fn headline(path: &Utf8Path, text: &str) -> String {
    let lines = text.lines().take_while(|line| line.starts_with("//!"));
    let comment: Vec<&str> =
        lines.map(|line| line.trim_start_matches("//!").trim()).take_while(|line| !line.is_empty()).collect();
    let comment = comment.join(" ");
    assert!(!comment.is_empty(), "{path} does not begin with a `//!` sentence");
    let end = comment.find(". ").unwrap_or(comment.len());
    // Links of rustdoc lead nowhere in a page.
    comment[..end].trim_end_matches('.').replace("[`", "`").replace("`]", "`").replace('|', "\\|")
}

/// The files that are part of kl, read: those that exist in tests only are left out.
fn product() -> BTreeMap<Utf8PathBuf, Source> {
    let mut read: BTreeMap<Utf8PathBuf, Source> = sources()
        .into_iter()
        .map(|path| {
            let source = Source::read(&module(&path), &text(&path));
            (path, source)
        })
        .collect();
    let in_tests_only: Vec<Utf8PathBuf> =
        read.iter().flat_map(|(path, source)| source.test_modules.iter().map(|name| folder(path).join(name))).collect();
    read.retain(|path, _| !in_tests_only.iter().any(|module| path.with_extension("").starts_with(module)));
    read
}

/// The module that a file is.
fn module(path: &Utf8Path) -> Vec<&str> {
    let inside = path.strip_prefix("src").unwrap();
    let mut names: Vec<&str> = inside.components().map(|part| part.as_str().trim_end_matches(".rs")).collect();
    if matches!(names.last(), Some(&("mod" | "lib" | "main"))) {
        names.pop();
    }
    names
}

/// Where the modules below a file are.
fn folder(path: &Utf8Path) -> Utf8PathBuf {
    Utf8Path::new("src").join(module(path).join("/"))
}

#[test]
fn every_file_is_on_the_map() {
    let mut rooms: BTreeMap<String, String> = BTreeMap::new();
    for path in sources() {
        let text = text(&path);
        let inside = path.strip_prefix("src").unwrap();
        let name = if inside.components().count() > 1 { room(&path) } else { "src".to_owned() };
        let line = format!("| `{inside}` | {} |\n", headline(&path, &text));
        rooms.entry(name).or_default().push_str(&line);
    }
    let tables: String = rooms.iter().fold(String::new(), |text, (room, lines)| {
        text + &format!("\n### {room}\n\n| file | owns |\n| --- | --- |\n{lines}")
    });
    let page = root().join("docs/architecture.md");
    let found = fs::read_to_string(&page).unwrap();
    let (before, rest) = found.split_once("<!-- files -->").unwrap();
    let (_, after) = rest.split_once("<!-- end of files -->").unwrap();
    let wanted = format!("{before}<!-- files -->\n{tables}\n<!-- end of files -->{after}");
    if std::env::var_os("KL_UPDATE_GENERATED").is_some() {
        fs::write(&page, &wanted).unwrap();
        return;
    }
    assert!(
        found == wanted,
        "docs/architecture.md is not current: run `KL_UPDATE_GENERATED=1 cargo test --test it architecture`"
    );
}

/// The table of the page: room → (rooms that it may import, crates that it must not use).
fn rules() -> BTreeMap<String, (BTreeSet<String>, Vec<String>)> {
    let page = text(Utf8Path::new("docs/architecture.md"));
    let (_, table) = page.split_once("| --- | --- | --- |\n").unwrap();
    let list = |cell: &str| cell.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    table
        .lines()
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let allowed: Vec<String> = list(cells[1]);
            (cells[0].trim_matches('`').to_owned(), (allowed.into_iter().collect(), list(cells[2])))
        })
        .collect()
}

#[test]
fn rooms_import_only_what_the_page_allows() {
    let rules = rules();
    let rooms: BTreeSet<String> = sources().iter().map(|path| room(path)).collect();
    let mut wrong = BTreeSet::new();
    for (path, source) in product() {
        let room = room(&path);
        let Some((allowed, _)) = rules.get(&room) else { continue };
        for used in &source.own {
            let Some(other) = used.first().filter(|other| rooms.contains(*other)) else { continue };
            let common = room != "domain" && COMMON.contains(&other.as_str());
            if *other != room && !allowed.contains(other) && !common {
                wrong.insert(format!("{path} imports {}", used.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", Vec::from_iter(wrong).join("\n"));
}

#[test]
fn rooms_use_only_the_crates_that_the_page_allows() {
    let rules = rules();
    let mut wrong = BTreeSet::new();
    for (path, source) in product() {
        let Some((_, forbidden)) = rules.get(&room(&path)) else { continue };
        let forbidden: Vec<Vec<&str>> = forbidden.iter().map(|name| name.split("::").collect()).collect();
        for used in &source.foreign {
            if forbidden.iter().any(|name| used.len() >= name.len() && name.iter().zip(used).all(|(a, b)| a == b)) {
                wrong.insert(format!("{path} uses {}", used.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", Vec::from_iter(wrong).join("\n"));
}

#[test]
fn every_room_is_in_the_table_and_every_room_of_the_table_exists() {
    let folders: BTreeSet<String> =
        sources().iter().filter(|path| path.components().count() > 2).map(|path| room(path)).collect();
    assert_eq!(rules().into_keys().collect::<BTreeSet<_>>(), folders);
}

#[test]
fn no_file_outgrows_its_room() {
    let long: Vec<String> = product()
        .into_iter()
        .filter(|(_, source)| source.lines > MAX_LINES)
        .map(|(path, source)| format!("{path} has {} lines", source.lines))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}
