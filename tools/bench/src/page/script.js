// Draws what the JSON block holds. No statistics here: they were all done before the page was written.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byName = Object.fromEntries(data.allocators.map(a => [a.name, a]));
const reference = data.settings.reference;
const label = name => (byName[name] || { label: name }).label;

// Elements are built, never pasted together as text: names and messages come from outside.
function el(tag, attributes, ...children) {
  const svg = ["svg", "path", "line", "rect", "text", "circle", "title", "g"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "onclick") node.addEventListener("click", value);
    else if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.flat().filter(child => child !== null && child !== undefined));
  return node;
}
const put = (id, ...children) => document.getElementById(id).replaceChildren(...children);

const MIB = 1024 * 1024;
const mib = bytes => bytes / MIB < 10 ? (bytes / MIB).toFixed(2) : (bytes / MIB).toFixed(bytes / MIB < 100 ? 1 : 0);
const seconds = s => s < 0.1 ? (s * 1e3).toFixed(1) + " ms" : s.toFixed(3) + " s";
const show = { cpu: seconds, wall: seconds, rss: bytes => mib(bytes) + " MiB", faults: n => n.toLocaleString("en", { maximumFractionDigits: 0 }) };
const two = value => value === null || value === undefined ? "–" : value.toFixed(2);

// Ours always has the strong colour; ancestors are shades of one hue, since they are one family.
const palette = ["#3366cc", "#c2410c", "#7b3fa0", "#b8860b", "#0891b2", "#be185d", "#4d7c0f", "#64748b", "#a16207", "#1e40af"];
const colours = {};
let peers = 0, ancestors = 0;
for (const a of data.allocators) {
  if (a.origin === "ours") colours[a.name] = "#0f9d63";
  else if (a.origin === "ancestor") colours[a.name] = `hsl(25, ${30 + 6 * ancestors}%, ${36 + 5 * (ancestors++ % 9)}%)`;
  else colours[a.name] = palette[peers++ % palette.length];
}

// ------------------------------------------------------------------------------------------------ top

