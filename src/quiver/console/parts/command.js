/** "Same as a command": what the page shows, as curl and quiver. */

import { h } from "../lib/dom.js";
import { base, withQuery } from "../lib/api.js";
import { say } from "./states.js";

/** @param {{ curl: string, cli?: string }} commands */
export function commandBar({ curl, cli }) {
  return h(
    "div",
    { class: "command-bar" },
    h("span", { class: "label" }, "Same as"),
    cli ? line(cli) : null,
    line(curl),
  );
}

/** A command that can be copied. @param {string} text */
export function line(text) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied.");
    } catch {
      say("The browser does not let this page copy; select the text instead.", "bad");
    }
  };
  return h(
    "span",
    { class: "command" },
    h("code", { tabindex: 0, title: text, dir: "ltr" }, text),
    h("button", { class: "quiet copy", "aria-label": `Copy ${text.split(" ")[0]} command`, onclick: copy }, "Copy"),
  );
}

/** A curl command for a route. @param {string} method @param {string} path @param {any} [query] @param {any} [body] */
export function curl(method, path, query, body) {
  const address = quoted(`${location.origin}${base}${withQuery(path, query)}`);
  const verb = method === "GET" || (method === "POST" && body !== undefined) ? "" : `-X ${method} `;
  const data = body === undefined ? "" : ` -H 'content-type: application/json' -d ${quoted(JSON.stringify(body))}`;
  return `curl ${verb}${address}${data}`;
}

/** A command of quiver; what is empty is left out. @param {...(string | number | null | undefined | false)} words */
export const quiver = (...words) =>
  [
    "quiver",
    ...words
      .filter((word) => word !== null && word !== undefined && word !== false && word !== "")
      .map((word) => quoted(String(word))),
  ].join(" ");

/** As a shell reads it. @param {string} text */
export const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
