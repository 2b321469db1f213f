/** A stream group: who reads which partition, how far, and resets. */

import { at, get } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { ago, count, duration } from "../lib/format.js";
import { to } from "../lib/routes.js";
import { resetGroup } from "./reset.js";
import { empty, pill, section, tile } from "../parts/states.js";
import { table } from "../parts/table.js";

/** @param {import("../lib/view.js").View} view @param {any} details @param {any} remove */
export async function streamGroup(view, details, remove) {
  const group = details.id;
  const tiles = h("div", { class: "tiles" });
  const members = h("div");
  const partitions = table({ rows: [], key: (row) => `${row.topic}/${row.partition}`, columns: PARTITIONS });
  const matrix = h("div");
  view.draw(
    {
      title: group,
      up: [["Groups", "#/groups"]],
      about: pill("stream"),
      actions: [h("button", { onclick: () => resetGroup(group, details.topics) }, "Reset"), remove],
    },
    tiles,
    section("Members", null, members),
    section("Assignment", null, matrix),
    section("Partitions", null, partitions),
  );
  await view.every(3, async () => {
    const [found, stats] = await Promise.all([
      get(at`/groups/${group}`, {}, view.signal),
      get(at`/groups/${group}/rebalance/stats`, {}, view.signal),
    ]);
    fill(
      tiles,
      tile("State", found.state, `generation ${found.generation}`),
      tile("Lag", count(found.lag), "messages"),
      tile("Lag in time", duration(found.lag_time), "age of the oldest unread"),
      tile("Members", count(found.members.length), `${found.protocol}, ${found.assignor}`),
      tile("Rebalances", count(stats.total_rebalances), `last took ${duration(stats.last_duration)}`),
      tile("Partitions moved", count(stats.partitions_moved), `${count(stats.revocation_timeouts)} timeouts`),
    );
    partitions.rows = found.partitions;
    partitions.update();
    fill(members, memberTable(found.members));
    fill(matrix, assignment(found));
  });
}

/** @type {import("../parts/table.js").Column[]} */
const PARTITIONS = [
  {
    name: "Topic",
    class: "key",
    cell: (row) => h("a", { class: "row-link", href: to(["topics", row.topic]), dir: "auto" }, row.topic),
  },
  { name: "Partition", number: true, cell: (row) => row.partition },
  {
    name: "Committed",
    number: true,
    cell: (row) =>
      row.committed_offset === null
        ? "–"
        : h(
            "a",
            {
              href: to(["topics", row.topic, "messages"], { partition: row.partition, offset: row.committed_offset }),
            },
            count(row.committed_offset),
          ),
  },
  { name: "End", number: true, cell: (row) => count(row.end_offset) },
  { name: "Lag", number: true, cell: (row) => count(row.lag) },
  { name: "Lag in time", number: true, cell: (row) => duration(row.lag_time) },
  { name: "Owner", class: "grow mono", cell: (row) => row.owner ?? h("span", { class: "soft" }, "nobody") },
];

/** @param {any[]} members */
function memberTable(members) {
  if (!members.length) return empty("No members", "The group keeps its position; its next member continues there.");
  return table({
    rows: members,
    key: (row) => row.id,
    columns: [
      { name: "Member", class: "grow mono", cell: (row) => row.id },
      { name: "Client", cell: (row) => row.client_id },
      { name: "State", cell: (row) => pill(row.state, row.state === "stable" ? "good" : "") },
      { name: "Partitions", number: true, cell: (row) => count(row.assigned_partitions.length) },
      { name: "Heartbeat", cell: (row) => ago(row.last_heartbeat) },
      { name: "Joined", cell: (row) => ago(row.joined_at) },
    ],
  });
}

/** A square per partition, in the colour of its owner. @param {any} found */
function assignment(found) {
  const owners = found.members.map((/** @type {any} */ member) => member.id);
  if (!found.partitions.length) return h("p", { class: "soft" }, "No partitions yet.");
  const topics = Object.groupBy
    ? Object.groupBy(found.partitions, (/** @type {any} */ part) => part.topic)
    : { "": found.partitions };
  return h(
    "div",
    { class: "matrix panel" },
    Object.entries(topics).map(([topic, parts]) =>
      h(
        "div",
        { class: "matrix-row" },
        h("span", { class: "matrix-name", dir: "auto" }, topic),
        h(
          "span",
          { class: "matrix-cells" },
          /** @type {any[]} */ (parts).map((part) =>
            h(
              "i",
              {
                class: `cell ${part.owner ? `owner-${owners.indexOf(part.owner) % 6}` : ""}`,
                title: `partition ${part.partition}: ${part.owner ?? "nobody"}, lag ${part.lag}`,
              },
              part.partition,
            ),
          ),
        ),
      ),
    ),
  );
}
