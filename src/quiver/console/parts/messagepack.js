/** MessagePack to what JSON shows (the format is that of msgpack.org). */

const MOST_DEPTH = 64;
const text = new TextDecoder("utf-8", { fatal: true });

/** The value as indented JSON; null if the bytes are not one MessagePack value. @param {Uint8Array} data @returns {string | null} */
export function messagePackText(data) {
  try {
    const reader = new Reader(data);
    const value = reader.value(0);
    return reader.isAtEnd ? JSON.stringify(value, shown, 2) : null;
  } catch {
    return null; // it ends too early, is too deep, or has a byte that means nothing
  }
}

/** Numbers beyond what JSON holds keep their digits. @param {string} _key @param {any} value */
const shown = (_key, value) => (typeof value === "bigint" ? value.toString() : value);

class Reader {
  /** @param {Uint8Array} data */
  constructor(data) {
    this._data = data;
    this._view = new DataView(data.buffer, data.byteOffset, data.byteLength);
    this._at = 0;
  }

  get isAtEnd() {
    return this._at === this._data.length;
  }

  /** @param {number} depth @returns {any} */
  value(depth) {
    if (depth > MOST_DEPTH) throw new RangeError("too deep");
    const type = this._number("Uint8", 1);
    if (type < 0x80) return type;
    if (type >= 0xe0) return type - 0x100;
    if (type < 0x90) return this._map(type & 0x0f, depth);
    if (type < 0xa0) return this._list(type & 0x0f, depth);
    if (type < 0xc0) return this._text(type & 0x1f);
    const read = FORMS[/** @type {keyof typeof FORMS} */ (type)];
    if (!read) throw new RangeError("no such type");
    return read(this, depth);
  }

  /** @param {string} kind as DataView calls it @param {number} size @returns {any} */
  _number(kind, size) {
    const found = /** @type {any} */ (this._view)[`get${kind}`](this._at);
    this._at += size;
    return typeof found === "bigint" && Number.isSafeInteger(Number(found)) ? Number(found) : found;
  }

  /** @param {number} size */
  _bytes(size) {
    if (this._at + size > this._data.length) throw new RangeError("it ends too early");
    this._at += size;
    return this._data.subarray(this._at - size, this._at);
  }

  /** @param {number} size */
  _text(size) {
    return text.decode(this._bytes(size));
  }

  /** Bytes that are not text are shown as base64. @param {number} size */
  _binary(size) {
    const data = this._bytes(size);
    try {
      return text.decode(data);
    } catch {
      return { base64: btoa(String.fromCharCode(...data.subarray(0, 4096))) + (data.length > 4096 ? "…" : "") };
    }
  }

  /** @param {number} count @param {number} depth */
  _list(count, depth) {
    if (count > this._data.length) throw new RangeError("longer than the data");
    return Array.from({ length: count }, () => this.value(depth + 1));
  }

  /** @param {number} count @param {number} depth */
  _map(count, depth) {
    if (count > this._data.length) throw new RangeError("longer than the data");
    const pairs = Array.from({ length: count }, () => [this.value(depth + 1), this.value(depth + 1)]);
    return Object.fromEntries(
      pairs.map(([key, value]) => [typeof key === "string" ? key : JSON.stringify(key), value]),
    );
  }

  /** @param {number} size */
  _extension(size) {
    const type = this._number("Int8", 1);
    const data = this._bytes(size);
    if (type === -1 && size === 4)
      return new Date(new DataView(data.slice().buffer).getUint32(0) * 1000).toISOString();
    return {
      extension: type,
      bytes: [...data.subarray(0, 64)].map((byte) => byte.toString(16).padStart(2, "0")).join(" "),
    };
  }
}

/** First byte -> how to read the rest. @type {Record<number, (reader: any, depth: number) => any>} */
const FORMS = {
  0xc0: () => null,
  0xc2: () => false,
  0xc3: () => true,
  0xc4: (reader) => reader._binary(reader._number("Uint8", 1)),
  0xc5: (reader) => reader._binary(reader._number("Uint16", 2)),
  0xc6: (reader) => reader._binary(reader._number("Uint32", 4)),
  0xc7: (reader) => reader._extension(reader._number("Uint8", 1)),
  0xc8: (reader) => reader._extension(reader._number("Uint16", 2)),
  0xc9: (reader) => reader._extension(reader._number("Uint32", 4)),
  0xca: (reader) => reader._number("Float32", 4),
  0xcb: (reader) => reader._number("Float64", 8),
  0xcc: (reader) => reader._number("Uint8", 1),
  0xcd: (reader) => reader._number("Uint16", 2),
  0xce: (reader) => reader._number("Uint32", 4),
  0xcf: (reader) => reader._number("BigUint64", 8),
  0xd0: (reader) => reader._number("Int8", 1),
  0xd1: (reader) => reader._number("Int16", 2),
  0xd2: (reader) => reader._number("Int32", 4),
  0xd3: (reader) => reader._number("BigInt64", 8),
  0xd4: (reader) => reader._extension(1),
  0xd5: (reader) => reader._extension(2),
  0xd6: (reader) => reader._extension(4),
  0xd7: (reader) => reader._extension(8),
  0xd8: (reader) => reader._extension(16),
  0xd9: (reader) => reader._text(reader._number("Uint8", 1)),
  0xda: (reader) => reader._text(reader._number("Uint16", 2)),
  0xdb: (reader) => reader._text(reader._number("Uint32", 4)),
  0xdc: (reader, depth) => reader._list(reader._number("Uint16", 2), depth),
  0xdd: (reader, depth) => reader._list(reader._number("Uint32", 4), depth),
  0xde: (reader, depth) => reader._map(reader._number("Uint16", 2), depth),
  0xdf: (reader, depth) => reader._map(reader._number("Uint32", 4), depth),
};
