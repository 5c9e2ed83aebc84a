"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const CELLS = 32, ACROSS = 8, DOWN = 4, CELL_BYTES = 65536, PAGE = 4096;
const slider = document.getElementById("at"), button = document.getElementById("play"), now = document.getElementById("now");
let timer = 0;

function inBytes(value) {
  let unit = 0;
  for (; value >= 1023.5 && unit < 4; unit++) value /= 1024;
  return value.toFixed(value < 10 && unit ? 1 : 0) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][unit];
}

function make(name, attributes, text) {
  const made = document.createElement(name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return made;
}

/* A film at a moment: differences are added up to it, from the beginning if it lies before. */
class Film {
  constructor(film) {
    this.film = film;
    this.size = film.chunks.length * CELLS;
    this.reset();
  }

  reset() {
    this.live = new Float64Array(this.size);
    this.blocks = new Float64Array(this.size);
    this.pages = new Float64Array(this.size);
    this.step = -1;
  }

  seek(step) {
    if (step < this.step) this.reset();
    while (this.step < step) {
      const cells = this.film.steps[++this.step].cells;
      for (let i = 0, at = 0; i < cells.length; i += 4) {
        at += cells[i];
        this.live[at] = cells[i + 1];
        this.blocks[at] = cells[i + 2];
        this.pages[at] = cells[i + 3];
      }
    }
  }

  /* The last step that is not after this operation. */
  find(operation) {
    const steps = this.film.steps;
    let step = 0;
    while (step + 1 < steps.length && steps[step + 1].at <= operation) step++;
    return step;
  }

  get current() { return this.film.steps[this.step]; }
}

/* The page of one film: its map, the curve below, and what is under the pointer. */
class View {
  constructor(film, root) {
    this.film = new Film(film);
    const section = make("section");
    this.facts = make("p", {class: "note"});
    this.map = make("canvas", {tabindex: "0", role: "img", "aria-label": "Map of the heap of " + film.name});
    this.under = make("p", {class: "note under", "aria-live": "polite"}, "Move over the map, or focus it and use the arrows with Shift.");
    this.curve = make("canvas", {role: "img", "aria-label": "Resident and live bytes of " + film.name + " over time"});
    section.append(make("h2", {}, film.name), this.facts, this.map, this.under, this.curve);
    root.append(section);
    this.chosen = -1;
    this.map.addEventListener("pointermove", event => this.choose(this.cellAt(event)));
    this.map.addEventListener("pointerleave", () => this.choose(-1));
    this.map.addEventListener("keydown", event => {
      const way = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -CELLS, ArrowDown: CELLS}[event.key];
      if (!event.shiftKey || !way) return;
      this.choose(Math.min(Math.max(this.chosen + way, 0), this.film.size - 1));
      event.preventDefault();
      event.stopPropagation();
    });
    this.curve.addEventListener("pointerdown", event => {
      const box = this.curve.getBoundingClientRect();
      move(Math.round((event.clientX - box.left) / box.width * moments[moments.length - 1]), true);
    });
  }

  layout() {
    this.width = Math.max(this.map.clientWidth, 200);
    const most = this.film.film.chunks.length;
    this.cell = most > 2000 ? 2 : most > 600 ? 3 : most > 150 ? 4 : 6;
    this.columns = Math.max(1, Math.floor((this.width - 2) / (ACROSS * this.cell + 4)));
    this.rows = Math.ceil(most / this.columns);
    this.prepare(this.map, this.rows * (DOWN * this.cell + 4) + 2);
    this.prepare(this.curve, 90);
  }

  prepare(canvas, height) {
    const ratio = window.devicePixelRatio || 1;
    canvas.style.height = height + "px";
    canvas.width = this.width * ratio;
    canvas.height = height * ratio;
    canvas.getContext("2d").scale(ratio, ratio);
  }

  placeOf(cell) {
    const chunk = Math.floor(cell / CELLS), inside = cell % CELLS;
    return [chunk % this.columns * (ACROSS * this.cell + 4) + 2 + inside % ACROSS * this.cell,
      Math.floor(chunk / this.columns) * (DOWN * this.cell + 4) + 2 + Math.floor(inside / ACROSS) * this.cell];
  }

  cellAt(event) {
    const box = this.map.getBoundingClientRect();
    const x = event.clientX - box.left - 2, y = event.clientY - box.top - 2;
    const wide = ACROSS * this.cell + 4, high = DOWN * this.cell + 4;
    const column = Math.floor(x / wide), row = Math.floor(y / high);
    const across = Math.floor((x - column * wide) / this.cell), down = Math.floor((y - row * high) / this.cell);
    if (column < 0 || column >= this.columns || row < 0 || across < 0 || across >= ACROSS || down < 0 || down >= DOWN) return -1;
    const cell = (row * this.columns + column) * CELLS + down * ACROSS + across;
    return cell < this.film.size ? cell : -1;
  }

  choose(cell) {
    this.chosen = cell;
    this.draw();
  }

  say() {
    if (this.chosen < 0) return;
    const chunk = Math.floor(this.chosen / CELLS), film = this.film;
    const address = (BigInt("0x" + film.film.chunks[chunk]) + BigInt(this.chosen % CELLS * CELL_BYTES)).toString(16);
    const live = film.live[this.chosen], blocks = film.blocks[this.chosen], pages = film.pages[this.chosen];
    const huge = film.current.huge.includes(chunk) ? ", in a chunk with a huge page" : "";
    const what = blocks > 0 ? `${inBytes(live)} live in ${blocks} blocks, ${inBytes(live / blocks)} each in the mean`
      : live > 0 ? inBytes(live) + " live, of a block that begins before" : "nothing live";
    let of = 0, resident = 0;
    for (let cell = chunk * CELLS; cell < (chunk + 1) * CELLS; cell++) {
      of += film.live[cell];
      resident += film.pages[cell] * PAGE;
    }
    this.under.textContent = `0x${address}: ${what}; ${inBytes(pages * PAGE)} of 64 KiB resident${huge}. ` +
      `Its chunk, ${chunk + 1} of ${film.film.chunks.length}: ${inBytes(of)} live, ${inBytes(resident)} resident.`;
  }

  draw() {
    const style = getComputedStyle(document.documentElement), colour = name => style.getPropertyValue(name).trim();
    const full = [0, 1, 2, 3].map(step => colour("--full" + step)), empty = colour("--ground"), untouched = colour("--line");
    const pen = this.map.getContext("2d"), film = this.film, side = this.cell - (this.cell > 3 ? 1 : 0);
    pen.clearRect(0, 0, this.width, this.map.height);
    for (let cell = 0; cell < film.size; cell++) {
      const [x, y] = this.placeOf(cell), resident = film.pages[cell] * PAGE;
      pen.fillStyle = resident ? full[Math.min(3, Math.floor(film.live[cell] / resident * 4))] : film.live[cell] ? untouched : empty;
      pen.fillRect(x, y, side, side);
    }
    pen.strokeStyle = colour("--huge");
    pen.lineWidth = 1.5;
    for (const chunk of film.current.huge) {
      const [x, y] = this.placeOf(chunk * CELLS);
      pen.strokeRect(x - 1.5, y - 1.5, ACROSS * this.cell + 2, DOWN * this.cell + 2);
    }
    if (this.chosen >= 0) {
      const [x, y] = this.placeOf(this.chosen);
      pen.strokeStyle = colour("--ink");
      pen.strokeRect(x - 1, y - 1, this.cell + 1, this.cell + 1);
    }
    const {live, resident} = film.current;
    this.facts.textContent = `${inBytes(live)} live, ${inBytes(resident)} resident` +
      (live ? `: ${(resident / live).toFixed(2)} times as much` : "") +
      `; ${film.current.huge.length} of ${film.film.chunks.length} chunks have a huge page.`;
    this.say();
    this.drawCurve(colour);
  }

  drawCurve(colour) {
    const pen = this.curve.getContext("2d"), H = 90, end = moments[moments.length - 1] || 1;
    const up = value => H - 4 - value / most * (H - 18), across = at => at / end * this.width;
    pen.clearRect(0, 0, this.width, H);
    for (const [key, name] of [["resident", "--resident"], ["live", "--live"]]) {
      pen.beginPath();
      for (const step of this.film.film.steps) pen.lineTo(across(step.at), up(step[key]));
      pen.strokeStyle = colour(name);
      pen.lineWidth = 1.5;
      pen.stroke();
    }
    pen.fillStyle = colour("--soft");
    pen.font = "11px system-ui, sans-serif";
    pen.fillText(inBytes(most) + ": the highest of all films; resident, and below it live", 2, 10);
    pen.beginPath();
    pen.moveTo(across(operation), 14);
    pen.lineTo(across(operation), H);
    pen.strokeStyle = colour("--ink");
    pen.lineWidth = 1;
    pen.stroke();
  }

  show() {
    this.film.seek(this.film.find(operation));
    this.draw();
  }
}

