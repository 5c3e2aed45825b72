// Build the explorer into the Python package: one script without imports, and the graphs that it shows.
import { build } from "esbuild";
import { fileURLToPath } from "node:url";
import path from "node:path";

const here = path.dirname(fileURLToPath(import.meta.url));
const target = process.argv[2] ?? path.join(here, "../src/armagnn/explore/static/explorer.js");

await build({
  entryPoints: [path.join(here, "src/main.ts")],
  outfile: target,
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "armagnnExplorer",
  target: ["es2022", "chrome111", "firefox113", "safari16.4"],
  charset: "utf8",
  legalComments: "none",
  loader: { ".css": "text" },
  logLevel: "warning",
});
