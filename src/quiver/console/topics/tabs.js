/** The pages of one topic, as tabs. */

import { h } from "../lib/dom.js";
import { to } from "../lib/routes.js";

const TABS = [
  ["Partitions", ""],
  ["Messages", "messages"],
  ["Dead letters", "dead-letters"],
  ["Delayed", "delayed"],
  ["Settings", "settings"],
];

/** @param {string} topic @param {string} here */
export const topicTabs = (topic, here) =>
  h(
    "div",
    { class: "tabs" },
    TABS.map(([name, part]) =>
      h(
        "a",
        {
          href: to(part ? ["topics", topic, part] : ["topics", topic]),
          "aria-current": part === here ? "page" : undefined,
        },
        name,
      ),
    ),
  );

/** @type {[string, string][]} */
export const UP = [["Topics", "#/topics"]];
