// Files that the page saves, texts that it copies, and what it prints.

import { button, element, number, status } from "./elements.js";
import { STYLE, SVG, parsed } from "./pictures.js";
import { ask } from "./requests.js";

const HEADING = 30; // pixels: height of the heading of a saved picture
const MARGIN = 12; // pixels
const NARROWEST = 320; // pixels: of a picture with a heading
const LONGEST_NAME = 40; // characters of each part

export const fileName = (...parts) => parts.filter(Boolean).map((part) => {
  const letters = [...String(part).toLowerCase().replace(/[^\p{L}\p{M}\p{N}]+/gu, "-").replace(/^-|-$/g, "")];
  return letters.slice(0, LONGEST_NAME).join("") || "sentence";
}).join("-");

export const json = (content) => `${JSON.stringify(content, null, 2)}\n`;

// Rows as in RFC 4180, but with the line ends of the package's files. A field that a row lacks is empty.
export function csv(rows) {
  const cell = (value) => {
    const text = typeof value === "number" && !Number.isFinite(value) ? number(value) : String(value ?? "");
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const heads = namesOf(rows);
  return [heads, ...rows.map((row) => heads.map((head) => row[head]))].map((row) => `${row.map(cell).join(",")}\n`).join("");
}

const namesOf = (rows) => [...new Set(rows.flatMap(Object.keys))];

// Rows of results, each with the cells of a table beside it. A name that both have gets the prefix input_ in the cells,
// as in the package's files. cellsOf: returns the cells of a row by name.
export function beside(rows, cellsOf) {
  const taken = namesOf(rows);
  return rows.map((row) => {
    const cells = cellsOf(row) ?? {};
    const renamed = Object.entries(cells).map(([head, value]) => {
      let name = head;
      while (taken.includes(name) || (name !== head && Object.hasOwn(cells, name))) name = `input_${name}`;
      return [name, value];
    });
    return { ...row, ...Object.fromEntries(renamed) };
  });
}

export function save(name, content, kind) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type: `${kind};charset=utf-8` }));
  const link = element("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    status(`${what} in the clipboard.`);
  } catch {
    status("The browser does not allow this page to copy. Save the file instead.", true);
  }
}

// name, source, heading: functions, because a column may show another reading later.
export const pictureButtons = (what, name, source, heading) => [
  button(`${what}SVG`, () => save(`${name()}.svg`, headed(source(), heading()), "image/svg+xml")),
  button(`${what}PNG`, () => savePng(name(), source(), heading())),
];

// The tree in brackets and as LaTeX code, to save and to copy.
export function treeButtons(name, brackets) {
  const latex = async () => (await ask("api/tree", { brackets: brackets() })).latex;
  const whole = (code) => `% \\usepackage{forest}\n${code}\n`;
  const failing = (action) => async () => action().catch((fault) => status(fault.message, true));
  return [
    button("Brackets", () => save(`${name()}.mrg`, `${brackets()}\n`, "text/plain")),
    button("Copy brackets", () => copy(brackets(), "The tree is")),
    button("LaTeX", failing(async () => save(`${name()}.tex`, whole(await latex()), "text/plain"))),
    button("Copy LaTeX", failing(async () => copy(whole(await latex()), "The tree for the LaTeX package forest is"))),
  ];
}

// Prints the results, or one article of them; most browsers offer to save a PDF. name: that of the file.
export function print(name, article = null) {
  const title = document.title;
  window.addEventListener("afterprint", () => {
    document.title = title;
    document.body.classList.remove("printing-one");
    article?.classList.remove("alone");
  }, { once: true });
  document.title = name;
  document.body.classList.toggle("printing-one", article !== null);
  article?.classList.add("alone");
  window.print();
}

export const printButton = (name) => button("PDF", ({ target }) => print(name(), target.closest("article")), { title: "Print, or save as PDF" });

// A picture with a line above it, which says what the page says around it. A line that is too long is cut.
function headed(source, heading) {
  const root = parsed(source);
  const [width, height] = ["width", "height"].map((side) => Number(root.getAttribute(side)));
  const wide = Math.max(width, NARROWEST);
  const pen = element("canvas").getContext("2d");
  pen.font = "13px 'DejaVu Sans', sans-serif";
  const all = [...heading.replace(/[\p{Cc}\p{Cn}]/gu, " ")]; // XML cannot hold some of these
  const letters = [...all];
  const line = () => letters.join("") + (letters.length < all.length ? "…" : "");
  while (letters.length && pen.measureText(line()).width > wide - 2 * MARGIN) letters.pop();
  const set = (target, values) => Object.entries(values).forEach(([name, value]) => target.setAttribute(name, value));
  set(root, { width: wide, height: height + HEADING, viewBox: `0 ${-HEADING} ${wide} ${height + HEADING}` });
  set(root.querySelector(".slm-paper"), { y: -HEADING, width: wide, height: height + HEADING });
  const text = document.createElementNS(SVG, "text");
  set(text, { class: "slm-heading", x: MARGIN, y: MARGIN + 10 - HEADING });
  text.textContent = line();
  root.append(text);
  return new XMLSerializer().serializeToString(root).replace(">", () => `>${STYLE.exec(source)[0]}`);
}

// The picture at twice its size, in light colours, as for paper.
async function savePng(name, source, heading) {
  const scale = 2;
  const light = headed(source, heading).replace(STYLE, (style) => style.replace(/@media[^<]*/, ""));
  const url = URL.createObjectURL(new Blob([light], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = element("canvas");
    canvas.width = image.naturalWidth * scale;
    canvas.height = image.naturalHeight * scale;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    const drawn = await new Promise((done) => canvas.toBlob(done, "image/png"));
    if (drawn === null) throw new RangeError("the picture is too large for a canvas");
    save(`${name}.png`, drawn);
  } catch {
    status("The browser cannot draw this picture as PNG. Download it as SVG.", true);
  } finally {
    URL.revokeObjectURL(url);
  }
}
