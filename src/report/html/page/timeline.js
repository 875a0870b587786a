// The timeline: when each run worked, in lanes, of which only what can be seen is made.

const LANE = 32, TOP = 24, BAND = 22;
let zoom = 1;
let places = new Map();
let order = [];
let ticks = [];
let bands = [];
let width = 0;
let focused = null;
const made = new Map();
const overlaps = new Map();

const overlapping = (i) => {
  if (overlaps.has(i)) return overlaps.get(i);
  const run = runs[i];
  const found = [];
  // Runs stand in the order of their beginning.
  for (let j = 0; j < runs.length && runs[j].from < end(run); j += 1) {
    if (j !== i && runs[j].state === run.state && end(runs[j]) > run.from) found.push(j);
  }
  overlaps.set(i, found);
  return found;
};

const layout = () => {
  order = shown;
  const moments = new Set();
  for (const i of order) {
    const run = runs[i];
    moments.add(run.from).add(end(run));
    if (run.waited) moments.add(run.waited[0]).add(run.waited[1] ?? end(run));
  }
  const sorted = [...moments].sort((a, b) => a - b);
  // Which spans between two moments have nobody at work in them.
  const change = new Map();
  for (const i of order) {
    change.set(runs[i].from, (change.get(runs[i].from) ?? 0) + 1);
    change.set(end(runs[i]), (change.get(end(runs[i])) ?? 0) - 1);
  }
  let busy = 0;
  const spans = sorted.map((moment, n) => {
    busy += change.get(moment) ?? 0;
    const next = sorted[n + 1];
    if (next === undefined) return 0;
    const span = 16 + 9 * Math.log2(1 + (next - moment) / 2000);
    return busy > 0 ? span : Math.min(span, 90);
  });
  // A few runs have all the room that there is.
  const all = spans.reduce((sum, span) => sum + span, 0);
  const scale = zoom * Math.max(1, Math.min(4, (get("timeline").clientWidth - 40) / (all || 1)));
  const at = new Map();
  ticks = [];
  let x = 8, last = -1000, lastDay = "";
  sorted.forEach((moment, n) => {
    at.set(moment, x);
    if (x - last >= 150) {
      const today = day(moment);
      ticks.push([x, `${today === lastDay ? today.slice(5) : today} ${clock(moment)}`]);
      [last, lastDay] = [x, today];
    }
    x += spans[n] * scale;
  });
  width = x + 24;
  places = new Map();
  bands = [];
  let y = TOP;
  const several = data.states.length > 1;
  data.states.forEach((name, state) => {
    const own = order.filter((i) => runs[i].state === state);
    if (!own.length) return;
    const begin = y;
    if (several) y += BAND;
    const lanes = [];
    for (const i of own) {
      const run = runs[i];
      let lane = lanes.findIndex((until) => until <= run.from);
      if (lane < 0) lane = lanes.push(0) - 1;
      lanes[lane] = end(run);
      places.set(i, { x: at.get(run.from), to: at.get(end(run)), y: y + lane * LANE + 3, lane, at });
    }
    y += lanes.length * LANE + 6;
    if (several) bands.push([begin, y - begin, name]);
  });
  const box = get("lanes");
  box.style.width = `${width}px`;
  box.style.height = `${Math.max(y, 60)}px`;
  made.clear();
  box.replaceChildren(...bands.map(([top, height, name]) => {
    const band = el("div", { class: "band" }, el("span", {}, name));
    band.style.top = `${top}px`;
    band.style.height = `${height}px`;
    return band;
  }));
  if (!order.length) box.append(el("p", { class: "muted band" }, "No run fits these filters."));
  if (focused === null || !places.has(focused)) focused = order.length ? order[order.length - 1] : null;
};

