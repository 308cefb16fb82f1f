import { posix } from "node:path";
import type { Finding } from "../finding.ts";
import { isCode, isGenerated, isTest, type Repository } from "../repository.ts";

/**
 * Reads `layers.json`, which lists for every folder what it may import of ours (`imports`) and of others
 * (`outside`, packages only, Node's own modules are not listed). The list is exact: an import that is not
 * permitted fails, and so does a permission nobody uses. `never` pairs hold whatever the list says.
 */
export interface Layers {
  readonly layers: Readonly<Record<string, Layer>>;
  readonly never: readonly { readonly from: string; readonly to: string; readonly why: string }[];
}

export interface Layer {
  /** Folder, or file without its ending. */
  readonly path: string;
  /** True when only the files directly in the folder belong to it: each folder below needs a layer of its own. */
  readonly flat?: boolean;
  /** True for a folder of facts: pure, nothing in it waits. */
  readonly pure?: boolean;
  readonly imports: readonly string[];
  readonly outside?: readonly string[];
}

const RULE = "layers";

export function checkLayers(repository: Repository): readonly Finding[] {
  const text = repository.files.get("layers.json");
  if (text === undefined) {
    return [{ file: "layers.json", line: 0, rule: RULE, message: "is missing" }];
  }
  // The file is ours and its shape is what this module documents.
  return new LayerCheck(repository, JSON.parse(text) as Layers).run();
}

/** The same list with every layer's permissions replaced by what it uses today: to be read before it is committed. */
export function usedLayers(repository: Repository, layers: Layers): Layers {
  const check = new LayerCheck(repository, layers);
  check.run();
  const used = Object.entries(layers.layers).map(([name, layer]) => [name, { ...layer, ...check.usedBy(name) }]);
  return { ...layers, layers: Object.fromEntries(used) as Layers["layers"] };
}

class LayerCheck {
  readonly #repository: Repository;
  readonly #layers: Layers;
  readonly #findings: Finding[] = [];
  readonly #used = new Map<string, Set<string>>();
  readonly #usedOutside = new Map<string, Set<string>>();
  readonly #packages: ReadonlyMap<string, string>;

  constructor(repository: Repository, layers: Layers) {
    this.#repository = repository;
    this.#layers = layers;
    this.#packages = packageFolders(repository);
  }

  run(): readonly Finding[] {
    for (const path of this.#repository.files.keys()) {
      if (/^packages\/[^/]+\/src\//.test(path) && isCode(path) && !isTest(path)) {
        this.#checkFile(path);
      }
    }
    this.#checkUnused();
    return this.#findings;
  }

