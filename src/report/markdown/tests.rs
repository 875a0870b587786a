//! Whatever text goes in, the page's structure is what it would be with a harmless one.

use comrak::nodes::{AstNode, NodeValue};
use comrak::{Arena, Options, parse_document};
use proptest::prelude::*;

use super::*;

fn options() -> Options<'static> {
    let mut options = Options::default();
    options.extension.table = true;
    options.extension.strikethrough = true;
    options.extension.autolink = true;
    options.extension.tasklist = true;
    options.extension.footnotes = true;
    options.extension.alerts = true;
    options.extension.math_dollars = true;
    options.extension.math_code = true;
    options.extension.multiline_block_quotes = true;
    options.extension.description_lists = true;
    options
}

/// The kinds of a page's nodes, depth first, without the texts; soft and plain texts count as one.
pub(in crate::report) fn shape(markdown: &str) -> Vec<String> {
    fn walk<'a>(node: &'a AstNode<'a>, depth: usize, out: &mut Vec<String>) {
        let kind = match &node.data.borrow().value {
            NodeValue::Text(_) => "text".to_owned(),
            NodeValue::Code(_) => "code".to_owned(),
            NodeValue::CodeBlock(block) => format!("fence {}", block.info),
            NodeValue::HtmlInline(tag) => format!("html {tag}"),
            NodeValue::HtmlBlock(block) => format!("html {}", block.literal.lines().next().unwrap_or_default()),
            NodeValue::Link(link) => format!("link {}", link.url),
            NodeValue::Table(_) => "table".to_owned(),
            other => format!("{other:?}").chars().take_while(char::is_ascii_alphanumeric).collect(),
        };
        let line = format!("{}{kind}", " ".repeat(depth));
        if out.last() != Some(&line) || !line.ends_with("text") {
            out.push(line);
        }
        for child in node.children() {
            walk(child, depth + 1, out);
        }
    }
    let arena = Arena::new();
    let mut out = Vec::new();
    walk(parse_document(&arena, markdown, &options()), 0, &mut out);
    out
}

/// All text of a page as a reader sees it, code apart from prose.
pub(in crate::report) fn read(markdown: &str) -> (String, String) {
    let arena = Arena::new();
    let (mut prose, mut code) = (String::new(), String::new());
    for node in parse_document(&arena, markdown, &options()).descendants() {
        match &node.data.borrow().value {
            NodeValue::Text(text) => prose.push_str(text),
            NodeValue::Code(span) => code.push_str(&span.literal),
            NodeValue::CodeBlock(block) => code.push_str(&block.literal),
            _ => {}
        }
    }
    (prose, code)
}

/// A page with a text in every place where one can stand.
fn page(text: &str) -> String {
    let mut table = Table::new(&["a", "b", "c"]);
    table.row([Inline::text(text), Inline::code(text), Inline::hint(text).bold()]);
    table.row([Inline::own("last")]);
    let (open, close) = details(text);
    let blocks = [
        Block::heading(3, &Inline::own("H ").and(&Inline::text(text))),
        Block::paragraph(&Inline::text(text)),
        table.block(),
        Block::list(&[Inline::own("x ").and(&Inline::text(text)), Inline::text(text), Inline::own("y")]),
        Block::quote(&[Inline::text(text), Inline::own("z")]),
        Block(open),
        Block::fence(Language::Text, text),
        Block(close.to_owned()),
        Block::paragraph(&Inline::own("end")),
    ];
    Block::stack(&blocks).as_str().to_owned()
}

