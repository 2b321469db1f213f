/** Cluster: nodes, units with their replicas, reassignments. A broker that is alone is the only node. */

import { ApiError, get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { ago, count } from "../lib/format.js";
import { curl, quiver } from "../parts/command.js";
import { pill, section, tile } from "../parts/states.js";
import { summary } from "./health.js";
import { askRebalance } from "./node-changes.js";
import { nodeTable } from "./nodes.js";
import { askPartition } from "./reassign.js";
import { reassignmentTable } from "./reassignments.js";
import { unitTable } from "./units.js";

const PATIENCE_MS = 5000;
const KINDS = { ok: "good", degraded: "warn", down: "bad" };

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  view.command({ curl: curl("GET", "/cluster"), cli: quiver("cluster", "status") });
  /** @type {{ found: any[], at: number } | null} */
  let last = null;
  await view.every(3, async () => {
    try {
      last = { found: await asked(view.signal), at: Date.now() };
      draw(view, last.found, null);
    } catch (error) {
      if (!last || view.signal.aborted || !(error instanceof ApiError)) throw error;
      draw(view, last.found, `${error.message}. What is shown is from ${ago(last.at)}.`);
    }
  });
}

/** All that the page shows, or an error when the node does not respond in time. @param {AbortSignal} signal */
async function asked(signal) {
  const late = AbortSignal.timeout(PATIENCE_MS);
  const either = AbortSignal.any([signal, late]);
  try {
    return await Promise.all(
      ["/cluster", "/cluster/health", "/admin/reassignment"].map((path) => get(path, {}, either)),
    );
  } catch (error) {
    if (!late.aborted || signal.aborted) throw error;
    throw new ApiError("This node does not respond; the page of another node may", "unreachable", 0);
  }
}

/** @param {import("../lib/view.js").View} view @param {any[]} found @param {string | null} problem */
function draw(view, [cluster, health, { reassignments }], problem) {
  const kind = KINDS[/** @type {keyof typeof KINDS} */ (health.status)];
  const isShared = cluster.workers.some((/** @type {any} */ worker) => worker.node !== undefined);
  const isReplicated = cluster.workers.some((/** @type {any} */ worker) => worker.replicas);
  const { replicas: _, ...warnings } = health.warnings; // the sentence says which units these are
  view.draw(
    { title: "Cluster", about: problem ? pill("no response", "bad") : pill(health.status, kind) },
    problem ? h("div", { class: "banner bad", role: "alert" }, problem) : null,
    h("p", { role: "status" }, summary(health)),
    h("div", { class: "problems" }, banners(health.problems, "bad"), banners(warnings, "")),
    h(
      "div",
      { class: "tiles" },
      tile("Nodes", `${count(health.nodes_alive)} of ${count(health.nodes)}`, "are there"),
      tile("Units", count(health.units), `${count(health.units_behind.length)} not in sync`),
      tile("Partitions", count(health.partitions), `${count(health.partitions_offline)} take no writes`),
    ),
    section(
      "Nodes",
      isShared ? h("button", { onclick: askRebalance }, "Rebalance") : null,
      nodeTable(cluster, isShared),
    ),
    isShared ? null : h("p", { class: "soft" }, ALONE),
    section("Units", null, unitTable(cluster, health, isReplicated)),
    isReplicated || reassignments.length
      ? section("Reassignments", isReplicated ? begin() : null, reassignmentTable(reassignments))
      : null,
  );
}

const ALONE =
  "This broker is alone on its data directory: draining, rebalancing and reassigning are for clusters of several nodes.";

const begin = () => h("button", { onclick: () => void askPartition() }, "Reassign a partition");

/** @param {Record<string, string>} found @param {string} kind */
const banners = (found, kind) =>
  Object.entries(found).map(([name, why]) => h("div", { class: `banner ${kind}`, dir: "auto" }, `${name}: ${why}`));
