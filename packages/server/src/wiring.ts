export { startPlatform, type Platform, type PlatformOptions } from "./wiring/platform.ts";
