/** Messages of a topic: newest first from any place, a search, or a live tail. */

import { at, get, has } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { count, plural } from "../lib/format.js";
import { newestFirst, offsetsAt } from "../lib/newest.js";
import { curl, quiver } from "../parts/command.js";
import { messageTable } from "../parts/message-table.js";
import { download } from "../parts/download.js";
import { empty } from "../parts/states.js";
import { topicTabs, UP } from "../parts/topic-tabs.js";
import { searchMessages } from "../parts/message-search.js";
import { tailMessages } from "../parts/message-tail.js";

const PAGE = 50;
const CUT = 2048;

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const { topic } = view.values;
  const details = await get(at`/topics/${topic}`, {}, view.signal);
  const place = read(view.query);
  const [canSearch, canTail] = await Promise.all([has("POST /topics/{topic}/search"), has("GET /topics/{topic}/tail")]);
  const area = h("div", { class: "message-area" });
  const status = h("span", { class: "soft" });
  view.draw(
    { title: topic, up: UP, about: status, tabs: topicTabs(topic, "messages"), actions: h("a", { class: "button", href: `#/publish?topic=${encodeURIComponent(topic)}` }, "Publish") },
    controls(view, details, place, canSearch, canTail),
    area,
  );
  if (place.where && canSearch) return searchMessages(view, { topic, area, status, place });
  if (place.live && canTail) return tailMessages(view, { topic, area, status, place });
  return page(view, details, place, area, status);
}

/** What the address says. @param {URLSearchParams} query */
function read(query) {
  const number = (/** @type {string} */ name) => (query.get(name) ? Number(query.get(name)) : null);
  return { partition: number("partition"), offset: number("offset"), until: query.get("until") ?? "", before: query.get("before") ?? "", where: query.get("where") ?? "", live: query.get("live") === "yes", open: query.get("open") ?? "" };
}

/** @typedef {ReturnType<typeof read>} MessagePlace */

/** @param {import("../lib/view.js").View} view @param {any} details @param {MessagePlace} place @param {boolean} canSearch @param {boolean} canTail */
function controls(view, details, place, canSearch, canTail) {
  const start = { offset: "", until: "", before: "", open: "" };
  const numbers = Object.keys(details.partition_offsets);
  const partition = h("select", { "aria-label": "Partition", onchange: (/** @type {any} */ event) => view.go({ ...start, partition: event.target.value }) }, h("option", { value: "" }, "All partitions"), numbers.map((each) => h("option", { value: each }, `Partition ${each}`)));
  partition.value = place.partition === null ? "" : String(place.partition);
  const offset = h("input", { type: "number", min: 0, placeholder: "Offset", "aria-label": "From offset downwards", value: place.offset ?? "", class: "narrow" });
  const until = h("input", { type: "datetime-local", step: "0.001", "aria-label": "Appended before", value: local(place.until) });
  const jump = (/** @type {Event} */ event) => {
    event.preventDefault();
    const time = until.value ? new Date(until.value).toISOString() : "";
    view.go({ ...start, live: "", offset: offset.value, until: time, partition: offset.value && !partition.value ? "0" : partition.value });
  };
  const where = h("input", { type: "search", class: "grow mono", placeholder: 'Search, such as value.total > 300 and key == "c-1"', "aria-label": "Search expression", "data-search": true, value: place.where, autocomplete: "off", spellcheck: "false" });
  const find = (/** @type {Event} */ event) => {
    event.preventDefault();
    view.go({ ...start, where: where.value.trim(), live: place.live ? "yes" : "" });
  };
  const live = h("button", { type: "button", "aria-pressed": String(place.live), onclick: () => view.go({ ...start, live: place.live ? "" : "yes" }) }, place.live ? "Stop the tail" : "Live tail");
  return h(
    "div",
    { class: "message-controls" },
    canSearch ? h("form", { class: "bar", role: "search", onsubmit: find }, where, h("button", { class: "primary" }, "Search"), place.where ? h("button", { type: "button", onclick: () => view.go({ where: "" }) }, "Clear") : null) : null,
    h("form", { class: "bar", onsubmit: jump }, partition, place.live || place.where ? null : [offset, until, h("button", {}, "Go")], canTail ? live : null, h("button", { type: "button", onclick: () => view.go(start) }, "Newest")),
  );
}

/** For a field of local time. @param {string} time */
function local(time) {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? "" : new Date(date.getTime() - date.getTimezoneOffset() * 60000).toISOString().slice(0, -1);
}

/** @param {import("../lib/view.js").View} view @param {any} details @param {MessagePlace} place @param {HTMLElement} area @param {HTMLElement} status */
async function page(view, details, place, area, status) {
  const topic = details.name;
  const offsets = details.partition_offsets;
  const before = place.before ? cursor(place.before) : place.until ? await offsetsAt(topic, Object.keys(offsets).map(Number), place.until, view.signal) : {};
  if (place.offset !== null && place.partition !== null && !place.before) before[place.partition] = place.offset + 1;
  const found = await newestFirst({ topic, offsets, partition: place.partition, before, limit: PAGE, query: { max_value_bytes: CUT }, signal: view.signal });
  const at_ = place.partition ?? found.messages[0]?.partition;
  const first = found.messages.at(-1);
  view.command({
    curl: curl("GET", at`/topics/${topic}/messages`, first ? { partition: at_, offset: place.partition === null ? undefined : first.offset, limit: PAGE } : {}),
    cli: place.partition === null || !first ? quiver("consume", topic, "-n", PAGE, "--format", "json") : quiver("consume", topic, "--partition", place.partition, "--from", first.offset, "-n", PAGE, "--format", "json"),
  });
  status.textContent = `${plural(details.total_messages, "message")}`;
  if (!found.messages.length) {
    const isEmpty = details.total_messages === 0;
    return fill(area, empty(isEmpty ? "No messages yet" : "Nothing here", isEmpty ? "What is published to this topic appears here." : "There are no messages before this place.", isEmpty ? h("a", { class: "button primary", href: `#/publish?topic=${encodeURIComponent(topic)}` }, "Publish a message") : h("button", { onclick: () => view.go({ offset: "", until: "", before: "" }) }, "Newest messages")));
  }
  const older = found.before && h("button", { onclick: () => view.go({ before: Object.entries(/** @type {any} */ (found.before)).map((pair) => pair.join(":")).join(","), open: "" }) }, "Older");
  fill(area, messageTable(view, topic, found.messages), h("div", { class: "more" }, older, h("span", {}, `${count(found.messages.length)} shown`), download(found.messages, topic)));
}

/** Where each partition goes on, as the address has it: 0:120,1:98. @param {string} text */
const cursor = (text) => Object.fromEntries(text.split(",").map((pair) => pair.split(":").map(Number)).filter(([partition, offset]) => Number.isInteger(partition) && Number.isInteger(offset)));
