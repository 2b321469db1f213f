/** Moving the position of a group, after a look at what would move. */

import { at, send } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { count } from "../lib/format.js";
import { curl, line, quiver } from "../parts/command.js";
import { field, openDialog } from "../parts/dialog.js";
import { say } from "../parts/states.js";
import { table } from "../parts/table.js";

const WAYS = [
  ["earliest", "The beginning"],
  ["latest", "The end"],
  ["time", "A time"],
  ["offset", "An offset"],
  ["shift", "By a number of messages"],
  ["like", "The positions of another group"],
];

/** @param {string} group @param {string[]} topics */
export function resetGroup(group, topics) {
  const path = at`/groups/${group}/offsets/reset`;
  const topic = h(
    "select",
    {},
    topics.map((each) => h("option", {}, each)),
  );
  const way = h(
    "select",
    {},
    WAYS.map(([kind, name]) => h("option", { value: kind }, name)),
  );
  const value = h("input", { placeholder: "-2h, 2026-11-16T12:00:00Z, 1200, -100, billing", autocomplete: "off" });
  const preview = h("div", { class: "preview", "aria-live": "polite" });
  const commands = h("div", { class: "commands" });
  const body = () => {
    const kind = way.value;
    if (kind === "earliest" || kind === "latest") return { topic: topic.value, to: kind };
    return {
      topic: topic.value,
      [kind]: kind === "time" || kind === "like" ? value.value.trim() : Number(value.value),
    };
  };
  const look = async () => {
    const needs = !["earliest", "latest"].includes(way.value);
    valueField.hidden = !needs;
    const wanted = body();
    const flag = way.value === "shift" || way.value === "like" ? `--${way.value}` : "--to";
    const target = "to" in wanted ? ["--to", wanted.to] : [flag, value.value];
    fill(
      commands,
      line(quiver("group", "reset", group, "--topic", topic.value, ...target)),
      line(curl("POST", path, {}, wanted)),
    );
    if (needs && !value.value) return fill(preview, "Say where to.");
    try {
      const found = await send("POST", path, { ...wanted, dry_run: true });
      fill(preview, previewTable(found.partitions));
    } catch (error) {
      fill(preview, error instanceof Error ? error.message : String(error));
    }
  };
  const valueField = field(
    "Where",
    value,
    "A time ago, a time, an offset, a number of messages (negative: back), or the name of a group.",
  );
  const content = h(
    "div",
    {
      class: "dialog-content",
      oninput: (/** @type {Event} */ event) => {
        if (event.target === way) value.value = ""; // an offset is no name of a group
        void look();
      },
    },
    h("div", { class: "fields" }, field("Topic", topic), field("To", way)),
    valueField,
    preview,
    commands,
  );
  openDialog({
    title: `Reset ${group}`,
    action: "Move the group",
    danger: true,
    wide: true,
    content,
    run: async () => {
      const done = await send("POST", path, body());
      say(`${group} was moved in ${Object.keys(done.partitions).length} partitions of ${done.topic}.`);
    },
  });
  void look();
}

/** @param {Record<string, { old: number | null, new: number }>} partitions */
function previewTable(partitions) {
  const rows = Object.entries(partitions).map(([partition, change]) => ({ partition, ...change }));
  return table({
    rows,
    key: (row) => row.partition,
    columns: [
      { name: "Partition", number: true, cell: (row) => row.partition },
      { name: "Now", number: true, cell: (row) => (row.old === null ? "–" : count(row.old)) },
      { name: "Then", number: true, cell: (row) => count(row.new) },
      {
        name: "Moves",
        number: true,
        class: "grow",
        cell: (row) =>
          row.old === null
            ? ""
            : row.new === row.old
              ? h("span", { class: "soft" }, "stays")
              : `${row.new > row.old ? "+" : ""}${count(row.new - row.old)}`,
      },
    ],
  });
}
