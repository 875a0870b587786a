// Which runs are shown, and the page's address, which remembers it.

const fields = ["actor", "address", "request", "outcome", "state"];
const filter = Object.fromEntries(fields.map((name) => [name, ""]));
let selected = null;
let theme = "";
let shown = runs.map((_, i) => i);
let rows = 50;

const readHash = () => {
  const hash = new URLSearchParams(location.hash.slice(1));
  for (const name of fields) {
    // What a list does not have is no filter.
    get(name).value = hash.get(name) ?? "";
    filter[name] = get(name).value;
    if (get(name).selectedIndex < 0) get(name).value = "";
  }
  theme = hash.get("theme") ?? "";
  const id = hash.get("run");
  const found = id ? runs.findIndex((run) => run.id === id) : -1;
  selected = found < 0 ? null : found;
};
const writeHash = () => {
  const hash = new URLSearchParams();
  for (const name of fields) if (filter[name]) hash.set(name, filter[name]);
  if (theme) hash.set("theme", theme);
  if (selected !== null) hash.set("run", runs[selected].id);
  const text = hash.toString();
  try {
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  } catch {
    // Some browsers count how often a page does this; the page works without it.
  }
};

// The steps of an address or a pattern, each with its key; null for what is none.
const steps = (text) => {
  const step = /([^.["]+)(\[(?:\d+|"(?:[^"\\]|\\.)*")\])?(?:\.|$)/y;
  const found = [];
  while (step.lastIndex < text.length) {
    const [, name, key] = step.exec(text) ?? [];
    if (name === undefined) return null;
    found.push([name, key]);
  }
  return found;
};
// Whether two patterns meet, as kl has it: a missing key means every instance, and a star everything below.
const meet = (ours, theirs) => {
  for (let i = 0; ; i++) {
    if (ours[i]?.[0] === "*" || theirs[i]?.[0] === "*") return true;
    if (i === ours.length || i === theirs.length) return ours.length === theirs.length;
    const [[name, key], [other, its]] = [ours[i], theirs[i]];
    if (name !== other || (key !== undefined && its !== undefined && key !== its)) return false;
  }
};
// Whether what a run names meets what somebody looks for, or has it in its text.
const addressTest = (text) => {
  const wanted = text.toLowerCase();
  const path = steps(wanted);
  const stars = path?.findIndex(([name]) => name.includes("*")) ?? -1;
  const ends = stars >= 0 && stars === path.length - 1 && path[stars][0] === "*";
  if (wanted.includes("*") && !ends && (path === null || stars >= 0)) {
    const pattern = new RegExp(`^${wanted.split("*").map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&")).join(".*")}$`, "s");
    return (name) => name === "*" || pattern.test(name.toLowerCase());
  }
  return (name) => {
    const known = name.toLowerCase();
    if (!ends && known.includes(wanted)) return true;
    const its = steps(known);
    return known === "*" || (path !== null && its !== null && meet(path, its));
  };
};
const apply = () => {
  const who = filter.actor.trim().toLowerCase();
  const asks = filter.request.trim().toLowerCase();
  const number = /^[#!]?\d+$/.test(asks) ? asks.replace(/^[#!]/, "") : null;
  const actors = data.actors.map((name) => name.toLowerCase().includes(who));
  const requests = data.requests.map((name) => (number ? /\d+$/.exec(name)?.[0] === number : name.toLowerCase().includes(asks)));
  const what = filter.address.trim();
  const names = what ? data.addresses.map(addressTest(what)) : null;
  const of = filter.state === "" ? null : data.states.indexOf(filter.state);
  shown = [];
  runs.forEach((run, i) => {
    if (who && !actors[run.actor]) return;
    if (asks && (run.request === undefined || !requests[run.request])) return;
    if (of !== null && run.state !== of) return;
    if (filter.outcome === "loud" ? status.get(run.status).tone !== "alarm" : filter.outcome && run.status !== filter.outcome) return;
    if (names && !touches(run).some((at) => names[at])) return;
    shown.push(i);
  });
  rows = 50;
  render();
};
