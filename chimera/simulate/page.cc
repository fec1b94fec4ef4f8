// The page as one raw string, as it is written to the file; it asks nothing of a network.
//
// Colours are CSS variables, so that light and dark are told apart in one place: fill, line and
// text of each kind of box. As in the SVG drawing, hue says the direction of the pipe (blue down,
// orange up, hatched), shade what is done. The script draws on one canvas of the window's size, of
// each row only what is visible, and at most one box a pixel, so that its time does not grow with
// the timeline.
//
// tests: render_html_test.cc
#include "chimera/simulate/page.h"

namespace chimera {
namespace {

constexpr std::string_view kPlace = "@data@";

constexpr std::string_view kPage = R"page(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Timeline</title>
<style>
:root {
  color-scheme: light dark;
  --page: #ffffff; --text: #1f2328; --soft: #59636e; --line: #d0d7de; --grid: #00000012;
  --idle: #f0f2f4; --mark: #d1005d;
  --Fd: #bcd9f5 #1d4f91 #0b2545; --Fu: #fcd9a8 #b45309 #3b1d02;
  --Bd: #2667b0 #153e70 #ffffff; --Bu: #c2570c #7c3606 #ffffff;
  --Id: #6fa8dc #1d4f91 #0b2545; --Iu: #f0a04b #8a3b06 #3b1d02;
  --Wd: #143a6b #0c2547 #ffffff; --Wu: #7a3305 #4a1f03 #ffffff;
  --Rd: #f6faff #1d4f91 #0b2545; --Ru: #fff9ef #b45309 #3b1d02;
  --S: #cc79a7 #94477a #2d0a20; --reduce: #009e73 #00694c #ffffff;
  --recv: #c3cad1; --send: #8c959f; --wait: #8fcfb9; --versions: #d4a900; --memory: #7a6fb3;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #15181d; --text: #e6e9ed; --soft: #9aa4b0; --line: #3a414b; --grid: #ffffff14;
    --idle: #20252c; --mark: #ff5fa2;
    --Fd: #a5cdf2 #d8eafb #0b2545; --Fu: #f7cc92 #fdebd2 #3b1d02;
    --Bd: #2f74c4 #7fb2e8 #ffffff; --Bu: #c8611a #f0a46b #ffffff;
    --Id: #6fa8dc #b9d8f5 #0b2545; --Iu: #ec9a43 #f9cf9c #3b1d02;
    --Wd: #173f73 #5b93d1 #ffffff; --Wu: #753206 #d47a35 #ffffff;
    --Rd: #1d2a3a #a5cdf2 #d8eafb; --Ru: #352819 #f7cc92 #fdebd2;
    --S: #c573a1 #ecb3d3 #2d0a20; --reduce: #12a77d #6fd8b9 #ffffff;
    --recv: #4b545f; --send: #7d8792; --wait: #2f6b58; --versions: #d4a900; --memory: #9d92d6;
  }
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
html, body { height: 100%; margin: 0; }
body { display: flex; flex-direction: column; background: var(--page); color: var(--text);
  font: 14px/1.4 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
header { padding: 10px 14px 8px; border-bottom: 1px solid var(--line); }
h1 { font-size: 17px; margin: 0 0 4px; overflow-wrap: anywhere; }
.line { display: flex; flex-wrap: wrap; gap: 4px 18px; align-items: center; margin-top: 4px; }
.line:empty { display: none; }
table { border-collapse: collapse; }
th, td { padding: 0 16px 0 0; text-align: left; font-weight: normal;
  font-variant-numeric: tabular-nums; }
th, .soft { color: var(--soft); }
td:first-child { font-weight: 600; }
.legend span { display: inline-flex; align-items: center; gap: 6px; white-space: nowrap; }
button { font: inherit; min-width: 30px; padding: 1px 8px; color: inherit; background: var(--idle);
  border: 1px solid var(--line); border-radius: 5px; cursor: pointer; }
label { display: inline-flex; gap: 5px; align-items: center; cursor: pointer; }
#view { flex: 1; min-height: 200px; overflow-y: auto; overflow-x: hidden; }
#time { display: block; position: sticky; top: 0; cursor: grab; touch-action: none; outline: none; }
#time.moving { cursor: grabbing; }
#tip { position: fixed; z-index: 1; display: none; max-width: 420px; padding: 7px 10px;
  pointer-events: none; background: var(--page); border: 1px solid var(--line); border-radius: 6px;
  box-shadow: 0 3px 12px #0004; font-variant-numeric: tabular-nums; }
#tip div:first-child { font-weight: 600; }
#tip .soft { margin-top: 3px; }
</style>
</head>
<body>
<header>
  <h1 id="title"></h1>
  <table id="summary"></table>
  <div class="line legend" id="legend"></div>
  <div class="line">
    <span>
      <button id="out" title="Zoom out (-)">&minus;</button>
      <button id="in" title="Zoom in (+)">+</button>
      <button id="whole" title="The whole time (0)">Whole</button>
    </span>
    <label id="memory-label"><input type="checkbox" id="memory" checked>memory</label>
    <label id="pair-label"><input type="checkbox" id="pair">tracks of a worker together</label>
    <span class="soft">Wheel or + &minus; to zoom, drag or arrows to move, Shift and wheel to
      scroll, double click or 0 for the whole.</span>
  </div>
</header>
<div id="view"><div id="tall"><canvas id="time" tabindex="0" role="img"></canvas></div></div>
<div id="tip"></div>
<noscript>This page draws with JavaScript, which is switched off here.</noscript>
<script type="application/json" id="data">@data@</script>
<script>
'use strict';

// ---- data: what render_html.cc writes, taken apart ----------------------------------------------

const $ = id => document.getElementById(id);
const data = JSON.parse($('data').textContent);

const WORDS = {
  F: 'forward', B: 'backward', I: 'input gradient', W: 'weight gradient', R: 'recompute',
  SEND_F: 'send activation', RECV_F: 'wait for activation', SEND_B: 'send gradient',
  RECV_B: 'wait for gradient', REDUCE: 'begin of all-reduce', WAIT: 'wait for all-reduce',
  STASH: 'keep weights', FREE: 'drop weights', S: 'optimizer step',
};
const anyUp = data.up.includes(true);

// How an interval looks: 'Fd' (forward, down), 'S', or the name of a thin bar.
function kindOf(letter, pipe) {
  if ('FBIWR'.includes(letter)) return letter + (data.up[pipe] ? 'u' : 'd');
  if (letter === 'S') return 'S';
  if (letter.startsWith('SEND')) return 'send';
  if (letter.startsWith('RECV')) return 'recv';
  if (letter === 'WAIT') return 'wait';
  return letter === 'REDUCE' ? 'reduce' : 'versions';
}

// Intervals come as numbers one after the other. `name` is the same for the same action in every
// track: what it is, and how many like it were before it in its row.
function unpack(numbers) {
  const list = [], seen = new Map();
  for (let at = 0; at < numbers.length; at += 8) {
    const [op, stage, micro, span, pipe, age, start, end] = numbers.slice(at, at + 8);
    const letter = data.ops[op];
    const key = [op, stage, micro, span, pipe, age].join();
    const nth = seen.get(key) || 0;
    seen.set(key, nth + 1);
    list.push({letter, stage, micro, span, pipe, age, start, end, name: key + '#' + nth,
               kind: kindOf(letter, pipe)});
  }
  return list;
}

// All-reduces overlap: each gets the first lane that is free.
function intoLanes(list) {
  const ends = [];
  for (const one of list) {
    let lane = ends.findIndex(end => end <= one.start);
    if (lane < 0) lane = ends.length;
    ends[lane] = one.end;
    one.lane = lane;
  }
  return ends.length;
}

const tracks = data.tracks.map(track => {
  const rows = track.rows.map(unpack), reductions = track.reductions.map(unpack);
  const lanes = Math.max(0, ...reductions.map(intoLanes));
  const peaks = track.memory.map(levels => levels.reduce((most, one) => Math.max(most, one[1]), 0));
  return {name: track.name, makespan: track.makespan, bubble: track.bubble, memory: track.memory,
          rows, reductions, lanes, peaks};
});
const workers = Math.max(0, ...tracks.map(track => track.rows.length));
const peak = Math.max(0, ...tracks.flatMap(track => track.peaks));
const lastEnd = Math.max(0, ...tracks.map(track => track.makespan),
                         ...tracks.flatMap(track => track.reductions.flat().map(one => one.end)));
const whole = (lastEnd || 1) * 1.01;

// ---- words and numbers --------------------------------------------------------------------------

const UNITS = [[1, 's'], [1e-3, 'ms'], [1e-6, '\u00b5s'], [1e-9, 'ns']];
const unitOf = seconds => UNITS.find(([size]) => Math.abs(seconds) >= size * 0.9999999) ||
    (seconds === 0 ? UNITS[0] : UNITS[3]);

function time(seconds, digits = 6) {
  const [size, name] = unitOf(seconds);
  return Number((seconds / size).toPrecision(digits)) + ' ' + name;
}

function bytes(count) {
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let at = 0;
  while (count >= 1024 && at < names.length - 1) count /= 1024, ++at;
  return Number(count.toPrecision(3)) + ' ' + names[at];
}

const micros = one => one.span > 1 ? `${one.micro}-${one.micro + one.span - 1}` : `${one.micro}`;

// "forward, stage 2, micro-batch 5, pipe 1 (up)"
function describe(one) {
  let text = WORDS[one.letter];
  text += one.stage < 0 ? ', all stages' : `, stage ${one.stage}`;
  if (one.letter === 'S') return one.stage < 0 ? text : text + `, up to micro-batch ${one.micro}`;
  if (['REDUCE', 'WAIT', 'STASH', 'FREE'].includes(one.letter)) return text;
  text += `, micro-batch${one.span > 1 ? 'es' : ''} ${micros(one)}`;
  if (data.up.length < 2) return text;
  return text + `, pipe ${one.pipe}` + (anyUp ? (data.up[one.pipe] ? ' (up)' : ' (down)') : '');
}

function legendWord(kind) {
  const word = {recv: 'wait for message', send: 'send', wait: 'wait for all-reduce',
                reduce: 'all-reduce', versions: 'weight versions'}[kind] || WORDS[kind[0]];
  return anyUp && kind.length === 2 ? word + (kind[1] === 'u' ? ' up' : ' down') : word;
}

// The least of 1, 2, 5, 10, ... (by any power of ten) that is not below `least`.
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map(factor => factor * power).find(step => step >= least * 0.999999);
}

// ---- looks --------------------------------------------------------------------------------------

let colours = {}, hatches = {};

// A tile of diagonal lines, for pipes that run up.
function hatch(colour) {
  const tile = document.createElement('canvas'), size = 6;
  tile.width = tile.height = size;
  const pen = tile.getContext('2d');
  pen.strokeStyle = colour;
  pen.globalAlpha = 0.34;
  pen.lineWidth = 1.3;
  for (const shift of [-size, 0, size]) {
    pen.beginPath();
    pen.moveTo(shift - 1, size + 1);
    pen.lineTo(shift + size + 1, -1);
    pen.stroke();
  }
  return pen.createPattern(tile, 'repeat');
}

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const value = name => style.getPropertyValue('--' + name).trim();
  colours = {};
  hatches = {};
  for (const name of ['page', 'text', 'soft', 'line', 'grid', 'idle', 'mark', 'recv', 'send',
                      'wait', 'versions', 'memory']) {
    colours[name] = value(name);
  }
  for (const kind of ['Fd', 'Fu', 'Bd', 'Bu', 'Id', 'Iu', 'Wd', 'Wu', 'Rd', 'Ru', 'S', 'reduce']) {
    const [fill, line, text] = value(kind).split(' ');
    colours[kind] = {fill, line, text};
    if (kind[1] === 'u') hatches[kind] = hatch(text);
  }
}

function drawBox(pen, kind, x, y, width, height) {
  const {fill, line} = colours[kind];
  pen.fillStyle = fill;
  pen.fillRect(x, y, width > 2 && width < 5 ? width - 0.6 : width, height);  // apart without lines
  if (width < 3) return;
  if (hatches[kind]) {
    pen.fillStyle = hatches[kind];
    pen.fillRect(x, y, width, height);
  }
  if (width < 5) return;
  pen.strokeStyle = line;
  pen.lineWidth = 1;
  pen.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
}

// Waits and sends: a bar in the middle of the row.
function drawBar(pen, kind, x, y, width, height) {
  pen.fillStyle = colours[kind];
  pen.fillRect(x, Math.round(y + height / 2) - 2, width, 3);
}

const isBox = kind => typeof colours[kind] === 'object';
const draw1 = (pen, kind, ...place) => (isBox(kind) ? drawBox : drawBar)(pen, kind, ...place);

// ---- layout: where time and rows are ------------------------------------------------------------

const AXIS = 26, HEAD = 24, LANE = 5, GAP = 4, FONT = 'system-ui, Helvetica, Arial';
const view = $('view'), canvas = $('time'), pen = canvas.getContext('2d');
let from = 0, to = whole;             // the time that is seen
let lines = [], heads = [];           // rows and headings, with y from the top of all
let left = 50, width = 0, height = 0; // where time begins; size of the canvas
let box = 24, chart = 24, tall = 0;   // heights of a row's box, of its memory, of all

const showMemory = () => peak > 0 && $('memory').checked;
const pairs = () => tracks.length > 1 && $('pair').checked;
const scale = () => (width - left - 12) / (to - from);
const xOf = seconds => left + (seconds - from) * scale();
const timeAt = x => from + (x - left) / scale();

// Track by track, or worker by worker.
function order() {
  const all = tracks.flatMap((track, t) => track.rows.map((row, worker) => ({track, t, worker})));
  return pairs() ? all.sort((a, b) => a.worker - b.worker || a.t - b.t) : all;
}

const hasChart = line => showMemory() && line.track.memory.length > 0;
const extra = line => line.track.lanes * LANE + (hasChart(line) ? chart + GAP : 0) + GAP;

// As high as the window allows, within bounds: boxes first, then charts.
function chooseHeights(ordered, others) {
  chart = 24;
  const free = height - others - ordered.reduce((sum, line) => sum + extra(line), 0);
  box = Math.max(17, Math.min(34, Math.floor(free / Math.max(1, ordered.length))));
  const charts = ordered.filter(hasChart).length, left = free - box * ordered.length;
  if (charts && left > 0) chart = Math.min(48, chart + Math.floor(left / charts));
}

function layOut() {
  width = view.clientWidth;
  height = view.clientHeight;
  const ordered = order(), headed = tracks.length > 1 && !pairs();
  const spaces = (headed ? HEAD * tracks.length : 0) + (pairs() ? 6 * workers : 0);
  chooseHeights(ordered, AXIS + 8 + spaces);
  let y = AXIS;
  lines = [];
  heads = [];
  for (const line of ordered) {
    const first = lines.length === 0 || lines[lines.length - 1].t !== line.t;
    if (headed && first) heads.push({text: line.track.name, y}), y += HEAD;
    if (pairs() && first && line.t === 0) y += 6;
    lines.push({...line, y, bottom: y + box + extra(line)});
    y += box + extra(line);
  }
  tall = y + 8;
  left = gutter();
  $('tall').style.height = Math.max(tall, height) + 'px';
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = width + 'px';
  canvas.style.height = height + 'px';
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  leave();
  draw();  // at once, for the new size has emptied the canvas
}

const labelOf = line => `P${line.worker}` + (pairs() ? ' ' + line.track.name : '');

// Room for the widest label, within bounds.
function gutter() {
  pen.font = `12px ${FONT}`;
  const widest = Math.max(0, ...lines.map(line => pen.measureText(labelOf(line)).width));
  return Math.min(Math.max(24, showMemory() ? 72 : 0, Math.ceil(widest) + 16), width / 3);
}

// ---- drawing ------------------------------------------------------------------------------------

let asked = false, hovered = null, pointer = null;

function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; draw(); });
}

