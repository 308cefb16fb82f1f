/**
 * What an owner has said and the log has not yet: deltas of one item grow into one part, a closing row replaces the
 * part before it (it carries the whole item), everything else keeps its order.
 */
import type { OwnerEvent } from "@signalbox/contract";

export interface PartDelta {
  readonly type: "text.delta" | "thinking.delta";
  readonly itemId: string;
  readonly revision: number;
  readonly offset: number;
  readonly text: string;
}

export interface PendingRows {
  readonly rowCount: number;
  /** Text that would be lost if the process died now. */
  readonly chars: number;
  /** True when a row is waiting that readers should not wait for: something closed. */
  readonly urgent: boolean;
  part(delta: PartDelta): void;
  /** A row that ends its item. */
  close(row: OwnerEvent): void;
  add(row: OwnerEvent): void;
  /** Removes and returns the oldest rows. */
  take(count: number): readonly OwnerEvent[];
}

export function createPendingRows(): PendingRows {
  const rows = new Map<string, { readonly row: OwnerEvent; readonly chars: number; readonly urgent: boolean }>();
  let chars = 0;
  let urgentCount = 0;
  let serial = 0;
  const put = (key: string, row: OwnerEvent, facts: { readonly chars: number; readonly urgent: boolean }): void => {
    rows.set(key, { row, ...facts });
    chars += facts.chars;
    urgentCount += facts.urgent ? 1 : 0;
  };
  const drop = (key: string): void => {
    const old = rows.get(key);
    if (old === undefined) {
      return;
    }
    rows.delete(key);
    chars -= old.chars;
    urgentCount -= old.urgent ? 1 : 0;
  };
  return {
    get rowCount() {
      return rows.size;
    },
    get chars() {
      return chars;
    },
    get urgent() {
      return urgentCount > 0;
    },
    part(delta) {
      const key = `part ${delta.itemId}`;
      const before = rows.get(key);
      const begun =
        before !== undefined && "offset" in before.row.data ? before.row.data : { offset: delta.offset, text: "" };
      const data = { offset: begun.offset, text: begun.text + delta.text };
      const row = { type: delta.type, itemId: delta.itemId, revision: delta.revision, data };
      // Set again under the same key, a part keeps its place in the order.
      rows.set(key, { row, chars: data.text.length, urgent: false });
      chars += delta.text.length;
    },
    close(row) {
      drop(`part ${row.itemId}`);
      const text = "text" in row.data ? row.data.text.length : 0;
      put(`row ${(serial += 1)}`, row, { chars: text, urgent: true });
    },
    add(row) {
      put(`row ${(serial += 1)}`, row, { chars: 0, urgent: false });
    },
    take(count) {
      const taken: OwnerEvent[] = [];
      for (const [key, { row }] of rows) {
        if (taken.length >= count) {
          break;
        }
        taken.push(row);
        drop(key);
      }
      return taken;
    },
  };
}
