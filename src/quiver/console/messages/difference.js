/** What an edited message has otherwise than the one it comes from, line by line. */

import { h } from "../lib/dom.js";
import { plural } from "../lib/format.js";
import { section } from "../parts/states.js";
import { plain } from "../parts/value.js";

const MOST_LINES = 400;

/** @typedef {{ sign: " " | "-" | "+", text: string }} Line */

/** @param {any} before as it is stored @param {any} after as it would be sent @param {string} topic where to */
export function difference(before, after, topic) {
  const parts = [
    ["topic", before.topic, topic],
    ["key", before.key ?? before.key_base64 ?? "", after.key ?? ""],
    ["priority", before.priority ?? "normal", after.priority ?? "normal"],
    ["headers", listed(before.headers), listed(after.headers)],
    ["value", spread(before.value ?? before.value_base64), spread(after.value ?? after.value_base64)],
  ].filter(([, one, other]) => one !== other);
  return section(
    `What differs from ${before.origin}`,
    null,
    parts.length
      ? h(
          "div",
          { class: "panel" },
          parts.map(([name, one, other]) => [h("div", { class: "soft" }, name), changed(one, other)]),
        )
      : h("p", { class: "soft" }, "Nothing: it would be sent again as it is."),
  );
}

/** @param {string} one @param {string} other */
function changed(one, other) {
  const [before, after] = [one.split("\n"), other.split("\n")];
  if (Math.max(before.length, after.length) > MOST_LINES)
    return h("p", {}, `${plural(before.length, "line")} became ${plural(after.length, "line")}.`);
  return h(
    "pre",
    { class: "difference", dir: "ltr" },
    compared(before, after).map(({ sign, text }) =>
      h(sign === "-" ? "del" : sign === "+" ? "ins" : "span", {}, `${sign} ${plain(text)}\n`),
    ),
  );
}

/** By the longest lines that both have in the same order. @param {string[]} before @param {string[]} after @returns {Line[]} */
export function compared(before, after) {
  const [rows, columns] = [before.length, after.length];
  const common = Array.from({ length: rows + 1 }, () => new Uint16Array(columns + 1));
  for (let row = rows - 1; row >= 0; row--)
    for (let column = columns - 1; column >= 0; column--)
      common[row][column] =
        before[row] === after[column]
          ? common[row + 1][column + 1] + 1
          : Math.max(common[row + 1][column], common[row][column + 1]);
  /** @type {Line[]} */
  const lines = [];
  let [row, column] = [0, 0];
  while (row < rows || column < columns) {
    if (row < rows && column < columns && before[row] === after[column]) {
      lines.push({ sign: " ", text: before[row] });
      row += 1;
      column += 1;
    } else if (column === columns || (row < rows && common[row + 1][column] >= common[row][column + 1]))
      lines.push({ sign: "-", text: before[row++] });
    else lines.push({ sign: "+", text: after[column++] });
  }
  return lines;
}

/** JSON over several lines; other text as it is. @param {string | null | undefined} text */
function spread(text) {
  try {
    return JSON.stringify(JSON.parse(text ?? ""), null, 2);
  } catch {
    return text ?? "";
  }
}

/** @param {Record<string, string> | undefined} headers */
const listed = (headers) =>
  Object.entries(headers ?? {})
    .map(([name, value]) => `${name}: ${value}`)
    .sort()
    .join("\n");