// Of a list by start without overlaps: the first that ends after `seconds`.
function firstAfter(list, seconds) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle].end > seconds) high = middle; else low = middle + 1;
  }
  return low;
}

// Where it is seen, cut to what is visible; the lines of a cut end are beyond it.
function extent(one) {
  const x0 = Math.max(xOf(one.start), left - 3), x1 = Math.min(xOf(one.end), width + 3);
  return [x0, Math.max(x1 - x0, 0.8)];
}

// The longest text that fits.
function drawNumber(one, x, y, wide) {
  if (!'FBIWRS'.includes(one.letter)) return;
  const size = Math.min(12, box - 6);
  const texts = one.letter === 'S' ? ['step', 'S'] :
      [`${WORDS[one.letter]} ${micros(one)}, stage ${one.stage}`, micros(one)];
  if (wide < texts[1].length * size * 0.55 + 3) return;  // not worth measuring
  pen.font = `${size}px ${FONT}`;
  const text = texts.find(each => pen.measureText(each).width + 5 <= wide);
  if (text === undefined) return;
  pen.textAlign = 'center';
  if (hatches[one.kind]) {
    pen.strokeStyle = colours[one.kind].fill;
    pen.lineWidth = 3;
    pen.lineJoin = 'round';
    pen.strokeText(text, x + wide / 2, y + box / 2 + 1);
  }
  pen.fillStyle = colours[one.kind].text;
  pen.fillText(text, x + wide / 2, y + box / 2 + 1);
}

