/** Traces: found by topic, key, status and duration. */

import { get, has } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { count, duration, plural, time } from "../lib/format.js";
import { to } from "../lib/routes.js";
import { curl, quiver } from "../parts/command.js";
import { empty, pill } from "../parts/states.js";
import { table } from "../parts/table.js";

const FIELDS = {
  topic: "Topic",
  key: "Key",
  consumer_group: "Group",
  status: "Status",
  min_duration: "At least (100ms)",
  start: "Since (-1h, or a time)",
};
const STATUSES = ["completed", "error", "pending"];

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  if (!(await has("GET /traces")))
    return view.draw({ title: "Traces" }, empty("No traces", "This broker keeps none."));
  const query = Object.fromEntries(
    Object.keys(FIELDS)
      .map((name) => [name, view.query.get(name) ?? ""])
      .filter(([, value]) => value),
  );
  const isSearch = Object.keys(query).length > 0;
  const path = isSearch ? "/traces/search" : "/traces";
  const area = h("div");
  const status = h("span", { class: "soft" });
  const statuses = h(
    "select",
    { name: "status", "aria-label": "Status" },
    h("option", { value: "" }, "Any status"),
    STATUSES.map((name) => h("option", {}, name)),
  );
  statuses.value = query.status ?? "";
  const inputs = Object.entries(FIELDS).map(([name, hint], index) =>
    name === "status"
      ? statuses
      : h("input", {
          name,
          placeholder: hint,
          "aria-label": hint,
          value: query[name] ?? "",
          "data-search": index === 0,
          autocomplete: "off",
        }),
  );
  const submit = (/** @type {Event} */ event) => (
    event.preventDefault(),
    view.go(Object.fromEntries(inputs.map((input) => [input.name, input.value.trim()])))
  );
  view.draw(
    { title: "Traces", about: status },
    h("form", { class: "bar", onsubmit: submit }, inputs, h("button", {}, "Search")),
    area,
  );
  view.command({
    curl: curl("GET", path, { ...query, limit: 200 }),
    cli: isSearch
      ? quiver(
          "trace",
          "search",
          ...Object.entries(query).flatMap(([name, value]) => [
            `--${name.replace("consumer_", "").replaceAll("_", "-")}`,
            value,
          ]),
        )
      : quiver("trace", "list"),
  });
  await view.every(5, async () => {
    const { traces, total } = await get(path, { ...query, limit: 200 }, view.signal);
    status.textContent = plural(total ?? traces.length, "trace");
    fill(
      area,
      traces.length
        ? table({ rows: traces, key: (row) => row.trace_id, columns: COLUMNS })
        : empty(
            isSearch ? "Nothing matches" : "No traces yet",
            isSearch
              ? "No trace has all of this."
              : "A message that is published with a sampled traceparent leaves a trace here. docs/tracing.md says how to sample.",
          ),
    );
  });
}

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  {
    name: "Trace",
    class: "mono",
    cell: (row) => h("a", { class: "row-link mono", href: to(["traces", row.trace_id]) }, row.trace_id.slice(0, 16)),
  },
  { name: "Started", class: "mono", cell: (row) => time(row.start_time) },
  { name: "Topic", class: "grow", cell: (row) => row.topic ?? "–" },
  {
    name: "Message",
    cell: (row) =>
      row.offset === undefined || row.offset === null
        ? ""
        : h(
            "a",
            { class: "mono", href: to(["topics", row.topic, "messages", row.partition, row.offset]) },
            `${row.partition}:${row.offset}`,
          ),
  },
  {
    name: "Status",
    cell: (row) =>
      pill(
        row.status ?? "unknown",
        /error|fail|dead/.test(row.status ?? "")
          ? "bad"
          : row.status === "ok" || row.status === "completed"
            ? "good"
            : "",
      ),
  },
  { name: "Spans", number: true, class: "wide", cell: (row) => count(row.span_count) },
  { name: "Duration", number: true, cell: (row) => duration((row.duration_ms ?? 0) / 1000) },
];
