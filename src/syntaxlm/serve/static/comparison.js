// Where two trees of a sentence differ: two models, two readings, or a model and a tree in brackets.

import { number } from "./elements.js";

const key = ([start, end]) => `${start}-${end}`;

// Two trees, each with spans [start, end) of words and the offsets of its words, by the words that both have. Spans of
// fewer than two of these words, and that of all, are left out. f1: null if a tree has no other spans.
// lacking: the spans of the first tree that the second one lacks.
export function compare(tree, other) {
  const theirs = new Set(other.offsets.map(key));
  const common = tree.offsets.map(key).filter((place) => theirs.has(place));
  const [ours, others] = [tree, other].map((one) => projected(one, common));
  const same = [...ours.keys()].filter((span) => others.has(span)).length;
  const lacking = [...ours].filter(([span]) => !others.has(span)).flatMap(([, spans]) => spans);
  const f1 = ours.size + others.size ? (200 * same) / (ours.size + others.size) : null;
  return { same, count: ours.size, otherCount: others.size, f1, lacking };
}

// The spans of a tree over the common words: each with the spans of the tree that become it.
function projected({ spans, offsets }, common) {
  const places = new Map(common.map((place, index) => [place, index]));
  const found = new Map();
  for (const span of spans) {
    const inside = offsets.slice(...span).map(key).filter((place) => places.has(place)).map((place) => places.get(place));
    if (inside.length < 2 || inside.length === common.length) continue;
    const range = key([inside[0], inside.at(-1) + 1]);
    found.set(range, [...(found.get(range) ?? []), span]);
  }
  return found;
}

export function statement({ same, count, f1 }, name) {
  if (f1 === null) return null;
  const differ = same < count ? " Those with a broken ring are not." : "";
  return `${same} of ${count} constituents inside the sentence are also in ${name} (F1 ${number(f1, 1)}).${differ}`;
}
