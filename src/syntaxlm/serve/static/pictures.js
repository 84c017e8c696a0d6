// Pictures on the page and as files. A picture is shown as SVG whose elements and attributes are listed below.

import { $, element, hideTooltip, status, tooltip } from "./elements.js";

const SVG = "http://www.w3.org/2000/svg";
const STYLE = /<style>[^<]*<\/style>/; // of a picture; the page has the same rules in pictures-*.css
const DRAWN = new Set(["svg", "g", "title", "desc", "rect", "line", "circle", "text", "path", "polyline"]);
const ATTRIBUTES = new Set([
  "class", "width", "height", "viewBox", "role", "aria-label", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "d",
  "points", "transform", "text-anchor", "fill-opacity", "data-start", "data-end",
]);
const RIGHT_TO_LEFT = /^\P{L}*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u;
const NEAR = 24; // pixels: from a finger to the middle of a circle
const HEADING = 30; // pixels: height of the heading of a downloaded picture
const MARGIN = 12; // pixels
const NARROWEST = 320; // pixels: of a picture with a heading

// A picture without its style, which the page's content policy would report.
const parsed = (source) => new DOMParser().parseFromString(source.replace(STYLE, ""), "image/svg+xml").documentElement;

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
export function figure(source, label, sentence = "") {
  const drawn = picture(source);
  const dir = RIGHT_TO_LEFT.test(sentence) ? "rtl" : null;
  const made = element("figure", { "aria-label": label, tabindex: 0, role: "group", dir }, drawn);
  made.style.setProperty("--width", `${drawn.getAttribute("width")}px`);
  made.addEventListener("click", ({ target }) => { // touch screens show no titles
    const title = target.querySelector(":scope > title");
    if (title && target !== drawn) tooltip(title.textContent, target);
  });
  return made;
}

// Constituents of a tree react to the pointer and to the arrow keys, and mark their words and their row of the table.
export function connect(drawn, marks, parse) {
  const groups = [...drawn.querySelectorAll("[data-start]")];
  const words = [...drawn.querySelectorAll(".slm-word, .slm-unknown")];
  const rows = [...marks.querySelectorAll("tbody tr")];
  const places = parse.spans.map(String);
  const texts = new Map();
  for (const group of groups) {
    const title = group.querySelector("title");
    texts.set(group, title?.textContent ?? "");
    title?.remove();
  }
  let current = -1;
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
  }
  const listen = (target, group) => {
    target.addEventListener("pointerenter", ({ pointerType }) => pointerType === "mouse" && show(group));
    target.addEventListener("pointerleave", ({ pointerType }) => pointerType === "mouse" && hideTooltip());
  };
  groups.forEach((group) => listen(group, group));
  rows.forEach((row, place) => {
    const group = groups.find((one) => String(span(one)) === places[place]);
    if (group) listen(row, group);
  });
  drawn.addEventListener("click", (event) => {
    const far = groups.map((group) => [distance(group, event), group]).sort(([one], [other]) => one - other);
    if (far.length && far[0][0] <= NEAR) show(far[0][1]);
  });
  drawn.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") hideTooltip();
    if (!step || !groups.length) return;
    event.preventDefault();
    current = (current + step + groups.length) % groups.length;
    groups[current].scrollIntoView({ block: "nearest", inline: "nearest" });
    show(groups[current]);
    status(texts.get(groups[current]));
  });
  drawn.addEventListener("blur", hideTooltip);
}

function distance(group, { clientX, clientY }) {
  const { left, right, top, bottom } = group.getBoundingClientRect();
  return Math.hypot(clientX - (left + right) / 2, clientY - (top + bottom) / 2);
}

// ---- files

export const fileName = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 40) || "sentence";

export const json = (content) => `${JSON.stringify(content, null, 2)}\n`;

// Rows of the same fields, as in RFC 4180, but with the line ends of the package's files.
export function csv(rows) {
  const cell = (value) => (/[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
  return [Object.keys(rows[0] ?? {}), ...rows.map(Object.values)].map((row) => `${row.map(cell).join(",")}\n`).join("");
}

export function save(name, content, kind) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type: `${kind};charset=utf-8` }));
  const link = element("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export const saveSvg = (name, source, heading) => save(`${name}.svg`, headed(source, heading), "image/svg+xml");

// A picture with a line above it, which says what the page says around it. A line that is too long is cut.
function headed(source, heading) {
  const root = parsed(source);
  const [width, height] = ["width", "height"].map((side) => Number(root.getAttribute(side)));
  const wide = Math.max(width, NARROWEST);
  const pen = element("canvas").getContext("2d");
  pen.font = "13px 'DejaVu Sans', sans-serif";
  const all = [...heading.replace(/[\p{Cc}\p{Cn}]/gu, " ")]; // XML cannot hold some of these
  const letters = [...all];
  const line = () => letters.join("") + (letters.length < all.length ? "…" : "");
  while (letters.length && pen.measureText(line()).width > wide - 2 * MARGIN) letters.pop();
  const set = (target, values) => Object.entries(values).forEach(([name, value]) => target.setAttribute(name, value));
  set(root, { width: wide, height: height + HEADING, viewBox: `0 ${-HEADING} ${wide} ${height + HEADING}` });
  set(root.querySelector(".slm-paper"), { y: -HEADING, width: wide, height: height + HEADING });
  const text = document.createElementNS(SVG, "text");
  set(text, { class: "slm-heading", x: MARGIN, y: MARGIN + 10 - HEADING });
  text.textContent = line();
  root.append(text);
  return new XMLSerializer().serializeToString(root).replace(">", () => `>${STYLE.exec(source)[0]}`);
}

const isDark = () => getComputedStyle(document.documentElement).colorScheme === "dark" ||
  ($("theme").value === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);

// The picture at twice its size, in the colours of the page.
export async function savePng(name, source, heading) {
  const scale = 2;
  const style = await (await fetch(`pictures-${isDark() ? "dark" : "light"}.css`)).text();
  const coloured = headed(source, heading).replace(STYLE, () => `<style>${style}</style>`);
  const url = URL.createObjectURL(new Blob([coloured], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = element("canvas");
    canvas.width = image.naturalWidth * scale;
    canvas.height = image.naturalHeight * scale;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    save(`${name}.png`, await new Promise((done) => canvas.toBlob(done, "image/png")));
  } catch {
    status("The browser cannot draw this picture as PNG. Download it as SVG.", true);
  } finally {
    URL.revokeObjectURL(url);
  }
}
