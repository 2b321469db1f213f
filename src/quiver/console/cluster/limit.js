/** How much the new replicas of a unit get per second, at most: asked for, and changed while they get it. */

import { send } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { bytes } from "../lib/format.js";
import { curl, quiver } from "../parts/command.js";
import { confirmChange, field, openDialog } from "../parts/dialog.js";
import { say } from "../parts/states.js";
import { look, named } from "./node-changes.js";

const PATH = "/admin/reassignment";
const MIB = 1024 ** 2;

/** @typedef {{ throttle_bytes_per_sec?: number }} Limit */

/** @param {number | null} now in bytes */
export const limitInput = (now) =>
  h("input", {
    type: "number",
    min: 0.001,
    step: "any",
    placeholder: "no limit of its own",
    value: now ? now / MIB : "",
  });

/** @param {HTMLInputElement} input @returns {Limit} */
export const limitOf = (input) =>
  input.value ? { throttle_bytes_per_sec: Math.max(1, Math.round(Number(input.value) * MIB)) } : {};

/** @param {number | undefined} limit */
export const limitFlag = (limit) => (limit ? ["--throttle", limit % MIB ? limit : `${limit / MIB}MiB`] : []);

/** Another limit for what goes on: the same reassignment again, with that one. @param {any} row */
export function askThrottle(row) {
  const limit = limitInput(row.throttle_bytes_per_sec);
  openDialog({
    title: `Limit reassignment ${row.reassignment_id}`,
    action: "Continue",
    content: field(
      "Throttle, MiB per second",
      limit,
      "What new replicas of each unit get at most. Empty: the limit of the node that leads it.",
    ),
    run: async () => {
      const options = limitOf(limit);
      setTimeout(() => confirmThrottle(row, options));
    },
  });
}

/** @param {any} row @param {Limit} options */
function confirmThrottle(row, options) {
  const { throttle_bytes_per_sec: limit } = options;
  const running = row.units.filter((/** @type {any} */ unit) => unit.state === "running");
  const units = running.map((/** @type {any} */ { unit, new_replicas }) => ({ unit, new_replicas }));
  const body = { units, ...options };
  const [first] = units;
  void confirmChange({
    title: `Limit reassignment ${row.reassignment_id}`,
    action: "Change the limit",
    command: {
      curl: curl("POST", PATH, {}, body),
      ...(units.length === 1
        ? { cli: quiver("cluster", "reassign", first.unit, first.new_replicas.join(","), ...limitFlag(limit)) }
        : {}),
    },
    preview: async () => {
      const plan = await send("POST", PATH, { ...body, dry_run: true });
      const numbers = plan.units.map((/** @type {any} */ unit) => unit.unit);
      const most = limit ? `at most ${bytes(limit)} per second and unit` : "what the limits of the leading nodes allow";
      return `New replicas of ${named(numbers)} would get ${most}.`;
    },
    run: async () => {
      await send("POST", PATH, body);
      say(`Reassignment ${row.reassignment_id} has another limit.`);
      look();
    },
  });
}
