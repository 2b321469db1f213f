/** Delayed messages of every topic: counters, and the topics to look into. */

import { get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { count, duration } from "../lib/format.js";
import { to } from "../lib/routes.js";
import { curl, quiver } from "../parts/command.js";
import { section, tile } from "../parts/states.js";
import { table } from "../parts/table.js";

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const draw = async () => {
    const [stats, { topics }] = await Promise.all([
      get("/delay/stats", {}, view.signal),
      get("/topics", {}, view.signal),
    ]);
    const rows = topics.map((/** @type {any} */ topic) => ({ name: typeof topic === "string" ? topic : topic.name }));
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
        table({
          rows,
          key: (row) => row.name,
          columns: [
            {
              name: "Topic",
              class: "grow",
              cell: (row) =>
                h("a", { class: "row-link", href: to(["topics", row.name, "delayed"]), dir: "auto" }, row.name),
            },
          ],
        }),
      ),
    );
  };
  view.command({ curl: curl("GET", "/delay/stats"), cli: quiver("delayed", "list", "TOPIC") });
  await view.every(5, draw);
}
