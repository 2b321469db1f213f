/** Topics: all of them, with what they hold and how busy they are. */

import { get } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { bytes, count, plural, rate } from "../lib/format.js";
import { to } from "../lib/routes.js";
import { spark } from "../parts/spark.js";
import { curl, quiver } from "../parts/command.js";
import { empty, pill } from "../parts/states.js";
import { table } from "../parts/table.js";
import { createTopic } from "./form.js";

const PAGE_ROWS = 1000;
const POINTS = 40;
const SECONDS = 3;

/** Rates of topics as this tab has seen them, for their lines. @type {Map<string, number[]>} */
const seen = new Map();

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const sort = view.query.get("sort") ?? "name";
  const withInternal = view.query.get("internal") === "yes";
  let search = view.query.get("search") ?? "";
  const summary = h("span", { class: "soft" });
  const area = h("div");
  const rows = table({
    columns: COLUMNS,
    rows: [],
    key: (row) => row.name,
    sort,
    onsort: (next) => view.go({ sort: next === "name" ? "" : next }),
  });
  /** @type {any[]} */
  let topics = [];

  const draw = () => {
    const wanted = search.toLowerCase();
    rows.rows = topics.filter(
      (topic) => (withInternal || !topic.is_internal) && topic.name.toLowerCase().includes(wanted),
    );
    summary.textContent = `${plural(rows.rows.length, "topic")} · ${bytes(sum(rows.rows, "size_bytes"))}`;
    const none = search
      ? empty("Nothing matches", `No topic has “${search}” in its name.`)
      : empty(
          "No topics yet",
          "A topic is a log of messages in partitions. Create one, or publish to one from the command line.",
          h("button", { class: "primary", onclick: () => createTopic(topics) }, "Create a topic"),
        );
    fill(area, rows.rows.length ? rows : none);
    rows.update();
    view.command({ curl: curl("GET", "/topics", { details: true, search }), cli: quiver("topic", "list") });
  };
  const load = async () => {
    topics = await all(view.signal);
    for (const topic of topics) remember(topic);
    draw();
  };
  const box = h("input", {
    type: "search",
    class: "grow",
    placeholder: "Search topics",
    "aria-label": "Search topics",
    "data-search": true,
    value: search,
    autocomplete: "off",
    oninput: (/** @type {any} */ event) => {
      search = event.target.value;
      view.note({ search });
      draw();
    },
  });
  const internal = h(
    "label",
    { class: "check" },
    h("input", {
      type: "checkbox",
      checked: withInternal,
      onchange: () => view.go({ internal: withInternal ? "" : "yes" }),
    }),
    "Internal topics",
  );
  view.draw(
    {
      title: "Topics",
      about: summary,
      actions: h("button", { class: "primary", onclick: () => createTopic(topics) }, "Create topic"),
    },
    h("div", { class: "bar" }, box, internal),
    area,
  );
  await view.every(SECONDS, load);
}

/** Every page of the list. @param {AbortSignal} signal */
async function all(signal) {
  const found = [];
  let cursor;
  do {
    const page = await get("/topics", { details: true, limit: PAGE_ROWS, cursor }, signal);
    found.push(
      ...page.topics.map((/** @type {any} */ topic) => (typeof topic === "string" ? { name: topic } : topic)),
    );
    cursor = page.next ?? page.cursor ?? page.next_cursor;
  } while (cursor);
  return found;
}

/** @param {any} topic */
function remember(topic) {
  const values = seen.get(topic.name) ?? [];
  values.push(topic.published_per_second ?? 0);
  if (values.length > POINTS) values.shift();
  seen.set(topic.name, values);
}

/** @param {any[]} rows @param {string} name */
const sum = (rows, name) => rows.reduce((total, row) => total + (row[name] ?? 0), 0);

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  {
    name: "Name",
    key: "name",
    class: "grow",
    by: (row) => row.name,
    cell: (row) => [
      h("a", { class: "row-link", href: to(["topics", row.name]), dir: "auto" }, row.name),
      row.is_internal ? [" ", pill("internal")] : null,
    ],
  },
  {
    name: "Published",
    key: "rate",
    number: true,
    by: (row) => row.published_per_second,
    cell: (row) => [spark(seen.get(row.name) ?? []), h("span", { class: "rate" }, rate(row.published_per_second))],
  },
  { name: "Messages", key: "messages", number: true, by: (row) => row.messages, cell: (row) => count(row.messages) },
  { name: "Size", key: "size", number: true, by: (row) => row.size_bytes, cell: (row) => bytes(row.size_bytes) },
  {
    name: "Partitions",
    key: "partitions",
    number: true,
    by: (row) => row.partitions,
    cell: (row) => count(row.partitions),
  },
  { name: "Groups", key: "groups", number: true, by: (row) => row.groups, cell: (row) => count(row.groups) },
  { name: "Retention", key: "retention", by: (row) => row.retention, cell: (row) => row.retention ?? "no limit" },
  {
    name: "",
    class: "wide",
    cell: (row) =>
      h(
        "a",
        { class: "soft", href: to(["topics", row.name, "messages"]), "aria-label": `Messages of ${row.name}` },
        "Messages",
      ),
  },
];
