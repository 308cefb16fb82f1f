export async function collect<T>(from: AsyncIterable<T>): Promise<readonly T[]> {
  const all: T[] = [];
  for await (const each of from) all.push(each);
  return all;
}
