/** The messages of a topic, newest first: the ends of its partitions, put together by the time of their append. */

import { at, get } from "../lib/api.js";

const FIRST_CHUNK = 8;
const AT_ONCE = 6;

/** A partition that is read backwards from `end`. */
class Backwards {
  /** @param {string} topic @param {number} partition @param {number} start @param {number} end @param {any} query */
  constructor(topic, partition, start, end, query) {
    this.path = at`/topics/${topic}/partitions/${partition}/messages`;
    this.partition = partition;
    this.start = start;
    this.end = end;
    this.query = query;
    /** Oldest first; the last one is the next. @type {any[]} */
    this.loaded = [];
  }

  get isDone() {
    return !this.loaded.length && this.end <= this.start;
  }

  /** Where the next page goes on: before everything that was taken. */
  get position() {
    return this.loaded.length ? this.loaded[this.loaded.length - 1].offset + 1 : this.end;
  }

  /** Loads until something is there or the start is reached; gaps are skipped. @param {number} chunk @param {AbortSignal} signal */
  async load(chunk, signal) {
    for (let size = chunk; !this.loaded.length && this.end > this.start; size *= 4) {
      const first = Math.max(this.start, this.end - size);
      const found = [];
      for (let next = first; next < this.end;) {
        const page = await get(this.path, { ...this.query, offset: next, limit: this.end - next }, signal);
        found.push(...page.messages.filter((/** @type {any} */ message) => message.offset < this.end));
        if (page.next_offset <= next) break;
        next = page.next_offset;
      }
      this.loaded = found;
      this.end = first;
    }
  }
}

/**
 * A page of messages.
 * @param {object} options
 * @param {string} options.topic
 * @param {Record<string, { earliest: number, latest: number }>} options.offsets of its partitions
 * @param {number | null} options.partition null: all
 * @param {Record<number, number>} options.before where to begin in each partition, instead of at its end
 * @param {number} options.limit
 * @param {Record<string, any>} options.query
 * @param {AbortSignal} options.signal
 * @returns {Promise<{ messages: any[], before: Record<number, number> | null }>} null: there is nothing older
 */
export async function newestFirst({ topic, offsets, partition, before, limit, query, signal }) {
  const parts = Object.entries(offsets)
    .filter(([number]) => partition === null || Number(number) === partition)
    .map(
      ([number, { earliest, latest }]) =>
        new Backwards(topic, Number(number), earliest, Math.min(latest, before[Number(number)] ?? latest), query),
    );
  const chunk = Math.min(limit, Math.max(FIRST_CHUNK, Math.ceil((2 * limit) / Math.max(1, parts.length))));
  await inTurns(parts, AT_ONCE, (part) => part.load(chunk, signal));
  const messages = [];
  while (messages.length < limit) {
    const next = newest(parts);
    if (!next) break;
    messages.push(next.loaded.pop());
    if (!next.loaded.length) await next.load(chunk, signal);
  }
  const isEnd = parts.every((part) => part.isDone);
  return {
    messages,
    before: isEnd ? null : Object.fromEntries(parts.map((part) => [part.partition, part.position])),
  };
}

/** The partition whose next message is the newest. @param {Backwards[]} parts */
function newest(parts) {
  /** @type {Backwards | null} */
  let found = null;
  for (const part of parts) {
    if (!part.loaded.length) continue;
    const time = part.loaded[part.loaded.length - 1].appended_at;
    if (!found || time > found.loaded[found.loaded.length - 1].appended_at) found = part;
  }
  return found;
}

/** The first offset in each partition that was appended at `time` or later. @param {string} topic @param {number[]} partitions @param {string} time @param {AbortSignal} signal */
export async function offsetsAt(topic, partitions, time, signal) {
  /** @type {Record<number, number>} */
  const found = {};
  await inTurns(partitions, AT_ONCE, async (partition) => {
    const page = await get(
      at`/topics/${topic}/partitions/${partition}/messages`,
      { from_time: time, limit: 1, max_value_bytes: 1 },
      signal,
    );
    if (page.messages.length) found[partition] = page.messages[0].offset;
  });
  return found;
}

/** @template T @param {T[]} items @param {number} width @param {(item: T) => Promise<void>} work */
async function inTurns(items, width, work) {
  const queue = [...items];
  const worker = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, worker));
}
