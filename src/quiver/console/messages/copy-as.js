/** A message as a command that publishes it again: curl, or Python. */

import { at } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { curl } from "../parts/command.js";
import { say } from "../parts/states.js";

const TEXT = /^[^"\\\u0000-\u001f\u007f]*$/;

/** @param {string} topic @param {any} message */
export function copyAs(topic, message) {
  const copy = async (/** @type {string} */ text, /** @type {string} */ name) => {
    try {
      await navigator.clipboard.writeText(text);
      say(`Copied as ${name}: it publishes this message again.`);
    } catch {
      say("The browser does not let this page copy.", "bad");
    }
  };
  return [
    h("span", { class: "soft" }, "Copy as"),
    h("button", { class: "quiet", onclick: () => copy(asCurl(topic, message), "curl") }, "curl"),
    h("button", { class: "quiet", onclick: () => copy(asPython(topic, message), "Python") }, "Python"),
  ];
}

const FIELDS = ["key", "key_base64", "value", "value_base64", "headers", "headers_base64", "tombstone"];

/** @param {string} topic @param {any} message */
export function asCurl(topic, message) {
  const same = Object.fromEntries(
    FIELDS.filter((name) => message[name] !== undefined && message[name] !== null).map((name) => [
      name,
      message[name],
    ]),
  );
  if (message.priority && message.priority !== "normal") same.priority = message.priority;
  return curl("POST", at`/topics/${topic}/messages`, {}, { messages: [same] });
}

/** @param {string} topic @param {any} message */
export function asPython(topic, message) {
  const headers = [
    ...Object.entries(message.headers ?? {}).map(([name, value]) => `${literal(name)}: ${literal(String(value))}`),
    ...Object.entries(message.headers_base64 ?? {}).map(
      ([name, value]) => `${literal(name)}: ${decoded(String(value))}`,
    ),
  ];
  const words = [literal(topic), given(message, "value") ?? "None"];
  if (given(message, "key")) words.push(`key=${given(message, "key")}`);
  if (headers.length) words.push(`headers={${headers.join(", ")}}`);
  if (message.priority && message.priority !== "normal") words.push(`priority=${literal(message.priority)}`);
  const needs = words.some((word) => word.includes("b64decode(")) ? "from base64 import b64decode\n\n" : "";
  return `${needs}import quiver\n\nwith quiver.connect(${literal(location.hostname)}) as q:\n    q.publish(${words.join(", ")})\n`;
}

/** @param {any} message @param {string} name @returns {string | null} */
function given(message, name) {
  if (typeof message[name] === "string") return literal(message[name]);
  const base64 = message[`${name}_base64`];
  return typeof base64 === "string" ? decoded(base64) : null;
}

/** @param {string} base64 */
const decoded = (base64) => `b64decode("${base64}")`;

/** As Python reads it; the escapes of JSON strings are also Python's. @param {string} text */
const literal = (text) => (TEXT.test(text) ? `"${text}"` : JSON.stringify(text).replace(/\u007f/g, "\\x7f"));
