// The lists: conflicts, runs beside addresses, runs.

const table = (caption, head, body, cls) => el("table", { class: cls },
  caption ? el("caption", {}, caption) : null,
  el("thead", {}, el("tr", {}, ...head.map((name) => el("th", { scope: "col" }, name)))),
  el("tbody", {}, ...body));
const row = (head, cells, cls) => el("tr", { class: cls }, ...cells.map((cell, n) => el("td", { "data-label": head[n] }, el("div", {}, ...[cell ?? ""].flat()))));

const renderRuns = () => {
  const head = ["Run", "Outcome", "Kind", "Actor", "Request", "Started", "Took", "Serial", "As planned"];
  if (data.states.length > 1) head.splice(1, 0, "State");
  const newest = shown.slice().reverse();
  const body = newest.slice(0, rows).map((i) => {
    const run = runs[i];
    const exact = { true: el("span", { class: "nowrap" }, "✓ exactly"), false: el("span", { class: "tone careful" }, "! not exactly") }[run.exact];
    const cells = [link(i, short(run)), outcome(run), run.kind, el("span", { class: "name" }, actor(run)), asked(run),
      el("span", { class: "when" }, time(run.from)), run.to === undefined ? `${duration(end(run) - run.from)} so far` : duration(run.to - run.from),
      el("span", { class: "nowrap" }, serials(run)), exact];
    if (data.states.length > 1) cells.splice(1, 0, el("span", { class: "name" }, data.states[run.state]));
    return row(head, cells, i === selected ? "picked" : null);
  });
  const more = newest.length - body.length;
  const button = more > 0 ? el("button", { type: "button", class: "more", onclick: () => { rows += 200; renderRuns(); } }, `Show ${Math.min(200, more)} of ${more} more`) : null;
  get("runs").replaceChildren(newest.length ? table(null, head, body) : el("p", { class: "muted" }, "No run fits these filters."), ...(button ? [button] : []));
};

let meetingRows = 30;
const renderMeetings = () => {
  const kept = new Set(shown);
  const all = data.meetings.filter((one) => kept.has(one.run));
  const head = ["When", "Who", "What happened", "What was in the way", "What became of it"];
  const body = all.slice(0, meetingRows).map((one) => {
    const run = runs[one.run];
    const by = one.by.map(([other, parts]) => el("li", {}, ...phrase(parts), ...(typeof other === "number" ? [" ", link(other, "its story")] : [])));
    if (one.more) by.push(el("li", {}, `and ${one.more} more`));
    const [tone, sign, words] = one.what;
    const req = asked(run);
    return row(head, [el("span", { class: "when" }, time(one.at)), [link(one.run, actor(run)), ...(req ? [" for ", req] : [])],
      el("span", { class: `tone ${tone}` }, `${sign} ${words}`), el("ul", { class: "by" }, ...by),
      [one.open ? el("span", { class: "tone careful" }, "still open") : "", " ", told(one.became)]], one.run === selected ? "picked" : null);
  });
  // Several meetings of one change are one thing to do.
  const open = new Set(all.filter((one) => one.open).map((one) => one.change)).size;
  const more = all.length - body.length;
  get("conflicts").replaceChildren(
    el("p", { class: "muted" }, all.length ? `${count(all.length, "meeting")}, ${open ? `${count(open, "change")} still open` : "none of them still open"}.` : "None of these runs met another one's work."),
    ...(all.length ? [table(null, head, body)] : []),
    ...(more > 0 ? [el("button", { type: "button", class: "more", onclick: () => { meetingRows += 200; renderMeetings(); } }, `Show ${Math.min(200, more)} of ${more} more`)] : []));
};

// Runs beside addresses: the newest that fit, or the selected one and those that share an address with it.
const COLUMNS = 24, LINES = 40;
const renderMatrix = () => {
  let columns;
  let pick = null;
  if (selected !== null) {
    pick = new Set(touches(runs[selected]));
    const others = runs.map((_, i) => i).filter((i) => i !== selected && runs[i].state === runs[selected].state && touches(runs[i]).some((at) => pick.has(at)));
    others.sort((a, b) => Math.abs(a - selected) - Math.abs(b - selected));
    columns = others.slice(0, COLUMNS - 1).concat(selected).sort((a, b) => a - b);
    get("matrix-help").textContent = `The selected run, and the ${count(columns.length - 1, "run")} nearest in time that share an address with it (of ${others.length}).`;
  } else {
    const all = shown.filter((i) => touches(runs[i]).length);
    columns = all.slice(-COLUMNS);
    get("matrix-help").textContent = `The newest ${columns.length} of ${count(all.length, "run")} that fit, in the order of time. Select a run to see its neighbours instead.`;
  }
  const test = filter.address.trim() ? addressTest(filter.address.trim()) : () => true;
  const uses = new Map();
  for (const i of columns) for (const at of touches(runs[i])) if ((!pick || pick.has(at)) && test(data.addresses[at])) uses.set(at, (uses.get(at) ?? 0) + 1);
  const lines = [...uses.keys()].sort((a, b) => uses.get(b) - uses.get(a) || (data.addresses[a] < data.addresses[b] ? -1 : 1));
  const body = lines.slice(0, LINES).map((at) => el("tr", {}, el("th", { scope: "row" }, el("code", {}, data.addresses[at])), ...columns.map((i) => {
    const run = runs[i];
    const write = run.writes.includes(at);
    if (!write && !run.reads.includes(at)) return el("td", { class: i === selected ? "picked" : null });
    const wanted = status.get(run.status).tone === "alarm";
    const words = `${wanted ? "wanted to " : ""}${write ? "write" : "read"}`;
    return el("td", {}, el("span", { class: `cell ${wanted ? "wanted" : write ? "write" : "read"}`, title: `${actor(run)}: ${words}`, "aria-label": words }, wanted ? (write ? "w" : "r") : write ? "W" : "R"));
  })));
  const head = columns.map((i) => {
    const run = runs[i];
    const { sign } = status.get(run.status);
    const text = `${sign} ${actor(run)} ${request(run) ? request(run).replace(/^.*(?=[#!]\d+$)/, "") : ""}`;
    return el("th", { scope: "col" }, el("button", { type: "button", class: "column", title: spoken(i), "aria-label": spoken(i), "data-go": i, onclick: (event) => open(i, event.currentTarget, true) }, text));
  });
  const note = `W wrote, R read; w and r only wanted to.${lines.length > LINES ? ` The ${LINES} addresses that most of them share, of ${lines.length}.` : ""}`;
  get("matrix").replaceChildren(lines.length ? el("table", { class: "matrix" }, el("caption", {}, note),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Address"), ...head)), el("tbody", {}, ...body))
    : el("p", { class: "muted" }, "None of these runs names an address."));
};
