/** The keyboard: / searches, g and a letter opens a page, j and k move in a table, Esc goes back, ? lists all. */

import { h } from "./dom.js";
import { openDialog } from "../parts/dialog.js";

/** Letter after g -> address. */
export const GO = {
  o: ["Overview", "#/"],
  t: ["Topics", "#/topics"],
  p: ["Publish", "#/publish"],
  g: ["Groups", "#/groups"],
  d: ["Dead letters", "#/dead-letters"],
  l: ["Delayed", "#/delayed"],
  s: ["Schedules", "#/schedules"],
  x: ["Transactions", "#/transactions"],
  r: ["Traces", "#/traces"],
  c: ["Cluster", "#/cluster"],
  y: ["System", "#/system"],
};
const PAUSE_MS = 1200;

let pressed = 0;

export function start() {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") return escape(event);
    if (isTyping(event.target)) return;
    const was = pressed;
    pressed = 0;
    if (Date.now() - was < PAUSE_MS && event.key in GO) {
      location.hash = GO[/** @type {keyof typeof GO} */ (event.key)][1];
      return event.preventDefault();
    }
    const act = /** @type {Record<string, () => void>} */ ({
      g: () => (pressed = Date.now()),
      "/": () => /** @type {HTMLElement | null} */ (document.querySelector("[data-search]"))?.focus(),
      "?": help,
      j: () => move(1),
      k: () => move(-1),
    })[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

/** @param {EventTarget | null} target */
const isTyping = (target) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** Leaves a field, or else goes to the page above. @param {KeyboardEvent} event */
function escape(event) {
  const field = /** @type {HTMLInputElement} */ (document.activeElement);
  if (isTyping(field)) {
    if (field.dataset.search !== undefined && field.value) {
      field.value = "";
      field.dispatchEvent(new Event("input", { bubbles: true }));
    } else field.blur();
    return event.preventDefault();
  }
  const up = /** @type {HTMLAnchorElement | undefined} */ ([...document.querySelectorAll(".crumbs a")].pop());
  if (up) location.hash = up.getAttribute("href") ?? "";
}

/** @param {number} step */
function move(step) {
  const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("main tbody a.row-link")]);
  if (!rows.length) return;
  const at = rows.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + step))].focus();
}

export function help() {
  const line = (/** @type {string[]} */ keys, /** @type {string} */ text) =>
    h(
      "div",
      { class: "shortcut" },
      h(
        "span",
        {},
        keys.map((key) => h("kbd", {}, key)),
      ),
      h("span", {}, text),
    );
  openDialog({
    title: "Keyboard",
    content: h(
      "div",
      { class: "shortcuts" },
      line(["/"], "search in this page"),
      line(["j", "k"], "next and previous row"),
      line(["Enter"], "open what is focused"),
      line(["Esc"], "close, clear, or go up a page"),
      Object.entries(GO).map(([key, [name]]) => line(["g", key], name)),
    ),
    cancel: "Close",
  });
}
