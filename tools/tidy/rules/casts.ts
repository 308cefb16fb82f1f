import type { Finding } from "../finding.ts";
import { isPackageSource, type Repository } from "../repository.ts";

/** A cast overrules the compiler, so the reason stands beside it. */
export function checkCasts(repository: Repository): readonly Finding[] {
  return [...repository.files.keys()].filter(isPackageSource).flatMap((file) =>
    repository.source(file).silentCasts.map(({ line }) => ({
      file,
      line,
      rule: "casts",
      message: "a cast needs a sentence: say on the line above why the compiler cannot know",
    })),
  );
}
