/** Messages as a Parquet file: one row group, plain pages, not compressed. */

const [INT32, INT64, BYTES] = [1, 2, 6];
const [UTF8, TIMESTAMP_MILLIS] = [0, 9];
const [REQUIRED, OPTIONAL] = [0, 1];
const [PLAIN, RLE] = [0, 3];

/** @typedef {{ name: string, type: number, optional?: boolean, converted?: number, cell: (message: any) => any }} Column */

/** @type {Column[]} */
const COLUMNS = [
  { name: "partition", type: INT32, cell: (message) => message.partition },
  { name: "offset", type: INT64, cell: (message) => message.offset },
  { name: "timestamp", type: INT64, converted: TIMESTAMP_MILLIS, cell: (message) => Date.parse(message.timestamp) },
  {
    name: "appended_at",
    type: INT64,
    converted: TIMESTAMP_MILLIS,
    cell: (message) => Date.parse(message.appended_at),
  },
  { name: "priority", type: BYTES, converted: UTF8, cell: (message) => utf8(message.priority ?? "normal") },
  { name: "key", type: BYTES, optional: true, cell: (message) => data(message, "key") },
  { name: "value", type: BYTES, optional: true, cell: (message) => data(message, "value") },
  { name: "headers", type: BYTES, optional: true, converted: UTF8, cell: (message) => json(message.headers) },
  {
    name: "headers_base64",
    type: BYTES,
    optional: true,
    converted: UTF8,
    cell: (message) => json(message.headers_base64),
  },
];

/** @param {any[]} messages @returns {Uint8Array[]} the parts of the file, in their order */
export function parquet(messages) {
  const parts = [utf8("PAR1")];
  let place = 4;
  const chunks = COLUMNS.map((column) => {
    const page = pageOf(column, messages);
    const header = new Thrift().i32(1, 0).i32(2, page.length).i32(3, page.length);
    header.struct(5, (inner) => inner.i32(1, messages.length).i32(2, PLAIN).i32(3, RLE).i32(4, RLE));
    const written = header.end();
    parts.push(written, page);
    const chunk = { column, offset: place, size: written.length + page.length };
    place += chunk.size;
    return chunk;
  });
  const footer = footerOf(chunks, messages.length);
  return [...parts, footer, numbers([footer.length], INT32), utf8("PAR1")];
}

/** @param {{ column: Column, offset: number, size: number }[]} chunks @param {number} rows */
function footerOf(chunks, rows) {
  const file = new Thrift().i32(1, 1);
  file.list(2, [null, ...COLUMNS], (inner, column) => {
    if (column === null) return inner.text(4, "messages").i32(5, COLUMNS.length);
    inner.i32(1, column.type).i32(3, column.optional ? OPTIONAL : REQUIRED).text(4, column.name);
    return column.converted === undefined ? inner : inner.i32(6, column.converted);
  });
  file.i64(3, rows).list(4, [chunks], (group) =>
    group
      .list(1, chunks, (inner, { column, offset, size }) =>
        inner.i64(2, offset).struct(3, (about) =>
          about
            .i32(1, column.type)
            .numbers(2, [PLAIN, RLE])
            .texts(3, [column.name])
            .i32(4, 0)
            .i64(5, rows)
            .i64(6, size)
            .i64(7, size)
            .i64(9, offset),
        ),
      )
      .i64(
        2,
        chunks.reduce((sum, { size }) => sum + size, 0),
      )
      .i64(3, rows),
  );
  return file.text(6, "quiver console").end();
}

/** @param {Column} column @param {any[]} messages */
function pageOf(column, messages) {
  const cells = messages.map(column.cell);
  const present = cells.filter((cell) => cell !== null);
  const content = column.type === BYTES ? present.map(sized) : [numbers(present, column.type)];
  return joined(column.optional ? [presence(cells), ...content] : content);
}

/** Which cells are not null: their number of bytes, then a bit for each. @param {any[]} cells */
function presence(cells) {
  const bits = new Uint8Array(Math.ceil(cells.length / 8));
  cells.forEach((cell, index) => {
    if (cell !== null) bits[index >> 3] |= 1 << (index & 7);
  });
  const header = varint(BigInt(bits.length * 2 + 1));
  return joined([numbers([header.length + bits.length], INT32), Uint8Array.from(header), bits]);
}

/** @param {number[]} values @param {number} type */
function numbers(values, type) {
  const width = type === INT32 ? 4 : 8;
  const view = new DataView(new ArrayBuffer(values.length * width));
  values.forEach((value, index) =>
    type === INT32 ? view.setInt32(index * 4, value, true) : view.setBigInt64(index * 8, BigInt(value), true),
  );
  return new Uint8Array(view.buffer);
}

const sized = (/** @type {Uint8Array} */ bytes) => joined([numbers([bytes.length], INT32), bytes]);
const utf8 = (/** @type {string} */ text) => new TextEncoder().encode(text);
const json = (/** @type {any} */ found) => (found && Object.keys(found).length ? utf8(JSON.stringify(found)) : null);

/** @param {any} message @param {string} name */
function data(message, name) {
  const base64 = message[`${name}_base64`];
  if (typeof base64 === "string") return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  return typeof message[name] === "string" ? utf8(message[name]) : null;
}

/** @param {Uint8Array[]} parts */
function joined(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let place = 0;
  for (const part of parts) {
    whole.set(part, place);
    place += part.length;
  }
  return whole;
}

/** @param {bigint} value @returns {number[]} */
function varint(value) {
  const bytes = [];
  for (; value > 127n; value >>= 7n) bytes.push(Number(value & 127n) | 128);
  return [...bytes, Number(value)];
}

/** A struct in Thrift's compact protocol; fields are given in the order of their numbers. */
class Thrift {
  /** @type {number[]} */
  #bytes = [];
  #last = 0;

  /** @param {number} id @param {number} type @param {number[]} content */
  #field(id, type, content) {
    this.#bytes.push(((id - this.#last) << 4) | type);
    for (const byte of content) this.#bytes.push(byte);
    this.#last = id;
    return this;
  }
  i32 = (/** @type {number} */ id, /** @type {number} */ value) => this.#field(id, 5, varint(BigInt(value * 2)));
  i64 = (/** @type {number} */ id, /** @type {number} */ value) => this.#field(id, 6, varint(BigInt(value) * 2n));
  text = (/** @type {number} */ id, /** @type {string} */ text) => this.#field(id, 8, textBytes(text));
  struct = (/** @type {number} */ id, /** @type {(inner: Thrift) => Thrift} */ fill) =>
    this.#field(id, 12, [...fill(new Thrift()).end()]);
  numbers = (/** @type {number} */ id, /** @type {number[]} */ values) =>
    this.#items(id, 5, values.map((value) => varint(BigInt(value * 2))));
  texts = (/** @type {number} */ id, /** @type {string[]} */ values) => this.#items(id, 8, values.map(textBytes));
  list = (/** @type {number} */ id, /** @type {any[]} */ values, /** @type {(inner: Thrift, value: any) => Thrift} */ fill) =>
    this.#items(id, 12, values.map((value) => [...fill(new Thrift(), value).end()]));

  /** Fewer than 15. @param {number} id @param {number} type @param {number[][]} items */
  #items(id, type, items) {
    return this.#field(id, 9, [(items.length << 4) | type, ...items.flat()]);
  }
  end = () => Uint8Array.from([...this.#bytes, 0]);
}

/** @param {string} text */
function textBytes(text) {
  const bytes = utf8(text);
  return [...varint(BigInt(bytes.length)), ...bytes];
}
