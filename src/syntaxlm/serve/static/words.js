// The words of a sentence as rows: their surprisals, and further measures that are computed on request.

import { button, element, number, percent, right, table } from "./elements.js";
import { ask } from "./requests.js";

const NEXT_WORDS = 5;
const SIGNS = { "<unk>": "unknown word", "<unk:->": "unknown word", "</s>": "(end)", "<eos>": "(end)" };

const PREDICTIONS = [["rank", "rank", 0], ["entropy", "entropy, bits", 2]];
const BELIEFS = [
  ["lexical_surprisal", "lexical part of the surprisal", 2], ["structural_surprisal", "structural part", 2],
  ["belief_update", "belief update, bits", 3], ["expected_ended", "constituents that end", 2],
  ["expected_open", "constituents still open", 2], ["low_attachment", "probability of low attachment", 2],
];

// A row for each word, with the columns of the command `score`.
export const wordRows = ({ number: sentence, parse, surprisal }) => surprisal?.words ?? (parse?.words ?? []).map((word, place) => ({
  sentence, position: place + 1, word, begin: parse.offsets[place][0], end: parse.offsets[place][1],
  token: parse.tokens[place], in_vocabulary: parse.known[place],
}));

const known = (row) => (row.in_vocabulary === null ? "not read" : row.in_vocabulary ? "yes" : "no");

function tableOfWords(rows, measures, hasNext) {
  const heads = ["word", "read as", "in the vocabulary"];
  const hasSurprisal = rows.some((row) => row.surprisal !== undefined);
  const hasMarks = rows.some((row) => row.surprisal_marks > 0);
  if (hasSurprisal) heads.push(right("surprisal, bits"), ...(hasMarks ? [right("of the word"), right("of marks")] : []), ...measures.map(([, head]) => right(head)));
  if (hasNext) heads.push("most probable instead");
  return table("Words", heads, rows.map((row) => [
    row.word || "(end)", row.token, known(row),
    ...(hasSurprisal ? [right(number(row.surprisal)), ...(hasMarks ? [right(number(row.surprisal_word)), right(number(row.surprisal_marks))] : []), ...measures.map(([name, , digits]) => right(number(row[name], digits)))] : []),
    ...(hasNext ? [chips(row.next_words ?? "")] : []),
  ]));
}

// "the 0.1; <unk> 0.05" as a list of words with percentages.
function chips(predicted) {
  const found = [...predicted.matchAll(/(\S+) ([\d.e-]+)(?:; |$)/g)];
  return element("span", { class: "next" }, ...found.map(([, token, value]) => element(
    "span", {}, element("bdi", {}, SIGNS[token] ?? token.replace(/^<unk:(.+)>$/, "unknown word in $1")),
    ` ${percent(Number(value))}`,
  )));
}

// The table of words, with buttons that add measures. They take a grammar seconds, so they are not computed at once.
// The rows of the result get them, too, so that its files have them.
export function wordsOf(model, result) {
  const rows = () => wordRows(result);
  const shown = { measures: [], hasNext: false };
  const made = element("div", {}, tableOfWords(rows(), [], false));
  const failure = element("span", { class: "wrong", "aria-live": "polite" });
  const more = (text, measures, next) => {
    const asking = button(text, async () => {
      asking.disabled = true;
      try {
        const names = measures.map(([name]) => name);
        const answer = await ask("api/surprisal", { model: model.name, sentences: [result.sentence], measures: names, next_words: next });
        result.surprisal.words.forEach((row, place) => {
          for (const name of [...names, ...(next ? ["next_words"] : [])]) row[name] = answer.sentences[0].words[place][name];
        });
        shown.measures.push(...measures);
        shown.hasNext ||= next > 0;
        made.firstChild.replaceWith(tableOfWords(rows(), shown.measures, shown.hasNext));
        asking.remove();
        failure.textContent = "";
      } catch (fault) { // the button stays for another try: the server may be busy
        failure.textContent = fault.message;
        asking.disabled = false;
      }
    });
    made.append(asking);
  };
  if (result.surprisal && model.by_word) more("Entropy, rank and next words", PREDICTIONS, NEXT_WORDS);
  if (result.surprisal && model.beliefs) more("Beliefs about the tree", BELIEFS, 0);
  made.append(" ", failure);
  return made;
}
