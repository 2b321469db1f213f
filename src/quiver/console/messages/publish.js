/** Publish: one message, the same one many times, or a file of many. */

import { at, get, send } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { to } from "../lib/routes.js";
import { curl, quiver } from "../parts/command.js";
import { field } from "../parts/dialog.js";
import { difference } from "./difference.js";
import { headerRows } from "./headers.js";
import { deliver, fromFile } from "./send.js";

const PRIORITIES = ["normal", "critical", "high", "low", "background"];

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const template = await source(view);
  const given = (/** @type {string} */ name) => view.query.get(name) ?? template[name] ?? "";
  const names = (await get("/topics", {}, view.signal)).topics.slice(0, 2000);
  const text = (/** @type {string} */ name, /** @type {string} */ hint) =>
    h("input", { name, value: given(name), placeholder: hint, autocomplete: "off", spellcheck: "false" });
  const fields = {
    topic: h("input", {
      name: "topic",
      required: true,
      list: "topic-names",
      value: given("topic"),
      autocomplete: "off",
      spellcheck: "false",
      "data-search": true,
    }),
    key: text("key", "none"),
    partition: text("partition", "by key"),
    priority: h(
      "select",
      { name: "priority" },
      PRIORITIES.map((each) => h("option", {}, each)),
    ),
    delay: text("delay", "5m"),
    ttl: text("ttl", "1h"),
    id: text("id", "order-17"),
    times: h("input", { name: "times", type: "number", min: 1, max: 10000, value: 1 }),
  };
  fields.priority.value = given("priority") || "normal";
  const value = h("textarea", { name: "value", rows: 12, spellcheck: "false", "aria-label": "Value" });
  value.value = given("value");
  const binary = template.value_base64;
  const headers = headerRows(template.headers ?? {}, () => update());
  const check = h("span", { class: "soft" });
  const outcome = h("div", { role: "status", class: "outcome" });
  const changes = h("div");
  /** @returns {any} */
  const message = () => ({
    ...(binary && !value.value ? { value_base64: binary } : { value: value.value }),
    ...(fields.key.value ? { key: fields.key.value } : {}),
    ...(fields.partition.value ? { partition: Number(fields.partition.value) } : {}),
    ...(fields.priority.value !== "normal" ? { priority: fields.priority.value } : {}),
    ...Object.fromEntries(
      ["delay", "ttl", "id"]
        .filter((name) => fields[/** @type {"id"} */ (name)].value)
        .map((name) => [name, fields[/** @type {"id"} */ (name)].value]),
    ),
    ...(Object.keys(headers.values()).length ? { headers: headers.values() } : {}),
  });
  const update = () => {
    check.textContent =
      binary && !value.value ? "The bytes of the message are not text; type to replace them." : judged(value.value);
    if (template.origin) fill(changes, difference(template, message(), fields.topic.value));
    const topic = fields.topic.value || "TOPIC";
    const flags = [
      fields.key.value && ["--key", fields.key.value],
      fields.partition.value && ["--partition", fields.partition.value],
      fields.priority.value !== "normal" && ["--priority", fields.priority.value],
      fields.delay.value && ["--delay", fields.delay.value],
      fields.ttl.value && ["--ttl", fields.ttl.value],
      fields.id.value && ["--id", fields.id.value],
      ...Object.entries(headers.values()).map(([name, each]) => ["--header", `${name}=${each}`]),
    ];
    view.command({
      curl: curl("POST", at`/topics/${topic}/messages`, {}, { messages: [message()] }),
      cli: quiver("produce", topic, value.value, ...flags.filter(Boolean).flat()),
    });
  };
  const publish = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const one = message();
    const times = Math.max(1, Math.min(10000, Number(fields.times.value) || 1));
    const sent = Array.from({ length: times }, (_, index) =>
      times > 1 && one.id ? { ...one, id: `${one.id}-${index}` } : one,
    );
    await deliver(fields.topic.value.trim(), sent, outcome, view.signal);
  };
  const file = h("input", {
    type: "file",
    hidden: true,
    "aria-label": "A file with a message in each line",
    onchange: () => void fromFile(fields.topic.value.trim(), file, message(), outcome, view.signal),
  });
  const form = h(
    "form",
    { class: "publish", onsubmit: publish, oninput: update },
    h(
      "div",
      { class: "fields" },
      field("Topic", fields.topic),
      field("Key", fields.key, "Messages of a key stay in order."),
      field("Priority", fields.priority),
      field("Partition", fields.partition),
    ),
    h("div", { class: "field" }, h("span", {}, "Value"), value, h("small", {}, check)),
    h("div", { class: "field" }, h("span", {}, "Headers"), headers.element),
    h(
      "div",
      { class: "fields" },
      field("Delay", fields.delay, "Enters the topic this much later."),
      field("Time to live", fields.ttl, "Not delivered after this."),
      field("Message id", fields.id, "A repeat is stored once."),
      field("Times", fields.times),
    ),
    h(
      "div",
      { class: "row" },
      h("button", { class: "primary" }, "Publish"),
      h("button", { type: "button", onclick: () => file.click() }, "A file, a message per line"),
      file,
    ),
    h(
      "datalist",
      { id: "topic-names" },
      names.map((/** @type {any} */ name) => h("option", { value: typeof name === "string" ? name : name.name })),
    ),
  );
  view.draw(
    { title: "Publish", about: template.origin ? h("span", { class: "soft" }, `from ${template.origin}`) : null },
    form,
    outcome,
    changes,
  );
  update();
}

/** The message that is sent again, when the address names one. @param {import("../lib/view.js").View} view @returns {Promise<any>} */
async function source(view) {
  const [, topic, partition, offset] = /^(.*)\/(\d+)\/(\d+)$/.exec(view.query.get("from") ?? "") ?? [];
  if (!topic) return {};
  const page = await get(
    at`/topics/${topic}/partitions/${partition}/messages`,
    { offset, limit: 1, include_expired: true },
    view.signal,
  );
  const found = page.messages[0];
  return found && found.offset === Number(offset)
    ? {
        ...found,
        topic: topic.replace(/\.dlq$/, ""),
        origin: `${topic} ${partition}:${offset}`,
        partition: "",
        id: "",
      }
    : {};
}

/** @param {string} text */
function judged(text) {
  try {
    JSON.parse(text);
    return "JSON";
  } catch (error) {
    return /^\s*[[{]/.test(text) ? `Text; it is not JSON: ${/** @type {Error} */ (error).message}` : "Text";
  }
}
