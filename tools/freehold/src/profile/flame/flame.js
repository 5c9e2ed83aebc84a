"use strict";
// The flame graph of a Freehold profile. The data is in the page; nothing is loaded.
const data = JSON.parse(document.getElementById("data").textContent);
const ROW = 22; // height of a frame
const LEAST = 0.6; // pixels: what is narrower is not drawn
const BYTES = 0, BLOCKS = 1, VARIANCE = 2, SAMPLES = 3;

// ── The tree ─────────────────────────────────────────────────────────────────────────────────────────────────────
// Node 0 is the root; those of the data follow in their order, so that a parent comes before its children.
const nodes = [{ frame: -3, parent: null, children: [], depth: 0, sums: data.views.map(() => [0, 0, 0, 0]), own: [] }];
for (const [frame, parent, own] of data.nodes) {
  const above = nodes[parent + 1];
  const node = {
    frame, parent: above, children: [], depth: above.depth + 1, own,
    sums: own.map((sum) => (sum ? sum.slice() : [0, 0, 0, 0])),
  };
  above.children.push(node);
  nodes.push(node);
}
for (let i = nodes.length - 1; i > 0; i--) {
  nodes[i].sums.forEach((sum, view) => sum.forEach((part, k) => { nodes[i].parent.sums[view][k] += part; }));
}

function name(node) {
  if (node.frame === -3) return "all";
  if (node.frame === -2) return "(outer callers unknown)";
  if (node.frame === -1) return "(no stack)";
  return data.texts[data.frames[node.frame][0]];
}
function place(node) {
  if (node.frame < 0) return "";
  const [, file, line] = data.frames[node.frame];
  return data.texts[file] ? data.texts[file] + (line ? ":" + line : "") : "";
}
const moduleOf = (node) => (node.frame < 0 ? "" : data.texts[data.frames[node.frame][3]]);
const lastPart = (path) => path.split("/").pop();

// ── Figures ──────────────────────────────────────────────────────────────────────────────────────────────────────
function count(n) { return Math.round(n).toLocaleString("en-US"); }
function bytes(n) {
  if (Math.abs(n) < 10240) return count(n) + " B";
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = -1;
  do { n /= 1024; unit++; } while (Math.abs(n) >= 1023.95 && unit + 1 < units.length);
  return n.toFixed(1) + " " + units[unit];
}
// As human::estimate writes it.
function estimate(value, off) {
  if (!(off > 0)) return bytes(value);
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (Math.max(value, off) / 1024 ** unit >= 1023.5 && unit + 1 < units.length) unit++;
  const part = off / 1024 ** unit, places = unit && part < 9.95 ? 1 : 0;
  if (unit && part < 0.095) return `${bytes(value)} ± ${bytes(off)}`;
  return `${(value / 1024 ** unit).toFixed(places)} ± ${part.toFixed(places)} ${units[unit]}`;
}
function share(part, whole) { return whole > 0 ? (100 * part / whole).toFixed(part / whole < 0.0995 ? 2 : 1) + " %" : "–"; }
const error = (sum) => Math.sqrt(Math.max(0, sum[VARIANCE]));
const weight = (node) => node.sums[state.view][state.metric];
const shown = (n) => (state.metric === BYTES ? bytes(n) : count(n) + " blocks");

// ── What is looked at ────────────────────────────────────────────────────────────────────────────────────────────
const state = { view: data.view, metric: BYTES, zoom: nodes[0], pick: nodes[0], hover: null, search: null, hits: new Set() };
let boxes = []; // what is drawn: {node, x, y, w}

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}
const tabs = element("div", { className: "tabs" });
tabs.setAttribute("role", "group");
data.views.forEach((view, number) => {
  const button = element("button", { title: view.about, onclick: () => set({ view: number }) }, view.name,
    element("small", {}, bytes(nodes[0].sums[number][BYTES])));
  tabs.append(button);
});
const metricTabs = element("div", { className: "tabs" },
  element("button", { onclick: () => set({ metric: BYTES }) }, "bytes"),
  element("button", { onclick: () => set({ metric: BLOCKS }) }, "blocks"));
