// Sampled sentences.

import { button, counted, element, toolbar } from "./elements.js";
import { fileName, json, pictureButtons, save, treeButtons } from "./files.js";
import { figure } from "./pictures.js";
import { column, withoutPictures } from "./sentences.js";

// parse: called with the text of a sentence that is to be parsed.
export function generatedColumn(model, answer, parse) {
  const list = element("ol", { class: "generated" });
  for (const one of answer.sentences) {
    const item = element("li", {}, element("span", { dir: "auto" }, one.text, one.ended === false ? " …" : ""));
    const bars = [button("Parse", () => parse(one.text))];
    if (one.svg) {
      const name = () => fileName(one.text, model.name, "sampled");
      item.append(element("div", { class: "pictures" }, figure(one.svg, `Tree of ${one.text}`, one.text)));
      bars.push(...pictureButtons("", name, () => one.svg, () => `${model.name}: sampled`));
      if (one.brackets) bars.push(...treeButtons(name, () => one.brackets));
    }
    item.append(element("div", { class: "toolbar" }, ...bars));
    list.append(item);
  }
  const name = fileName("sampled", model.name);
  const all = [
    button("JSON", () => save(`${name}.json`, json(answer.sentences.map(withoutPictures)), "application/json")),
    button("Text", () => save(`${name}.txt`, answer.sentences.map((one) => `${one.text}\n`).join(""), "text/plain")),
  ];
  return column(model.name, "Generated sentences", element("p", { class: "facts" }, counted(answer.sentences.length, "sentence")), list, toolbar("Download", all));
}
