/** Dead letters of every topic: which topics have some. */

import { get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { bytes, count, plural } from "../lib/format.js";
import { to } from "../lib/routes.js";
import { curl, quiver } from "../parts/command.js";
import { empty } from "../parts/states.js";
import { table } from "../parts/table.js";

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const draw = async () => {
    const { topic_stats: stats } = await get("/stats", {}, view.signal);
    const rows = Object.entries(stats)
      .filter(([name]) => name.endsWith(".dlq"))
      .map(([name, found]) => ({ topic: name.slice(0, -4), .../** @type {any} */ (found) }))
      .sort((a, b) => b.messages - a.messages);
    const total = rows.reduce((sum, row) => sum + row.messages, 0);
    view.draw(
      { title: "Dead letters", about: h("span", { class: "soft" }, plural(total, "dead letter")) },
      total || rows.length
        ? table({ rows, key: (row) => row.topic, columns: COLUMNS })
        : empty(
            "No dead letters",
            "A message that a queue group gives up, because it was rejected or failed too often, is kept here until it is sent back or purged.",
          ),
    );
    view.command({ curl: curl("GET", "/stats"), cli: quiver("dlq", "list", rows[0]?.topic ?? "TOPIC") });
  };
  await view.every(5, draw);
}

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  {
    name: "Topic",
    class: "grow",
    cell: (row) =>
      h("a", { class: "row-link", href: to(["topics", row.topic, "dead-letters"]), dir: "auto" }, row.topic),
  },
  { name: "Dead letters", number: true, cell: (row) => count(row.messages) },
  { name: "Size", number: true, cell: (row) => bytes(row.size_bytes) },
];
