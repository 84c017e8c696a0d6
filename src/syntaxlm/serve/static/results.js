// The results of each model: pictures, facts, tables and downloads.

import { ask, button, counted, element, number, probability, right, status, table, toolbar } from "./elements.js";
import { connect, csv, figure, fileName, json, save, savePng, saveSvg } from "./pictures.js";

export const can = (model, ability) => model.abilities.includes(ability);

export const languages = (model) => (model.language ?? "").split(", ").filter(Boolean).map((code) => {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}).join(", ");

const column = (model, ...children) =>
  element("section", { class: "column", "aria-label": model.name }, element("h3", {}, model.name), ...children);

const paragraph = (...content) => element("p", { class: "facts" }, ...content);

export const faulty = (model, fault) => column(model, element("p", { class: "wrong" }, fault.message));

const pictureButtons = (what, name, source, heading) => [
  button(`${what}SVG`, () => saveSvg(name, source(), heading())),
  button(`${what}PNG`, () => savePng(name, source(), heading())),
];

// ---- sentences

export function sentenceColumn(model, result) {
  const { parse, surprisal } = result;
  if (!result.svg) return column(model, paragraph("The model reads no word of this sentence."));
  const readings = parse ? readingsOf(result) : [];
  let place = 0; // of the reading that is shown
  const svg = () => readings[place]?.svg ?? result.svg;
  const heading = () => `${model.name}${place ? `, reading ${place + 1}` : ""}: \u2068${result.sentence}\u2069`;
  const name = fileName(result.sentence);
  const shown = element("div");
  const pictures = element("div", { class: "pictures" }, shown);
  const aboutTree = element("div");
  const show = () => {
    const drawn = figure(svg(), parse ? "Tree. Arrow keys go through its constituents." : "Surprisal of each word", result.sentence);
    pictures.firstChild.replaceWith(drawn);
    if (!parse) return;
    const marks = tableOfSpans(readings[place]);
    aboutTree.replaceChildren(marks, ...(readings[place].brackets ? [element("pre", { dir: "auto" }, readings[place].brackets)] : []));
    connect(drawn, marks, readings[place]);
  };
  show();
  if (result.chart_svg) pictures.append(figure(result.chart_svg, model.structure, result.sentence));
  const tables = element("details", {}, element("summary", {}, "As tables"));
  const measured = tableOfWords(parse, surprisal);
  tables.append(measured);
  if (surprisal && model.by_word) tables.append(moreMeasures(model, result.sentence, measured));
  tables.append(aboutTree);
  const downloads = [
    ...pictureButtons("", name, svg, heading),
    ...(result.chart_svg ? pictureButtons("Chart ", `${name}-chart`, () => result.chart_svg, () => `${model.name}: \u2068${result.sentence}\u2069`) : []),
    button("CSV", () => save(`${name}.csv`, csv(wordRows(result)), "text/csv")),
    button("JSON", () => save(`${name}.json`, json(withoutPictures(result)), "application/json")),
  ];
  if (parse?.brackets) downloads.push(button("Brackets", () => save(`${name}.mrg`, `${readings[place].brackets}\n`, "text/plain")));
  const stepper = readings.length > 1 ? stepperOf(readings, (next) => { place = next; show(); }) : null;
  return column(model, ...factsOf(model, result, readings), stepper, pictures, toolbar("Download", downloads), tables);
}

// The best trees of a sentence; the tree of the parse is the first.
function readingsOf({ parse, readings, svg }) {
  const [first, ...others] = readings ?? [];
  const { labels, ...plain } = parse;
  return [{ ...first, ...parse, svg }, ...others.map((other) => ({ ...plain, ...other }))];
}

function describe(readings, place) {
  const { probability: ofTree, confidence } = readings[place];
  const values = [ofTree == null ? null : `probability ${probability(ofTree)}`, `confidence ${number(confidence)}`];
  return `reading ${place + 1} of ${readings.length} (${values.filter(Boolean).join(", ")})`;
}

function stepperOf(readings, show) {
  let place = 0;
  const text = element("span");
  const write = () => { const said = describe(readings, place); text.textContent = `${said[0].toUpperCase()}${said.slice(1)}`; };
  const step = (by) => () => {
    place = (place + by + readings.length) % readings.length;
    show(place);
    write();
    status(`${text.textContent}.`);
  };
  write();
  return element(
    "div", { class: "readings", role: "group", "aria-label": "Readings" },
    button("‹", step(-1), { "aria-label": "Previous reading" }), button("›", step(1), { "aria-label": "Next reading" }), text,
  );
}

// Different texts, each with its own direction.
const listed = (texts, between) => [...new Set(texts)].map((text) => `\u2068${text}\u2069`).join(between);

