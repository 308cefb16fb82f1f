import type { Finding } from "../finding.ts";
import type { Repository } from "../repository.ts";

/** The fields of a package.json the rules look at. */
interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
  readonly type?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

const RULE = "packages";
const EXACT = /^\d+\.\d+\.\d+(-[\w.]+)?$/;

/** One version and one licence for all, exact versions, and a decision record for whatever users must install. */
export function checkPackages(repository: Repository): readonly Finding[] {
  const findings: Finding[] = [];
  const manifests = [...repository.files]
    .filter(([file]) => /^(packages\/[^/]+\/)?package\.json$/.test(file))
    // npm itself refuses a package.json of another shape.
    .map(([file, text]) => ({ file, manifest: JSON.parse(text) as Manifest }));
  const root = manifests.find(({ file }) => file === "package.json")?.manifest;
  const ours = new Set(manifests.map(({ manifest }) => manifest.name));
  const decisions = [...repository.files]
    .filter(([file]) => file.startsWith("docs/decisions/"))
    .map(([, text]) => text)
    .join("\n");
  for (const { file, manifest } of manifests) {
    const report = (message: string): void => void findings.push({ file, line: 0, rule: RULE, message });
    if (manifest.version !== root?.version) {
      report(`has version ${manifest.version}; all packages carry ${root?.version ?? "the root's"}`);
    }
    if (manifest.license !== "Apache-2.0" || manifest.type !== "module") {
      report("is an ES module under Apache-2.0, like every package");
    }
    const runtime = { ...manifest.dependencies, ...manifest.optionalDependencies, ...manifest.peerDependencies };
    for (const [name, version] of Object.entries({ ...runtime, ...manifest.devDependencies })) {
      if (!EXACT.test(version)) {
        report(`wants ${name} ${version}; versions are exact`);
      }
    }
    for (const name of Object.keys(runtime).filter((one) => !ours.has(one))) {
      if (!decisions.includes(`\`${name}\``) && !decisions.includes(`\`${name.split("/")[0]}/<platform>\``)) {
        report(`depends on ${name}, which no record in docs/decisions explains`);
      }
    }
  }
  return findings;
}
