/** Dead letters and their errors, as rows. */

import { get } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { count, time } from "../lib/format.js";
import { to } from "../lib/routes.js";
import { pill } from "../parts/states.js";
import { table } from "../parts/table.js";
import { oneLine, plain } from "../parts/value.js";

/** @param {any} page @param {Set<string>} chosen @param {() => void} changed */
export function letterTable({ messages: rows, dlq_topic: source }, chosen, changed) {
  const all = h("input", {
    type: "checkbox",
    "aria-label": "Choose all on this page",
    onchange: () => {
      rows.forEach((/** @type {any} */ row) => (all.checked ? chosen.add(row.id) : chosen.delete(row.id)));
      element.update();
      changed();
    },
  });
  const box = (/** @type {any} */ row) =>
    h("input", {
      type: "checkbox",
      "aria-label": `Choose ${row.id}`,
      checked: chosen.has(row.id),
      onchange: (/** @type {any} */ event) => {
        if (event.target.checked) chosen.add(row.id);
        else chosen.delete(row.id);
        changed();
        element.update();
      },
    });
  const element = table({
    rows,
    key: (row) => row.id,
    rowClass: (row) => (chosen.has(row.id) ? "chosen" : ""),
    columns: [
      { name: "", cell: box },
      { name: "Died", class: "mono", cell: (row) => time(row.died_at) },
      {
        name: "From",
        cell: (row) =>
          row.original
            ? h(
                "a",
                {
                  class: "row-link mono",
                  href: to(["topics", row.original.topic, "messages", row.original.partition, row.original.offset]),
                },
                `${row.original.partition}:${row.original.offset}`,
              )
            : row.id,
      },
      { name: "Group", class: "key", cell: (row) => row.group ?? "–" },
      { name: "Reason", cell: (row) => pill(row.reason ?? "unknown", row.reason === "rejected" ? "bad" : "warn") },
      { name: "Attempts", number: true, class: "wide", cell: (row) => count(row.attempts) },
      { name: "Key", class: "key mono", cell: (row) => h("bdi", {}, oneLine(row, "key")) },
      {
        name: "Last error",
        class: "grow",
        cell: (row) => h("bdi", { title: row.last_error }, plain(row.last_error ?? "")),
      },
      {
        name: "",
        cell: (row) =>
          h(
            "a",
            { class: "soft", href: to(["publish"], { from: `${source}/${row.partition}/${row.offset}` }) },
            "Edit",
          ),
      },
    ],
  });
  return [h("label", { class: "check" }, all, "Choose all on this page"), element];
}

/** @param {import("../lib/view.js").View} view @param {string} path @param {HTMLElement} area */
export async function drawErrors(view, path, area) {
  const { errors } = await get(`${path}/errors`, {}, view.signal);
  if (!errors.length) return fill(area, h("p", { class: "soft" }, "Nothing to group."));
  fill(
    area,
    table({
      rows: errors,
      key: (row) => `${row.group}/${row.reason}/${row.shape}`,
      columns: [
        {
          name: "Error",
          class: "grow",
          cell: (row) =>
            h(
              "a",
              {
                class: "row-link",
                href: view.address({ group: row.group, reason: row.reason, contains: "", after: "" }),
                dir: "auto",
              },
              plain(row.shape || row.reason || "no error text"),
            ),
        },
        { name: "Group", cell: (row) => row.group },
        { name: "Reason", cell: (row) => pill(row.reason ?? "unknown") },
        { name: "Count", number: true, cell: (row) => count(row.count) },
        { name: "First", class: "mono", cell: (row) => time(row.first) },
        { name: "Last", class: "mono", cell: (row) => time(row.last) },
      ],
    }),
  );
}
