// What is typed, pasted or dropped: running text with hard line breaks, and trees in brackets.

import { Refused } from "./requests.js";

const ENDS = /[.!?…:;]["'”’»)\]]*$/;
const CAPITAL_FIRST = /^\P{L}*\p{Lu}/u;
const SMALL_FIRST = /^\P{L}*\p{Ll}/u;
const WITHOUT_SPACES = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]{4,}/u;

export const hasWords = (text) => /[\p{L}\p{N}]/u.test(text);

export const lacksSpaces = (text) => WITHOUT_SPACES.test(text) && !/\s/.test(text.trim());

export const linesOf = (text) => text.split(/\r?\n/).map((line) => line.trim()).filter(Boolean);

// Joins lines that a program or a page has broken: those of a paragraph that starts with a capital letter, and in which
// a line without final punctuation is followed by a small letter. Lists of sentences have no such place.
export function unbroken(text) {
  let joined = 0;
  const paragraphs = text.split(/\r?\n\s*\n/).map(linesOf).map((lines) => {
    const isBroken = CAPITAL_FIRST.test(lines[0] ?? "") &&
      lines.some((line, place) => place + 1 < lines.length && !ENDS.test(line) && SMALL_FIRST.test(lines[place + 1]));
    if (isBroken) joined += lines.length - 1;
    return lines.join(isBroken ? " " : "\n");
  });
  return { text: paragraphs.filter(Boolean).join("\n"), joined };
}

// The trees of a text that consists of brackets with brackets inside; null for other texts. Refuses what begins as a
// tree and has brackets without partner, because its labels would be read as words.
export function treesIn(text) {
  const trees = [];
  const refused = (sign, place) => {
    if (!/^\s*\([A-Z]*\s*\(/.test(text)) return null;
    throw new Refused(`This text begins as a tree, and the bracket ${sign} at character ${place + 1} has no partner. Complete the tree, or write the sentence without brackets.`);
  };
  let depth = 0;
  let start = 0;
  for (const [place, sign] of [...text.matchAll(/[()]|[^\s()]+/g)].map((found) => [found.index, found[0]])) {
    if (sign === "(") {
      if (depth === 0) start = place;
      depth += 1;
    } else if (sign === ")") {
      depth -= 1;
      if (depth < 0) return refused(")", place);
      if (depth === 0) trees.push(text.slice(start, place + 1));
    } else if (depth === 0) return null;
  }
  if (depth > 0) return refused("(", start);
  const isNested = (tree) => tree.indexOf("(", 1) > 0;
  return depth === 0 && trees.length && trees.every(isNested) ? trees.map((tree) => tree.replace(/\s+/g, " ")) : null;
}
