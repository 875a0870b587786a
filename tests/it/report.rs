//! `kl report`: the page says what the commands say, and works in a real browser: with filters, keys, both themes, without a
//! network, whatever names stand in it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::Value;

use crate::harness::browser::Browser;
use crate::harness::database::{Backend, Database};
use crate::views::{Day, run};

on_both_databases!(a_page_tells_what_the_commands_tell);

/// What stands in a script element of a page.
#[track_caller]
fn element<'p>(page: &'p str, id: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!("id=\"{id}\">")).unwrap_or_else(|| panic!("the page has no {id}"));
    rest.split_once("</script>").unwrap().0
}

#[track_caller]
fn index(page: &str) -> Value {
    serde_json::from_str(element(page, "index")).unwrap()
}

/// A phrase of the page without its marks.
fn bare(phrase: &Value) -> String {
    let part = |part: &Value| match part {
        Value::Array(marked) => marked.last().and_then(Value::as_str).unwrap_or_default().to_owned(),
        text => text.as_str().unwrap_or_default().to_owned(),
    };
    phrase.as_array().unwrap().iter().map(part).collect()
}

/// What became of the meetings of a run, each with what happened.
fn became(index: &Value, run: &str) -> Vec<(String, String, bool)> {
    let place = index["runs"].as_array().unwrap().iter().position(|one| one["id"] == run);
    let meetings =
        index["meetings"].as_array().unwrap().iter().filter(|one| one["run"].as_u64() == place.map(|at| at as u64));
    let told = |one: &Value| {
        (one["what"][2].as_str().unwrap().to_owned(), bare(&one["became"][2]), one["open"].as_bool().unwrap())
    };
    meetings.map(told).collect()
}

fn a_page_tells_what_the_commands_tell(database: &Database) {
    let day = Day::new(database);
    let out = day.site.path("page.html");
    day.goes_by(|day| {
        // While alice is at work, her run has no end.
        let page = day.says(&["report", "--out", "-"]).stdout;
        let live: Vec<Value> =
            index(&page)["runs"].as_array().unwrap().iter().filter(|run| run.get("to").is_none()).cloned().collect();
        assert_eq!(live.len(), 1);
        assert_eq!(live[0]["id"], run(database, "alice", "applying"));
    });
    let said = day.says(&["report", "--out", out.as_str()]);
    assert_eq!((said.stdout.as_str(), said.stderr.trim()), ("", format!("5 runs written to {out}.").as_str()));
    let page = fs::read_to_string(&out).unwrap();
    let readers = out.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(readers & 0o600, 0o600, "{readers:o}");

    // The same sentences as everywhere, for every run.
    let all = index(&page);
    let stories: Vec<Value> =
        element(&page, "stories").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let runs = all["runs"].as_array().unwrap();
    assert_eq!(runs.len(), stories.len());
    let stored = database.rows("SELECT CAST(id AS text) FROM runs ORDER BY started_at");
    assert_eq!(
        runs.iter().map(|run| run["id"].as_str()).collect::<Vec<_>>(),
        stored.iter().map(|row| row[0].as_deref()).collect::<Vec<_>>()
    );
    for (one, story) in runs.iter().zip(&stories) {
        let explained = day.json(&["explain", one["id"].as_str().unwrap()]);
        assert_eq!(bare(&story["headline"]), explained["headline"].as_str().unwrap());
        let told: Vec<(String, Vec<String>)> = story["points"]
            .as_array()
            .unwrap()
            .iter()
            .map(|point| (bare(&point[1][2]).replace('`', ""), point[2].as_array().unwrap().iter().map(bare).collect()))
            .collect();
        let said: Vec<(String, Vec<String>)> = explained["points"]
            .as_array()
            .unwrap()
            .iter()
            // Who came later is seen on the page itself, beside the run.
            .filter(|point| !point["sentence"].as_str().unwrap().starts_with("Came later"))
            .map(|point| {
                let facts = point["facts"].as_array().unwrap().iter().map(|fact| fact.as_str().unwrap().to_owned());
                (point["sentence"].as_str().unwrap().replace('`', ""), facts.collect())
            })
            .collect();
        assert_eq!(told, said);
        assert_eq!(one["exact"], explained["exactly_as_planned"], "{explained}");
    }

    // bob was refused, and then overtaken, which is where it stands.
    let (refused, stale) = (run(database, "bob", "conflict"), run(database, "bob", "stale"));
    let [(what, text, open)] = became(&all, &refused).try_into().unwrap();
    assert_eq!((what.as_str(), open), ("refused", true));
    assert!(text.starts_with("Tried again at ") && text.ends_with(", and not applied: ! stale"), "{text}");
    let [(what, text, open)] = became(&all, &stale).try_into().unwrap();
    assert_eq!((what.as_str(), text.as_str(), open), ("plan overtaken", "Not tried again yet", true));
    assert_eq!(all["meetings"].as_array().unwrap().len(), 2);

    // Planned again, it goes through.
    day.plan("bob", &["--var=value=3", "--var=other=2"]);
    drop(day.apply("bob", &["--var=value=3", "--var=other=2"]).exits(0));
    drop(day.says(&["report", "--out", out.as_str()]));
    let all = index(&fs::read_to_string(&out).unwrap());
    for (id, end) in [(&refused, "as serial 4, after alice's run had ended"), (&stale, "as serial 4")] {
        let [(_, text, open)] = became(&all, id).try_into().unwrap();
        assert!(!open && text.starts_with("Followed by another plan") && text.ends_with(end), "{text}");
    }
    what_is_asked_for_is_what_comes(&day, database);
}

