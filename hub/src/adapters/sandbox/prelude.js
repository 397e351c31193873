// What the guest finds in its global scope. Runs once, before any guest code, and captures everything it
// uses, so that what the guest patches later is seen by the guest alone. Intrinsics stay unfrozen: freezing
// them breaks ordinary classes.
(function (host) {
  'use strict';
  const { apply, construct } = Reflect;
  const { create, defineProperty, freeze, getPrototypeOf, keys } = Object;
  const { isArray } = Array;
  const { stringify } = JSON;
  const { get: mapGet, set: mapSet, has: mapHas, forEach: mapForEach } = Map.prototype;
  const { add: setAdd, forEach: setForEach } = Set.prototype;
  const { get: weakGet, set: weakSet } = WeakMap.prototype;
  const { toWellFormed, charCodeAt, indexOf, slice, toLowerCase } = String.prototype;
  const { set: bytesSet, subarray } = Uint8Array.prototype;
  const RealString = String;
  const RealArray = Array;
  const { fromCharCode } = String;
  const { floor, imul } = Math;
  const bigToString = BigInt.prototype.toString;
  const RealDate = Date;
  const getTime = RealDate.prototype.getTime;
  const dateToString = RealDate.prototype.toString;
  const RealPromise = Promise;
  const RealMap = Map;
  const RealSet = Set;
  const [RealError, RealTypeError, RealRangeError] = [Error, TypeError, RangeError];
  const RealRegExp = RegExp;
  const RealUint8Array = Uint8Array;
  const RealArrayBuffer = ArrayBuffer;
  const arrayBufferSlice = ArrayBuffer.prototype.slice;
  const { isView } = ArrayBuffer;
  const RealDOMException = DOMException;
  const wellFormed = (text) => apply(toWellFormed, text, []);
  // As `instanceof`, which a guest can redefine.
  const inherits = (value, prototype) => {
    if (value === null || typeof value !== 'object') return false;
    for (let at = getPrototypeOf(value); at !== null; at = getPrototypeOf(at)) if (at === prototype) return true;
    return false;
  };
  const isError = (value) => inherits(value, RealError.prototype);
  const global = globalThis;
  const own = (target, name, value) =>
    defineProperty(target, name, { value, writable: false, enumerable: false, configurable: false });
  // Globals that code may shadow and libraries may patch, as in any other runtime.
  const offer = (name, value) =>
    defineProperty(global, name, { value, writable: true, enumerable: false, configurable: true });

  // ---- What is not here.
  for (const name of ['eval', 'Function', 'Atomics', 'SharedArrayBuffer', 'WebAssembly', 'performance',
    'WeakRef', 'FinalizationRegistry', 'gc']) delete global[name];
  // Call-site objects would hand out this file's own closures.
  own(RealError, 'prepareStackTrace', undefined);

  // ---- Time: the run's clock stands still within a step.
  const GuestDate = function Date(...parts) {
    if (!new.target) return apply(dateToString, new RealDate(host.now()), []);
    return construct(RealDate, parts.length ? parts : [host.now()], new.target);
  };
  defineProperty(GuestDate, 'length', { value: 7, configurable: true });
  own(GuestDate, 'prototype', RealDate.prototype);
  GuestDate.now = () => host.now();
  GuestDate.parse = RealDate.parse;
  GuestDate.UTC = RealDate.UTC;
  defineProperty(RealDate.prototype, 'constructor', { value: GuestDate, writable: true, configurable: true });
  offer('Date', GuestDate);

  const timers = create(null);
  let timerCount = 0;
  offer('setTimeout', function setTimeout(callback, delay, ...args) {
    if (typeof callback !== 'function') throw new RealTypeError('setTimeout takes a function');
    let ms = +delay;
    if (!(ms > 0)) ms = 0;
    if (ms > 30000) throw new RealRangeError('setTimeout waits at most 30000 ms');
    timerCount += 1;
    timers[timerCount] = { callback, args };
    host.timer(timerCount, floor(ms));
    return timerCount;
  });
  offer('clearTimeout', function clearTimeout(id) {
    const number = +id;
    if (timers[number] !== undefined) {
      delete timers[number];
      host.clear(number);
    }
  });

  // ---- Chance: xoshiro128** from the run's seed.
  let [s0, s1, s2, s3] = host.seed;
  const next32 = () => {
    const shifted = s1 << 9;
    let mixed = imul(s1, 5);
    mixed = imul((mixed << 7) | (mixed >>> 25), 9);
    s2 ^= s0; s3 ^= s1; s1 ^= s2; s0 ^= s3; s2 ^= shifted;
    s3 = (s3 << 11) | (s3 >>> 21);
    return mixed >>> 0;
  };
  Math.random = function random() { return ((next32() >>> 5) * 67108864 + (next32() >>> 6)) / 9007199254740992; };
  const hex = '0123456789abcdef';
  const crypto = {
    randomUUID() {
      let text = '';
      for (let at = 0; at < 32; at += 1) {
        let digit = next32() & 15;
        if (at === 12) digit = 4;
        if (at === 16) digit = (digit & 3) | 8;
        if (at === 8 || at === 12 || at === 16 || at === 20) text += '-';
        text += hex[digit];
      }
      return text;
    },
    getRandomValues(array) {
      if (!isView(array) || !('BYTES_PER_ELEMENT' in array)) throw new RealTypeError('getRandomValues takes a typed array');
      if (array.byteLength > 65536) throw new RealDOMException('at most 65536 bytes at a time', 'QuotaExceededError');
      const bytes = new RealUint8Array(array.buffer, array.byteOffset, array.byteLength);
      for (let at = 0; at < bytes.length; at += 1) bytes[at] = next32() & 255;
      return array;
    },
  };
  offer('crypto', freeze(crypto));

  // ---- JSON that keeps integers whole: a BigInt prints as its digits in quotes for the guest and as an
  // integer for the hub, which strips the mark that only it knows.
  let sawBigInt = false;
  own(BigInt.prototype, 'toJSON', function toJSON() {
    sawBigInt = true;
    return apply(bigToString, this, []);
  });
  const markBigInts = function (key, value) {
    const raw = this[key];
    return typeof raw === 'bigint' ? host.mark + apply(bigToString, raw, []) : value;
  };
  const toText = (value) => {
    // A getter or a toJSON may come here again while `value` is printed.
    const before = sawBigInt;
    sawBigInt = false;
    try {
      const text = stringify(value);
      return sawBigInt && text !== undefined ? stringify(value, markBigInts) : text;
    } finally {
      sawBigInt = sawBigInt || before;
    }
  };

  // ---- Tools.
  class ToolError extends Error {
    // Fields are defined, not set: no setter that the guest put on a prototype is met.
    code; address; status; hint; retryable;
    constructor(message, fields) {
      super(message);
      const known = fields === null || typeof fields !== 'object' ? {} : fields;
      this.code = known.code;
      this.address = known.address;
      this.status = known.status;
      this.hint = known.hint;
      this.retryable = known.retryable === true;
      if (known.detail !== undefined) {
        defineProperty(this, 'detail', { __proto__: null, value: known.detail, writable: true, enumerable: true, configurable: true });
      }
      if (known.headers !== undefined) {
        defineProperty(this, 'headers', { __proto__: null, value: known.headers, writable: true, enumerable: true, configurable: true });
      }
    }
  }
  defineProperty(ToolError.prototype, 'name', { value: 'ToolError', writable: true, configurable: true });
  offer('ToolError', ToolError);

  const waiting = create(null);
  let callCount = 0;
  const invoke = (namespace, tool, args) => {
    const address = namespace + '.' + tool;
    const input = args.length > 0 && args[0] !== undefined ? args[0] : {};
    const options = args.length > 1 ? args[1] : undefined;
    if (input === null || typeof input !== 'object' || isArray(input)) {
      throw new RealTypeError(address + ' takes one object of named arguments, as in await ' + address + '({ … })');
    }
    let connection;
    if (options !== undefined) {
      if (options === null || typeof options !== 'object') throw new RealTypeError(address + ': the second argument is an options object');
      const names = keys(options);
      for (let at = 0; at < names.length; at += 1) {
        if (names[at] !== 'connection') throw new RealTypeError(address + ': there is no option ' + names[at] + '; the only one is connection');
      }
      connection = options.connection;
      if (connection !== undefined && (typeof connection !== 'string' || wellFormed(connection) !== connection)) throw new RealTypeError(address + ': connection is the name of a connection');
    }
    const text = toText(input);
    if (text === undefined || text[0] !== '{') throw new RealTypeError(address + ': the arguments are not plain data');
    const { stack } = new RealError();
    return new RealPromise((resolve, reject) => {
      // Counted only when it was taken: a refused call has no number.
      host.call(callCount + 1, namespace, tool, text, connection, typeof stack === 'string' ? wellFormed(stack) : '');
      callCount += 1;
      waiting[callCount] = { resolve, reject, stack };
    });
  };

  // Names that the language itself asks for, where an honest "no" is the right answer.
  const notTools = ['then', 'toJSON', 'constructor', 'prototype', 'valueOf', 'toString', '__proto__', 'length', 'name'];
  const makeSource = (namespace, names) => {
    const target = create(null);
    for (let at = 0; at < names.length; at += 1) {
      const tool = names[at];
      const call = async (...args) => invoke(namespace, tool, args);
      defineProperty(call, 'name', { value: tool });
      defineProperty(target, tool, { value: freeze(call), enumerable: true });
    }
    const refuse = () => { throw new RealTypeError(namespace + ' cannot be changed'); };
    return new Proxy(freeze(target), {
      // No trap that the guest put on Object.prototype is asked.
      __proto__: null,
      get(tools, name) {
        if (typeof name === 'symbol') return undefined;
        const known = tools[name];
        if (known !== undefined) return known;
        for (let at = 0; at < notTools.length; at += 1) if (notTools[at] === name) return undefined;
        return () => { throw new RealTypeError(host.missing(namespace, wellFormed(name))); };
      },
      set: refuse,
      defineProperty: refuse,
      deleteProperty: refuse,
      setPrototypeOf: refuse,
    });
  };
  for (let at = 0; at < host.sources.length; at += 1) {
    const [namespace, names] = host.sources[at];
    own(global, namespace, makeSource(namespace, names));
  }

  // ---- The hub's own helpers.
  const texts = new WeakMap();
  const lookups = create(null);
  let lookupCount = 0;
  const lookup = (kind, input) => {
    const { stack } = new RealError();
    return new RealPromise((resolve, reject) => {
      host.lookup(lookupCount + 1, kind, toText(input));
      lookupCount += 1;
      lookups[lookupCount] = { resolve, reject, stack };
    });
  };
  const hub = create(null);
  own(hub, 'search', async function search(query, options) {
    if (query !== null && typeof query === 'object') return lookup('search', query);
    return lookup('search', { ...options, query: query === undefined ? '' : RealString(query) });
  });
  own(hub, 'describe', async function describe(...targets) {
    const first = targets.length === 1 ? targets[0] : undefined;
    if (isArray(first)) return lookup('describe', { targets: first });
    if (first !== null && typeof first === 'object') return lookup('describe', first);
    return lookup('describe', { targets });
  });
  own(hub, 'text', function text(value) {
    if (typeof value === 'string') return value;
    const exact = value !== null && typeof value === 'object' ? apply(weakGet, texts, [value]) : undefined;
    return exact === undefined ? stringify(value) : exact;
  });
  own(global, 'hub', freeze(hub));

  // ---- Console.
  const show = (value) => {
    if (typeof value === 'string') return value;
    try {
      if (isError(value)) {
        const places = host.places(wellFormed(stackOf(value)));
        return explain(value) + (places === '' ? '' : '\n' + places);
      }
      if (value !== null && typeof value === 'object') {
        const text = stringify(value);
        return text === undefined ? RealString(value) : text;
      }
      return typeof value === 'bigint' ? apply(bigToString, value, []) + 'n' : RealString(value);
    } catch {
      return '[unprintable]';
    }
  };
  const console = {};
  for (const level of ['log', 'info', 'warn', 'error', 'debug']) {
    defineProperty(console, level, {
      enumerable: true, writable: true, configurable: true,
      value: (...values) => {
        let line = level === 'warn' || level === 'error' ? level + ': ' : '';
        for (let at = 0; at < values.length; at += 1) line += (at ? ' ' : '') + show(values[at]);
        host.log(wellFormed(line));
      },
    });
  }
  offer('console', console);

  // ---- Text and bytes.
  offer('TextEncoder', class TextEncoder {
    get encoding() { return 'utf-8'; }
    encode(text = '') { return host.encode(wellFormed(RealString(text))); }
  });
  // How many bytes at the end begin a character that is not complete.
  const unfinished = (bytes) => {
    for (let back = 1; back <= 3 && back <= bytes.length; back += 1) {
      const byte = bytes[bytes.length - back];
      if (byte >= 0xc0) return (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) > back ? back : 0;
      if (byte < 0x80) return 0;
    }
    return 0;
  };
  offer('TextDecoder', class TextDecoder {
    #fatal;
    #held = new RealUint8Array(0);
    #begun = false;
    constructor(label = 'utf-8', options = {}) {
      const name = apply(toLowerCase, RealString(label), []);
      if (name !== 'utf-8' && name !== 'utf8') throw new RealRangeError('TextDecoder reads utf-8 only');
      this.#fatal = options.fatal === true;
    }
    get encoding() { return 'utf-8'; }
    get fatal() { return this.#fatal; }
    decode(input, options = {}) {
      let bytes;
      if (input === undefined) bytes = new RealUint8Array(0);
      else if (isView(input)) bytes = new RealUint8Array(input.buffer, input.byteOffset, input.byteLength);
      else if (inherits(input, RealArrayBuffer.prototype)) bytes = new RealUint8Array(input);
      else throw new RealTypeError('decode takes an ArrayBuffer or a view of one');
      if (this.#held.length > 0) {
        const joined = new RealUint8Array(this.#held.length + bytes.length);
        apply(bytesSet, joined, [this.#held]);
        apply(bytesSet, joined, [bytes, this.#held.length]);
        bytes = joined;
      }
      const first = !this.#begun;
      const streaming = options.stream === true;
      // A character that the next chunk may finish waits for it.
      const whole = streaming ? bytes.length - unfinished(bytes) : bytes.length;
      this.#held = new RealUint8Array(apply(subarray, bytes, [whole]));
      this.#begun = streaming && (this.#begun || whole > 0);
      return host.decode(apply(subarray, bytes, [0, whole]), this.#fatal, first);
    }
  });
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  offer('btoa', function btoa(input) {
    const text = RealString(input);
    let out = '';
    for (let at = 0; at < text.length; at += 3) {
      const a = apply(charCodeAt, text, [at]);
      const b = apply(charCodeAt, text, [at + 1]);
      const c = apply(charCodeAt, text, [at + 2]);
      if (a > 255 || b > 255 || c > 255) throw new RealDOMException('btoa takes characters up to U+00FF', 'InvalidCharacterError');
      out += letters[a >> 2] + letters[((a & 3) << 4) | (b >> 4)]
        + (at + 1 < text.length ? letters[((b & 15) << 2) | (c >> 6)] : '=')
        + (at + 2 < text.length ? letters[c & 63] : '=');
    }
    return out;
  });
  offer('atob', function atob(input) {
    let text = '';
    const given = RealString(input);
    for (let at = 0; at < given.length; at += 1) {
      const c = given[at];
      if (c !== ' ' && c !== '\t' && c !== '\n' && c !== '\f' && c !== '\r') text += c;
    }
    if (text.length % 4 === 0 && text[text.length - 1] === '=') text = apply(slice, text, [0, text[text.length - 2] === '=' ? -2 : -1]);
    const wrong = () => new RealDOMException('atob takes base64', 'InvalidCharacterError');
    if (text.length % 4 === 1) throw wrong();
    let out = '';
    let bits = 0;
    let held = 0;
    for (let at = 0; at < text.length; at += 1) {
      const value = apply(indexOf, letters, [text[at]]);
      if (value < 0) throw wrong();
      bits = ((bits << 6) | value) & 0xffffff;
      held += 6;
      if (held >= 8) {
        held -= 8;
        out += fromCharCode((bits >> held) & 255);
      }
    }
    return out;
  });

  const uncloneable = (what) => new RealDOMException(what + ' could not be cloned', 'DataCloneError');
  const errorKinds = [EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError];
  const cloneInto = (value, seen) => {
    if (typeof value === 'function') throw uncloneable('a function');
    if (typeof value === 'symbol') throw uncloneable('a symbol');
    if (value === null || typeof value !== 'object') return value;
    if (apply(mapHas, seen, [value])) return apply(mapGet, seen, [value]);
    const keep = (copy) => { apply(mapSet, seen, [value, copy]); return copy; };
    if (isArray(value)) {
      const copy = keep(new RealArray(value.length));
      cloneMembers(value, copy, seen);
      return copy;
    }
    if (value instanceof RealDate) return keep(new GuestDate(apply(getTime, value, [])));
    if (value instanceof RealRegExp) return keep(new RealRegExp(value.source, value.flags));
    if (value instanceof RealMap) {
      const copy = keep(new RealMap());
      apply(mapForEach, value, [(item, key) => { apply(mapSet, copy, [cloneInto(key, seen), cloneInto(item, seen)]); }]);
      return copy;
    }
    if (value instanceof RealSet) {
      const copy = keep(new RealSet());
      apply(setForEach, value, [(item) => { apply(setAdd, copy, [cloneInto(item, seen)]); }]);
      return copy;
    }
    if (value instanceof RealArrayBuffer) return keep(apply(arrayBufferSlice, value, [0]));
    if (isView(value)) {
      const buffer = cloneInto(value.buffer, seen);
      const length = 'BYTES_PER_ELEMENT' in value ? value.length : value.byteLength;
      return keep(new (getPrototypeOf(value).constructor)(buffer, value.byteOffset, length));
    }
    if (isError(value)) {
      let Kind = RealError;
      for (let at = 0; at < errorKinds.length; at += 1) if (inherits(value, errorKinds[at].prototype)) Kind = errorKinds[at];
      const copy = keep(new Kind(value.message));
      if ('cause' in value) copy.cause = cloneInto(value.cause, seen);
      return copy;
    }
    if (value instanceof RealPromise) throw uncloneable('a promise');
    const copy = keep({});
    cloneMembers(value, copy, seen);
    return copy;
  };
  // Defined, not set: `__proto__` is a key like any other.
  const cloneMembers = (value, copy, seen) => {
    const names = keys(value);
    for (let at = 0; at < names.length; at += 1) {
      const member = cloneInto(value[names[at]], seen);
      defineProperty(copy, names[at], { __proto__: null, value: member, writable: true, enumerable: true, configurable: true });
    }
  };
  offer('structuredClone', function structuredClone(value) { return cloneInto(value, new RealMap()); });

  // ---- What the host calls.
  const stackOf = (error) => {
    try { return error !== null && typeof error === 'object' && typeof error.stack === 'string' ? error.stack : ''; } catch { return ''; }
  };
  // Name and message; for several errors in one, the first of them.
  const explain = (error, within = false) => {
    try {
      if (!isError(error) && (error === null || typeof error !== 'object' || typeof error.message !== 'string')) return 'threw ' + show(error);
      const message = RealString(error.message);
      let text = RealString(error.name || 'Error') + ': ' + message;
      if (isError(error) && inherits(error, ToolError.prototype) && typeof error.code === 'string') text += ' (' + error.code + ')';
      const inner = error.errors;
      if (within || !isArray(inner)) return text;
      for (let at = 0; at < inner.length && at < 3; at += 1) text += (at > 0 ? '; ' : message === '' ? '' : ': ') + explain(inner[at], true);
      return inner.length > 3 ? text + '; …' : text;
    } catch {
      return 'an error that cannot be read';
    }
  };
  const take = (table, id) => {
    const entry = table[id];
    delete table[id];
    return entry;
  };
  // It happened where it was asked for, not where the answer arrived.
  const rejectAt = (entry, error) => {
    defineProperty(error, 'stack', { __proto__: null, value: entry.stack, writable: true, enumerable: false, configurable: true });
    entry.reject(error);
  };
  const inner = create(null);
  inner.toText = toText;
  inner.explain = (error) => wellFormed(explain(error));
  inner.stack = (error) => wellFormed(stackOf(error));
  inner.hint = (error) => {
    try { return inherits(error, ToolError.prototype) && typeof error.hint === 'string' ? wellFormed(error.hint) : undefined; } catch { return undefined; }
  };
  inner.settle = (id, value, text) => {
    const entry = take(waiting, id);
    if (text !== undefined && value !== null && typeof value === 'object') apply(weakSet, texts, [value, text]);
    if (entry) entry.resolve(value);
  };
  inner.fail = (id, fields) => {
    const entry = take(waiting, id);
    if (entry) rejectAt(entry, new ToolError(fields.message, fields));
  };
  inner.found = (id, ok, text) => {
    const entry = take(lookups, id);
    if (entry) ok ? entry.resolve(text) : rejectAt(entry, new RealError(text));
  };
  inner.fire = (id) => {
    const entry = take(timers, id);
    if (entry) apply(entry.callback, undefined, entry.args);
  };
  inner.idle = () => keys(waiting).length + keys(timers).length + keys(lookups).length === 0;
  return freeze(inner);
});
