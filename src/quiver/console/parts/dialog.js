/** Dialogs: forms, and questions before something is changed. */

import { h } from "../lib/dom.js";
import { line } from "./command.js";

/**
 * @typedef {object} Dialog
 * @property {string} title
 * @property {any} content
 * @property {string} [action] what the button says; without one there is nothing to do but close
 * @property {boolean} [danger]
 * @property {string} [cancel]
 * @property {boolean} [wide]
 * @property {() => Promise<void>} [run] an error stays in the dialog
 */

/** Opens a dialog; Esc closes it, Enter in a field is the action. @param {Dialog} options @returns {HTMLDialogElement} */
export function openDialog({ title, content, action, danger = false, cancel = "Cancel", wide = false, run }) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true, dir: "auto" });
  const close = h("button", { type: "button", onclick: () => dialog.close() }, cancel);
  const act = action ? h("button", { type: "submit", class: danger ? "danger" : "primary" }, action) : null;
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!act || act.disabled) return;
    act.disabled = true;
    problem.hidden = true;
    try {
      await run?.();
      dialog.close();
    } catch (error) {
      problem.textContent = error instanceof Error ? error.message : String(error);
      problem.hidden = false;
    } finally {
      act.disabled = false;
    }
  };
  const form = h(
    "form",
    { onsubmit: submit },
    h("h2", {}, title),
    h("div", { class: "dialog-content" }, content),
    problem,
    h("div", { class: "dialog-actions" }, close, act),
  );
  const dialog = h("dialog", { class: wide ? "wide" : "", "aria-label": title }, form);
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  dialog.addEventListener("close", () => {
    dialog.remove();
    before?.focus?.();
  });
  document.body.append(dialog);
  dialog.showModal();
  const first = dialog.querySelector("input, select, textarea");
  (first ?? (danger ? close : act) ?? close).focus();
  return dialog;
}

/**
 * Asks before something changes, with what the broker says it would do.
 * @param {object} options
 * @param {string} options.title
 * @param {() => Promise<any>} options.preview what would happen, from a dry run: text or elements
 * @param {string} options.action
 * @param {() => Promise<void>} options.run
 * @param {{ curl: string, cli?: string }} options.command
 * @param {boolean} [options.danger]
 * @param {string} [options.type] has to be typed
 */
export async function confirmChange({ title, preview, action, run, command, danger = false, type }) {
  const found = h("div", { class: "preview", "aria-live": "polite" }, "Asking the broker what would happen");
  const typed =
    type === undefined
      ? null
      : h("input", { autocomplete: "off", spellcheck: "false", "aria-label": `Type ${type}` });
  const dialog = openDialog({
    title,
    action,
    danger,
    content: [
      found,
      typed
        ? h("label", { class: "field" }, h("span", {}, "Type ", h("b", { dir: "auto" }, type), " to confirm"), typed)
        : null,
      h("div", { class: "commands" }, command.cli ? line(command.cli) : null, line(command.curl)),
    ],
    run,
  });
  const act = /** @type {HTMLButtonElement} */ (dialog.querySelector("[type=submit]"));
  act.disabled = true;
  let known = false;
  const check = () => (act.disabled = !known || (typed !== null && typed.value !== type));
  typed?.addEventListener("input", check);
  try {
    const shown = await preview();
    found.replaceChildren(...(Array.isArray(shown) ? shown : [shown]));
    known = true;
  } catch (error) {
    found.replaceChildren(error instanceof Error ? error.message : String(error));
    found.classList.add("problem");
  }
  check();
}

/** A labelled field. @param {string} name @param {any} input @param {string} [about] */
export const field = (name, input, about) =>
  h("label", { class: "field" }, h("span", {}, name), input, about ? h("small", {}, about) : null);
