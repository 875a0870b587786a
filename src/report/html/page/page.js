// The page as a whole: what is made when, and what its controls do.

const lower = () => {
  renderMeetings();
  renderMatrix();
  renderRuns();
  document.documentElement.dataset.whole = "";
};
let due;
// What is further down waits until the browser has shown what is on top.
const later = () => {
  clearTimeout(due);
  due = setTimeout(lower, 0);
};
const renderSums = () => {
  const numbers = new Map();
  for (const i of shown) numbers.set(runs[i].status, (numbers.get(runs[i].status) ?? 0) + 1);
  get("sums").replaceChildren(...data.statuses.map(([word, label, tone, sign]) => el("button", {
    type: "button", class: `${tone}-box`, "aria-pressed": filter.outcome === word ? "true" : "false",
    onclick: (event) => {
      set("outcome", filter.outcome === word ? "" : word);
      [...get("sums").children][data.statuses.findIndex((one) => one[0] === word)]?.focus();
      event.preventDefault();
    },
  }, `${sign} ${numbers.get(word) ?? 0} ${label}`)));
  get("count").textContent = shown.length === runs.length ? count(runs.length, "run") : `${shown.length} of ${count(runs.length, "run")} fit the filters`;
};
const render = () => {
  renderSums();
  layout();
  const view = get("timeline");
  view.scrollLeft = width;
  if (selected !== null) reveal(selected);
  paint();
  later();
};
const set = (name, value) => {
  filter[name] = value;
  get(name).value = value;
  writeHash();
  apply();
};
const dress = () => {
  const dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  get("theme").textContent = dark ? "☀ Light" : "☾ Dark";
  get("theme").setAttribute("aria-label", dark ? "Use light colours" : "Use dark colours");
};

get("outcome").append(el("option", { value: "" }, "any"), el("option", { value: "loud" }, "! any that needs somebody"),
  ...data.statuses.map(([word, label, , sign]) => el("option", { value: word }, `${sign} ${label}`)));
get("state").append(el("option", { value: "" }, "any"), ...data.states.map((name) => el("option", { value: name }, name)));
get("of-state").hidden = data.states.length < 2;
const options = (id, names) => get(id).append(...names.slice(0, 200).map((name) => el("option", { value: name })));
get("filters").addEventListener("focusin", () => {
  // Suggestions are made when somebody is about to need them.
  options("actors", data.actors);
  options("addresses", data.addresses);
  options("requests", data.requests);
}, { once: true });
for (const name of fields) get(name).addEventListener("input", () => set(name, get(name).value));
get("filters").addEventListener("submit", (event) => event.preventDefault());
get("reset").addEventListener("click", (event) => {
  event.preventDefault();
  for (const name of fields) {
    filter[name] = "";
    get(name).value = "";
  }
  writeHash();
  apply();
});
get("skip").addEventListener("click", (event) => {
  event.preventDefault();
  get("actor").focus();
});
get("theme").addEventListener("click", () => {
  const dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  theme = dark ? "light" : "dark";
  dress();
  writeHash();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", dress);
const zoomBy = (factor) => {
  zoom = Math.min(4, Math.max(0.4, zoom * factor));
  layout();
  if (focused !== null) reveal(focused);
  paint();
};
get("wider").addEventListener("click", () => zoomBy(1.4));
get("narrower").addEventListener("click", () => zoomBy(1 / 1.4));
addEventListener("resize", () => {
  const had = document.activeElement?.classList.contains("bar");
  layout();
  if (focused !== null) reveal(focused);
  paint();
  if (had) made.get(focused)?.focus({ preventScroll: true });
});
addEventListener("hashchange", () => {
  const was = selected;
  readHash();
  dress();
  apply();
  if (selected !== null) open(selected, null, false);
  else if (was !== null) { selected = was; close(); }
});
addEventListener("beforeprint", () => { [rows, meetingRows] = [Infinity, Infinity]; renderRuns(); renderMeetings(); });
get("legend").append(...data.statuses.map(([, label, tone, sign]) => el("li", {}, el("span", { class: `tone ${tone}` }, `${sign} ${label}`))),
  el("li", {}, el("span", { class: "swatch hatched" }), "waited"),
  el("li", {}, el("span", { class: "swatch calm" }), "beside the selected run, independent of it"),
  el("li", {}, el("span", { class: "swatch loud" }), "in its way, or it in theirs"));

readHash();
dress();
get("theme").hidden = false;
get("app").hidden = false;
apply();
if (selected !== null) open(selected, null, false);
// When it can be used: for whoever measures it.
document.documentElement.dataset.ready = String(Math.round(performance.now()));
