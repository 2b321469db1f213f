/** What a page shows when there is nothing, not yet, or no more. */

import { h } from "../lib/dom.js";

/**
 * @param {string} title @param {string} text
 * @param {...import("../lib/dom.js").Child} actions
 */
export const empty = (title, text, ...actions) =>
  h(
    "div",
    { class: "empty" },
    h("h2", {}, title),
    h("p", {}, text),
    actions.length ? h("div", { class: "row" }, ...actions) : null,
  );

/**
 * @param {string} title @param {string} text
 * @param {...import("../lib/dom.js").Child} actions
 */
export const failure = (title, text, ...actions) =>
  h(
    "div",
    { class: "empty failed", role: "alert" },
    h("h2", {}, title),
    h("p", { dir: "auto" }, text),
    h("div", { class: "row" }, ...actions),
  );

/** A small word with a colour: ok, warn, bad, or none. @param {string} text @param {string} [kind] @param {string} [title] */
export const pill = (text, kind = "", title = undefined) => h("span", { class: `pill ${kind}`, title }, text);

/** A titled part of a page. @param {import("../lib/dom.js").Child} title @param {any} actions @param {...import("../lib/dom.js").Child} children */
export const section = (title, actions, ...children) =>
  h(
    "section",
    {},
    h("div", { class: "section-head" }, h("h2", {}, title), h("div", { class: "actions" }, actions)),
    ...children,
  );

/** Names with values, as a list. @param {[string, import("../lib/dom.js").Child][]} pairs */
export const facts = (pairs) =>
  h(
    "dl",
    { class: "facts" },
    pairs
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { dir: "auto" }, value))),
  );

/** A number with its name. @param {string} name @param {import("../lib/dom.js").Child} value @param {...import("../lib/dom.js").Child} below */
export const tile = (name, value, ...below) =>
  h(
    "div",
    { class: "tile" },
    h("div", { class: "tile-name" }, name),
    h("div", { class: "tile-value" }, value),
    below.length ? h("div", { class: "tile-below" }, ...below) : null,
  );

/** A sentence at the corner that goes by itself. @param {string} text @param {"" | "bad"} [kind] */
export function say(text, kind = "") {
  const note = h("div", { class: `note ${kind}`, dir: "auto" }, text);
  document.getElementById("notes")?.append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 12000 : 5000);
}
