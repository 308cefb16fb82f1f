export { issueApiKey } from "./wiring/api-keys.ts";
export { startPlatform, type Platform, type PlatformOptions } from "./wiring/platform.ts";
