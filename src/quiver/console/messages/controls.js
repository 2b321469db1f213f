/** Where to look: search, partition, offset, time, live. */

import { h } from "../lib/dom.js";
import { recent, remember } from "../lib/recent.js";
import { savedFilters } from "./saved-filters.js";

/** What the address says. @param {URLSearchParams} query */
export function read(query) {
  const number = (/** @type {string} */ name) => (query.get(name) ? Number(query.get(name)) : null);
  return {
    partition: number("partition"),
    offset: number("offset"),
    until: query.get("until") ?? "",
    before: query.get("before") ?? "",
    where: query.get("where") ?? "",
    live: query.get("live") === "yes",
    open: query.get("open") ?? "",
  };
}

/** @typedef {ReturnType<typeof read>} MessagePlace */

/** @param {import("../lib/view.js").View} view @param {any} details @param {MessagePlace} place @param {boolean} canSearch @param {boolean} canTail */
export function controls(view, details, place, canSearch, canTail) {
  const start = { offset: "", until: "", before: "", open: "" };
  const numbers = Object.keys(details.partition_offsets);
  const partition = h(
    "select",
    {
      "aria-label": "Partition",
      onchange: (/** @type {any} */ event) => view.go({ ...start, partition: event.target.value }),
    },
    h("option", { value: "" }, "All partitions"),
    numbers.map((each) => h("option", { value: each }, `Partition ${each}`)),
  );
  partition.value = place.partition === null ? "" : String(place.partition);
  const offset = h("input", {
    type: "number",
    min: 0,
    placeholder: "Offset",
    "aria-label": "From offset downwards",
    value: place.offset ?? "",
    class: "narrow",
  });
  const until = h("input", {
    type: "datetime-local",
    step: "0.001",
    "aria-label": "Appended before",
    value: local(place.until),
  });
  const jump = (/** @type {Event} */ event) => {
    event.preventDefault();
    const time = until.value ? new Date(until.value).toISOString() : "";
    view.go({
      ...start,
      live: "",
      offset: offset.value,
      until: time,
      partition: offset.value && !partition.value ? "0" : partition.value,
    });
  };
  const where = h("input", {
    type: "search",
    class: "grow mono",
    placeholder: 'Search, such as value.total > 300 and key == "c-1"',
    "aria-label": "Search expression",
    "data-search": true,
    value: place.where,
    list: "recent-searches",
    autocomplete: "off",
    spellcheck: "false",
  });
  const find = (/** @type {Event} */ event) => {
    event.preventDefault();
    remember("searches", where.value.trim());
    view.go({ ...start, where: where.value.trim(), live: place.live ? "yes" : "" });
  };
  const filters = savedFilters(details.name, place.where, (chosen) => view.go({ ...start, where: chosen }));
  const live = h(
    "button",
    {
      type: "button",
      "aria-pressed": String(place.live),
      onclick: () => view.go({ ...start, live: place.live ? "" : "yes" }),
    },
    place.live ? "Stop the tail" : "Live tail",
  );
  return h(
    "div",
    { class: "message-controls" },
    canSearch
      ? h(
          "form",
          { class: "bar", role: "search", onsubmit: find },
          where,
          h(
            "datalist",
            { id: "recent-searches" },
            recent("searches").map((value) => h("option", { value })),
          ),
          h("button", { class: "primary" }, "Search"),
          filters.save,
          place.where ? h("button", { type: "button", onclick: () => view.go({ where: "" }) }, "Clear") : null,
        )
      : null,
    canSearch ? filters.list : null,
    h(
      "form",
      { class: "bar", onsubmit: jump },
      partition,
      place.live || place.where ? null : [offset, until, h("button", {}, "Go")],
      canTail ? live : null,
      h("button", { type: "button", onclick: () => view.go(start) }, "Newest"),
    ),
  );
}

/** For a field of local time. @param {string} time */
function local(time) {
  const date = new Date(time);
  return Number.isNaN(date.getTime())
    ? ""
    : new Date(date.getTime() - date.getTimezoneOffset() * 60000).toISOString().slice(0, -1);
}
