// The page: its form, its state in the address, and the results of each task.

import { $, button, counted, element, hideTooltip, status } from "./elements.js";
import { centre, magnify } from "./magnification.js";
import { accuracyOf, can, cardsOf, chip, citationOf, perplexitiesOf } from "./models.js";
import { Refused, ask } from "./requests.js";
import { chosenColumns, textOf } from "./tables.js";
import * as tasks from "./tasks.js";
import "./theme.js";

const TABS = ["sentences", "pair", "generate"];
const ACTIONS = { sentences: "Parse", pair: "Compare", generate: "Generate" };
const TREE = "(S (NP The old) (VP man (NP the boats)))";
const EXAMPLES = {
  sentences: [
    ["Garden path", "The old man the boats.\nThe horse raced past the barn fell."],
    ["Attachment", "She saw the man with the telescope."],
    ["Coordination", "The old men and women left the house early."],
    ["Relative clause", "The reporter who the senator attacked admitted the error."],
    ["News", "The company said it expects sales to rise in the second half of the year."],
    ["Your own tree", TREE],
  ],
  pair: [
    ["Agreement", "The keys to the cabinet are on the table.", "The keys to the cabinet is on the table."],
    ["Reflexive", "The girls hurt themselves.", "The girls hurt herself."],
  ],
  generate: [],
};
const FIELDS = {
  sentences: { text: "text", lines: "lines", column: "column", decoder: "decoder", layer: "layer", labels: "labels" },
  pair: { first: "first", second: "second", pairs: "pairs", first_column: "first-column", second_column: "second-column" },
  generate: {
    count: "count", seed: "seed", max_words: "max-words", trees: "trees", prompt: "prompt", temperature: "temperature",
    top_k: "top-k",
  },
};
const RERUN = ["column", "decoder", "layer", "labels", "lines", "first-column", "second-column"]; // results follow at once

const LOCAL = /^(localhost|127\.[\d.]+|\[::1\])$/;
const SLOW = 250; // milliseconds until the page says that it computes
const LONGEST = 120_000; // milliseconds until it stops waiting
const STARTING = 503; // status of a server whose models are still being read
const PAUSE = 2000; // milliseconds until it is asked again

let server = { models: [], limits: {} };
let tab = "sentences";
let missing = []; // what the address asks for and this server lacks
let reading = 1; // of a single sentence
let running = null; // the AbortController of the latest request
// The results of each task: state is the fragment that they belong to.
const views = Object.fromEntries(TABS.map((name) => [name, { node: element("div", { class: "view" }), state: null, message: "" }]));

function chosen() {
  const names = [...document.querySelectorAll("#models input:checked")].map((input) => input.value);
  return server.models.filter((model) => names.includes(model.name));
}

// ---- state in the address, after #, which a browser does not send to the server

function fragment() {
  const state = new URLSearchParams({ view: tab });
  for (const model of chosen()) state.append("model", model.name);
  for (const [name, id] of Object.entries(FIELDS[tab])) {
    const field = $(id);
    const value = field.type === "checkbox" ? (field.checked ? "1" : "") : field.value;
    if (value !== "" && !field.closest("label[hidden]")) state.set(name, value);
  }
  if (tab === "sentences" && reading > 1) state.set("reading", reading);
  return `#${state}`;
}

function restore() {
  const state = new URLSearchParams(location.hash.slice(1));
  const view = state.get("view");
  if (!TABS.includes(view)) return false;
  const names = state.getAll("model");
  missing = names.filter((name) => !server.models.some((model) => model.name === name)).map((name) => `the model ${name}`);
  if (names.length) document.querySelectorAll("#models input").forEach((input) => { input.checked = names.includes(input.value); });
  select(view);
  for (const [name, id] of Object.entries(FIELDS[view])) {
    const field = $(id);
    if (field.type === "checkbox") field.checked = state.get(name) === "1";
    else field.value = state.get(name) ?? (field.tagName === "SELECT" ? "" : field.defaultValue);
    if (["text", "pairs"].includes(id)) columns(); // their selects have the columns of the text
    if (["decoder", "layer"].includes(name) && field.value !== (state.get(name) ?? "")) missing.push(`the ${name} ${state.get(name)}`);
  }
  columns();
  options(); // one of them, With trees, decides which others are shown
  $("many").open = $("pairs").value !== "";
  reading = Math.max(1, Number(state.get("reading")) || 1);
  return true;
}

