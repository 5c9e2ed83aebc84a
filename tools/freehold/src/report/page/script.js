// Draws what the JSON block holds. Sums and verdicts were made before the page was written.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = new Set(["svg", "path", "line", "rect", "text", "title", "g"]);

// Elements are built, never pasted together as text: names come from outside.
function el(tag, attributes, ...children) {
  const node = SVG.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.flat().filter(child => child !== null && child !== undefined));
  return node;
}
const put = (id, ...children) => document.getElementById(id).replaceChildren(...children.flat().filter(Boolean));

const units = ["B", "KiB", "MiB", "GiB", "TiB"];
function scale(bytes) {
  let unit = 0;
  while (Math.abs(bytes) / 1024 ** unit >= 1023.5 && unit < units.length - 1) unit++;
  return unit;
}
const digits = v => v < 9.995 ? v.toFixed(2) : v < 99.95 ? v.toFixed(1) : v.toFixed(0);
function size(bytes) {
  const unit = scale(bytes);
  return (unit ? (bytes < 0 ? "−" : "") + digits(Math.abs(bytes) / 1024 ** unit) : Math.round(bytes)) + " " + units[unit];
}
// As human::estimate writes it.
function estimate(value, error, per = "") {
  if (!(error > 0)) return size(value) + per;
  const unit = scale(Math.max(Math.abs(value), error)), part = error / 1024 ** unit;
  if (unit && part < 0.095) return `${size(value)}${per} ± ${size(error)}${per}`;
  const places = unit && part < 9.95 ? 1 : 0;
  return `${(value / 1024 ** unit).toFixed(places)} ± ${part.toFixed(places)} ${units[unit]}${per}`;
}
function seconds(s) {
  if (s === 0) return "0";
  if (s < 0.001) return (s * 1e6).toFixed(0) + " µs";
  if (s < 1) return (s * 1e3).toFixed(0) + " ms";
  if (s < 120) return (s < 10 ? s.toFixed(1) : s.toFixed(0)) + " s";
  if (s < 7200) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  return s < 172800 ? `${Math.floor(s / 3600)} h ${Math.floor(s / 60 % 60)} min` : `${Math.floor(s / 86400)} days ${Math.floor(s / 3600 % 24)} h`;
}
const count = n => n >= 1e6 ? digits(n / 1e6) + " M" : Math.round(n).toLocaleString("en");
const words = { likely_leak: "likely leak", growing: "growing", stopped: "grew and stopped", steady: "steady", unknown: "too few samples" };
const when = unix => new Date(unix * 1000).toISOString().slice(0, 19).replace("T", " ") + " UTC";

// ------------------------------------------------------------------------------------------------ top

function heading() {
  put("name", `Heap of ${data.name}`);
  put("facts", `${data.state} · observed for ${seconds(data.seconds)}, until ${when(data.taken_unix)} · ` +
    `${count(data.samples)} live samples, ${data.interval === 1 ? "every block" : "one in " + size(data.interval)} · ${data.sites.length + data.more_sites} call sites`);
  const card = (title, value, note) => el("div", { class: "card" }, title, el("b", {}, value), el("span", {}, note));
  const live = data.sites.reduce((sum, s) => sum + s.live_bytes, data.more_live), error = Math.sqrt(data.sites.reduce((sum, s) => sum + s.live_error ** 2, 0));
  const part = name => (data.heap.parts.find(p => p[0] === name) || [0, 0])[1];
  put("cards",
    data.heap && card("Resident", size(data.heap.resident), data.limit ? `${data.limit.what}: ${size(data.limit.bytes)}` : "the whole process"),
    data.heap && card("Live", size(part("live") + part("huge")), "at the size of their classes"),
    card("Live, by samples", size(live), `± ${size(error)}, as requested`),
    data.heap && card("Free and cached", size(part("free") + part("cached")), "kept for what is asked next"),
    data.heap && card("Waiting to go", size(part("dirty")), "dirty: free, not yet given back"),
    data.heap && card("Threads", count(data.heap.threads), `figures ${seconds(data.heap.age)} old`));
}

