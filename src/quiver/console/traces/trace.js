/** One trace: its spans over time. */

import { at, get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { duration, time } from "../lib/format.js";
import { to } from "../lib/routes.js";
import { curl, quiver } from "../parts/command.js";
import { facts, section } from "../parts/states.js";
import { table } from "../parts/table.js";
import { plain } from "../parts/value.js";

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const { id } = view.values;
  const found = await get(at`/traces/${id}`, {}, view.signal);
  const trace = found.trace ?? found;
  const spans = found.spans ?? trace.spans ?? [];
  view.command({ curl: curl("GET", at`/traces/${id}`), cli: quiver("trace", "show", id) });
  view.draw(
    { title: id, up: [["Traces", "#/traces"]] },
    h(
      "div",
      { class: "panel" },
      facts([
        ["Topic", trace.topic ? h("a", { href: to(["topics", trace.topic]) }, trace.topic) : "–"],
        [
          "Message",
          trace.offset === undefined
            ? "–"
            : h(
                "a",
                { class: "mono", href: to(["topics", trace.topic, "messages", trace.partition, trace.offset]) },
                `${trace.partition}:${trace.offset}`,
              ),
        ],
        ["Started", time(trace.start_time)],
        ["Duration", duration((trace.duration_ms ?? 0) / 1000)],
        ["Status", trace.status],
        ["Spans", spans.length],
      ]),
    ),
    section("Spans", null, waterfall(spans)),
    section("Messages of this trace", null, linked(spans)),
  );
}

/** Every message that the trace went through: the origin, dead letters, what came back. @param {any[]} spans */
function linked(spans) {
  const rows = [
    ...new Map(
      spans
        .filter((span) => span.topic && span.offset !== undefined && span.offset !== null && span.offset >= 0)
        .map((span) => [`${span.topic} ${span.partition}:${span.offset}`, span]),
    ).entries(),
  ].map(([name, span]) => ({ name, ...span, count: spans.filter((each) => place(each) === name).length }));
  return table({
    rows,
    key: (row) => row.name,
    columns: [
      {
        name: "Message",
        class: "mono",
        cell: (row) =>
          h(
            "a",
            { class: "row-link mono", href: to(["topics", row.topic, "messages", row.partition, row.offset]) },
            row.name,
          ),
      },
      { name: "Spans", number: true, cell: (row) => row.count },
      { name: "Last", class: "grow", cell: (row) => row.event_type },
    ],
  });
}

/** @param {any} span */
const place = (span) => `${span.topic} ${span.partition}:${span.offset}`;

/** @param {any[]} spans */
function waterfall(spans) {
  const begin = (/** @type {any} */ span) => new Date(span.timestamp ?? span.start_time).getTime();
  const length = (/** @type {any} */ span) => (span.duration_ns ?? 0) / 1e6;
  const first = Math.min(...spans.map(begin));
  const total = Math.max(1, ...spans.map((span) => begin(span) + length(span) - first));
  return h(
    "div",
    { class: "panel spans" },
    spans.map((span) => {
      const bar = h("i", { title: time(span.timestamp) });
      bar.style.left = `${((begin(span) - first) / total) * 100}%`;
      bar.style.width = `${(length(span) / total) * 100}%`;
      const more = [span.consumer_group, span.consumer_id].filter(Boolean).join(" · ");
      return [
        h(
          "span",
          { class: span.error ? "bad" : "", title: span.error ? plain(span.error) : "" },
          span.event_type ?? span.name,
          more ? h("span", { class: "soft" }, ` ${more}`) : null,
        ),
        h("span", { class: "track" }, bar),
        h(
          "span",
          { class: "soft" },
          span.duration_ns ? duration(span.duration_ns / 1e9) : `+${duration((begin(span) - first) / 1000)}`,
        ),
      ];
    }),
  );
}
