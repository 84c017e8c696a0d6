// The results of sentences: pictures, facts, tables and files of each model, and an overview of many sentences.

import { compare, statement } from "./comparison.js";
import { button, counted, element, fold, isolated, listed, number, probability, right, status, table, toolbar } from "./elements.js";
import { beside, csv, fileName, json, pictureButtons, print, printButton, save, treeButtons } from "./files.js";
import { languages } from "./models.js";
import { connect, connectChart, figure, ringed } from "./pictures.js";
import { lacksSpaces } from "./texts.js";
import { remember, remembered } from "./theme.js";
import { wordRows, wordsOf } from "./words.js";

const CHART_OPEN = "chart"; // remembered by the browser
const FEW = 3; // sentences that need no list
const OWN = "your tree";
const ATTENTION = "span scores"; // of a model: logarithms of shares, which its chart shows

export const column = (name, about, ...children) =>
  element("section", { class: "column", "aria-label": `${name}: ${about}` }, element("h3", {}, name), ...children);

export const faulty = (name, about, fault) => column(name, about, element("p", { class: "wrong" }, fault.message));

export const withoutPictures = ({ svg, chart_svg: chart, readings, ...rest }) =>
  ({ ...rest, ...(readings && { readings: readings.map(({ svg: _, ...reading }) => reading) }) });

// ---- a sentence

// The sentence with a column for each model, and one for a tree that was typed.
// item: { text, own }; found: [{ model, result }]; options: reading, onReading.
export function sentenceArticle(item, found, options) {
  const heading = element("h2", { dir: "auto", tabindex: -1 }, item.text);
  const columns = [
    ...(item.own ? [treeColumn(OWN, item.text, [ownReading(item.own)], { facts: ownFacts(item) })] : []),
    ...found.map(({ model, result }, place) => modelColumn(model, item.text, result, place ? {} : options)),
  ];
  const drawn = columns.filter(({ tree }) => tree);
  drawn.forEach((one, place) => {
    const isOnlyOther = drawn.length === 2 && place === 0;
    if (place || isOnlyOther) one.compareWith(drawn[place ? 0 : 1]);
    else one.show();
  });
  return element("article", {}, heading, element("div", { class: "columns" }, ...columns.map(({ node }) => node)));
}

function modelColumn(model, text, result, options) {
  if (result.fault) return { node: faulty(model.name, text, result.fault) };
  if (!result.svg) return { node: column(model.name, text, element("p", { class: "facts" }, "The model reads no word of this sentence.")) };
  const facts = factsOf(model, result);
  const words = wordsOf(model, result);
  if (!result.parse) return { node: scoredColumn(model, text, result, facts, words) };
  const chart = result.chart_svg ? chartOf(model, text, result) : null;
  const name = (reading) => fileName(text, model.name, reading ? `reading${reading + 1}` : "");
  const files = [
    button("CSV", () => save(`${name(0)}.csv`, csv(wordRows(result)), "text/csv")),
    button("JSON", () => save(`${name(0)}.json`, json(withoutPictures(result)), "application/json")),
    printButton(() => name(0)),
  ];
  return treeColumn(model.name, text, readingsOf(result), { facts, words, chart, files, name, ...options });
}

function scoredColumn(model, text, result, facts, words) {
  const name = () => fileName(text, model.name);
  return column(model.name, text, ...facts,
    element("div", { class: "pictures" }, figure(result.svg, "Surprisal of each word", text)),
    toolbar("Download", [
      ...pictureButtons("", name, () => result.svg, () => `${model.name}: ${isolated(text)}`),
      button("CSV", () => save(`${name()}.csv`, csv(wordRows(result)), "text/csv")),
      button("JSON", () => save(`${name()}.json`, json(withoutPictures(result)), "application/json")),
      printButton(name),
    ]),
    fold("As tables", words));
}

// A column with a tree, or several readings of a sentence. compareWith: marks where it differs from another column;
// later readings are compared with the first one.
function treeColumn(title, text, readings, { facts = [], words, chart, files = [], name, reading = 1, onReading }) {
  let place = Math.min(reading, readings.length) - 1;
  let other = null;
  const fileOf = () => (name ? name(place) : fileName(text, title));
  const heading = () => `${title}${place ? `, reading ${place + 1}` : ""}: ${isolated(text)}`;
  const agreement = element("p", { class: "agreement" });
  const pictures = element("div", { class: "pictures" });
  const aboutTree = element("div");
  let source = "";
  function show() {
    const shown = readings[place];
    const reference = place > 0 ? { title: "reading 1", tree: readings[0] } : other;
    const found = reference && compare(shown, reference.tree);
    source = found ? ringed(shown.svg, found.lacking) : shown.svg;
    agreement.textContent = found ? statement(found, reference.title) ?? "" : "";
    const drawn = figure(source, "Tree. Arrow keys go through its constituents.", text);
    pictures.replaceChildren(drawn);
    const marks = tableOfSpans(shown);
    aboutTree.replaceChildren(marks, ...(shown.brackets ? [element("pre", { dir: "auto" }, shown.brackets)] : []));
    connect(drawn, marks, shown);
  }
  const step = (next) => {
    place = next;
    show();
    onReading?.(next + 1);
  };
  const downloads = [
    ...pictureButtons("", fileOf, () => source, heading),
    ...files,
    ...(readings[0].brackets ? treeButtons(fileOf, () => readings[place].brackets) : []),
  ];
  const node = column(title, text, ...facts, readings.length > 1 ? stepperOf(readings, place, step) : null, agreement, pictures,
    toolbar("Download", downloads), chart, fold("As tables", words, aboutTree));
  return {
    node, title, show, tree: readings[0],
    compareWith(one) {
      other = one;
      show();
    },
  };
}

