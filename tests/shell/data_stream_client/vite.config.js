import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { defineConfig } from "vite";

// The built file is committed, so that the tests need no node. Its first line has the digest of what it is built from.
const sources = ["client.js", "package-lock.json", "vite.config.js"];
const digest = createHash("sha256");
for (const name of sources) digest.update(readFileSync(new URL(name, import.meta.url)));
const head = `/* built from ${digest.digest("hex")} */\n`;

export default defineConfig({
  define: { "process.env.NODE_ENV": '"production"' },
  build: {
    lib: { entry: "client.js", formats: ["iife"], name: "client", fileName: () => "built.js" },
    outDir: "built",
    minify: true,
    reportCompressedSize: false,
  },
  plugins: [{ name: "digest", generateBundle: (_, bundle) => void (bundle["built.js"].code = head + bundle["built.js"].code) }],
});
