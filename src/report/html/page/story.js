// The story of one run, beside the page.

// Where the focus goes back to: the list and the run in it, as lists are made anew. None: the run's bar.
let opener = null;
const point = ([, sentence, facts]) => el("li", { class: sentence[0] }, told(sentence),
  facts.length ? el("ul", { class: "facts" }, ...facts.map((fact) => el("li", {}, ...phrase(fact)))) : null);

// Who wrote an address before a run, and who touched it next.
const around = (i, at) => {
  const name = data.addresses[at];
  const same = (j) => runs[j].state === runs[i].state && touches(runs[j]).some((other) => other === at || data.addresses[other] === "*" || name === "*");
  let before = null, after = null;
  for (let j = i - 1; j >= 0 && before === null; j -= 1) if (runs[j].result !== undefined && runs[j].writes.some((other) => other === at || data.addresses[other] === "*") && runs[j].state === runs[i].state) before = j;
  for (let j = i + 1; j < runs.length && after === null; j += 1) if (same(j)) after = j;
  const cell = (j) => (j === null ? "" : [outcome(runs[j]), " ", link(j, `${actor(runs[j])}, ${time(runs[j].from)}`)]);
  return [cell(before), cell(after)];
};
const touched = (i) => {
  const run = runs[i];
  const most = 40;
  const all = run.writes.map((at) => [at, "writes"]).concat(run.reads.map((at) => [at, "reads"]));
  if (!all.length) return [];
  const head = ["Address", "", "Changed before by", "Touched next by"];
  const body = all.slice(0, most).map(([at, how]) => row(head, [el("code", {}, data.addresses[at]), how, ...around(i, at)]));
  const left = all.length - Math.min(most, all.length) + (run.more ?? 0);
  return [el("h3", {}, "What it writes and reads"), el("div", { class: "scroll" }, table(null, head, body)), ...(left ? [el("p", { class: "muted" }, `and ${count(left, "more address").replace("addresss", "addresses")}`)] : [])];
};
const cut = (text, most) => (text.length > most ? `…${text.slice(1 - most)}` : text);
const graph = (edges) => {
  if (!edges.length) return [];
  const most = 12;
  const some = edges.slice(0, most);
  const left = [...new Set(some.map((edge) => edge[0]))];
  const right = [...new Set(some.map((edge) => edge[1]))];
  const high = Math.max(left.length, right.length) * 34 + 26;
  const node = (x, y, name, cls) => svg("g", {}, svg("title", {}, name), svg("rect", { x, y, width: 270, height: 24, rx: 5, class: cls }), svg("text", { x: x + 8, y: y + 16 }, cut(name, 35)));
  const y = (list, name) => 24 + list.indexOf(name) * 34;
  const picture = svg("svg", { class: "graph", viewBox: `0 0 660 ${high}`, role: "img", "aria-label": `What depends on what: ${some.map(([from, to]) => `${to} uses ${from}`).join("; ")}` },
    svg("text", { x: 0, y: 12, class: "caption" }, "is read"), svg("text", { x: 390, y: 12, class: "caption" }, "and used by"));
  for (const [from, to, via] of some) {
    const a = y(left, from) + 12, b = y(right, to) + 12;
    picture.append(svg("path", { d: `M270 ${a} C 330 ${a}, 330 ${b}, 382 ${b}` }, svg("title", {}, `used by ${via}`)), svg("path", { class: "tip", d: `M390 ${b} l-9 -4 v8 z` }));
  }
  for (const name of left) picture.append(node(0, y(left, name), name, "read"));
  for (const name of right) picture.append(node(390, y(right, name), name, "write"));
  return [el("h3", {}, "What depends on what"), picture, ...(edges.length > most ? [el("p", { class: "muted" }, `and ${edges.length - most} more`)] : [])];
};

const open = (i, from, focus) => {
  const box = from?.closest("section div[id]");
  if (box) opener = [box.id, i];
  else if (focus && !from) opener = null;
  selected = i;
  if (places.has(i)) focused = i;
  const run = runs[i];
  const facts = story(i);
  const panel = get("details");
  const at = shown.indexOf(i);
  const step = (label, to) => el("button", { type: "button", disabled: to === undefined, onclick: () => open(to, null, true) }, label);
  const list = [];
  const fact = (name, ...value) => { if (value.some((part) => part)) list.push(el("dt", {}, name), el("dd", {}, ...value.filter((part) => part))); };
  fact("Outcome", outcome(run));
  fact("Actor", el("span", { class: "name" }, actor(run)));
  fact("Request", asked(run));
  fact("Job", run.job ? el("a", { href: run.job, rel: "noreferrer" }, run.job) : null);
  fact("State", el("span", { class: "name" }, data.states[run.state]));
  fact("Started", time(run.from));
  fact("Took", run.to === undefined ? `${duration(end(run) - run.from)} so far` : duration(run.to - run.from),
    run.waited ? `, of which it waited ${duration((run.waited[1] ?? data.now) - run.waited[0])}` : "");
  fact("Serial", serials(run));
  fact("As planned", { true: "✓ committed exactly what was planned", false: "! not exactly what was planned" }[run.exact]);
  fact("With", facts.tools);
  fact("Spec", facts.spec ? el("code", {}, facts.spec) : null);
  fact("Run", el("code", {}, run.id));
  const sections = [];
  let topic = null, points = null;
  for (const one of facts.points) {
    if (one[0] !== topic) {
      [topic] = one;
      points = el("ul", { class: "points" });
      sections.push(el("h3", {}, topic), points);
    }
    points.append(point(one));
  }
  const met = data.meetings.filter((one) => one.run === i);
  if (met.length) sections.push(el("h3", {}, "What became of it"), el("ul", { class: "points" }, ...met.map((one) => el("li", { class: one.became[0] }, `${one.what[2]}: `, told(one.became)))));
  const beside = overlapping(i);
  if (beside.length) {
    const some = beside.slice(0, 12).map((j) => el("li", {}, outcome(runs[j]), " ", link(j, `${actor(runs[j])}${request(runs[j]) ? ` for ${request(runs[j])}` : ""}, ${time(runs[j].from)}`),
      (run.against ?? []).includes(j) ? " (was in its way)" : (runs[j].against ?? []).includes(i) ? " (it was in the way of this one)" : " (independent)"));
    sections.push(el("h3", {}, "At work on the same state at the same time"), el("ul", {}, ...some), ...(beside.length > 12 ? [el("p", { class: "muted" }, `and ${beside.length - 12} more`)] : []));
  }
  panel.replaceChildren(
    el("div", { class: "bar-top" }, step("← Earlier", at > 0 ? shown[at - 1] : undefined), step("Later →", at >= 0 ? shown[at + 1] : undefined), el("button", { type: "button", id: "close", onclick: close }, "Close")),
    el("h2", { id: "details-title" }, ...phrase(facts.headline)), el("dl", {}, ...list), ...sections, ...touched(i), ...graph(facts.edges));
  panel.hidden = false;
  panel.scrollTop = 0;
  reveal(i);
  paint();
  writeHash();
  later();
  if (focus) panel.focus({ preventScroll: true });
};
const close = () => {
  if (selected === null) return;
  const was = selected;
  selected = null;
  get("details").hidden = true;
  get("details").replaceChildren();
  paint();
  lower();
  writeHash();
  const back = opener && document.querySelector(`#${opener[0]} [data-go="${opener[1]}"]`);
  if (back) back.focus();
  else if (made.has(was)) made.get(was).focus({ preventScroll: true });
  opener = null;
};
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && selected !== null) {
    event.preventDefault();
    close();
  }
});
