// The tasks of the page. Each returns the elements of its results, and what to announce.

import { $, counted, element } from "./elements.js";
import { can, decoderOf } from "./models.js";
import { pairColumn, pairsColumn } from "./pairs.js";
import { Refused, ask, perSentence, restoreInfinities } from "./requests.js";
import { generatedColumn } from "./samples.js";
import { faulty, marksNotice, overview, sentenceArticle } from "./sentences.js";
import { chosenColumns } from "./tables.js";
import { hasWords, linesOf, treesIn, unbroken } from "./texts.js";

const BEST = 3; // trees of a sentence
const MOST_REQUESTS = 10; // of one model for a text, each with as many sentences as the server allows
const PAIRS_TOGETHER = 20; // requests for pairs that wait at the same time
const BYTES_PER_CHARACTER = 4; // at most

export const optional = (id) => ($(id).value.trim() === "" ? null : Number($(id).value));

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

// ---- sentences

// The sentences of the form, as { text, own, others }, and notes on how they were read.
async function read(limits, signal) {
  const typed = $("text").value;
  const table = chosenColumns(typed, ["column"]);
  if (table) return { items: table.map(({ texts, others }) => ({ text: texts[0], others })).filter(({ text }) => text), notes: ["read from a table"] };
  const trees = treesIn(typed);
  if (trees) {
    const drawn = await Promise.all(trees.map((brackets) => ask("api/tree", { brackets }, signal)));
    return { items: drawn.map((own) => ({ text: own.sentence, own })), notes: ["read from trees in brackets"] };
  }
  if ($("lines").checked) return { items: linesOf(typed).map((text) => ({ text })), notes: [] };
  const { text, joined } = unbroken(typed);
  if (text.length * BYTES_PER_CHARACTER > limits.max_body) {
    throw new Refused(`The text has ${text.length.toLocaleString("en")} characters, too many for this page. For whole files, use the commands syntaxlm parse and syntaxlm score.`);
  }
  const { sentences } = await ask("api/sentences", { text }, signal);
  const notes = [];
  if (sentences.length > linesOf(text).length) notes.push("split automatically");
  if (joined) notes.push(`${counted(joined, "line break")} read as spaces; if each line is a sentence, select One sentence per line`);
  return { items: sentences.map((sentence) => ({ text: sentence })), notes };
}

export async function sentences(models, { limits, signal, reading, onReading }) {
  if (!$("text").value.trim()) throw new Refused("Type a sentence first.");
  const chosen = { decoder: $("decoder").value, layer: optional("layer"), labels: $("labels").checked }; // may change soon
  const { items: all, notes } = await read(limits, signal);
  if (!all.some(({ text }) => hasWords(text))) throw new Refused("There are no words in this text.");
  const items = all.slice(0, MOST_REQUESTS * limits.max_sentences);
  if (items.length < all.length) {
    notes.push(`the first ${items.length.toLocaleString("en")} of ${all.length.toLocaleString("en")}; for whole files, use the commands syntaxlm parse and syntaxlm score`);
  }
  const usable = models.filter((model) => can(model, "parsing") || can(model, "surprisal"));
  const answers = await each(usable, (model) => analysed(model, items.map(({ text }) => text), chosen, limits, signal));
  const failed = answers.filter(({ fault }) => fault).map(({ model, fault }) => faulty(model.name, "all sentences", fault));
  const found = answers.filter(({ fault }) => !fault).map(({ model, answer }) => ({ model, ...answer }));
  const options = items.length === 1 ? { reading, onReading } : {};
  const drawn = items.slice(0, limits.max_sentences);
  const articles = drawn.map((item, place) =>
    sentenceArticle(item, found.map(({ model, results }) => ({ model, result: results[place] })), options));
  if (drawn.length < items.length) notes.push(`pictures of the first ${drawn.length}`);
  const labelled = chosen.labels && usable.some((model) => can(model, "labels"));
  if (labelled) notes.push("with labels, only the best tree is shown");
  const refused = items.filter((_, place) => found.some(({ results }) => results[place].fault)).length;
  if (refused) notes.push(`${refused.toLocaleString("en")} refused`);
  return {
    content: [overview(items, found, articles), marksNotice(found), ...failed, ...articles].filter(Boolean),
    said: counted(items.length, "sentence") + (notes.length ? ` (${notes.join("; ")})` : ""),
  };
}

async function analysed(model, texts, chosen, limits, signal) {
  const decoder = decoderOf(model, chosen.decoder);
  const { layer } = chosen;
  const labels = chosen.labels && can(model, "labels");
  let version = null;
  const results = await perSentence(texts, limits.max_sentences, async (some, isFirst) => {
    const answer = await ask("api/analyse", {
      model: model.name, sentences: some, labels, pictures: isFirst,
      decoder: decoder ?? null,
      layer: layer !== null && layer <= model.layers ? layer : null,
      best: decoder === "mbr" && !labels && isFirst ? BEST : 1, // only the best tree has labels
    }, signal);
    version = answer.schema_version;
    answer.sentences.forEach(({ surprisal }) => surprisal && restoreInfinities(surprisal));
    return answer.sentences;
  });
  return { version, results };
}

