/** The nodes of a cluster. */

import { h } from "../lib/dom.js";
import { count } from "../lib/format.js";
import { pill } from "../parts/states.js";
import { table } from "../parts/table.js";
import { nodeAction } from "./node-changes.js";

const KINDS = { alive: "good", dead: "bad" };

/** @param {any} cluster @param {boolean} isShared whether there may be other nodes */
export function nodeTable({ node, nodes, units }, isShared) {
  const stored = (/** @type {string} */ name) =>
    units.filter((/** @type {any} */ unit) => unit.replicas.includes(name)).length;
  return table({
    rows: nodes,
    key: (row) => row.node,
    columns: [
      { name: "Node", class: "name", cell: (row) => h("bdi", {}, row.node) },
      {
        name: "State",
        cell: (row) => pill(row.state, KINDS[/** @type {keyof typeof KINDS} */ (row.state)] ?? "warn"),
      },
      {
        name: "",
        cell: (row) => [
          row.is_controller ? pill("controller", "", "It decides who leads what.") : "",
          " ",
          row.node === node ? pill("asked", "", "This page shows what this node knows.") : "",
        ],
      },
      { name: "Rack", class: "key", cell: (row) => row.tags.rack ?? "–" },
      { name: "Replicas", number: true, about: "Units that it stores", cell: (row) => count(stored(row.node)) },
      { name: "Leads", class: "grow", about: "Units", cell: (row) => row.leaders.join(", ") || "–" },
      { name: "Address", class: "mono wide", cell: (row) => (row.host ? `${row.host}:${row.http_port}` : "–") },
      { name: "Version", class: "wide", cell: (row) => row.version ?? "–" },
      ...(isShared ? [{ name: "", cell: nodeAction }] : []),
    ],
  });
}