// Shows what the address asks for; never the results of other models, decoders or layers. Returns false for no state.
function follow() {
  if (!restore()) return false;
  if (!missing.length) {
    submit({ isReturn: true });
    return true;
  }
  stop();
  show([]);
  const names = server.models.map(({ name }) => name).join(", ");
  status(`The link asks for ${missing.join(" and ")}, which this server does not have. It has the models ${names}. Select what to use, then press ${ACTIONS[tab]}.`, true);
  return true;
}

// ---- results

// Shows results of the task instead of the present ones. The guide is open as long as there are none.
function show(content) {
  const view = views[tab];
  hideTooltip();
  if (!content.length || !view.node.childElementCount) $("guide").open = !content.length;
  view.node.replaceChildren(...content);
  view.node.classList.remove("stale");
  $("results").replaceChildren(view.node);
  fit();
  for (const figure of view.node.querySelectorAll("figure.sentence")) centre(figure, figure.querySelector(".slm-bar[fill-opacity]"));
}

function fit() {
  const view = views[tab].node;
  magnify(view, $("fit").checked);
  const isCut = [...view.querySelectorAll("figure.sentence")].some((figure) => figure.scrollWidth > figure.clientWidth + 1);
  $("fit-all").hidden = !isCut && !$("fit").checked;
}

// Marks results that do not belong to what the form says now.
function checkStale() {
  const view = views[tab];
  if (!view.node.childElementCount || running) return;
  const isStale = view.state !== fragment();
  if (isStale === view.node.classList.contains("stale")) return;
  view.node.classList.toggle("stale", isStale);
  status(isStale ? `The results below are those of an earlier input. Press ${ACTIONS[tab]} to update them.` : view.message);
}

// isReturn: whether the address has the state already, as after Back. isFirst: whether the page shows its example.
async function submit({ isReturn = false, isFirst = false } = {}) {
  stop();
  const view = views[tab];
  const models = chosen();
  if (!models.length) return refuse(server.models.length ? "Select a model first." : "No models are loaded yet.");
  const wrong = wrongField();
  if (wrong) return refuse(wrong);
  if (!isReturn) reading = 1;
  columns();
  if (!isReturn && !isFirst && location.hash !== fragment()) history.pushState(null, "", fragment());
  const state = fragment();
  const request = new AbortController();
  running = request;
  waiting(request, view);
  try {
    const { content, said } = await tasks[tab](models, {
      limits: server.limits, signal: request.signal, reading, parseText, openPair,
      onReading: (place) => {
        reading = place;
        if (!isFirst || location.hash) history.replaceState(null, "", fragment());
        view.state = fragment();
      },
    });
    if (request !== running) return;
    show(content);
    view.state = state;
    view.message = `${said}, ${counted(models.length, "model")}.`;
    status(isFirst ? "An example. Type a sentence of your own, and press Parse." : view.message);
    running = null;
    checkStale(); // the form may have changed meanwhile
    if (!isReturn && !isFirst) reveal();
  } catch (fault) {
    if (request !== running) return;
    if (request.signal.aborted) return refuse(String(request.signal.reason));
    refuse(fault instanceof Refused ? fault.message : "The page failed to show the answer.");
    if (!(fault instanceof Refused)) throw fault;
  } finally {
    if (request === running) running = null;
  }
}

// Ends the present request, whose answers are dropped.
function stop() {
  running?.abort();
  running = null;
}

// Says why there are no new results; earlier ones stay.
function refuse(message) {
  const view = views[tab].node;
  view.classList.toggle("stale", view.childElementCount > 0);
  status(view.childElementCount ? `${message} The results below are those of an earlier input.` : message, true);
}

// Says that the page computes, for how long, and lets the user cancel.
function waiting(request, view) {
  const started = performance.now();
  $("submit").setAttribute("aria-disabled", "true");
  const timer = setInterval(() => {
    const passed = performance.now() - started;
    const isOver = running !== request;
    if (isOver) {
      clearInterval(timer);
      $("waiting").hidden = true;
      if (!running) $("submit").removeAttribute("aria-disabled");
    } else if (passed > LONGEST) {
      request.abort(`The results were not complete after ${LONGEST / 1000} seconds. Select fewer models, or use fewer or shorter sentences.`);
    } else if (passed > SLOW) {
      if ($("waiting").hidden) status("Computing …");
      view.node.classList.add("stale");
      $("waiting").hidden = false;
      $("elapsed").textContent = `${Math.floor(passed / 1000)} s`;
    }
  }, SLOW / 5);
}

