/** Other replicas for a unit, named by its number or by a partition in it: chosen, looked at, then begun. */

import { get, send } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { plural } from "../lib/format.js";
import { curl, quiver } from "../parts/command.js";
import { confirmChange, field, openDialog } from "../parts/dialog.js";
import { say } from "../parts/states.js";
import { limitFlag, limitInput, limitOf } from "./limit.js";
import { look } from "./node-changes.js";

const PATH = "/admin/reassignment";

/** @typedef {{ topic: string, partition: number } | { unit: number }} What */
/** @typedef {import("./limit.js").Limit & { timeout_per_partition_sec?: number }} Options */

/** @param {What} what */
const nameOf = (what) => ("unit" in what ? `unit ${what.unit}` : `partition ${what.partition} of ${what.topic}`);

/** Which partition, and then its unit. */
export async function askPartition() {
  const { topics } = await get("/topics");
  if (!topics.length) return say("There is no topic; units are reassigned from their rows.", "bad");
  const topic = h("input", { list: "reassigned-topics", value: topics[0], required: true, autocomplete: "off" });
  const known = h(
    "datalist",
    { id: "reassigned-topics" },
    topics.map((/** @type {string} */ each) => h("option", { value: each })),
  );
  const partition = h("input", { type: "number", min: 0, value: 0, required: true });
  openDialog({
    title: "Reassign a partition",
    action: "Continue",
    content: [
      h("div", { class: "fields" }, field("Topic", topic), field("Partition", partition), known),
      h("p", { class: "soft" }, "A partition moves with its unit, and with it all other partitions of that unit."),
    ],
    run: async () => {
      const number = Number(partition.value);
      const { partitions } = await get("/cluster/partitions", { topic: topic.value.trim() });
      const found = partitions[number];
      if (!found) throw new Error(`${topic.value} has the partitions 0 to ${partitions.length - 1}.`);
      const [cluster, what] = [await get("/cluster"), { topic: topic.value.trim(), partition: number }];
      setTimeout(() => askReplicas(what, cluster.units[found.unit], cluster.nodes));
    },
  });
}

/** @param {What} what @param {any} unit @param {any[]} nodes */
export function askReplicas(what, unit, nodes) {
  const now = unit.replicas.filter((/** @type {string} */ node) => !unit.removing.includes(node));
  const chosen = now.map((/** @type {string} */ node) => nodeChoice(nodes, node));
  const throttle = limitInput(null);
  const timeout = h("input", { type: "number", min: 0.1, step: "any", placeholder: "none" });
  openDialog({
    title: `Reassign ${nameOf(what)}`,
    action: "Look at the moves",
    content: [
      h("p", {}, `Unit ${unit.unit} has replicas on ${now.join(", ")}.`),
      h(
        "div",
        { class: "fields" },
        chosen.map((/** @type {any} */ input, /** @type {number} */ index) =>
          field(index ? `Replica ${index + 1}` : "Preferred leader", input),
        ),
      ),
      h(
        "div",
        { class: "fields" },
        field("Throttle, MiB per second", throttle, "What its new replicas get at most."),
        field("Timeout, minutes", timeout, "It goes back when it takes longer."),
      ),
    ],
    run: async () => {
      const replicas = chosen.map((/** @type {any} */ input) => input.value);
      if (new Set(replicas).size < replicas.length) throw new Error("Each replica needs a node of its own.");
      const options = {
        ...limitOf(throttle),
        ...(timeout.value ? { timeout_per_partition_sec: Math.max(1, Math.round(timeout.value * 60)) } : {}),
      };
      setTimeout(() => confirmMove(what, replicas, options));
    },
  });
}

/** A dead node can only stay. @param {any[]} nodes @param {string} now */
function nodeChoice(nodes, now) {
  const select = h(
    "select",
    {},
    nodes
      .filter((each) => each.state !== "dead" || each.node === now)
      .map((each) => {
        const about = [each.tags.rack && `rack ${each.tags.rack}`, each.state !== "alive" && each.state];
        return h("option", { value: each.node }, [each.node, ...about.filter(Boolean)].join(" · "));
      }),
  );
  select.value = now;
  return select;
}

/** @param {What} what @param {string[]} replicas @param {Options} options */
function confirmMove(what, replicas, options) {
  const body = { ["unit" in what ? "units" : "partitions"]: [{ ...what, new_replicas: replicas }], ...options };
  const { throttle_bytes_per_sec: limit, timeout_per_partition_sec: seconds } = options;
  void confirmChange({
    title: `Reassign ${nameOf(what)}`,
    action: "Begin",
    command: {
      curl: curl("POST", PATH, {}, body),
      cli: quiver(
        "cluster",
        "reassign",
        "unit" in what ? what.unit : `${what.topic}:${what.partition}`,
        replicas.join(","),
        ...limitFlag(limit),
        ...(seconds ? ["--timeout", `${seconds}s`] : []),
      ),
    },
    preview: async () => planOf(await send("POST", PATH, { ...body, dry_run: true })),
    run: async () => {
      const begun = await send("POST", PATH, body);
      say(`Reassignment ${begun.reassignment_id} has begun.`);
      look();
    },
  });
}

/** What a dry run says. @param {any} plan */
const planOf = (plan) =>
  plan.units
    .map((/** @type {any} */ unit) => {
      const copied = unit.adding.length ? `${unit.adding.join(", ")} would get a copy` : "nothing would be copied";
      const left = unit.removing.length ? `, then ${unit.removing.join(", ")} would drop theirs` : "";
      return [
        h("p", {}, `Unit ${unit.unit}: ${unit.old_replicas.join(", ")} → ${unit.new_replicas.join(", ")}`),
        h("p", {}, `${plural(unit.partition_count, "partition")} would move: ${copied}${left}.`),
      ];
    })
    .flat();