/* Films may have different frames: the slider goes over those of all. */
const moments = [...new Set(data.films.flatMap(film => film.steps.map(step => step.at)))].sort((a, b) => a - b);
const most = data.films.reduce((high, film) => film.steps.reduce((top, step) => Math.max(top, step.resident, step.live), high), 1);
let operation = 0, moment = 0;
const root = document.getElementById("films");
const views = data.films.map(film => new View(film, root));
for (const text of data.died) root.append(make("p", {class: "error"}, text));

/* To a moment by its number, or to the one at or before an operation. */
function move(to, byOperation) {
  if (byOperation) {
    const operation = to;
    to = 0;
    while (to + 1 < moments.length && moments[to + 1] <= operation) to++;
  }
  moment = Math.min(Math.max(to, 0), moments.length - 1);
  operation = moments[moment] || 0;
  slider.value = moment;
  now.textContent = "Operation " + operation.toLocaleString("en");
  for (const view of views) view.show();
}

function play(on) {
  clearInterval(timer);
  timer = on ? setInterval(() => moment + 1 < moments.length ? move(moment + 1) : play(false), 80) : 0;
  button.textContent = on ? "Pause" : "Play";
  button.setAttribute("aria-pressed", String(on));
}

function toggle() {
  if (!timer && moment + 1 >= moments.length) move(0);
  play(!timer);
}

function layout() {
  for (const view of views) view.layout();
  move(moment);
}

slider.max = Math.max(moments.length - 1, 0);
slider.addEventListener("input", () => { play(false); move(Number(slider.value)); });
button.addEventListener("click", toggle);
document.addEventListener("keydown", event => {
  const to = {ArrowLeft: moment - 1, ArrowRight: moment + 1, PageUp: moment - 10, PageDown: moment + 10, Home: 0, End: moments.length - 1}[event.key];
  if (event.key === " ") {
    if (event.target !== button) toggle();
    else return;
  } else if (to !== undefined && event.target !== slider) {
    play(false);
    move(to);
  } else {
    return;
  }
  event.preventDefault();
});
window.addEventListener("resize", layout);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", layout);
layout();
/* The fullest moment is what is shown first. */
move(moments.indexOf(data.films.length ? data.films[0].steps.reduce((high, step) => step.resident > high.resident ? step : high).at : 0));