function drawIntervals(list, y) {
  let drawn = -1;  // up to here, by boxes of less than a pixel
  for (let at = firstAfter(list, from); at < list.length && list[at].start <= to; ++at) {
    const one = list[at], [x, wide] = extent(one);
    if (wide < 1) {
      if (x + wide < drawn) continue;
      drawn = x + 1;
    }
    draw1(pen, one.kind, x, y, wide, box);
    drawNumber(one, x, y, wide);
  }
}

function drawReductions(line, y) {
  for (const one of line.track.reductions[line.worker] || []) {
    if (one.end < from || one.start > to) continue;
    const [x, wide] = extent(one);
    drawBox(pen, 'reduce', x, y + one.lane * LANE + 1, wide, LANE - 1);
  }
}

// Steps, on one scale for all; of levels that share a pixel, the highest.
function drawMemory(levels, end, y) {
  const base = y + chart - 1, up = (chart - 3) / peak;
  let x = Math.max(left, levels.length ? xOf(levels[0][0]) : left), level = 0, most = 0;
  pen.beginPath();
  pen.moveTo(x, base);
  for (const [seconds, count] of levels) {
    const next = xOf(seconds);
    if (next > width) break;
    if (next >= x + 1) {
      pen.lineTo(x, base - most * up);
      pen.lineTo(x, base - level * up);
      pen.lineTo(next, base - level * up);
      x = next;
      most = 0;
    }
    level = count;
    if (next >= left) most = Math.max(most, count);
  }
  pen.lineTo(x, base - Math.max(most, level) * up);
  pen.lineTo(x, base - level * up);
  const right = Math.max(x, Math.min(width, xOf(end)));
  pen.lineTo(right, base - level * up);
  pen.lineTo(right, base);
  pen.fillStyle = colours.memory;
  pen.globalAlpha = 0.45;
  pen.fill();
  pen.globalAlpha = 1;
  pen.fillRect(left, base, right - left, 1);
}

