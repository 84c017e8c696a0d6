// The page: asks the JSON interface, and shows its answers. Text reaches the document only as text, and pictures as SVG
// whose elements and attributes are listed below.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
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
const STYLE = /<style>[^<]*<\/style>/; // of a picture; the page has the same rules in pictures-*.css
const DRAWN = new Set(["svg", "g", "title", "desc", "rect", "line", "circle", "text", "path", "polyline"]);
const ATTRIBUTES = new Set([
  "class", "width", "height", "viewBox", "role", "aria-label", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "d",
  "points", "transform", "text-anchor", "fill-opacity", "data-start", "data-end",
]);
const FIELDS = {
  sentences: { text: "text", decoder: "decoder", layer: "layer", labels: "labels" },
  pair: { first: "first", second: "second" },
  generate: {
    count: "count", seed: "seed", max_words: "max-words", trees: "trees", prompt: "prompt", temperature: "temperature",
    top_k: "top-k",
  },
};

let server = { models: [], limits: {} };
let tab = "sentences";
let running = 0; // number of the latest request; the answers of earlier ones are dropped
let written = null; // the fragment that this page set last

// ---- elements

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, handler] of Object.entries(value)) made.addEventListener(event, handler);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const button = (text, handler, attributes = {}) =>
  element("button", { type: "button", on: { click: handler }, ...attributes }, text);

function number(value, digits = 2) {
  return value === null || value === undefined ? "" : value.toFixed(digits);
}

function status(message, wrong = false) {
  $("status").textContent = message;
  $("status").classList.toggle("wrong", wrong);
}

