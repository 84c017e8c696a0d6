// Pictures on the page. A picture is shown as SVG whose elements and attributes are listed below.

import { element, hideTooltip, probability, status, tooltip } from "./elements.js";

export const SVG = "http://www.w3.org/2000/svg";
export const STYLE = /<style>[^<]*<\/style>/; // of a picture; the page has the same rules in pictures-*.css
const DRAWN = new Set(["svg", "g", "title", "desc", "rect", "line", "circle", "text", "path", "polyline"]);
const ATTRIBUTES = new Set([
  "class", "width", "height", "viewBox", "role", "aria-label", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "d",
  "points", "transform", "text-anchor", "fill-opacity", "data-start", "data-end",
]);
const RIGHT_TO_LEFT = /^\P{L}*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u;
const NEAR = 24; // pixels: from a finger to the middle of a circle
const RING = { roomy: 7, labelled: 5.5 }; // pixels: radius of the ring around a constituent that another tree lacks

// A picture without its style, which the page's content policy would report.
export const parsed = (source) => new DOMParser().parseFromString(source.replace(STYLE, ""), "image/svg+xml").documentElement;

// The picture with a ring around the constituents with these spans.
export function ringed(source, spans) {
  const root = parsed(source);
  const radius = root.querySelector(".slm-label") ? RING.labelled : RING.roomy;
  for (const [start, end] of spans) {
    for (const group of root.querySelectorAll(`[data-start="${start}"][data-end="${end}"]`)) {
      const ring = group.querySelector("circle").cloneNode();
      ring.setAttribute("class", "slm-node-differs");
      ring.setAttribute("r", radius);
      group.prepend(ring);
    }
  }
  return new XMLSerializer().serializeToString(root).replace(">", () => `>${STYLE.exec(source)[0]}`);
}

// A copy of a picture with known elements and attributes only. Its style is that of pictures-*.css.
function picture(source) {
  const root = parsed(source);
  return root.localName === "svg" ? copied(root) : null;
}

function copied(node) {
  if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
  if (node.nodeType !== Node.ELEMENT_NODE || !DRAWN.has(node.localName)) return null;
  const made = document.createElementNS(SVG, node.localName);
  for (const { name, value } of node.attributes) if (ATTRIBUTES.has(name)) made.setAttribute(name, value);
  for (const child of node.childNodes) {
    const copy = copied(child);
    if (copy) made.append(copy);
  }
  return made;
}

// A picture that scrolls if the page is too narrow. sentence: its text, for the side at which the picture starts.
// kind: "sentence" for pictures that share their magnification and have room for it, else "chart".
export function figure(source, label, sentence = "", kind = "sentence") {
  const drawn = picture(source);
  const dir = RIGHT_TO_LEFT.test(sentence) ? "rtl" : null;
  const made = element("figure", { class: kind, "aria-label": label, tabindex: 0, role: "group", dir }, drawn);
  made.style.setProperty("--width", `${drawn.getAttribute("width")}px`);
  made.addEventListener("click", ({ target }) => { // touch screens show no titles
    const title = target.querySelector(":scope > title");
    if (title && target !== drawn) tooltip(title.textContent, target);
  });
  return made;
}

// The titles of elements, which are removed, because the page shows them itself.
function titlesOf(elements) {
  const texts = new Map();
  for (const one of elements) {
    const title = one.querySelector("title");
    texts.set(one, title?.textContent ?? "");
    title?.remove();
  }
  return texts;
}

const onPointer = (target, enter) => {
  target.addEventListener("pointerenter", ({ pointerType }) => pointerType === "mouse" && enter());
  target.addEventListener("pointerleave", ({ pointerType }) => pointerType === "mouse" && hideTooltip());
};

// Arrow keys go to other elements of a picture. step: the change for a key; null for others.
function onKeys(drawn, step, show) {
  drawn.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideTooltip();
    const target = step(event.key);
    if (!target) return;
    event.preventDefault();
    target.scrollIntoView({ block: "nearest", inline: "nearest" });
    status(show(target));
  });
  drawn.addEventListener("blur", hideTooltip);
}

// Constituents of a tree react to the pointer and to the arrow keys, and mark their words and their row of the table.
export function connect(drawn, marks, parse) {
  const groups = [...drawn.querySelectorAll("[data-start]")];
  const words = [...drawn.querySelectorAll(".slm-word, .slm-unknown")];
  const rows = [...marks.querySelectorAll("tbody tr")];
  const places = parse.spans.map(String);
  const texts = titlesOf(groups);
  const span = (group) => [Number(group.dataset.start), Number(group.dataset.end)];
  function mark(group, on) {
    const [start, end] = span(group);
    group.classList.toggle("on", on);
    words.slice(start, end).forEach((word) => word.classList.toggle("on", on));
    rows[places.indexOf(String([start, end]))]?.classList.toggle("on", on);
  }
  function show(group) {
    hideTooltip();
    mark(group, true);
    tooltip(texts.get(group), group, () => mark(group, false));
    return texts.get(group);
  }
  groups.forEach((group) => onPointer(group, () => show(group)));
  rows.forEach((row, place) => {
    const group = groups.find((one) => String(span(one)) === places[place]);
    if (group) onPointer(row, () => show(group));
  });
  drawn.addEventListener("click", (event) => {
    const far = groups.map((group) => [distance(group, event), group]).sort(([one], [other]) => one - other);
    if (far.length && far[0][0] <= NEAR) show(far[0][1]);
  });
  let current = -1;
  onKeys(drawn, (key) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
    if (!step || !groups.length) return null;
    current = (current + step + groups.length) % groups.length;
    return groups[current];
  }, show);
}

// The squares of a chart react likewise. They are in the order of the first words, then of the last ones.
export function connectChart(drawn, words, value) {
  const cells = [...drawn.querySelectorAll("rect")].filter((cell) => cell.querySelector(":scope > title"));
  if (cells.length !== (words.length * (words.length + 1)) / 2) return;
  const titles = titlesOf(cells);
  const places = words.flatMap((_, first) => words.slice(first).map((__, more) => [first, first + more]));
  const cellAt = (first, last) => cells[places.findIndex(([row, column]) => row === first && column === last)];
  const texts = new Map(cells.map((cell, place) => {
    const [first, last] = places[place];
    return [cell, `${words.slice(first, last + 1).join(" ")}: ${value} ${probability(Number(titles.get(cell).split(": ").at(-1)))}`];
  }));
  function show(cell) {
    hideTooltip();
    cell.classList.add("on");
    tooltip(texts.get(cell), cell, () => cell.classList.remove("on"));
    return texts.get(cell);
  }
  cells.forEach((cell) => {
    onPointer(cell, () => show(cell));
    cell.addEventListener("click", () => show(cell));
  });
  let [first, last] = [0, -1];
  onKeys(drawn, (key) => {
    const [down, across] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[key] ?? [0, 0];
    if (!down && !across) return null;
    last = Math.min(Math.max(last + across, 0), words.length - 1);
    first = Math.min(Math.max(first + down, 0), last);
    return cellAt(first, last);
  }, show);
}

function distance(group, { clientX, clientY }) {
  const { left, right, top, bottom } = group.getBoundingClientRect();
  return Math.hypot(clientX - (left + right) / 2, clientY - (top + bottom) / 2);
}