const chartTop = line => line.y + box + line.track.lanes * LANE + GAP / 2;

function drawLine(line, y) {
  const end = Math.min(xOf(line.track.makespan), width), begin = Math.max(xOf(0), left);
  pen.fillStyle = colours.idle;
  pen.fillRect(begin, y, Math.max(0, end - begin), box);
  drawIntervals(line.track.rows[line.worker], y);
  if (line.track.lanes) drawReductions(line, y + box);
  const levels = line.track.memory[line.worker];
  if (showMemory() && levels) drawMemory(levels, line.track.makespan, y + chartTop(line) - line.y);
}

function drawLabels(line, y) {
  pen.textAlign = 'right';
  pen.fillStyle = colours.text;
  pen.font = `12px ${FONT}`;
  pen.fillText(labelOf(line), left - 8, y + box / 2 + 1, left - 12);
  if (!showMemory() || !line.track.memory[line.worker]) return;
  pen.fillStyle = colours.soft;
  pen.font = `10px ${FONT}`;
  const middle = y + chartTop(line) - line.y + chart / 2;
  pen.fillText(bytes(line.track.peaks[line.worker]), left - 8, middle);
}

function drawAxis() {
  pen.fillStyle = colours.page;
  pen.fillRect(0, 0, width, AXIS - 2);
  pen.fillStyle = colours.line;
  pen.fillRect(left, AXIS - 4, width - left, 1);
  const step = roundStep(90 / scale()), [size, unit] = unitOf(to);
  const digits = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
  pen.font = `11px ${FONT}`;
  pen.textAlign = 'center';
  for (let tick = Math.ceil(from / step - 1e-9); tick * step <= to; ++tick) {
    const x = Math.round(xOf(tick * step));
    pen.fillStyle = colours.grid;
    pen.fillRect(x, AXIS - 4, 1, Math.min(height, tall - view.scrollTop) - AXIS);
    pen.fillStyle = colours.soft;
    pen.fillRect(x, AXIS - 8, 1, 5);
    const text = `${(tick * step / size).toFixed(digits)} ${unit}`;
    if (x + pen.measureText(text).width / 2 < width) pen.fillText(text, x, 10);
  }
}