function verdict() {
  const likely = data.sites.filter(s => s.verdict === "likely_leak");
  if (!likely.length) {
    const sums = Object.entries(words).map(([key, text]) => [text, data.sites.filter(s => s.verdict === key).length]).filter(([, n]) => n);
    const g = data.grows;
    put("verdict", el("p", {}, g ? el("span", {}, "Live memory as a whole grows, by ", el("b", {}, `+${estimate(g.rate, g.error, "/s")}`),
      ` for ${seconds(g.seconds)}: in no call site alone beyond doubt. `) : el("span", { class: "good" }, "No leak found. "),
      data.nothing_because || `Of ${data.sites.length} sites: ${sums.map(([text, n]) => `${n} ${text}`).join(", ")}.`));
    return;
  }
  put("verdict", likely.map(s => {
    const g = s.growth;
    return el("div", { class: "leak" },
      el("b", {}, `+${estimate(g.bytes_per_second, g.bytes_per_second_error, "/s")}`), " in ", el("code", {}, s.function), s.place ? ` ${s.place}` : "",
      el("div", { class: "note" }, `Grew by ${size(g.bytes)} in ${seconds(g.seconds)} (${g.sigma.toFixed(1)} sigma) and goes on; of what got older than ` +
        `${seconds(g.old_from)}, ${(100 * g.old_alive).toFixed(1)} % is alive.` +
        (g.until_limit ? ` At this rate ${data.limit.what} is reached in ${seconds(g.until_limit[0])} to ${seconds(g.until_limit[1])}.` : "")));
  }));
}

// ------------------------------------------------------------------------------------------------ memory

function legend(entries) {
  return el("div", { class: "legend" }, entries.map(([name, value, title]) =>
    el("span", { title }, el("i", { style: `background:var(--${name})` }), name, value === undefined ? "" : [" ", el("b", {}, value)])));
}

function parts() {
  if (!data.heap) return put("parts", el("p", { class: "note" }, "The program has left no figures of its heap."));
  const shown = data.heap.parts.filter(p => p[1] > 0), total = shown.reduce((sum, p) => sum + p[1], 0);
  put("parts",
    el("div", { class: "bar", role: "img", "aria-label": shown.map(p => `${p[0]} ${size(p[1])}`).join(", ") },
      shown.map(([name, bytes, what]) => el("i", { style: `width:${100 * bytes / total}%;background:var(--${name})`, title: `${name}: ${size(bytes)}, ${what}` }))),
    legend(shown.map(([name, bytes, what]) => [name, size(bytes), what])));
}

// Round numbers for an axis.
function ticks(high, about, base) {
  const raw = high / about || 1, power = base ** Math.floor(Math.log(raw) / Math.log(base));
  const step = (base === 2 ? [1, 2] : [1, 2, 5, 10]).map(f => f * power).find(s => s >= raw);
  const out = [];
  for (let t = 0; t <= high * 1.0001; t += step) out.push(t);
  return out;
}

function timeline() {
  const points = data.timeline;
  if (points.length < 2) return put("timeline", el("p", { class: "note" }, "Too few moments for a curve over time."));
  const names = ["resident", "live", "free", "cached", "dirty"].filter(name => points.some(p => p[name] > 0));
  const w = 1200, h = 300, l = 76, r = 16, t = 14, b = 32, last = points[points.length - 1].at;
  // A curve that begins with the program begins at 0.
  const first = points[0].at < last / 50 ? 0 : points[0].at;
  let top = Math.max(...points.flatMap(p => names.map(name => p[name]))) * 1.05;
  // A limit that is far away would press the curves to the ground.
  const limit = data.limit && data.limit.bytes < top * 1.6 ? data.limit.bytes : 0;
  top = Math.max(top, limit * 1.05);
  const x = at => l + (at - first) / (last - first || 1) * (w - l - r), y = bytes => h - b - bytes / top * (h - t - b);
  const svg = el("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": `Memory over ${seconds(last - first)}: ` +
    names.map(name => `${name} from ${size(points[0][name])} to ${size(points[points.length - 1][name])}`).join(", ") });
  for (const v of ticks(top, 5, 2)) svg.append(el("line", { class: "grid", x1: l, x2: w - r, y1: y(v), y2: y(v) }), el("text", { x: l - 6, y: y(v) + 4, "text-anchor": "end" }, size(v)));
  for (const v of ticks(last, 8, 10).filter(v => v >= first)) svg.append(el("text", { x: x(v), y: h - b + 16, "text-anchor": "middle" }, seconds(v)));
  for (const name of names) {
    const d = points.map((p, i) => `${i ? "L" : "M"}${x(p.at).toFixed(1)},${y(p[name]).toFixed(1)}`).join("");
    svg.append(el("path", { class: "curve", d, style: `stroke:var(--${name})` }, el("title", {}, name)));
  }
  if (limit) svg.append(el("line", { class: "limit", x1: l, x2: w - r, y1: y(limit), y2: y(limit) }), el("text", { x: w - r, y: y(limit) - 4, "text-anchor": "end" }, data.limit.what));
  const some = points.filter((_, i) => i % Math.ceil(points.length / 20) === 0 || i === points.length - 1);
  put("timeline", el("h3", {}, "Over time"), svg, legend(names.map(name => [name, size(points[points.length - 1][name])])),
    el("details", {}, el("summary", {}, "As a table"), el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ["time", ...names].map(name => el("th", { scope: "col" }, name)))),
      el("tbody", {}, some.map(p => el("tr", {}, el("td", {}, seconds(p.at)), names.map(name => el("td", {}, size(p[name]))))))))));
}

