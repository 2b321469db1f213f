/** The messages of a page as a file: JSON lines, CSV or Parquet. */

import { at, get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { parquet } from "./parquet.js";

const FIELDS = ["partition", "offset", "timestamp", "appended_at", "priority", "key", "value"];

/** @param {any[]} shown what a page has, where long values are cut @param {string} topic */
export function download(shown, topic) {
  const json = async () => {
    const messages = await whole(topic, shown);
    save(
      `${topic}.jsonl`,
      "application/x-ndjson",
      [`${messages.map((message) => JSON.stringify(message)).join("\n")}\n`],
    );
  };
  const csv = async () => {
    const messages = await whole(topic, shown);
    save(
      `${topic}.csv`,
      "text/csv",
      [
        [
          FIELDS,
          ...messages.map((message) => FIELDS.map((field) => message[field] ?? message[`${field}_base64`] ?? "")),
        ]
          .map(line)
          .join("\r\n"),
      ],
    );
  };
  const table = async () =>
    save(`${topic}.parquet`, "application/vnd.apache.parquet", parquet(await whole(topic, shown)));
  return h(
    "span",
    { class: "row" },
    h("button", { class: "quiet", onclick: json }, "Download JSONL"),
    h("button", { class: "quiet", onclick: csv }, "CSV"),
    h("button", { class: "quiet", onclick: table }, "Parquet"),
  );
}

/** The messages with values that are not cut. @param {string} topic @param {any[]} shown */
async function whole(topic, shown) {
  const messages = [];
  for (const message of shown) {
    const { partition, offset } = message;
    const page =
      message.value_bytes === undefined
        ? null
        : await get(at`/topics/${topic}/partitions/${partition}/messages`, { offset, limit: 1, include_expired: true });
    messages.push(page?.messages.find((/** @type {any} */ each) => each.offset === offset) ?? message);
  }
  return messages;
}

/** A spreadsheet must not take a value for a formula. @param {any[]} cells */
const line = (cells) =>
  cells
    .map(String)
    .map((text) => (/^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text))
    .map((text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text))
    .join(",");

/** @param {string} name @param {string} type @param {any[]} parts */
function save(name, type, parts) {
  const address = URL.createObjectURL(new Blob(parts, { type }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
