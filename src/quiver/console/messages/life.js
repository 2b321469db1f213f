/** The life of a message: what happened to it, in order, and where it is now for each group. */

import { h } from "../lib/dom.js";
import { bytes, count, duration, time } from "../lib/format.js";
import { to } from "../lib/routes.js";
import { facts, pill } from "../parts/states.js";
import { plain } from "../parts/value.js";

/** Event -> the colour of its dot. */
const KINDS = {
  acked: "good",
  committed: "good",
  transaction_committed: "good",
  redriven: "good",
  nacked: "warn",
  given_back: "warn",
  lease_ended: "warn",
  rewound: "warn",
  dead_lettered: "bad",
  transaction_aborted: "bad",
  purged: "bad",
  lost: "bad",
};
const STATES = { settled: "good", dead: "bad", retrying: "warn" };

/** @param {any} life */
export function lifeView(life) {
  return h(
    "div",
    { class: "life-view" },
    life.groups?.length ? h("div", { class: "row" }, life.groups.map(standing)) : null,
    h("ol", { class: "life" }, life.events.map(item)),
    (life.notes ?? []).map((/** @type {string} */ note) => h("p", { class: "soft" }, note)),
    life.known_since
      ? h("p", { class: "soft" }, `Deliveries before ${time(life.known_since)} are not known any more.`)
      : null,
    life.trace_id ? h("a", { href: to(["traces", life.trace_id]) }, "Its trace") : null,
  );
}

/** The frame that a message lies in. @param {string} topic @param {number} partition @param {any} frame */
export const frameView = (topic, partition, frame) =>
  h(
    "div",
    { class: "panel" },
    facts([
      ["Messages", `${count(frame.messages)}, ${range(frame.first_offset, frame.last_offset)}`],
      ["Stored", bytes(frame.stored_bytes)],
      [
        "Compression",
        frame.compression === "none" ? "none" : `${frame.compression}, from ${bytes(frame.body_bytes)}`,
      ],
      ["Producer", frame.producer_id === null ? "not idempotent" : frame.producer_id],
    ]),
  );

/** @param {any} group */
const standing = (group) =>
  h(
    "a",
    { href: to(["groups", group.group]), dir: "auto" },
    group.group,
    " ",
    pill(group.state, STATES[/** @type {keyof typeof STATES} */ (group.state)] ?? ""),
  );

/** @param {any} event */
function item(event) {
  const words = [
    event.group && `group ${event.group}`,
    event.consumer && `consumer ${event.consumer}`,
    event.attempt && `attempt ${event.attempt}`,
    event.duration_ms !== undefined && duration(event.duration_ms / 1000),
    event.reason && `reason ${event.reason}`,
    event.until && `until ${time(event.until)}`,
    event.transaction_id && `transaction ${event.transaction_id}`,
  ].filter(Boolean);
  return h(
    "li",
    { class: KINDS[/** @type {keyof typeof KINDS} */ (event.event)] ?? "" },
    h("div", {}, h("b", {}, event.event.replaceAll("_", " ")), " ", h("span", { class: "soft" }, time(event.time))),
    words.length ? h("div", { class: "soft", dir: "auto" }, plain(words.join(" · "))) : null,
    event.origin ? h("div", {}, "from ", place(event.origin)) : null,
    event.to ? h("div", {}, "to ", place(event.to)) : null,
    event.error ? h("div", { class: "bad", dir: "auto" }, plain(event.error)) : null,
  );
}

/** @param {{ topic: string, partition: number, offset: number | null }} where */
function place({ topic, partition, offset }) {
  if (offset === null || offset === undefined) return h("span", { class: "mono" }, `${topic} ${partition}`);
  return h(
    "a",
    { class: "mono", href: to(["topics", topic, "messages", partition, offset]) },
    `${topic} ${partition}:${offset}`,
  );
}

/** @param {number} first @param {number} last */
const range = (first, last) => (first === last ? `offset ${first}` : `offsets ${first} to ${last}`);