// Brings new results into sight if they are below it.
function reveal() {
  const first = views[tab].node.querySelector("article");
  if (first && first.getBoundingClientRect().top > 0.6 * window.innerHeight) $("status").scrollIntoView();
}

function parseText(text) {
  $("text").value = text;
  select("sentences");
  submit();
}

function openPair({ first, second }) {
  Object.entries({ first, second, pairs: "" }).forEach(([id, value]) => { $(id).value = value; });
  $("many").open = false;
  submit();
}

// ---- the form

function select(name, focus = false) {
  const isOther = tab !== name;
  tab = name;
  for (const one of TABS) {
    const isOn = one === name;
    $(`tab-${one}`).setAttribute("aria-selected", isOn);
    $(`tab-${one}`).tabIndex = isOn ? 0 : -1;
    $(`panel-${one}`).hidden = !isOn;
  }
  if (focus) $(`tab-${name}`).focus();
  $("submit").textContent = ACTIONS[name];
  document.body.dataset.task = name;
  const examples = EXAMPLES[name].map(([title, ...texts]) => button(title, () => {
    (name === "pair" ? ["first", "second"] : ["text"]).forEach((id, place) => { $(id).value = texts[place]; });
    if (name === "pair") $("pairs").value = "";
    submit();
  }, { class: "link" }));
  $("examples").replaceChildren(...(examples.length ? ["Examples:", ...examples] : []));
  options();
  if (!isOther) return;
  stop();
  hideTooltip();
  $("results").replaceChildren(views[name].node);
  status(views[name].message);
  views[name].node.classList.remove("stale"); // so that a message explains it
  checkStale();
  fit();
}

// Shows the options that the selected models have.
function options() {
  const models = chosen();
  const refill = (id, values) => {
    const before = $(id).value;
    $(id).replaceChildren(element("option", { value: "" }, "default"), ...values.map((value) => element("option", { value }, String(value))));
    $(id).value = values.map(String).includes(before) ? before : "";
    $(id).closest("label").hidden = values.length < 2;
  };
  refill("decoder", [...new Set(models.flatMap((model) => model.decoders))]);
  const layers = Math.max(0, ...models.map((model) => model.layers));
  refill("layer", Array.from({ length: layers }, (_, place) => place + 1));
  const labelled = models.some((model) => can(model, "labels"));
  for (const id of ["labels", "trees"]) $(id).closest("label").hidden = !labelled;
  $("by-word").hidden = ($("trees").checked && labelled && models.every((model) => can(model, "labels"))) || !models.some((model) => model.by_word);
  cite();
}

function cite() {
  $("citation").replaceChildren(...citationOf(chosen(), server.version, $("decoder").value, tasks.optional("layer")));
}

// Offers the columns of a pasted table.
function columns() {
  chosenColumns($("text").value, ["column"]);
  chosenColumns($("pairs").value, ["first-column", "second-column"]);
}

// What is wrong with a field of the task, as text; null if nothing is. The field is marked, and has the focus.
function wrongField() {
  const fields = [...$(`panel-${tab}`).querySelectorAll("input[type=number]")];
  fields.forEach((field) => field.removeAttribute("aria-invalid"));
  const wrong = fields.find((field) => !field.closest("[hidden]") && !field.checkValidity());
  if (!wrong) return null;
  wrong.setAttribute("aria-invalid", "true");
  wrong.focus();
  const { min, max, step } = wrong;
  const number = step === "any" ? "a number" : "a whole number";
  return `${wrong.dataset.name} must be ${number} ${max ? `from ${min} to ${Number(max).toLocaleString("en")}` : `of ${min} or more`}.`;
}

async function readFile(file, field) {
  if (!file) return;
  if (file.size > server.limits.max_body) {
    return status(`${file.name} has ${file.size.toLocaleString("en")} bytes; the page reads at most ${server.limits.max_body.toLocaleString("en")}. For whole files, use the commands of syntaxlm.`, true);
  }
  try {
    field.value = await textOf(file);
  } catch {
    return status(`${file.name} is not text in UTF-8. Save it as plain text or CSV in UTF-8, and open it again.`, true);
  }
  columns();
  submit();
}

// A field takes files that are dropped on it, or chosen with its button.
function takesFiles(field, input) {
  field.addEventListener("dragover", (event) => event.preventDefault());
  field.addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    readFile(event.dataTransfer.files[0], field);
  });
  input.addEventListener("change", () => {
    readFile(input.files[0], field);
    input.value = "";
  });
}

