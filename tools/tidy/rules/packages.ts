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
  const lock = lockOf(repository);
  for (const { file, manifest } of manifests) {
    const report = (message: string): void => void findings.push({ file, line: 0, rule: RULE, message });
    if (manifest.version !== root?.version) {
      report(`has version ${manifest.version}; all packages carry ${root?.version ?? "the root's"}`);
    }
    if (manifest.license !== "Apache-2.0" || manifest.type !== "module") {
      report("is an ES module under Apache-2.0, like every package");
    }
    for (const kind of lock === null
      ? []
      : lockDifferences(manifest, lock.packages[file.replace(/\/?package\.json$/, "")])) {
      report(`has other ${kind} than package-lock.json; npm ci would refuse`);
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

const KINDS = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"] as const;

interface Lock {
  readonly packages: Readonly<Record<string, Manifest>>;
}

function lockOf(repository: Repository): Lock | null {
  const text = repository.files.get("package-lock.json");
  // npm writes it.
  return text === undefined ? null : (JSON.parse(text) as Lock);
}

function lockDifferences(manifest: Manifest, locked: Manifest | undefined): readonly string[] {
  const sorted = (record: Readonly<Record<string, string>> = {}): string =>
    JSON.stringify(Object.entries(record).toSorted(([a], [b]) => a.localeCompare(b)));
  return KINDS.filter((kind) => sorted(manifest[kind]) !== sorted(locked?.[kind]));
}
