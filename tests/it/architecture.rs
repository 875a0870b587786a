//! docs/architecture.md is true: every file is on the map, and the rooms import what it says and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use camino::{Utf8Path, Utf8PathBuf};

/// No file grows beyond this, without its tests: a room that has to be split.
const MAX_LINES: usize = 600;

/// Files at the root of `src/` that every room but `domain` may use.
const COMMON: [&str; 3] = ["clock", "error", "exit"];

fn root() -> &'static Utf8Path {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every source file, relative to the repository, in order.
fn sources() -> Vec<Utf8PathBuf> {
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

/// A file with its tests taken off.
fn without_tests(text: &str) -> &str {
    text.find("#[cfg(test)]").map_or(text, |at| &text[..at])
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

/// The code of a file without comments and documentation.
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The rooms that a piece of code names: `crate::ROOM`, also inside of `crate::{…}`.
fn named_rooms(code: &str) -> BTreeSet<String> {
    let name =
        |text: &str| text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect::<String>();
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(group) => {
                let group = &group[..group.find('}').unwrap_or(group.len())];
                found.extend(group.split(',').map(|part| name(part.trim())));
            }
            None => {
                found.insert(name(rest));
            }
        }
    }
    found
}

#[test]
fn rooms_import_only_what_the_page_allows() {
    let rules = rules();
    let mut wrong = Vec::new();
    for path in sources() {
        let room = room(&path);
        let Some((allowed, _)) = rules.get(&room) else { continue };
        for other in named_rooms(&code(without_tests(&text(&path)))) {
            let common = room != "domain" && COMMON.contains(&other.as_str());
            if other != room && !allowed.contains(&other) && !common {
                wrong.push(format!("{path} imports {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rooms_use_only_the_crates_that_the_page_allows() {
    let rules = rules();
    let mut wrong = Vec::new();
    for path in sources() {
        let Some((_, forbidden)) = rules.get(&room(&path)) else { continue };
        let is_test = path.as_str().contains("/tests") || path.as_str().contains("/conformance/");
        let code = code(without_tests(&text(&path)));
        for name in forbidden {
            // A crate or module is followed by `::`, a function by its arguments.
            let uses = code.match_indices(name.as_str()).any(|(at, _)| {
                let of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
                let before = code[..at].chars().next_back();
                let after = &code[at + name.len()..];
                !before.is_some_and(|letter| of_name(letter) || letter == ':')
                    && (after.starts_with("::") || after.starts_with('('))
            });
            if uses && !is_test {
                wrong.push(format!("{path} uses {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_room_is_in_the_table_and_every_room_of_the_table_exists() {
    let folders: BTreeSet<String> =
        sources().iter().filter(|path| path.components().count() > 2).map(|path| room(path)).collect();
    assert_eq!(rules().into_keys().collect::<BTreeSet<_>>(), folders);
}

#[test]
fn no_file_outgrows_its_room() {
    let long: Vec<String> = sources()
        .into_iter()
        .map(|path| (without_tests(&text(&path)).lines().count(), path))
        .filter(|(lines, _)| *lines > MAX_LINES)
        .map(|(lines, path)| format!("{path} has {lines} lines"))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}
