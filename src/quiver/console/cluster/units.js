/** The units of a cluster: workers with all of their partitions. */

import { h } from "../lib/dom.js";
import { bytes, count, duration } from "../lib/format.js";
import { pill } from "../parts/states.js";
import { table } from "../parts/table.js";
import { askReplicas } from "./reassign.js";

/** @param {any} cluster @param {any} health @param {boolean} isReplicated */
export function unitTable({ nodes, units, workers }, health, isReplicated) {
  const worker = new Map(workers.map((/** @type {any} */ each) => [each.worker, each]));
  const kind = (/** @type {any} */ row) =>
    health.units_refusing.includes(row.unit) ? "bad" : health.units_behind.includes(row.unit) ? "warn" : "good";
  return table({
    rows: units.map((/** @type {any} */ unit) => ({ ...worker.get(unit.unit), ...unit })),
    key: (row) => String(row.unit),
    columns: [
      { name: "Unit", number: true, cell: (row) => String(row.unit) },
      { name: "Worker", class: "key", cell: running },
      { name: "Leader", class: "key", cell: (row) => row.leader ?? pill("none", "bad") },
      {
        name: "Epoch",
        number: true,
        class: "wide",
        about: "Rises with every change of the leader",
        cell: (row) => count(row.epoch),
      },
      { name: "Replicas", class: "key", about: "The preferred leader first", cell: (row) => names(row.replicas) },
      { name: "In sync", cell: (row) => pill(names(row.isr), kind(row), `An ack needs ${row.min_isr}.`) },
      { name: "Changes and lag", class: "grow", cell: changes },
      { name: "Partitions", number: true, cell: (row) => count(row.partitions) },
      {
        name: "Restarts",
        number: true,
        class: "wide",
        about: "Of the worker, since the broker started",
        cell: (row) => count(row.restarts),
      },
      ...(isReplicated ? [{ name: "", cell: (/** @type {any} */ row) => reassign(row, nodes) }] : []),
    ],
  });
}

/** @param {any} unit @param {any[]} nodes */
function reassign(unit, nodes) {
  const ask = () => askReplicas({ unit: unit.unit }, unit, nodes);
  return h("button", { class: "quiet", "aria-label": `Reassign unit ${unit.unit}`, onclick: ask }, "Reassign");
}

/** With how long ago one that does not respond was heard of. @param {any} row */
function running({ state, age }) {
  if (!state) return "–";
  if (state === "running") return pill(state, "good");
  return pill(age ? `last heard ${duration(Math.round(age))} ago` : "missing", "bad", state);
}

/** @param {string[]} nodes */
const names = (nodes) => nodes.join(", ") || "none";

/** What is being added or removed, and what followers lack. @param {any} row */
function changes(row) {
  const lags = Object.entries(row.lag_bytes).filter(([node]) => !row.isr.includes(node));
  const parts = [
    row.adding.length ? `adding ${names(row.adding)}` : "",
    row.removing.length ? `removing ${names(row.removing)}` : "",
    ...lags.map(([node, lag]) => `${node} lacks ${bytes(lag)}`),
  ].filter(Boolean);
  return parts.length ? h("bdi", { title: parts.join("\n") }, parts.join(" · ")) : h("span", { class: "soft" }, "–");
}
