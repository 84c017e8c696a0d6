// All pictures of the page have one magnification, so that bars and letters of different sentences compare.

const LARGEST = 1.4;
const SMALLEST = 1; // the smallest text of a picture has 10 px; wider pictures scroll
const SMALLEST_ON_PHONES = 0.9;
const SMALLEST_TO_FIT = 0.2; // for an overview of long sentences
const PHONE = 640; // pixels
const PAPER = 640; // pixels: width of a printed page between its margins
const LARGEST_ON_PAPER = 0.72;
const SMALLEST_ON_PAPER = 0.3;

const width = (figure) => Number(figure.querySelector("svg").getAttribute("width"));

// isFit: whether the widest picture must fit.
export function magnify(root, isFit) {
  const shown = [...root.querySelectorAll("figure.sentence")].filter((figure) => figure.offsetParent);
  if (!shown.length) return;
  const room = Math.min(...shown.map((figure) => figure.parentElement.clientWidth / width(figure)));
  const smallest = isFit ? SMALLEST_TO_FIT : window.innerWidth <= PHONE ? SMALLEST_ON_PHONES : SMALLEST;
  root.style.setProperty("--zoom", Math.min(LARGEST, Math.max(smallest, room)));
  const onPaper = PAPER / Math.max(...shown.map(width));
  root.style.setProperty("--paper-zoom", Math.min(LARGEST_ON_PAPER, Math.max(SMALLEST_ON_PAPER, onPaper)));
}

// Scrolls a picture that is wider than its place until a part of it is in the middle.
export function centre(figure, part) {
  if (!part) return;
  const [outer, inner] = [figure, part].map((one) => one.getBoundingClientRect());
  figure.scrollLeft += (inner.left + inner.right) / 2 - (outer.left + outer.right) / 2;
}