// A copy of a picture with known elements and attributes only. Its style is that of pictures-*.css.
function picture(source) {
  const root = new DOMParser().parseFromString(source.replace(STYLE, ""), "image/svg+xml").documentElement;
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

function figure(source, label) {
  const drawn = picture(source);
  const made = element("figure", { "aria-label": label, tabindex: 0, role: "group" }, drawn);
  made.style.setProperty("--width", `${drawn.getAttribute("width")}px`);
  return made;
}

function table(caption, heads, rows) {
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

const right = (text) => ({ text }); // a cell of a number

// ---- requests

class Refused extends Error {}

async function ask(path, body) {
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

function chosen() {
  const names = [...document.querySelectorAll("#models input:checked")].map((input) => input.value);
  return server.models.filter((model) => names.includes(model.name));
}

const can = (model, ability) => model.abilities.includes(ability);
const BEST = 3; // trees of a sentence
const optional = (id) => ($(id).value.trim() === "" ? null : Number($(id).value));

// ---- tasks: each returns the articles of its results

async function sentences(models) {
  const lines = $("text").value.split(/\r?\n/).map((line) => line.trim()).filter(Boolean);
  if (!lines.length) throw new Refused("Type a sentence first.");
  const usable = models.filter((model) => can(model, "parsing") || can(model, "surprisal"));
  const found = await each(usable, (model) => {
    const decoder = model.decoders.includes($("decoder").value) ? $("decoder").value : model.decoders[0];
    const layer = optional("layer");
    return ask("api/analyse", {
      model: model.name, sentences: lines,
      decoder: decoder ?? null,
      layer: layer !== null && layer <= model.layers ? layer : null,
      labels: $("labels").checked,
      best: decoder === "mbr" ? BEST : 1,
    });
  });
  const articles = lines.map((line, place) =>
    element(
      "article", {}, element("h2", { dir: "auto" }, line),
      element("div", { class: "columns" }, ...found.map(({ model, answer, fault }) =>
        fault ? faulty(model, fault) : sentenceColumn(model, answer.sentences[place]))),
    ));
  return lines.length > 1 ? [downloadsOfAll(found), ...articles] : articles;
}

function downloadsOfAll(found) {
  const answers = found.filter(({ answer }) => answer).map(({ answer }) => answer);
  const content = answers.map(({ sentences, ...rest }) => ({ ...rest, sentences: sentences.map(withoutPictures) }));
  const parsed = answers.filter(({ sentences }) => sentences.some(({ parse }) => parse));
  return toolbar("Download all", [
    button("JSON", () => save("sentences.json", json(content), "application/json")),
    ...parsed.map(({ model, sentences }) => button(
      parsed.length > 1 ? `Brackets of ${model}` : "Brackets",
      () => save(`${fileName(model)}.mrg`, sentences.map(({ parse }) => `${parse.brackets ?? ""}\n`).join(""), "text/plain"),
    )),
  ]);
}

async function pair(models) {
  const [first, second] = [$("first").value.trim(), $("second").value.trim()];
  if (!first || !second) throw new Refused("Type two sentences first.");
  const usable = models.filter((model) => can(model, "sentence scores"));
  const found = await each(usable, (model) => ask("api/pair", { model: model.name, first, second }));
  return [
    element(
      "article", {}, element("h2", { dir: "auto" }, first, " / ", second),
      element("div", { class: "columns" }, ...found.map(({ model, answer, fault }) =>
        fault ? faulty(model, fault) : pairColumn(model, answer))),
    ),
  ];
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
  return [
    element(
      "article", {}, element("h2", {}, "Generated sentences"),
      element("div", { class: "columns" }, ...found.map(({ model, answer, fault }) =>
        fault ? faulty(model, fault) : generatedColumn(model, answer))),
    ),
  ];
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

// ---- results

const column = (model, facts, ...children) =>
  element("section", { class: "column", "aria-label": model.name }, element("h3", {}, model.name), element("p", { class: "facts" }, ...facts), ...children);

const faulty = (model, fault) => column(model, [element("span", { class: "wrong" }, fault.message)]);

function sentenceColumn(model, result) {
  const { parse, surprisal } = result;
  const facts = [];
  if (parse) facts.push(`${parse.words.length} words`);
  if (parse?.confidence != null) facts.push(`confidence ${number(parse.confidence, 2)}`);
  if (surprisal) facts.push(`${surprisal.bits.toFixed(1)} bits`);
  const unknown = parse ? parse.words.filter((_, place) => !parse.known[place])
    : surprisal.words.filter((word) => word.in_vocabulary === false).map((word) => word.word);
  if (unknown.length) facts.push(`unknown: ${[...new Set(unknown)].join(", ")}`);
  if (!result.svg) return column(model, ["The model reads no word of this sentence."]);
  const pictures = element("div", { class: "pictures" });
  const drawn = figure(result.svg, parse ? "Tree. Arrow keys go through its constituents." : "Surprisal of each word");
  pictures.append(drawn);
  if (result.chart_svg) {
    const chart = figure(result.chart_svg, model.structure);
    pictures.append(chart);
  }
  const tables = element("details", {}, element("summary", {}, "As tables"));
  const marks = parse ? tableOfSpans(parse) : null;
  const words = tableOfWords(parse, surprisal);
  tables.append(words);
  if (surprisal && model.by_word) tables.append(moreMeasures(model, result.sentence, words));
  if (marks) tables.append(marks);
  if (parse?.alternatives) tables.append(tableOfTrees(parse));
  if (parse) connect(drawn, marks, parse);
  const bars = [
    button("SVG", () => save(`${fileName(result.sentence)}.svg`, result.svg, "image/svg+xml")),
    button("PNG", () => savePng(`${fileName(result.sentence)}.png`, result.svg)),
    button("JSON", () => save(`${fileName(result.sentence)}.json`, json(withoutPictures(result)), "application/json")),
  ];
  if (parse?.brackets) {
    bars.push(button("Brackets", () => save(`${fileName(result.sentence)}.mrg`, `${parse.brackets}\n`, "text/plain")));
    tables.append(element("pre", { dir: "auto" }, parse.brackets));
  }
  return column(model, [facts.join(" · ")], pictures, toolbar("Download", bars), tables);
}

function toolbar(name, buttons) {
  return element("div", { class: "toolbar", role: "group", "aria-label": name }, name, ...buttons);
}

const withoutPictures = ({ svg, chart_svg, ...rest }) => rest;
const json = (content) => `${JSON.stringify(content, null, 2)}\n`;

function tableOfWords(parse, surprisal) {
  if (!surprisal) {
    return table("Words", ["word", "read as", "in the vocabulary"],
      parse.words.map((word, place) => [word, parse.tokens[place], parse.known[place] ? "yes" : "no"]));
  }
  return table("Words", ["word", "read as", "in the vocabulary", right("surprisal, bits")],
    surprisal.words.map((row) => [
      row.word || "(end)", row.token, row.in_vocabulary === null ? "not read" : row.in_vocabulary ? "yes" : "no",
      right(number(row.surprisal)),
    ]));
}

// Computed on request, because distributions of all words take a grammar seconds.
function moreMeasures(model, sentence, words) {
  const more = button("Entropy, rank and next words", async () => {
    more.disabled = true;
    try {
      const asked = { model: model.name, sentences: [sentence], measures: ["entropy", "rank"], next_words: 5 };
      const answer = await ask("api/surprisal", asked);
      words.replaceWith(table("Words", ["word", right("surprisal, bits"), right("rank"), right("entropy, bits"), "most probable instead"],
        answer.sentences[0].words.map((row) => [
          row.word || "(end)", right(number(row.surprisal)), right(row.rank ?? ""), right(row.entropy == null ? "" : number(row.entropy)),
          row.next_words ?? "",
        ])));
      more.remove();
    } catch (fault) {
      more.replaceWith(element("p", { class: "wrong" }, fault.message));
    }
  });
  return more;
}

function tableOfSpans(parse) {
  const scores = parse.marginals ?? parse.scores;
  const heads = ["constituent"];
  if (parse.labels) heads.push("label");
  if (scores) heads.push(right(parse.marginals ? "probability" : "score"));
  else if (parse.distances) heads.push(right("largest distance inside"));
  return table("Constituents", heads, parse.spans.map(([start, end], place) => {
    const row = [parse.words.slice(start, end).join(" ")];
    if (parse.labels) row.push(parse.labels[place]);
    if (scores) row.push(right(number(scores[place], 3)));
    else if (parse.distances) row.push(right(number(Math.max(...parse.distances.slice(start + 1, end)), 3)));
    return row;
  }));
}

function tableOfTrees(parse) {
  const heads = ["constituents of the best trees", right("confidence"), right("probability")];
  return table("Best trees", heads, parse.alternatives.map((tree) => [
    tree.spans.slice(1).map(([start, end]) => parse.words.slice(start, end).join(" ")).join(" | "),
    right(number(tree.confidence, 3)), right(tree.probability == null ? "" : number(tree.probability, 3)),
  ]));
}

// Spans of a tree react to the pointer and to the arrow keys, and mark their words and their row of the table.
function connect(drawn, marks, parse) {
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
  function show(group, on) {
    const [start, end] = span(group);
    group.classList.toggle("on", on);
    words.slice(start, end).forEach((word) => word.classList.toggle("on", on));
    rows[places.indexOf(String([start, end]))]?.classList.toggle("on", on);
    if (on) tooltip(texts.get(group), group);
    else $("tooltip").hidden = true;
  }
  const clear = () => groups.forEach((group) => group.classList.contains("on") && show(group, false));
  groups.forEach((group) => {
    group.addEventListener("pointerenter", () => { clear(); show(group, true); });
    group.addEventListener("pointerleave", () => show(group, false));
  });
  rows.forEach((row, place) => {
    const group = groups.find((one) => String(span(one)) === places[place]);
    if (!group) return;
    row.addEventListener("pointerenter", () => { clear(); show(group, true); });
    row.addEventListener("pointerleave", () => show(group, false));
  });
  drawn.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") clear();
    if (!step || !groups.length) return;
    event.preventDefault();
    clear();
    current = (current + step + groups.length) % groups.length;
    show(groups[current], true);
    status(texts.get(groups[current]));
  });
  drawn.addEventListener("blur", clear);
}

function tooltip(text, target) {
  const shown = $("tooltip");
  shown.textContent = text;
  shown.hidden = false;
  const place = target.getBoundingClientRect();
  const size = shown.getBoundingClientRect();
  const left = Math.min(Math.max(8, place.left + place.width / 2 - size.width / 2), document.documentElement.clientWidth - size.width - 8);
  const above = place.top - size.height - 6;
  shown.style.left = `${left + window.scrollX}px`;
  shown.style.top = `${(above > 4 ? above : place.bottom + 6) + window.scrollY}px`;
}

function pairColumn(model, result) {
  const { first, second, likelier, difference, columns, decisive_column: decisive } = result;
  const facts = [];
  if (likelier === "equal") facts.push("Both sentences are equally likely.");
  else {
    const better = likelier === "first" ? first : second;
    facts.push("Likelier: ", element("strong", { dir: "auto" }, better.sentence), ` by ${Math.abs(difference).toFixed(2)} bits`);
    if (decisive !== null) {
      const word = (side, place) => (place === null ? "nothing" : side.words[place].word || "(end)");
      const at = columns[decisive];
      const [one, other] = [word(first, at.first), word(second, at.second)];
      facts.push(", most at ", element("strong", { dir: "auto" }, one === other ? one : `${one} / ${other}`));
    }
    facts.push(".");
  }
  const parts = [];
  const name = fileName(`${first.sentence} ${second.sentence}`);
  const bars = [];
  if (result.svg) {
    parts.push(element("div", { class: "pictures" }, figure(result.svg, "Surprisal of each word in both sentences")));
    bars.push(button("SVG", () => save(`${name}.svg`, result.svg, "image/svg+xml")), button("PNG", () => savePng(`${name}.png`, result.svg)));
  }
  bars.push(button("JSON", () => save(`${name}.json`, json(withoutPictures(result)), "application/json")));
  parts.push(toolbar("Download", bars));
  const total = table("Surprisal in bits", ["sentence", right("bits")], [first, second].map((side) => [side.sentence, right(number(side.bits))]));
  const tables = element("details", {}, element("summary", {}, "As tables"), total);
  if (columns) {
    const cell = (side, place) => (place === null ? ["", right("")] : [side.words[place].word || "(end)", right(number(side.words[place].surprisal))]);
    const aligned = table("Words", ["first", right("bits"), "second", right("bits"), right("difference")],
      columns.map((at) => [...cell(first, at.first), ...cell(second, at.second), right(number(at.difference))]));
    if (decisive !== null) aligned.querySelectorAll("tbody tr")[decisive].classList.add("decisive");
    tables.append(aligned);
  }
  return column(model, facts, ...parts, tables);
}

function generatedColumn(model, answer) {
  const list = element("ol", { class: "generated" });
  for (const one of answer.sentences) {
    const item = element("li", {}, element("span", { dir: "auto" }, one.text, one.ended === false ? " …" : ""));
    const bars = [button("Parse", () => parseText(one.text))];
    if (one.svg) {
      item.append(figure(one.svg, "Tree"));
      bars.push(
        button("SVG", () => save(`${fileName(one.text)}.svg`, one.svg, "image/svg+xml")),
        button("PNG", () => savePng(`${fileName(one.text)}.png`, one.svg)),
      );
    }
    item.append(element("div", { class: "toolbar" }, ...bars));
    list.append(item);
  }
  const all = [
    button("JSON", () => save("sentences.json", json(answer.sentences.map(withoutPictures)), "application/json")),
    button("Text", () => save("sentences.txt", answer.sentences.map((one) => `${one.text}\n`).join(""), "text/plain")),
  ];
  return column(model, [`${answer.sentences.length} sentences`], list, toolbar("Download", all));
}

function parseText(text) {
  $("text").value = text;
  select("sentences");
  submit();
}

// ---- downloads

const fileName = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 40) || "sentence";

function save(name, content, kind) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type: `${kind};charset=utf-8` }));
  const link = element("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

const isDark = () => getComputedStyle(document.documentElement).colorScheme === "dark" ||
  ($("theme").value === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);

// The picture at twice its size, in the colours of the page.
async function savePng(name, source) {
  const scale = 2;
  const style = await (await fetch(`pictures-${isDark() ? "dark" : "light"}.css`)).text();
  const coloured = source.replace(STYLE, () => `<style>${style}</style>`);
  const url = URL.createObjectURL(new Blob([coloured], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = element("canvas");
    canvas.width = image.naturalWidth * scale;
    canvas.height = image.naturalHeight * scale;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    save(name, await new Promise((done) => canvas.toBlob(done, "image/png")));
  } catch {
    status("The browser cannot draw this picture as PNG. Download it as SVG.", true);
  } finally {
    URL.revokeObjectURL(url);
  }
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
  if (server.models.some((model) => names.includes(model.name))) {
    document.querySelectorAll("#models input").forEach((input) => { input.checked = names.includes(input.value); });
  }
  select(view);
  for (const [name, id] of Object.entries(FIELDS[view])) {
    const field = $(id);
    if (field.type === "checkbox") field.checked = state.get(name) === "1";
    else field.value = state.get(name) ?? (field.tagName === "SELECT" ? "" : field.defaultValue);
  }
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
  $("panel-sentences").querySelector("details").hidden = ["decoder", "layer", "labels"].every((id) => $(id).closest("label").hidden);
  $("by-word").hidden = ($("trees").checked && labelled && models.every((model) => can(model, "labels"))) || !models.some((model) => model.by_word);
}

async function submit() {
  const request = ++running;
  const models = chosen();
  if (!models.length) return status("Select a model first.", true);
  written = fragment();
  history.replaceState(null, "", written);
  $("submit").setAttribute("aria-disabled", "true");
  const slow = setTimeout(() => request === running && status("Computing …"), 250);
  try {
    const articles = await TASKS[tab](models);
    if (request !== running) return;
    $("results").replaceChildren(...articles);
    $("tooltip").hidden = true;
    const count = $("results").querySelectorAll("article").length;
    const by = `${models.length} ${models.length === 1 ? "model" : "models"}`;
    status(`${{ sentences: `${count} ${count === 1 ? "sentence" : "sentences"}`, pair: "1 pair", generate: "Generated" }[tab]}, ${by}.`);
  } catch (fault) {
    if (request !== running) return;
    $("results").replaceChildren();
    status(fault instanceof Refused ? fault.message : "The page failed to show the answer.", true);
    if (!(fault instanceof Refused)) throw fault;
  } finally {
    clearTimeout(slow);
    if (request === running) $("submit").removeAttribute("aria-disabled");
  }
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
  $("split").addEventListener("click", async () => {
    try {
      const { sentences: found } = await ask("api/sentences", { text: $("text").value });
      $("text").value = found.join("\n");
      status(`${found.length} ${found.length === 1 ? "sentence" : "sentences"}.`);
    } catch (fault) {
      status(fault.message, true);
    }
  });
  $("link").addEventListener("click", async () => {
    written = fragment();
    history.replaceState(null, "", written);
    try {
      await navigator.clipboard.writeText(location.href);
      status("The link is in the clipboard.");
    } catch {
      status("The link is in the address bar.");
    }
  });
  window.addEventListener("hashchange", () => { if (location.hash !== written && restore()) submit(); });
}

async function start() {
  try {
    const stored = localStorage.getItem("theme");
    if (stored) { $("theme").value = stored; theme(stored); }
  } catch { /* private windows */ }
  listen();
  try {
    server = await ask("api/models");
  } catch (fault) {
    return status(fault.message, true);
  }
  server.models.forEach((model, place) => {
    const abilities = can(model, "parsing") ? model.model_type : `${model.model_type}, no trees`;
    $("models").append(element("label", { class: "chip" },
      element("input", { type: "checkbox", name: "model", value: model.name, checked: place === 0 }),
      element("span", {}, model.name), element("small", {}, abilities === model.name ? "" : abilities)));
  });
  select("sentences");
  if (restore()) submit();
}

start();