const search = element("input", { type: "search", placeholder: "search functions, files ( / )", oninput: find });
search.setAttribute("aria-label", "search");
const found = element("span", { className: "found" });
const theme = element("button", { className: "plain theme", title: "light or dark (t)", onclick: turnTheme }, "◐");
theme.setAttribute("aria-label", "light or dark");
const canvas = element("canvas", { tabIndex: 0 });
canvas.setAttribute("role", "application");
canvas.setAttribute("aria-label", "flame graph; the arrow keys move, Enter zooms, Escape goes back");
const scroll = element("div", { id: "scroll" }, canvas);
const way = element("div", { id: "way" });
const details = element("div", { id: "details" });
details.setAttribute("aria-live", "polite");
const tip = element("div", { id: "tip" });
const keys = element("span", { className: "keys" });
keys.innerHTML = "view <kbd>1</kbd> <kbd>2</kbd> <kbd>3</kbd> <kbd>4</kbd><br>bytes or blocks <kbd>b</kbd><br>search <kbd>/</kbd><br>"
  + "move <kbd>←</kbd> <kbd>↑</kbd> <kbd>↓</kbd> <kbd>→</kbd><br>zoom <kbd>Enter</kbd> back <kbd>Esc</kbd><br>light or dark <kbd>t</kbd>";
document.body.append(
  element("header", {}, element("h1", {}, data.title), element("span", { className: "about" }, data.heading),
    element("div", { className: "tools" }, tabs, metricTabs, search, found), theme),
  way, scroll, element("footer", {}, details, keys), tip);

// ── Drawing ──────────────────────────────────────────────────────────────────────────────────────────────────────
function hue(text) {
  let hash = 2166136261;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  return (hash >>> 0);
}
// The module that allocates most is warm; the C library is blue, and all others lie between.
const own = new Map();
for (const node of nodes.slice(1)) {
  const bytesHere = node.own.reduce((sum, part) => sum + (part ? part[BYTES] : 0), 0);
  own.set(moduleOf(node), (own.get(moduleOf(node)) ?? 0) + bytesHere);
}
const biggest = [...own].sort((a, b) => b[1] - a[1])[0]?.[0];
// A module has a hue, a source file one beside it, a function a shade of that.
function colour(node, css) {
  if (node.frame < 0) return css.getPropertyValue("--line");
  const module = lastPart(moduleOf(node));
  const base = moduleOf(node) === biggest ? 30 : /^lib(c|stdc\+\+|gcc_s|m)[.-]/.test(module) ? 215 : 90 + (hue(module) % 230);
  const beside = (hue(place(node).replace(/:\d+$/, "")) % 45) - 22;
  const shade = (hue(name(node)) % 9) - 4;
  const lightness = parseFloat(css.getPropertyValue("--lightness")) + shade;
  return `hsl(${(base + beside + 360) % 360} ${css.getPropertyValue("--saturation")} ${lightness}%)`;
}

function layOut(width) {
  boxes = [];
  const above = [];
  for (let node = state.zoom; node; node = node.parent) above.unshift(node);
  above.forEach((node, depth) => boxes.push({ node, x: 0, y: depth * ROW, w: width, above: node !== state.zoom }));
  const scale = width / Math.max(1e-9, weight(state.zoom));
  let deepest = above.length;
  const open = [{ node: state.zoom, x: 0 }];
  while (open.length) {
    const { node, x } = open.pop();
    let at = x;
    const children = node.children.filter((child) => weight(child) > 0).sort((a, b) => weight(b) - weight(a));
    for (const child of children) {
      const w = weight(child) * scale;
      if (w < LEAST) break;
      boxes.push({ node: child, x: at, y: child.depth * ROW, w });
      deepest = Math.max(deepest, child.depth + 1);
      open.push({ node: child, x: at });
      at += w;
    }
  }
  return deepest * ROW;
}

function fit(context, text, room) {
  const letter = 7.0;
  if (room < 3 * letter) return "";
  if (context.measureText(text).width <= room) return text;
  let length = Math.min(text.length, Math.ceil(room / 5));
  while (length > 1 && context.measureText(text.slice(0, length) + "…").width > room) length--;
  return length > 1 ? text.slice(0, length) + "…" : "";
}

