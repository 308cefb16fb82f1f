/**
 * The public surface of the packages that have users outside this repository, as one committed text each in `etc/`. A
 * change of the surface is a change of that text; every exported thing says what it does. `--write` accepts.
 */
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Extractor, ExtractorConfig, ExtractorLogLevel, type ExtractorMessage } from "@microsoft/api-extractor";

const root = join(import.meta.dirname, "..");
const REPORTED = ["contract", "client", "worker", "testkit"] as const;
const write = process.argv.includes("--write");

let failures = 0;
for (const name of REPORTED) {
  failures += report(name);
}
console.log(failures === 0 ? "reports: as committed" : `reports: ${failures} objections`);
process.exitCode = failures === 0 ? 0 : 1;

function report(name: (typeof REPORTED)[number]): number {
  const folder = join(root, "packages", name);
  const temporary = join(root, "node_modules", ".cache", "api-reports");
  mkdirSync(temporary, { recursive: true });
  const config = ExtractorConfig.prepare({
    configObject: {
      projectFolder: folder,
      mainEntryPointFilePath: join(folder, "dist", "index.d.ts"),
      compiler: { overrideTsconfig: compilerOptions(), skipLibCheck: true },
      apiReport: {
        enabled: true,
        reportFileName: name,
        reportFolder: join(root, "etc"),
        reportTempFolder: temporary,
        reportVariants: ["complete"],
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      newlineKind: "lf",
      messages: {
        // The report itself carries what is missing; only a changed report and a failed analysis end the check.
        extractorMessageReporting: { default: { logLevel: ExtractorLogLevel.None, addToApiReportFile: false } },
        tsdocMessageReporting: { default: { logLevel: ExtractorLogLevel.None, addToApiReportFile: false } },
      },
    },
    configObjectFullPath: undefined,
    packageJsonFullPath: join(folder, "package.json"),
  });
  mkdirSync(join(root, "etc"), { recursive: true });
  const said: string[] = [];
  const result = Extractor.invoke(config, {
    localBuild: write,
    messageCallback: (message: ExtractorMessage) => {
      message.handled = true;
      if (message.logLevel === ExtractorLogLevel.Error || message.messageId === "console-api-report-not-copied") {
        said.push(message.text);
      }
    },
  });
  if (result.apiReportChanged && !write) {
    said.push(
      `etc/${name}.api.md is not what the package exports; node tools/reports.ts --write, then review the change`,
    );
  }
  said.push(...undocumented(name, join(temporary, `${name}.api.md`)));
  for (const line of said) {
    console.log(`${name}: ${line}`);
  }
  return said.length;
}

function undocumented(name: string, file: string): readonly string[] {
  const lines = readFileSync(file, "utf8").split("\n");
  return lines.flatMap((line, at) =>
    /^\/\/ @\w+ .*\(undocumented\)|^\/\/ @\w+ \(undocumented\)/.test(line)
      ? [`${lines[at + 1]?.trim() ?? name} says nowhere what it does`]
      : [],
  );
}

/** The declarations were checked by the compiler of the repository; the extractor only has to find them. */
function compilerOptions(): object {
  return {
    compilerOptions: {
      target: "es2022",
      module: "nodenext",
      moduleResolution: "nodenext",
      lib: ["es2023", "esnext.disposable", "dom", "dom.iterable"],
      types: ["node"],
      strict: true,
      skipLibCheck: true,
    },
  };
}
