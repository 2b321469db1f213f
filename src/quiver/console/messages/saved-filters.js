/** Searches of a topic that somebody wants to use again, kept by the browser. */

import { h, show } from "../lib/dom.js";
import { forget, recent, remember } from "../lib/recent.js";

/**
 * A button that saves the search (null without one), and the saved ones.
 * @param {string} topic @param {string} where @param {(where: string) => void} choose
 */
export function savedFilters(topic, where, choose) {
  const place = `filters-${topic}`;
  const list = h("div", { class: "row saved" });
  const save = where ? h("button", { type: "button", onclick: () => keep(where, !isSaved()) }) : null;
  const isSaved = () => recent(place).includes(where);
  const keep = (/** @type {string} */ text, /** @type {boolean} */ isKept) => {
    if (isKept) remember(place, text);
    else forget(place, text);
    draw();
  };
  const chip = (/** @type {string} */ text) =>
    h(
      "span",
      { class: "chip" },
      h("button", { type: "button", class: "quiet mono", title: text, onclick: () => choose(text) }, text),
      h(
        "button",
        { type: "button", class: "quiet", "aria-label": `Forget ${text}`, onclick: () => keep(text, false) },
        "×",
      ),
    );
  const draw = () => {
    if (save) save.textContent = isSaved() ? "Saved" : "Save";
    show(list, recent(place).map(chip));
  };
  draw();
  return { save, list };
}