function heading() {
  const m = data.machine;
  const parts = [m.processor, `${m.cores} cores`, `${(m.memory_bytes / 1024 ** 3).toFixed(0)} GiB`, m.virtual_machine ? "virtual machine" : null,
    `kernel ${m.kernel}`, m.system, `huge pages: ${m.transparent_huge_pages}`, `load before the start ${m.load_before}`];
  const when = new Date(data.started * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC";
  const run = `${data.settings.mode} run of ${when}, commit ${m.revision || "unknown"}, ${data.workloads.length} workloads, ` +
    `up to ${data.settings.repeats} rounds, ${Math.round(data.seconds)} s${data.interrupted ? ", interrupted" : ""}`;
  put("machine", parts.filter(Boolean).join(", "), el("br"), run);
}

function steering() {
  const s = data.steering;
  const card = (value, aim, title, note) => el("div", { class: "card " + (value === null ? "" : value <= aim ? "met" : "missed") },
    title, el("b", {}, two(value)), el("span", {}, `aim ${aim.toFixed(2)}${note ? "; " + note : ""}`));
  put("steering",
    card(s.best_cpu, s.aims[0], "CPU time against the best peer of each row", "geometric mean"),
    card(s.best_rss, s.aims[1], "Peak RSS against the best peer of each row", "geometric mean"),
    card(s.cpu, s.aims[2], `CPU time against ${label(reference)}`, "geometric mean"),
    card(s.rss, s.aims[3], `Peak RSS against ${label(reference)}`, "geometric mean"),
    card(s.worst, s.aims[4], "Worst workload against its best peer", s.worst_where));
}

// A horizontal bar for each entry, on a logarithmic scale, because half and double are equally far from 1.
function bars(title, entries) {
  const shown = entries.filter(e => e.value !== null && e.value !== undefined && e.value > 0);
  const low = Math.min(0.5, ...shown.map(e => e.low || e.value)), high = Math.max(2, ...shown.map(e => Math.min(e.high || e.value, e.value * 3)));
  const left = 170, width = 560, room = width - left - 46, row = 20;
  const x = v => left + room * Math.log(v / low) / Math.log(high / low);
  const svg = el("svg", { viewBox: `0 0 ${width} ${shown.length * row + 6}` });
  svg.append(el("line", { class: "one", x1: x(1), x2: x(1), y1: 0, y2: shown.length * row + 4 }));
  shown.forEach((e, i) => {
    const y = i * row + 4, from = Math.min(x(1), x(e.value)), size = Math.abs(x(e.value) - x(1));
    svg.append(
      el("text", { x: left - 6, y: y + 11, "text-anchor": "end" }, label(e.name)),
      el("rect", { x: from, y, width: Math.max(size, 1.5), height: 13, rx: 2, fill: colours[e.name] }, el("title", {}, e.hint || "")),
      el("text", { x: Math.max(x(e.value), x(1), e.high ? Math.min(x(e.high), width - 46) : 0) + 5, y: y + 11 }, e.value.toFixed(2) + (e.same ? " =" : "")));
    if (e.low && e.high) {
      svg.append(el("line", { x1: Math.max(x(e.low), left), x2: Math.min(x(e.high), width - 46), y1: y + 6.5, y2: y + 6.5, stroke: "currentColor", "stroke-width": 1.2, opacity: .75 }));
    }
  });
  return el("div", {}, el("h3", {}, title), svg);
}

function standing() {
  put("standing-note", `Geometric mean of the ratios to ${label(reference)}; lower is better, logarithmic scale. Counted are the workloads ` +
    "that an allocator did not fail, and whose time is long enough to be measured.");
  // The ancestors in the order of their time, then the field of today, then ours.
  const age = s => ({ ancestor: 0, ours: 2 })[byName[s.allocator].origin] ?? 1;
  if (data.allocators.some(a => a.origin === "ancestor")) {
    data.standings.sort((a, b) => age(a) - age(b));
    document.getElementById("standing-title").textContent = "2004 → today: standing over all that was measured";
  }
  const entry = key => data.standings.map(s => ({
    name: s.allocator, value: s[key], hint: `${s.faster} faster, ${s.equal} not separable, ${s.slower} slower, ${s.failed} failed`,
  }));
  const rows = data.standings.map(s => el("tr", {}, el("td", {}, label(s.allocator)), el("td", {}, two(s.cpu)), el("td", {}, two(s.rss)),
    el("td", {}, two(s.faults)), el("td", {}, two(s.best_cpu)), el("td", {}, two(s.best_rss)),
    el("td", {}, s.faster), el("td", {}, s.equal), el("td", {}, s.slower), el("td", { class: s.failed ? "fail" : "" }, s.failed)));
  const head = ["", "CPU", "RSS", "page faults", "CPU, best peer = 1", "RSS, best peer = 1", "faster", "equal", "slower", "failed"].map(text => el("th", {}, text));
  put("standing", el("div", { class: "bars" }, bars("CPU time", entry("cpu")), bars("Peak RSS", entry("rss"))),
    el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)),
    losses() || "");
}

// Ours against the best peer of each workload: the losses have to be as visible as the wins.
function losses() {
  const list = data.steering.losses;
  if (!list.length) return null;
  const rows = list.map(([workload, peer, ratio]) => el("tr", {}, el("td", {}, workload), el("td", {}, two(ratio)), el("td", { class: "left" }, peer)));
  return el("div", { class: "losses" }, el("h3", {}, "Where Freehold needs more CPU time than the best peer"),
    el("table", {}, el("tbody", {}, rows)));
}

// ------------------------------------------------------------------------------------------------ the table