function draw() {
  const width = scroll.clientWidth - 40;
  const height = layOut(width) + 6;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.height = height + "px";
  const css = getComputedStyle(document.documentElement);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.font = '12.5px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
  context.textBaseline = "middle";
  const ink = css.getPropertyValue("--frame-ink"), hit = css.getPropertyValue("--hit");
  const accent = css.getPropertyValue("--accent"), ground = css.getPropertyValue("--ground");
  for (const { node, x, y, w, above } of boxes) {
    const isHit = state.hits.has(node);
    context.globalAlpha = above ? 0.55 : state.search && !isHit ? 0.35 : 1;
    context.fillStyle = isHit ? hit : colour(node, css);
    context.beginPath();
    context.roundRect(x + 0.5, y + 1, Math.max(w - 1, LEAST), ROW - 2, Math.min(3, w / 3));
    context.fill();
    if (node === state.pick || node === state.hover) {
      context.globalAlpha = 1;
      context.lineWidth = 2;
      context.strokeStyle = node === state.pick ? accent : ink;
      context.stroke();
    }
    context.globalAlpha = above ? 0.8 : 1;
    context.fillStyle = isHit ? ground : ink;
    const label = node === nodes[0] ? `all ${data.views[state.view].name}: ${shown(weight(node))}` : name(node);
    const text = fit(context, label, w - 10);
    if (text) context.fillText(text, x + 6, y + ROW / 2 + 0.5);
  }
  context.globalAlpha = 1;
}

function errorBar(sum, most) {
  const width = 240, height = 14, scale = width / Math.max(1, most);
  const off = error(sum), x = (n) => Math.max(0, Math.min(width, n * scale)).toFixed(1);
  const line = (from, to, thick) =>
    `<line x1="${x(from)}" x2="${x(to)}" y1="7" y2="7" stroke="currentColor" stroke-width="${thick}"/>`;
  return `<svg width="${width}" height="${height}" role="img" aria-label="plus or minus ${bytes(off)}">`
    + `<rect width="${x(sum[BYTES])}" y="3" height="8" rx="2" fill="var(--accent)" opacity=".45"/>`
    + (off > 0 ? line(sum[BYTES] - 2 * off, sum[BYTES] + 2 * off, 1) + line(sum[BYTES] - off, sum[BYTES] + off, 3) : "")
    + "</svg>";
}

function describe(node) {
  details.replaceChildren(
    element("h2", {}, name(node)),
    element("div", { className: "place" }, [place(node), moduleOf(node)].filter(Boolean).join("  ·  ")
      || (node.parent ? " " : "click a frame to zoom in and to see where it is")));
  const most = Math.max(...node.sums.map((sum) => sum[BYTES] + 2 * error(sum)));
  const table = element("table");
  table.innerHTML = "<tr><th>view</th><th>bytes</th><th>± 1σ</th><th>share</th><th>blocks</th><th>samples</th>"
    + "<th class='bar'></th></tr>";
  node.sums.forEach((sum, view) => {
    const row = element("tr", { className: view === state.view ? "now" : "" });
    const off = error(sum);
    const cells = [data.views[view].name, bytes(sum[BYTES]), off > 0 ? bytes(off) : "exact",
      share(sum[BYTES], nodes[0].sums[view][BYTES]), count(sum[BLOCKS]), count(sum[SAMPLES])];
    cells.forEach((text) => row.append(element("td", {}, text)));
    const bar = element("td", { className: "bar" });
    bar.innerHTML = errorBar(sum, most);
    row.append(bar);
    table.append(row);
  });
  details.append(table);
  if (node === nodes[0] && data.notes.length) {
    details.append(element("ul", { className: "notes" }, ...data.notes.map((note) => element("li", {}, note))));
  }
}

function showWay() {
  const path = [];
  for (let node = state.zoom; node; node = node.parent) path.unshift(node);
  way.replaceChildren();
  path.forEach((node, depth) => {
    if (depth) way.append(" › ");
    way.append(element("a", { onclick: () => set({ zoom: node, pick: node }) }, name(node)));
  });
}

function set(change) {
  Object.assign(state, change);
  // A node that has nothing in this view cannot be zoomed into.
  while (weight(state.zoom) <= 0 && state.zoom.parent) state.zoom = state.zoom.parent;
  [...tabs.children].forEach((button, number) => button.setAttribute("aria-pressed", number === state.view));
  [...metricTabs.children].forEach((button, number) => button.setAttribute("aria-pressed", number === state.metric));
  countHits();
  showWay();
  draw();
  describe(state.pick);
}

