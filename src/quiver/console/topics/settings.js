/** The settings of a topic: changed in a form, sent after a look at the difference. */

import { at, get, send } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { curl, quiver } from "../parts/command.js";
import { confirmChange } from "../parts/dialog.js";
import { say } from "../parts/states.js";
import { SETTINGS, settingInput, settingText, settingValue, withUnits } from "./form.js";
import { topicTabs, UP } from "./tabs.js";

const QUEUE = ["max_attempts", "backoff", "backoff_max", "visibility", "max_unacked", "starvation", "count_expired"];

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const { topic } = view.values;
  const path = at`/topics/${topic}`;
  const config = withUnits((await get(path, {}, view.signal)).config);
  const inputs = new Map(
    Object.keys(SETTINGS)
      .filter((name) => name in config)
      .map((name) => [name, settingInput(name, config[name])]),
  );
  const row = (/** @type {string} */ name) =>
    h(
      "label",
      { class: "setting" },
      h("code", {}, name),
      inputs.get(name),
      h("small", {}, SETTINGS[/** @type {keyof typeof SETTINGS} */ (name)][1]),
    );
  const changes = () =>
    Object.fromEntries(
      [...inputs]
        .filter(([name, input]) => input.value !== settingText(config[name]))
        .map(([name, input]) => [name, settingValue(name, input.value.trim())]),
    );
  const save = h("button", { class: "primary", disabled: true, onclick: () => ask() }, "Review changes");
  const form = h("form", {
    class: "settings",
    onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), save.disabled || ask()),
    oninput: () => update(),
  });
  const update = () => {
    const found = changes();
    const number = Object.keys(found).length;
    save.disabled = number === 0;
    save.textContent = number ? `Review ${number} ${number === 1 ? "change" : "changes"}` : "Review changes";
    const flags = Object.entries(found).flatMap(([name, value]) => [
      `--${name.replaceAll("_", "-")}`,
      settingText(value),
    ]);
    view.command(
      number
        ? { curl: curl("PATCH", path, {}, found), cli: quiver("topic", "alter", topic, ...flags) }
        : { curl: curl("GET", path), cli: quiver("topic", "describe", topic) },
    );
  };
  const ask = () => {
    const found = changes();
    const flags = Object.entries(found).flatMap(([name, value]) => [
      `--${name.replaceAll("_", "-")}`,
      settingText(value),
    ]);
    void confirmChange({
      title: `Change ${topic}`,
      action: "Change",
      command: { curl: curl("PATCH", path, {}, found), cli: quiver("topic", "alter", topic, ...flags) },
      preview: async () => [
        h(
          "div",
          { class: "diff" },
          Object.entries(found).map(([name, value]) => [
            h("code", {}, name),
            h("del", {}, settingText(config[name])),
            "→",
            h("ins", {}, settingText(value)),
          ]),
        ),
      ],
      run: async () => {
        await send("PATCH", path, found);
        say(`${topic} is changed.`);
        dispatchEvent(new HashChangeEvent("hashchange"));
      },
    });
  };
  const names = [...inputs.keys()];
  form.append(
    h("h2", {}, "Storage"),
    ...names.filter((name) => !QUEUE.includes(name)).map(row),
    h("h2", {}, "Queue groups, unless a group says otherwise"),
    ...names.filter((name) => QUEUE.includes(name)).map(row),
  );
  view.draw({ title: topic, up: UP, actions: save, tabs: topicTabs(topic, "settings") }, form);
  update();
}
