/** What changes a topic: more partitions, compaction, purging, deleting. Each asks first. */

import { at, get, send } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { bytes, count, plural } from "../lib/format.js";
import { curl, quiver } from "../parts/command.js";
import { confirmChange, field, openDialog } from "../parts/dialog.js";
import { say } from "../parts/states.js";

/** @param {import("../lib/view.js").View} view @param {any} details */
export function addPartitions(view, details) {
  const wanted = h("input", {
    type: "number",
    min: details.partitions + 1,
    max: 10000,
    value: details.partitions + 1,
  });
  openDialog({
    title: `Add partitions to ${details.name}`,
    action: "Add",
    content: [
      field("Partitions", wanted, `There are ${details.partitions} now.`),
      h(
        "p",
        { class: "banner" },
        "Keys move: a key is hashed by the number of partitions, so new messages of a key may go to another partition than its earlier ones.",
      ),
    ],
    run: async () => {
      const done = await send("POST", at`/admin/topics/${details.name}/partitions`, { count: Number(wanted.value) });
      say(`${details.name} has ${done.new_partition_count} partitions.`);
      view.go({});
      dispatchEvent(new HashChangeEvent("hashchange"));
    },
  });
}

/** @param {string} topic */
export function compact(topic) {
  const path = at`/admin/topics/${topic}/compact`;
  void confirmChange({
    title: `Compact ${topic}`,
    action: "Compact",
    command: { curl: curl("POST", path, {}, {}), cli: quiver("topic", "compact", topic) },
    preview: async () => {
      const found = await send("POST", path, { dry_run: true });
      return `Of ${plural(found.records_before, "message")}, ${count(found.records_after)} would stay: the last of each key.`;
    },
    run: async () => {
      const done = await send("POST", path, {});
      say(`${count(done.records_before - done.records_after)} messages were removed from ${topic}.`);
    },
  });
}

/** @param {import("../lib/view.js").View} view @param {string} topic */
export function purge(view, topic) {
  const path = at`/topics/${topic}/purge`;
  void confirmChange({
    title: `Purge ${topic}`,
    action: "Remove all messages",
    danger: true,
    type: topic,
    command: { curl: curl("POST", path) },
    preview: async () => {
      const found = await get(at`/topics/${topic}`);
      return `${plural(found.total_messages, "message")} (${bytes(found.total_size_bytes)}) would be removed. Groups continue at the end.`;
    },
    run: async () => {
      await send("POST", path, {});
      say(`${topic} is empty.`);
      view.go({});
    },
  });
}

/** @param {string} topic */
export function remove(topic) {
  const path = at`/topics/${topic}`;
  void confirmChange({
    title: `Delete ${topic}`,
    action: "Delete the topic",
    danger: true,
    type: topic,
    command: { curl: curl("DELETE", path), cli: quiver("topic", "delete", topic, "--yes") },
    preview: async () => {
      const found = await get(path);
      const messages = `${plural(found.total_messages, "message")} (${bytes(found.total_size_bytes)})`;
      const partitions = plural(found.partitions, "partition");
      return `The topic with ${messages} in ${partitions} would be gone, with the positions of its groups.`;
    },
    run: async () => {
      await send("DELETE", path);
      say(`${topic} is deleted.`);
      location.hash = "#/topics";
    },
  });
}
