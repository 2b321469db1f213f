/** Elements. Text only ever becomes a text node, so nothing that a message holds can become markup. */

const SVG = "http://www.w3.org/2000/svg";
const LISTENERS = Symbol("listeners");

/** Lists may be nested. @typedef {Node | string | number | null | undefined | false | any[]} Child */

/**
 * Makes an element. `on...` attributes are listeners, `value` and `checked` are properties.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...Child} children
 * @returns {any}
 */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/**
 * Makes an SVG element.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...Child} children
 * @returns {any}
 */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** @param {any} element @param {Record<string, any>} attributes @param {Child[]} children */
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) listen(element, name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...flat(children));
  return element;
}

/** @param {Child} children @returns {(Node | string)[]} */
export function flat(children) {
  if (Array.isArray(children)) return children.flatMap(flat);
  if (children === null || children === undefined || children === false) return [];
  return [children instanceof Node ? children : String(children)];
}

/**
 * Shows other children. Elements that stay keep their identity: focus, selection and what is typed stay with them,
 * while their attributes, listeners and texts become those of the new ones.
 * @param {Element} parent
 * @param {...Child} children
 */
export function show(parent, ...children) {
  const wanted = flat(children).map((child) => (child instanceof Node ? child : document.createTextNode(child)));
  wanted.forEach((child, index) => {
    const present = parent.childNodes[index];
    if (!present) parent.append(child);
    else if (present !== child && !became(present, child)) parent.replaceChild(child, present);
  });
  while (parent.childNodes.length > wanted.length) parent.lastChild?.remove();
}

/** Turns a node into another one, if they are of one kind. @param {any} present @param {any} child @returns {boolean} */
function became(present, child) {
  if (present.nodeName !== child.nodeName) return false;
  if (present instanceof Text) {
    if (present.data !== child.data) present.data = child.data;
    return true;
  }
  if (present.localName.includes("-")) return present.adopt?.(child) ?? false;
  for (const name of present.getAttributeNames()) if (!child.hasAttribute(name)) present.removeAttribute(name);
  for (const name of child.getAttributeNames()) {
    if (present.getAttribute(name) === child.getAttribute(name)) continue;
    if (name === "style")
      present.style.cssText = child.style.cssText; // the content policy refuses the attribute
    else present.setAttribute(name, child.getAttribute(name));
  }
  for (const type of Object.keys(child[LISTENERS] ?? {})) listen(present, type, child[LISTENERS][type]);
  if (present.type === "checkbox") present.checked = child.checked;
  show(present, ...child.childNodes);
  return true;
}

/** @param {any} element @param {string} type @param {(event: Event) => void} listener the only one of its type */
function listen(element, type, listener) {
  const listeners = (element[LISTENERS] ??= {});
  if (!(type in listeners)) element.addEventListener(type, (/** @type {Event} */ event) => listeners[type](event));
  listeners[type] = listener;
}

/** @param {string} href @param {...Child} children */
export const link = (href, ...children) => h("a", { href }, ...children);

/**
 * A class for elements that redraw when what they show is given.
 * @param {string} name @param {CustomElementConstructor} type
 */
export function define(name, type) {
  if (!customElements.get(name)) customElements.define(name, type);
}
