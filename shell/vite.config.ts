import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The built pages travel in the Python package. Nothing is inlined: the content security policy allows files alone.
export default defineConfig({
  base: "/",
  plugins: [react()],
  build: {
    outDir: "../src/demiurge/server/pages",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    sourcemap: false,
    reportCompressedSize: false,
    target: "es2022",
  },
  server: { proxy: { "/api": "http://127.0.0.1:7777", "/login": "http://127.0.0.1:7777" } },
});
