/** What is done with nodes: draining, the end of that, removing, spreading replicas. Each asks first. */

import { at, get, send } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { curl, quiver } from "../parts/command.js";
import { confirmChange } from "../parts/dialog.js";
import { say } from "../parts/states.js";

/** Draws the page again, with what has changed. */
export const look = () => void dispatchEvent(new HashChangeEvent("hashchange"));

/** @param {number[]} units */
export const named = (units) => `${units.length === 1 ? "unit" : "units"} ${units.join(", ")}`;

/** The one thing that can be done with a node in its state. @param {any} node */
export function nodeAction(node) {
  const [name, ask] =
    node.state === "dead"
      ? ["Remove", askRemove]
      : node.state === "draining"
        ? ["End drain", askEnd]
        : ["Drain", askDrain];
  const kind = node.state === "dead" ? "quiet bad" : "quiet";
  return h("button", { class: kind, "aria-label": `${name} node ${node.node}`, onclick: () => ask(node.node) }, name);
}

/** @param {string} node */
function askDrain(node) {
  const path = at`/cluster/nodes/${node}/drain`;
  void confirmChange({
    title: `Drain node ${node}`,
    action: "Drain it",
    command: { curl: curl("POST", path), cli: quiver("cluster", "drain", node) },
    preview: async () => {
      const { moving, staying } = movedByDrain(await get("/cluster"), node);
      return [
        h(
          "p",
          {},
          moving.length ? `Other nodes would lead ${named(moving)}.` : `Node ${node} leads nothing that could move.`,
        ),
        staying.length
          ? h("p", {}, `${upper(named(staying))} would stay until a replica on another node is in sync.`)
          : "",
        h("p", {}, `Node ${node} would get nothing to lead until the drain is ended; replicas that it stores stay.`),
      ];
    },
    run: async () => {
      await send("POST", path, {});
      say(`Node ${node} hands over what it leads.`);
      look();
    },
  });
}

/** @param {string} text */
const upper = (text) => text[0].toUpperCase() + text.slice(1);

/**
 * Which of a node's units another one can lead: one that is alive, and where units have replicas, has one in sync.
 * @param {any} cluster @param {string} node
 */
function movedByDrain({ nodes, units, workers }, node) {
  const others = nodes.filter((/** @type {any} */ each) => each.node !== node && each.state === "alive");
  const isReplicated = workers.some((/** @type {any} */ worker) => worker.replicas);
  /** @type {{ moving: number[], staying: number[] }} */
  const found = { moving: [], staying: [] };
  for (const { unit, leader, isr } of units) {
    if (leader !== node) continue;
    const canMove = others.some((/** @type {any} */ each) => !isReplicated || isr.includes(each.node));
    (canMove ? found.moving : found.staying).push(unit);
  }
  return found;
}

/** @param {string} node */
function askEnd(node) {
  const path = at`/cluster/nodes/${node}/drain`;
  void confirmChange({
    title: `End the drain of node ${node}`,
    action: "End the drain",
    command: { curl: curl("DELETE", path), cli: quiver("cluster", "drain", node, "--end") },
    preview: async () => `Node ${node} would lead its share again.`,
    run: async () => {
      await send("DELETE", path);
      say(`Node ${node} may lead again.`);
      look();
    },
  });
}

/** @param {string} node */
function askRemove(node) {
  const path = at`/cluster/nodes/${node}`;
  void confirmChange({
    title: `Remove node ${node}`,
    action: "Remove it",
    danger: true,
    type: node,
    command: { curl: curl("DELETE", path), cli: quiver("cluster", "remove", node) },
    preview: async () => {
      const { moving } = await send("DELETE", `${path}?dry_run=true`);
      return [
        h(
          "p",
          {},
          `For a node that does not come back. ${Object.keys(moving).length ? "Its replicas would go to other nodes:" : "It has no replicas."}`,
        ),
        movesOf(moving, {}),
      ];
    },
    run: async () => {
      await send("DELETE", path);
      say(`Node ${node} is removed.`);
      look();
    },
  });
}

export function askRebalance() {
  const path = "/cluster/rebalance";
  void confirmChange({
    title: "Rebalance",
    action: "Move them",
    command: { curl: curl("POST", path), cli: quiver("cluster", "rebalance") },
    preview: async () => {
      const { moving, leaving } = await send("POST", path, { dry_run: true });
      if (!Object.keys(moving).length) return NOTHING;
      return [h("p", {}, "What would move, so that all nodes have about as much:"), movesOf(moving, leaving)];
    },
    run: async () => {
      const { moving } = await send("POST", path, {});
      const units = Object.keys(moving).map(Number);
      say(units.length ? `On their way: ${named(units)}.` : "Nothing has to move.");
      look();
    },
  });
}

const NOTHING = "Nothing would move: all nodes have about as much already, or there is nowhere else to go.";

/** By unit. @param {Record<string, string>} moving @param {Record<string, string>} leaving */
const movesOf = (moving, leaving) =>
  h(
    "ul",
    { class: "plain" },
    Object.entries(moving).map(([unit, node]) =>
      h("li", {}, `unit ${unit}: ${leaving[unit] ? `from node ${leaving[unit]} ` : ""}to node ${node}`),
    ),
  );
