/** A topic: its partitions, its groups, and what can be done with it. */

import { at, get } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { bytes, count, rate, time } from "../lib/format.js";
import { to } from "../lib/routes.js";
import { curl, quiver } from "../parts/command.js";
import { empty, pill, section, tile } from "../parts/states.js";
import { table } from "../parts/table.js";
import { topicTabs, UP } from "./tabs.js";
import { createTopic } from "./form.js";
import { addPartitions, compact, purge, remove } from "./changes.js";

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const { topic } = view.values;
  const path = at`/topics/${topic}`;
  const tiles = h("div", { class: "tiles" });
  const partitions = table({ columns: columns(topic), rows: [], key: (row) => String(row.partition) });
  const [groups, priorities] = [h("div"), h("div")];
  let details = await get(path, {}, view.signal);
  const actions = [
    h("a", { class: "button", href: to(["publish"], { topic }) }, "Publish"),
    h("button", { onclick: () => createTopic([], topic) }, "Clone"),
    h("button", { onclick: () => addPartitions(view, details) }, "Add partitions"),
    h("button", { onclick: () => compact(topic) }, "Compact"),
    h("button", { onclick: () => purge(view, topic) }, "Purge"),
    h("button", { onclick: () => remove(topic) }, "Delete"),
  ];
  view.draw(
    { title: topic, up: UP, actions, tabs: topicTabs(topic, "") },
    tiles,
    section("Partitions", null, partitions),
    h(
      "div",
      { class: "split" },
      h("div", {}, section("Groups that read it", null, groups)),
      h("div", {}, section("Throughput by priority", null, priorities)),
    ),
  );
  view.command({ curl: curl("GET", path), cli: quiver("topic", "describe", topic) });
  const draw = () => {
    const { config } = details;
    fill(
      tiles,
      tile("Messages", count(details.total_messages)),
      tile("Size", bytes(details.total_size_bytes)),
      tile("Partitions", count(details.partitions)),
      tile(
        "Retention",
        config.retention ?? "no limit",
        config.retention_bytes ? `or ${bytes(config.retention_bytes)} a partition` : "by time",
      ),
      tile("Durability", config.durability),
      tile("Created", time(details.created_at).split(".")[0].split(" ")[0]),
    );
    partitions.rows = Object.entries(details.partition_offsets).map(([partition, offsets]) => ({
      partition: Number(partition),
      ...offsets,
    }));
    partitions.update();
  };
  draw();
  await view.every(3, async () => {
    details = await get(path, {}, view.signal);
    draw();
    const [stats] = await Promise.all([
      get("/priority/stats", { topic }, view.signal),
      drawGroups(view, topic, groups),
    ]);
    fill(priorities, priorityTable(stats.messages_by_priority, Object.values(stats.topics[topic]?.partitions ?? {})));
  });
}

/** @param {string} topic @returns {import("../parts/table.js").Column[]} */
const columns = (topic) => [
  {
    name: "Partition",
    number: true,
    cell: (row) =>
      h(
        "a",
        { class: "row-link", href: to(["topics", topic, "messages"], { partition: row.partition }) },
        row.partition,
      ),
  },
  { name: "First offset", number: true, cell: (row) => count(row.earliest) },
  { name: "Next offset", number: true, cell: (row) => count(row.latest) },
  { name: "Offsets", number: true, cell: (row) => count(row.latest - row.earliest) },
  { name: "Size", number: true, cell: (row) => bytes(row.size_bytes) },
  {
    name: "",
    class: "grow",
    cell: (row) =>
      row.offline
        ? pill("takes no writes", "bad", row.offline)
        : row.compacted_to === undefined
          ? ""
          : h("span", { class: "soft" }, `compacted to ${count(row.compacted_to)}`),
  },
];

/** @param {Record<string, number>} stored @param {any[]} partitions */
function priorityTable(stored, partitions) {
  const total = (/** @type {string} */ name, /** @type {number} */ level) =>
    partitions.reduce((sum, partition) => sum + partition[name][level], 0);
  return table({
    rows: Object.entries(stored).map(([name, messages], level) => ({ name, messages, level })),
    key: (row) => row.name,
    columns: [
      { name: "Priority", class: "grow", cell: (row) => row.name },
      { name: "Stored", number: true, cell: (row) => count(row.messages) },
      { name: "In", number: true, cell: (row) => rate(total("enqueue_rate", row.level)) },
      { name: "Delivered", number: true, cell: (row) => rate(total("dequeue_rate", row.level)) },
    ],
  });
}

/** @param {import("../lib/view.js").View} view @param {string} topic @param {HTMLElement} area */
async function drawGroups(view, topic, area) {
  const { groups } = await get("/groups", {}, view.signal);
  const rows = groups.filter((/** @type {any} */ group) => group.topics.includes(topic));
  const none = empty("No group reads this topic", "Groups appear here with their first member or commit.");
  if (!rows.length) return fill(area, none);
  fill(
    area,
    table({
      rows,
      key: (row) => row.id,
      columns: [
        {
          name: "Group",
          class: "grow",
          cell: (row) => h("a", { class: "row-link", href: to(["groups", row.id], { topic }), dir: "auto" }, row.id),
        },
        { name: "Kind", cell: (row) => row.kind },
        { name: "Members", number: true, cell: (row) => count(row.members) },
        { name: "Lag", number: true, cell: (row) => count(row.lag) },
      ],
    }),
  );
}
