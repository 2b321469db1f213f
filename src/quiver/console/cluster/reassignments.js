/** Reassignments: how far they are, and the way to cancel one. */

import { at, get, send } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { ago, bytes, count, plural } from "../lib/format.js";
import { curl, quiver } from "../parts/command.js";
import { confirmChange } from "../parts/dialog.js";
import { empty, pill, say } from "../parts/states.js";
import { table } from "../parts/table.js";
import { askThrottle } from "./limit.js";
import { look } from "./node-changes.js";

const KINDS = { done: "good", timed_out: "bad", cancelled: "warn" };

/** @param {any[]} rows the newest first */
export function reassignmentTable(rows) {
  if (!rows.length)
    return empty("No reassignments", "Partitions that get other replicas, with their units, appear here.");
  return table({
    rows,
    key: (row) => String(row.reassignment_id),
    columns: [
      { name: "Number", number: true, cell: (row) => String(row.reassignment_id) },
      {
        name: "State",
        cell: (row) => pill(row.state.replace("_", " "), KINDS[/** @type {keyof typeof KINDS} */ (row.state)] ?? ""),
      },
      { name: "Progress", cell: ({ progress }) => [meter(progress.percent), `${progress.percent} %`] },
      { name: "Units", number: true, cell: ({ progress }) => part(progress.units_done, progress.units) },
      {
        name: "Partitions",
        number: true,
        class: "wide",
        cell: ({ progress }) => part(progress.partitions_done, progress.partitions),
      },
      { name: "Replicas", class: "grow", cell: (row) => whole(row.units.map(change)) },
      { name: "Throttle", cell: limit },
      { name: "Started", class: "wide", cell: (row) => ago(row.started_at) },
      { name: "Ended", class: "wide", cell: (row) => ago(row.ended_at) },
      {
        name: "",
        cell: actions,
      },
    ],
  });
}

/** @param {any} row */
const limit = ({ throttle_bytes_per_sec: size }) => (size ? `${bytes(size)}/s` : "–");

/** @param {any} row */
const actions = (row) =>
  row.state === "running"
    ? h(
        "div",
        { class: "row nowrap" },
        h("button", { class: "quiet", onclick: () => askThrottle(row) }, "Limit"),
        h("button", { class: "quiet bad", onclick: () => cancel(row) }, "Cancel"),
      )
    : "";

/** @param {any} unit */
const change = (unit) => `unit ${unit.unit}: ${unit.old_replicas.join(", ")} → ${unit.new_replicas.join(", ")}`;

/** What may be cut is there as a whole below the pointer. @param {string[]} changes */
const whole = (changes) => h("bdi", { title: changes.join("\n") }, changes.join(" · "));

/** @param {number} done @param {number} all */
const part = (done, all) => `${count(done)} of ${count(all)}`;

/** @param {number} percent */
function meter(percent) {
  const bar = h("i");
  bar.style.width = `${percent}%`;
  return h("span", { class: "meter" }, bar);
}

/** @param {any} row */
function cancel({ reassignment_id: number }) {
  const path = at`/admin/reassignment/${number}`;
  void confirmChange({
    title: `Cancel reassignment ${number}`,
    action: "Cancel it",
    danger: true,
    command: { curl: curl("DELETE", path), cli: quiver("cluster", "reassignments", number, "--cancel") },
    preview: async () => {
      const now = await get(path);
      const units = now.units.filter((/** @type {any} */ unit) => unit.state === "running");
      const partitions = units.reduce(
        (/** @type {number} */ sum, /** @type {any} */ unit) => sum + unit.partition_count,
        0,
      );
      return `${plural(units.length, "unit")} with ${plural(partitions, "partition")} would go back to the replicas from before. What is done stays.`;
    },
    run: async () => {
      await send("DELETE", path);
      say(`Reassignment ${number} is cancelled.`);
      look();
    },
  });
}