const metrics = [["cpu", "CPU time"], ["rss", "Peak RSS"], ["wall", "Wall time"], ["faults", "Page faults"]];
const view = { metric: "cpu", column: null, up: false, open: new Set() };

function shade(m) {
  if (!m || m.ratio === null || m.same) return null;
  const strength = Math.min(Math.abs(Math.log2(m.ratio)) / 2, 1) * 0.55 + 0.08;
  return `background: rgba(var(${m.ratio < 1 ? "--good" : "--bad"}), ${strength.toFixed(2)})`;
}

function hint(cell, m) {
  const lines = [`median ${show[view.metric](m.median)}, least ${show[view.metric](m.minimum)}, spread ${(m.spread * 100).toFixed(1)} %, ${cell.runs} runs`];
  if (m.ratio !== null) lines.push(`ratio ${m.ratio.toFixed(3)}` + (m.low !== null ? `, 95 % between ${m.low.toFixed(3)} and ${m.high.toFixed(3)}` : ", one pair only"));
  if (cell.figures.ns_per_op !== undefined) lines.push(`${cell.figures.ns_per_op.toFixed(1)} ns per operation`);
  return lines.join("\n");
}

function cellOf(workload, allocator) {
  const cell = workload.cells[allocator.name];
  if (!cell) return el("td", {}, "–");
  if (cell.failure) return el("td", { class: "fail", title: cell.reason }, cell.failure);
  const m = cell[view.metric];
  if (!m) return el("td", {}, "–");
  const classes = [m.rank === 1 && cell.runs > 1 ? "first" : "", allocator.name === reference ? "reference" : ""].join(" ");
  const text = allocator.name === reference || m.ratio === null ? show[view.metric](m.median) + (allocator.name === reference && workload.weak.includes(view.metric) ? "!" : "") : two(m.ratio) + (m.low === null ? "?" : m.same ? "=" : "");
  return el("td", { class: classes, style: shade(m), title: hint(cell, m) }, text);
}

function sortValue(workload, column) {
  const m = (workload.cells[column] || {})[view.metric];
  if (!m) return Infinity;
  return column === reference || m.ratio === null ? m.median : m.ratio;
}

function detail(workload) {
  const entries = key => data.allocators.map(a => {
    const m = (workload.cells[a.name] || {})[key];
    return m && { name: a.name, value: m.ratio, low: m.low, high: m.high, same: m.same && a.name !== reference };
  }).filter(Boolean);
  const keys = [...new Set(Object.values(workload.cells).flatMap(c => Object.keys(c.figures)))].filter(k => !k.includes("@")).sort();
  const number = v => v === undefined ? "–" : Math.abs(v) >= 1e5 ? v.toLocaleString("en", { maximumFractionDigits: 0 }) : +v.toPrecision(4) + "";
  const head = el("tr", {}, el("th", {}, ""), data.allocators.map(a => el("th", {}, a.label)));
  const rows = keys.map(k => el("tr", {}, el("td", {}, k), data.allocators.map(a => el("td", {}, number(((workload.cells[a.name] || {}).figures || {})[k])))));
  return [el("p", { class: "note" }, `${workload.family} ${workload.args}`),
    el("div", { class: "bars" }, metrics.map(([key, title]) => bars(title + " against the reference", entries(key)))),
    el("table", {}, el("thead", {}, head), el("tbody", {}, rows))];
}