// ── Search ───────────────────────────────────────────────────────────────────────────────────────────────────────
function find() {
  const text = search.value.trim();
  let test = null;
  if (text) {
    try {
      const pattern = new RegExp(text, "i");
      test = (what) => pattern.test(what);
    } catch {
      // No pattern (yet): taken as it stands.
      test = (what) => what.toLowerCase().includes(text.toLowerCase());
    }
  }
  state.search = test;
  state.hits = new Set(test ? nodes.filter((node) => node.frame >= 0 && (test(name(node)) || test(place(node)))) : []);
  set({});
}
// What lies in any hit, each byte once: a hit below another hit adds nothing.
function countHits() {
  let sum = 0;
  for (const node of state.hits) {
    let above = node.parent;
    while (above && !state.hits.has(above)) above = above.parent;
    if (!above) sum += weight(node);
  }
  found.textContent = state.search ? `${share(sum, weight(nodes[0]))} · ${shown(sum)}` : "";
}

// ── Hands ────────────────────────────────────────────────────────────────────────────────────────────────────────
function at(event) {
  const edge = canvas.getBoundingClientRect();
  const x = event.clientX - edge.left, y = event.clientY - edge.top;
  const box = boxes.find((box) => y >= box.y && y < box.y + ROW && x >= box.x && x < box.x + box.w);
  return box ? box.node : null;
}
canvas.addEventListener("mousemove", (event) => {
  const node = at(event);
  if (node !== state.hover) { state.hover = node; draw(); }
  tip.style.display = node ? "block" : "none";
  if (!node) return;
  const sum = node.sums[state.view], off = error(sum);
  tip.textContent = `${name(node)}${place(node) ? " (" + lastPart(place(node)) + ")" : ""} – ${estimate(sum[BYTES], off)}`
    + `, ${share(weight(node), weight(nodes[0]))}, ${count(sum[BLOCKS])} blocks`;
  tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = (event.clientY + 18 + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18) + "px";
});
canvas.addEventListener("mouseleave", () => { state.hover = null; tip.style.display = "none"; draw(); });
canvas.addEventListener("click", (event) => { const node = at(event); if (node) set({ zoom: node, pick: node }); });

function visible(node) { return boxes.some((box) => box.node === node); }
function move(direction) {
  const node = state.pick;
  let to = null;
  if (direction === "ArrowUp") to = node.parent;
  else if (direction === "ArrowDown") to = boxes.find((box) => box.node.parent === node && !box.above)?.node;
  else {
    const row = boxes.filter((box) => box.node.depth === node.depth && !box.above).map((box) => box.node);
    to = row[row.indexOf(node) + (direction === "ArrowRight" ? 1 : -1)];
  }
  if (!to) return;
  set(visible(to) ? { pick: to } : { pick: to, zoom: to });
  const top = to.depth * ROW;
  if (top < scroll.scrollTop) scroll.scrollTop = top;
  if (top + ROW > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = top + ROW - scroll.clientHeight;
}
function turnTheme() {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  draw();
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === search) {
    if (event.key === "Escape") { search.value = ""; find(); canvas.focus(); }
    if (event.key === "Enter") canvas.focus();
    return;
  }
  const number = Number(event.key) - 1;
  if (number >= 0 && number < data.views.length) set({ view: number });
  else if (event.key.startsWith("Arrow")) move(event.key);
  else if (event.key === "Enter" && !(event.target instanceof HTMLButtonElement)) set({ zoom: state.pick });
  else if (event.key === "Escape" || event.key === "Backspace") set({ zoom: state.zoom.parent ?? nodes[0], pick: state.zoom.parent ?? nodes[0] });
  else if (event.key === "0" || event.key === "Home") set({ zoom: nodes[0], pick: nodes[0] });
  else if (event.key === "b") set({ metric: state.metric === BYTES ? BLOCKS : BYTES });
  else if (event.key === "t") turnTheme();
  else if (event.key === "/") { search.focus(); search.select(); }
  else return;
  event.preventDefault();
});
const wish = new URLSearchParams(location.hash.slice(1));
document.documentElement.dataset.theme =
  wish.get("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
window.addEventListener("resize", draw);
if (wish.has("search")) { search.value = wish.get("search"); find(); }
set(wish.has("view") ? { view: Math.max(0, data.views.findIndex((view) => view.name === wish.get("view"))) } : {});