// The best trees of a sentence; the tree of the parse is the first.
function readingsOf({ parse, readings, svg }) {
  const [first, ...others] = readings ?? [];
  const { labels, ...plain } = parse;
  return [{ ...first, ...parse, svg }, ...others.map((other) => ({ ...plain, ...other }))];
}

// A tree that was typed, with the places of its words in the sentence, in code points.
function ownReading(own) {
  let start = 0;
  const offsets = own.words.map((word) => {
    const place = [start, start + [...word].length];
    start = place[1] + 1;
    return place;
  });
  return { ...own, offsets };
}

const ownFacts = ({ own }) => [element("p", { class: "facts" }, counted(own.words.length, "word"))];

function describe(readings, place) {
  const { probability: ofTree, confidence } = readings[place];
  const values = [ofTree == null ? null : `probability ${probability(ofTree)}`, `confidence ${number(confidence)}`];
  return `Reading ${place + 1} of ${readings.length} (${values.filter(Boolean).join(", ")})`;
}

function stepperOf(readings, first, show) {
  let place = first;
  const text = element("span", {}, describe(readings, place));
  const step = (by) => () => {
    place = (place + by + readings.length) % readings.length;
    show(place);
    text.textContent = describe(readings, place);
    status(`${text.textContent}.`);
  };
  return element(
    "div", { class: "readings", role: "group", "aria-label": "Readings" },
    button("‹", step(-1), { "aria-label": "Previous reading" }), button("›", step(1), { "aria-label": "Next reading" }), text,
  );
}

// The chart is drawn when it is first opened. Whether charts are open is remembered.
function chartOf(model, text, { parse, chart_svg: source }) {
  const value = parse.marginals ? "probability" : model.structure === ATTENTION ? "share of the attention" : "score";
  const name = () => fileName(text, model.name, "chart");
  const made = element("details", {}, element("summary", {}, parse.marginals ? "Span probabilities" : "Span scores"));
  const draw = () => {
    remember(CHART_OPEN, made.open ? "open" : "");
    if (!made.open || made.querySelector("figure")) return;
    const drawn = figure(source, "Chart of spans. Arrow keys go through its squares.", text, "chart");
    connectChart(drawn, parse.words, value);
    made.append(drawn, toolbar("Download", pictureButtons("Chart ", name, () => source, () => `${model.name}: ${isolated(text)}`)));
  };
  made.addEventListener("toggle", draw);
  made.open = remembered(CHART_OPEN) === "open";
  return made;
}

// The words of the surprisals that the tree does not have, such as an emoji. Rows of marks only have no surprisal of a word.
const wordsBeside = (inTree, surprisal) => (surprisal?.words ?? []).filter((row) => row.word && row.surprisal_word !== null
  && !inTree.some(({ begin, end }) => begin < row.end && end > row.begin));

// What is known of a sentence, and what is missing from its pictures.
function factsOf(model, { parse, surprisal, chart_svg: chart, sentence }) {
  const inTree = (parse?.words ?? []).map((word, place) => ({ word, begin: parse.offsets[place][0], end: parse.offsets[place][1], in_vocabulary: parse.known[place] }));
  const words = parse ? [...inTree, ...wordsBeside(inTree, surprisal)].sort((one, other) => one.begin - other.begin)
    : surprisal.words.filter(({ word, in_vocabulary }) => word && in_vocabulary !== null);
  const unknown = words.filter((word) => word.in_vocabulary === false).map(({ word }) => word);
  const unread = parse?.not_read.map(({ text }) => text) ?? [];
  const isMost = unknown.length > words.length / 2;
  const noun = model.units === "characters" ? "character" : "word";
  const facts = [
    counted(words.length, noun),
    !parse?.alternatives && parse?.confidence != null && `confidence ${number(parse.confidence)}`,
    surprisal && surprisal.bits !== null && `${number(surprisal.bits, 1)} bits`,
    unknown.length && !isMost && `unknown: ${listed(unknown, ", ")}`,
    unread.length && `not in the tree: ${listed(unread, " ")}`,
    !chart && words.length > 1 && (parse?.marginals || parse?.scores) && "too long for a chart",
  ];
  const language = languages(model);
  const notice = isMost && noun === "word" ? element("p", { class: "notice" },
    `${unknown.length} of ${counted(words.length, noun)} ${unknown.length === 1 ? "is" : "are"} not in the vocabulary (${listed(unknown, ", ")}): the surprisals and the tree say little about this sentence. `,
    language && `The model reads ${language}. `,
    lacksSpaces(sentence) && "Words are separated by spaces; this text has none.") : null;
  return [element("p", { class: "facts", dir: "auto" }, facts.filter(Boolean).join(" · ")), notice];
}