// Several pairs that are pasted into a line for one sentence go into the field for many.
function pastePairs(event) {
  const text = event.clipboardData?.getData("text") ?? "";
  if (!/[\t\n]/.test(text.trim())) return;
  event.preventDefault();
  $("pairs").value = text;
  $("many").open = true;
  $("pairs").focus();
  columns();
}

async function copyLink() {
  const address = new URL(fragment(), location.href);
  const works = LOCAL.test(location.hostname) ? "works only on this computer, while the server runs" : `works while ${location.hostname} serves these models`;
  try {
    await navigator.clipboard.writeText(address.href);
    status(`The link is in the clipboard. It ${works}.`);
  } catch {
    history.replaceState(null, "", address);
    status(`The link is in the address bar. It ${works}.`);
  }
}

function listen() {
  $("form").addEventListener("submit", (event) => { event.preventDefault(); submit(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); submit(); }
  });
  if (/Mac/.test(navigator.platform)) $("key").textContent = "⌘Enter";
  for (const name of TABS) $(`tab-${name}`).addEventListener("click", () => select(name));
  document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
    const place = TABS.indexOf(tab);
    const target = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: TABS.length - 1 }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    select(TABS[(target + TABS.length) % TABS.length], true);
  });
  $("form").addEventListener("input", ({ target }) => {
    if (["text", "pairs"].includes(target.id)) columns();
    if (target.tagName !== "SELECT" && target.type !== "checkbox") checkStale();
  });
  $("form").addEventListener("change", ({ target }) => {
    const isModel = target.name === "model";
    if (isModel || target.id === "trees") options();
    if (["decoder", "layer"].includes(target.id)) cite();
    const follows = (isModel && tab !== "generate") || RERUN.includes(target.id);
    if (follows && (views[tab].node.childElementCount || running)) submit();
    else checkStale();
  });
  takesFiles($("text"), $("file"));
  takesFiles($("pairs"), $("pairs-file"));
  for (const id of ["first", "second"]) $(id).addEventListener("paste", pastePairs);
  $("link").addEventListener("click", copyLink);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address keeps the state
    $("results").focus();
  });
  $("cancel").addEventListener("click", () => {
    running?.abort("Cancelled.");
    $("submit").focus(); // Cancel disappears
  });
  $("fit").addEventListener("change", fit);
  $("help").addEventListener("click", () => {
    $("guide").open = true;
    $("guide").scrollIntoView();
    $("guide").querySelector("summary").focus();
  });
  new ResizeObserver(fit).observe($("results"));
  document.addEventListener("pointerdown", hideTooltip);
  window.addEventListener("hashchange", () => {
    if (follow()) return;
    if (!location.hash) { // before the first result
      stop();
      $("text").value = "";
      select("sentences");
      show([]);
      status("");
      example();
    }
  });
}

// The limits of the server are those of the fields.
function limit() {
  $("count").max = server.limits.max_sentences;
  $("max-words").max = server.limits.max_words;
}

// The models of the server, as soon as it has read them.
async function loadedModels() {
  for (;;) {
    try {
      return await ask("api/models");
    } catch (fault) {
      if (fault.status !== STARTING) throw fault;
      await new Promise((done) => { setTimeout(done, PAUSE); });
    }
  }
}

async function start() {
  listen();
  const loading = element("span", { class: "hint" }, "loading …");
  $("models").append(loading);
  try {
    server = await loadedModels();
    status("");
  } catch (fault) {
    return status(fault.message, true);
  } finally {
    loading.remove();
  }
  limit();
  const perplexities = perplexitiesOf(server.models);
  $("models").append(...server.models.map((model, place) => chip(model, place, perplexities.get(model.name))));
  $("accuracy").replaceChildren(...accuracyOf(server.models));
  $("cards").replaceChildren(...cardsOf(server.models).flatMap((link) => [link, " "]));
  $("version").textContent = `syntaxlm ${server.version}`;
  document.querySelectorAll("#guide .distances").forEach((one) => { one.hidden = !server.models.some(({ layers }) => layers); });
  select("sentences");
  if (!follow()) example();
}

// A first visit shows a sentence, if the first model reads English.
function example() {
  const [model] = server.models;
  const readsEnglish = /\ben\b/.test(model.language ?? "en") && model.units === "words" && can(model, "parsing");
  if (!readsEnglish || $("text").value) return;
  [, $("text").value] = EXAMPLES.sentences[1];
  submit({ isFirst: true });
}

start();
