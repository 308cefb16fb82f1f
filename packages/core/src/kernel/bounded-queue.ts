/** First in, first out, up to a weight. A full queue refuses; who offers decides what a refusal means. */
export interface BoundedQueue<T> {
  readonly length: number;
  readonly weight: number;
  /** False when it does not fit. One item always fits into an empty queue. */
  offer(item: T, weight?: number): boolean;
  take(): T | undefined;
}

export function createBoundedQueue<T>(limit: number): BoundedQueue<T> {
  const items: { readonly item: T; readonly weight: number }[] = [];
  let head = 0;
  let total = 0;
  return {
    get length() {
      return items.length - head;
    },
    get weight() {
      return total;
    },
    offer(item, weight = 1) {
      if (items.length > head && total + weight > limit) {
        return false;
      }
      items.push({ item, weight });
      total += weight;
      return true;
    },
    take() {
      const first = items[head];
      if (first === undefined) {
        return undefined;
      }
      head += 1;
      total -= first.weight;
      if (head > 64 && head * 2 > items.length) {
        items.splice(0, head);
        head = 0;
      }
      return first.item;
    },
  };
}