function drawMarks(top) {
  pen.strokeStyle = colours.mark;
  pen.lineWidth = 2;
  for (const {line, one} of hovered ? [hovered, ...hovered.twins] : []) {
    const [x, wide] = extent(one), lane = hovered.lane ? box + one.lane * LANE : 0;
    pen.strokeRect(x - 1, line.y - top + lane - 1, wide + 2, (hovered.lane ? LANE : box) + 2);
  }
  if (!pointer || pointer.x < left) return;
  pen.fillStyle = colours.mark;
  pen.globalAlpha = 0.5;
  pen.fillRect(pointer.x, AXIS, 1, height);
  pen.globalAlpha = 1;
}

function draw() {
  const top = view.scrollTop;
  pen.clearRect(0, 0, width, height);
  pen.textBaseline = 'middle';
  const seen = lines.filter(line => line.bottom > top + AXIS - 20 && line.y < top + height);
  pen.save();
  pen.beginPath();
  pen.rect(left, AXIS - 2, width - left, height);
  pen.clip();
  for (const line of seen) drawLine(line, line.y - top);
  drawMarks(top);
  pen.restore();
  for (const line of seen) drawLabels(line, line.y - top);
  pen.fillStyle = colours.text;
  for (const head of heads) {
    pen.font = `600 13px ${FONT}`;
    pen.textAlign = 'left';
    pen.fillText(head.text, 12, head.y - top + HEAD / 2);
  }
  drawAxis();
}

