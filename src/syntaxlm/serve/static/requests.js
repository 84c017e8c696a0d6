// Requests to the JSON interface.

export class Refused extends Error {
  constructor(message, status = null) {
    super(message);
    this.status = status; // of HTTP; null if the page itself refuses
  }
}

const WRONG_REQUEST = 422;
const OF_SENTENCE = /^sentence (\d+): (.+)$/s; // an error of one sentence of a request

// signal: ends the request; its reason is thrown.
export async function ask(path, body, signal = null) {
  let answer;
  try {
    answer = await fetch(path, {
      signal, ...(body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }),
    });
  } catch {
    signal?.throwIfAborted();
    throw new Refused("The server does not answer. Is it still running?");
  }
  const content = await answer.json().catch(() => null);
  signal?.throwIfAborted();
  if (!answer.ok) throw new Refused(content?.detail ?? `The server answered ${answer.status}.`, answer.status);
  if (content === null) throw new Refused("The answer of the server is incomplete. Is it still running?");
  return content;
}

// One result for each text; { fault } for a text that the model refuses. Throws if it refuses all of them.
// request: returns the results of some texts. isFirst: whether these are the first texts.
export async function perSentence(texts, most, request) {
  const results = [];
  for (let start = 0; start < texts.length; start += most) {
    results.push(...await refusingSingly(texts.slice(start, start + most), (some) => request(some, start === 0)));
  }
  if (results.every(({ fault }) => fault)) throw results[0].fault;
  results.forEach(renumber);
  return results;
}

async function refusingSingly(texts, request) {
  const results = texts.map(() => null);
  const open = () => [...results.keys()].filter((place) => results[place] === null);
  while (open().length) {
    const places = open();
    try {
      const answers = await request(places.map((place) => texts[place]));
      places.forEach((place, number) => { results[place] = answers[number]; });
    } catch (fault) {
      const found = fault.status === WRONG_REQUEST && OF_SENTENCE.exec(fault.message);
      if (!found) throw fault;
      results[places[Number(found[1]) - 1]] = { fault: new Refused(`This sentence is refused: ${found[2]}.`, fault.status) };
    }
  }
  return results;
}

// A result has its number in the request, which need not be that among all texts.
function renumber(result, place) {
  const number = place + 1;
  if (result.fault) return;
  result.number = number;
  if (result.parse) result.parse.number = number;
  for (const row of result.surprisal?.words ?? []) row.sentence = number;
}

// JSON has no infinite numbers: null is the surprisal of a word with probability 0, and of a word that is not read.
// side: a sentence of an answer, with the bits of the sentence and of its words.
export function restoreInfinities(side) {
  const words = side.words ?? [];
  for (const row of words) {
    if (row.surprisal !== null || row.in_vocabulary === null) continue;
    row.surprisal = Infinity;
    if (row.surprisal_marks !== null) row.surprisal_word = Infinity; // the marks are finite
  }
  if (words.some(({ surprisal }) => surprisal === Infinity)) side.bits = Infinity;
}