// Models of which only some read marks: "boats." is a word and a mark for one of them, and a word for the other.
// found: [{ model, results }].
export function marksNotice(found) {
  const scored = found.filter(({ results }) => results.some(({ surprisal }) => surprisal));
  const reads = ({ results }) => results.some(({ surprisal }) => surprisal?.words?.some((row) => row.surprisal_marks > 0));
  const reading = scored.filter(reads);
  const others = scored.filter((one) => !reads(one));
  if (!reading.length || !others.length) return null;
  const names = (some) => some.map(({ model }) => model.name).join(", ");
  return element("p", { class: "notice between-models" },
    `${names(reading)} reads punctuation marks, but ${names(others)} does not. Compare the totals and the ends of sentences of these models with care. The coloured part of a bar is the surprisal of the word without its marks.`);
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

// ---- all sentences

// The list of many sentences, or of a table, with what each model says in short; and the files of all sentences.
// Null for a single sentence. items: { text, own, others }; found: [{ model, version, results }], version that of the answers; articles: of the first items.
export function overview(items, found, articles) {
  const heads = [...new Set(items.flatMap(({ others }) => Object.keys(others ?? {})))];
  const files = filesOf(items, found, heads);
  const isTable = heads.length > 0;
  if (items.length === 1 && !isTable) return null;
  if (items.length <= FEW && !isTable) return element("div", { class: "overview" }, files);
  const scored = found.filter(({ results }) => results.some(({ surprisal }) => surprisal));
  const open = (article) => () => {
    article.scrollIntoView();
    article.querySelector("h2").focus({ preventScroll: true });
  };
  const rows = items.map((item, place) => [
    right(place + 1), ...heads.map((head) => item.others[head]),
    articles[place] ? button(item.text, open(articles[place]), { class: "link", dir: "auto" }) : item.text,
    ...scored.map(({ results }) => right(results[place].fault ? "refused" : number(results[place].surprisal?.bits, 1))),
  ]);
  const list = fold(counted(items.length, "sentence"),
    table("Sentences", [right("number"), ...heads, "sentence", ...scored.map(({ model }) => right(`${model.name}, bits`))], rows));
  list.open = true;
  return element("div", { class: "overview" }, files, list);
}

function filesOf(items, found, heads) {
  const answered = found.map((one) => ({ ...one, results: one.results.filter(({ fault }) => !fault) }));
  const of = (model) => (found.length > 1 ? ` of ${model.name}` : "");
  const base = items.length === 1 ? fileName(items[0].text) : `${fileName(items[0].text)}-and-${items.length - 1}-more`;
  const withCells = (rows) => csv(beside(rows, ({ sentence }) => items[sentence - 1].others));
  const summary = () => items.map((item, place) => ({
    sentence: place + 1, text: item.text,
    ...Object.fromEntries(found.flatMap(({ model, results }) => [
      [`${model.name}_bits`, results[place].surprisal?.bits], [`${model.name}_confidence`, results[place].parse?.confidence],
    ])),
  }));
  return toolbar("All results", [
    ...(heads.length || items.length > FEW ? [button("CSV of sentences", () => save(`${base}-sentences.csv`, withCells(summary()), "text/csv"))] : []),
    ...answered.map(({ model, results }) => button(
      `CSV of words${of(model)}`, () => save(`${base}-${fileName(model.name)}.csv`, withCells(results.flatMap(wordRows)), "text/csv"),
    )),
    button("JSON", () => save(`${base}.json`, json(answered.map(({ model, version, results }) => ({ schema_version: version, model: model.name, sentences: results.map(withoutPictures) }))), "application/json")),
    ...found.filter(({ results }) => results.some(({ parse }) => parse)).map(({ model, results }) => button(
      `Brackets${of(model)}`,
      () => save(`${base}-${fileName(model.name)}.mrg`, results.map(({ parse }) => `${parse?.brackets ?? ""}\n`).join(""), "text/plain"),
    )),
    button("Print or PDF", () => print(base)),
  ]);
}
