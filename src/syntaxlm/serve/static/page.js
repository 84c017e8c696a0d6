// The page: its form, its state in the address, and the requests of its tasks.

import { $, Refused, ask, button, counted, element, hideTooltip, status } from "./elements.js";
import { accuracyOf, can, downloadsOfAll, faulty, generatedColumn, languages, pairColumn, sentenceColumn } from "./results.js";

const TABS = ["sentences", "pair", "generate"];
const ACTIONS = { sentences: "Parse", pair: "Compare", generate: "Generate" };
const EXAMPLES = {
  sentences: [
    ["Garden path", "The old man the boats.\nThe horse raced past the barn fell."],
    ["Attachment", "She saw the man with the telescope."],
    ["News", "The company said it expects sales to rise in the second half of the year."],
  ],
  pair: [
    ["Agreement", "The keys to the cabinet are on the table.", "The keys to the cabinet is on the table."],
    ["Reflexive", "The girls hurt themselves.", "The girls hurt herself."],
  ],
  generate: [],
};
const FIELDS = {
  sentences: { text: "text", lines: "lines", decoder: "decoder", layer: "layer", labels: "labels" },
  pair: { first: "first", second: "second" },
  generate: {
    count: "count", seed: "seed", max_words: "max-words", trees: "trees", prompt: "prompt", temperature: "temperature",
    top_k: "top-k",
  },
};

const LOCAL = /^(localhost|127\.[\d.]+|\[::1\])$/;

let server = { models: [], limits: {} };
let tab = "sentences";
let missing = []; // what the address asks for and this server lacks
let running = 0; // number of the latest request; the answers of earlier ones are dropped

function chosen() {
  const names = [...document.querySelectorAll("#models input:checked")].map((input) => input.value);
  return server.models.filter((model) => names.includes(model.name));
}

const BEST = 3; // trees of a sentence
const optional = (id) => ($(id).value.trim() === "" ? null : Number($(id).value));

// ---- tasks: each returns the articles of its results, and what to announce

async function sentences(models) {
  const lines = $("text").value.split(/\r?\n/).map((line) => line.trim()).filter(Boolean);
  if (!lines.length) throw new Refused("Type a sentence first.");
  const { sentences: texts } = $("lines").checked ? { sentences: lines } : await ask("api/sentences", { text: lines.join("\n") });
  const usable = models.filter((model) => can(model, "parsing") || can(model, "surprisal"));
  const found = await each(usable, (model) => {
    const decoder = model.decoders.includes($("decoder").value) ? $("decoder").value : model.decoders[0];
    const layer = optional("layer");
    return ask("api/analyse", {
      model: model.name, sentences: texts,
      decoder: decoder ?? null,
      layer: layer !== null && layer <= model.layers ? layer : null,
      labels: $("labels").checked,
      best: decoder === "mbr" && !($("labels").checked && can(model, "labels")) ? BEST : 1, // only the best has labels
    });
  });
  const articles = texts.map((text, place) =>
    article([text], found, (model, answer) => sentenceColumn(model, answer.sentences[place])));
  return {
    articles: texts.length > 1 ? [downloadsOfAll(found), ...articles] : articles,
    said: counted(texts.length, "sentence") + (texts.length > lines.length ? " (split automatically)" : ""),
  };
}

const article = (heading, found, column) => element(
  "article", {}, element("h2", { dir: "auto" }, ...heading),
  element("div", { class: "columns" }, ...found.map(({ model, answer, fault }) => (fault ? faulty(model, fault) : column(model, answer)))),
);

async function pair(models) {
  const [first, second] = [$("first").value.trim(), $("second").value.trim()];
  if (!first || !second) throw new Refused("Type two sentences first.");
  const usable = models.filter((model) => can(model, "sentence scores"));
  const found = await each(usable, (model) => ask("api/pair", { model: model.name, first, second }));
  return { articles: [article([first, " / ", second], found, pairColumn)], said: "1 pair" };
}

async function generate(models) {
  const usable = models.filter((model) => can(model, "generation"));
  const found = await each(usable, (model) => {
    const trees = $("trees").checked && can(model, "labels");
    const byWord = !trees && model.by_word;
    return ask("api/generate", {
      model: model.name, count: optional("count") ?? 1, seed: optional("seed") ?? 0, max_words: optional("max-words"),
      trees,
      ...(byWord && { prompt: $("prompt").value.trim() || null, temperature: optional("temperature") ?? 1, top_k: optional("top-k") }),
    });
  });
  const column = (model, answer) => generatedColumn(model, answer, parseText);
  return { articles: [article(["Generated sentences"], found, column)], said: "Generated" };
}

const TASKS = { sentences, pair, generate };

// The answers of all models. Throws if none of them answers.
async function each(models, request) {
  if (!models.length) throw new Refused("None of the selected models can do this. Select another one.");
  const found = await Promise.all(models.map(async (model) => {
    try {
      return { model, answer: await request(model) };
    } catch (fault) {
      if (!(fault instanceof Refused)) throw fault;
      return { model, fault };
    }
  }));
  if (found.every(({ fault }) => fault)) throw found[0].fault;
  return found;
}

function parseText(text) {
  $("text").value = text;
  select("sentences");
  submit();
}

// ---- state in the address, after #, which a browser does not send to the server

function fragment() {
  const state = new URLSearchParams({ view: tab });
  for (const model of chosen()) state.append("model", model.name);
  for (const [name, id] of Object.entries(FIELDS[tab])) {
    const field = $(id);
    const value = field.type === "checkbox" ? (field.checked ? "1" : "") : field.value;
    if (value !== "") state.set(name, value);
  }
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
    if (field.tagName === "SELECT" && field.value !== (state.get(name) ?? "")) missing.push(`the ${name} ${state.get(name)}`);
  }
  return true;
}

