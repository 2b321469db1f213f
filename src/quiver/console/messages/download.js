/** The messages of a page as a file: JSON lines or CSV. */

import { h } from "../lib/dom.js";

const FIELDS = ["partition", "offset", "timestamp", "appended_at", "priority", "key", "value"];

/** @param {any[]} messages @param {string} name */
export function download(messages, name) {
  const json = () =>
    save(
      `${name}.jsonl`,
      "application/x-ndjson",
      `${messages.map((message) => JSON.stringify(message)).join("\n")}\n`,
    );
  const csv = () =>
    save(
      `${name}.csv`,
      "text/csv",
      [
        FIELDS,
        ...messages.map((message) => FIELDS.map((field) => message[field] ?? message[`${field}_base64`] ?? "")),
      ]
        .map(line)
        .join("\r\n"),
    );
  return h(
    "span",
    { class: "row" },
    h("button", { class: "quiet", onclick: json }, "Download JSONL"),
    h("button", { class: "quiet", onclick: csv }, "CSV"),
  );
}

/** A spreadsheet must not take a value for a formula. @param {any[]} cells */
const line = (cells) =>
  cells
    .map(String)
    .map((text) => (/^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text))
    .map((text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text))
    .join(",");

/** @param {string} name @param {string} type @param {string} text */
function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
