/** What a queue group has: ready messages by priority, consumers, leases, blocked keys. */

import { h } from "../lib/dom.js";
import { ago, count } from "../lib/format.js";
import { to } from "../lib/routes.js";
import { empty } from "../parts/states.js";
import { table } from "../parts/table.js";
import { oneLine } from "../parts/value.js";
import { blockerActions, leaseActions } from "./leases.js";

/** @param {Record<string, number>} levels */
export function bars(levels) {
  const most = Math.max(1, ...Object.values(levels));
  return h(
    "div",
    { class: "panel bars" },
    Object.entries(levels).map(([name, number]) => {
      const bar = h("i");
      bar.style.width = `${(number / most) * 100}%`;
      return [
        h("span", { class: "soft" }, name),
        h("span", { class: "meter" }, bar),
        h("span", { class: "number" }, count(number)),
      ];
    }),
  );
}

/** @param {Record<string, number>} holders */
export function consumers(holders) {
  const rows = Object.entries(holders).map(([name, number]) => ({ name, number }));
  if (!rows.length) return empty("Nobody holds a message", "Consumers appear here while they have leases.");
  return table({
    rows,
    key: (row) => row.name,
    columns: [
      { name: "Consumer", class: "grow mono", cell: (row) => row.name },
      { name: "Messages", number: true, cell: (row) => count(row.number) },
    ],
  });
}

/** @param {string} topic @param {any} held */
export function leaseTable(topic, held) {
  if (!held.leases.length) return empty("Nobody holds a message", "Leases appear here while consumers work.");
  return table({
    rows: held.leases,
    key: (row) => `${row.partition}:${row.offset}`,
    columns: [
      {
        name: "Message",
        cell: (row) =>
          h(
            "a",
            { class: "row-link mono", href: to(["topics", topic, "messages", row.partition, row.offset]) },
            `${row.partition}:${row.offset}`,
          ),
      },
      { name: "Key", class: "key mono", cell: (row) => h("bdi", {}, oneLine(row, "key")) },
      { name: "Consumer", class: "grow mono", cell: (row) => row.consumer ?? "–" },
      { name: "Attempt", number: true, cell: (row) => row.attempt },
      { name: "Since", cell: (row) => ago(row.leased_at ?? row.first_delivered) },
      { name: "Until", cell: (row) => ago(row.until) },
      { name: "", cell: (row) => (row.receipt_handle ? leaseActions(row) : "") },
    ],
  });
}

/** @param {string} topic @param {string} group @param {any[]} keys */
export function blockedKeys(topic, group, keys) {
  if (!keys?.length) return h("p", { class: "soft" }, "No key waits for an earlier message of its own.");
  return table({
    rows: keys,
    key: (row) => String(row.key ?? row.key_base64),
    columns: [
      { name: "Key", class: "key mono", cell: (row) => h("bdi", {}, oneLine(row, "key")) },
      { name: "Waiting", number: true, cell: (row) => count(row.waiting) },
      {
        name: keys[0].offset === undefined ? "" : "Blocked by",
        class: "grow",
        cell: (row) =>
          row.offset === undefined
            ? ""
            : h(
                "a",
                { class: "mono", href: to(["topics", topic, "messages", row.partition, row.offset]) },
                `${row.partition}:${row.offset}`,
              ),
      },
      { name: "", cell: (row) => (row.offset === undefined ? "" : blockerActions(topic, group, row)) },
    ],
  });
}
