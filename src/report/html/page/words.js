// The data of the page, its words, and elements made from them. Every text gets into the page as text: nothing here makes
// markup from data.

const get = (id) => document.getElementById(id);
const data = JSON.parse(get("index").textContent);
const runs = data.runs;
const status = new Map(data.statuses.map(([word, label, tone, sign]) => [word, { label, tone, sign }]));
let lines = null;
const story = (i) => {
  lines ??= get("stories").textContent.split("\n");
  return JSON.parse(lines[i]);
};

const el = (tag, set = {}, ...kids) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(set)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...kids.filter((kid) => kid !== null && kid !== undefined));
  return node;
};
const svg = (tag, set = {}, ...kids) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(set)) node.setAttribute(name, value);
  node.append(...kids);
  return node;
};

const pad = (n) => String(n).padStart(2, "0");
const day = (ms) => new Date(ms).toISOString().slice(0, 10);
const clock = (ms) => { const d = new Date(ms); return `${pad(d.getUTCHours())}:${pad(d.getUTCMinutes())}:${pad(d.getUTCSeconds())}`; };
const time = (ms) => `${day(ms)} ${clock(ms)} UTC`;
const two = (a, x, b, y) => (b ? `${a}${x} ${b}${y}` : `${a}${x}`);
const duration = (ms) => {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s}s`;
  if (s < 3600) return two(Math.floor(s / 60), "m", s % 60, "s");
  if (s < 86400) return two(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "m");
  return two(Math.floor(s / 86400), "d", Math.floor((s % 86400) / 3600), "h");
};
const count = (n, thing) => `${n} ${thing}${n === 1 ? "" : "s"}`;
const actor = (run) => data.actors[run.actor];
const request = (run) => (run.request === undefined ? "" : data.requests[run.request]);
const end = (run) => Math.max(run.to ?? data.now, run.from + 1);
const serials = (run) => (run.result === undefined ? `${run.serial}` : `${run.serial} → ${run.result}`);
const touches = (run) => run.writes.concat(run.reads);
const phrase = (parts) => parts.map((part) => {
  if (typeof part === "string") return document.createTextNode(part);
  if (part[0] === "n") return el("code", {}, part[1]);
  if (part[0] === "b") return el("strong", {}, part[1]);
  return el("span", { class: `tone ${part[1]}` }, part[2]);
});
const outcome = (run) => {
  const { label, tone, sign } = status.get(run.status);
  return el("span", { class: `tone ${tone}` }, `${sign} ${label}`);
};
const told = ([tone, sign, parts]) => el("span", { class: "sentence" }, sign ? `${sign} ` : "", ...phrase(parts));
const link = (i, text) => el("button", { type: "button", class: "open", "data-go": i, onclick: (event) => open(i, event.currentTarget, true) }, text);
const short = (run) => el("code", {}, `…${run.id.slice(-8)}`);
const asked = (run) => {
  if (run.request === undefined) return null;
  const url = data.request_urls[run.request];
  return url ? el("a", { href: url, rel: "noreferrer" }, request(run)) : el("span", { class: "name" }, request(run));
};
const spoken = (i) => {
  const run = runs[i];
  const { label } = status.get(run.status);
  const whose = request(run) ? ` for ${request(run)}` : "";
  const waited = run.waited ? `, waited ${duration((run.waited[1] ?? data.now) - run.waited[0])}` : "";
  const beside = overlapping(i).length;
  return `${label}: ${run.kind} of ${data.states[run.state]} by ${actor(run)}${whose}, ${time(run.from)}, took ${duration(end(run) - run.from)}${waited}, serial ${serials(run)}, beside ${count(beside, "other run")}`;
};
