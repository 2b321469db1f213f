/** One group: the page depends on its kind. */

import { at, get, send } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { plural } from "../lib/format.js";
import { curl, quiver } from "../parts/command.js";
import { confirmChange } from "../parts/dialog.js";
import { queueGroup } from "./queue.js";
import { say } from "../parts/states.js";
import { streamGroup } from "./stream.js";

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const { group } = view.values;
  const details = await get(at`/groups/${group}`, {}, view.signal);
  view.command({ curl: curl("GET", at`/groups/${group}`), cli: quiver("group", "describe", group) });
  const remove = h("button", { onclick: () => removeGroup(group) }, "Delete");
  await (details.kind === "queue" ? queueGroup(view, details, remove) : streamGroup(view, details, remove));
}

/** @param {string} group */
function removeGroup(group) {
  const path = at`/groups/${group}`;
  void confirmChange({
    title: `Delete ${group}`,
    action: "Delete the group",
    danger: true,
    type: group,
    command: { curl: curl("DELETE", path), cli: quiver("group", "delete", group, "--yes") },
    preview: async () => {
      const found = await get(path);
      if (found.members.length)
        throw new Error(`The group has ${plural(found.members.length, "member")}: stop them first.`);
      return `Its positions in ${plural(found.topics.length, "topic")} would be forgotten; a group of this name would start again.`;
    },
    run: async () => {
      await send("DELETE", path);
      say(`${group} is deleted.`);
      location.hash = "#/groups";
    },
  });
}