function table() {
  const list = [...data.workloads];
  if (view.column === "") list.sort((a, b) => a.name.localeCompare(b.name) * (view.up ? 1 : -1));
  else if (view.column) list.sort((a, b) => (sortValue(a, view.column) - sortValue(b, view.column)) * (view.up ? 1 : -1) || 0);
  const pick = column => () => {
    view.up = view.column === column ? !view.up : true;
    view.column = column;
    table();
  };
  const mark = column => view.column === column ? "sorted" + (view.up ? " up" : "") : "";
  const head = el("tr", {}, el("th", { class: mark(""), onclick: pick("") }, "workload"),
    data.allocators.map(a => el("th", { class: mark(a.name), onclick: pick(a.name) }, a.label, el("small", {}, a.version || " "))));
  const rows = list.flatMap(w => {
    const toggle = () => { view.open.has(w.name) ? view.open.delete(w.name) : view.open.add(w.name); table(); };
    const tag = w.beyond_cores ? `${w.threads} threads on ${data.machine.cores} cores` : w.real ? "real program" : "";
    const row = el("tr", { class: "row", onclick: toggle }, el("td", {}, w.name, el("span", { class: "tag" }, tag)), data.allocators.map(a => cellOf(w, a)));
    return view.open.has(w.name) ? [row, el("tr", { class: "detail" }, el("td", { colspan: data.allocators.length + 1 }, detail(w)))] : [row];
  });
  put("table", el("table", {}, el("thead", {}, head), el("tbody", {}, rows)));
  put("tabs", ...metrics.map(([key, title]) => el("button", { class: view.metric === key ? "on" : "", onclick: () => { view.metric = key; table(); } }, title)));
}

// ------------------------------------------------------------------------------------------------ plots

// Round numbers for an axis: 1, 2 or 5 times a power of ten, about so many.
function ticks(low, high, about) {
  const raw = (high - low) / about || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= raw);
  const out = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-9; t += step) out.push(t);
  return out;
}
const short = v => v >= 1e9 ? +(v / 1e9).toPrecision(3) + " G" : v >= 1e6 ? +(v / 1e6).toPrecision(3) + " M" : v >= 1e3 ? +(v / 1e3).toPrecision(3) + " k" : +v.toPrecision(3) + "";

function plot(title, curves, options) {
  const w = 420, h = 240, l = 46, r = 12, t = 20, b = 32;
  const points = curves.flatMap(c => c.points);
  const x0 = options.logX ? 1 : Math.min(...points.map(p => p[0])), x1 = Math.max(...points.map(p => p[0]), x0 + 1e-9), y1 = Math.max(...points.map(p => p[1])) * 1.05 || 1;
  const fx = options.logX ? v => Math.log2(v / x0) / (Math.log2(x1 / x0) || 1) : v => (v - x0) / (x1 - x0);
  const x = v => l + fx(v) * (w - l - r), y = v => h - b - v / y1 * (h - t - b);
  const svg = el("svg", { viewBox: `0 0 ${w} ${h}` });
  for (const v of ticks(0, y1, 5)) svg.append(el("line", { class: "grid", x1: l, x2: w - r, y1: y(v), y2: y(v) }), el("text", { x: l - 5, y: y(v) + 4, "text-anchor": "end" }, short(v)));
  const marks = options.logX ? [...new Set(points.map(p => p[0]))].sort((a, c) => a - c) : ticks(x0, x1, 6);
  for (const v of marks) svg.append(el("text", { x: x(v), y: h - b + 14, "text-anchor": "middle" }, short(v)));
  svg.append(el("text", { x: (l + w - r) / 2, y: h - 4, "text-anchor": "middle" }, options.xTitle), el("text", { x: l, y: 10 }, options.yTitle));
  if (options.cores && options.cores >= x0 && options.cores < x1) svg.append(el("line", { class: "one", x1: x(options.cores), x2: x(options.cores), y1: t, y2: h - b }));
  for (const c of curves) {
    const path = c.points.map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join("");
    svg.append(el("path", { class: "curve", d: path, stroke: colours[c.name], "stroke-width": byName[c.name].origin === "ours" ? 3 : 1.6 }, el("title", {}, label(c.name))));
    if (options.dots) c.points.forEach(p => svg.append(el("circle", { cx: x(p[0]), cy: y(p[1]), r: 2.6, fill: colours[c.name] }, el("title", {}, `${label(c.name)}: ${short(p[1])}`))));
  }
  const legend = el("div", { class: "legend" }, curves.map(c => el("span", {}, el("i", { style: `background:${colours[c.name]}` }), label(c.name))));
  return el("div", {}, el("h3", {}, title), svg, legend);
}

