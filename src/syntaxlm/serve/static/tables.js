// Tables that are pasted or dropped: their rows, and the columns with sentences.

import { $, element } from "./elements.js";

const HEADS = /^(sentence|text|item|stimulus|target|first|second|good|bad)/i;

// What separates the fields of a line. In running text, a space or a digit follows a comma.
const SEPARATORS = { "\t": /\t/, ",": /,(?![\s\d])/, ";": /;(?![\s\d])/ };

// The rows of a text with a tab, or with the comma or semicolon of a CSV file, in each line; null for other texts, and
// for a single line.
export function rowsOf(text) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim());
  const [separator] = Object.entries(SEPARATORS).find(([, sign]) => lines.every((line) => sign.test(line))) ?? [];
  if (lines.length < 2 || !separator) return null;
  const rows = separator === "\t" ? lines.map((line) => line.split("\t").map((cell) => cell.trim())) : fieldsOf(text, separator);
  if (separator !== "\t" && rows.some((row) => row.length !== rows[0].length)) return null;
  const width = Math.max(...rows.map((row) => row.length));
  return rows.map((row) => [...row, ...Array(width - row.length).fill("")]);
}

const words = (cell) => cell.split(/\s+/).filter(Boolean).length;

// The columns with most words, in their order.
function guessed(rows, count) {
  const total = (column) => rows.reduce((sum, row) => sum + words(row[column]), 0);
  const columns = [...rows[0].keys()].sort((one, other) => total(other) - total(one) || one - other);
  return columns.slice(0, count).sort((one, other) => one - other);
}

// Whether the first row has names: a known one, or a single word above sentences.
function startsWithNames(rows, columns) {
  const [first, ...others] = rows;
  if (!others.length) return false;
  return columns.some((column) => HEADS.test(first[column]) && words(first[column]) <= 2) ||
    columns.every((column) => words(first[column]) <= 1 && others.some((row) => words(row[column]) > 1));
}

// The names of the columns. A later column with the name of an earlier one is numbered, so that each can be chosen.
const headsOf = (rows, hasNames) => rows[0].map((cell, place, all) =>
  (hasNames && all.indexOf(cell) === place && cell) || `column ${place + 1}`);

// Offers the columns of a table in selects, the likely ones first; hides them without a table. Returns what was chosen:
// { texts, others } for each row, with texts in the order of the selects, and others by their heads; null without a table.
export function chosenColumns(text, ids) {
  const rows = rowsOf(text);
  const usable = rows !== null && rows[0].length >= ids.length;
  for (const id of ids) $(id).closest("label").hidden = !usable;
  if (!usable) return null;
  const likely = guessed(rows, ids.length);
  const hasNames = startsWithNames(rows, likely);
  const heads = headsOf(rows, hasNames);
  const columns = ids.map((id, place) => {
    const select = $(id);
    const before = select.value === select.dataset.likely ? "" : select.value; // chosen by the user, or by a link
    select.dataset.likely = heads[likely[place]];
    select.replaceChildren(...heads.map((head) => element("option", { value: head }, head)));
    select.value = heads.includes(before) ? before : select.dataset.likely;
    return heads.indexOf(select.value);
  });
  return rows.slice(hasNames ? 1 : 0).map((row) => ({
    texts: columns.map((column) => row[column]),
    others: Object.fromEntries(heads.map((head, place) => [head, row[place]]).filter((_, place) => !columns.includes(place))),
  }));
}

// A file as text for the page; fields of a CSV file become separated by tabs. Throws TypeError for what is not UTF-8.
export async function textOf(file) {
  const decoded = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer()); // without byte order mark
  const text = decoded.replace(/\r\n?/g, "\n");
  if (!/\.csv$/i.test(file.name)) return text;
  const [head] = text.split("\n", 1);
  const separator = head.split(";").length > head.split(",").length ? ";" : ",";
  return fieldsOf(text, separator).map((row) => row.join("\t")).join("\n");
}

// The rows of a CSV file (RFC 4180), whose separator may be a semicolon.
function fieldsOf(text, separator = ",") {
  const rows = [[]];
  const field = new RegExp(`(?:"((?:[^"]|"")*)"|((?!")[^${separator}\\r\\n]*))(${separator}|\\r?\\n|$)`, "g");
  for (const [, quoted, plain, end] of text.matchAll(field)) {
    rows.at(-1).push((quoted?.replaceAll('""', '"') ?? plain ?? "").replace(/\s+/g, " "));
    if (/\n/.test(end)) rows.push([]);
    else if (!end) break;
  }
  return rows.filter((row) => row.some(Boolean));
}
