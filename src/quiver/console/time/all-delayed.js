/** Delayed messages of every topic: counters, and the topics to look into. */

import { get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { count, duration } from "../lib/format.js";
import { to } from "../lib/routes.js";
import { curl, quiver } from "../parts/command.js";
import { empty, section, tile } from "../parts/states.js";
import { table } from "../parts/table.js";

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  {
    name: "Topic",
    class: "grow",
    cell: (row) => h("a", { class: "row-link", href: to(["topics", row.name, "delayed"]), dir: "auto" }, row.name),
  },
  { name: "Waiting", number: true, cell: (row) => count(row.waiting) },
];

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const draw = async () => {
    const stats = await get("/delay/stats", {}, view.signal);
    const rows = Object.entries(stats.pending_by_topic)
      .map(([name, waiting]) => ({ name, waiting: Number(waiting) }))
      .sort((one, other) => other.waiting - one.waiting);
    view.draw(
      { title: "Delayed" },
      h(
        "div",
        { class: "tiles" },
        tile("Waiting", count(stats.pending_count)),
        tile("Delivered", count(stats.delivered_count), "since the start"),
        tile("Cancelled", count(stats.cancelled_count)),
        tile("Expired", count(stats.expired_count), "before their time"),
        tile("Lateness p99", duration(stats.lateness.p99), `at most ${duration(stats.lateness.max)}`),
        tile("Average delay", duration(stats.avg_delay)),
      ),
      section(
        "Topics",
        null,
        rows.length
          ? table({ rows, key: (row) => row.name, columns: COLUMNS })
          : empty(
              "Nothing waits",
              "A message that is published with a delay is here until its time comes.",
              h("a", { class: "button", href: "#/publish?delay=5m" }, "Publish with a delay"),
            ),
      ),
    );
  };
  view.command({ curl: curl("GET", "/delay/stats"), cli: quiver("delayed", "list", "TOPIC") });
  await view.every(5, draw);
}