// ---- moving -------------------------------------------------------------------------------------

function show(begin, length) {
  length = Math.min(whole, Math.max(length, whole * 1e-7));
  from = Math.min(Math.max(0, begin), whole - length);
  to = from + length;
  redraw();
}

// Keeps the time under x where it is.
function zoom(factor, x = (left + width) / 2) {
  const fixed = timeAt(x), length = Math.min(whole, Math.max((to - from) * factor, whole * 1e-7));
  show(fixed - (fixed - from) * length / (to - from), length);
}

const move = pixels => show(from + pixels / scale(), to - from);
const reset = () => show(0, whole);

canvas.addEventListener('wheel', event => {
  event.preventDefault();
  const unit = event.deltaMode === 1 ? 16 : 1;
  if (event.shiftKey) {
    view.scrollTop += (event.deltaY || event.deltaX) * unit;
  } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    move(event.deltaX * unit);
  } else {
    zoom(Math.exp(event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.002)), event.offsetX);
  }
  hover(event);
}, {passive: false});

let drag = null;
canvas.addEventListener('pointerdown', event => {
  if (event.button !== 0) return;
  drag = {x: event.clientX, y: event.clientY};
  canvas.setPointerCapture(event.pointerId);
  canvas.classList.add('moving');
});
canvas.addEventListener('pointermove', event => {
  if (drag) {
    move(drag.x - event.clientX);
    view.scrollTop += drag.y - event.clientY;
    drag = {x: event.clientX, y: event.clientY};
  }
  hover(event);
});
function release() {
  drag = null;
  canvas.classList.remove('moving');
}
canvas.addEventListener('pointerup', release);
canvas.addEventListener('pointercancel', release);
canvas.addEventListener('pointerleave', () => { pointer = null; leave(); });
canvas.addEventListener('dblclick', reset);
view.addEventListener('scroll', () => { leave(); redraw(); });

