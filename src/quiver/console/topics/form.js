/** Creating a topic and changing one, with what each setting means. */

import { at, get, send } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { to } from "../lib/routes.js";
import { field, openDialog } from "../parts/dialog.js";
import { say } from "../parts/states.js";

/** Setting -> [kind, what it means]. */
export const SETTINGS = {
  retention: ["duration", "How long messages stay, such as 7d; none: for ever."],
  retention_bytes: ["size", "How many bytes a partition keeps, such as 10GiB; none: no limit."],
  segment_bytes: ["size", "The size of a segment file; retention removes whole segments."],
  durability: [
    ["fsync", "interval", "memory"],
    "When a publish is acknowledged: after the sync, before it, or in memory.",
  ],
  cleanup: [
    ["delete", "compact", "compact,delete"],
    "Whether old messages are deleted, or compacted to the last of each key.",
  ],
  tombstone_retention: ["duration", "How long compaction keeps tombstones."],
  dedup_window: ["duration", "How long message ids are remembered."],
  max_message_bytes: ["size", "The largest message; none: the broker's limit."],
  ttl: ["duration", "After this long a message is not delivered any more; none: never."],
  settled_retention: ["duration", "How long messages are kept that every group is done with."],
  priority_weights: ["list", "How the five priorities share deliveries, from critical to background."],
  replication_factor: ["number", "Replicas: the same for all topics of a cluster."],
  min_isr: ["number", "How many replicas must be in sync for a message to be taken."],
  labels: ["object", "Notes about the topic, as a JSON object of texts."],
  max_attempts: ["number", "Deliveries of a queue group before a message becomes a dead letter."],
  backoff: ["duration", "The pause before the first retry; it doubles with each."],
  backoff_max: ["duration", "The longest pause before a retry."],
  visibility: ["duration", "How long a lease lasts."],
  max_unacked: ["number", "How many messages a consumer may hold."],
  starvation: ["duration", "A priority that was not served for this long comes next."],
  count_expired: [["true", "false"], "Whether a delivery counts whose lease expired (groups ordered by key)."],
};

/** @param {any} value */
export const settingText = (value) =>
  value === null || value === undefined
    ? "none"
    : Array.isArray(value)
      ? value.join("/")
      : typeof value === "object"
        ? JSON.stringify(value)
        : String(value);

const UNITS = ["GiB", "MiB", "KiB"];

/** The settings with sizes as people write them: 64MiB. @param {Record<string, any>} config */
export const withUnits = (config) =>
  Object.fromEntries(
    Object.entries(config).map(([name, value]) => [
      name,
      SETTINGS[/** @type {keyof typeof SETTINGS} */ (name)]?.[0] === "size" ? sizeText(value) : value,
    ]),
  );

/** Exact, in the largest unit that is. @param {any} size */
function sizeText(size) {
  if (typeof size !== "number" || size <= 0) return size;
  const exact = UNITS.findIndex((_, place) => size % 1024 ** (UNITS.length - place) === 0);
  return exact < 0 ? String(size) : `${size / 1024 ** (UNITS.length - exact)}${UNITS[exact]}`;
}

/** A field for a setting. @param {string} name @param {any} value */
export function settingInput(name, value) {
  const [kind] = SETTINGS[/** @type {keyof typeof SETTINGS} */ (name)] ?? ["text", ""];
  const text = settingText(value);
  if (!Array.isArray(kind)) return h("input", { name, value: text, autocomplete: "off", spellcheck: "false" });
  const choices = kind.includes(text) ? kind : [...kind, text];
  const chosen = h(
    "select",
    { name },
    choices.map((each) => h("option", {}, each)),
  );
  chosen.value = text;
  return chosen;
}

/** As the broker takes it. @param {string} name @param {string} text */
export function settingValue(name, text) {
  const [kind] = SETTINGS[/** @type {keyof typeof SETTINGS} */ (name)] ?? ["text", ""];
  if (kind === "list") return text.split(/[/,\s]+/).map(Number);
  if (kind === "object") return JSON.parse(text);
  return kind === "number" ? Number(text) : text;
}

/** @param {any[]} topics whose settings can be taken @param {string} [like] */
export function createTopic(topics, like = "") {
  const name = h("input", {
    required: true,
    maxlength: 249,
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "orders",
  });
  const partitions = h("input", { type: "number", min: 1, max: 10000, value: 6 });
  const retention = h("input", { placeholder: "7d", autocomplete: "off" });
  const durability = h(
    "select",
    {},
    ["fsync", "interval", "memory"].map((each) => h("option", {}, each)),
  );
  const source = h("input", { list: "topics-to-clone", value: like, placeholder: "none", autocomplete: "off" });
  const names = h(
    "datalist",
    { id: "topics-to-clone" },
    topics.slice(0, 1000).map((topic) => h("option", { value: topic.name })),
  );
  const run = async () => {
    const settings = source.value
      ? (await get(at`/topics/${source.value}`)).config
      : { durability: durability.value };
    const body = { ...settings, name: name.value.trim(), partitions: Number(partitions.value) };
    for (const [key, value] of Object.entries(body)) if (value === null) body[key] = "none";
    if (retention.value) body.retention = retention.value;
    await send("POST", "/topics", body);
    say(`Topic ${body.name} is created.`);
    location.hash = to(["topics", body.name]);
  };
  openDialog({
    title: "Create a topic",
    action: "Create",
    run,
    content: [
      field("Name", name, "Letters, digits, dot, dash and underscore."),
      h(
        "div",
        { class: "fields" },
        field("Partitions", partitions, "The number can grow later."),
        field("Retention", retention, "How long messages stay; none: for ever."),
        field("Durability", durability),
        field("Settings like", source, "Takes every setting of another topic."),
      ),
      names,
    ],
  });
}
