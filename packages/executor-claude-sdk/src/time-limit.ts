/** Whether `work` settles within `limitMs`. Leaves no timer behind, and what `work` ends with is not this one's matter. */
export async function settlesWithin(work: Promise<unknown>, limitMs: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), limitMs);
  const settled = (): void => resolve(true);
  const watched = work.then(settled, settled);
  const isInTime = await promise;
  clearTimeout(timer);
  if (isInTime) {
    await watched;
  }
  return isInTime;
}