const bar = (i) => {
  const run = runs[i];
  const place = places.get(i);
  const { label, tone, sign } = status.get(run.status);
  const node = el("button", {
    type: "button", class: `bar ${tone}-box${run.to === undefined ? " live" : ""}`, tabindex: i === focused ? 0 : -1,
    "aria-label": spoken(i), title: spoken(i), "data-run": run.id, onclick: () => open(i, null, true),
  });
  node.style.left = `${place.x}px`;
  node.style.top = `${place.y}px`;
  node.style.width = `${Math.max(place.to - place.x - 1, 10)}px`;
  if (run.waited) {
    const from = place.at.get(run.waited[0]), to = place.at.get(run.waited[1] ?? end(run));
    const hatch = el("span", { class: "wait" });
    hatch.style.left = `${from - place.x}px`;
    hatch.style.width = `${to - from}px`;
    node.append(hatch);
  }
  const room = place.to - place.x;
  node.append(el("span", { class: "sign" }, sign), el("span", { class: "label" }, room > 7.5 * (actor(run).length + label.length) + 30 ? `${actor(run)}: ${label}` : actor(run)));
  return node;
};
const mark = (i, node) => {
  const near = selected === null ? null : runs[selected];
  node.tabIndex = i === focused ? 0 : -1;
  if (i === selected) node.setAttribute("aria-current", "true");
  else node.removeAttribute("aria-current");
  const against = near !== null && i !== selected && ((near.against ?? []).includes(i) || (runs[i].against ?? []).includes(selected));
  node.classList.toggle("against", against);
  node.classList.toggle("beside", near !== null && i !== selected && !against && overlapping(selected).includes(i));
};
const paint = () => {
  const view = get("timeline");
  const from = view.scrollLeft - 400, to = view.scrollLeft + view.clientWidth + 400;
  const box = get("lanes");
  for (const [key, node] of made) {
    const [left, right] = node.span;
    const keep = node === document.activeElement || key === focused;
    if (!keep && (right < from || left > to)) {
      node.remove();
      made.delete(key);
    }
  }
  const fresh = document.createDocumentFragment();
  for (const i of order) {
    const place = places.get(i);
    if (i !== focused && (place.to < from || place.x > to)) continue;
    if (!made.has(i)) {
      const node = bar(i);
      node.span = [place.x, place.to];
      made.set(i, node);
      fresh.append(node);
    }
    mark(i, made.get(i));
  }
  for (const [x, text] of ticks) {
    const key = `t${x}`;
    if (x < from || x > to || made.has(key)) continue;
    const node = el("div", { class: "tick", "aria-hidden": "true" }, el("span", {}, text));
    node.style.left = `${x}px`;
    node.span = [x, x];
    made.set(key, node);
    fresh.append(node);
  }
  box.append(fresh);
};
let painting = false;
get("timeline").addEventListener("scroll", () => {
  if (painting) return;
  painting = true;
  requestAnimationFrame(() => { painting = false; paint(); });
}, { passive: true });
const reveal = (i) => {
  const view = get("timeline");
  const place = places.get(i);
  if (!place) return;
  if (place.x < view.scrollLeft + 20 || Math.min(place.to, place.x + 200) > view.scrollLeft + view.clientWidth - 20) {
    view.scrollLeft = Math.max(0, place.x - view.clientWidth / 3);
  }
  if (place.y < view.scrollTop + TOP || place.y + LANE > view.scrollTop + view.clientHeight) view.scrollTop = Math.max(0, place.y - TOP - LANE);
};
const walk = (i) => {
  if (i === undefined || i === null || !places.has(i)) return;
  focused = i;
  reveal(i);
  paint();
  made.get(i).focus({ preventScroll: true });
  if (selected !== null) open(i, null, false);
};
get("timeline").addEventListener("keydown", (event) => {
  if (focused === null || event.altKey || event.ctrlKey || event.metaKey) return;
  const at = order.indexOf(focused);
  const here = places.get(focused);
  const sideways = (step) => {
    // The run of the next lane whose time is nearest.
    const near = order.filter((i) => step * (places.get(i).y - here.y) > 0);
    const gap = (i) => Math.max(0, places.get(i).x - here.to, here.x - places.get(i).to);
    return near.sort((a, b) => Math.abs(places.get(a).y - here.y) + gap(a) * 4 - Math.abs(places.get(b).y - here.y) - gap(b) * 4)[0];
  };
  const to = {
    ArrowRight: () => order[at + 1], ArrowLeft: () => order[at - 1], Home: () => order[0], End: () => order[order.length - 1],
    PageDown: () => order[Math.min(at + 20, order.length - 1)], PageUp: () => order[Math.max(at - 20, 0)],
    ArrowDown: () => sideways(1), ArrowUp: () => sideways(-1),
  }[event.key];
  if (!to) return;
  event.preventDefault();
  walk(to());
});
