/** Work in a bounded number of lanes: a gate is measured with several engines at it, as it works in earnest. */
export const LANES = 8;

/** Runs `work` for every item, `LANES` at once, and resolves when all are done. */
export async function inLanes<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  let at = 0;
  const lane = async (): Promise<void> => {
    for (let item = items[at]; at < items.length; item = items[at]) {
      at += 1;
      // Below the length there is an item.
      await work(item as T);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}
