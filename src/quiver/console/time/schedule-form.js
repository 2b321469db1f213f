/** Adding a schedule and changing one. */

import { at, send } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { field, openDialog } from "../parts/dialog.js";
import { say } from "../parts/states.js";
import { inWords } from "./cron.js";

/** @param {any} row null: a new one @param {() => void} reload */
export function edit(row, reload) {
  const input = (/** @type {string} */ value, /** @type {string} */ hint) =>
    h("input", { value, placeholder: hint, autocomplete: "off", spellcheck: "false" });
  const [name, cron, zone, topic, key] = [
    input(row?.name ?? "", "nightly"),
    input(row?.cron ?? "", "*/5 * * * *"),
    input(row?.timezone ?? "UTC", "UTC"),
    input(row?.topic ?? "", "orders"),
    input(row?.key ?? "", "none"),
  ];
  name.disabled = row !== null;
  const value = h("textarea", { rows: 5, spellcheck: "false" });
  value.value = row?.value ?? "";
  const words = h(
    "small",
    {},
    cron.value ? inWords(cron.value) : "Minute, hour, day, month, weekday; or @every 30s.",
  );
  cron.addEventListener("input", () => (words.textContent = inWords(cron.value)));
  openDialog({
    title: row ? `Edit ${row.name}` : "Add a schedule",
    action: row ? "Change" : "Add",
    content: [
      h(
        "div",
        { class: "fields" },
        field("Name", name),
        h("label", { class: "field" }, h("span", {}, "When"), cron, words),
        field("Time zone", zone),
        field("Topic", topic),
        field("Key", key),
      ),
      field("Value", value),
    ],
    run: async () => {
      const body = {
        cron: cron.value.trim(),
        timezone: zone.value.trim(),
        topic: topic.value.trim(),
        value: value.value,
        ...(key.value ? { key: key.value } : {}),
        ...(row ? {} : name.value ? { name: name.value.trim() } : {}),
      };
      await send(row ? "PATCH" : "POST", row ? at`/schedules/${row.name}` : "/schedules", body);
      say(row ? `${row.name} is changed.` : "The schedule is added.");
      reload();
    },
  });
}
