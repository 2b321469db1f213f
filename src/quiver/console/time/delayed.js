/** Messages of a topic that wait for their time: when they come, and cancelling them. */

import { at, get, send } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { ago, count, plural, time } from "../lib/format.js";
import { curl, quiver } from "../parts/command.js";
import { confirmChange } from "../parts/dialog.js";
import { histogram } from "./histogram.js";
import { empty, pill, say, section } from "../parts/states.js";
import { table } from "../parts/table.js";
import { topicTabs, UP } from "../topics/tabs.js";

const PAGE = 1000;

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const { topic } = view.values;
  const path = at`/topics/${topic}/delayed`;
  const skip = Number(view.query.get("skip") ?? 0);
  /** @type {Set<string>} */
  const chosen = new Set();
  /** @type {any} */
  let page = { messages: [], count: 0 };
  const [area, status, calendar] = [h("div"), h("span", { class: "soft" }), h("div")];
  const cancel = h(
    "button",
    {
      disabled: true,
      onclick: () =>
        askCancel(
          topic,
          page.messages.filter((/** @type {any} */ row) => chosen.has(id(row))),
          () => dispatchEvent(new HashChangeEvent("hashchange")),
        ),
    },
    "Cancel chosen",
  );
  const rows = table({
    rows: [],
    key: id,
    columns: columns(chosen, () => changed()),
    rowClass: (row) => (chosen.has(id(row)) ? "chosen" : ""),
  });
  const changed = () => {
    cancel.disabled = !chosen.size;
    cancel.textContent = chosen.size ? `Cancel ${chosen.size}` : "Cancel chosen";
    rows.update();
  };
  view.draw(
    { title: topic, up: UP, about: status, tabs: topicTabs(topic, "delayed"), actions: cancel },
    calendar,
    area,
  );
  view.command({
    curl: curl("GET", path, { skip: skip || "" }),
    cli: quiver("delayed", "list", topic, ...(skip ? ["--skip", skip] : [])),
  });
  await view.every(3, async () => {
    page = await get(path, { limit: PAGE, skip: skip || "" }, view.signal);
    status.textContent = `${plural(page.count, "message")} waiting`;
    rows.rows = page.messages;
    const none = empty(
      "Nothing waits",
      "A message that is published with a delay is here until its time comes.",
      h(
        "a",
        { class: "button", href: `#/publish?topic=${encodeURIComponent(topic)}&delay=5m` },
        "Publish with a delay",
      ),
    );
    fill(
      calendar,
      page.messages.length > 1
        ? section(
            "When they come",
            null,
            histogram(page.messages.map((/** @type {any} */ row) => new Date(row.deliver_at).getTime())),
          )
        : null,
    );
    fill(
      area,
      page.messages.length
        ? [
            rows,
            page.next_skip
              ? h(
                  "div",
                  { class: "more" },
                  h("button", { onclick: () => view.go({ skip: page.next_skip }) }, "Later ones"),
                )
              : null,
          ]
        : none,
    );
    rows.update();
  });
}

/** @param {any} row */
const id = (row) => `${row.partition}:${row.id}`;

/** @param {Set<string>} chosen @param {() => void} changed @returns {import("../parts/table.js").Column[]} */
const columns = (chosen, changed) => [
  {
    name: "",
    cell: (row) =>
      h("input", {
        type: "checkbox",
        "aria-label": `Choose ${id(row)}`,
        checked: chosen.has(id(row)),
        onchange: (/** @type {any} */ event) => {
          if (event.target.checked) chosen.add(id(row));
          else chosen.delete(id(row));
          changed();
        },
      }),
  },
  { name: "Id", cell: (row) => h("code", {}, id(row)) },
  { name: "Enters the topic", class: "mono", cell: (row) => time(row.deliver_at) },
  { name: "In", number: true, cell: (row) => ago(row.deliver_at).replace(/^in /, "") },
  { name: "Priority", cell: (row) => row.priority },
  { name: "State", class: "grow", cell: (row) => pill(row.state) },
];

/** @param {string} topic @param {any[]} rows @param {() => void} done */
function askCancel(topic, rows, done) {
  const ids = rows.map(id);
  void confirmChange({
    title: `Cancel delayed messages of ${topic}`,
    action: "Cancel them",
    danger: true,
    command: {
      curl: curl("DELETE", at`/topics/${topic}/delayed/${rows[0].partition}/${rows[0].id}`),
      cli: quiver("delayed", "cancel", topic, ...ids.slice(0, 20)),
    },
    preview: async () => `${plural(rows.length, "message")} would never enter the topic.`,
    run: async () => {
      let gone = 0;
      for (const row of rows)
        await send("DELETE", at`/topics/${topic}/delayed/${row.partition}/${row.id}`).catch(() => gone++);
      say(`${count(rows.length - gone)} cancelled${gone ? `, ${count(gone)} were already delivered` : ""}.`);
      done();
    },
  });
}
