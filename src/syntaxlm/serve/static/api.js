// The interface as its OpenAPI schema describes it, with a form to try each operation. Everything is inserted as text.

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

async function fetched(path) {
  const answer = await fetch(path);
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.detail);
  return content;
}

const about = document.getElementById("about");
const [schema, { models }] = await Promise.all([fetched("openapi.json"), fetched("models")]).catch((fault) => {
  about.textContent = fault instanceof TypeError ? "The server does not answer. Is it still running?" : fault.message;
  throw fault;
});

const EXAMPLES = {
  model: models[0].name, sentences: ["The old man the boats."], first: "The dogs bark.", second: "The dogs barks.",
  text: "It rained. We stayed at home.", count: 2, brackets: "(S (NP the dog) (VP barks))",
};

const resolved = (part) => (part.$ref ? schema.components.schemas[part.$ref.split("/").at(-1)] : part);

function typeOf(part) {
  if (part.$ref) return part.$ref.split("/").at(-1);
  if (part.anyOf) return part.anyOf.map(typeOf).join(" or ");
  if (part.enum) return part.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (part.type === "array") return part.prefixItems ? `[${part.prefixItems.map(typeOf).join(", ")}]` : `list of ${typeOf(part.items)}`;
  return part.type ?? "any value";
}

function fields(part) {
  const { properties = {}, required = [], description = "" } = resolved(part);
  const rows = Object.entries(properties).map(([name, field]) => {
    const standard = field.default !== undefined && field.default !== null ? ` Default: ${JSON.stringify(field.default)}.` : "";
    return element(
      "tr", {}, element("td", {}, element("code", {}, name)), element("td", {}, typeOf(field)),
      element("td", {}, required.includes(name) ? "yes" : ""), element("td", {}, (field.description ?? "") + standard),
    );
  });
  const heads = ["field", "type", "required", "meaning"].map((head) => element("th", { scope: "col" }, head));
  return element(
    "div", { class: "scroll", role: "group", "aria-label": "Fields", tabindex: 0 }, description ? element("p", { class: "hint" }, description) : "",
    element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows)),
  );
}

function referenced(part, found = new Set()) {
  for (const [key, value] of Object.entries(part ?? {})) {
    if (key === "$ref" && !found.has(value)) {
      found.add(value);
      referenced(resolved({ $ref: value }), found);
    } else if (value && typeof value === "object") referenced(value, found);
  }
  return found;
}

function example(part) {
  const { properties, required = [] } = resolved(part);
  const shown = Object.keys(properties).filter((name) => required.includes(name) || name === "model");
  return JSON.stringify(Object.fromEntries(shown.map((name) => [name, EXAMPLES[name] ?? null])), null, 2);
}

function operation(path, method, one) {
  const body = one.requestBody?.content["application/json"].schema;
  const answer = one.responses["200"].content["application/json"].schema;
  const made = element("article", {}, element("h2", {}, element("code", {}, `${method.toUpperCase()} ${path}`)), element("p", { class: "facts" }, one.summary));
  if (body) made.append(element("h3", {}, "Request"), fields(body));
  made.append(element("h3", {}, "Answer"), fields(answer));
  const inner = [...referenced(resolved(answer))].map((link) => element("div", {}, element("h4", {}, link.split("/").at(-1)), fields({ $ref: link })));
  if (inner.length) made.append(element("details", {}, element("summary", {}, "Types"), ...inner));
  const errors = Object.entries(one.responses).filter(([status]) => status !== "200").map(([status, { description }]) => `${status}: ${description}`);
  if (errors.length) made.append(element("p", { class: "hint" }, `Errors have a detail. ${errors.join("; ")}.`));
  made.append(trial(path, method, body));
  return made;
}

function trial(path, method, body) {
  const input = element("textarea", { rows: 6, spellcheck: "false", "aria-label": "Request body" });
  const run = element("button", { type: "submit", class: "primary" }, "Send");
  const status = element("p", { role: "status", "aria-live": "polite", class: "hint" });
  const output = element("pre", { tabindex: "0", "aria-label": "Answer", hidden: "" });
  const form = element("form", {}, ...(body ? [input] : []), element("div", { class: "actions" }, run), status, output);
  if (body) input.value = example(body);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const started = performance.now();
    const url = `..${path}`;
    try {
      const answer = await fetch(url, body && { method: method.toUpperCase(), headers: { "Content-Type": "application/json" }, body: input.value });
      const content = await answer.json();
      status.textContent = `${answer.status}, ${Math.round(performance.now() - started)} ms`;
      output.textContent = JSON.stringify(content, null, 2);
      output.hidden = false;
    } catch {
      status.textContent = "The server does not answer.";
    }
  });
  return element("details", {}, element("summary", {}, "Try it"), form);
}

about.textContent = `${schema.info.title} ${schema.info.version}. ${schema.info.description}`;
for (const [path, methods] of Object.entries(schema.paths)) {
  for (const [method, one] of Object.entries(methods)) document.getElementById("operations").append(operation(path, method, one));
}
