/** Rows of messages. */

import { h } from "../lib/dom.js";
import { time } from "../lib/format.js";
import { to } from "../lib/routes.js";
import { oneLine } from "../parts/value.js";
import { table } from "../parts/table.js";

/** @param {any} message */
export const messageKey = (message) => `${message.partition}:${message.offset}`;

/**
 * @param {import("../lib/view.js").View} view @param {string} topic @param {any[]} messages
 * @returns {any}
 */
export function messageTable(view, topic, messages) {
  return table({
    rows: messages,
    key: messageKey,
    class: "messages",
    columns: [
      {
        name: "Appended",
        class: "mono",
        cell: (row) => h("span", { title: row.appended_at }, time(row.appended_at)),
      },
      { name: "Partition", number: true, cell: (row) => row.partition },
      {
        name: "Offset",
        number: true,
        cell: (row) =>
          h(
            "a",
            { class: "row-link mono", href: to(["topics", topic, "messages", row.partition, row.offset]) },
            row.offset,
          ),
      },
      { name: "Key", class: "key mono", cell: (row) => h("bdi", {}, oneLine(row, "key")) },
      { name: "Value", class: "grow mono", cell: (row) => h("bdi", {}, oneLine(row)) },
      {
        name: "Headers",
        number: true,
        cell: (row) => Object.keys(row.headers ?? {}).length + Object.keys(row.headers_base64 ?? {}).length || "",
      },
    ],
  });
}
