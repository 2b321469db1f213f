/** The health of a cluster in one sentence. */

import { count } from "../lib/format.js";

/** @param {any} health */
export function summary(health) {
  const missing = health.nodes - health.nodes_alive;
  const parts = [
    missing ? `${count(missing)} of ${count(health.nodes)} ${missing === 1 ? "nodes is" : "nodes are"} gone` : "",
    health.controller === null ? "no node is the controller" : "",
    named(health.units_without_leader, "has no leader", "have no leader"),
    named(
      health.units_refusing,
      "takes no writes until more replicas are in sync",
      "take no writes until more replicas are in sync",
    ),
    named(health.units_behind, "has replicas that are not in sync", "have replicas that are not in sync"),
    named(health.units_moving, "is being reassigned", "are being reassigned"),
  ].filter(Boolean);
  if (!parts.length) parts.push(health.status === "ok" ? whole(health) : "this node takes no writes");
  const text = parts.join("; ");
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

/** @param {any} health */
function whole({ nodes, units }) {
  const all = nodes === 1 ? "the only node is there" : `all ${count(nodes)} nodes are there`;
  return units === 1
    ? `${all}, and the only unit has a leader and all of its replicas`
    : `${all}, and all ${count(units)} units have a leader and all of their replicas`;
}

/** @param {number[]} units @param {string} one @param {string} many */
const named = (units, one, many) =>
  units.length === 0 ? "" : units.length === 1 ? `unit ${units[0]} ${one}` : `units ${units.join(", ")} ${many}`;
