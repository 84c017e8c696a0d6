// Elements of the page, its messages, and requests to the JSON interface. Text reaches the document only as text.

export const $ = (id) => document.getElementById(id);

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, handler] of Object.entries(value)) made.addEventListener(event, handler);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const button = (text, handler, attributes = {}) =>
  element("button", { type: "button", on: { click: handler }, ...attributes }, text);

export const toolbar = (name, buttons) =>
  element("div", { class: "toolbar", role: "group", "aria-label": name }, name, ...buttons);

export const number = (value, digits = 2) => (value === null || value === undefined ? "" : value.toFixed(digits));

// A probability with at least two significant digits: 0.68, 0.012, 3.1e-5.
export const probability = (value) => (value >= 0.1 || value === 0 ? value.toFixed(2) : value < 1e-3 ? value.toExponential(1) : value.toPrecision(2));

export const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

export function status(message, wrong = false) {
  $("status").textContent = message;
  $("status").classList.toggle("wrong", wrong);
}

export const right = (text) => ({ text }); // a cell of a number

export function table(caption, heads, rows) {
  const cell = (name, value, scope) =>
    element(name, { class: typeof value === "object" ? "number" : null, scope }, String(value?.text ?? value));
  const body = element("tbody");
  for (const row of rows) body.append(element("tr", {}, ...row.map((value) => cell("td", value))));
  return element(
    "div", { class: "scroll" },
    element(
      "table", {}, element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...heads.map((head) => cell("th", head, "col")))), body,
    ),
  );
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

export class Refused extends Error {}

export async function ask(path, body) {
  let answer;
  try {
    answer = await fetch(path, body && {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    });
  } catch {
    throw new Refused("The server does not answer. Is it still running?");
  }
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(content.detail ?? `The server answered ${answer.status}.`);
  return content;
}