// What is known of a sentence, and what is missing from its pictures.
function factsOf(model, { parse, surprisal, chart_svg: chart }, readings) {
  const words = parse ? parse.words.map((word, place) => ({ word, in_vocabulary: parse.known[place] }))
    : surprisal.words.filter(({ word, in_vocabulary }) => word && in_vocabulary !== null);
  const unknown = words.filter((word) => word.in_vocabulary === false).map(({ word }) => word);
  const unread = parse?.not_read.map(({ text }) => text) ?? [];
  const isMost = unknown.length > words.length / 2;
  const noun = model.units === "characters" ? "character" : "word";
  const facts = [
    counted(words.length, noun),
    readings.length === 1 && parse.confidence != null && `confidence ${number(parse.confidence)}`,
    surprisal && `${surprisal.bits.toFixed(1)} bits`,
    unknown.length && !isMost && `unknown: ${listed(unknown, ", ")}`,
    unread.length && `not in the tree: ${listed(unread, " ")}`,
    !chart && words.length > 1 && (parse?.marginals || parse?.scores) && "too long for a chart",
  ];
  const language = languages(model);
  const notice = isMost ? element("p", { class: "notice" },
    `${unknown.length} of ${counted(words.length, noun)} ${unknown.length === 1 ? "is" : "are"} not in the vocabulary (${listed(unknown, ", ")}): the surprisals and the tree say little about this sentence. `,
    language && `The model reads ${language}.`) : null;
  return [element("p", { class: "facts", dir: "auto" }, facts.filter(Boolean).join(" · ")), notice];
}

const withoutPictures = ({ svg, chart_svg, readings, ...rest }) =>
  ({ ...rest, ...(readings && { readings: readings.map(({ svg: _, ...reading }) => reading) }) });

// A row for each word, with the columns of the command `score`.
const wordRows = ({ number: sentence, parse, surprisal }) => surprisal?.words ?? parse.words.map((word, place) => ({
  sentence, position: place + 1, word, begin: parse.offsets[place][0], end: parse.offsets[place][1],
  token: parse.tokens[place], in_vocabulary: parse.known[place],
}));

export function downloadsOfAll(found) {
  const answers = found.filter(({ answer }) => answer).map(({ answer }) => answer);
  const content = answers.map(({ sentences, ...rest }) => ({ ...rest, sentences: sentences.map(withoutPictures) }));
  const parsed = answers.filter(({ sentences }) => sentences.some(({ parse }) => parse));
  const of = (model) => (answers.length > 1 ? ` of ${model}` : "");
  return toolbar("Download all", [
    button("JSON", () => save("sentences.json", json(content), "application/json")),
    ...answers.map(({ model, sentences }) => button(
      `CSV${of(model)}`, () => save(`${fileName(model)}.csv`, csv(sentences.flatMap(wordRows)), "text/csv"),
    )),
    ...parsed.map(({ model, sentences }) => button(
      `Brackets${of(model)}`,
      () => save(`${fileName(model)}.mrg`, sentences.map(({ parse }) => `${parse.brackets ?? ""}\n`).join(""), "text/plain"),
    )),
  ]);
}

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

// ---- pairs and samples

export function pairColumn(model, result) {
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
  const unknown = unknownIn(result);
  const notice = unknown.length ? element("p", { class: "notice", dir: "auto" },
    `The sentences differ in words that are not in the vocabulary (${listed(unknown, ", ")}): the comparison says nothing about grammar.`) : null;
  const parts = [];
  const both = `${first.sentence} ${second.sentence}`;
  const name = fileName(both);
  const bars = [];
  if (result.svg) {
    parts.push(element("div", { class: "pictures" }, figure(result.svg, "Surprisal of each word in both sentences", both)));
    bars.push(...pictureButtons("", name, () => result.svg, () => `${model.name}: surprisal in bits`));
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
  return column(model, paragraph(...facts), notice, ...parts, tables);
}

// The unknown words in which the sentences of a pair differ.
function unknownIn({ first, second, columns }) {
  const pairs = (columns ?? []).map((at) => [first.words[at.first], second.words[at.second]]);
  const differing = pairs.filter(([one, other]) => one?.word !== other?.word).flat();
  return differing.filter((row) => row?.in_vocabulary === false).map(({ word }) => word);
}

// parse: called with the text of a sentence that is to be parsed.
export function generatedColumn(model, answer, parse) {
  const list = element("ol", { class: "generated" });
  for (const one of answer.sentences) {
    const item = element("li", {}, element("span", { dir: "auto" }, one.text, one.ended === false ? " …" : ""));
    const bars = [button("Parse", () => parse(one.text))];
    if (one.svg) {
      item.append(figure(one.svg, "Tree", one.text));
      bars.push(...pictureButtons("", fileName(one.text), () => one.svg, () => `${model.name}: sampled`));
    }
    item.append(element("div", { class: "toolbar" }, ...bars));
    list.append(item);
  }
  const all = [
    button("JSON", () => save("sentences.json", json(answer.sentences.map(withoutPictures)), "application/json")),
    button("Text", () => save("sentences.txt", answer.sentences.map((one) => `${one.text}\n`).join(""), "text/plain")),
  ];
  return column(model, paragraph(counted(answer.sentences.length, "sentence")), list, toolbar("Download", all));
}

// ---- accuracy

// What the cards of the models state. Models whose cards have the same table share one.
export function accuracyOf(models) {
  const alike = {};
  for (const model of models.filter(({ accuracy }) => accuracy)) {
    const { protocol, values } = model.accuracy;
    (alike[JSON.stringify([protocol, ...Object.keys(values)])] ??= []).push(model);
  }
  const silent = models.filter((model) => !model.accuracy && can(model, "parsing")).map(({ name }) => name);
  return [
    ...Object.values(alike).flatMap((group) => [
      element("p", {}, group[0].accuracy.protocol.replaceAll("`", "")),
      table("As the model cards state it", ["model", ...Object.keys(group[0].accuracy.values)],
        group.map(({ name, accuracy }) => [name, ...Object.values(accuracy.values)])),
    ]),
    ...(silent.length ? [element("p", {}, `No accuracy is stated for ${silent.join(", ")}.`)] : []),
  ];
}
