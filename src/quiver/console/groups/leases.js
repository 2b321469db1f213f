/** What can be done with a lease that somebody holds. */

import { send } from "../lib/api.js";
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

/** @param {any} lease */
export function leaseActions(lease) {
  const name = `${lease.partition}:${lease.offset}`;
  const ask = (/** @type {keyof typeof ACTIONS} */ action) => {
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
  };
  const chosen = h(
    "select",
    {
      class: "small",
      "aria-label": `Do something with ${name}`,
      onchange: () => {
        const action = chosen.value;
        chosen.value = "";
        if (action) ask(action);
      },
    },
    h("option", { value: "" }, "…"),
    Object.keys(ACTIONS).map((each) => h("option", {}, each)),
  );
  return chosen;
}
