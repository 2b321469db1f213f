/** Schedules: messages at recurring times. */

import { at, get, send } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { ago, count, plural, time } from "../lib/format.js";
import { to } from "../lib/routes.js";
import { curl, quiver } from "../parts/command.js";
import { inWords } from "./cron.js";
import { confirmChange, openDialog } from "../parts/dialog.js";
import { empty, pill, say } from "../parts/states.js";
import { table } from "../parts/table.js";
import { edit } from "./schedule-form.js";

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const reload = () => dispatchEvent(new HashChangeEvent("hashchange"));
  const add = () => edit(null, reload);
  const draw = async () => {
    const { schedules } = await get("/schedules", {}, view.signal);
    view.draw(
      {
        title: "Schedules",
        about: h("span", { class: "soft" }, plural(schedules.length, "schedule")),
        actions: h("button", { class: "primary", onclick: add }, "Add schedule"),
      },
      schedules.length
        ? table({ rows: schedules, key: (row) => row.name, columns: columns(reload) })
        : empty(
            "No schedules yet",
            "A schedule sends a message at recurring times, exactly once each.",
            h("button", { onclick: add }, "Add a schedule"),
          ),
    );
  };
  view.command({ curl: curl("GET", "/schedules"), cli: quiver("schedule", "list") });
  await view.every(3, draw);
}

/** @param {() => void} reload @returns {import("../parts/table.js").Column[]} */
const columns = (reload) => [
  {
    name: "Name",
    class: "key",
    cell: (row) =>
      h(
        "a",
        {
          class: "row-link",
          href: to(["topics", row.topic, "messages"]),
          title: `Messages of ${row.topic}`,
          dir: "auto",
        },
        row.name,
      ),
  },
  {
    name: "When",
    class: "grow",
    cell: (row) => [
      h("code", {}, row.cron),
      " ",
      h("span", { class: "soft" }, `${inWords(row.cron)} · ${row.timezone}`),
    ],
  },
  { name: "Topic", class: "key wide", cell: (row) => row.topic },
  {
    name: "Next run",
    cell: (row) => (row.paused ? pill("paused", "warn") : h("span", { title: row.next_run }, ago(row.next_run))),
  },
  {
    name: "Last run",
    class: "mono wide",
    cell: (row) => (row.error ? pill("failed", "bad", row.error) : time(row.last_run).replace(/\.\d+$/, "")),
  },
  { name: "Runs", number: true, cell: (row) => count(row.fired_count) },
  {
    name: "",
    cell: (row) =>
      h(
        "span",
        { class: "row nowrap" },
        action("Times", () => void times(row)),
        action("Run", () => run(row.name, reload)),
        action(row.paused ? "Resume" : "Pause", () => pause(row, reload)),
        action("Edit", () => edit(row, reload)),
        action("Remove", () => remove(row.name, reload)),
      ),
  },
];

/** The next five runs, and where to find the past ones. @param {any} row */
async function times(row) {
  const found = await get(at`/schedules/${row.name}`);
  const where = `headers["schedule.name"] == ${JSON.stringify(row.name)}`;
  openDialog({
    title: `Times of ${row.name}`,
    cancel: "Close",
    content: [
      h("p", {}, h("code", {}, row.cron), ` ${inWords(row.cron)}, ${row.timezone}`),
      found.next_runs.length
        ? h(
            "ol",
            { class: "plain" },
            found.next_runs.map((/** @type {string} */ each) =>
              h(
                "li",
                {},
                h("span", { class: "mono" }, time(each).replace(/\.000$/, "")),
                h("span", { class: "soft" }, ` ${ago(each)}`),
              ),
            ),
          )
        : h("p", { class: "soft" }, "It is paused: there is no next run."),
      h(
        "a",
        {
          class: "button",
          href: to(["topics", row.topic, "messages"], { where }),
          onclick: (/** @type {any} */ event) => event.target.closest("dialog").close(),
        },
        plural(row.fired_count, "past run"),
      ),
    ],
  });
}

/** @param {string} name @param {() => void} act */
const action = (name, act) => h("button", { class: "quiet", onclick: act }, name);

/** @param {string} name @param {() => void} reload */
function run(name, reload) {
  const path = at`/schedules/${name}/run`;
  void confirmChange({
    title: `Run ${name} now`,
    action: "Run",
    command: { curl: curl("POST", path), cli: quiver("schedule", "run", name) },
    preview: async () => "Its message would be sent once, now; its times stay as they are.",
    run: async () => {
      await send("POST", path);
      say(`${name} has run.`);
      reload();
    },
  });
}

/** @param {any} row @param {() => void} reload */
function pause(row, reload) {
  const path = at`/schedules/${row.name}`;
  const body = { paused: !row.paused };
  void confirmChange({
    title: `${row.paused ? "Resume" : "Pause"} ${row.name}`,
    action: row.paused ? "Resume" : "Pause",
    command: {
      curl: curl("PATCH", path, {}, body),
      cli: quiver("schedule", row.paused ? "resume" : "pause", row.name),
    },
    preview: async () =>
      row.paused
        ? "It would run at its next time."
        : `It would not run at ${time(row.next_run)} and later, until it is resumed.`,
    run: async () => {
      await send("PATCH", path, body);
      reload();
    },
  });
}

/** @param {string} name @param {() => void} reload */
function remove(name, reload) {
  const path = at`/schedules/${name}`;
  void confirmChange({
    title: `Remove ${name}`,
    action: "Remove",
    danger: true,
    command: { curl: curl("DELETE", path), cli: quiver("schedule", "remove", name, "--yes") },
    preview: async () => "It would never run again. Messages it has sent stay.",
    run: async () => {
      await send("DELETE", path);
      say(`${name} is removed.`);
      reload();
    },
  });
}