/// Texts made of what hurts.
fn hostile() -> impl Strategy<Value = String> {
    let parts = prop_oneof![
        Just("```"),
        Just("~~~"),
        Just("`"),
        Just("|"),
        Just("\\"),
        Just("\n"),
        Just("\r\n"),
        Just("</details>"),
        Just("<!-- kl -->"),
        Just("<h1>x</h1>"),
        Just("@alice"),
        Just("#12"),
        Just("GH-3"),
        Just("!4"),
        Just("/close"),
        Just("[x](javascript:0)"),
        Just("![i](http://e.x/y)"),
        Just("http://e.x/"),
        Just("www.e.x"),
        Just("a@b.cd"),
        Just("<http://e.x>"),
        Just("**"),
        Just("_"),
        Just("~~"),
        Just("$x$"),
        Just("$`x`$"),
        Just("$$"),
        Just("&lt;"),
        Just("---"),
        Just("==="),
        Just("# "),
        Just("1. "),
        Just("- "),
        Just("+ "),
        Just("> "),
        Just("[^1]"),
        Just("[^1]: x"),
        Just("[a]: http://e.x"),
        Just("    "),
        Just("\t"),
        Just("\u{202E}"),
        Just("\u{0}"),
        Just("::error::x"),
        Just("> [!WARNING]"),
        Just("- [ ] "),
        Just(": "),
        Just("| --- |"),
        Just("ä"),
        Just("🙂"),
        Just("mailto:a@b.cd"),
        Just("*"),
        Just("{+x+}"),
        Just(":tada:"),
        Just("%{"),
        Just("${x}"),
        Just("abc"),
        Just(" "),
    ]
    .prop_map(str::to_owned);
    prop_oneof![
        4 => prop::collection::vec(parts, 0..8).prop_map(|parts| parts.concat()),
        1 => any::<String>(),
    ]
}

/// What the page comes to with harmless texts: those that a code span or an HTML tag does not have to hold.
fn without_code(shape: Vec<String>) -> Vec<String> {
    let kept = |line: &String| {
        let line = line.trim_start();
        line != "text" && line != "code" && line != "html <code>" && line != "html </code>" && line != "Escaped"
    };
    // Empty bold text is none.
    shape.into_iter().filter(|line| kept(line) && line.trim_start() != "Strong").collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn no_text_changes_the_structure_around_it(text in hostile()) {
        let expected = without_code(shape(&page("harmless")));
        let found = without_code(shape(&page(&text)));
        if !text.trim().is_empty() {
            prop_assert_eq!(&found, &expected, "{}", page(&text));
        }
    }

    #[test]
    fn code_shows_the_text_letter_by_letter(text in hostile()) {
        let wanted = visible(&text);
        let markdown = Inline::code(&text);
        let (prose, code) = read(markdown.as_str());
        prop_assert_eq!((prose + &code).replace('\u{2060}', ""), wanted, "{}", markdown.as_str());
    }

    #[test]
    fn no_line_begins_with_a_slash(text in hostile()) {
        prop_assert!(!page(&text).lines().any(|line| line.trim_matches([' ', '\t']).starts_with('/')));
    }

    #[test]
    fn prose_mentions_and_refers_to_nobody(text in hostile()) {
        let (prose, _) = read(Inline::text(&text).as_str());
        let glued = |sign: char| prose.split(sign).skip(1).any(|rest| rest.starts_with(|next: char| next.is_alphanumeric()));
        prop_assert!(!glued('@') && !glued('#') && !glued('!') && !prose.contains("://"), "{prose}");
    }
}

#[test]
fn a_fence_is_longer_than_any_run_of_backticks_in_it() {
    let block = Block::fence(Language::Text, "a\n````\nb");
    assert_eq!(block.as_str(), "`````text\na\n````\nb\n`````");
}

#[test]
fn a_pipe_in_code_does_not_end_its_cell() {
    assert_eq!(Inline::code("x[\"a|b\"]").as_str(), "<code>x&#91;&#34;a&#124;b&#34;&#93;</code>");
    assert_eq!(Inline::code("x[\"a.b\"]").as_str(), "`x[\"a.b\"]`");
}

#[test]
fn what_cannot_be_seen_is_made_visible() {
    assert_eq!(visible("a\u{202E}b\u{0}\u{7F}\n"), "a⟨U+202E⟩b␀␡␊");
}

#[test]
fn only_the_web_is_linked_to() {
    let linked = |url: &str| Inline::own("x").link(url).as_str().to_owned();
    assert_eq!(linked("javascript:0"), "x");
    assert_eq!(linked("https://e.x/a b)(c"), "[x](https://e.x/a%20b%29%28c)");
}
