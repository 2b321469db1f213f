/** Names and values of headers, a row each. */

import { h } from "../lib/dom.js";

/** @param {Record<string, string>} given @param {() => void} changed */
export function headerRows(given, changed) {
  const element = h("div", { class: "header-rows" });
  const add = (name = "", value = "") => {
    const row = h(
      "div",
      { class: "row" },
      h("input", { class: "mono", placeholder: "name", "aria-label": "Header name", value: name }),
      h("input", { class: "mono grow", placeholder: "value", "aria-label": "Header value", value }),
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": "Remove this header",
          onclick: () => (row.remove(), changed()),
        },
        "Remove",
      ),
    );
    element.insertBefore(row, more);
    return row;
  };
  const more = h(
    "button",
    { type: "button", class: "quiet", onclick: () => add().querySelector("input").focus() },
    "Add a header",
  );
  element.append(more);
  for (const [name, value] of Object.entries(given)) add(name, value);
  return {
    element,
    /** @returns {Record<string, string>} */
    values: () =>
      Object.fromEntries(
        [...element.querySelectorAll(".row")]
          .map((row) => [...row.querySelectorAll("input")].map((input) => input.value))
          .filter(([name]) => name),
      ),
  };
}
