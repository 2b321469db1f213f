/** Messages of a topic: newest first from any place, a search, or a live tail. */

import { at, get, has } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { count, plural } from "../lib/format.js";
import { newestFirst, offsetsAt } from "./newest.js";
import { curl, quiver } from "../parts/command.js";
import { messageTable } from "./table.js";
import { download } from "./download.js";
import { empty } from "../parts/states.js";
import { topicTabs, UP } from "../topics/tabs.js";
import { searchMessages } from "./search.js";
import { tailMessages } from "./tail.js";
import { controls, read } from "./controls.js";

const PAGE = 50;
const CUT = 2048;

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const { topic } = view.values;
  const details = await get(at`/topics/${topic}`, {}, view.signal);
  const place = read(view.query);
  const [canSearch, canTail] = await Promise.all([
    has("POST /topics/{topic}/search"),
    has("GET /topics/{topic}/tail"),
  ]);
  const area = h("div", { class: "message-area" });
  const status = h("span", { class: "soft" });
  view.draw(
    {
      title: topic,
      up: UP,
      about: status,
      tabs: topicTabs(topic, "messages"),
      actions: h("a", { class: "button", href: `#/publish?topic=${encodeURIComponent(topic)}` }, "Publish"),
    },
    controls(view, details, place, canSearch, canTail),
    area,
  );
  if (place.live && canTail) return tailMessages(view, { topic, area, status, place });
  if (place.where && canSearch) return searchMessages(view, { topic, area, status, place });
  return page(view, details, place, area, status);
}

/** @param {import("../lib/view.js").View} view @param {any} details @param {import("./controls.js").MessagePlace} place @param {HTMLElement} area @param {HTMLElement} status */
async function page(view, details, place, area, status) {
  const topic = details.name;
  const offsets = details.partition_offsets;
  const before = place.before
    ? cursor(place.before)
    : place.until
      ? await offsetsAt(topic, Object.keys(offsets).map(Number), place.until, view.signal)
      : {};
  if (place.offset !== null && place.partition !== null && !place.before) before[place.partition] = place.offset + 1;
  const found = await newestFirst({
    topic,
    offsets,
    partition: place.partition,
    before,
    limit: PAGE,
    query: { max_value_bytes: CUT },
    signal: view.signal,
  });
  const first = found.messages.at(-1);
  view.command({
    curl: curl(
      "GET",
      at`/topics/${topic}/messages`,
      place.partition === null || !first
        ? { limit: PAGE, after: found.before ? Object.values(found.before).join(".") : "" }
        : { partition: place.partition, offset: first.offset, limit: PAGE },
    ),
    cli:
      place.partition === null || !first
        ? quiver("consume", topic, "-n", PAGE, "--format", "json")
        : quiver(
            "consume",
            topic,
            "--partition",
            place.partition,
            "--from",
            first.offset,
            "-n",
            PAGE,
            "--format",
            "json",
          ),
  });
  status.textContent = `${plural(details.total_messages, "message")}`;
  if (!found.messages.length) {
    const isEmpty = details.total_messages === 0;
    return fill(
      area,
      empty(
        isEmpty ? "No messages yet" : "Nothing here",
        isEmpty ? "What is published to this topic appears here." : "There are no messages before this place.",
        isEmpty
          ? h(
              "a",
              { class: "button primary", href: `#/publish?topic=${encodeURIComponent(topic)}` },
              "Publish a message",
            )
          : h("button", { onclick: () => view.go({ offset: "", until: "", before: "" }) }, "Newest messages"),
      ),
    );
  }
  const older =
    found.before &&
    h(
      "button",
      {
        onclick: () =>
          view.go({
            before: Object.entries(/** @type {any} */ (found.before))
              .map((pair) => pair.join(":"))
              .join(","),
            open: "",
          }),
      },
      "Older",
    );
  fill(
    area,
    messageTable(view, topic, found.messages),
    h(
      "div",
      { class: "more" },
      older,
      h("span", {}, `${count(found.messages.length)} shown`),
      download(found.messages, topic),
    ),
  );
}

/** Where each partition goes on, as the address has it: 0:120,1:98. @param {string} text */
const cursor = (text) =>
  Object.fromEntries(
    text
      .split(",")
      .map((pair) => pair.split(":").map(Number))
      .filter(([partition, offset]) => Number.isInteger(partition) && Number.isInteger(offset)),
  );
