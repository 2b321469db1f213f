/** Requests to the broker this page came from. */

/** What is before /console in the address: empty, /v1, or the path of a proxy. */
export const base = location.pathname.replace(/\/console\/?$/, "");

/** A request that was refused; the message is a sentence for people. */
export class ApiError extends Error {
  /** @param {string} message @param {string} code @param {number} status */
  constructor(message, code, status) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/**
 * A path with its values quoted: at`/topics/${name}`.
 * @param {TemplateStringsArray} parts @param {...(string | number)} values
 */
export function at(parts, ...values) {
  return parts.reduce((path, part, index) => path + encodeURIComponent(values[index - 1]) + part);
}

/**
 * @param {string} path
 * @param {Record<string, any>} [query] what is empty is left out
 */
export function withQuery(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : path;
}

/** @param {string} path @param {Record<string, any>} [query] @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function get(path, query, signal) {
  return content(await ask("GET", withQuery(path, query), undefined, signal));
}

/** @param {string} method @param {string} path @param {any} [body] @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function send(method, path, body, signal) {
  return content(await ask(method, path, body ?? (method === "POST" ? {} : undefined), signal));
}

/**
 * The objects of a response that has one per line, as they come.
 * @param {string} path @param {Record<string, any>} query @param {AbortSignal} signal
 * @returns {AsyncGenerator<any>}
 */
export async function* lines(path, query, signal) {
  const response = await ask("GET", withQuery(path, query), undefined, signal);
  if (!response.ok) await content(response);
  const reader = /** @type {any} */ (response.body).pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const found = (rest + value).split("\n");
    rest = found.pop() ?? "";
    for (const line of found) if (line.trim()) yield JSON.parse(line);
  }
}

/** @param {string} method @param {string} path @param {any} body @param {AbortSignal} [signal] */
async function ask(method, path, body, signal) {
  /** @type {Record<string, string>} */
  const headers = body === undefined ? {} : { "content-type": "application/json" };
  try {
    const text = body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body);
    return await fetch(base + path, { method, headers, body: text, signal, cache: "no-store" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError("the broker cannot be reached; it may be stopped or starting", "unreachable", 0);
  }
}

/** @param {Response} response */
async function content(response) {
  const text = await response.text();
  /** @type {any} */
  let found = null;
  try {
    found = text ? JSON.parse(text) : null;
  } catch {
    throw new ApiError(`the response (status ${response.status}) is not JSON`, "invalid_response", response.status);
  }
  if (!response.ok && response.status !== 503) throw refusal(found, response.status);
  if (response.status === 503 && found?.error) throw refusal(found, 503);
  return found;
}

/** @param {any} found @param {number} status */
const refusal = (found, status) => new ApiError(found?.error ?? `status ${status}`, found?.code ?? "", status);

/** @type {Promise<Set<string>> | null} */
let known = null;

/** Whether this broker has a route, such as "GET /traces". @param {string} route @returns {Promise<boolean>} */
export async function has(route) {
  known ??= get("/openapi.json").then(
    (document) =>
      new Set(
        Object.entries(document.paths).flatMap(([path, methods]) =>
          Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
        ),
      ),
  );
  try {
    return (await known).has(route);
  } catch (error) {
    known = null;
    throw error;
  }
}
