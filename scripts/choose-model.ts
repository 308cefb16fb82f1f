/** Which model answers: a real one where a key or an Ollama is at hand, else the simulated one, and it is said which. */
const OLLAMA_URL = "http://127.0.0.1:11434";
const OLLAMA_WAIT_MS = 500;
const ANTHROPIC_MODEL = "claude-sonnet-5";

export interface ChosenModel {
  /** `provider/model` */
  readonly name: string;
  readonly disclosure: string;
  /** What the platform needs to reach it. */
  readonly environment: Readonly<Record<string, string>>;
}

export async function chooseModel(options: {
  readonly environment: NodeJS.ProcessEnv;
  readonly startSim: () => Promise<string>;
}): Promise<ChosenModel> {
  if (
    (options.environment.ANTHROPIC_API_KEY ?? "") !== "" ||
    (options.environment.ANTHROPIC_API_KEY_FILE ?? "") !== ""
  ) {
    return {
      name: `anthropic/${ANTHROPIC_MODEL}`,
      disclosure: `Model: ${ANTHROPIC_MODEL} at Anthropic, with your ANTHROPIC_API_KEY. This costs money.`,
      environment: {},
    };
  }
  const ollama = options.environment.OLLAMA_HOST ?? OLLAMA_URL;
  const local = await firstOllamaModel(/^https?:/.test(ollama) ? ollama : `http://${ollama}`);
  if (local !== null) {
    return {
      name: `ollama/${local}`,
      disclosure: `Model: ${local} on the Ollama at ${ollama}.`,
      environment: { OLLAMA_HOST: ollama },
    };
  }
  return {
    name: "sim/extractive-1",
    disclosure:
      "Model: sim, a simulation that quotes what the tools return. Set ANTHROPIC_API_KEY or start an Ollama for a real one.",
    environment: { SIGNALBOX_SIM_URL: await options.startSim() },
  };
}

async function firstOllamaModel(url: string): Promise<string | null> {
  try {
    const response = await fetch(new URL("/api/tags", url), { signal: AbortSignal.timeout(OLLAMA_WAIT_MS) });
    const { models } = (await response.json()) as { models?: readonly { readonly name: string }[] };
    return models?.[0]?.name ?? null;
  } catch {
    return null;
  }
}