// ------------------------------------------------------------------------------------------------ sites

const rank = { likely_leak: 0, growing: 1, stopped: 2, steady: 3, unknown: 4 };
const columns = [
  ["site", s => s.function, null, "left"],
  ["live", s => s.live_bytes, s => [size(s.live_bytes), el("span", { class: "error" }, " ± " + size(s.live_error))]],
  ["blocks", s => s.live_blocks, s => count(s.live_blocks)],
  ["mean size", s => s.mean_size, s => size(s.mean_size)],
  ["allocated", s => s.allocated_bytes, s => size(s.allocated_bytes)],
  ["short-lived", s => s.short_lived_bytes, s => s.allocated_bytes ? (100 * s.short_lived_bytes / s.allocated_bytes).toFixed(0) + " %" : "–"],
  ["peak", s => s.peak_bytes, s => size(s.peak_bytes)],
  ["age", s => s.median_age, s => s.live_samples ? seconds(s.median_age) : "–"],
  ["verdict", s => -rank[s.verdict], s => el("span", { class: s.verdict, title: s.reason }, words[s.verdict]), "left"],
];
const view = { column: 1, up: false, open: new Set(), filter: "" };

function bars(title, values, label, note) {
  const most = Math.max(...values), w = 240, h = 96, b = 18, step = w / values.length;
  if (!(most > 0)) return el("div", {}, el("h3", {}, title), el("p", { class: "note" }, note));
  const svg = el("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": title + ": " + values.map((v, i) => v > 0 ? `${label(i)} ${size(v)}` : null).filter(Boolean).join(", ") });
  values.forEach((v, i) => svg.append(el("rect", { x: i * step + 0.5, width: Math.max(step - 1, 1), y: (h - b) * (1 - v / most), height: (h - b) * v / most, style: "fill:var(--live)" }, el("title", {}, `${label(i)}: ${size(v)}`))));
  const marks = [0, Math.floor((values.length - 1) / 2), values.length - 1];
  marks.forEach((i, n) => svg.append(el("text", { x: [0, w / 2, w][n], y: h - 5, "text-anchor": ["start", "middle", "end"][n] }, label(i))));
  return el("div", {}, el("h3", {}, title), svg);
}

function unfolded(site) {
  const frames = site.stack.map(f => el("li", {}, f.function, " ", el("span", {}, f.place || f.module)));
  const age = i => i === 15 ? "more" : "< " + seconds(4 ** i / 1e6);
  const born = i => seconds(data.seconds * (i + 0.5) / 40);
  const facts = `${words[site.verdict]}: ${site.reason}. ${count(site.live_samples)} live samples from ${site.threads} thread${site.threads === 1 ? "" : "s"}; oldest ${seconds(site.oldest_age)}.`;
  return el("div", {}, el("p", { class: "note" }, facts), el("div", { class: "unfolded" },
    el("div", {}, el("h3", {}, "Stack"), el("ol", {}, frames)),
    bars("Freed at the age of", site.freed_at_age, age, "Nothing that was sampled has been freed."),
    bars("Live bytes by time of birth", site.births, born, "Nothing that was sampled is live.")));
}

