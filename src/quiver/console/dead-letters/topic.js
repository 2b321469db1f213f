/** The dead letters of a topic: grouped by error, chosen, sent back or purged. */

import { ApiError, at, get, has } from "../lib/api.js";
import { h, show as fill } from "../lib/dom.js";
import { plural } from "../lib/format.js";
import { curl, quiver } from "../parts/command.js";
import { jobList } from "./jobs.js";
import { askPurge, askRedrive } from "./redrive.js";
import { empty, section } from "../parts/states.js";
import { topicTabs, UP } from "../topics/tabs.js";
import { drawErrors, letterTable } from "./tables.js";

const PAGE = 200;
const REASONS = ["max_attempts", "rejected", "expired"];

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  const { topic } = view.values;
  const filter = Object.fromEntries(
    ["group", "reason", "contains"].map((name) => [name, view.query.get(name) ?? ""]).filter(([, value]) => value),
  );
  const path = at`/topics/${topic}/dlq`;
  const [canGroup, hasJobs] = await Promise.all([has("GET /topics/{topic}/dlq/errors"), has("GET /jobs")]);
  /** @type {Set<string>} */
  const chosen = new Set();
  const [list, errors, jobs, status] = [h("div"), h("div"), h("div"), h("span", { class: "soft" })];
  const what = () => (chosen.size ? { ids: [...chosen] } : filter);
  const words = () =>
    chosen.size
      ? plural(chosen.size, "chosen dead letter")
      : Object.keys(filter).length
        ? "those that match"
        : "all dead letters";
  const reload = () => dispatchEvent(new HashChangeEvent("hashchange"));
  const redrive = h(
    "button",
    {
      class: "primary",
      onclick: () => askRedrive({ topic, what: what(), words: words(), asJob: hasJobs, done: reload }),
    },
    "Redrive all",
  );
  const purge = h(
    "button",
    { onclick: () => askPurge({ topic, what: what(), words: words(), done: reload }) },
    "Purge all",
  );
  const label = () => {
    const name = chosen.size ? `${chosen.size} chosen` : Object.keys(filter).length ? "matching" : "all";
    redrive.textContent = `Redrive ${name}`;
    purge.textContent = `Purge ${name}`;
  };
  label();
  view.draw(
    { title: topic, up: UP, about: status, tabs: topicTabs(topic, "dead-letters"), actions: [purge, redrive] },
    controls(view, filter),
    jobs,
    canGroup ? section("By error", null, errors) : null,
    section("Dead letters", null, list),
  );
  view.command({
    curl: curl("GET", path, { ...filter, order: "newest" }),
    cli: quiver(
      "dlq",
      "list",
      topic,
      "--newest",
      ...Object.entries(filter).flatMap(([name, value]) => [`--${name}`, value]),
    ),
  });
  const page = await letters(view, path, filter);
  status.textContent = page ? plural(page.total, "dead letter") : "";
  if (!page?.messages.length)
    fill(
      list,
      empty(
        page?.total ? "Nothing matches" : "No dead letters",
        page?.total
          ? "No dead letter has all of this."
          : "Messages that a queue group of this topic gives up come here.",
      ),
    );
  else
    fill(
      list,
      letterTable(page, chosen, label),
      page.next
        ? h("div", { class: "more" }, h("button", { onclick: () => view.go({ after: page.next }) }, "Older"))
        : null,
    );
  if (canGroup && page) await drawErrors(view, path, errors);
  if (hasJobs) await view.every(2, () => jobList(view, topic, jobs));
}

/** @param {import("../lib/view.js").View} view @param {string} path @param {any} filter */
async function letters(view, path, filter) {
  try {
    return await get(
      path,
      { ...filter, order: "newest", limit: PAGE, after: view.query.get("after") ?? "" },
      view.signal,
    );
  } catch (error) {
    if (error instanceof ApiError && error.code === "topic_not_found" && error.message.includes(".dlq")) return null;
    throw error;
  }
}

/** @param {import("../lib/view.js").View} view @param {any} filter */
function controls(view, filter) {
  const contains = h("input", {
    type: "search",
    class: "grow",
    placeholder: "Text in the value or the last error",
    "aria-label": "Contains",
    "data-search": true,
    value: filter.contains ?? "",
  });
  const group = h("input", { placeholder: "Group", "aria-label": "Group", value: filter.group ?? "" });
  const reason = h(
    "select",
    { "aria-label": "Reason" },
    h("option", { value: "" }, "Any reason"),
    REASONS.map((each) => h("option", {}, each)),
  );
  reason.value = filter.reason ?? "";
  const submit = (/** @type {Event} */ event) => (
    event.preventDefault(),
    view.go({ contains: contains.value, group: group.value, reason: reason.value, after: "" })
  );
  return h("form", { class: "bar", onsubmit: submit }, contains, group, reason, h("button", {}, "Filter"));
}