fn what_is_asked_for_is_what_comes(day: &Day, database: &Database) {
    let runs = |args: &[&str]| {
        let page = day.says(&[&["report", "--out", "-"], args].concat()).stdout;
        (index(&page)["runs"].as_array().unwrap().len(), page)
    };
    let (number, page) = runs(&["--limit", "2"]);
    assert_eq!(number, 2);
    assert!(page.contains("The newest 2 runs; older ones were left out (--limit)"));
    assert_eq!(runs(&["--state", "prod"]).0, 6);
    assert_eq!(runs(&["--since", "2999-01-01"]).0, 0);
    let refused = day.site.kl().args(["report", "--out", "-", "--state", "nowhere"]).exits(3);
    assert!(refused.stderr.contains("nowhere"), "{}", refused.stderr);

    // Where it cannot be written, what was there stays.
    let told = day.site.kl().args(["report", "--out", "live"]).exits(3).stderr;
    assert!(told.contains("the page cannot be written to live"), "{told}");
    drop(day.site.kl().args(["report", "--out", "nowhere/page.html"]).exits(3));
    drop(day.site.kl().args(["report"]).exits(3));
    // A link stays a link, and a pipe a pipe.
    let (file, link, pipe) = (day.site.path("file.html"), day.site.path("link.html"), day.site.path("pipe"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    drop(day.says(&["report", "--out", link.as_str()]));
    assert!(link.is_symlink() && fs::read_to_string(&file).unwrap().starts_with("<!doctype html>"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let running = day.site.kl().args(["report", "--out", pipe.as_str()]).spawn();
    assert!(fs::read_to_string(&pipe).unwrap().ends_with("</html>\n"));
    drop(running.exits(0));
    assert!(!pipe.is_file());
    let document = day.json(&["report", "--out", file.as_str()]);
    assert_eq!((&document["runs"], &document["cut"]), (&6.into(), &false.into()));
    assert_eq!(document["bytes"].as_u64(), Some(fs::metadata(&file).unwrap().len()));
    assert_eq!(database.value("SELECT count(*) FROM runs"), Some("6".into()));
}

/// As hostile as a name on the command line can be.
const HOSTILE: &str = "</script><img src=x onerror=\"alert(1)\">\u{202E}gnp.exe😀שלום";

/// Text that cannot be read well: with its colours, or where it stands.
const CONTRAST: &str = r#"(() => {
  const rgb = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || !node.checkVisibility() || node.closest("script, style, noscript, svg, option, datalist")) continue;
    const style = getComputedStyle(node);
    if (node.closest(":disabled")) continue;
    const [a, b] = [light(rgb(style.color)), light(ground(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(`${node.tagName}.${node.className} ${ratio.toFixed(2)} ${text.data.trim().slice(0, 40)}`);
  }
  return [...new Set(bad)].join("\n");
})()"#;

/// What a reader with a screen reader would not be told.
const UNNAMED: &str = r#"[...document.querySelectorAll("button, a, input, select, [role=dialog], [role=region]")].filter((node) => node.checkVisibility()
  && !(node.getAttribute("aria-label") || node.textContent.trim() || node.closest("label")?.textContent.trim()
  || document.getElementById(node.getAttribute("aria-labelledby"))?.textContent.trim())).map((node) => node.outerHTML).join("\n")"#;

#[test]
fn a_page_works_in_a_real_browser() {
    crate::harness::database::on(Backend::Sqlite, |database| {
        let day = Day::new(&database);
        day.goes_by(|_| {});
        day.plan("mallory", &["--var=value=2", "--var=other=3", "--target=terraform_data.other"]);
        let spec = day.site.path("mallory.json").into_string();
        drop(
            day.kl(HOSTILE, &["apply", &spec, "--dir", "live", "--state", "prod", "--var=value=2", "--var=other=3"])
                .exits(0),
        );
        let out = day.site.path("page.html");
        drop(day.says(&["report", "--out", out.as_str()]));
        let url = format!("file://{out}");
        let mut browser = Browser::start();
        browser.size(1280, 900);
        browser.prefer("light");
        browser.open(&url);
        the_page_is_filtered(&mut browser, &url);
        the_page_is_walked_by_keys(&mut browser);
        the_page_is_dressed(&mut browser);
        the_page_is_readable_without_its_script(&mut browser, &url);
        assert_eq!(browser.trouble(&url), Vec::<String>::new());
    });
}

/// How many bars there are, and what the page says of their number.
#[track_caller]
fn shows(browser: &mut Browser, bars: u64, count: &str) {
    assert_eq!(browser.eval("document.querySelectorAll('.bar').length").as_u64(), Some(bars));
    assert_eq!(browser.text("document.getElementById('count').textContent"), count);
}

fn type_into(browser: &mut Browser, field: &str, text: &str) {
    drop(
        browser
            .eval(&format!("document.getElementById('{field}').focus(); document.getElementById('{field}').select()")),
    );
    browser.type_text(text);
}

fn the_page_is_filtered(browser: &mut Browser, url: &str) {
    shows(browser, 6, "6 runs");
    // Names are texts: nothing of them has become an element.
    assert_eq!(browser.eval("document.querySelectorAll('img').length"), 0);
    type_into(browser, "actor", "bob");
    shows(browser, 2, "2 of 6 runs fit the filters");
    assert_eq!(browser.text("location.hash"), "#actor=bob");
    browser.wait_for("document.querySelectorAll('#runs tbody tr').length === 2");
    browser.wait_for("document.querySelectorAll('#conflicts tbody tr').length === 2");
    type_into(browser, "actor", "");
    drop(browser.eval("document.getElementById('reset').click()"));
    shows(browser, 6, "6 runs");
    type_into(browser, "actor", "gnp.exe😀שלום");
    shows(browser, 1, "1 of 6 runs fit the filters");
    drop(browser.eval("document.getElementById('reset').click()"));
    for (address, bars) in
        [("terraform_data.other", 3), ("TERRAFORM_DATA.la", 4), ("terraform_data.l*", 4), ("*.nothing", 0)]
    {
        type_into(browser, "address", address);
        assert_eq!(browser.eval("document.querySelectorAll('.bar').length").as_u64(), Some(bars), "{address}");
        drop(browser.eval("document.getElementById('reset').click()"));
    }
    // Patterns mean what they mean to kl.
    let filter = include_str!("../../src/report/html/page/filter.js");
    let (_, filter) = filter.split_once("// The steps of an address").expect("the test of an address");
    let (filter, _) = filter.split_once("const apply =").expect("its end");
    for (wanted, name, fits) in [
        ("module.web.*", r#"module.web["a.b"].x.y[0]"#, true),
        ("module.web.*", "module.web2.x.y", false),
        (r#"module.web["a"].*"#, "module.web.*", true),
        (r#"module.web["a"].*"#, r#"module.web["b"].x.y"#, false),
        ("module.web.x.y", r#"module.web["a"].x.y[0]"#, true),
        ("module.web.x.y", r#"module.web["a"].x.z"#, false),
        ("x.y[0]", "x.y", true),
        ("x.y[1]", "x.y[0]", false),
        ("x.*", "*", true),
    ] {
        let test = format!("addressTest({})({})", serde_json::json!(wanted), serde_json::json!(name));
        let asked = format!("(() => {{ //{filter}\nreturn {test}; }})()");
        assert_eq!(browser.eval(&asked).as_bool(), Some(fits), "{wanted} and {name}");
    }
    drop(
        browser.eval(
            "const s = document.getElementById('outcome'); s.value = 'loud'; s.dispatchEvent(new Event('input'))",
        ),
    );
    shows(browser, 2, "2 of 6 runs fit the filters");
    // The address in the bar says it all: a page opened with it looks the same.
    let hash = browser.text("location.hash");
    drop(browser.ask("Page.navigate", &serde_json::json!({ "url": "about:blank" })));
    browser.open(&format!("{url}{hash}"));
    shows(browser, 2, "2 of 6 runs fit the filters");
    drop(browser.eval("document.getElementById('reset').click()"));
    shows(browser, 6, "6 runs");
}

fn the_page_is_walked_by_keys(browser: &mut Browser) {
    let focus = "document.activeElement.id || document.activeElement.dataset.run || document.activeElement.tagName";
    let bars = browser.text("JSON.stringify([...document.querySelectorAll('.bar')].map((bar) => bar.dataset.run))");
    let bars: Vec<String> = serde_json::from_str(&bars).unwrap();
    // The first stop is the way past everything; from the filters the timeline is one stop among them.
    drop(browser.eval("document.activeElement.blur(); document.body.focus()"));
    browser.press("Tab");
    let mut stops = vec![browser.text(focus)];
    while stops.len() < 40 && !bars.contains(stops.last().unwrap()) {
        browser.press("Tab");
        stops.push(browser.text(focus));
        assert_ne!(browser.text("getComputedStyle(document.activeElement).outlineStyle"), "none", "{stops:?}");
    }
    assert_eq!(&stops[..6], ["skip", "theme", "actor", "address", "request", "outcome"]);
    browser.press("Home");
    let first = browser.text(focus);
    browser.press("ArrowRight");
    let second = browser.text(focus);
    assert!(bars.contains(&second) && second != first);
    // alice's run, and the two that went on beside it.
    assert!(browser.text("document.activeElement.getAttribute('aria-label')").contains("by alice"));
    browser.press("ArrowDown");
    let below = browser.text("document.activeElement.getAttribute('aria-label')");
    assert!(below.contains("by bob") || below.contains("by carol"), "{below}");
    browser.press("ArrowUp");
    assert_eq!(browser.text(focus), second);
    browser.press("Enter");
    assert_eq!(browser.text(focus), "details");
    let story = browser.text("document.getElementById('details').innerText");
    for part in
        ["Committed exactly what was planned", "Who else was there?", "1 → 3", "independent", "terraform_data.slow"]
    {
        assert!(story.contains(part), "no {part:?} in\n{story}");
    }
    assert!(browser.text("location.hash").contains(&format!("run={second}")));
    assert_eq!(browser.eval("document.querySelectorAll('.bar.beside').length"), 1);
    assert_eq!(browser.eval("document.querySelectorAll('.bar.against').length"), 2);
    assert_eq!(browser.text(UNNAMED), "");
    browser.keep_picture("details-light");
    browser.press("Escape");
    assert_eq!(browser.text(focus), second);
    assert_eq!(browser.eval("document.getElementById('details').hidden"), true);
    browser.press("End");
    assert!(browser.text("document.activeElement.getAttribute('aria-label')").contains("gnp.exe"));
}

fn the_page_is_dressed(browser: &mut Browser) {
    let ground = "getComputedStyle(document.body).backgroundColor";
    let light = browser.text(ground);
    for (width, height, name) in [(1280, 1600, "desktop"), (390, 1600, "phone")] {
        browser.size(width, height);
        for colours in ["light", "dark"] {
            browser.prefer(colours);
            // With a story beside it, as that has the most kinds of text.
            browser.press("Enter");
            assert_eq!(browser.text(CONTRAST), "", "{name}, {colours}");
            browser.press("Escape");
            assert_eq!(browser.text(CONTRAST), "", "{name}, {colours}");
            let wider = browser.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");
            assert_eq!(wider, 0, "{name} scrolls sideways");
            browser.keep_picture(&format!("{name}-{colours}"));
        }
    }
    assert_ne!(browser.text(ground), light);
    // The button goes over what the machine prefers, and stays in the address.
    drop(browser.eval("document.getElementById('theme').click()"));
    assert_eq!(browser.text(ground), light);
    assert!(browser.text("location.hash").contains("theme=light"));
    drop(browser.eval("document.getElementById('theme').click()"));
    assert_ne!(browser.text(ground), light);
}

fn the_page_is_readable_without_its_script(browser: &mut Browser, url: &str) {
    drop(browser.ask("Emulation.setScriptExecutionDisabled", &serde_json::json!({ "value": true })));
    drop(browser.ask("Page.navigate", &serde_json::json!({ "url": url })));
    browser.wait_for("document.querySelectorAll('main table').length === 2");
    let text = browser.text("document.body.innerText");
    for part in ["Conflicts and what became of them", "⊘ conflict", "✓ exactly as planned", "⟨U+202E⟩", "is held by"]
    {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert_eq!(browser.text(CONTRAST), "");
    assert_eq!(browser.eval("document.getElementById('app').checkVisibility()"), false);
}
