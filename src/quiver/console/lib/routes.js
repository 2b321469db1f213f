/** Addresses of pages: everything a page shows is in its address, after the #. */

/** Path pattern -> module of the page. Parts with a colon are values. */
export const PAGES = {
  "": "node/overview",
  topics: "topics/topics",
  "topics/:topic": "topics/topic",
  "topics/:topic/settings": "topics/settings",
  "topics/:topic/messages": "messages/messages",
  "topics/:topic/messages/:partition/:offset": "messages/message",
  "topics/:topic/dead-letters": "dead-letters/topic",
  "topics/:topic/delayed": "time/delayed",
  publish: "messages/publish",
  groups: "groups/groups",
  "groups/:group": "groups/group",
  "dead-letters": "dead-letters/all",
  delayed: "time/all-delayed",
  schedules: "time/schedules",
  transactions: "time/transactions",
  traces: "traces/traces",
  "traces/:id": "traces/trace",
  cluster: "cluster/cluster",
  system: "node/system",
};

/**
 * @typedef {object} Place
 * @property {string} page
 * @property {string} path without the query
 * @property {Record<string, string>} values
 * @property {URLSearchParams} query
 */

/** @param {string} hash @returns {Place | null} null: there is no such page */
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#?\/?/, "").split(/\?(.*)/s, 2);
  const parts = path.split("/").filter(Boolean);
  for (const [pattern, page] of Object.entries(PAGES)) {
    const names = pattern ? pattern.split("/") : [];
    if (names.length !== parts.length) continue;
    if (!names.every((name, index) => name.startsWith(":") || name === parts[index])) continue;
    const values = Object.fromEntries(
      names.flatMap((name, index) => (name.startsWith(":") ? [[name.slice(1), unquoted(parts[index])]] : [])),
    );
    return { page, path: parts.join("/"), values, query: new URLSearchParams(query) };
  }
  return null;
}

/** @param {string} text */
function unquoted(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * The address of a page: to(["topics", name], { sort: "size" }).
 * @param {(string | number)[]} parts
 * @param {Record<string, any>} [query] what is empty is left out
 */
export function to(parts, query = {}) {
  const path = parts.map((part) => encodeURIComponent(part)).join("/");
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}
