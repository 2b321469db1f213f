/** What can be done with a lease that somebody holds. */

import { at, get, send } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { curl } from "../parts/command.js";
import { confirmChange } from "../parts/dialog.js";
import { say } from "../parts/states.js";

const ACTIONS = {
  Release: [
    "/messages/nack",
    { counted: false },
    "The consumer would lose the message, and it would be available again at once.",
  ],
  Ack: ["/messages/ack", {}, "The message would count as done for this group."],
  Reject: ["/messages/reject", { reason: "rejected in the console" }, "The message would become a dead letter."],
  Extend: ["/messages/visibility", { timeout: "10m" }, "The lease would end ten minutes from now."],
};

/**
 * The same for the message that a key waits for, if somebody holds it.
 * @param {string} topic @param {string} group @param {{ partition: number, offset: number }} blocker
 */
export function blockerActions(topic, group, blocker) {
  const release = async () => {
    const cursor = `${blocker.partition}:${blocker.offset}`;
    const { leases } = await get(at`/topics/${topic}/queues/${group}/leases`, { cursor, limit: 1 });
    const held = leases.find(
      (/** @type {any} */ lease) => lease.partition === blocker.partition && lease.offset === blocker.offset,
    );
    if (held) ask(held, "Release");
    else say("Nobody holds the message: it is delivered again by itself when its retry is due.");
  };
  return h("button", { class: "quiet", onclick: () => void release() }, "Release");
}

/** @param {any} lease @param {keyof typeof ACTIONS} action */
function ask(lease, action) {
  const name = `${lease.partition}:${lease.offset}`;
  const [path, more, text] = ACTIONS[action];
  const body = { receipt_handle: lease.receipt_handle, ...Object(more) };
  void confirmChange({
    title: `${action} ${name}`,
    action,
    danger: action === "Reject",
    command: { curl: curl("POST", String(path), {}, body) },
    preview: async () => String(text),
    run: async () => {
      await send("POST", String(path), body);
      say(`${name}: done.`);
    },
  });
}

/** @param {any} lease */
export function leaseActions(lease) {
  const name = `${lease.partition}:${lease.offset}`;
  const chosen = h(
    "select",
    {
      class: "small",
      "aria-label": `Do something with ${name}`,
      onchange: () => {
        const action = chosen.value;
        chosen.value = "";
        if (action) ask(lease, action);
      },
    },
    h("option", { value: "" }, "…"),
    Object.keys(ACTIONS).map((each) => h("option", {}, each)),
  );
  return chosen;
}
