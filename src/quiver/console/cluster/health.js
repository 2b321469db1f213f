/** The health of a cluster in one sentence. */

import { count } from "../lib/format.js";

const NAMED_UNITS = 8;

/** @param {any} health */
export function summary(health) {
  const missing = health.nodes - health.nodes_alive;
  const refusing = health.units_refusing.filter(
    (/** @type {number} */ unit) => !health.units_without_leader.includes(unit),
  );
  const taking = health.units_behind.filter((/** @type {number} */ unit) => !health.units_refusing.includes(unit));
  const parts = [
    missing ? `${count(missing)} of ${count(health.nodes)} ${missing === 1 ? "nodes is" : "nodes are"} dead` : "",
    health.controller === null ? "no node is the controller" : "",
    about(health, health.units_without_leader, "has", "have", "no leader"),
    about(health, refusing, "takes", "take", "no writes until more replicas are in sync"),
    about(health, taking, "has", "have", "replicas that are not in sync"),
    about(health, health.units_moving, "is", "are", "being reassigned"),
  ].filter(Boolean);
  if (!parts.length) parts.push(health.status === "ok" ? whole(health) : "some partitions take no writes");
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

/** @param {any} health @param {number[]} units @param {string} one @param {string} many @param {string} what */
function about(health, units, one, many, what) {
  if (!units.length) return "";
  if (units.length === 1) return `unit ${units[0]} ${one} ${what}`;
  if (units.length === health.units) return `all ${count(units.length)} units ${many} ${what}`;
  const names = units.length > NAMED_UNITS ? `${count(units.length)} units` : `units ${units.join(", ")}`;
  return `${names} ${many} ${what}`;
}