const KEYS = {
  ArrowLeft: () => move(-80), ArrowRight: () => move(80),
  ArrowUp: () => { view.scrollTop -= 60; }, ArrowDown: () => { view.scrollTop += 60; },
  '+': () => zoom(1 / 1.5), '=': () => zoom(1 / 1.5), '-': () => zoom(1.5), '0': reset, Home: reset,
};
window.addEventListener('keydown', event => {
  if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  KEYS[event.key]();
});

$('in').onclick = () => zoom(1 / 1.5);
$('out').onclick = () => zoom(1.5);
$('whole').onclick = reset;
$('memory').onchange = $('pair').onchange = layOut;

// ---- what is under the pointer ------------------------------------------------------------------

// The interval at this place of a row, within two pixels.
function hit(line, x, y) {
  const below = y - line.y - box, near = 2 / scale(), at = timeAt(x);
  const touches = one => one.start - near <= at && at <= one.end + near;
  if (below >= 0) {
    const lane = Math.floor(below / LANE), all = line.track.reductions[line.worker] || [];
    return lane < line.track.lanes && all.find(one => one.lane === lane && touches(one));
  }
  const row = line.track.rows[line.worker], first = firstAfter(row, at);
  const exact = row[first] && row[first].start <= at ? row[first] : null;
  return exact || [row[first], row[first - 1]].find(one => one && touches(one));
}

// The same action of the same worker in the other tracks.
function twinsOf(line, one, lane) {
  const twins = [];
  for (const other of lines) {
    if (other.t === line.t || other.worker !== line.worker) continue;
    const list = (lane ? other.track.reductions : other.track.rows)[line.worker] || [];
    const found = list.find(each => each.name === one.name);
    if (found) twins.push({line: other, one: found});
  }
  return twins;
}

function difference(seconds, more, less) {
  if (Math.abs(seconds) < 1e-9 * whole) return null;
  return time(Math.abs(seconds), 3) + ' ' + (seconds > 0 ? more : less);
}

function textsOf({line, one, twins, lane}) {
  const texts = [[lane ? `all-reduce, stage ${one.stage}` : describe(one)]];
  if (one.age > 0) {
    texts.push([`weights of ${one.age} ${one.age > 1 ? 'steps' : 'step'} ago`]);
  }
  texts.push([`worker P${line.worker}, ${line.track.name}`, 'soft']);
  texts.push([`${time(one.start)} to ${time(one.end)}, takes ${time(one.end - one.start)}`]);
  for (const twin of twins) {
    const begins = difference(twin.one.start - one.start, 'later', 'earlier');
    const takes = difference((twin.one.end - twin.one.start) - (one.end - one.start), 'longer',
                             'shorter');
    texts.push([`${twin.line.track.name}: ` + (begins ? `begins ${begins}` : 'begins then too') +
                ', ' + (takes ? `takes ${takes}` : 'takes as long'), 'soft']);
  }
  return texts;
}

function memoryAt(line, x, y) {
  const levels = showMemory() && line.track.memory[line.worker], top = chartTop(line);
  if (!levels || y < top || y >= top + chart) return null;
  let level = 0;
  for (const [seconds, count] of levels) {
    if (seconds > timeAt(x)) break;
    level = count;
  }
  return [[`${bytes(level)} at ${time(timeAt(x))}`],
          [`worker P${line.worker}, ${line.track.name}; ` +
           `peak ${bytes(line.track.peaks[line.worker])}`, 'soft']];
}

