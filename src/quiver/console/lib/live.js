/**
 * The overview, once a second, over one stream for all tabs.
 *
 * Every visible tab asks for one lock. The tab that holds it reads the stream and tells the others on a channel; when
 * it is hidden, closed or dies, the lock goes to the next. A page that is not in a secure context has no locks, and
 * reads a stream of its own. While no tab is visible, nobody reads.
 */

import { ApiError, has, lines } from "./api.js";

const PATH = "/overview/stream";
const RETRY_MS = 2000;
const HISTORY_SECONDS = 15 * 60;

/** @typedef {{ overview: any, history: Record<string, number[]>, problem: string }} Live */

/** @type {Live} */
const state = { overview: null, history: { seconds: [] }, problem: "" };
/** @type {Set<(live: Live) => void>} */
const watchers = new Set();
const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("quiver-live") : null;
/** @type {AbortController | null} */
let running = null;
let reads = false;

/**
 * Calls `watcher` now, if something is known, and after every change.
 * @param {(live: Live) => void} watcher @param {AbortSignal} signal
 */
export function watch(watcher, signal) {
  watchers.add(watcher);
  signal.addEventListener("abort", () => watchers.delete(watcher));
  if (state.overview || state.problem) watcher(state);
}

/** Starts with the page; from then on it follows whether the page is visible. */
export function start() {
  channel?.addEventListener("message", ({ data }) => {
    if (data.ask && reads && state.overview) channel.postMessage({ snapshot: state });
    if (reads) return;
    if (data.snapshot) Object.assign(state, data.snapshot);
    if (data.line) take(data.line);
    if (data.problem !== undefined) state.problem = data.problem;
    tell();
  });
  document.addEventListener("visibilitychange", follow);
  follow();
}

function follow() {
  if (document.visibilityState === "hidden") {
    running?.abort();
    running = null;
  } else if (!running) {
    running = new AbortController();
    void lead(running.signal);
    if (channel) channel.postMessage({ ask: true });
  }
}

/** @param {AbortSignal} signal */
async function lead(signal) {
  if (!navigator.locks || !channel) return read(signal);
  try {
    await navigator.locks.request("quiver-live", { signal }, () => read(signal));
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** @param {AbortSignal} signal */
async function read(signal) {
  reads = true;
  while (!signal.aborted) {
    try {
      if (!(await has(`GET ${PATH}`))) throw new ApiError("this broker sends no overview", "absent", 404);
      for await (const line of lines(PATH, {}, signal)) {
        state.problem = "";
        channel?.postMessage({ line });
        take(line);
        tell();
      }
    } catch (error) {
      if (signal.aborted) break;
      state.problem = error instanceof Error ? error.message : String(error);
      channel?.postMessage({ problem: state.problem });
      tell();
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
  reads = false;
}

/** The first line of a stream has the history; later ones are one point each. @param {any} line */
function take(line) {
  if (line.history) {
    state.history = line.history;
  } else {
    const { history } = state;
    const point = { ...line.rates, ...line, seconds: new Date(line.time).getTime() / 1000 };
    for (const [name, values] of Object.entries(history)) {
      values.push(typeof point[name] === "number" ? point[name] : 0);
      if (values.length > HISTORY_SECONDS) values.shift();
    }
  }
  state.overview = { ...line, history: undefined };
}

function tell() {
  for (const watcher of watchers) watcher(state);
}
