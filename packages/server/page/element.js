/** Elements whose text is only ever text: nothing that was said here can become markup. */

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {{ readonly class?: string, readonly text?: string }} [facts]
 * @param {readonly HTMLElement[]} [children]
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, facts = {}, children = []) {
  const made = document.createElement(tag);
  if (facts.class !== undefined) made.className = facts.class;
  if (facts.text !== undefined) made.textContent = facts.text;
  made.append(...children);
  return made;
}

/**
 * The element of this id and kind, which the page has from the start.
 * @template {HTMLElement} Kind
 * @param {string} id
 * @param {new () => Kind} kind
 * @returns {Kind}
 */
export function byId(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${id}`);
  return found;
}

/**
 * Calls `change` and keeps the end of what scrolls in sight, unless the reader has scrolled away from it.
 * @param {HTMLElement} scrolled
 * @param {() => void} change
 */
export function keepEnd(scrolled, change) {
  const atEnd = scrolled.scrollHeight - scrolled.scrollTop - scrolled.clientHeight < 60;
  change();
  if (atEnd) scrolled.scrollTop = scrolled.scrollHeight;
}
