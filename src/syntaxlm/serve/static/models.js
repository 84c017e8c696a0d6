// What the models can do, and what their cards state.

import { button, element, table } from "./elements.js";
import { copy } from "./files.js";

export const can = (model, ability) => model.abilities.includes(ability);

export const languages = (model) => (model.language ?? "").split(", ").filter(Boolean).map((code) => {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}).join(", ");

const protocolOf = ({ protocol, values }) => `${values.data}, ${protocol}`;

// The perplexity of models by name, all measured in the way that most of their cards state; none if no two have one.
export function perplexitiesOf(models) {
  const counts = new Map();
  for (const protocol of models.flatMap((model) => model.perplexities.map(protocolOf))) counts.set(protocol, (counts.get(protocol) ?? 0) + 1);
  const [common, count] = [...counts].sort(([, one], [, other]) => other - one)[0] ?? [];
  if (count < Math.min(2, models.length)) return new Map();
  const measured = (model) => model.perplexities.find((result) => protocolOf(result) === common);
  return new Map(models.filter(measured).map((model) => [model.name, measured(model)]));
}

// A model to select. Its accuracy is that of the task: F1 of trees, else the perplexity of words.
export function chip(model, place, perplexity) {
  const f1 = model.accuracy?.values.F1;
  const trees = [f1 && `F1 ${f1}`, !can(model, "parsing") && "no trees"];
  const words = [perplexity && `perplexity ${perplexity.values.perplexity}`];
  const facts = (about) => [languages(model) || model.model_type, ...about].filter((one) => one && one !== model.name).join(", ");
  return element("label", { class: "chip", title: model.description },
    element("input", { type: "checkbox", name: "model", value: model.name, checked: place === 0 }),
    element("span", {}, model.name),
    element("small", { class: "for-trees" }, facts(trees)), element("small", { class: "for-words" }, facts(words)));
}

// What the cards of the models state. Models whose cards have the same table share one.
export function accuracyOf(models) {
  const silent = models.filter((model) => !model.accuracy && can(model, "parsing")).map(({ name }) => name);
  const isStated = models.some(({ accuracy, perplexities }) => accuracy || perplexities.length);
  return [
    ...(isStated ? [element("p", {}, "The cards of the models state these values.")] : []),
    ...tablesOf(models.filter(({ accuracy }) => accuracy).map(({ name, accuracy }) => [name, accuracy])),
    ...tablesOf(models.flatMap(({ name, perplexities }) => perplexities.map((result) => [name, result]))),
    ...(silent.length ? [element("p", {}, `No accuracy is stated for ${silent.join(", ")}.`)] : []),
  ];
}

// stated: the name of each model, and a result.
function tablesOf(stated) {
  const alike = Object.groupBy(stated, ([, { protocol, values }]) => JSON.stringify([protocol, ...Object.keys(values)]));
  return Object.values(alike).flatMap((group) => {
    const [, { protocol, values }] = group[0];
    return [table(`Settings: ${protocol.replaceAll("`", "")}`, ["model", ...Object.keys(values)], group.map(([name, result]) => [name, ...Object.values(result.values)]))];
  });
}

export const cardsOf = (models) => models.filter((model) => model.has_card).map((model) =>
  element("a", { href: `api/card?${new URLSearchParams({ model: model.name })}`, target: "_blank" }, `Card of ${model.name}`));

// The decoder of a model: the one that is chosen if the model has it, otherwise its default.
export const decoderOf = (model, chosen) => (model.decoders.includes(chosen) ? chosen : model.decoders[0]);

// A sentence for a paper that says what was used, and how. decoder, layer: those that are chosen, which some models have.
export function citationOf(models, version, decoder, layer) {
  const used = models.map((model) => {
    const type = model.model_type === model.name ? "" : `${model.model_type}, `;
    const decoded = model.decoders.length ? `, decoder ${decoderOf(model, decoder)}` : "";
    const ofLayer = layer !== null && layer <= model.layers ? `, layer ${layer}` : "";
    return `${model.name} (${type}${model.parameters.toLocaleString("en")} parameters${decoded}${ofLayer})`;
  });
  const text = `syntaxlm ${version}, ${models.length === 1 ? "model" : "models"} ${used.join(" and ")}; each sentence was read by itself.`;
  return [element("q", {}, text), " ", button("Copy", () => copy(text, "The text is"), { class: "link" })];
}
