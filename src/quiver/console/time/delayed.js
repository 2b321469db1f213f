/** Messages of a topic that wait for their time: when they come, and delivering them now, moving and cancelling them. */

import { at, get } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { ago, plural, time } from "../lib/format.js";
import { curl, quiver } from "../parts/command.js";
import { askCancel, askMove, askNow, delayedId as id } from "./delayed-changes.js";
import { histogram } from "./histogram.js";
import { empty, pill, section } from "../parts/states.js";
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
  const reload = () => dispatchEvent(new HashChangeEvent("hashchange"));
  const those = () => page.messages.filter((/** @type {any} */ row) => chosen.has(id(row)));
  const act = (/** @type {string} */ name, /** @type {typeof askNow} */ ask) =>
    h("button", { disabled: true, onclick: () => ask(topic, those(), reload) }, name);
  const actions = [act("Deliver now", askNow), act("Move", askMove), act("Cancel", askCancel)];
  const number = h("span", { class: "soft" });
  const all = h(
    "button",
    {
      class: "quiet",
      onclick: () => {
        const isAll = chosen.size === page.messages.length;
        chosen.clear();
        if (!isAll) for (const row of page.messages) chosen.add(id(row));
        changed();
      },
    },
    "Choose all",
  );
  const rows = table({
    rows: [],
    key: id,
    columns: columns(chosen, () => changed()),
    rowClass: (row) => (chosen.has(id(row)) ? "chosen" : ""),
  });
  const changed = () => {
    for (const button of actions) button.disabled = !chosen.size;
    number.textContent = chosen.size ? `${plural(chosen.size, "message")} chosen` : "";
    all.textContent = chosen.size && chosen.size === page.messages.length ? "Choose none" : "Choose all";
    rows.update();
  };
  view.draw(
    { title: topic, up: UP, about: status, tabs: topicTabs(topic, "delayed"), actions: [number, all, actions] },
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
