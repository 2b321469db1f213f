/** The value of a message as JSON, MessagePack, text or hex. Long ones are cut until somebody asks for all. */

import { h } from "../lib/dom.js";
import { bytes } from "../lib/format.js";
import { messagePackText } from "./messagepack.js";

export const CUT_BYTES = 64 * 1024;
const HEX_COLUMNS = 16;
const PRETTY_CHARACTERS = 1024 * 1024;
const NAMES = { json: "JSON", messagepack: "MessagePack", text: "Text", hex: "Hex" };
/** Characters that change the direction of the text around them: shown by name, so that they cannot mislead. */
const DIRECTION = /[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]/g;

/** @param {any} message @param {string} name value or key @returns {Uint8Array | null} null: a tombstone, or no key */
export function bytesOf(message, name) {
  if (typeof message[name] === "string") return new TextEncoder().encode(message[name]);
  const base64 = message[`${name}_base64`];
  return typeof base64 === "string" ? Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)) : null;
}

/** @param {any} message @param {string} name @returns {string | null} null: the bytes are not text */
export const textOf = (message, name) => (typeof message[name] === "string" ? message[name] : null);

/** One line for a table. @param {any} message @param {string} [name] */
export function oneLine(message, name = "value") {
  const text = textOf(message, name);
  if (text !== null) return plain(text.slice(0, 300).replace(/\s+/g, " "));
  const data = bytesOf(message, name);
  if (data === null) return h("span", { class: "soft" }, name === "key" ? "–" : "tombstone");
  return h("span", { class: "soft" }, `${[...data.slice(0, 16)].map(hex).join(" ")}${data.length > 16 ? " …" : ""}`);
}

/** @param {string} text */
export const plain = (text) =>
  text.replace(DIRECTION, (letter) => `\u2039U+${letter.charCodeAt(0).toString(16).toUpperCase()}\u203a`);

/** @param {number} byte */
const hex = (byte) => byte.toString(16).padStart(2, "0");

/** @param {any} message */
export function isJson(message) {
  const text = textOf(message, "value");
  if (text === null || !/^\s*[[{"\d\-tfn]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * @param {any} message
 * @param {object} options
 * @param {string} options.form json, messagepack, text, hex, or empty: what fits
 * @param {(form: string) => void} options.onform
 * @param {number} [options.size] bytes of the whole value, when the message has only its beginning
 * @param {boolean} [options.all] shows all that the message has
 * @param {() => void} [options.onall] loads all of it
 */
export function valueView(message, { form, onform, size, all = false, onall }) {
  if (message.tombstone)
    return h(
      "div",
      { class: "empty small" },
      h("p", {}, "A tombstone: it has no value. Compaction removes earlier messages of its key."),
    );
  const data = bytesOf(message, "value") ?? new Uint8Array();
  const whole = size ?? data.length;
  const packed = isPacked(message, data) && whole === data.length ? messagePackText(data) : null;
  const texts = {
    json: isJson(message) ? pretty(textOf(message, "value") ?? "") : null,
    messagepack: packed,
    text: textOf(message, "value"),
  };
  const kind =
    form in texts || form === "hex"
      ? form
      : (Object.entries(texts).find(([, shown]) => shown !== null)?.[0] ?? "hex");
  const forms = [...Object.entries(texts).map(([name, shown]) => [name, shown !== null]), ["hex", true]];
  const shown = texts[/** @type {keyof typeof texts} */ (kind)] ?? null;
  const area = h("pre", { class: "value", tabindex: 0, "aria-label": "Value", dir: "ltr" });
  fill(area, shown, data, all);
  const isCut = (data.length > CUT_BYTES && !all) || whole > data.length;
  const more = h(
    "button",
    {
      onclick: () =>
        whole > data.length && onall ? onall() : (fill(area, shown, data, true), (notice.hidden = true)),
    },
    "Show all",
  );
  const notice = h(
    "div",
    { class: "cut", hidden: !isCut },
    `The first ${bytes(Math.min(CUT_BYTES, data.length))} of ${bytes(whole)}. `,
    more,
  );
  return h(
    "div",
    { class: "value-view" },
    h(
      "div",
      { class: "row" },
      h(
        "div",
        { class: "segmented", role: "group", "aria-label": "Shown as" },
        forms
          .filter(([, fits]) => fits)
          .map(([name]) =>
            h(
              "button",
              { "aria-pressed": String(name === kind), onclick: () => onform(String(name)) },
              NAMES[/** @type {keyof typeof NAMES} */ (name)],
            ),
          ),
      ),
      h("span", { class: "soft" }, bytes(whole)),
    ),
    area,
    notice,
  );
}

/** Text and JSON that begin as MessagePack could are what they look like. @param {any} message @param {Uint8Array} data */
const isPacked = (message, data) =>
  (textOf(message, "value") === null || /msgpack|messagepack/.test(message.headers?.["content-type"] ?? "")) &&
  data.length > 0;

/** @param {HTMLElement} area @param {string | null} text null: hex @param {Uint8Array} data @param {boolean} isWhole */
function fill(area, text, data, isWhole) {
  area.textContent =
    text === null
      ? dump(isWhole ? data : data.subarray(0, CUT_BYTES / 8))
      : plain(isWhole ? text : text.slice(0, CUT_BYTES));
}

/** Indented; numbers keep their digits, because only the white space changes. @param {string} text */
export function pretty(text) {
  if (text.length > PRETTY_CHARACTERS) return text;
  let depth = 0;
  const pad = () => `\n${"  ".repeat(depth)}`;
  return text.replace(/"(?:[^"\\]|\\.)*"|[{}[\],:]|\s+/g, (token, at) => {
    if (/^\s+$/.test(token)) return "";
    if (token === "{" || token === "[") {
      const closes = /^\s*[}\]]/.test(text.slice(at + 1, at + 200));
      depth++;
      return closes ? token : token + pad();
    }
    if (token === "}" || token === "]") {
      depth--;
      return /[{[]\s*$/.test(text.slice(Math.max(0, at - 200), at)) ? token : pad() + token;
    }
    return token === "," ? token + pad() : token === ":" ? ": " : token;
  });
}

/** @param {Uint8Array} data */
function dump(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += HEX_COLUMNS) {
    const row = [...data.subarray(at, at + HEX_COLUMNS)];
    const letters = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(
      `${at.toString(16).padStart(8, "0")}  ${row
        .map(hex)
        .join(" ")
        .padEnd(HEX_COLUMNS * 3)} ${letters}`,
    );
  }
  return lines.join("\n");
}