function sites() {
  const wanted = view.filter.toLowerCase(), key = columns[view.column][1];
  const list = data.sites.filter(s => !wanted || s.stack.some(f => `${f.function} ${f.place || ""} ${f.module}`.toLowerCase().includes(wanted)));
  list.sort((a, b) => {
    const [p, q] = [key(a), key(b)], order = typeof p === "string" ? p.localeCompare(q) : p - q;
    return (view.up ? order : -order) || b.live_bytes - a.live_bytes;
  });
  const pick = column => () => {
    view.up = view.column === column ? !view.up : column === 0;
    view.column = column;
    sites();
    document.querySelectorAll("#sites th button")[column].focus();
  };
  const head = columns.map(([name, , , left], i) => el("th", { scope: "col", class: left || null, "aria-sort": view.column === i ? (view.up ? "ascending" : "descending") : null },
    el("button", { type: "button", onclick: pick(i) }, name)));
  const rows = list.flatMap(s => {
    const open = view.open.has(s.site);
    const toggle = () => { open ? view.open.delete(s.site) : view.open.add(s.site); sites(); document.getElementById("site-" + s.site).focus(); };
    const place = s.place ? s.place.split("/").pop() : "";
    const cells = columns.slice(1).map(([, , text, left]) => el("td", { class: left || null }, text(s)));
    const row = el("tr", { class: "row" }, el("td", { class: "left site", title: s.function }, el("button", { id: "site-" + s.site, type: "button", "aria-expanded": open, onclick: toggle },
      (open ? "▾ " : "▸ ") + s.function, el("small", {}, place))), cells);
    return open ? [row, el("tr", { class: "detail" }, el("td", { colspan: columns.length }, unfolded(s)))] : [row];
  });
  put("shown", wanted ? `${list.length} of ${data.sites.length} sites` : "");
  put("sites", el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)),
    data.nothing_because ? el("p", {}, data.nothing_because) : null,
    data.more_sites ? el("p", { class: "note" }, `And ${count(data.more_sites)} sites more, with ${size(data.more_live)} live.`) : null);
}

// ------------------------------------------------------------------------------------------------ fragmentation

function map() {
  const classes = data.classes.map(c => ({ ...c, all: c.live + c.cached + c.free })).filter(c => c.all > 0);
  if (!classes.length) return document.getElementById("map-section").remove();
  classes.sort((a, b) => b.all - a.all);
  const shown = classes.slice(0, 40), most = shown[0].all;
  const names = ["below ¼", "below ½", "below ¾", "full or nearly"];
  const rows = shown.flatMap(c => {
    const slabs = c.occupancy.reduce((a, b) => a + b, 0) || 1;
    const label = `${size(c.size)}: ${count(c.slabs)} slabs, ` + names.map((n, i) => `${count(c.occupancy[i])} ${n}`).join(", ");
    return [el("span", { class: "size" }, size(c.size)),
      el("div", { class: "bar", role: "img", "aria-label": label, title: label, style: `width:${Math.max(100 * c.all / most, 0.6)}%` },
        c.occupancy.map((n, i) => n ? el("i", { style: `width:${100 * n / slabs}%;background:var(--full${i})` }) : null)),
      el("span", { class: "what" }, `${size(c.all)}, ${(100 * c.live / c.all).toFixed(0)} % live`)];
  });
  put("map", el("div", { class: "legend" }, names.map((n, i) => el("span", {}, el("i", { style: `background:var(--full${i})` }), n))), el("div", { class: "map" }, rows),
    classes.length > shown.length ? el("p", { class: "note" }, `And ${classes.length - shown.length} smaller classes.`) : null);
}

function about() {
  const facts = [["program", data.program], ["command line", data.command], ["process", data.pid], ["began", when(data.begun_unix)], ["library", "Freehold " + data.version],
    ["options", data.options || "none"], ["system", [data.system, `${data.processors} processors`, `pages of ${size(data.page_size)}`].filter(Boolean).join(", ")],
    ["marks", data.marks || null], ...data.warnings.map(text => ["note", text])];
  put("about", facts.filter(([, value]) => value !== null && value !== "").flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

document.getElementById("filter").addEventListener("input", event => { view.filter = event.target.value; sites(); });
if (data.sites.length) view.open.add(data.sites.reduce((a, b) => a.live_bytes >= b.live_bytes ? a : b).site);
heading(); verdict(); parts(); timeline(); sites(); map(); about();
