"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const colours = ["--resident", "--dirty", "--live", "--free", "--huge", "--cached", "--records"];
const W = 960, H = 300, LEFT = 70, RIGHT = 14, TOP = 10, BOTTOM = 30;

function element(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return made;
}

function inBytes(value) {
  let unit = 0;
  for (; value >= 1023.5 && unit < 4; unit++) value /= 1024;
  return value.toFixed(value < 10 && unit ? 1 : 0) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][unit];
}

function inTime(ns) {
  return ns < 1e3 ? ns.toFixed(0) + " ns" : ns < 1e6 ? (ns / 1e3).toFixed(1) + " µs" : (ns / 1e6).toFixed(1) + " ms";
}

/* x and y: {to: a value's place, write: its text, ticks: values}. A point with null has no value. */
function chart(id, key, x, y) {
  const root = document.getElementById(id);
  const svg = element("svg", {viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": root.previousElementSibling.textContent});
  const all = data.allocators.flatMap(one => one[key]).filter(point => point[1] !== null);
  const span = (axis, values) => {
    const places = values.concat(axis.from === undefined ? [] : [axis.from]).map(axis.to);
    const low = places.reduce((a, b) => Math.min(a, b), Infinity), high = places.reduce((a, b) => Math.max(a, b), -Infinity);
    return [low, high > low ? high : low + 1];
  };
  const [left, right] = span(x, all.map(point => point[0])), [bottom, top] = span(y, all.map(point => point[1]));
  const across = value => LEFT + (x.to(value) - left) / (right - left) * (W - LEFT - RIGHT);
  const up = value => H - BOTTOM - (y.to(value) - bottom) / (top - bottom) * (H - TOP - BOTTOM);
  const even = axis => [0, 1, 2, 3, 4].map(step => axis === x ? left + (right - left) * step / 4 : bottom + (top - bottom) * step / 4);
  for (const value of y.ticks || even(y)) {
    if (y.to(value) < bottom || y.to(value) > top) continue;
    svg.append(element("line", {class: "grid", x1: LEFT, x2: W - RIGHT, y1: up(value), y2: up(value)}));
    svg.append(element("text", {x: LEFT - 8, y: up(value) + 4, "text-anchor": "end"}, y.write(value)));
  }
  for (const value of x.ticks || even(x)) {
    if (x.to(value) < left || x.to(value) > right) continue;
    svg.append(element("line", {class: "grid", x1: across(value), x2: across(value), y1: TOP, y2: H - BOTTOM}));
    svg.append(element("text", {x: across(value), y: H - 10, "text-anchor": "middle"}, x.write(value)));
  }
  data.allocators.forEach((one, number) => {
    let path = "", pen = "M";
    for (const [at, value] of one[key]) {
      if (value === null) { pen = "M"; continue; }
      path += pen + across(at).toFixed(1) + " " + up(value).toFixed(1);
      pen = "L";
    }
    svg.append(element("path", {class: "curve", d: path, style: `stroke: var(${colours[number % colours.length]})`}));
  });
  const line = element("line", {class: "limit", y1: TOP, y2: H - BOTTOM, visibility: "hidden"});
  svg.append(line);
  const legend = document.createElement("p");
  legend.className = "legend";
  const values = data.allocators.map((one, number) => {
    const entry = document.createElement("span"), mark = document.createElement("i"), value = document.createElement("b");
    mark.style.background = `var(${colours[number % colours.length]})`;
    entry.append(mark, one.name + " ", value);
    legend.append(entry);
    return value;
  });
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect(), at = (event.clientX - box.left) / box.width * W;
    line.setAttribute("x1", at);
    line.setAttribute("x2", at);
    line.setAttribute("visibility", "visible");
    data.allocators.forEach((one, number) => {
      let near = null;
      for (const point of one[key]) {
        if (point[1] !== null && (!near || Math.abs(across(point[0]) - at) < Math.abs(across(near[0]) - at))) near = point;
      }
      values[number].textContent = near ? `${y.write(near[1])} at ${x.write(near[0])}` : "";
    });
  });
  root.append(svg, legend);
}

const plain = value => value, log = value => Math.log10(Math.max(value, 1));
const most = data.allocators.reduce((sum, one) => Math.max(sum, one.calls), 1);
chart("latency", "latency",
  {to: part => -Math.log10(Math.max(1 - part, 0.5 / most)), write: part => "p" + +(part * 100).toFixed(6),
    ticks: [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 1]},
  {to: log, write: inTime, ticks: [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9]});
const operations = {to: plain, from: 0, write: value => Math.round(value).toLocaleString("en")};
chart("rss", "rss", data.by_operation ? operations : {to: plain, from: 0, write: inTime}, {to: plain, from: 0, write: inBytes});
chart("fragmentation", "fragmentation", operations,
  {to: value => Math.log10(Math.max(value, 0.1)), from: 1, write: value => value.toFixed(2),
    ticks: [0.1, 0.2, 0.5, 1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100]});
