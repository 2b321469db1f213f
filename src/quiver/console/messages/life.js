/** The life of a message: what happened to it, in order. */

import { h } from "../lib/dom.js";
import { duration, time } from "../lib/format.js";
import { plain } from "../parts/value.js";

/** @param {string} event */
const kind = (event) =>
  /ack|settled|committed|redriven|commit/.test(event) && !/nack/.test(event)
    ? "good"
    : /dead|reject|abort|expired|dlq/.test(event)
      ? "bad"
      : /nack|retry|lost|extend|lease/.test(event)
        ? "warn"
        : "";

/** @param {any[]} events */
export function lifeList(events) {
  if (!events?.length) return h("p", { class: "soft" }, "Nothing is recorded about it.");
  return h("ol", { class: "life" }, events.map(item));
}

/** @param {any} event */
function item(event) {
  const words = [
    event.group && `group ${event.group}`,
    event.consumer && `consumer ${event.consumer}`,
    event.attempt && `attempt ${event.attempt}`,
    event.duration_ms !== undefined && event.duration_ms !== null && duration(event.duration_ms / 1000),
    event.to && `to ${place(event.to)}`,
  ];
  return h(
    "li",
    { class: kind(event.event) },
    h(
      "div",
      {},
      h("b", {}, event.event.replaceAll("_", " ").replaceAll(".", " ")),
      " ",
      h("span", { class: "soft" }, event.time ? time(event.time) : ""),
    ),
    h("div", { class: "soft", dir: "auto" }, plain(words.filter(Boolean).join(" · "))),
    event.error ? h("div", { class: "bad", dir: "auto" }, plain(event.error)) : null,
  );
}

/** @param {any} to */
const place = (to) =>
  typeof to === "string"
    ? to
    : [to.topic, to.partition, to.offset].filter((part) => part !== undefined && part !== null).join(":");