// Shows what the address asks for; never the results of other models, decoders or layers. Returns false for no state.
function follow() {
  if (!restore()) return false;
  if (!missing.length) {
    submit(true);
    return true;
  }
  running += 1; // earlier answers are dropped
  show([]);
  $("submit").removeAttribute("aria-disabled");
  const names = server.models.map(({ name }) => name).join(", ");
  status(`The link asks for ${missing.join(" and ")}, which this server does not have. It has the models ${names}. Select what to use, then press ${ACTIONS[tab]}.`, true);
  return true;
}

// ---- the form

function select(name, focus = false) {
  tab = name;
  for (const one of TABS) {
    const isOn = one === name;
    $(`tab-${one}`).setAttribute("aria-selected", isOn);
    $(`tab-${one}`).tabIndex = isOn ? 0 : -1;
    $(`panel-${one}`).hidden = !isOn;
  }
  if (focus) $(`tab-${name}`).focus();
  $("submit").textContent = ACTIONS[name];
  const examples = EXAMPLES[name].map(([title, ...texts]) => button(title, () => {
    (name === "pair" ? ["first", "second"] : ["text"]).forEach((id, place) => { $(id).value = texts[place]; });
    submit();
  }, { class: "link" }));
  $("examples").replaceChildren(...(examples.length ? ["Examples:", ...examples] : []));
  options();
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
}

// isReturn: whether the address has the state already, as after Back.
async function submit(isReturn = false) {
  const request = ++running;
  const models = chosen();
  if (!models.length) return status(server.models.length ? "Select a model first." : "No models are loaded yet.", true);
  if (!isReturn && location.hash !== fragment()) history.pushState(null, "", fragment());
  $("submit").setAttribute("aria-disabled", "true");
  const slow = setTimeout(() => request === running && status("Computing …"), 250);
  try {
    const { articles, said } = await TASKS[tab](models);
    if (request !== running) return;
    show(articles);
    status(`${said}, ${counted(models.length, "model")}.`);
  } catch (fault) {
    if (request !== running) return;
    show([]);
    status(fault instanceof Refused ? fault.message : "The page failed to show the answer.", true);
    if (!(fault instanceof Refused)) throw fault;
  } finally {
    clearTimeout(slow);
    if (request === running) $("submit").removeAttribute("aria-disabled");
  }
}

// Shows results instead of the present ones. The guide is open as long as there are none.
function show(articles) {
  hideTooltip();
  if (!articles.length || !$("results").childElementCount) $("guide").open = !articles.length;
  $("results").replaceChildren(...articles);
}

function theme(value) {
  if (value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = value;
  for (const link of document.querySelectorAll("link[data-pictures]")) {
    const own = link.dataset.pictures;
    link.media = value === "auto" ? `(prefers-color-scheme: ${own})` : value === own ? "all" : "not all";
  }
}

function listen() {
  $("form").addEventListener("submit", (event) => { event.preventDefault(); submit(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); submit(); }
  });
  for (const name of TABS) $(`tab-${name}`).addEventListener("click", () => select(name));
  document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
    const place = TABS.indexOf(tab);
    const target = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: TABS.length - 1 }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    select(TABS[(target + TABS.length) % TABS.length], true);
  });
  $("models").addEventListener("change", options);
  $("trees").addEventListener("change", options);
  $("theme").addEventListener("change", () => {
    theme($("theme").value);
    try { localStorage.setItem("theme", $("theme").value); } catch { /* private windows */ }
  });
  $("link").addEventListener("click", async () => {
    const address = new URL(fragment(), location.href);
    const works = LOCAL.test(location.hostname) ? "works only on this computer, while the server runs" : `works while ${location.hostname} serves these models`;
    try {
      await navigator.clipboard.writeText(address.href);
      status(`The link is in the clipboard. It ${works}.`);
    } catch {
      history.replaceState(null, "", address);
      status(`The link is in the address bar. It ${works}.`);
    }
  });
  document.addEventListener("pointerdown", hideTooltip);
  window.addEventListener("hashchange", () => {
    if (follow()) return;
    if (!location.hash) { // before the first result
      running += 1;
      show([]);
      status("");
    }
  });
}

async function start() {
  try {
    const stored = localStorage.getItem("theme");
    if (stored) { $("theme").value = stored; theme(stored); }
  } catch { /* private windows */ }
  listen();
  const loading = element("span", { class: "hint" }, "loading …");
  $("models").append(loading);
  try {
    server = await ask("api/models");
    status("");
  } catch (fault) {
    return status(fault.message, true);
  } finally {
    loading.remove();
  }
  server.models.forEach((model, place) => {
    const f1 = model.accuracy?.values.F1;
    const about = [languages(model) || model.model_type, f1 && `F1 ${f1}`, !can(model, "parsing") && "no trees"];
    const small = about.filter((one) => one && one !== model.name).join(", ");
    $("models").append(element("label", { class: "chip", title: model.description },
      element("input", { type: "checkbox", name: "model", value: model.name, checked: place === 0 }),
      element("span", {}, model.name), element("small", {}, small)));
  });
  $("accuracy").replaceChildren(...accuracyOf(server.models));
  document.querySelectorAll("#guide .distances").forEach((one) => { one.hidden = !server.models.some(({ layers }) => layers); });
  select("sentences");
  follow();
}

start();
