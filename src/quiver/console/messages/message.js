/** A message: its value, its headers, its life, and its neighbours. */

import { at, get, has } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { ago, time } from "../lib/format.js";
import { to } from "../lib/routes.js";
import { curl, quiver } from "../parts/command.js";
import { copyAs } from "./copy-as.js";
import { frameView, lifeView } from "./life.js";
import { empty, facts, section } from "../parts/states.js";
import { table } from "../parts/table.js";
import { CUT_BYTES, oneLine, plain, textOf, valueView } from "../parts/value.js";

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const { topic } = view.values;
  const [partition, offset] = [Number(view.values.partition), Number(view.values.offset)];
  const path = at`/topics/${topic}/partitions/${partition}/messages`;
  const isWhole = view.query.get("all") === "yes";
  const query = {
    offset,
    limit: 1,
    include_expired: true,
    isolation: "read_uncommitted",
    ...(isWhole ? {} : { max_value_bytes: CUT_BYTES }),
  };
  const page = await get(path, query, view.signal);
  const message = page.messages.find((/** @type {any} */ each) => each.offset === offset);
  /** @type {[string, string][]} */
  const up = [
    ["Topics", "#/topics"],
    [topic, to(["topics", topic])],
    ["Messages", to(["topics", topic, "messages"], { partition })],
  ];
  view.command({
    curl: curl("GET", path, { offset, limit: 1 }),
    cli: quiver("consume", topic, "--partition", partition, "--from", offset, "-n", 1, "--format", "json"),
  });
  if (!message) {
    const next = page.messages[0];
    return view.draw(
      { title: `${partition}:${offset}`, up },
      empty(
        "This message is not there",
        "Retention, compaction or a purge has removed it, or the offset was never written.",
        next
          ? h(
              "a",
              { class: "button", href: to(["topics", topic, "messages", partition, next.offset]) },
              `The next one is ${next.offset}`,
            )
          : null,
      ),
    );
  }
  const [life, frame] = [h("div", {}, h("p", { class: "soft" }, "Reading")), h("div")];
  const value = valueView(message, {
    form: view.query.get("as") ?? "",
    onform: (form) => view.go({ as: form }),
    size: message.value_bytes,
    all: view.query.get("all") === "yes",
    onall: () => view.go({ all: "yes" }),
  });
  const step = (/** @type {number} */ to_, /** @type {string} */ name) =>
    to_ < 0 ? null : h("a", { class: "button", href: to(["topics", topic, "messages", partition, to_]) }, name);
  const resend = h(
    "a",
    { class: "button primary", href: to(["publish"], { from: `${topic}/${partition}/${offset}` }) },
    "Edit and resend",
  );
  const hasLife = await has("GET /topics/{topic}/partitions/{partition}/messages/{offset}/life");
  view.draw(
    {
      title: `${partition}:${offset}`,
      up,
      actions: [step(offset - 1, "Previous"), step(offset + 1, "Next"), resend],
    },
    h(
      "div",
      { class: "split" },
      h("div", {}, section("Value", null, value), section("Headers", null, headers(message))),
      h(
        "div",
        {},
        section("Message", copyAs(topic, message), about(view, topic, message)),
        hasLife ? section("Life", null, life) : null,
        frame,
      ),
    ),
  );
  if (!hasLife) return;
  try {
    const found = await get(at`/topics/${topic}/partitions/${partition}/messages/${offset}/life`, {}, view.signal);
    fill(life, lifeView(found));
    if (found.frame) fill(frame, section("Frame", null, frameView(topic, partition, found.frame)));
  } catch (error) {
    if (!view.signal.aborted)
      fill(life, h("p", { class: "soft" }, error instanceof Error ? error.message : String(error)));
  }
}

/** @param {import("../lib/view.js").View} view @param {string} topic @param {any} message */
function about(view, topic, message) {
  const key = textOf(message, "key");
  const same =
    key === null
      ? null
      : h(
          "a",
          {
            href: to(["topics", topic, "messages"], {
              where: `key == ${JSON.stringify(key)}`,
              partition: message.partition,
            }),
          },
          "Messages of this key",
        );
  return h(
    "div",
    { class: "panel" },
    facts([
      ["Partition", message.partition],
      ["Offset", message.offset],
      ["Key", h("span", { class: "mono" }, oneLine(message, "key"))],
      ["Appended", [time(message.appended_at), h("div", { class: "soft" }, ago(message.appended_at))]],
      ["Timestamp", time(message.timestamp)],
      ["Priority", message.priority],
      ["Key in this topic", same ?? undefined],
    ]),
  );
}

/** @param {any} message */
function headers(message) {
  const rows = [
    ...Object.entries(message.headers ?? {}).map(([name, value]) => ({ name, value })),
    ...Object.entries(message.headers_base64 ?? {}).map(([name, value_base64]) => ({ name, value_base64 })),
  ];
  if (!rows.length) return h("p", { class: "soft" }, "It has no headers.");
  return table({
    rows,
    key: (row) => row.name,
    columns: [
      { name: "Name", class: "mono key", cell: (row) => h("bdi", {}, plain(row.name)) },
      { name: "Value", class: "mono grow", cell: (row) => h("bdi", {}, oneLine(row)) },
    ],
  });
}