// ---- pairs

export async function pair(models, { signal, limits, openPair }) {
  const usable = models.filter((model) => can(model, "sentence scores"));
  const many = pairsTyped();
  if (many) return pairs(usable, many.slice(0, MOST_REQUESTS * limits.max_sentences), many.length, signal, openPair);
  const [first, second] = [$("first").value.trim(), $("second").value.trim()];
  if (!first || !second) throw new Refused("Type two sentences first.");
  const found = await each(usable, (model) => comparison(model, { first, second }, signal));
  const columns = found.map(({ model, answer, fault }) => (fault ? faulty(model.name, `${first} / ${second}`, fault) : pairColumn(model, answer)));
  const answers = found.map(({ model, answer }) => ({ model, answers: answer ? [answer] : [] }));
  return { content: [marksOfPairs(answers), titled([first, " / ", second], columns)].filter(Boolean), said: "1 pair" };
}

// The answer for a pair, with the infinite numbers that JSON lacks.
async function comparison(model, pair, signal) {
  const answer = await ask("api/pair", { model: model.name, ...pair }, signal);
  for (const side of [answer.first, answer.second]) {
    restoreInfinities(side);
    side.bits ??= Infinity; // of a model without surprisals of words
  }
  answer.difference ??= answer.second.bits - answer.first.bits;
  return answer;
}

// The notice of marks for what each model answers to pairs. found: [{ model, answers }].
const marksOfPairs = (found) => marksNotice(found.map(({ model, answers }) => ({
  model,
  results: answers.filter(({ columns }) => columns).flatMap(({ first, second }) => [{ surprisal: first }, { surprisal: second }]),
})));

const titled = (heading, columns) => element(
  "article", {}, element("h2", { dir: "auto", tabindex: -1 }, ...heading), element("div", { class: "columns" }, ...columns),
);

// The pairs of the table, or of every two lines; null if there are none.
function pairsTyped() {
  const typed = $("pairs").value;
  const table = chosenColumns(typed, ["first-column", "second-column"]);
  if (!typed.trim()) return null;
  if (table) return table.map(({ texts: [first, second], others }) => ({ first, second, others }));
  const cells = linesOf(typed).flatMap((line) => line.split("\t")); // of a single row, too, which is no table
  const lines = cells.map((cell) => cell.trim()).filter(Boolean);
  if (lines.length % 2) {
    throw new Refused(`The list of pairs has ${counted(lines.length, "line")}; the last one has no partner. Write each pair in two lines, or in two columns separated by a tab.`);
  }
  return lines.flatMap((first, place) => (place % 2 ? [] : [{ first, second: lines[place + 1], others: {} }]));
}

async function pairs(models, chosen, typed, signal, open) {
  const compared = (model) => async ({ first, second, others }) => {
    try {
      return { first, second, others, answer: await comparison(model, { first, second, pictures: false }, signal) };
    } catch (fault) {
      if (!(fault instanceof Refused) || fault.status === null) throw fault;
      return { first, second, others, fault };
    }
  };
  const found = await each(models, async (model) => {
    const results = [];
    for (let start = 0; start < chosen.length; start += PAIRS_TOGETHER) {
      results.push(...await Promise.all(chosen.slice(start, start + PAIRS_TOGETHER).map(compared(model))));
    }
    if (results.every(({ fault }) => fault)) throw results[0].fault;
    return results;
  });
  const columns = found.map(({ model, answer, fault }) => (fault ? faulty(model.name, "pairs", fault) : pairsColumn(model, answer, open)));
  const more = typed > chosen.length ? ` (the first of ${typed.toLocaleString("en")}; for whole files, use the command syntaxlm evaluate pairs)` : "";
  const answers = found.map(({ model, answer }) => ({ model, answers: (answer ?? []).map((row) => row.answer).filter(Boolean) }));
  return { content: [marksOfPairs(answers), titled([counted(chosen.length, "pair")], columns)].filter(Boolean), said: `${counted(chosen.length, "pair")}${more}` };
}

// ---- samples

export async function generate(models, { signal, parseText }) {
  const usable = models.filter((model) => can(model, "generation"));
  const found = await each(usable, (model) => {
    const trees = $("trees").checked && can(model, "labels");
    const byWord = !trees && model.by_word;
    return ask("api/generate", {
      model: model.name, count: optional("count") ?? 1, seed: optional("seed") ?? 0, max_words: optional("max-words"),
      trees,
      ...(byWord && { prompt: $("prompt").value.trim() || null, temperature: optional("temperature") ?? 1, top_k: optional("top-k") }),
    }, signal);
  });
  const columns = found.map(({ model, answer, fault }) =>
    (fault ? faulty(model.name, "generated sentences", fault) : generatedColumn(model, answer, parseText)));
  return { content: [titled(["Generated sentences"], columns)], said: "Generated" };
}
