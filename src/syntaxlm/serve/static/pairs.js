// Minimal pairs: one with its picture, or many as a table.

import { button, counted, element, fold, listed, number, right, table, toolbar } from "./elements.js";
import { beside, csv, fileName, json, pictureButtons, printButton, save } from "./files.js";
import { figure } from "./pictures.js";
import { column, withoutPictures } from "./sentences.js";

// A word in quotation marks, unless it has its own.
const quoted = (word) => (/["“”„«»]/.test(word) ? word : `“${word}”`);

// The words that contribute most to the difference, in quotation marks; null if there are none.
function decisiveWords({ first, second, columns, decisive_column: decisive }) {
  if (decisive === null) return null;
  const word = (side, place) => (place === null ? null : side.words[place].word || "(end)");
  const [one, other] = [word(first, columns[decisive].first), word(second, columns[decisive].second)];
  if (one === null || other === null) return { text: quoted(one ?? other), after: ", which the other sentence does not have" };
  return { text: one === other ? quoted(one) : `${quoted(one)} / ${quoted(other)}`, after: "" };
}

// The unknown words in which the sentences of a pair differ.
function unknownIn({ first, second, columns }) {
  const pairs = (columns ?? []).map((at) => [first.words[at.first], second.words[at.second]]);
  const differing = pairs.filter(([one, other]) => one?.word !== other?.word).flat();
  return differing.filter((row) => row?.in_vocabulary === false).map(({ word }) => word);
}

// Whether both sentences have the same words, where the model reads all unknown words as one.
const isReadAlike = ({ first, second, columns }) => (columns ?? []).length > 0 && columns.every((at) => {
  const [one, other] = [first.words[at.first], second.words[at.second]];
  return one?.word === other?.word || (one?.in_vocabulary === false && other?.in_vocabulary === false);
});

function verdict(result) {
  const { first, second, likelier, difference } = result;
  if (likelier === "equal") return element("p", { class: "facts" }, "Both sentences are equally likely.");
  const better = likelier === "first" ? first : second;
  const words = decisiveWords(result);
  return element("p", { class: "facts" },
    "Likelier: ", element("strong", { dir: "auto" }, better.sentence), ` by ${number(Math.abs(difference))} bits`,
    words && ", most at ", words && element("strong", { dir: "auto" }, words.text), words && words.after, ".");
}

// A row for each aligned word.
const alignedRows = ({ first, second, columns }) => columns.map((at) => {
  const [one, other] = [first.words[at.first], second.words[at.second]];
  return {
    first: one && (one.word || "(end)"), first_surprisal: one?.surprisal, second: other && (other.word || "(end)"),
    second_surprisal: other?.surprisal,
    difference: at.difference ?? (other?.surprisal ?? 0) - (one?.surprisal ?? 0),
  };
});

export function pairColumn(model, result) {
  const { first, second, columns, decisive_column: decisive } = result;
  const unknown = unknownIn(result);
  const notice = unknown.length ? element("p", { class: "notice", dir: "auto" },
    `The sentences differ in words that are not in the vocabulary (${listed(unknown, ", ")}): the comparison says nothing about grammar.`) : null;
  const both = `${first.sentence} / ${second.sentence}`;
  const name = fileName(first.sentence, "pair", model.name);
  const parts = [];
  const bars = [];
  if (result.svg) {
    parts.push(element("div", { class: "pictures" }, figure(result.svg, "Surprisal of each word in both sentences", both)));
    bars.push(...pictureButtons("", () => name, () => result.svg, () => `${model.name}: surprisal in bits`), printButton(() => name));
  }
  if (columns) bars.push(button("CSV", () => save(`${name}.csv`, csv(alignedRows(result)), "text/csv")));
  bars.push(button("JSON", () => save(`${name}.json`, json(withoutPictures(result)), "application/json")));
  const total = table("Surprisal in bits", ["sentence", right("bits")], [first, second].map((side) => [side.sentence, right(number(side.bits))]));
  const tables = fold("As tables", total);
  if (columns) {
    const aligned = table("Words", ["first", right("bits"), "second", right("bits"), right("difference")],
      alignedRows(result).map((row) => [row.first ?? "", right(number(row.first_surprisal)), row.second ?? "", right(number(row.second_surprisal)), right(number(row.difference))]));
    if (decisive !== null) aligned.querySelectorAll("tbody tr")[decisive].classList.add("decisive");
    tables.append(aligned);
  }
  return column(model.name, both, verdict(result), notice, ...parts, toolbar("Download", bars), tables);
}

// ---- many pairs

// results: for each pair { others, answer } or { others, first, second, fault }. open: shows one pair.
export function pairsColumn(model, results, open) {
  const rows = results.map((result, place) => ({ number: place + 1, ...result, unknown: result.answer ? unknownIn(result.answer) : [] }));
  const answered = rows.filter(({ answer }) => answer);
  const others = [...new Set(rows.flatMap((row) => Object.keys(row.others)))];
  const heads = ["pair", ...others, "first sentence", "second sentence", "likelier", right("by bits"), "most at", "unknown words that differ"];
  const shown = table("Pairs", heads, rows.map((row) => [
    button(String(row.number), () => open(row), { class: "link", "aria-label": `Show pair ${row.number}` }),
    ...others.map((head) => row.others[head]),
    row.first, row.second, outcome(row),
    right(row.answer ? number(Math.abs(row.answer.difference)) : ""),
    row.answer ? decisiveWords(row.answer)?.text ?? "" : "", row.unknown.join(", "),
  ]));
  const name = fileName("pairs", model.name);
  const files = [
    button("CSV", () => save(`${name}.csv`, csv(beside(rows.map(csvRow), ({ pair }) => rows[pair - 1].others)), "text/csv")),
    button("JSON", () => save(`${name}.json`, json(answered.map(({ answer }) => withoutPictures(answer))), "application/json")),
    printButton(() => name),
  ];
  return column(model.name, "Pairs", ...summary(rows, answered), toolbar("Download", files), shown);
}

function outcome({ answer, fault }) {
  if (!answer) return fault.message;
  return answer.likelier === "equal" && isReadAlike(answer) ? "identical for the model" : answer.likelier;
}

const csvRow = ({ number: pair, first, second, answer, unknown, fault }) => ({
  pair, first, second, first_bits: answer?.first.bits, second_bits: answer?.second.bits, likelier: answer?.likelier,
  difference: answer?.difference, unknown_words: unknown.join(" "), error: fault?.message,
});

function summary(rows, answered) {
  const right = (some) => some.filter(({ answer }) => answer.likelier === "first").length;
  const share = (some) => `${right(some)} of ${some.length} (${((100 * right(some)) / some.length).toFixed(1)}%)`;
  const known = answered.filter(({ unknown }) => !unknown.length);
  const facts = [`The first sentence is likelier in ${share(answered)}.`];
  if (known.length < answered.length) {
    facts.push(`In ${counted(answered.length - known.length, "pair")} the sentences differ in unknown words, so that the comparison says nothing about grammar.`);
    if (known.length) facts.push(`Without them: ${share(known)}.`);
  }
  const refused = rows.length - answered.length;
  if (refused) facts.push(`${counted(refused, "pair")} could not be compared.`);
  return [element("p", { class: "facts" }, facts.join(" "))];
}
