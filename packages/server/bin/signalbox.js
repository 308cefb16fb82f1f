#!/usr/bin/env node
// Committed as it runs, so that the command is linked at install, before anything is built.
import "../dist/main.js";
