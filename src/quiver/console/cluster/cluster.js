/** Cluster: nodes, units with their replicas, reassignments. A broker that is alone is the only node. */

import { get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { count } from "../lib/format.js";
import { curl, quiver } from "../parts/command.js";
import { pill, section, tile } from "../parts/states.js";
import { summary } from "./health.js";
import { askRebalance } from "./node-changes.js";
import { nodeTable } from "./nodes.js";
import { askPartition } from "./reassign.js";
import { reassignmentTable } from "./reassignments.js";
import { unitTable } from "./units.js";

const KINDS = { ok: "good", degraded: "warn", down: "bad" };

/** @param {import("../lib/view.js").View} view */
export async function show(view) {
  view.command({ curl: curl("GET", "/cluster"), cli: quiver("cluster", "status") });
  await view.every(3, async () => {
    const [cluster, health, found] = await Promise.all([
      get("/cluster", {}, view.signal),
      get("/cluster/health", {}, view.signal),
      get("/admin/reassignment", {}, view.signal),
    ]);
    const kind = KINDS[/** @type {keyof typeof KINDS} */ (health.status)];
    const isShared = cluster.workers.some((/** @type {any} */ worker) => worker.node !== undefined);
    const isReplicated = cluster.workers.some((/** @type {any} */ worker) => worker.replicas);
    const { reassignments } = found;
    const { replicas: _, ...warnings } = health.warnings; // the sentence says which units these are
    view.draw(
      { title: "Cluster", about: pill(health.status, kind) },
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
  });
}

const ALONE =
  "This broker is alone on its data directory, so there is nothing to drain, remove or reassign: nodes of a cluster share what there is to do.";

const begin = () => h("button", { onclick: () => void askPartition() }, "Reassign a partition");

/** @param {Record<string, string>} found @param {string} kind */
const banners = (found, kind) =>
  Object.entries(found).map(([name, why]) => h("div", { class: `banner ${kind}`, dir: "auto" }, `${name}: ${why}`));