  usedBy(name: string): Pick<Layer, "imports" | "outside"> {
    const sorted = (map: ReadonlyMap<string, ReadonlySet<string>>): readonly string[] =>
      [...(map.get(name) ?? [])].toSorted();
    return { imports: sorted(this.#used), outside: sorted(this.#usedOutside) };
  }

  #checkFile(path: string): void {
    const from = this.#layerOf(path);
    if (from === null) {
      this.#report(path, 1, "belongs to no layer; declare its folder in layers.json");
      return;
    }
    const source = this.#repository.source(path);
    if (this.#layers.layers[from]?.pure === true && source.asyncAt !== null) {
      this.#report(path, source.asyncAt.line, `${from} holds facts: pure, nothing in it waits`);
    }
    for (const { from: specifier, line } of [...source.imports, ...source.reexports]) {
      if (specifier.startsWith(".")) {
        this.#checkOwn({ path, line, from, target: posix.join(posix.dirname(path), specifier) });
      } else if (!specifier.startsWith("node:")) {
        this.#checkPackage({ path, line, from, specifier });
      }
    }
  }

  #checkOwn(found: {
    readonly path: string;
    readonly line: number;
    readonly from: string;
    readonly target: string;
  }): void {
    if (!/^packages\/[^/]+\/src\//.test(found.target)) {
      return;
    }
    if (packageOf(found.target) !== packageOf(found.path)) {
      this.#report(found.path, found.line, "imports another package by path; import it by name");
      return;
    }
    const to = this.#layerOf(found.target);
    if (to !== null && to !== found.from) {
      this.#use(found, to);
    }
  }

  #checkPackage(found: {
    readonly path: string;
    readonly line: number;
    readonly from: string;
    readonly specifier: string;
  }): void {
    const name = packageName(found.specifier);
    const folder = this.#packages.get(name);
    if (folder !== undefined) {
      const to = this.#layerOf(`${folder}/src/index.ts`);
      if (to !== null) {
        this.#use(found, to);
      }
      return;
    }
    remember(this.#usedOutside, found.from, name);
    if (!(this.#layers.layers[found.from]?.outside ?? []).includes(name)) {
      this.#report(found.path, found.line, `${found.from} may not import the package ${name}`);
    }
  }

  #use(found: { readonly path: string; readonly line: number; readonly from: string }, to: string): void {
    remember(this.#used, found.from, to);
    const never = this.#layers.never.find((pair) => covers(pair.from, found.from) && covers(pair.to, to));
    if (never !== undefined) {
      this.#report(found.path, found.line, `${found.from} never imports ${to}: ${never.why}`);
    } else if (!this.#layers.layers[found.from]?.imports.includes(to)) {
      this.#report(found.path, found.line, `${found.from} may not import ${to}`);
    }
  }

  #checkUnused(): void {
    for (const [name, layer] of Object.entries(this.#layers.layers)) {
      for (const to of layer.imports.filter((one) => !this.#used.get(name)?.has(one))) {
        this.#report("layers.json", 0, `${name} may import ${to}, but nothing in it does`);
      }
      for (const to of (layer.outside ?? []).filter((one) => !this.#usedOutside.get(name)?.has(one))) {
        this.#report("layers.json", 0, `${name} may import the package ${to}, but nothing in it does`);
      }
      if (![...this.#repository.files.keys()].some((path) => this.#layerOf(path) === name)) {
        this.#report("layers.json", 0, `${name} holds no file`);
      }
    }
  }

  #layerOf(path: string): string | null {
    let best: string | null = null;
    let bestLength = -1;
    for (const [name, layer] of Object.entries(this.#layers.layers)) {
      const inside =
        path === `${layer.path}.ts` ||
        (path.startsWith(`${layer.path}/`) &&
          !(layer.flat === true && path.slice(layer.path.length + 1).includes("/")));
      if (inside && layer.path.length > bestLength) {
        best = name;
        bestLength = layer.path.length;
      }
    }
    return best;
  }

  #report(file: string, line: number, message: string): void {
    if (!isGenerated(file)) {
      this.#findings.push({ file, line, rule: RULE, message });
    }
  }
}

/** `core` covers `core/turn`; a name covers itself. */
function covers(outer: string, inner: string): boolean {
  return inner === outer || inner.startsWith(`${outer}/`);
}

function remember(map: Map<string, Set<string>>, key: string, value: string): void {
  const known = map.get(key) ?? new Set<string>();
  known.add(value);
  map.set(key, known);
}

function packageOf(path: string): string {
  return path.split("/").slice(0, 2).join("/");
}

function packageName(specifier: string): string {
  const parts = specifier.split("/");
  return specifier.startsWith("@") ? parts.slice(0, 2).join("/") : (parts[0] ?? specifier);
}

function packageFolders(repository: Repository): ReadonlyMap<string, string> {
  const folders = new Map<string, string>();
  for (const [path, text] of repository.files) {
    const folder = /^(packages\/[^/]+)\/package\.json$/.exec(path)?.[1];
    if (folder !== undefined) {
      // Every package.json has a name; npm refuses one without.
      folders.set((JSON.parse(text) as { readonly name: string }).name, folder);
    }
  }
  return folders;
}
