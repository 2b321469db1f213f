/** System: health with its reasons, what runs here, memory, disk. */

import { get } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { bytes, count, duration } from "../lib/format.js";
import { watch } from "../lib/live.js";
import { curl, quiver } from "../parts/command.js";
import { facts, pill, section, tile } from "../parts/states.js";
import { table } from "../parts/table.js";

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const [tiles, checks, problems, about] = [
    h("div", { class: "tiles" }),
    h("div"),
    h("div", { class: "problems" }),
    h("div", { class: "panel" }),
  ];
  const state = h("span");
  view.draw(
    { title: "System", about: state },
    problems,
    tiles,
    section("Checks", null, checks),
    section("This node", null, about),
  );
  view.command({ curl: curl("GET", "/readyz", { verbose: true }), cli: quiver("doctor") });
  watch(({ overview }) => overview && fill(tiles, ...numbers(overview)), view.signal);
  const version = await get("/version", {}, view.signal);
  await view.every(5, async () => {
    const [ready, stats] = await Promise.all([
      get("/readyz", { verbose: true }, view.signal),
      get("/stats", {}, view.signal),
    ]);
    fill(state, ready.status === "pass" ? pill("ready", "good") : pill("not ready", "bad"));
    fill(
      problems,
      [...Object.entries(ready.problems ?? {}), ...Object.entries(ready.warnings ?? {})].map(([name, why]) =>
        h("div", { class: `banner ${name in (ready.problems ?? {}) ? "bad" : ""}`, dir: "auto" }, `${name}: ${why}`),
      ),
    );
    fill(
      checks,
      table({
        rows: Object.entries(ready.checks).map(([name, check]) => ({ name, .../** @type {any} */ (check) })),
        key: (row) => row.name,
        columns: CHECKS,
      }),
    );
    fill(
      about,
      facts([
        ["Node", stats.node_id],
        ["Version", version.version],
        ["Commit", version.git_commit || "–"],
        ["Built", version.build_time || "–"],
        ["Started", new Date(stats.started_at).toLocaleString("sv-SE")],
        ["Up", duration(Math.floor(stats.uptime))],
        ["Topics", count(stats.topics)],
        ["Messages", count(stats.total_messages)],
        ["Stored", bytes(stats.total_size_bytes)],
      ]),
    );
  });
}

/** @param {any} overview */
const numbers = (overview) => [
  tile("Loop lag", duration((overview.loop_lag_ms ?? 0) / 1000), "worst of the last 10 s"),
  tile("Memory", bytes(overview.memory_bytes)),
  tile("Disk free", bytes(overview.disk?.free_bytes), `of ${bytes(overview.disk?.total_bytes)}`),
  tile("Log files", bytes(overview.disk?.log_bytes)),
  tile("Connections", count(overview.connections)),
  tile("Open transactions", count(overview.open_transactions)),
];

/** @type {import("../parts/table.js").Column[]} */
const CHECKS = [
  { name: "Check", cell: (row) => row.name.replaceAll("_", " ") },
  { name: "State", cell: (row) => pill(row.status, row.status === "pass" ? "good" : "bad") },
  { name: "What it found", class: "grow", cell: (row) => row.message },
  { name: "Took", number: true, cell: (row) => duration(row.latency) },
];