// Variants that differ in nothing but the number of threads make a curve. Several runs of one number cannot occur.
function scaling() {
  const groups = {};
  for (const w of data.workloads) {
    if (!w.threads) continue;
    const key = w.name.replace(new RegExp(`(^|-)${w.threads}t?(?=-|$)`), "");
    (groups[key] = groups[key] || []).push(w);
  }
  const plots = Object.entries(groups).filter(([, list]) => new Set(list.map(w => w.threads)).size > 1).map(([key, list]) => {
    list.sort((a, b) => a.threads - b.threads);
    const rate = (w, a) => { const c = w.cells[a.name]; return c && c.wall ? (c.figures.ops || 1) / c.wall.median : null; };
    const curves = data.allocators.map(a => ({ name: a.name, points: list.map(w => [w.threads, rate(w, a)]).filter(p => p[1] !== null) })).filter(c => c.points.length > 1);
    return curves.length ? plot(key, curves, { logX: true, xTitle: "threads", yTitle: "operations / s", cores: data.machine.cores, dots: true }) : null;
  }).filter(Boolean);
  if (plots.length) put("scaling", ...plots); else document.getElementById("scaling-section").remove();
}

function series() {
  const plots = [];
  for (const w of data.workloads) {
    const names = [...new Set(Object.values(w.cells).flatMap(c => Object.keys(c.series)))];
    for (const name of names) {
      const curves = data.allocators.map(a => ({ name: a.name, points: (((w.cells[a.name] || {}).series || {})[name] || []).map(p => [p[0], p[1] / MIB]) })).filter(c => c.points.length > 1);
      if (curves.length) plots.push(plot(`${w.name}${name === "rss" ? "" : ": " + name}`, curves, { xTitle: "seconds", yTitle: "MiB" }));
    }
  }
  if (plots.length) put("series", ...plots); else document.getElementById("series-section").remove();
}

function moments() {
  const rows = [];
  for (const w of data.workloads) {
    const names = [...new Set(Object.values(w.cells).flatMap(c => Object.keys(c.figures)))].filter(k => k.startsWith("rss@")).map(k => k.slice(4));
    for (const moment of names) {
      const value = a => {
        const f = (w.cells[a.name] || {}).figures || {}, rss = f["rss@" + moment], dirty = f["private_dirty@" + moment];
        return rss === undefined ? "–" : mib(rss) + (dirty === undefined ? "" : ` (${mib(dirty)})`);
      };
      rows.push(el("tr", {}, el("td", {}, w.name, el("span", { class: "tag" }, moment)), data.allocators.map(a => el("td", {}, value(a)))));
    }
  }
  if (!rows.length) return document.getElementById("moments-section").remove();
  put("moments", el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "workload, moment"), data.allocators.map(a => el("th", {}, a.label)))), el("tbody", {}, rows)));
}

function about() {
  const rows = data.allocators.map(a => el("tr", {}, el("td", {}, a.label), el("td", { class: "left" }, a.version), el("td", { class: "left" }, a.built_with)));
  const skipped = data.skipped.map(s => el("tr", {}, el("td", {}, s.name), el("td", { class: "left" }, "skipped"), el("td", { class: "left" }, s.reason)));
  const failed = data.workloads.flatMap(w => data.allocators.filter(a => (w.cells[a.name] || {}).failure).map(a =>
    el("tr", {}, el("td", {}, w.name), el("td", { class: "left fail" }, `${w.cells[a.name].failure} under ${a.label}`), el("td", { class: "left" }, w.cells[a.name].reason))));
  put("about", el("table", {}, el("tbody", {}, rows, skipped, failed)));
}

heading(); steering(); standing(); table(); scaling(); series(); moments(); about();