function showTip(texts, event) {
  const tip = $('tip');
  tip.replaceChildren(...texts.map(([text, css]) => {
    const part = document.createElement('div');
    part.textContent = text;
    part.className = css || '';
    return part;
  }));
  tip.style.display = 'block';
  const fits = (at, size, room) => at + 16 + size < room ? at + 16 : Math.max(0, at - size - 12);
  tip.style.left = fits(event.clientX, tip.offsetWidth, innerWidth) + 'px';
  tip.style.top = fits(event.clientY, tip.offsetHeight, innerHeight) + 'px';
}

function leave() {
  hovered = null;
  $('tip').style.display = 'none';
  redraw();
}

function hover(event) {
  const area = canvas.getBoundingClientRect();
  const x = event.clientX - area.left, y = event.clientY - area.top;
  pointer = {x, y};
  hovered = null;
  $('tip').style.display = 'none';
  redraw();
  if (x < left || y < AXIS) return;
  const down = y + view.scrollTop, line = lines.find(each => each.y <= down && down < each.bottom);
  if (!line) return;
  const one = hit(line, x, down), lane = down - line.y >= box;
  if (one) {
    hovered = {line, one, lane, twins: twinsOf(line, one, lane)};
    showTip(textsOf(hovered), event);
    return;
  }
  const texts = memoryAt(line, x, down);
  if (texts) showTip(texts, event);
}

// ---- head of the page ---------------------------------------------------------------------------

function fillSummary() {
  $('title').textContent = document.title = data.title || 'Timeline';
  canvas.setAttribute('aria-label', `${data.title}: what ${workers} workers do over time`);
  const table = $('summary'), row = (cells, tag) => {
    const line = table.insertRow();
    for (const text of cells) {
      line.appendChild(document.createElement(tag)).textContent = text;
    }
  };
  row(['', 'makespan', 'bubble ratio', ...(peak ? ['peak memory'] : [])], 'th');
  for (const track of tracks) {
    const most = Math.max(0, ...track.peaks);
    row([track.name, time(track.makespan), (100 * track.bubble).toFixed(1) + ' %',
         ...(peak ? [most ? bytes(most) : ''] : [])], 'td');
  }
  $('memory-label').hidden = !peak;
  $('pair-label').hidden = tracks.length < 2;
}

// Only what occurs, each as the rows show it.
function fillLegend() {
  const kinds = new Set(tracks.flatMap(track => track.rows.flat().map(one => one.kind)));
  if (tracks.some(track => track.lanes)) kinds.add('reduce');
  const order = ['Fd', 'Fu', 'Rd', 'Ru', 'Bd', 'Bu', 'Id', 'Iu', 'Wd', 'Wu', 'S', 'recv', 'send',
                 'wait', 'reduce', 'versions'];
  const ratio = window.devicePixelRatio || 1;
  $('legend').replaceChildren(...order.filter(kind => kinds.has(kind)).map(kind => {
    const item = document.createElement('span'), sample = document.createElement('canvas');
    sample.width = 26 * ratio;
    sample.height = 14 * ratio;
    sample.style.cssText = 'width: 26px; height: 14px';
    const small = sample.getContext('2d');
    small.scale(ratio, ratio);
    if (kind === 'reduce') drawBox(small, kind, 0, 5, 26, LANE - 1);
    else draw1(small, kind, 0, 0, 26, 14);
    item.append(sample, legendWord(kind));
    return item;
  }));
}

function restyle() {
  readColours();
  fillLegend();
  redraw();
}

fillSummary();
restyle();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', restyle);
new ResizeObserver(layOut).observe(view);
layOut();
</script>
</body>
</html>
)page";

}  // namespace

std::string page_around(std::string_view data) {
  const std::size_t place = kPage.find(kPlace);
  std::string page(kPage.substr(0, place));
  page += data;
  return page += kPage.substr(place + kPlace.size());
}

}  // namespace chimera
