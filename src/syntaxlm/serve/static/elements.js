// Elements of the page, and its messages. Text reaches the document only as text.

export const $ = (id) => document.getElementById(id);

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, handler] of Object.entries(value)) made.addEventListener(event, handler);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export const button = (text, handler, attributes = {}) =>
  element("button", { type: "button", on: { click: handler }, ...attributes }, text);

export const toolbar = (name, buttons) =>
  element("div", { class: "toolbar", role: "group", "aria-label": name }, name, ...buttons);

export const fold = (summary, ...content) => element("details", {}, element("summary", {}, summary), ...content);

// A number with some digits after the point; "" for a missing one. What rounds to 0 has no sign.
export function number(value, digits = 2) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  return value.toFixed(digits).replace(/^-(?=[0.]+$)/, "");
}

// A probability with at least two significant digits: 0.68, 0.012, 3.1e-5.
export const probability = (value) => (value >= 0.1 || value === 0 ? value.toFixed(2) : value < 1e-3 ? value.toExponential(1) : value.toPrecision(2));

// A share as a percentage with two significant digits: 3.1%, 0.012%, 100%.
export const percent = (share) => {
  const text = (100 * share).toPrecision(2);
  return `${text.includes("e") ? Number(text) : text}%`;
};

export const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

// A text with its own direction, among others.
export const isolated = (text) => `\u2068${text}\u2069`;

export const listed = (texts, between) => [...new Set(texts)].map(isolated).join(between);

export function status(message, wrong = false) {
  $("status").textContent = message;
  $("status").classList.toggle("wrong", wrong);
}

export const right = (text) => ({ text }); // a cell of a number

// A cell is a text, a number from `right`, or an element.
export function table(caption, heads, rows) {
  const body = element("tbody");
  for (const row of rows) body.append(element("tr", {}, ...row.map((value) => cell("td", value))));
  return element(
    "div", { class: "scroll", role: "group", "aria-label": caption, tabindex: 0 },
    element(
      "table", {}, element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...heads.map((head) => cell("th", head, "col")))), body,
    ),
  );
}

function cell(name, value, scope) {
  if (value instanceof Node) return element(name, { scope }, value);
  const isNumber = typeof value === "object";
  return element(name, { class: isNumber ? "number" : null, scope, dir: isNumber ? null : "auto" }, String(isNumber ? value.text : value));
}

let forget = () => {}; // what marks the element that the tooltip is about

// Shows a text above an element, until the pointer is pressed elsewhere. clear: called when it is hidden.
export function tooltip(text, target, clear = () => {}) {
  const shown = $("tooltip");
  forget = clear;
  shown.textContent = text;
  shown.hidden = false;
  const place = target.getBoundingClientRect();
  const size = shown.getBoundingClientRect();
  const left = Math.min(Math.max(8, place.left + place.width / 2 - size.width / 2), document.documentElement.clientWidth - size.width - 8);
  const above = place.top - size.height - 6;
  shown.style.left = `${left + window.scrollX}px`;
  shown.style.top = `${(above > 4 ? above : place.bottom + 6) + window.scrollY}px`;
}

export function hideTooltip() {
  $("tooltip").hidden = true;
  forget();
  forget = () => {};
}
