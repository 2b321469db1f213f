/** What a page gets: where it is, where it draws, and how long it lives. */

import { flat, h, show } from "./dom.js";
import { ApiError } from "./api.js";
import { to } from "./routes.js";
import { commandBar } from "../parts/command.js";
import { failure } from "../parts/states.js";

/** @typedef {import("./routes.js").Place} Place */

export class View {
  /** @param {Place} place @param {HTMLElement} main @param {HTMLElement} footer */
  constructor(place, main, footer) {
    this.place = place;
    this.values = place.values;
    this.query = place.query;
    this.title = "";
    this._main = main;
    this._footer = footer;
    this._life = new AbortController();
    this._isDrawn = false;
    /** Aborted when another page is opened: everything that a page starts ends with it. */
    this.signal = this._life.signal;
  }

  leave() {
    this._life.abort();
  }

  /**
   * Draws the page: a heading with its actions, and the content.
   * @param {{ title: string, up?: [string, string][], actions?: any, tabs?: any, about?: any }} head
   * @param {...import("./dom.js").Child} content
   */
  draw(head, ...content) {
    if (this.signal.aborted) return;
    this.title = head.title;
    const crumbs = (head.up ?? []).map(([text, href]) => [
      h("a", { href, dir: "auto" }, text),
      h("span", { class: "sep" }, "/"),
    ]);
    const heading = h(
      "header",
      { class: "head" },
      h("div", { class: "crumbs" }, crumbs, h("h1", { dir: "auto" }, head.title), head.about),
      h("div", { class: "actions" }, head.actions),
    );
    const drawn = [heading, head.tabs ?? null, h("div", { class: "content" }, ...content)];
    if (this._isDrawn) show(this._main, ...drawn);
    else this._main.replaceChildren(...flat(drawn));
    this._isDrawn = true;
  }

  /** The same as commands, at the foot of the page. @param {{ curl: string, cli?: string }} commands */
  command(commands) {
    if (!this.signal.aborted) this._footer.replaceChildren(commandBar(commands));
  }

  /** Opens the page again with other values in its address. @param {Record<string, any>} changes */
  go(changes) {
    location.hash = this.address(changes);
  }

  /** Keeps the page as it is and changes its address. @param {Record<string, any>} changes */
  note(changes) {
    const address = this.address(changes);
    this.query = new URLSearchParams(address.split("?")[1] ?? "");
    history.replaceState(null, "", address);
  }

  /** @param {Record<string, any>} changes */
  address(changes) {
    const parts = this.place.path.split("/").filter(Boolean).map(decodeURIComponent);
    return to(parts, { ...Object.fromEntries(this.query), ...changes });
  }

  /**
   * Runs `work` now, and again every so many seconds while the page is visible and open. A failure is shown in the
   * page the first time, and later only until the next success.
   * @param {number} seconds @param {() => Promise<void>} work
   */
  async every(seconds, work) {
    await work();
    const again = async () => {
      if (this.signal.aborted) return;
      try {
        if (document.visibilityState === "visible" && !document.querySelector("dialog[open]")) await work();
      } catch (error) {
        if (this.signal.aborted) return;
        if (error instanceof ApiError && error.status === 404) return this.fail(error);
      }
      timer = setTimeout(again, seconds * 1000);
    };
    let timer = setTimeout(again, seconds * 1000);
    this.signal.addEventListener("abort", () => clearTimeout(timer));
  }

  /** Shows an error in place of the page. @param {unknown} error */
  fail(error) {
    const known = error instanceof ApiError;
    if (!known) console.error(error);
    const isGone = known && error.status === 404;
    const text = error instanceof Error ? error.message : String(error);
    const retry = h("button", { onclick: () => dispatchEvent(new HashChangeEvent("hashchange")) }, "Try again");
    const up = h("a", { class: "button", href: "#/topics" }, "All topics");
    this._main.replaceChildren(
      failure(isGone ? "It is not there." : "This did not work.", text, isGone ? up : retry),
    );
    this._footer.replaceChildren();
  }
}
